"""How long a run will take: the count of operations against PyTorch's own, and the words."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from core.config import ModelConfig, TrainConfig
from core.model import build_model
from core.tasks import TASKS
from core.train import cross_entropy
from playground.runs.estimate import in_words, operations_per_step, seconds_per_step
from playground.runs.spec import Spec


def spec_for(length=10, batch_size=8, **model) -> Spec:
    task = TASKS["reverse"](length=length)
    return Spec(ModelConfig.for_task(task, **model), task, TrainConfig(batch_size=batch_size))


@pytest.mark.parametrize("d_model, n_layers", [(64, 2), (128, 4), (256, 1)])
def test_operations_are_about_those_that_pytorch_counts(d_model, n_layers):
    spec = spec_for(d_model=d_model, n_layers=n_layers)
    model = build_model(spec.model)
    batch = spec.task.batch("decoder", spec.training.batch_size, torch.Generator())
    with FlopCounterMode(display=False) as counter:
        cross_entropy(model(*batch.inputs), batch.targets).backward()
    assert operations_per_step(spec) == pytest.approx(counter.get_total_flops(), rel=0.25)


def test_more_of_anything_takes_longer():
    usual = seconds_per_step(spec_for())
    for more in ({"d_model": 128}, {"n_layers": 4}, {"length": 20}, {"batch_size": 64}):
        assert seconds_per_step(spec_for(**more)) > usual


def test_a_correction_multiplies():
    assert seconds_per_step(spec_for(), 2.0) == pytest.approx(2 * seconds_per_step(spec_for()))


@pytest.mark.parametrize(
    "seconds, words",
    [(0.01, "1 s"), (8.4, "8 s"), (89, "89 s"), (91, "2 min"), (600, "10 min"), (9000, "2.5 h")],
)
def test_a_duration_is_said_as_one_says_it(seconds, words):
    assert in_words(seconds) == words
