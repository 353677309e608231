"""What this server can run: the limits, and what a run needs."""

import os
from collections.abc import Iterable
from functools import lru_cache
from heapq import nlargest
from typing import NamedTuple

from core.tasks import Task
from playground.runs.snapshot import MAX_FRAME_BYTES, MAX_PROBE, STAGES
from playground.runs.spec import Spec, counted
from playground.runs.view import MAX_FRAMES


def setting(name: str, default: int) -> int:
    """A number that an environment variable may set: PLAYGROUND_ and this name.

    Raises:
        ValueError: it is set to something else than a whole number above 0.
    """
    text = os.environ.get(f"PLAYGROUND_{name}") or str(default)
    if not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"PLAYGROUND_{name}={text!r}: set it to a whole number above 0")
    return int(text)


# Each limit can be set by an environment variable: PLAYGROUND_MAX_PARAMETERS and so on.
MAX_PARAMETERS = setting("MAX_PARAMETERS", 20_000_000)  # of one model
MAX_TOKENS = setting("MAX_TOKENS", 65_536)  # read in one step
MAX_ACTIVE = setting("MAX_ACTIVE", 32)  # runs that train at once; more wait in a queue
# What visitors share. Whoever comes gets the least, however much others have taken before.
MAX_RUNS = setting("MAX_RUNS", 96)  # open runs, paused ones too; one that has ended is not open
LEAST_RUNS = setting("LEAST_RUNS", 24)  # several comparisons at their defaults
MAX_MEMORY = setting("MAX_MEMORY", 4_000_000_000)  # bytes, by `memory_of`
LEAST_MEMORY = setting("LEAST_MEMORY", 125_000_000)


class Memory(NamedTuple):
    """Bytes that a run takes, roughly."""

    kept: int  # all the time: weights, gradients, the optimiser's moments, frames
    step: int = 0  # while a worker makes a step of it: activations, and what hides and biases


def step_tokens(spec: Spec) -> int:
    """Tokens that the model reads in one step."""
    return spec.training.batch_size * _row_tokens(spec.task, spec.model.form)


@lru_cache(maxsize=256)
def _row_tokens(task: Task, architecture: str) -> int:
    """Tokens in one example, of all inputs together."""
    return sum(tokens.shape[1] for tokens in task.validation(architecture, 1).inputs)


def memory_of(spec: Spec) -> Memory:
    """What a run takes while its model is there."""
    model, tokens = spec.model, step_tokens(spec)
    weights = 4 * 4 * model.n_parameters  # the weights, their gradient and AdamW's two moments
    hidden = (5 if model.gated else 3) * model.d_hidden
    blocks = model.how_many()["blocks"] * (16 * model.d_model + hidden)
    activations = 4 * tokens * (blocks + 4 * model.vocab_size)
    # A number for each query and key of each row, because rows differ in their padding; ALiBi
    # has one for each head.
    maps = model.n_heads if model.position == "alibi" else 1
    bias = 4 * tokens * model.max_len * maps
    frames = min(MAX_FRAME_BYTES, MAX_FRAMES * frame_bytes(spec))
    return Memory(weights + max(frames, 2 * frame_bytes(spec)), activations + bias)


def frame_bytes(spec: Spec) -> int:
    """Bytes of one frame: what its attention maps show at each stage."""
    model = spec.model
    maps = model.how_many()["attention"]
    return 4 * len(STAGES) * maps * model.n_heads * min(MAX_PROBE, model.max_len) ** 2


def together(runs: Iterable[Memory], workers: int) -> int:
    """Bytes of several runs, of which so many make a step at once."""
    runs = list(runs)
    return sum(run.kept for run in runs) + sum(nlargest(workers, (run.step for run in runs)))


def share(of: int, least: int, visitors: int) -> int:
    """What one of so many visitors may have: an equal part, and the least in any case."""
    return max(min(least, of), of // visitors)


def check_limits(spec: Spec) -> None:
    """Refuse a run that is too large for this server, before anything of its size is made.

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
    if (n := sum(memory_of(spec))) > MAX_MEMORY:
        raise ValueError(
            f"the run needs about {_megabytes(n)}: the limit here is {_megabytes(MAX_MEMORY)}; "
            f"{_smaller(spec)}"
        )


def check_share(have: int, more: int, visitors: int, of: int) -> None:
    """Refuse more runs than a visitor's share.

    Args:
        have: open runs that stay.
        more: those that are to come.
        of: runs that all visitors share.

    Raises:
        ValueError: says what the visitor has, asks for, and may have.
    """
    most = share(of, LEAST_RUNS, visitors)
    if have + more > most:
        raise ValueError(
            f"{counted(more, 'run')} more: you have {have} open, and {_whose(visitors)} {most}; "
            "take fewer variants or seeds, or press Reset where you need your runs no longer"
        )


def check_memory(spec: Spec, mine: int, all_runs: int, visitors: int, newcomer: bool) -> None:
    """Refuse what would take more memory than a visitor's share, or than there is.

    Args:
        spec: one of the runs that are to come, to say what to make smaller.
        mine: bytes of the visitor's open runs, with those to come.
        all_runs: bytes of all visitors' runs, with those to come.
        newcomer: whether the visitor has no open run yet.

    Raises:
        ValueError: says what the runs need, and what the visitor may have.
    """
    most = share(MAX_MEMORY, LEAST_MEMORY, visitors)
    if mine > most:
        raise ValueError(
            f"your runs would need about {_megabytes(mine)}: {_whose(visitors)} "
            f"{_megabytes(most)}; take fewer variants or seeds, or {_smaller(spec)}"
        )
    if all_runs > MAX_MEMORY and not (newcomer and mine <= LEAST_MEMORY):
        raise ValueError(
            f"all visitors' runs would need about {_megabytes(all_runs)}: the limit here is "
            f"{_megabytes(MAX_MEMORY)}; {_smaller(spec)}, or try again when a run has ended"
        )


def _whose(visitors: int) -> str:
    return "the limit here is" if visitors == 1 else f"with {visitors} visitors your share is"


def _smaller(spec: Spec) -> str:
    return f"make d_model, n_layers or batch_size={spec.training.batch_size} smaller"


def failure_in_words(error: Exception, spec: Spec) -> str:
    """Why a run failed; where memory ran out, what to make smaller."""
    text = str(error).splitlines()[0] if str(error) else ""
    signs = ("out of memory", "allocate memory", "not enough memory")
    if isinstance(error, MemoryError) or any(sign in text for sign in signs):
        return (
            f"out of memory: this run needs about {_megabytes(sum(memory_of(spec)))}; make "
            f"batch_size={spec.training.batch_size}, d_model={spec.model.d_model}, "
            f"n_layers={spec.model.n_layers} or the task's length smaller"
        )
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.0f} MB"
