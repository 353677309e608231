"""One visitor's bench: what a turned knob does to the run in work."""

from dataclasses import replace

import numpy as np
import pytest

from core.train import Trainer
from helpers import spec_for, wait
from playground import limits
from playground.runs import Runs
from playground.spec import Spec
from playground.view import Status
from playground.workbench import GHOSTS, Workbench, untrained

FOREVER = 1_000_000


def rest(bench: Workbench) -> None:
    wait(lambda: not bench.view.live)


@pytest.fixture
def runs():
    runs = Runs(workers=1, grace=3600)
    yield runs
    runs.close()


@pytest.fixture
def bench(runs) -> Workbench:
    return Workbench("visitor", runs)


def trained(bench: Workbench, spec: Spec) -> Workbench:
    bench.follow(spec)
    bench.play()
    rest(bench)
    return bench


def test_turning_knobs_before_a_run_starts_none(bench, runs):
    for scale in ("none", "d_head"):
        bench.follow(spec_for(scale=scale))
    assert bench.run is None and runs.of("visitor") == []
    assert bench.spec.model.scale == "d_head"


def test_the_untrained_picture_follows_the_knobs_and_is_made_once_per_model(bench):
    bench.follow(spec_for())
    first = bench.frames(bench.view)
    bench.follow(spec_for(lr=1.0, steps=7))
    assert bench.frames(bench.view)[0] is first[0], "how it is trained changes nothing that is seen"
    bench.follow(spec_for(seed=1))
    assert bench.frames(bench.view)[0] is not first[0]
    assert bench.frames(bench.view)[0].step == 0


def test_play_gives_the_curve_of_the_spec(bench):
    spec = spec_for()
    trained(bench, spec)
    alone = [step.loss for step in Trainer(spec.model, spec.task, spec.training)]
    np.testing.assert_array_equal(bench.view.loss, np.float32(alone))


def test_a_hot_knob_turns_in_the_running_model(bench):
    bench.follow(spec_for(steps=FOREVER))
    bench.play()
    wait(lambda: len(bench.view.loss) > 3)
    run = bench.run
    bench.follow(spec_for(steps=FOREVER, scale="none"))
    wait(lambda: bench.view.changes)
    assert bench.run is run and bench.view.status.moving and not bench.ghosts
    assert bench.said.startswith("Changed while it ran: scale √d_k → none. A link")
    (change,) = bench.view.changes
    assert (change.field, change.value) == ("scale", "none") and change.step >= 3


def test_a_cold_knob_starts_again_and_the_old_curve_stays(bench, runs):
    bench.follow(spec_for(steps=FOREVER))
    bench.play()
    wait(lambda: len(bench.view.loss) >= 5)
    old = bench.run
    bench.follow(spec_for(steps=FOREVER, norm="pre"))
    assert bench.run is not old and bench.view.status.moving
    assert runs.of("visitor") == [bench.run]
    (ghost,) = bench.ghosts
    assert ghost.label == "norm=post" and len(ghost.view.loss) >= 5
    assert ghost.view.frames == (), "its pictures are not kept"
    assert "Started again" in bench.said


def test_a_cold_knob_at_rest_waits_for_play(bench):
    trained(bench, spec_for())
    bench.follow(spec_for(norm="pre"))
    assert bench.run is None
    assert "Press Play" in bench.said
    bench.play()
    rest(bench)
    assert bench.view.spec.model.norm == "pre"


def test_a_hot_and_a_cold_knob_together_start_again(bench):
    trained(bench, spec_for())
    bench.follow(spec_for(scale="none", norm="pre"))
    assert bench.run is None
    assert bench.ghosts[0].label == "scale=√d_k, norm=post"


def test_few_ghosts_are_kept_and_short_curves_are_none(bench):
    for seed in range(GHOSTS + 2):
        trained(bench, spec_for(seed=seed))
    assert [ghost.label for ghost in bench.ghosts] == ["seed=1", "seed=2", "seed=3"]
    bench.reset()
    trained(bench, spec_for(seed=9, steps=2))
    bench.follow(spec_for(seed=10))
    assert bench.ghosts == []


def test_step_does_one_and_a_second_one_more(bench):
    bench.follow(spec_for())
    for count in (1, 2, 3):
        bench.step()
        rest(bench)
        assert len(bench.view.loss) == count and not bench.view.status.moving


def test_reset_forgets_run_and_ghosts_and_a_second_reset_is_harmless(bench, runs):
    """CON-01"""
    trained(bench, spec_for())
    first = bench.view.loss.tolist()
    bench.follow(spec_for(norm="pre"))
    bench.follow(spec_for())
    bench.play()
    for _ in range(2):
        bench.reset()
        assert bench.run is None and bench.ghosts == [] and bench.said is None
    assert runs.of("visitor") == []
    trained(bench, spec_for())
    assert bench.view.loss.tolist() == first


def test_a_finished_run_goes_on_when_steps_are_added_and_else_starts_again(bench):
    trained(bench, spec_for(steps=10))
    run, begin = bench.run, bench.view.loss.tolist()
    bench.follow(spec_for(steps=20))
    bench.play()
    rest(bench)
    assert bench.run is run
    assert len(bench.view.loss) == 20 and bench.view.loss[:10].tolist() == begin
    bench.play()
    rest(bench)
    assert bench.run is not run
    assert bench.view.loss[:10].tolist() == begin


def test_play_after_divergence_starts_anew(bench):
    """UI-03"""
    wild = spec_for(lr=1e3, steps=300, d_model=16)
    wild = replace(wild, training=replace(wild.training, clip=None))
    trained(bench, wild)
    assert bench.view.status is Status.DIVERGED
    run = bench.run
    bench.follow(spec_for(d_model=16))
    assert bench.run is None, "a hot knob cannot save a run that is over"
    bench.play()
    rest(bench)
    assert bench.run is not run and bench.view.status is Status.DONE


def test_too_large_a_wish_is_refused_again_and_again_and_the_run_goes_on(bench, monkeypatch):
    bench.follow(spec_for(steps=FOREVER))
    bench.play()
    wait(lambda: len(bench.view.loss) > 3)
    run = bench.run
    monkeypatch.setattr(limits, "MAX_PARAMETERS", 2_000)
    for _ in range(2):
        with pytest.raises(ValueError, match="the limit here is 2,000"):
            bench.follow(spec_for(steps=FOREVER, d_model=64))
        assert bench.run is run and bench.view.status.moving and bench.spec.model.d_model == 8
    bench.follow(spec_for(steps=FOREVER))
    assert bench.run is run


def test_an_example_of_ones_own_is_shown_without_disturbing_the_run(bench):
    trained(bench, spec_for())
    run, losses = bench.run, bench.view.loss.tolist()
    bench.follow(spec_for(probe="987"))
    rest(bench)
    assert bench.run is run and bench.view.loss.tolist() == losses
    tokens = next(iter(bench.frames(bench.view)[-1].attention.values())).key_tokens
    assert "".join(tokens).startswith("987")


def test_the_untrained_picture_of_a_spec_is_cached_by_value():
    from core.device import choose_device

    device = choose_device()
    assert untrained(spec_for(), device) is untrained(spec_for(), device)
