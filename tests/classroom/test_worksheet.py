"""A lesson on paper: all of it is there, with space or with answers, and no tag of its own."""

import re
from html.parser import HTMLParser

import pytest

from playground.classroom import lessons
from playground.classroom.worksheet import as_html, as_markdown, to_html
from playground.ui.page_list import PAGES

OURS = list(lessons.shipped(frozenset(PAGES)).values())


@pytest.mark.parametrize(
    "text, found",
    [
        ("one\ntwo\n\nthree", "<p>one two</p><p>three</p>"),
        ("**a** and *b* and `c*d*`", "<p><b>a</b> and <i>b</i> and <code>c*d*</code></p>"),
        ("d_k * 2 * n_heads, x*y", "<p>d_k * 2 * n_heads, x*y</p>"),
        ("- a\n- b\n  c", "<ul><li>a</li><li>b c</li></ul>"),
        ("First:\n1. a\n2. b", "<p>First:</p><ol><li>a</li><li>b</li></ol>"),
        ("<b>x</b> & ![i](http://h/z)", "<p>&lt;b&gt;x&lt;/b&gt; &amp; ![i](http://h/z)</p>"),
        ("`<i>`", "<p><code>&lt;i&gt;</code></p>"),
        ("", ""),
    ],
)
def test_the_small_part_of_markdown_that_there_is(text, found):
    assert to_html(text) == found


class Tags(HTMLParser):
    """Whether every tag that is opened is closed, and which there are."""

    ALONE = ("meta", "!doctype")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert not {"src", "href", "onload"} & {name for name, _ in attrs}, "nothing is fetched"
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("lesson", OURS, ids=lambda lesson: lesson.id)
@pytest.mark.parametrize("answered", [False, True])
def test_a_sheet_has_every_step_and_answers_or_space_for_them(lesson, answered):
    links = [f"http://h/{number}" for number in range(len(lesson.steps))]
    answers = [f"it is {number}" for number in range(len(lesson.steps))] if answered else None
    page = as_html(lesson, links, answers)
    tags, markdown = Tags(page), as_markdown(lesson, links, answers)
    for number, step in enumerate(lesson.steps):
        assert step.title in tags.text and step.title in markdown
        assert links[number] in tags.text and links[number] in markdown
        assert (f"it is {number}" in tags.text) == (f"it is {number}" in markdown) == answered
    space = 0 if answered else sum(step.lines for step in lesson.steps if step.question)
    assert page.count('<div class="space">') == len(re.findall("^_+$", markdown, re.M)) == space
    assert ("Name:" in tags.text) != answered
    assert "@page" in page and "script" not in tags.seen


def test_what_a_lesson_says_is_no_tag():
    data = b'title = "<script>"\nminutes = 1\nfor_whom = "<a>"\n[[steps]]\ntitle = "<b>"\n'
    lesson = lessons.read("a.toml", data + b'text = "<img src=x>"\nquestion = "<i>"\n', PAGES)
    tags = Tags(as_html(lesson, ["<u>"], ["<em>"]))
    assert not tags.seen & {"script", "a", "img", "u", "em"}
    assert all(word in tags.text for word in ("<script>", "<a>", "<img src=x>", "<u>", "<em>"))
