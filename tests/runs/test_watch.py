"""What is looked at, and how closely: the same steps everywhere, within a share of the time."""

import math
from itertools import pairwise

import pytest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from playground.runs import watch as module
from playground.runs.snapshot import Level, take_frame
from playground.runs.watch import Budget, Watch, planned


class Clock:
    """Time that passes when told so."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    thread_time = perf_counter


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


# --- planned steps ------------------------------------------------------------------------


def plan(steps: int, cost: float = 0.7, changed: int | None = None) -> dict[int, Level]:
    levels = {step: planned(step, steps, changed, cost) for step in range(steps + 1)}
    return {step: level for step, level in levels.items() if level is not None}


def test_frames_are_kept_at_the_powers_of_two_and_every_fortieth_of_the_run():
    assert list(plan(300)) == [0, 1, 2, 4, *range(8, 301, 8)]
    assert list(plan(4000))[:9] == [0, 1, 2, 4, 8, 16, 32, 64, 100]
    assert list(plan(20)) == list(range(21))
    for steps in (1, 7, 300, 5000, 50_000):
        assert len(plan(steps)) <= 41 + math.log2(steps)


@pytest.mark.parametrize("steps", [300, 1000, 5000, 50_000])
@pytest.mark.parametrize("cost", [0.1, 0.7, 1.0, 2.7, 5.3])
def test_evaluations_take_their_share_unless_they_would_be_too_few(steps, cost):
    found = [step for step, level in plan(steps, cost).items() if level is Level.VALIDATION]
    assert found[0] == 0 and 5 <= len(found) - 1 <= 60
    assert len({b - a for a, b in pairwise(found)}) == 1
    assert len(found) - 1 <= 9 or (len(found) - 1) * cost <= 0.045 * steps


def test_after_a_change_it_is_looked_at_closely_again():
    after = plan(4000, changed=1010)
    assert [step for step in after if 1000 < step <= 1100] == [
        *(1010 + 2**i for i in range(7)),
        1100,
    ]
    assert after[1018] is Level.VALIDATION
    assert plan(300, changed=200)[208] is Level.VALIDATION


# --- what the clock decides ---------------------------------------------------------------


def pictures(clock, seconds, step=0.02, cost=0.003, n_active=1, watched=True) -> list[float]:
    """When live pictures are taken while a run trains."""
    watch, trained, times = Watch(), 0.0, []
    while trained < seconds:
        with watch.training():
            clock.now += step
        trained += step
        if watched:
            watch.seen()
        if watch.live(n_active):
            times.append(clock.now)
            with watch.taking_live():
                clock.now += cost
        clock.now += (n_active - 1) * step
    return times


def test_whoever_looks_sees_the_picture_move_four_times_a_second(clock):
    times = pictures(clock, 30)
    assert all(b - a <= 0.25 for a, b in pairwise(times))


def test_a_run_that_nobody_looks_at_takes_no_live_picture(clock):
    assert not pictures(clock, 30, watched=False)
    watch = Watch()
    watch.seen()
    assert watch.live()
    clock.now += 5
    assert not watch.live()


@pytest.mark.parametrize("n_active", [1, 30])
@pytest.mark.parametrize("cost", [0.003, 0.03, 0.3])
def test_live_pictures_take_a_fiftieth_at_most(clock, n_active, cost):
    times = pictures(clock, 100, cost=cost, n_active=n_active)
    assert 0 < len(times) * cost <= 0.02 * 100 + 0.05 + cost


def test_writing_takes_its_share_of_the_evaluations(clock):
    watch, writings = Watch(), 0
    for _ in range(1000):
        with watch.training():
            clock.now += 0.1
        assert watch.closer(Level.PROBE) is Level.PROBE
        if (level := watch.closer(Level.VALIDATION)) is Level.GENERATION:
            writings += 1
            with watch.charged(level):
                clock.now += 0.07
    assert 0.01 * 100 < writings * 0.07 < 0.0125 * 100 + 0.07


def test_a_budget_learns_what_a_look_costs(clock):
    budget = Budget(share=0.1, cost=1.0)
    assert budget.allows(trained=11)
    with budget.charged():
        clock.now += 3.0
    assert not budget.allows(trained=59)
    assert budget.allows(trained=61)


def test_credit_is_shared():
    budget = Budget(share=0.1, cost=1.0, credit=4.0)
    assert budget.allows(0, n_active=4) and not budget.allows(0, n_active=5)


def test_a_close_look_is_a_frame_with_everything():
    task = TASKS["copy"](length=3)
    model = ModelConfig.for_task(task, d_model=8, n_heads=1, n_layers=1)
    trainer, probe = Trainer(model, task, TrainConfig(batch_size=4)), task.probe("decoder")
    seen = take_frame(trainer, probe, level=Level.GENERATION, charged=Watch().charged)
    whole = take_frame(trainer, probe, level=Level.GENERATION)
    assert (seen.loss, seen.free_running) == (whole.loss, whole.free_running)
    assert seen.predictions == whole.predictions
    assert math.isfinite(seen.loss)
