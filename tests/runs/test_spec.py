"""What decides a run: hot changes, differences in words, and the way into a file and back."""

import json

import pytest

from core.tasks import TASKS
from core.train import Change
from playground.runs.spec import Spec, changes_text, diff_text, hot_changes_text


def spec_for(task="copy", probe=None, **changes) -> Spec:
    spec = Spec.of(TASKS[task]()).changed(changes.items())
    return Spec(spec.model, spec.task, spec.training, probe)


def test_hot_knobs_give_another_spec():
    old = spec_for()
    new = old.turned({"mask": "none", "lr": 0.5})
    assert (new.model.mask, new.training.lr) == ("none", 0.5)
    assert old == spec_for()
    with pytest.raises(ValueError, match="d_model, seed cannot change while a run goes on"):
        old.turned({"seed": 1, "d_model": 16})


def test_hot_changes_are_made_again_step_by_step():
    turned = [Change(3, "warmup", 50), Change(3, "steps", 60), Change(9, "scale", "none")]
    assert spec_for(steps=20).replayed(turned) == spec_for(warmup=50, steps=60, scale="none")
    assert hot_changes_text(turned) == "warmup=50, steps=60 after step 3; scale=none after step 9"
    with pytest.raises(ValueError, match="step 4: d_model cannot change"):
        spec_for().replayed([Change(4, "d_model", 8)])


def test_a_difference_is_said_in_the_words_of_the_knobs():
    old, new = spec_for(), spec_for(scale="none", lr=0.01, residual=False, clip=None)
    assert diff_text(old.diff(new)) == (
        "scale √d_k → none, residual on → off, lr 0.001 → 0.01, clip 1 → off"
    )
    assert changes_text(new.changes_to(old)) == "scale=√d_k, residual=on, lr=0.001, clip=1"
    assert old.diff(spec_for("reverse")) == {"task": ("copy", "reverse")}
    assert old.diff(spec_for(length=4)) == {"length": (10, 4)}
    assert old.diff(spec_for("sort", length=4)) == {"task": ("copy", "sort"), "length": (10, 4)}
    assert old.diff(old) == {} and old.diff(spec_for(probe="0123456789")) == {}


def test_a_mask_is_called_what_its_knob_says():
    auto, named, none = spec_for(), spec_for(mask="causal"), spec_for(mask="none")
    assert diff_text(none.diff(auto)) == "mask none → auto"
    assert diff_text(auto.diff(none)) == "mask auto → none"
    assert changes_text(none.changes_to(named)) == "mask=causal"
    assert none.changed(none.changes_to(auto)) == auto
    assert not auto.diff(named) and not named.diff(auto), "the same mask by two names"
    both = spec_for(architecture="encoder")
    assert not both.diff(spec_for(architecture="encoder", mask="none"))


def own(words: str) -> Spec:
    return Spec.of(TASKS["text"](source="own", text=words * 20, length=8))


def test_of_a_text_only_that_it_changed_is_said():
    diff = own("to be ").diff(own("or not"))
    assert list(diff) == ["text"]
    assert diff_text(diff) == changes_text([("text", "or not")]) == "another text"


def test_what_is_unusual_is_told_without_the_text():
    assert spec_for().unusual() == ()
    assert spec_for("add", symbols=4, d_ff=32).unusual() == (("symbols", 4), ("d_ff", 32))
    assert own("to be ").unusual() == (("source", "own"), ("length", 8))


@pytest.mark.parametrize("task", TASKS)
def test_a_spec_comes_back_from_a_file(task):
    spec = spec_for(task, clip=None, d_ff=32, lr=0.1 + 0.2)
    spec = Spec(spec.model, spec.task, spec.training, label="mine → 🙂")
    assert Spec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_a_text_of_ones_own_is_in_no_file():
    spec = own("to be ")
    values = spec.to_dict()
    assert "to be" not in json.dumps(values)
    assert Spec.from_dict(values, "to be " * 20) == spec
    with pytest.raises(ValueError, match="task: source='own': hand in the text"):
        Spec.from_dict(values)
