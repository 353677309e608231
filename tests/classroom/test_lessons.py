"""Lessons: ours can be walked through, and a bad file is refused in words that help."""

import math

import pytest

from core.model import build_model
from playground.classroom import lessons
from playground.classroom.lessons import experiments, read
from playground.ui.page_list import PAGES

OURS = lessons.shipped(frozenset(PAGES))
STEPS = [(lesson, number) for lesson in OURS.values() for number in range(len(lesson.steps))]
PARTS = ("attention", "ffn")
HEAD = 'title = "T"\nminutes = 5\nfor_whom = "us"\n'
STEP = '[[steps]]\ntitle = "One"\ntext = "Read."\n'


def of(text: str, name: str = "mine.toml") -> lessons.Lesson:
    return read(name, text.encode(), PAGES)


def test_there_are_three_of_different_lengths():
    assert [lesson.minutes for lesson in OURS.values()] == [20, 45, 90]


@pytest.mark.parametrize("lesson, number", STEPS, ids=lambda value: getattr(value, "id", value))
def test_a_step_of_ours_asks_and_can_be_answered(lesson, number):
    step = lesson.steps[number]
    assert step.title and step.text and step.question
    assert step.answer or step.scenario or number == len(lesson.steps) - 1
    assert step.look_for or not step.page
    one = experiments(lesson).get(number)
    if one is not None:
        results = {
            name: dict.fromkeys(lessons.scenarios.MEASURES, (0.125,))
            for name in (*one.names, *lessons.scenarios.REFERENCES)
        }
        said = step.answered(results)
        assert said and "{" not in said
        assert "…" in step.answered() or "{" not in (step.answer or one.why)


def test_the_numbers_in_the_texts_of_ours_are_right():
    first = OURS["sqrt-dk"].steps[0]
    for width in (8, 32, 128):
        assert f"{math.sqrt(width):.1f}" in first.answer
    base = OURS["block"].steps[3].spec
    assert 2 * base.model.n_layers == 8  # "eight sub-layers", in the step before
    model = build_model(base.model, 0)
    weights = {n: p.numel() for n, p in model.blocks[0].named_parameters() if p.ndim == 2}
    squares = {
        part: sum(n for name, n in weights.items() if part in name) / 64**2 for part in PARTS
    }
    assert squares == {"attention": 4, "ffn": 8} and sum(weights.values()) == 12 * 64**2


def test_what_a_file_says_is_what_the_lesson_is():
    lesson = of(
        HEAD
        + 'about = "Why."\n'
        + STEP
        + 'page = "compare"\nknobs = { scale = "none", d_ff = "4·d_model" }\nseeds = 2\n'
        + 'turn = ["lr"]\nshow = ["scale"]\nquestion = "Q?"\nlook_for = "L"\nlines = 5\n'
        + 'variants."divided" = { scale = "sqrt_d_head" }\n'
        + 'answer = "{loss of set-up} against {loss of divided}"\n'
        + STEP
        + 'page = "scaling"\nknobs = { scaling_width = 64 }\n'
        + STEP
        + 'scenario = "leak"\n'
    )
    assert (lesson.id, lesson.minutes, lesson.about) == ("mine", 5, "Why.")
    first, second, third = lesson.steps
    assert first.spec.model.scale == "none" and first.link == "scale=√d_k"
    assert (first.turn, first.show, first.lines, first.seeds) == (("lr",), ("scale",), 5, 2)
    assert first.measured.names == ("set-up", "divided") and first.measured.seeds == 2
    assert second.knobs == (("scaling_width", "64"),) and second.measured is None
    assert third.page == "scenarios" and third.measured.id == "leak"
    numbers = {"set-up": {"loss": (2.0,)}, "divided": {"loss": (0.5,)}}
    assert first.answered(numbers) == "2.000 against 0.500"
    assert first.answered() == "… against …"


@pytest.mark.parametrize(
    "text, says",
    [
        ("title = ", "mine.toml: it is not TOML"),
        ("", "mine.toml: field title, minutes, for_whom, steps is missing"),
        (HEAD + "steps = []", "mine.toml: 0 steps: give 1 to 40"),
        (HEAD + STEP + STEP + "colour = 1", "mine.toml: step 2: unknown field colour"),
        (HEAD + '[[steps]]\ntitle = "x"', "step 1: field text is missing"),
        (HEAD + STEP + 'lines = "3"', "step 1: lines='3'"),
        (HEAD + STEP + "lines = 41", "step 1: lines=41: give 0 to 40"),
        (HEAD + STEP + 'page = "moon"', "step 1: page=moon: choose one of home, playground"),
        (HEAD + STEP + 'scenario = "moon"', "step 1: scenario=moon: choose one of scaling-saves"),
        (HEAD + STEP + 'scenario = "leak"\npage = "home"', "step 1: page=home: a scenario is on"),
        (HEAD + STEP + 'page = "playground"\nknobs = { lr = -1 }', "step 1: knobs: lr=-1"),
        (
            HEAD + STEP + 'page = "playground"\nknobs = { speed = 1 }',
            "step 1: knobs: unknown field speed",
        ),
        (
            HEAD + STEP + 'page = "scaling"\nknobs = { lr = 1 }',
            "step 1: knobs: lr is not a knob of",
        ),
        (HEAD + STEP + "knobs = { lr = 1 }", "step 1: knobs: lr is not a knob of the page (none)"),
        (HEAD + STEP + 'page = "compare"\nvariants.a = { }', "step 1: variants: a: {}: it is"),
        (HEAD + STEP + "variants.a = { lr = 1 }", "step 1: variants: only the pages playground"),
        (HEAD + STEP + 'page = "compare"\nseeds = 99', "step 1: seeds=99: give 1 to 10"),
        (HEAD + STEP + 'turn = ["a b"]', "step 1: turn: give a list of names of knobs"),
        (HEAD + STEP + "show = [1]", "step 1: show: give a list of names of knobs"),
        (HEAD + STEP + 'answer = "{loss of a}"', "step 1: answer: a step without runs"),
        (
            HEAD + STEP + 'page = "playground"\nanswer = "{loss of b}"',
            "step 1: answer: 'b': no such run; there are set-up",
        ),
        (
            HEAD + STEP + 'page = "playground"\nanswer = "{beauty of set-up}"',
            "step 1: answer: beauty of set-up: choose one of loss",
        ),
        (HEAD.replace("5", "0") + STEP, "mine.toml: minutes=0: give 1 to 600"),
        (HEAD.replace('"us"', "[]") + STEP, "mine.toml: for_whom=[]"),
        (HEAD + "steps = [1]", "mine.toml: step 1: 1: expected"),
    ],
)
def test_a_bad_file_is_refused_with_file_step_field_and_rule(text, says):
    with pytest.raises(ValueError) as refusal:
        of(text)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    "data, says",
    [
        (b"\xff\xfe\x00", "it is not UTF-8"),
        (b"#" * (lessons.MAX_BYTES + 1), "more than 100,000 bytes"),
        (b"a = " + b"[" * 50_000, "it is not TOML"),
    ],
)
def test_what_is_no_text_of_a_usual_size_is_refused(data, says):
    with pytest.raises(ValueError, match=says):
        read("mine.toml", data, PAGES)


def test_a_lesson_is_called_after_its_file_in_letters_that_a_link_can_hold():
    assert of(HEAD + STEP, "Über √d_k (2).TOML").id == "ber-d-k-2"
    with pytest.raises(ValueError, match="give the file a name of letters"):
        of(HEAD + STEP, "√.toml")
    for lesson in OURS.values():
        assert lessons.read_name(lesson.id) == lesson.id


def test_in_a_folder_a_bad_file_does_not_hide_the_good_ones(tmp_path):
    (tmp_path / "good.toml").write_text(HEAD + STEP, encoding="utf-8")
    (tmp_path / "bad.toml").write_text("title = 1", encoding="utf-8")
    found, problems = lessons.in_folder(tmp_path, PAGES)
    assert list(found) == ["good"]
    assert len(problems) == 1 and problems[0].startswith("bad.toml: ")
    assert lessons.in_folder(tmp_path / "none", PAGES) == ({}, ())


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "99", "x", "", "٣"])
def test_the_number_of_a_step_is_a_small_whole_number(text):
    assert lessons.read_number("1") == "1"
    with pytest.raises(ValueError, match="from 1 to 40"):
        lessons.read_number(text)
