"""How often a run is looked at: within its means, the cheap look most often."""

import math

import pytest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from playground.runs import snapshot
from playground.runs import watch as module
from playground.runs.snapshot import Level, take_frame
from playground.runs.watch import Budget, Watch


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


def simulate(clock, monkeypatch, seconds, step=0.02, costs=(0.003, 0.02, 0.07), n_active=1):
    """Train for a while with looks of known cost; the times of the looks of each kind."""

    def costing(look):
        def part(trainer, *_):
            clock.now += costs[look]
            times[look].append(clock.now)

        return part

    times = {look: [] for look in Level}
    for level, name in zip(Level, ("_read_probe", "_evaluate", "_generate"), strict=True):
        monkeypatch.setattr(snapshot, name, costing(level))
    watch, trained = Watch(), 0.0
    while trained < seconds:
        with watch.training():
            clock.now += step
        trained += step
        if (level := watch.due(n_active)) is not None:
            take_frame(None, None, level=level, charged=watch.charged)
        clock.now += (n_active - 1) * step
    return times


@pytest.mark.parametrize("n_active", [1, 30])
@pytest.mark.parametrize("slow", [1, 10])
def test_looking_takes_a_twenty_fifth_of_a_long_run(clock, monkeypatch, slow, n_active):
    costs = [slow * cost for cost in (0.003, 0.02, 0.07)]
    times = simulate(clock, monkeypatch, 200, costs=costs, n_active=n_active)
    spent = sum(cost * len(times[look]) for look, cost in zip(Level, costs, strict=True))
    assert 0.02 * 200 < spent < 0.042 * 200


def test_a_cheap_look_comes_twice_a_second_and_a_costly_one_less_often(clock, monkeypatch):
    times = simulate(clock, monkeypatch, 100)
    assert 150 < len(times[Level.PROBE]) < 220
    assert (
        0
        < len(times[Level.GENERATION])
        < len(times[Level.VALIDATION])
        < len(times[Level.PROBE]) / 2
    )


def test_the_first_seconds_show_several_frames(clock, monkeypatch):
    times = simulate(clock, monkeypatch, 2)
    assert 6 <= len(times[Level.PROBE]) <= 11
    assert times[Level.VALIDATION]


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
