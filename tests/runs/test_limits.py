"""Which runs are too large for the server, and what it says of those that fail."""

import pytest
import torch

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from playground.runs import limits as module
from playground.runs.limits import (
    Memory,
    check_limits,
    failure_in_words,
    memory_of,
    setting,
    share,
    step_tokens,
    together,
)
from playground.runs.spec import Spec

LENGTH = {"copy": {"length": 3}}


def spec_for(task="copy", architecture="decoder", d_model=8, **training) -> Spec:
    task = TASKS[task](**LENGTH.get(task, {}))
    model = ModelConfig.for_task(
        task, architecture=architecture, d_model=d_model, n_heads=1, n_layers=1
    )
    return Spec(model, task, TrainConfig(**({"batch_size": 4} | training)))


def test_tokens_of_a_step_are_those_of_its_inputs():
    for task, architecture in (
        ("copy", "decoder"),
        ("copy", "encoder"),
        ("add", "encoder-decoder"),
        ("text", "decoder"),
    ):
        spec = spec_for(task, architecture)
        inputs = spec.task.validation(architecture, 4).inputs
        assert step_tokens(spec) == sum(tokens.numel() for tokens in inputs)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            spec_for(d_model=2048),
            "50,407,424 parameters: the limit here is 20,000,000; make d_model=2048",
        ),
        (spec_for(batch_size=20_000), "batch_size=20000 reads 120,000 tokens a step: .* 65,536"),
    ],
)
def test_what_is_too_large_is_refused_in_numbers(spec, words):
    with pytest.raises(ValueError, match=words):
        check_limits(spec)


def test_what_needs_too_much_memory_is_refused(monkeypatch):
    spec = spec_for()
    need = sum(memory_of(spec))
    monkeypatch.setattr(module, "MAX_MEMORY", need)
    check_limits(spec)
    monkeypatch.setattr(module, "MAX_MEMORY", need - 1)
    with pytest.raises(
        ValueError, match=f"the run needs about {need / 1e6:.0f} MB: .*batch_size=4"
    ):
        check_limits(spec)


def test_memory_grows_with_batch_and_model():
    small = memory_of(spec_for())
    assert memory_of(spec_for(batch_size=400)).step > small.step
    assert memory_of(spec_for(d_model=512)).kept > small.kept


def test_only_runs_that_make_a_step_take_the_memory_of_one():
    assert together([Memory(10, 1), Memory(20, 5), Memory(30, 3)], workers=2) == 60 + 5 + 3


@pytest.mark.parametrize(
    ("visitors", "most"), [(1, 96), (2, 48), (3, 32), (4, 24), (30, 24), (1000, 24)]
)
def test_a_share_is_an_equal_part_and_never_below_the_least(visitors, most):
    assert share(96, 24, visitors) == most
    assert share(4, 24, visitors) <= 4


@pytest.mark.parametrize("value", ["many", "0", "-1", "1.5", "1e6"])
def test_a_setting_that_is_no_number_is_refused_by_name(monkeypatch, value):
    monkeypatch.setenv("PLAYGROUND_MAX_RUNS", value)
    with pytest.raises(ValueError, match=f"PLAYGROUND_MAX_RUNS='{value}': set it to a whole"):
        setting("MAX_RUNS", 96)
    monkeypatch.setenv("PLAYGROUND_MAX_RUNS", "")
    assert setting("MAX_RUNS", 96) == 96


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("a wire\nis loose"), "RuntimeError: a wire"),
        (ValueError("n=3: too many"), "n=3: too many"),
        (KeyError(), "KeyError: "),
    ],
)
def test_failures_in_words(error, words):
    assert failure_in_words(error, spec_for()) == words


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")]
)
def test_where_memory_ran_out_the_way_out_is_named(error):
    words = failure_in_words(error, spec_for())
    assert words.startswith("out of memory: this run needs about ")
    assert "make batch_size=4, d_model=8, n_layers=1 or the task's length smaller" in words


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi"])
@pytest.mark.parametrize("d_model", [16, 64])
def test_a_step_takes_no_more_memory_than_is_thought(position, d_model):
    """What forward keeps for backward, a mask with a bias for each row and head included."""
    task = TASKS["text"](source="grammar", length=256)
    model = ModelConfig.for_task(task, position=position, d_model=d_model, n_heads=8)
    spec = Spec(model, task, TrainConfig(batch_size=4))
    trainer, kept = Trainer(spec.model, task, spec.training), {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        trainer.step()
    assert 0.3 * memory_of(spec).step < sum(kept.values()) < memory_of(spec).step
