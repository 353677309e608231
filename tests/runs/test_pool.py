"""Background runs: what a visitor asks for happens, and nobody disturbs anybody else."""

import gc
import math
import os
import re
import sys
import threading
import weakref

import numpy as np
import pytest
import torch

from core import checkpoint
from core.tasks import TASKS
from core.train import Change, Trainer
from helpers import spec_for, wait
from playground.runs import limits
from playground.runs import run as module
from playground.runs.limits import memory_of
from playground.runs.pool import Runs
from playground.runs.spec import Spec
from playground.runs.view import Status

FOREVER = 1_000_000


def rest(run):
    """The run's view once nothing moves any more."""
    wait(lambda: not run.view().live)
    return run.view()


def step_count(run) -> int:
    return len(run.view().loss)


def curve(spec, steps=None, **hot) -> list[float]:
    """The losses of a trainer that nobody manages; `hot` is changed after `steps` steps."""
    trainer = Trainer(spec.model, spec.task, spec.training)
    losses = []
    for step in trainer:
        losses.append(step.loss)
        if step.step == steps:
            trainer.change(**hot)
    return losses


@pytest.fixture
def runs():
    runs = Runs(workers=2, grace=3600)
    yield runs
    runs.close()
    assert runs.threads() == runs.active() == 0


@pytest.fixture
def gate(monkeypatch):
    """Lets steps through one `release()` at a time; `acquire` on `entered` waits for a step."""
    entered, leave = threading.Semaphore(0), threading.Semaphore(0)
    step = Trainer.step

    def guarded(trainer):
        entered.release()
        assert leave.acquire(timeout=60)
        return step(trainer)

    monkeypatch.setattr(Trainer, "step", guarded)
    yield entered, leave
    leave.release(FOREVER)


# --- one run ------------------------------------------------------------------------------


def test_a_run_trains_to_its_end(runs):
    spec = spec_for()
    view = rest(runs.start("ann", spec))
    assert (view.status, view.message, view.busy) == (Status.DONE, "", False)
    assert view.loss.tolist() == curve(spec)
    assert view.steps.tolist() == list(range(1, 31))
    assert list(view.layer_norms) == ["embed", "blocks.0", "unembed"]
    squares = sum(norms.astype(float) ** 2 for norms in view.layer_norms.values())
    np.testing.assert_allclose(np.sqrt(squares), view.grad_norm, rtol=1e-4)
    assert view.frames[0].step == view.val_steps[0] == 0
    assert view.frames[-1].step == view.val_steps[-1] == 30
    assert view.val_loss[-1] == pytest.approx(view.frames[-1].loss)
    assert view.frames[-1].free_running is not None
    assert runs.active() == 0


def test_a_view_never_changes(runs):
    run = runs.start("ann", spec_for(steps=FOREVER))
    wait(lambda: step_count(run) >= 5)
    view = run.view()
    copy = view.loss.copy()
    wait(lambda: step_count(run) > 400)  # beyond the first block of memory
    np.testing.assert_array_equal(view.loss, copy)
    np.testing.assert_array_equal(run.view().loss[: len(copy)], copy)
    assert len(run.view().loss) > len(view.loss)
    with pytest.raises(ValueError):
        view.loss[0] = 0


def test_speed_and_time_left_are_estimated(runs):
    run = runs.start("ann", spec_for(steps=FOREVER))
    view = wait(lambda: (view := run.view()).seconds_left and view)
    assert view.steps_per_second > 0 and view.seconds_trained > 0
    assert view.tokens_per_second == pytest.approx(view.steps_per_second * 4 * 6)
    assert view.seconds_left == pytest.approx(
        (FOREVER - len(view.loss)) / view.steps_per_second, rel=1e-6
    )
    run.pause()
    assert rest(run).seconds_left is None


def test_a_run_can_wait_for_play(runs):
    run = runs.start("ann", spec_for(), play=False)
    view = rest(run)
    assert (view.status, len(view.loss), len(view.frames)) == (Status.PAUSED, 0, 1)
    run.play()
    assert rest(run).status is Status.DONE


def test_pause_holds_and_play_goes_on(runs):
    spec = spec_for(steps=FOREVER)
    run = runs.start("ann", spec)
    wait(lambda: step_count(run) >= 3)
    run.pause()
    run.pause()
    held = rest(run)
    assert held.status is Status.PAUSED
    assert held.frames[-1].step == held.frames[-1].measured_at == len(held.loss)
    wait(lambda: rest(runs.start("bob", spec_for())).status is Status.DONE)
    assert step_count(run) == len(held.loss)
    run.play()
    run.play()
    assert run.view().status is Status.RUNNING
    wait(lambda: step_count(run) > len(held.loss))


def test_step_once_makes_one_step_and_a_frame(runs):
    spec = spec_for(steps=3)
    run = runs.start("ann", spec, play=False)
    for n in (1, 2):
        run.step_once()
        view = rest(run)
        assert (view.status, len(view.loss), view.frames[-1].measured_at) == (Status.PAUSED, n, n)
    run.step_once()
    run.step_once()
    view = rest(run)
    assert (view.status, view.loss.tolist()) == (Status.DONE, curve(spec))


def test_pressing_play_after_pause_wins(runs, gate):
    entered, leave = gate
    run = runs.start("ann", spec_for(steps=FOREVER))
    assert entered.acquire(timeout=60)
    run.pause()
    run.play()
    leave.release(5)
    wait(lambda: step_count(run) == 5)
    assert run.view().status is Status.RUNNING


def test_a_discarded_run_ends_for_good(runs):
    """CON-01: ended means ended, a second press is harmless, a new run starts at 0."""
    run = runs.start("ann", spec_for(steps=FOREVER))
    wait(lambda: step_count(run) >= 20)
    runs.discard(run)
    ended = rest(run)
    assert ended.status is Status.STOPPED
    runs.discard(run)
    run.play()
    run.step_once()
    again = runs.start("ann", spec_for(steps=50), play=False)
    assert step_count(again) == 0
    again.play()
    assert rest(again).status is Status.DONE
    assert rest(run).status is Status.STOPPED
    assert step_count(run) == len(ended.loss)


@pytest.mark.parametrize("request_name", ["discard", "pause"])
def test_discard_and_pause_take_effect_within_one_step(runs, gate, request_name):
    """CON-01"""
    entered, leave = gate
    run = runs.start("ann", spec_for(steps=FOREVER))
    leave.release(2)
    for _ in range(3):
        assert entered.acquire(timeout=60)  # the third step is being made now
    runs.discard(run) if request_name == "discard" else run.pause()
    leave.release(FOREVER)
    assert len(rest(run).loss) == 3


def test_two_runs_at_once_give_the_curve_of_one_alone(runs):
    """CON-04: bit for bit."""
    spec = spec_for("reverse", steps=60)
    first, second = (runs.start(owner, spec) for owner in ("ann", "bob"))
    alone = curve(spec)
    assert rest(first).loss.tolist() == rest(second).loss.tolist() == alone


# --- requests -----------------------------------------------------------------------------


def test_a_hot_change_is_recorded_and_applied(runs):
    spec = spec_for(steps=6)
    run = runs.start("ann", spec, play=False)
    for _ in range(2):
        run.step_once()
    run.change(spec.turned({"mask": "none", "lr": 0.5}))
    view = rest(run)
    assert view.changes == (Change(2, "mask", "none"), Change(2, "lr", 0.5))
    assert (view.spec.model.mask, view.spec.training.lr) == ("none", 0.5)
    (before,), (after,) = (view.frames[i].attention.values() for i in (0, -1))
    assert before.hidden.any() and not after.hidden.any()
    run.play()
    assert rest(run).loss.tolist() == curve(spec, 2, mask="none", lr=0.5)
    assert run.started == spec


def test_the_validation_set_is_evaluated_before_a_change_at_it_and_soon_after(runs):
    spec = spec_for("reverse", steps=40, lr=0.1)
    run = runs.start("ann", spec, play=False)
    for _ in range(11):
        run.step_once()
    rest(run)
    run.change(spec.turned({"residual": False}))
    run.play()
    view = rest(run)
    at = np.flatnonzero(view.val_steps == 11)
    assert len(at) == 2, "with the knobs before, and with those after"
    trainer = Trainer(spec.model, spec.task, spec.training)
    for _ in range(11):
        trainer.step()
    validation = spec.task.validation("decoder", 64)
    assert view.val_loss[at[0]] == pytest.approx(trainer.evaluate(validation).loss, rel=1e-5)
    trainer.change(residual=False)
    assert view.val_loss[at[1]] == pytest.approx(trainer.evaluate(validation).loss, rel=1e-5)
    assert view.val_loss[at[0]] != view.val_loss[at[1]]
    assert view.val_steps[at[1] + 1] <= 11 + 8


def test_the_same_run_shows_the_same_pictures_whoever_looks(runs):
    spec = spec_for("reverse", steps=150)
    unseen = runs.start("ann", spec)
    wait(lambda: unseen.ended)
    watched, beside = runs.start("bob", spec), runs.start("cat", spec_for(steps=150))
    wait(lambda: watched.view() and beside.ended and watched.ended)
    one, other = rest(unseen), rest(watched)
    assert [frame.step for frame in one.frames] == [0, 1, 2, *range(4, 151, 4), 150]
    assert [frame.step for frame in other.frames] == [frame.step for frame in one.frames]
    for name in ("val_steps", "val_loss", "val_accuracy"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for ours, theirs in zip(one.frames, other.frames, strict=True):
        assert (ours.measured_at, ours.loss) == (theirs.measured_at, theirs.loss)
        assert ours.predictions == theirs.predictions


def test_a_run_that_is_looked_at_shows_more_than_what_is_kept(runs):
    run = runs.start("ann", spec_for(steps=FOREVER))

    def newest() -> int:
        frames = run.view().frames
        return frames[-1].step if frames else 0

    # Far from the end, only powers of two are kept.
    live = wait(lambda: (step := newest()).bit_count() > 1 and step)
    wait(lambda: newest() != live)
    assert live not in [frame.step for frame in run.view().frames]


@pytest.mark.parametrize(
    ("hot", "words"),
    [
        ({"d_model": 16}, "d_model cannot change"),
        ({"mask": "diagonal"}, "mask='diagonal'"),
        ({"lr": -1.0}, "lr=-1.0"),
        ({"batch_size": 10**6}, "batch_size=1000000 reads 6,000,000 tokens a step"),
    ],
)
def test_an_illegal_change_changes_nothing(runs, hot, words):
    spec = spec_for()
    run = runs.start("ann", spec, play=False)
    with pytest.raises(ValueError, match=words):
        run.change(spec.changed(hot.items()))
    assert rest(run).spec == spec
    run.play()
    assert rest(run).loss.tolist() == curve(spec)


def test_a_finished_run_goes_on_when_steps_are_added(runs):
    run = runs.start("ann", spec_for(steps=3))
    assert rest(run).status is Status.DONE
    run.change(spec_for(steps=5))
    run.play()
    view = rest(run)
    assert (view.status, len(view.loss)) == (Status.DONE, 5)


def test_another_probe_is_shown(runs):
    run = runs.start("ann", spec_for(), play=False)
    run.show("123")
    frame = rest(run).frames[-1]
    assert frame.attention["blocks.0.attention"].key_tokens == list("123→12")
    with pytest.raises(ValueError, match="'12345' has 5 symbols"):
        run.show("12345")
    view = rest(run)
    assert view.spec.probe == "123"
    assert view.frames[-1] is frame


def test_a_checkpoint_is_the_run_between_two_steps(runs):
    spec = spec_for(steps=8)
    run = runs.start("ann", spec, play=False)
    for _ in range(3):
        run.step_once()
    trainer = checkpoint.restore(checkpoint.from_bytes(run.checkpoint().result(timeout=60)))
    assert [step.loss for step in trainer] == curve(spec)[3:]
    runs.discard(run)
    with pytest.raises(ValueError, match="no longer in memory"):
        run.checkpoint().result(timeout=60)


def test_a_question_is_answered_of_the_live_model_between_two_steps(runs):
    spec = spec_for(steps=FOREVER)
    run = runs.start("ann", spec)
    wait(lambda: len(run.view().loss) > 3)
    answers = [run.ask(lambda trainer: (trainer.step_count, trainer.evaluate().loss)) for _ in "ab"]
    (step, loss), (later, _) = (answer.result(timeout=60) for answer in answers)
    assert 3 < step <= later
    alone = Trainer(spec.model, spec.task, spec.training)
    while alone.step_count < step:
        alone.step()
    assert alone.evaluate().loss == loss
    wait(lambda: len(run.view().loss) > later)
    assert run.view().status is Status.RUNNING, "it trains on"


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has no niceness of its own")
def test_what_draws_a_page_goes_before_what_trains(runs):
    def niceness(*_: Trainer) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    run = runs.start("ann", spec_for(steps=8))
    assert run.ask(niceness).result(timeout=60) > niceness()


def test_a_question_that_fails_fails_alone(runs):
    run = runs.start("ann", spec_for(steps=8))
    with pytest.raises(ZeroDivisionError):
        run.ask(lambda trainer: 1 / 0).result(timeout=60)
    assert rest(run).status is Status.DONE
    runs.discard(run)
    with pytest.raises(ValueError, match="no longer in memory"):
        run.ask(lambda trainer: trainer.step_count).result(timeout=60)


# --- what goes wrong ----------------------------------------------------------------------


def fail_at(monkeypatch, step, damage):
    """Do `damage` to the trainer labelled by seed 13 before one of its steps."""
    right = Trainer.step

    def wrong(trainer):
        if trainer.config.seed == 13 and trainer.step_count == step - 1:
            damage(trainer)
        return right(trainer)

    monkeypatch.setattr(Trainer, "step", wrong)


def test_divergence_ends_a_run_and_keeps_its_finite_curve(runs, monkeypatch):
    """UI-03"""

    @torch.no_grad()
    def damage(trainer):
        trainer.parameters[-1][0, 0] = math.inf

    fail_at(monkeypatch, 5, damage)
    run = runs.start("ann", spec_for(seed=13))
    view = rest(run)
    assert view.status is Status.DIVERGED
    assert "step 5" in view.message and "learning rate 0.001" in view.message
    assert len(view.loss) == 4 and np.isfinite(view.loss).all()
    assert all(np.isfinite(frame.loss) for frame in view.frames)
    with pytest.raises(ValueError, match="not finite"):
        run.checkpoint().result(timeout=60)
    run.play()
    assert rest(run).status is Status.DIVERGED
    assert rest(runs.start("ann", spec_for())).status is Status.DONE


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("a wire\nis loose"), "^RuntimeError: a wire$"),
        (MemoryError(), "out of memory: .* MB; make batch_size=4, d_model=8"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory: .*d_model=8"),
    ],
)
def test_an_error_ends_one_run_in_words(runs, monkeypatch, error, words):
    def damage(trainer):
        raise error

    fail_at(monkeypatch, 3, damage)
    bad, good = (runs.start("ann", spec_for(seed=seed)) for seed in (13, 0))
    view = rest(bad)
    assert view.status is Status.FAILED and len(view.loss) == 2
    assert re.search(words, view.message)
    assert rest(good).status is Status.DONE
    assert runs.threads() == 2 and runs.active() == 0
    with pytest.raises(ValueError):
        bad.checkpoint().result(timeout=60)


def test_what_is_too_large_is_refused_before_it_starts(runs):
    with pytest.raises(ValueError, match="50,407,424 parameters: the limit here is 20,000,000"):
        runs.start("ann", spec_for(d_model=2048))
    assert runs.of("ann") == [] and runs.threads() == 0


def test_a_visitor_has_a_share_of_the_places(monkeypatch):
    monkeypatch.setattr(limits, "LEAST_RUNS", 2)
    runs = Runs(workers=1, max_runs=6)
    ann = runs.start_all("ann", [spec_for(steps=FOREVER)] * 5)
    with pytest.raises(ValueError, match="2 runs more: you have 5 open, and the limit here is 6"):
        runs.start_all("ann", [spec_for()] * 2)
    assert runs.of("ann") == ann
    bob = runs.start_all("bob", [spec_for(steps=FOREVER)] * 3)  # however many ann has
    with pytest.raises(
        ValueError, match="1 run more: you have 3 open, and with 2 visitors your share is 3;"
    ):
        runs.start("bob", spec_for())
    for owner in ("cid", "dot", "eve", "fay"):
        runs.start_all(owner, [spec_for()] * 2)
    with pytest.raises(ValueError, match="with 6 visitors your share is 2"):
        runs.start("cid", spec_for())
    # One for one: whoever had more before the others came may go on turning knobs.
    runs.start("bob", spec_for(), instead=bob[:1])
    assert bob[0] not in runs.of("bob") and len(runs.of("bob")) == 3
    runs.close()


def test_a_run_that_has_ended_takes_no_place(monkeypatch):
    monkeypatch.setattr(limits, "LEAST_RUNS", 1)
    runs = Runs(workers=1, max_runs=2)
    for _ in range(3):
        done = runs.start_all("ann", [spec_for(steps=2)] * 2)
        wait(lambda done=done: all(run.ended for run in done))
    assert len(runs.of("ann")) == 6 and runs.of("ann")[0].view().frames
    runs.close()


def test_of_several_runs_all_are_started_or_none(runs):
    old = runs.start("ann", spec_for(steps=FOREVER))
    with pytest.raises(ValueError, match="parameters: the limit here"):
        runs.start_all("ann", [spec_for(), spec_for(d_model=2048)], instead=[old])
    assert runs.of("ann") == [old] and old.view().status.moving


def fits(monkeypatch, count: float, least: float = 0.0) -> None:
    """Memory for so many small runs, and for so many of whoever comes."""
    need = sum(memory_of(spec_for()))
    monkeypatch.setattr(limits, "MAX_MEMORY", int(count * need))
    monkeypatch.setattr(limits, "LEAST_MEMORY", int(least * need))


def test_a_visitor_has_a_share_of_the_memory(runs, monkeypatch):
    fits(monkeypatch, 2.5)
    first, _ = runs.start_all("ann", [spec_for(), spec_for()], play=False)
    with pytest.raises(ValueError, match=r"your runs would need about .* MB: the limit here is"):
        runs.start("ann", spec_for())
    with pytest.raises(ValueError, match=r"all visitors' runs would need about .* MB: the limit"):
        runs.start("bob", spec_for())
    runs.discard(first)
    runs.start("bob", spec_for())
    fits(monkeypatch, 2.5, least=1)
    runs.start("cid", spec_for())  # whoever has nothing yet gets the least in any case
    with pytest.raises(ValueError, match="with 3 visitors your share is"):
        runs.start("cid", spec_for())


def test_where_memory_is_short_ended_runs_give_up_their_models(runs, monkeypatch):
    ended = runs.start_all("ann", [spec_for(steps=5)] * 3)
    other = runs.start("bob", spec_for(steps=5))
    wait(lambda: all(run.ended for run in (*ended, other)))
    fits(monkeypatch, 3.2)
    runs.start("cid", spec_for(steps=5))
    wait(lambda: [run.forgotten for run in (*ended, other)] == [True, True, False, False])
    for run in ended[:2]:
        view = rest(run)
        assert (view.status, len(view.loss)) == (Status.DONE, 5)
        assert [frame.step for frame in view.frames] == [5], "its last picture"
        with pytest.raises(ValueError, match="no longer in memory"):
            run.checkpoint().result(timeout=60)
        with pytest.raises(ValueError, match="no longer in memory"):
            run.change(spec_for(steps=9))
    assert other.checkpoint().result(timeout=60) and ended[2].view().frames[0].step == 0


def test_a_spec_that_does_not_fit_together_is_refused(runs):
    spec = spec_for()
    other = Spec(spec.model, TASKS["reverse"](length=9), spec.training)
    with pytest.raises(ValueError, match="max_len"):
        runs.start("ann", other)
    with pytest.raises(ValueError, match="symbols"):
        runs.start("ann", spec_for(probe="1"))
    assert runs.of("ann") == []


# --- many runs ----------------------------------------------------------------------------


def test_all_runs_advance_alike_and_none_is_with_two_workers(runs, monkeypatch):
    monkeypatch.setattr(module, "SLICE", 0.0)  # a turn is one step
    held, twice, step = set(), [], Trainer.step

    def watched(trainer):
        if id(trainer) in held:
            twice.append(trainer)
        held.add(id(trainer))
        try:
            return step(trainer)
        finally:
            held.discard(id(trainer))

    monkeypatch.setattr(Trainer, "step", watched)
    everyone = [runs.start(f"visitor {i}", spec_for(steps=FOREVER)) for i in range(30)]
    wait(lambda: all(run.view().status is Status.RUNNING for run in everyone))
    before = [step_count(run) for run in everyone]
    wait(lambda: sum(map(step_count, everyone)) >= sum(before) + 30 * 15)
    shares = [step_count(run) - n for run, n in zip(everyone, before, strict=True)]
    assert min(shares) >= 0.8 * max(shares)
    assert not twice


def test_who_waits_sees_the_place_in_the_queue():
    runs = Runs(workers=1, max_active=1)
    first, second, third = runs.start_all("ann", [spec_for(steps=FOREVER)] * 3)
    wait(lambda: step_count(first) >= 2)
    assert [run.view().queue_position for run in (first, second, third)] == [None, 1, 2]
    assert [run.view().status for run in (second, third)] == [Status.QUEUED] * 2
    wait(lambda: second.view().frames)  # a picture there is all the same
    assert step_count(second) == step_count(third) == 0
    second.pause()
    assert rest(second).queue_position is None
    assert third.view().queue_position == 1
    runs.discard(first)
    wait(lambda: step_count(third) >= 2)
    assert runs.active() == 1
    second.play()
    assert second.view().queue_position == 1
    runs.discard(third)
    wait(lambda: step_count(second) >= 2)
    runs.close()


def test_whoever_comes_does_not_wait_for_those_who_were_there():
    runs = Runs(workers=1, max_active=2)
    early = runs.start_all("ann", [spec_for(steps=FOREVER)] * 5)
    wait(lambda: sum(map(step_count, early)) >= 50)
    late = [runs.start(owner, spec_for(steps=FOREVER)) for owner in ("bob", "cid")]
    wait(lambda: all(step_count(run) >= 5 for run in late))
    assert [run.view().queue_position for run in early] == [None, None, 1, 2, 3]
    runs.close()


def test_a_request_is_served_before_others_train_on(runs):
    """However many train, a paused run's page does not wait for its turn."""
    shown = runs.start("ann", spec_for(), play=False)
    rest(shown)
    for i in range(10):
        runs.start(f"visitor {i}", spec_for(steps=FOREVER))
    shown.show("111")
    assert rest(shown).frames[-1].attention["blocks.0.attention"].key_tokens[:3] == list("111")


# --- coming and going ---------------------------------------------------------------------


def test_leaving_pauses_and_coming_back_goes_on(runs):
    played = runs.start("ann", spec_for(steps=FOREVER))
    paused = runs.start("ann", spec_for(), play=False)
    other = runs.start("bob", spec_for(steps=FOREVER))
    wait(lambda: step_count(played) >= 2)
    runs.leave("ann")
    runs.leave("ann")
    held = rest(played)
    assert held.status is Status.PAUSED
    assert other.view().status is not Status.PAUSED
    runs.come_back("ann")
    runs.come_back("ann")
    wait(lambda: step_count(played) > len(held.loss))
    assert rest(paused).status is Status.PAUSED
    assert runs.of("ann") == [played, paused]


def test_who_stays_away_leaves_nothing_behind(monkeypatch):
    """CON-02: threads, runs and trainers are back where they were."""
    runs, trainers = Runs(workers=2, grace=0.01), weakref.WeakSet()
    build = Trainer.__init__

    def counted(trainer, *arguments):
        trainers.add(trainer)
        build(trainer, *arguments)

    monkeypatch.setattr(Trainer, "__init__", counted)
    for i in range(20):
        run = runs.start(f"visitor {i}", spec_for(steps=FOREVER))
        wait(lambda run=run: step_count(run) >= 1)
        runs.leave(run.owner)
        wait(lambda run=run: not runs.of(run.owner))
        assert rest(run).status is Status.STOPPED
    del run
    gc.collect()
    wait(lambda: not trainers)
    assert runs.threads() == 2 and runs.active() == 0
    runs.close()


def test_a_discarded_run_ends_even_before_it_was_built(gate):
    entered, leave = gate
    runs = Runs(workers=1)
    runs.start("ann", spec_for(steps=FOREVER))
    assert entered.acquire(timeout=60)  # the only worker is busy
    waiting = runs.start("ann", spec_for())
    runs.discard(waiting)
    leave.release(FOREVER)
    assert rest(waiting).status is Status.STOPPED and not waiting.view().frames
    runs.close()


def test_after_closing_runs_can_be_started_again():
    runs = Runs(workers=1)
    run = runs.start("ann", spec_for(steps=FOREVER))
    wait(lambda: step_count(run) >= 1)
    runs.close()
    assert (runs.threads(), runs.active(), runs.of("ann")) == (0, 0, [])
    assert run.view().status is Status.STOPPED
    assert rest(runs.start("ann", spec_for())).status is Status.DONE
    runs.close()
