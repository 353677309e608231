"""What this server can run: the limits, and what a run needs."""

import os
from functools import lru_cache

from core.tasks import Task
from playground.runs.snapshot import MAX_FRAME_BYTES, MAX_PROBE, STAGES
from playground.runs.spec import Spec


def _limit(name: str, default: int) -> int:
    return int(os.environ.get(f"PLAYGROUND_{name}") or default)


# Each limit can be set by an environment variable: PLAYGROUND_MAX_PARAMETERS and so on.
MAX_PARAMETERS = _limit("MAX_PARAMETERS", 20_000_000)  # of one model
MAX_TOKENS = _limit("MAX_TOKENS", 65_536)  # read in one step
MAX_ACTIVE = _limit("MAX_ACTIVE", 32)  # runs that train at once; more wait in a queue
MAX_RUNS = _limit("MAX_RUNS", 96)  # runs in memory, paused and ended ones too
MAX_MEMORY = _limit("MAX_MEMORY", 4_000_000_000)  # bytes of all runs, by `estimated_memory`


def step_tokens(spec: Spec) -> int:
    """Tokens that the model reads in one step."""
    return spec.training.batch_size * _row_tokens(spec.task, spec.model.architecture)


@lru_cache(maxsize=256)
def _row_tokens(task: Task, architecture: str) -> int:
    """Tokens in one example, of all inputs together."""
    return sum(tokens.shape[1] for tokens in task.validation(architecture, 1).inputs)


def estimated_memory(spec: Spec) -> int:
    """Bytes that a run takes, roughly: weights, optimiser, one step's activations, frames."""
    model = spec.model
    weights = 4 * 4 * model.n_parameters  # the weights, their gradient and AdamW's two moments
    a_layer = 16 * model.d_model + 3 * model.d_hidden
    layers = model.n_layers * (2 if model.architecture == "encoder-decoder" else 1)
    activations = 4 * step_tokens(spec) * (layers * a_layer + 4 * model.vocab_size)
    shown = min(MAX_PROBE, model.max_len) ** 2
    maps = 3 * layers if model.architecture == "encoder-decoder" else 2 * layers
    frame = 4 * len(STAGES) * maps * model.n_heads * shown
    return weights + activations + max(MAX_FRAME_BYTES, 2 * frame)


def check_limits(spec: Spec, taken: int = 0) -> None:
    """Refuse a run that is too large for this server.

    Args:
        taken: bytes that the other runs take.

    Raises:
        ValueError: names the number, the limit and what to make smaller.
    """
    if (n := spec.model.n_parameters) > MAX_PARAMETERS:
        raise ValueError(
            f"{n:,} parameters: the limit here is {MAX_PARAMETERS:,}; "
            f"make d_model={spec.model.d_model} or n_layers={spec.model.n_layers} smaller"
        )
    if (n := step_tokens(spec)) > MAX_TOKENS:
        raise ValueError(
            f"batch_size={spec.training.batch_size} reads {n:,} tokens a step: the limit here is "
            f"{MAX_TOKENS:,}; make it or the task's length smaller"
        )
    if (n := estimated_memory(spec)) + taken > MAX_MEMORY:
        others = f" and the other runs take {_megabytes(taken)}" if taken else ""
        later = ", or try again when another visitor has left" if taken else ""
        raise ValueError(
            f"the run needs about {_megabytes(n)}{others}: the limit here is "
            f"{_megabytes(MAX_MEMORY)}; make d_model, n_layers or "
            f"batch_size={spec.training.batch_size} smaller{later}"
        )


def failure_in_words(error: Exception, spec: Spec) -> str:
    """Why a run failed; where memory ran out, what to make smaller."""
    text = str(error).splitlines()[0] if str(error) else ""
    signs = ("out of memory", "allocate memory", "not enough memory")
    if isinstance(error, MemoryError) or any(sign in text for sign in signs):
        return (
            f"out of memory: this run needs about {_megabytes(estimated_memory(spec))}; make "
            f"batch_size={spec.training.batch_size}, d_model={spec.model.d_model}, "
            f"n_layers={spec.model.n_layers} or the task's length smaller"
        )
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.0f} MB"
