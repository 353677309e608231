"""The learning rate over the steps, and the registries of the optimisers."""

import pytest

from core import optimize
from core.config import OPTIMIZERS, SCHEDULES, TrainConfig
from core.optimize import learning_rate


def test_registries_and_legal_names_agree():
    assert set(optimize.SCHEDULES) == set(SCHEDULES)
    assert set(optimize.OPTIMIZERS) == set(OPTIMIZERS)


def test_warmup_and_cosine_take_these_values():
    """TRN-01"""
    config = TrainConfig(lr=1e-3, warmup=10, steps=100, schedule="cosine")
    expected = {0: 9.09e-5, 9: 9.09e-4, 10: 1e-3, 55: 5.5e-4, 100: 1e-4, 190: 1e-4}
    for i, lr in expected.items():
        assert learning_rate(i, config) == pytest.approx(lr, rel=1e-3), i


@pytest.mark.parametrize("warmup", [0, 9, 3999])
def test_the_papers_schedule_is_its_equation_3_with_lr_as_the_peak(warmup):
    config = TrainConfig(lr=2e-3, warmup=warmup, steps=5000, schedule="paper")
    d_model, warmup_steps = 512, warmup + 1

    def equation_3(step):  # counted from 1
        return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)

    peak = equation_3(warmup_steps)
    for i in (0, 1, 8, 9, 10, 100, 3998, 3999, 4000, 4999):
        expected = 2e-3 * equation_3(i + 1) / peak
        assert learning_rate(i, config) == pytest.approx(expected, rel=1e-12), i


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (0, 2), (1, 2), (99, 100), (0, 100)])
def test_the_learning_rate_is_finite_at_every_step(schedule, warmup, steps):
    """TRN-02"""
    config = TrainConfig(lr=1e-3, warmup=warmup, steps=steps, schedule=schedule)
    rates = [learning_rate(i, config) for i in range(2 * steps + 2)]
    assert all(0 < lr <= 1e-3 for lr in rates)
    assert rates[warmup] == 1e-3
    assert rates == sorted(rates[:warmup]) + rates[warmup:]


def test_constant_stays_at_the_peak():
    assert {learning_rate(i, TrainConfig(lr=0.5)) for i in range(1000)} == {0.5}
