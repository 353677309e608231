"""How often a run is looked at: within its means, the cheap look most often."""

import math

import pytest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from playground import watch as module
from playground.frames import take_frame
from playground.watch import Allowance, Look, Watch


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


def simulate(clock, monkeypatch, seconds, step=0.02, costs=(0.003, 0.02, 0.07), rivals=1):
    """Train for a while with looks of known cost; the times of the looks of each kind."""

    def costing(look):
        def part(trainer, *_):
            clock.now += costs[look]
            times[look].append(clock.now)

        return part

    times = {look: [] for look in Look}
    for look, name in zip(Look, ("glance", "measure", "look_closer"), strict=True):
        monkeypatch.setattr(module, name, costing(look))
    watch, trained = Watch(), 0.0
    while trained < seconds:
        with watch.training():
            clock.now += step
        trained += step
        if (look := watch.due(rivals)) is not None:
            watch.look(None, None, None, look)
        clock.now += (rivals - 1) * step
    return times


@pytest.mark.parametrize("rivals", [1, 30])
@pytest.mark.parametrize("slow", [1, 10])
def test_looking_takes_a_twenty_fifth_of_a_long_run(clock, monkeypatch, slow, rivals):
    costs = [slow * cost for cost in (0.003, 0.02, 0.07)]
    times = simulate(clock, monkeypatch, 200, costs=costs, rivals=rivals)
    spent = sum(cost * len(times[look]) for look, cost in zip(Look, costs, strict=True))
    assert 0.02 * 200 < spent < 0.042 * 200


def test_a_cheap_look_comes_twice_a_second_and_a_costly_one_less_often(clock, monkeypatch):
    times = simulate(clock, monkeypatch, 100)
    assert 150 < len(times[Look.GLANCE]) < 220
    assert 0 < len(times[Look.CLOSE]) < len(times[Look.MEASURE]) < len(times[Look.GLANCE]) / 2


def test_the_first_seconds_show_several_frames(clock, monkeypatch):
    times = simulate(clock, monkeypatch, 2)
    assert 6 <= len(times[Look.GLANCE]) <= 11
    assert times[Look.MEASURE]


def test_an_allowance_learns_what_a_look_costs(clock):
    allowance = Allowance(share=0.1, cost=1.0)
    assert allowance.covers(trained=11)
    with allowance.spending():
        clock.now += 3.0
    assert not allowance.covers(trained=59)
    assert allowance.covers(trained=61)


def test_credit_is_shared():
    allowance = Allowance(share=0.1, cost=1.0, credit=4.0)
    assert allowance.covers(0, rivals=4) and not allowance.covers(0, rivals=5)


def test_a_close_look_is_a_frame_with_everything():
    task = TASKS["copy"](length=3)
    model = ModelConfig.for_task(task, d_model=8, n_heads=1, n_layers=1)
    trainer, probe = Trainer(model, task, TrainConfig(batch_size=4)), task.probe("decoder")
    seen = Watch().look(trainer, probe, None, Look.CLOSE)
    whole = take_frame(trainer, probe, closely=True)
    assert (seen.loss, seen.free_running) == (whole.loss, whole.free_running)
    assert seen.predictions == whole.predictions
    assert math.isfinite(seen.loss)
