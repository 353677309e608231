"""Which runs are too large for the server, and what it says of those that fail."""

import pytest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from playground.runs import limits as module
from playground.runs.limits import check_limits, estimated_memory, failure_in_words, step_tokens
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
    need = estimated_memory(spec)
    monkeypatch.setattr(module, "MAX_MEMORY", need)
    check_limits(spec)
    with pytest.raises(ValueError, match=r"the other runs take 5 MB.* another visitor has left"):
        check_limits(spec, taken=5_000_000)
    monkeypatch.setattr(module, "MAX_MEMORY", need - 1)
    with pytest.raises(
        ValueError, match=f"the run needs about {need / 1e6:.0f} MB: .*batch_size=4"
    ):
        check_limits(spec)


def test_memory_grows_with_batch_and_model():
    small = estimated_memory(spec_for())
    assert estimated_memory(spec_for(batch_size=400)) > small
    assert estimated_memory(spec_for(d_model=512)) > small


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
