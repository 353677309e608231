"""How long a run will take, before it has begun.

A step costs a fixed overhead per operation and about six floating-point operations per parameter
and token (two forward, four backward; Kaplan et al. 2020, section 2.1), plus what attention adds
with the square of the length. Measured runs correct the guess for the machine at hand.
"""

from collections.abc import Iterable

from playground.runs.spec import Spec

SECONDS_PER_LAYER = 0.8e-3  # launching a layer's operations, forward, backward and update
SECONDS_PER_OPERATION = 1 / 30e9


def operations_per_step(spec: Spec) -> float:
    """Floating-point operations in the matrix products of one training step."""
    config, length = spec.model, spec.model.max_len
    tokens = spec.training.batch_size * length
    attention = 12 * config.n_layers * config.d_model * length
    return tokens * (6 * config.n_parameters + attention)


def seconds_per_step(spec: Spec, correction: float = 1.0) -> float:
    layers = spec.model.n_layers + 1
    return correction * (
        SECONDS_PER_LAYER * layers + SECONDS_PER_OPERATION * operations_per_step(spec)
    )


def seconds_together(specs: Iterable[Spec], correction: float, workers: int) -> float:
    """How long these runs take from the first step to the last, that many at a time."""
    each = [seconds_per_step(spec, correction) * spec.training.steps for spec in specs]
    return max(sum(each) / workers, max(each, default=0.0))


def in_words(seconds: float) -> str:
    """`8 s`, `3 min`, `2.5 h`: a duration as one says it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
