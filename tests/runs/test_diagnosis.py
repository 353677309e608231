"""Numbers -> one sentence: the most alarming one, and nothing that was not measured."""

from dataclasses import replace

import numpy as np
import pytest

from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.tasks import TASKS, Chance
from core.train import Trainer
from playground.runs.controller import untrained
from playground.runs.diagnosis import diagnose
from playground.runs.snapshot import Attention, Frame
from playground.runs.spec import Spec
from playground.runs.view import Status, View

CHANCE = Chance(uniform=2.485, blind=2.303)
TASK = TASKS["reverse"]()


def spec_for(**model) -> Spec:
    return Spec(ModelConfig.for_task(TASK, **model), TASK, TrainConfig())


def frame_of(accuracy=0.5, largest=0.3, spread=1.0, loss=1.0, **numbers) -> Frame:
    attention = Attention(
        "blocks.0.attention", {}, np.zeros((2, 2), bool), [], [], [1.0], [largest], spread, 1.0
    )
    return Frame(100, {attention.name: attention}, [], 100, loss, accuracy, **numbers)


def view_of(losses=(), status=Status.RUNNING, message="", norms=None) -> View:
    numbers = np.array(losses, np.float32)
    return View(
        status=status,
        message=message,
        spec=spec_for(),
        steps=np.arange(1, len(numbers) + 1),
        loss=numbers,
        layer_norms={k: np.array([v]) for k, v in (norms or {}).items()},
    )


def verdict(view=None, frame=None, floor=None, chance=CHANCE):
    return diagnose(spec_for(), view, frame or frame_of(), chance, floor)


def test_before_training_the_scores_are_described():
    found = verdict(frame=frame_of(spread=1.08))
    assert found.kind == "info"
    assert found.text.startswith("Untrained.") and "1.08" in found.text


def test_at_chance_becomes_a_warning_when_it_lasts():
    assert verdict(view_of([2.3] * 50)).kind == "info"
    found = verdict(view_of([2.3] * 150))
    assert found.kind == "warn" and found.text.startswith("Near chance: loss 2.30")


def test_learning_names_the_way_made():
    found = verdict(view_of([2.3] * 50 + [1.2] * 50))
    assert found.kind == "info" and found.text.startswith("Learning: loss 1.20, down from 2.30")


def test_solved_is_what_validation_says():
    found = verdict(view_of([0.01] * 50), frame_of(accuracy=0.995))
    assert found.kind == "good" and found.text.startswith("Solved: 99.5%")


def test_at_the_floor_is_said_where_a_floor_is_known():
    found = verdict(view_of([0.9] * 50), frame_of(loss=0.91, accuracy=0.7), floor=0.9)
    assert found.kind == "good" and found.text.startswith("At the floor: 0.910")
    assert "floor" not in verdict(view_of([0.9] * 50), frame_of(loss=0.91), floor=None).text
    assert "floor" not in verdict(view_of([0.9] * 50), frame_of(loss=1.2), floor=0.9).text


def test_a_saturated_softmax_is_named_with_its_spread_while_nothing_is_learnt():
    saturated = frame_of(largest=0.93, spread=10.7)
    assert verdict(frame=saturated).kind == "warn"
    found = verdict(view_of([2.25] * 150), saturated)
    assert found.kind == "bad" and "saturated" in found.text and "10.7" in found.text
    learns = verdict(view_of([0.5] * 150), saturated)
    assert "saturated" not in learns.text, "sharp attention in a model that learns is no fault"


def test_vanishing_gradients_name_the_layer():
    norms = {"embed": 1e-12, "blocks.0": 1e-9, "blocks.7": 0.1, "head": 1.0}
    found = verdict(view_of([2.3] * 150, norms=norms))
    assert found.kind == "bad" and "blocks.0" in found.text and "1.0e-09" in found.text
    healthy = verdict(view_of([2.3] * 150, norms=norms | {"blocks.0": 0.01}))
    assert "Vanishing" not in healthy.text


def test_a_run_without_any_gradient_divides_by_nothing():
    assert verdict(view_of([2.3] * 150, norms={"blocks.0": 0.0, "head": 0.0})).kind == "warn"


def test_a_leak_is_measured_and_never_guessed_from_a_low_loss():
    low = view_of([0.001] * 100)
    assert "leak" not in verdict(low, frame_of(accuracy=0.999, future_influence=0.0)).text
    leaking = frame_of(accuracy=0.999, future_influence=3.0, free_running=0.1, teacher_forced=0.999)
    found = verdict(low, leaking)
    assert found.kind == "bad" and "Suspiciously low loss: the mask leaks" in found.text
    assert "100% right" in found.text and "10%" in found.text
    harmless = replace(leaking, free_running=0.99)
    assert verdict(low, harmless).kind == "warn"
    assert "leak" not in verdict(low, replace(leaking, future_influence=None)).text
    assert "leak" not in verdict(low, replace(leaking, future_influence=float("nan"))).text


@pytest.mark.parametrize("status", [Status.DIVERGED, Status.FAILED])
def test_the_end_of_a_run_comes_before_everything_else(status):
    """UI-03"""
    view = view_of([1.0], status, "diverged at step 2 (learning rate 1000): the loss is nan.")
    found = verdict(view, frame_of(future_influence=5.0, largest=1.0, spread=99.0))
    assert found.kind == "bad" and "step 2 (learning rate 1000)" in found.text


def test_an_untrained_model_without_a_mask_is_measured_to_leak():
    for mask, leaks in (("none", True), ("causal", False)):
        spec = spec_for(mask=mask)
        frame = untrained(spec, choose_device())
        assert ("leaks" in diagnose(spec, None, frame, CHANCE, None).text) is leaks


@pytest.mark.parametrize("d_head, heads", [(16, 4), (64, 1)])
def test_scores_without_scaling_spread_as_theory_says(d_head, heads):
    frame = untrained(spec_for(n_heads=heads, scale="none"), choose_device())
    attention = next(iter(frame.attention.values()))
    # Sinusoidal positions add ½ to the variance of the tokens.
    assert attention.theory == pytest.approx(1.5 * d_head**0.5)
    assert 0.6 < attention.spread / attention.theory < 1.2  # one example


def test_layers_are_called_in_a_trainer_what_the_diagnosis_looks_for():
    layers = Trainer(spec_for().model, TASK, TrainConfig()).layers
    assert any("blocks." in layer for layer in layers)


def test_queries_with_a_single_key_to_look_at_are_not_called_saturated():
    frame = frame_of(largest=1.0, spread=10.7)
    attention = next(iter(frame.attention.values()))
    attention.hidden[:] = ~np.eye(2, dtype=bool)
    assert verdict(frame=frame).kind == "info"
