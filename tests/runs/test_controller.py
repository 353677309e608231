"""One visitor's controller: what a turned knob does to the run in work."""

from dataclasses import replace

import numpy as np
import pytest

from core.train import Trainer
from helpers import spec_for, wait
from playground.runs import limits
from playground.runs.controller import GHOSTS, Controller, Ghost, named, untrained, worth_keeping
from playground.runs.pool import Runs
from playground.runs.spec import Spec
from playground.runs.view import Status, View

FOREVER = 1_000_000


def rest(controller: Controller) -> None:
    wait(lambda: not controller.view.live)


@pytest.fixture
def runs():
    runs = Runs(workers=1, grace=3600)
    yield runs
    runs.close()


@pytest.fixture
def controller(runs) -> Controller:
    return Controller("visitor", runs)


def trained(controller: Controller, spec: Spec) -> Controller:
    controller.follow(spec)
    controller.play()
    rest(controller)
    return controller


def test_turning_knobs_before_a_run_starts_none(controller, runs):
    for scale in ("none", "d_head"):
        controller.follow(spec_for(scale=scale))
    assert controller.run is None and runs.of("visitor") == []
    assert controller.spec.model.scale == "d_head"


def test_the_untrained_picture_follows_the_knobs_and_is_made_once_per_model(controller):
    controller.follow(spec_for())
    first = controller.frames(controller.view)
    controller.follow(spec_for(lr=1.0, steps=7))
    assert controller.frames(controller.view)[0] is first[0], (
        "how it is trained changes nothing that is seen"
    )
    controller.follow(spec_for(seed=1))
    assert controller.frames(controller.view)[0] is not first[0]
    assert controller.frames(controller.view)[0].step == 0


def test_play_gives_the_curve_of_the_spec(controller):
    spec = spec_for()
    trained(controller, spec)
    alone = [step.loss for step in Trainer(spec.model, spec.task, spec.training)]
    np.testing.assert_array_equal(controller.view.loss, np.float32(alone))


def test_a_hot_knob_turns_in_the_running_model(controller):
    controller.follow(spec_for(steps=FOREVER))
    controller.play()
    wait(lambda: len(controller.view.loss) > 3)
    run = controller.run
    controller.follow(spec_for(steps=FOREVER, scale="none"))
    wait(lambda: controller.view.changes)
    assert controller.run is run and controller.view.status.moving and not controller.ghosts
    assert "while it ran: scale √d_k → none." in controller.notice
    (change,) = controller.view.changes
    assert (change.field, change.value) == ("scale", "none") and change.step >= 3


def test_a_cold_knob_starts_over_and_the_old_curve_stays(controller, runs):
    controller.follow(spec_for(steps=FOREVER))
    controller.play()
    wait(lambda: len(controller.view.loss) >= 200)
    old = controller.run
    controller.follow(spec_for(steps=FOREVER, norm="pre"))
    assert controller.run is not old and controller.view.status.moving
    assert runs.of("visitor") == [controller.run]
    (ghost,) = controller.ghosts
    assert ghost.label == "norm=post" and len(ghost.view.loss) >= 200
    assert ghost.view.frames == (), "its pictures are not kept"
    assert "norm post → pre" in controller.notice and "Press Play" not in controller.notice


def test_a_cold_knob_waits_for_play_while_nothing_trains(controller):
    trained(controller, spec_for())
    controller.follow(spec_for(norm="pre"))
    assert controller.run is None
    assert "norm post → pre" in controller.notice and "Press Play" in controller.notice
    controller.follow(spec_for(norm="pre", seed=3))
    assert "norm post → pre, seed 0 → 3" in controller.notice, "both, not only the last one"
    controller.play()
    assert "norm post → pre" in controller.notice and "Press Play" not in controller.notice
    rest(controller)
    assert controller.view.spec.model.norm == "pre"
    controller.play()
    assert controller.notice is None, "the same knobs again"


def test_what_the_old_curve_went_through_is_said_with_it(controller):
    trained(controller, spec_for())
    controller.follow(spec_for(steps=60, lr=0.1))
    controller.play()
    rest(controller)
    controller.follow(spec_for(steps=60, lr=0.1, norm="pre"))
    said = controller.notice
    assert "lr 0.001 → 0.1" in said and "norm post → pre" in said, "all since that run began"
    assert "steps=60, lr=0.1 after step 30" in said


def test_a_hot_and_a_cold_knob_together_start_again(controller):
    trained(controller, spec_for())
    controller.follow(spec_for(scale="none", norm="pre"))
    assert controller.run is None
    assert controller.ghosts[0].label == "scale=√d_k, norm=post"


def test_few_ghosts_are_kept_and_short_curves_are_none(controller):
    for seed in range(GHOSTS + 2):
        trained(controller, spec_for(seed=seed))
    assert [ghost.label for ghost in controller.ghosts] == ["seed=1", "seed=2", "seed=3"]
    controller.reset()
    trained(controller, spec_for(seed=9, steps=2))
    controller.follow(spec_for(seed=10))
    assert controller.ghosts == []


@pytest.mark.parametrize("steps, needed", [(30, 20), (300, 30), (5000, 200)])
def test_a_ghost_is_a_tenth_of_its_run_within_limits(steps, needed):
    spec, nothing = spec_for(steps=steps), np.empty(0)
    for count in (needed - 1, needed):
        view = View(status=Status.PAUSED, spec=spec, steps=nothing, loss=np.ones(count))
        assert worth_keeping(view) is (count >= needed)


def test_a_curve_too_short_to_keep_is_not_promised(controller):
    trained(controller, spec_for(steps=2))
    controller.follow(spec_for(steps=2, norm="pre"))
    assert "too short" in controller.notice and not controller.ghosts


def test_ghosts_are_named_by_what_they_had_whatever_the_knobs_say_now(controller):
    trained(controller, spec_for())
    controller.run.change(spec_for(lr=0.1, steps=60))
    controller.play()
    rest(controller)
    controller.spec = spec_for(lr=0.1, steps=60)
    trained(controller, spec_for(norm="pre"))
    assert [ghost.label for ghost in controller.ghosts] == [
        "norm=post; steps=60, lr=0.1 after step 30"
    ]
    assert controller.ghosts[0].view.marks == (30,), "it keeps its marks"
    trained(controller, spec_for(norm="none"))
    controller.follow(spec_for(norm="pre"))
    labels = [ghost.label for ghost in controller.ghosts]
    assert labels[0].startswith("norm=post; ") and labels[1:] == ["the same knobs", "norm=none"]
    trained(controller, spec_for(norm="pre"))
    controller.follow(spec_for(norm="pre", seed=4))
    assert len({ghost.label for ghost in controller.ghosts}) == 3


def test_a_name_with_a_number_that_another_ghost_keeps_is_not_given_again():
    spec, nothing = spec_for(), np.empty(0)
    known = View(status=Status.DONE, spec=spec, steps=nothing, loss=nothing, began=spec)
    unknown = replace(known, began=None)
    kept = [Ghost("the same knobs", unknown), Ghost("the same knobs (3)", unknown)]
    labels = [ghost.label for ghost in named([*kept, Ghost("", known), Ghost("", known)], spec)]
    assert labels[:2] == [ghost.label for ghost in kept], "they do not know how they began"
    assert labels[2:] == ["the same knobs (2)", "the same knobs (4)"]


def test_every_change_on_the_way_is_named_not_only_the_last(controller):
    controller.follow(spec_for(steps=FOREVER))
    controller.play()
    controller.follow(spec_for(steps=FOREVER, scale="none"))
    controller.follow(spec_for(steps=FOREVER, scale="none", lr=0.1))
    assert "scale √d_k → none, lr 0.001 → 0.1" in controller.notice
    controller.follow(spec_for(steps=FOREVER))
    assert "scale none → √d_k, lr 0.1 → 0.001" in controller.notice


def test_a_mask_turned_back_is_marked_as_its_knob_says(controller):
    trained(controller, spec_for(mask="none"))
    controller.follow(spec_for())
    rest(controller)
    assert [(name, value) for _, name, value in controller.view.changes] == [("mask", "auto")]
    assert "mask none → auto." in controller.notice


def test_step_does_one_and_a_second_one_more(controller):
    controller.follow(spec_for())
    for count in (1, 2, 3):
        controller.step()
        rest(controller)
        assert len(controller.view.loss) == count and not controller.view.status.moving


def test_reset_forgets_run_and_ghosts_and_a_second_reset_is_harmless(controller, runs):
    """CON-01"""
    trained(controller, spec_for())
    first = controller.view.loss.tolist()
    controller.follow(spec_for(norm="pre"))
    controller.follow(spec_for())
    controller.play()
    for _ in range(2):
        controller.reset()
        assert controller.run is None and controller.ghosts == [] and controller.notice is None
    assert runs.of("visitor") == []
    trained(controller, spec_for())
    assert controller.view.loss.tolist() == first


def test_a_finished_run_goes_on_when_steps_are_added_and_else_starts_again(controller):
    trained(controller, spec_for(steps=10))
    run, begin = controller.run, controller.view.loss.tolist()
    controller.follow(spec_for(steps=20))
    controller.play()
    rest(controller)
    assert controller.run is run
    assert len(controller.view.loss) == 20 and controller.view.loss[:10].tolist() == begin
    controller.play()
    rest(controller)
    assert controller.run is not run
    assert controller.view.loss[:10].tolist() == begin


def test_play_after_divergence_starts_over(controller):
    """UI-03"""
    wild = spec_for(lr=1e3, steps=300, d_model=16)
    wild = replace(wild, training=replace(wild.training, clip=None))
    trained(controller, wild)
    assert controller.view.status is Status.DIVERGED
    run = controller.run
    controller.follow(spec_for(d_model=16))
    assert controller.run is None, "a hot knob cannot save a run that is over"
    controller.play()
    rest(controller)
    assert controller.run is not run and controller.view.status is Status.DONE


def test_too_large_a_wish_is_refused_again_and_again_and_the_run_goes_on(controller, monkeypatch):
    controller.follow(spec_for(steps=FOREVER))
    controller.play()
    wait(lambda: len(controller.view.loss) > 3)
    run = controller.run
    monkeypatch.setattr(limits, "MAX_PARAMETERS", 2_000)
    for _ in range(2):
        with pytest.raises(ValueError, match="the limit here is 2,000"):
            controller.follow(spec_for(steps=FOREVER, d_model=64))
        assert (
            controller.run is run
            and controller.view.status.moving
            and controller.spec.model.d_model == 8
        )
    controller.follow(spec_for(steps=FOREVER))
    assert controller.run is run


def test_an_example_of_ones_own_is_shown_without_disturbing_the_run(controller):
    trained(controller, spec_for())
    run, losses = controller.run, controller.view.loss.tolist()
    controller.follow(spec_for(probe="987"))
    rest(controller)
    assert controller.run is run and controller.view.loss.tolist() == losses
    tokens = next(iter(controller.frames(controller.view)[-1].attention.values())).key_tokens
    assert "".join(tokens).startswith("987")


def test_the_untrained_picture_of_a_spec_is_cached_by_value():
    from core.device import choose_device

    device = choose_device()
    assert untrained(spec_for(), device) is untrained(spec_for(), device)
