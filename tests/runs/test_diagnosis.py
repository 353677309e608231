"""Numbers -> one sentence: the most alarming one, and nothing that was not measured."""

from dataclasses import replace

import numpy as np
import pytest

from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.tasks import TASKS, Chance
from core.train import Change, Trainer
from playground.runs.controller import untrained
from playground.runs.diagnosis import diagnose, first_attention
from playground.runs.snapshot import Attention, Frame, take_frame
from playground.runs.spec import Spec, counted
from playground.runs.view import Record, Status, View

CHANCE = Chance(uniform=2.485, blind=2.303)
TASK = TASKS["reverse"]()


def spec_for(**model) -> Spec:
    return Spec(ModelConfig.for_task(TASK, **model), TASK, TrainConfig())


def frame_of(accuracy=0.5, shut=0.0, spread=1.0, loss=1.0, at=100, **numbers) -> Frame:
    attention = Attention(
        *("blocks.0.attention", {}, np.zeros((2, 2), bool), [], [], [1.0], [0.93]),
        spread,
        1.5,
        shut=shut,
    )
    return Frame(at, {attention.name: attention}, [], at, loss, accuracy, **numbers)


def view_of(losses=(), status=Status.RUNNING, message="", norms=None, **more) -> View:
    numbers = np.array(losses, np.float32)
    return View(
        status=status,
        message=message,
        spec=spec_for(),
        steps=np.arange(1, len(numbers) + 1),
        loss=numbers,
        layer_norms={k: np.array([v]) for k, v in (norms or {}).items()},
        **more,
    )


def verdict(view=None, frame=None, floor=None, chance=CHANCE):
    return diagnose(view, frame or frame_of(), chance, floor)


def test_before_training_the_scores_are_described():
    found = verdict(frame=frame_of(spread=1.08))
    assert found.kind == "info"
    assert found.text.startswith("Untrained") and "1.08" in found.text


def test_an_untrained_model_is_worse_than_a_uniform_guess_and_that_is_said():
    assert f"above the {CHANCE.uniform:.2f}" in verdict(frame=frame_of(loss=3.6)).text
    assert "about the" in verdict(frame=frame_of(loss=2.5)).text
    spec = spec_for()
    found = diagnose(None, untrained(spec, choose_device()), TASK.chance("decoder"), None)
    assert f"above the {TASK.chance('decoder').uniform:.2f}" in found.text


def test_at_chance_becomes_a_warning_when_it_lasts():
    assert verdict(view_of([2.3] * 50), frame_of(loss=2.31, at=50)).kind == "info"
    found = verdict(view_of([2.3] * 150), frame_of(loss=2.31, at=144))
    assert found.kind == "warn" and found.text.startswith("Near chance")
    assert "2.31" in found.text and "2.30" in found.text


def test_far_above_chance_is_worse_than_guessing_and_not_near_it():
    found = verdict(view_of([40.0] * 150), frame_of(loss=40.0, accuracy=0.1, at=150))
    assert found.kind == "warn" and found.text.startswith("Worse than guessing")
    assert "40.00" in found.text and "10% of the validation answers are right" in found.text


def test_between_the_two_guesses_is_worse_than_the_better_one_and_not_near_it():
    chance = Chance(uniform=2.639, blind=1.522)
    found = verdict(view_of([2.0] * 150), frame_of(loss=2.01, at=150), chance=chance)
    assert found.kind == "warn" and found.text.startswith("Worse than guessing")
    assert "2.01" in found.text and "1.52" in found.text and "sure" not in found.text
    near = verdict(view_of([1.55] * 150), frame_of(loss=1.55, at=150), chance=chance)
    assert near.text.startswith("Near chance")


def test_learning_names_both_losses():
    found = verdict(view_of([2.3] * 50 + [1.2] * 50))
    assert found.kind == "info" and found.text.startswith("Learning: loss 1.20, validation loss 1")


def test_validation_tells_what_a_mean_over_a_falling_curve_hides():
    falling = view_of(np.linspace(3.9, 1.9, 120))  # its last 20 average 2.07 of chance 2.30
    found = verdict(falling, frame_of(loss=1.9, accuracy=0.36, at=118))
    assert found.text.startswith("Learning") and "36%" in found.text
    falling = view_of(np.linspace(4.5, 2.2, 120))
    found = verdict(falling, frame_of(loss=2.15, accuracy=0.36, at=118))
    assert found.text.startswith("Learning: validation loss 2.15")
    stale = verdict(falling, frame_of(loss=2.15, accuracy=0.36, at=50))
    assert stale.text.startswith("Near chance: the loss over the last 20 steps is 2.38")


@pytest.mark.parametrize(
    "steps, at, changed, joined",
    [
        (15, 0, None, False),  # before the first step
        (120, 0, None, False),
        (120, 99, None, False),  # older than the losses it would stand beside
        (120, 100, None, True),
        (15, 1, None, True),
        (120, 105, 100, True),
        (115, 98, 95, True),
        (120, 100, 100, True),  # measured again just after the change
        (120, 99, 100, False),
    ],
)
def test_validation_stands_beside_the_losses_that_it_was_measured_with(steps, at, changed, joined):
    changes = () if changed is None else (Change(changed, "lr", 0.1),)
    first = 2.0 - 0.005 * np.arange(steps)
    view = view_of(first, changes=changes)
    found = verdict(view, frame_of(loss=1.64, accuracy=0.04, at=at))
    assert found.text.startswith("Learning: loss ")
    assert ("validation loss 1.64 and 4%" in found.text) is joined
    for losses in (np.full(steps, 3.0), np.full(steps, 2.45)):  # worse than either guess
        found = verdict(view_of(losses, changes=changes), frame_of(loss=2.9, accuracy=0.04, at=at))
        assert found.text.startswith("Worse than guessing")
        assert (f"4% of the validation answers are right at step {at}" in found.text) is joined


def test_a_loss_that_rises_is_not_called_learning():
    noise = np.random.default_rng(0).normal(0, 0.02, 100)
    rising = verdict(view_of(np.linspace(0.5, 1.5, 100) + noise), frame_of(loss=1.5))
    assert rising.kind == "warn" and rising.text.startswith("The loss is rising")
    assert "rising" not in verdict(view_of(1 + noise), frame_of(loss=1.0)).text


def test_a_loss_that_stays_where_it_is_is_on_a_plateau_by_the_numbers_that_are_drawn():
    losses = np.linspace(2.3, 1.4, 150).tolist() + [1.4, 1.38] * 100  # 1.39 on average
    found = verdict(view_of(losses), frame_of(loss=1.4, at=350))
    assert found.kind == "warn" and found.text.startswith("On a plateau: loss 1.39 over the last ")
    steps = int(found.text.split("over the last ")[1].split()[0])
    assert 50 <= steps <= 100 and ", 1.39 over as many before" in found.text
    early = verdict(view_of(losses[:200]), frame_of(loss=1.4, at=200))
    assert early.text.startswith("Learning"), "it fell within the last 100 steps"


def test_a_slow_fall_under_noise_is_no_plateau():
    noise = np.random.default_rng(0).normal(0, 0.05, 1000)
    view = view_of(np.linspace(1.8, 1.5, 1000) + noise)
    assert verdict(view, frame_of(loss=1.5, at=1000)).text.startswith("Learning")
    view = view_of(np.linspace(1.8, 1.5, 1000) + noise, changes=(Change(910, "lr", 0.1),))
    assert verdict(view, frame_of(loss=1.5, at=1000)).text.startswith("Learning"), "too few steps"


# --- memorising ---------------------------------------------------------------------------


def overfit(validation: list[float], **more) -> View:
    """Training falls to 0.2; the validation set is measured every 100 steps."""
    steps = 100 * np.arange(len(validation))
    losses = np.linspace(3.0, 0.2, steps[-1])
    return view_of(losses, val_steps=steps, val_loss=np.array(validation, np.float32), **more)


def test_validation_that_rises_while_training_falls_is_memorising():
    view = overfit([3.6, 2.0, 1.5, 1.9, 2.9])
    found = verdict(view, frame_of(loss=2.9, accuracy=0.3, at=400))
    assert found.kind == "warn" and found.text.startswith("Memorising: since step 200 ")
    then, now = view.loss[180:200].mean(), view.loss[380:].mean()
    assert f"from {then:.2f} to {now:.2f}" in found.text
    assert "from 1.50, its lowest, to 2.90" in found.text


@pytest.mark.parametrize(
    "validation",
    [
        [3.6, 2.0, 1.5, 1.4, 1.3],  # both fall
        [3.6, 2.0, 1.5, 1.52, 1.53],  # within what is no clear rise
        [3.6, 2.0, 1.5, 1.4, 2.0],  # a single measurement
        [0.3, 2.0, 2.0, 2.0, 2.0],  # before the first step nothing was learnt
        [3.6, 2.0],
    ],
)
def test_validation_that_does_not_clearly_rise_is_not(validation):
    found = verdict(overfit(validation), frame_of(loss=validation[-1], accuracy=0.3, at=400))
    assert "Memorising" not in found.text


def test_a_rise_of_validation_across_a_change_is_the_changes_doing():
    view = overfit([3.6, 1.5, 1.9, 2.9, 2.8], changes=(Change(250, "residual", False),))
    assert "Memorising" not in verdict(view, frame_of(loss=2.8, accuracy=0.3, at=400)).text


def test_a_model_trained_on_a_few_words_is_measured_to_memorise():
    text = "the cat sat on the mat. a dog ran to the big red barn and hid. " * 2
    other = "xylophones quiz vexed judges; proud wizards jump beyond my fuzzy kayak. "
    task = TASKS["text"](source="own", text=text + other, length=16)
    spec = Spec(
        ModelConfig.for_task(task, d_model=64, n_layers=1), task, TrainConfig(steps=300, lr=3e-3)
    )
    trainer = Trainer(spec.model, task, spec.training)
    record = Record(trainer.layers)
    probe = task.probe("decoder")
    while trainer.step_count < 300:
        if trainer.step_count % 50 == 0:
            record.add_frame(take_frame(trainer, probe))
        record.add_step(trainer.step())
    record.add_frame(take_frame(trainer, probe))
    view = record.view(status=Status.DONE, spec=spec)
    found = diagnose(view, record.last, task.chance("decoder"), None)
    assert found.text.startswith("Memorising")


# --- a knob turned on the way -------------------------------------------------------------


def turned_view(before: int, after: int, high=3.1) -> View:
    """Solved, then the residual connections are switched off."""
    changes = (Change(before, "residual", False),)
    return view_of(
        [0.45] * before + [high] * after,
        changes=changes,
        val_steps=np.array([0, before, before]),
        val_loss=np.array([3.6, 0.44, 3.4]),
    )


@pytest.mark.parametrize("after", [0, 1, 3, 19])
def test_soon_after_a_change_the_verdict_says_what_there_is(after):
    found = verdict(turned_view(190, after), frame_of(loss=3.4, at=190))
    assert "step 190: residual=off" in found.text and found.kind == "info"
    assert (f"{counted(after, 'step')} since is 3.10" in found.text) is (after > 0)
    assert all(number in found.text for number in ("0.45", "3.40 at step 190", "0.44"))


def test_later_after_a_change_the_verdict_is_of_what_came_since():
    found = verdict(turned_view(190, 40), frame_of(loss=3.2, accuracy=0.2, at=228))
    assert found.text.startswith("Worse than guessing")
    assert "step 190 (residual=off) it was 0.45" in found.text
    found = verdict(turned_view(190, 40, high=1.6), frame_of(loss=1.6, accuracy=0.2, at=228))
    assert found.text.startswith("Learning: loss 1.60") and "it was 0.45" in found.text


def test_a_change_before_the_first_step_has_nothing_before_it():
    view = view_of([2.0] * 5, changes=(Change(0, "lr", 0.1),))
    assert "before" not in verdict(view, frame_of(loss=2.0, at=4)).text
    view = view_of([2.0] * 50, changes=(Change(0, "lr", 0.1),))
    assert "Before" not in verdict(view, frame_of(loss=2.0, at=48)).text


def test_solved_is_what_validation_says():
    found = verdict(view_of([0.01] * 50), frame_of(accuracy=0.995))
    assert found.kind == "good" and found.text.startswith("Solved: 99.5%")


def test_at_the_floor_is_said_where_a_floor_is_known():
    found = verdict(view_of([0.9] * 50), frame_of(loss=0.91, accuracy=0.7), floor=0.9)
    assert found.kind == "good" and found.text.startswith("At the floor: 0.910")
    assert "floor" not in verdict(view_of([0.9] * 50), frame_of(loss=0.91), floor=None).text
    assert "floor" not in verdict(view_of([0.9] * 50), frame_of(loss=1.2), floor=0.9).text


def test_what_was_measured_before_the_floor_rose_is_not_at_it():
    before = frame_of(loss=0.001, accuracy=1.0, at=50)
    assert verdict(view_of([0.001] * 50), before, floor=1.612).text.startswith("Solved: 100.0%")


def test_a_floor_as_high_as_a_guess_is_nothing_to_learn_and_no_success():
    task = TASKS["copy"]()
    model = ModelConfig.for_task(task, mask="window", window=3)
    chance, floor = task.chance("decoder"), task.floor(model)
    assert floor == pytest.approx(chance.blind)
    view = view_of([2.32] * 150)
    for shut in (0.0, 0.4):  # a saturated softmax is not to blame
        stuck = frame_of(loss=2.32, accuracy=0.1, at=150, shut=shut, spread=10.7)
        found = verdict(view, stuck, floor=floor, chance=chance)
        assert found.kind == "warn" and found.text.startswith("Nothing to learn")
        assert "2.32" in found.text and "below 2.30" in found.text


@pytest.mark.parametrize("loss, steps", [(2.02, 300), (2.25, 150), (2.15, 2000)])
def test_a_saturated_softmax_is_named_with_its_effect_while_little_is_learnt(loss, steps):
    saturated = frame_of(loss=loss, shut=0.4, spread=10.7, at=steps)
    assert verdict(frame=saturated).kind == "warn"
    found = verdict(view_of([loss] * steps), saturated)
    assert found.kind == "bad" and found.text.startswith("Hardly learning")
    assert f"{loss / 2.303:.0%} of what guessing costs" in found.text
    assert "floor" not in found.text
    assert all(word in found.text for word in ("saturated", "10.7", "0.93", "40% of its rows"))
    learns = verdict(view_of([0.5] * 150), replace(saturated, loss=0.5, measured_at=150))
    assert "saturated" not in learns.text, "sharp attention in a model that learns is no fault"


def test_how_little_is_poor_depends_on_the_floor_and_on_the_steps():
    saturated = frame_of(loss=1.9, shut=0.4, spread=10.7, at=300)
    view = view_of([1.9] * 300)
    assert verdict(view, saturated).text.startswith("Hardly learning")
    half = verdict(view, saturated, floor=1.5)
    assert half.text.startswith("On a plateau"), "half of the way is not hardly learning"
    early = replace(saturated, measured_at=20)
    assert verdict(view_of([1.9] * 20), early).text.startswith("Learning")


def test_how_far_it_has_come_is_the_share_of_the_way_to_the_floor():
    saturated = frame_of(loss=2.09, shut=0.4, spread=10.7, at=300)
    found = verdict(view_of([2.09] * 300), saturated, floor=1.612)
    share = (CHANCE.blind - 2.09) / (CHANCE.blind - 1.612)
    assert found.kind == "bad" and f"{share:.0%} of the way from guessing, 2.30" in found.text
    assert "to the floor, 1.61." in found.text and "what guessing costs" not in found.text
    above = verdict(view_of([2.5] * 300), replace(saturated, loss=2.5), floor=1.612)
    assert f"{2.5 / CHANCE.blind:.0%} of what guessing costs" in above.text, "no way to speak of"


def test_a_saturated_model_whose_loss_falls_is_learning_slowly_and_not_hardly():
    noise = np.random.default_rng(0).normal(0, 0.03, 400)
    losses = np.concatenate([np.full(250, 2.2), np.linspace(2.2, 1.77, 150)]) + noise
    saturated = frame_of(loss=1.78, shut=0.4, spread=10.7, at=398)
    changes = (Change(250, "scale", "none"),)
    found = verdict(view_of(losses, changes=changes), saturated)
    assert found.kind == "warn" and found.text.startswith("Learning, slowly: loss ")
    before, after = losses[-100:-50].mean(), losses[-50:].mean()
    assert f"loss {after:.2f} over the last 50 steps, {before:.2f} over as many" in found.text
    assert "saturated: 40%" in found.text
    earlier_fall = np.concatenate([np.linspace(3, 2.1, 250), np.full(150, 2.1)]) + noise
    found = verdict(view_of(earlier_fall, changes=changes), replace(saturated, loss=2.1))
    assert found.text.startswith("Hardly learning"), "what fell before the change does not count"


@pytest.mark.parametrize("ends, better", [(2.4, "no"), (2.22, "hardly")])
def test_a_fall_that_is_still_near_chance_is_not_called_learning(ends, better):
    saturated = frame_of(loss=ends, shut=0.4, spread=10.7, at=80)
    found = verdict(view_of([3.0] * 40 + [ends] * 40), saturated)
    assert found.kind == "warn"
    assert found.text.startswith(f"Falling, and so far {better} better than guessing")


def test_vanishing_gradients_name_the_layer():
    norms = {"embed": 1e-12, "blocks.0": 1e-9, "blocks.7": 0.1, "head": 1.0}
    found = verdict(view_of([2.3] * 150, norms=norms))
    assert found.kind == "bad" and "block 1 receives 1.0e-09" in found.text
    healthy = verdict(view_of([2.3] * 150, norms=norms | {"blocks.0": 0.01}))
    assert "Vanishing" not in healthy.text


def test_a_run_without_any_gradient_divides_by_nothing():
    view = view_of([2.3] * 150, norms={"blocks.0": 0.0, "head": 0.0})
    assert verdict(view, frame_of(loss=2.3, at=150)).kind == "warn"


def test_a_leak_is_measured_and_never_guessed_from_a_low_loss():
    low = view_of([0.001] * 100)
    assert "leak" not in verdict(low, frame_of(accuracy=0.999, future_influence=0.0)).text
    own = {"free_running": 0.1, "teacher_forced": 0.999}
    leaking = frame_of(loss=0.02, accuracy=0.999, future_influence=3.0, **own)
    found = verdict(low, leaking)
    assert found.kind == "bad" and "leaks" in found.text
    assert all(number in found.text for number in ("is 0.02", "100%", "10%"))
    for harmless in (replace(leaking, free_running=0.99), replace(leaking, free_running=None)):
        found = verdict(low, harmless)
        assert found.kind == "warn" and "is 0.02" in found.text
    assert "leak" not in verdict(low, replace(leaking, future_influence=None)).text
    assert "leak" not in verdict(low, replace(leaking, future_influence=float("nan"))).text


@pytest.mark.parametrize("status", [Status.DIVERGED, Status.FAILED])
def test_the_end_of_a_run_comes_before_everything_else(status):
    """UI-03"""
    view = view_of([1.0], status, "diverged at step 2 (learning rate 1000): the loss is nan.")
    found = verdict(view, frame_of(future_influence=5.0, shut=1.0, spread=99.0))
    assert found.kind == "bad" and "step 2 (learning rate 1000)" in found.text


def test_an_untrained_model_without_a_mask_is_measured_to_leak():
    for mask, leaks in (("none", True), ("causal", False)):
        spec = spec_for(mask=mask)
        frame = untrained(spec, choose_device())
        assert ("leaks" in diagnose(None, frame, CHANCE, None).text) is leaks


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
    spec = spec_for(mask="window", window=1, scale="none", d_model=128, n_heads=1)
    frame = untrained(spec, choose_device())
    assert first_attention(frame).spread > 2
    assert verdict(frame=frame).kind == "info"


@pytest.mark.parametrize("norm, position", [("post", "sinusoidal"), ("pre", "learned")])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_wide_heads_without_scaling_are_saturated_from_the_start_and_scaled_ones_not(
    norm, position, seed
):
    for scale, kind in (("none", "warn"), ("sqrt_d_head", "info")):
        spec = spec_for(d_model=128, n_heads=1, norm=norm, position=position, scale=scale)
        spec = replace(spec, training=replace(spec.training, seed=seed))
        found = verdict(frame=untrained(spec, choose_device()))
        assert (found.kind, "saturated" in found.text) == (kind, kind == "warn")
