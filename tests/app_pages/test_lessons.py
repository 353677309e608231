"""The page of the lessons, and the bar beside what they are about, without a browser."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from helpers import as_seen, find, fine, opened, texts, until
from playground.classroom import lessons
from playground.ui import lesson as ui
from playground.ui.allowed import Allowed
from playground.ui.page_list import PAGES

OURS = lessons.shipped(frozenset(PAGES))
STEPS = [
    pytest.param(name, number, id=f"{name}-{number + 1}")
    for name, lesson in OURS.items()
    for number, step in enumerate(lesson.steps)
    if step.page
]
HEAD = b'title = "Mine"\nminutes = 5\nfor_whom = "us"\n'
QUICK = (
    HEAD
    + b'[[steps]]\ntitle = "One"\ntext = "Read."\nquestion = "Q?"\npage = "playground"\n'
    + b"knobs = { steps = 3, d_model = 8, n_heads = 1, n_layers = 1, batch_size = 2 }\n"
    + b'answer = "It is {loss of set-up}."\n'
)


def press(test: AppTest, key: str) -> AppTest:
    return fine(test.button(key=key).click().run())


def step_of(test: AppTest) -> tuple[str, int]:
    lesson, number = test.session_state.lesson_now
    return lesson.id, number


def test_a_lesson_is_chosen_read_with_back_and_next_and_left():
    test = opened("lessons")
    press(test, "open_lesson_block")
    assert step_of(test) == ("block", 0) and find(test, "button", "step_back").disabled
    press(press(test, "step_next"), "step_next")
    press(test, "step_back")
    assert step_of(test) == ("block", 1)
    press(test, "all_lessons")
    assert test.session_state.lesson_now is None and find(test, "button", "open_lesson_block")


@pytest.mark.parametrize("name, number", STEPS)
def test_a_step_opens_its_page_as_it_is_to_be_set_up_and_so_does_its_link(name, number):
    step = OURS[name].steps[number]
    test = press(opened("lessons", lesson=name, at=str(number + 1)), "lesson_open")
    link = urlsplit(ui.address_of(OURS[name], number, "http://h"))
    said = dict(parse_qsl(link.query))
    page = link.path.strip("/") or "playground"
    assert page == step.page
    for there in (test, opened(page, **said)):
        assert not there.warning and not there.error
        assert step_of(there) == (name, number)
        assert there.session_state.allowed == Allowed(step.turn, step.show)
        assert find(there, "button", "lesson_leave") and find(there, "button", "step_back")
        if step.spec is not None:
            assert there.session_state.choice.spec == step.spec
        for key, text in step.knobs:
            knob = ui.KEYS[key]
            assert there.session_state[key] == knob.read(text)
        if step.scenario:
            assert there.session_state.scenario == step.scenario
        if step.page == "compare":
            assert there.session_state.variants == step.link
    if step.turn:
        assert find(test, "button", "all_knobs")


def test_next_in_the_bar_opens_the_next_page_and_what_has_none_is_read():
    test = opened("scenarios", scenario="scaling-idle", lesson="sqrt-dk", at="5")
    press(test, "step_next")
    assert step_of(test) == ("sqrt-dk", 5)
    assert not find(test, "button", "lesson_leave"), "the page of the lessons has no bar"
    test = opened("scenarios", lesson="sqrt-dk", at="5")
    assert press(test, "lesson_leave").session_state.lesson_now is None


def test_a_run_of_the_step_before_is_put_away_and_not_turned():
    test = opened(lesson="sqrt-dk", at="4", d_model="16", n_layers="1", steps="50", batch_size="2")
    press(test, "step")
    until(test, lambda t: len(t.session_state.controller.view.loss) == 1)
    press(press(test, "lesson_read"), "lesson_open")
    controller = test.session_state.controller
    assert controller.run is None and controller.spec.model.scale == "none"


@pytest.mark.parametrize(
    "link, says",
    [
        ({"lesson": "nothing"}, "there is no such lesson here"),
        ({"lesson": "![i](http://h/z.png)"}, "give the name of a lesson"),
        ({"lesson": "block", "at": "39"}, "the last one is shown"),
        ({"lesson": "block", "at": "0"}, "choose a whole number from 1 to 40"),
        ({"at": "x"}, "choose a whole number from 1 to 40"),
    ],
)
@pytest.mark.parametrize("page", ["lessons", "playground", "scaling"])
def test_what_a_link_says_of_no_lesson_is_said_and_ignored(page, link, says):
    test = opened(page, **link)
    assert says in as_seen(texts(test.warning))
    now = test.session_state.lesson_now
    assert (now is None) == (link.get("lesson") != "block")
    assert now is None or now[1] == (len(OURS["block"].steps) - 1 if link["at"] == "39" else 0)


# --- a lesson of one's own --------------------------------------------------------------------


def upload(data: bytes, name: str = "mine.toml") -> AppTest:
    test = opened("lessons")
    test.file_uploader(key="lesson_file").upload(name, data)
    return fine(test.run())


def test_a_file_is_added_and_opened():
    test = upload(QUICK)
    assert step_of(test) == ("mine", 0)
    assert find(press(test, "all_lessons"), "button", "open_lesson_mine")


def test_a_bad_file_is_named_with_its_step_and_field_and_nothing_is_added():
    test = upload(HEAD + b'[[steps]]\ntitle = "![i](http://h/z.png)"\nlines = 3\n')
    said = as_seen(texts(test.error))
    assert "mine.toml: step 1: field text is missing" in said and "Nothing has been added" in said
    assert test.session_state.lesson_now is None and not test.session_state.added_lessons


def test_what_lies_in_the_data_folder_is_there_too_and_a_bad_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PLAYGROUND_DATA", str(tmp_path))
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "ours.toml").write_bytes(QUICK)
    (tmp_path / "lessons" / "broken.toml").write_text("title = 1")
    test = opened("lessons")
    assert find(test, "button", "open_lesson_ours")
    assert "broken.toml: field minutes, for_whom, steps is missing" in as_seen(texts(test.warning))
    assert step_of(opened(lesson="ours", at="1")) == ("ours", 0)


def test_the_answers_are_measured_by_training_what_they_are_about():
    test = press(upload(QUICK), "measure_answers")
    key = next(iter(test.session_state.lesson_answers))
    until(test, lambda t: t.session_state.lesson_answers[key].done)
    fine(test.run())
    (loss,) = test.session_state.lesson_answers[key].results[0]["set-up"]["loss"]
    assert f"It is {loss:.3f}." in texts(test.html)
    assert find(test, "download_button", "sheet_answers_html")
