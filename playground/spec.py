"""What decides a run, and what this server takes on: the limits, and what they are held against."""

import os
from dataclasses import Field, dataclass, fields, replace
from functools import lru_cache
from typing import Any

from core.config import ModelConfig, TrainConfig
from core.knobs import as_text, from_text, knob
from core.tasks import TASKS, Task
from playground.frames import MAX_FRAME_BYTES, MAX_PROBE, STAGES


def _limit(name: str, default: int) -> int:
    return int(os.environ.get(f"PLAYGROUND_{name}") or default)


# Each limit can be set by an environment variable: PLAYGROUND_MAX_PARAMETERS and so on.
MAX_PARAMETERS = _limit("MAX_PARAMETERS", 20_000_000)  # of one model
MAX_TOKENS = _limit("MAX_TOKENS", 65_536)  # read in one step
MAX_ACTIVE = _limit("MAX_ACTIVE", 32)  # runs that train at once; more wait in a queue
MAX_RUNS = _limit("MAX_RUNS", 96)  # runs in memory, paused and ended ones too
MAX_MEMORY = _limit("MAX_MEMORY", 4_000_000_000)  # bytes of all runs, by `estimated_memory`


# --- every knob by its name -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Which:
    task: str = knob("reverse", choices=tuple(TASKS), help="What the model is to learn.")


def _knobs(config: type) -> dict[str, Field]:
    """The fields that can be chosen; vocabulary and length follow from the task."""
    names = {item.name: item for item in fields(config) if item.metadata}
    return {name: names[name] for name in names if name not in FROM_TASK}


FROM_TASK = ("vocab_size", "max_len")
MODEL_KNOBS, TRAINING_KNOBS = _knobs(ModelConfig), _knobs(TrainConfig)
TASK_KNOBS = {name: _knobs(task) for name, task in TASKS.items()}
# A knob that several tasks have is written alike in all of them.
OF_ANY_TASK = {name: item for knobs in TASK_KNOBS.values() for name, item in knobs.items()}
KNOBS = _knobs(_Which) | OF_ANY_TASK | MODEL_KNOBS | TRAINING_KNOBS


def value_text(name: str, value: Any) -> str:
    """A knob's value in words: `√d_k`, `off`, `0.01`."""
    return as_text(KNOBS[name], value)


def read_value(name: str, text: str) -> Any:
    """The value that a text stands for.

    Raises:
        ValueError: says what a text for this knob may be.
    """
    return from_text(KNOBS[name], text)


# --- what decides a run ---------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """Everything that decides a run."""

    model: ModelConfig
    task: Task
    training: TrainConfig
    probe: str | None = None  # the visitor's own example; None takes the task's
    label: str = ""

    def changed(self, **hot: Any) -> "Spec":
        """The same run with some hot knobs turned.

        Raises:
            ValueError: a knob that is not hot, or an illegal value.
        """
        of_model, of_training = ModelConfig.hot(), TrainConfig.hot()
        if cold := sorted(set(hot) - set(of_model + of_training)):
            raise ValueError(
                f"{', '.join(cold)} cannot change while a run goes on; "
                f"only {', '.join(of_model + of_training)} can"
            )
        model = {name: value for name, value in hot.items() if name in of_model}
        training = {name: value for name, value in hot.items() if name in of_training}
        return replace(
            self, model=replace(self.model, **model), training=replace(self.training, **training)
        )


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
