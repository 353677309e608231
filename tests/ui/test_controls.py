"""Knobs: what a link may hold, and how one knob limits another."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import FROM_TASK, ModelConfig, TrainConfig
from core.tasks import TASKS
from playground.ui import controls, link
from playground.ui.knob import Knob, nearest
from playground.ui.link import EVERY, TITLES


@pytest.fixture
def present(monkeypatch):
    """Pretend that the knobs stand at these values."""

    def pretend(**values):
        monkeypatch.setattr(controls, "present", lambda key: values.get(key, EVERY[key].default))

    return pretend


def ends(knob: Knob) -> list:
    """Every choice; of all whole numbers in a range the first and the last."""
    choices = knob.choices
    return [choices[0], choices[-1]] if isinstance(choices, range) else list(choices)


@pytest.mark.parametrize("knob", EVERY.values(), ids=EVERY)
def test_every_offered_value_survives_the_trip_through_a_link(knob: Knob):
    for choice in ends(knob):
        assert knob.read(knob.show(choice)) == choice


@pytest.mark.parametrize("knob", EVERY.values(), ids=EVERY)
def test_labels_of_a_knob_differ(knob: Knob):
    labels = [knob.show(choice) for choice in ends(knob)]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("knob", EVERY.values(), ids=EVERY)
def test_anything_else_is_refused_with_what_is_offered(knob: Knob):
    """UI-02"""
    texts = ["nonsense", "", "-1", "1_0", "--1", "nan", "inf", "1e999", "9" * 5000]
    if not (knob.between and isinstance(knob.choices[-1], float)):
        texts.append("1.5")
    for text in texts:
        with pytest.raises(ValueError, match="choose"):
            knob.read(text)


@pytest.mark.parametrize("text, value", [("0.002", 0.002), ("2e-3", 0.002), ("1e-5", 1e-5)])
def test_a_link_may_hold_a_learning_rate_between_the_offered_ones(text, value):
    assert EVERY["lr"].read(text) == value


@pytest.mark.parametrize("knob", EVERY.values(), ids=EVERY)
def test_the_default_is_offered(knob: Knob):
    assert knob.default in knob.choices


@pytest.mark.parametrize("config", [ModelConfig, TrainConfig])
def test_every_field_of_a_config_is_a_knob_with_the_same_default(config):
    for item in fields(config):
        if item.metadata and item.name not in FROM_TASK:
            assert EVERY[item.name].default == item.default
            assert EVERY[item.name].help == item.metadata["help"]


def test_every_knob_of_every_task_has_a_key_of_its_own():
    for name, task in TASKS.items():
        for item in fields(task):
            if item.metadata:
                assert EVERY[f"{name}_{item.name}"].default == item.default


@pytest.mark.parametrize("name", [*ModelConfig.hot(), *TrainConfig.hot()])
def test_every_offered_value_builds_a_config(name):
    knob = EVERY[name]
    config = ModelConfig if name in link.MODEL else TrainConfig
    for choice in ends(knob):
        others = {"steps": 10_000} if name == "warmup" else {}
        assert getattr(config(**{name: choice} | others), name) == choice


@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("d_model", EVERY["d_model"].choices)
def test_heads_offered_are_exactly_those_that_build(present, d_model, position):
    """XAT-03"""
    present(d_model=d_model, position=position)
    for heads in range(1, link.MAX_HEADS + 1):
        legal = heads in controls.heads_offered()
        try:
            ModelConfig(d_model=d_model, n_heads=heads, position=position)
        except ValueError:
            assert not legal
        else:
            assert legal


def test_warmups_offered_are_shorter_than_the_run(present):
    """TRN-02"""
    for steps in EVERY["steps"].choices:
        present(steps=steps)
        assert controls.warmups_offered()
        for warmup in controls.warmups_offered():
            TrainConfig(steps=steps, warmup=warmup)


@given(st.lists(st.integers(1, 64), min_size=1), st.integers(1, 64))
def test_nearest_is_legal_and_nothing_legal_is_nearer(legal, wanted):
    found = nearest(legal, wanted)
    assert found in legal
    assert all(abs(found - wanted) <= abs(other - wanted) for other in legal)


def test_a_refusal_names_both_numbers(present):
    """XAT-03"""
    present(d_model=24, position="rotary")
    assert controls.why_heads() == (
        "each head gets d_model/n_heads columns of 24, an even number for rotary positions"
    )


def test_every_title_holds_the_name_of_its_field():
    """What a link, a message or a verdict names is found on the page."""
    for field, title in TITLES.items():
        assert field.replace("_", " ") in title.lower().replace("_", " "), field
