"""Scenarios: data that says what it measures, and a page that asks before it shows."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from check_scenarios import check, lines, main
from helpers import fine, opened, texts
from playground.experiments import scenarios
from playground.experiments.scenarios import MEASURES, Scenario, load, read
from playground.experiments.variants import read_link
from playground.runs import estimate
from playground.runs.limits import check_limits
from playground.runs.pool import Runs
from playground.ui import controls

ALL = load()
PAGE = "app_pages/scenarios.py"

GOOD = """
[tiny]
title = "Tiny"
question = "Does it matter?"
change = "One thing."
watch = "The loss."
why = "Because."
base.task = "copy"
base.length = 3
base.d_model = 8
base.n_heads = 1
base.n_layers = 1
base.batch_size = 4
base.steps = 50
name = "base"
variants.other = { scale = "none" }
seeds = 1
expected = "same"
[tiny.outcomes.worse]
say = "The other ends far above."
when = [{ what = "loss", of = "other", minus = "base", above = 5.0 }]
[tiny.outcomes.same]
say = "No."
"""


# --- the playground's own -------------------------------------------------------------------


def test_there_are_enough_scenarios_and_no_two_alike():
    assert len(ALL) >= 12
    assert len({scenario.title for scenario in ALL.values()}) == len(ALL)
    assert len({scenario.setup for scenario in ALL.values()}) == len(ALL)


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
class TestEachScenario:
    def test_every_run_can_start(self, scenario: Scenario):
        for spec in scenario.setup.specs:
            check_limits(spec)
        assert len(set(scenario.setup.specs)) == len(scenario.names)

    def test_its_link_gives_the_same_setup(self, scenario: Scenario):
        found = read_link(scenario.link, scenario.base)
        assert found.left_out == () and found.specs == scenario.setup.specs

    def test_the_knobs_can_be_turned_to_its_base(self, scenario: Scenario):
        assert controls.knobs_of(scenario.base)["task"] == scenario.base.task.name
        assert scenario.seeds in (1, 2, 3, 5, 10), "what the slider of the Compare page offers"

    def test_a_number_that_is_claimed_can_be_measured(self, scenario: Scenario):
        """`expected` and every other outcome but the last can come: some numbers lead there."""
        reached = {scenario.outcome(found).name for found in tried(scenario)}
        assert reached == {outcome.name for outcome in scenario.outcomes}

    def test_it_is_short(self, scenario: Scenario):
        assert scenario.base.training.steps <= 300
        assert len(scenario.names) * scenario.seeds <= 6
        assert len(scenario.question) < 120 and len(scenario.title) < 40


LEVELS = {
    "loss": (0.01, 0.4, 1.2, 2.4, math.inf),
    "validation": (0.01, 0.2, 0.31, 0.6),
    "accuracy": (0.1, 1.0),
    "free": (0.2, 0.7, 1.0),
    "diverged": (0.0, 1.0),
    "steps": (50.0, math.inf),
}


def tried(scenario: Scenario):
    """Made-up results: the measures that its conditions name, at every level, for every run."""
    named = {(c.of, c.what) for o in scenario.outcomes for c in o.when}
    named |= {
        (c.minus or c.over, c.what) for o in scenario.outcomes for c in o.when if c.minus or c.over
    }
    asked = sorted((run, what) for run, what in named if run in scenario.names)
    nothing = {name: {key: (math.nan,) for key in MEASURES} for name in scenario.names}
    for values in itertools.product(*(LEVELS[what] for _, what in asked)):
        found = {name: dict(numbers) for name, numbers in nothing.items()}
        for (run, what), value in zip(asked, values, strict=True):
            found[run][what] = (value,) * scenario.seeds
        if any(_contradicts(numbers) for numbers in found.values()):
            continue
        yield found | scenario.references


AT_CHANCE = 0.2  # nats: what a sentence may call so


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_a_run_that_is_said_to_stay_at_chance_is_near_it(scenario):
    for outcome in scenario.outcomes:
        if "at chance" in outcome.say or "leaves chance" in outcome.say:
            near = [c for c in outcome.when if c.minus == "chance"]
            assert near, outcome.say
            assert all(-AT_CHANCE <= c.above < 0 < c.below <= AT_CHANCE for c in near)


def _contradicts(numbers: dict[str, tuple[float, ...]]) -> bool:
    """A run that diverged has an infinite loss, and no other has."""
    (loss, *_), (diverged, *_) = numbers["loss"], numbers["diverged"]
    if math.isnan(loss) or math.isnan(diverged):
        return False
    return math.isinf(loss) != (diverged == 1)


@settings(max_examples=30, deadline=None)
@given(st.data())
@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_whatever_comes_out_is_exactly_one_outcome(scenario, data):
    """Losses that are no numbers and seeds that disagree too."""
    number = st.floats(0, 5) | st.just(math.inf) | st.just(math.nan)
    found = {
        name: {key: tuple(data.draw(number) for _ in range(scenario.seeds)) for key in MEASURES}
        for name in scenario.names
    } | scenario.references
    happened = scenario.outcome(found)
    first = next(o for o in scenario.outcomes if all(c.holds(found) for c in o.when))
    assert happened == first and sum(o is happened for o in scenario.outcomes) == 1


# --- conditions -----------------------------------------------------------------------------


def holds(a, b=(), **words) -> bool:
    side = {"minus": "b"} if b and "over" not in words else {}
    found = {"a": {"loss": a}, "b": {"loss": b}}
    return scenarios.Condition("loss", "a", **(side | words)).holds(found)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 3), min_size=1, max_size=3),
    st.lists(st.floats(0, 3), min_size=1, max_size=3),
    st.floats(-1, 1),
)
def test_a_difference_has_to_hold_for_every_pair(a, b, bound):
    assert holds(a, b, above=bound) == all(x - y > bound for x in a for y in b)
    assert holds(a, b, below=bound) == all(x - y < bound for x in a for y in b)


def test_conditions_on_one_run_and_ratios():
    assert holds((0.1, 0.2), below=0.3) and not holds((0.1, 0.4), below=0.3)
    assert holds((0.1, 0.2), above=0.05, below=0.3) and not holds((0.1, 0.2), above=0.15)
    assert holds((2.0,), (1.0,), over="b", above=1.5) and not holds(
        (2.0,), (0.0,), over="b", above=1.5
    )


def test_a_diverged_run_lies_above_everything_and_what_is_not_there_nowhere():
    assert holds((math.inf,), (1.0,), above=100)
    assert not holds((math.inf,), (math.inf,), above=0) and not holds(
        (math.inf,), (math.inf,), below=0
    )
    assert not holds((math.nan,), below=1) and not holds((math.nan,), above=-1)
    assert not holds((), above=0)


# --- the file -------------------------------------------------------------------------------


def test_a_table_is_all_that_a_scenario_takes():
    scenario = read(GOOD)["tiny"]
    assert scenario.base.task.length == 3 and scenario.base.model.d_model == 8
    assert scenario.names == ("base", "other") and scenario.link == "scale=none"
    assert scenario.outcomes[1].when == () and scenario.shown == ("accuracy",)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "Tiny"', "", ["field title is missing"]),
        ('title = "Tiny"', "title = 3", ["title=3", "expected a string"]),
        ('title = "Tiny"', 'title = "Tiny"\ncolour = "red"', ["unknown field colour"]),
        ("length = 3", "lenght = 3", ["base", "lenght"]),
        ("length = 3", "length = 300", ["length=300", "at most 64"]),
        ("n_heads = 1", "n_heads = 3", ["n_heads=3", "d_model=8"]),
        ("length = 3", "length = 3\nbase.seed = 1", ["base", "seed"]),
        ('scale = "none"', 'scale = "half"', ["variants: other", "scale='half'"]),
        ('scale = "none"', 'scale = "√d_k"', ["base itself"]),
        ('scale = "none"', "seed = 1", ["variants: other", "seed"]),
        ('{ scale = "none" }', '"scale=none"', ["variants: other", "expected an object"]),
        ('name = "base"', 'name = "other"', ["must differ"]),
        ("seeds = 1", "seeds = 11", ["seeds=11"]),
        ('expected = "same"', 'expected = "better"', ["expected=better"]),
        ("seeds = 1", "seeds = 1\nearly.nobody = 3", ["early: nobody", "base, other"]),
        ("seeds = 1", "seeds = 1\nearly.other = 0", ["early: other", "0"]),
        ('of = "other"', 'of = "nobody"', ["worse", "'nobody'", "base, other"]),
        ('what = "loss"', 'what = "luck"', ["what=luck", "accuracy"]),
        (", above = 5.0", "", ["above, below"]),
        ('minus = "base"', 'minus = "base", over = "base"', ["minus and over"]),
        ('minus = "base"', 'minus = "chance"', None),
        (
            'what = "loss", of = "other", minus = "base"',
            'what = "free", of = "other", minus = "chance"',
            ["chance", "free"],
        ),
        ("when = [{ what", "whom = [{ what", ["whom"]),
        (
            'say = "No."',
            'say = "No."\nwhen = [{ what = "loss", of = "base", above = 1 }]',
            ["last outcome"],
        ),
    ],
)
def test_a_mistake_in_the_file_is_named(old, new, words):
    assert old in GOOD
    text = GOOD.replace(old, new)
    if words is None:
        assert read(text)
        return
    with pytest.raises(ValueError) as error:
        read(text)
    assert all(word in str(error.value) for word in ["scenario tiny", *words]), error.value


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("{luck of base}", "choose one of loss"),
        ("{loss of nobody}", "'nobody': no such run"),
        ("{accuracy of chance}", "chance: the task has none of measure accuracy"),
    ],
)
def test_a_place_that_cannot_be_filled_is_named(place, words):
    text = GOOD.replace('why = "Because."', f'why = "Because of {place}."')
    with pytest.raises(ValueError, match="why") as error:
        read(text)
    assert words in str(error.value)


# --- measured -------------------------------------------------------------------------------


def test_what_is_measured_is_what_the_runs_did():
    runs = Runs(workers=1)
    scenario = read(GOOD)["tiny"]
    try:
        found = check(scenario, runs)
    finally:
        runs.close()
    numbers = found.results["base"]
    assert 0 < numbers["loss"][0] < 4 and 0 <= numbers["free"][0] <= 1
    assert numbers["diverged"] == (0.0,)
    assert found.outcome.name == "same" and lines(scenario, found)[0].startswith(
        "holds  tiny: same"
    )
    assert np.isclose(found.results["chance"]["loss"][0], math.log(10))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clipping", "no-warmup"])
def test_the_stated_contrast_appears(name, capsys):
    """Two of them, one seed each; `python -m tests.check_scenarios` trains them all."""
    assert main(["--only", name, "--seeds", "1"]) == 0, capsys.readouterr().out


# --- the page -------------------------------------------------------------------------------


def buttons(test: AppTest) -> set[str]:
    return {button.key for button in test.button}


@pytest.fixture
def tiny(monkeypatch) -> Scenario:
    """A gallery of one quick scenario."""
    found = read(GOOD)
    monkeypatch.setattr(scenarios, "load", lambda: found)
    return found["tiny"]


def test_the_gallery_has_a_card_for_each_and_a_card_opens_its_scenario():
    test = opened("scenarios")
    assert {f"open_{name}" for name in ALL} <= buttons(test)
    for scenario in ALL.values():
        assert scenario.title in texts(test.markdown) and scenario.question in texts(test.markdown)
    fine(test.button(key="open_leak").click().run())
    said = texts(test.markdown)
    assert ALL["leak"].question in said and ALL["leak"].watch in said
    assert ALL["leak"].why not in said and ALL["padding"].question not in said
    assert test.selectbox(key="scenario").value == "leak"


def test_every_scenario_opens():
    test = opened("scenarios")
    for name, scenario in ALL.items():
        fine(test.selectbox(key="scenario").set_value(name).run())
        assert scenario.question in texts(test.markdown)
        assert len(test.radio[0].options) == len(scenario.outcomes)


def test_a_link_to_a_scenario_that_is_not_there_says_so():
    test = opened("scenarios", scenario="chess")
    assert "scenario=chess" in texts(test.warning)
    assert "open_leak" in buttons(test)


def test_a_prediction_comes_before_play_unless_it_is_skipped():
    test = opened("scenarios", scenario="leak")
    assert test.button(key="play").disabled
    fine(test.radio(key="expect_leak").set_value("better").run())
    assert not test.button(key="play").disabled
    assert "skip" not in buttons(test)
    fine(test.selectbox(key="scenario").set_value("padding").run())
    assert test.button(key="play").disabled
    fine(test.button(key="skip").click().run())
    assert not test.button(key="play").disabled


def finish(test: AppTest) -> AppTest:
    end = time.monotonic() + 120
    while "to_compare" not in buttons(test):
        assert time.monotonic() < end
        time.sleep(0.05)
        fine(test.run())
    return test


@pytest.mark.parametrize(
    ("chosen", "mark"), [("same", "as you predicted"), ("worse", "not as you predicted")]
)
def test_predict_run_compare(tiny, chosen, mark):
    """The reason comes last, beside what was said and what was measured."""
    test = opened("scenarios", scenario="tiny")
    knobs = test.session_state.choice.spec
    fine(test.radio(key="expect_tiny").set_value(chosen).run())
    assert "Because." not in texts(test.markdown)
    fine(test.button(key="play").click().run())
    assert not test.radio and "You predict:" in texts(test.markdown)
    finish(test)
    said = texts(test.markdown)
    predicted = next(o.say for o in tiny.outcomes if o.name == chosen)
    assert f"You predicted: **{predicted}**" in said and "Measured: **No.**" in said
    assert "Because." in said and 'data-verdict="' in texts(test.html)
    assert test.session_state.choice.spec == knobs, "the sidebar is left alone"
    assert test.session_state.controller.run is None
    fine(test.button(key="all").click().run())
    assert mark in texts(test.caption)


def test_an_estimate_counts_what_breaks_down_early_and_there_is_none_once_it_runs(monkeypatch):
    early = GOOD.replace('"Tiny"', '"Short"') + "[tiny.early]\nbase = 1\nother = 1\n"
    found = read(GOOD) | {"short": read(early)["tiny"]}
    monkeypatch.setattr(scenarios, "load", lambda: found)
    counted = []
    monkeypatch.setattr(
        estimate,
        "seconds_together",
        lambda specs, *_: counted.append([spec.training.steps for spec in specs]) or 77.0,
    )
    opened("scenarios", scenario="short")
    test = opened("scenarios", scenario="tiny")
    assert counted == [[1, 1], [50, 50]] and "about 77 s" in texts(test.caption)
    fine(test.button(key="skip").click().run())
    fine(test.button(key="play").click().run())
    assert "77 s" not in texts(test.caption)
    assert "Measured:" in texts(test.markdown), "where the answer will stand"
    assert "Attention side by side" in texts(test.subheader), "maps from the first second"
    finish(test)
    assert "77 s" not in texts(test.caption)


def test_the_box_shows_titles_and_a_link_may_hold_either_name():
    test = opened("scenarios", scenario="leak")
    assert test.selectbox(key="scenario").options == [s.title for s in ALL.values()]
    assert test.selectbox(key="scenario").value == "leak" and not test.warning
    test = opened("scenarios", scenario=ALL["leak"].title)
    assert test.selectbox(key="scenario").value == "leak" and not test.warning


def test_starting_again_asks_again(tiny):
    test = opened("scenarios", scenario="tiny")
    fine(test.button(key="skip").click().run())
    fine(test.button(key="play").click().run())
    finish(test)
    assert "You predicted" not in texts(test.markdown)
    fine(test.button(key="reset").click().run())
    assert test.button(key="play").disabled and "skip" in buttons(test)
    assert test.radio(key="expect_tiny").value is None


def test_it_leaves_the_compare_page_alone_until_it_is_taken_there_or_into_the_playground(tiny):
    test = opened("scenarios", scenario="tiny", d_ff="32")
    fine(test.button(key="skip").click().run())
    fine(test.button(key="play").click().run())
    finish(test)
    fine(test.switch_page("app_pages/compare.py").run())
    assert test.session_state.compared.setup is None
    fine(test.switch_page(PAGE).run())
    fine(test.button(key="to_compare").click().run())
    assert test.text_input(key="variants").value == "scale=none"
    assert test.select_slider(key="seeds").value == 1
    assert test.session_state.choice.spec == tiny.base
    fine(test.switch_page(PAGE).run())
    fine(test.select_slider(key="d_model").set_value(16).run())
    fine(test.selectbox(key="scenario").set_value("tiny").run())
    fine(test.button(key="to_playground").click().run())
    assert "play" in buttons(test) and test.session_state.choice.spec == tiny.base
