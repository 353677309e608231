"""The Compare page where there is nothing to compare, and what its figures may draw for all."""

import math

import pytest
from streamlit.testing.v1 import AppTest

from helpers import opened, texts
from playground.experiments.scenarios import plain
from playground.experiments.series import Series
from playground.runs.snapshot import Frame
from playground.runs.spec import Spec
from playground.runs.view import Record, Status
from playground.ui.compare_panels import results
from playground.ui.run_panels import references


@pytest.mark.parametrize("variants", ["", "scale=wide; hats=3"])
def test_with_no_variant_the_page_says_what_to_do(variants):
    test = opened("compare", variants=variants)
    assert len(test.info) == 1 and test.button(key="play").disabled


def test_why_variants_are_left_out_stands_in_one_warning():
    (warning,) = opened("compare", variants="scale=wide; hats=3; norm=pre").warning
    assert "scale" in warning.value and "hats" in warning.value


def test_with_a_variant_it_stands_ready():
    test = opened("compare", variants="norm=pre")
    assert len(test.info) == 1 and not test.button(key="play").disabled
    assert not test.warning


def captions(*changes: dict) -> str:
    """What is said of the base and of runs that differ from it so."""

    def page(specs):
        from playground.ui.run_panels import say_apart

        say_apart(specs)

    specs = {str(change): plain().changed(change.items()) for change in ({}, *changes)}
    return texts(AppTest.from_function(page, args=(specs,)).run().caption)


def test_a_level_is_drawn_where_all_runs_share_it():
    one = plain()
    alike = references(one, one.changed((("norm", "pre"),)))
    assert alike == references(one) and alike["floor"] == 0
    assert captions({"norm": "pre"}) == ""


def test_a_floor_that_differs_is_not_drawn_but_said():
    seen = (("architecture", "encoder"), ("mask", "none"))
    both_ways, causal = plain().changed(seen), plain().changed((*seen[:1], ("mask", "causal")))
    assert both_ways.floor == 0 and causal.floor == pytest.approx(math.log(10) / 2, rel=0.02)
    assert set(references(both_ways, causal)) == {"chance"}
    said = captions({"architecture": "encoder"}, dict([*seen[:1], ("mask", "causal")]))
    assert "floor: {} 0.000," in said and f"{causal.floor:.3f}" in said and "guess" not in said


def test_runs_of_two_tasks_share_no_chance_and_a_floor_may_be_unknown():
    text = Spec.of(type(plain().changed((("task", "text"),)).task)())
    assert references(plain(), text) == {}
    said = captions({"task": "text"})
    assert "unknown" in said and f"{references(plain())['chance'].blind:.3f}" in said


@pytest.mark.parametrize("measured", [None, 0, 6])
def test_an_accuracy_has_its_step_or_is_a_dash(measured):
    record = Record()
    if measured == 0:
        record.add_frame(Frame(0, {}, [], 0, 2.0, 0.125))
    for _ in range(6):
        record._steps.append(2.0, 1e-3, 1.0)
    if measured == 6:
        record.add_frame(Frame(6, {}, [], 6, 2.0, 0.125))
    look = {"status": Status.RUNNING, "message": "", "queue_position": None, "busy": False}
    view = record.view(spec=plain(), **look)
    shown = results([Series("the base", plain(), (0,), (view,))])
    assert ("12.5%" in shown) == (measured is not None)
    assert f"<th>accuracy{'' if measured is None else f' at step {measured}'}</th>" in shown
    assert "<th>loss at step 6</th>" in shown and "steps 1–6" in shown
