"""What a training reports: each step, an evaluation, a change on the way, and its early end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Step:
    """What one optimiser step did. Norms are before clipping and without the loss scale."""

    step: int  # steps done so far, this one included
    loss: float  # nats per scored token, without label smoothing
    lr: float
    grad_norm: float
    layer_norms: dict[str, float]  # gradient norm per layer, from input to output
    tokens: int
    seconds: float

    @property
    def skipped(self) -> bool:
        """Whether its update was not made: in fp16 a gradient may overflow."""
        return not math.isfinite(self.grad_norm)


class Evaluation(NamedTuple):
    """How well a model does on a batch, with the answer so far given to it."""

    loss: float  # nats per scored token
    accuracy: float  # share of the scored tokens


class Change(NamedTuple):
    """A knob turned while the run went on, in force from the update after `step`."""

    step: int
    field: str
    value: Any


class Diverged(RuntimeError):
    """The loss or a gradient is no longer a finite number: the run is over.

    The update was not made, so the weights are those of the last finite step.
    """

    def __init__(self, step: int, lr: float, reason: str) -> None:
        super().__init__(f"diverged at step {step} (learning rate {lr:g}): {reason}")
        self.step, self.lr, self.reason = step, lr, reason


def layer_of(name: str) -> str:
    """`blocks.1.attention.qkv.weight` belongs to `blocks.1`, `unembed.weight` to `unembed`."""
    stack, of_a_block, rest = name.partition("blocks.")
    return f"{stack}blocks.{rest.split('.')[0]}" if of_a_block else name.split(".")[0]


def norms_by_layer(layers: Sequence[str], norms: Sequence[float]) -> dict[str, float]:
    """The length of each layer's gradient, from those of its parameters.

    Args:
        layers: which layer each parameter belongs to.
    """
    parts: dict[str, list[float]] = {}
    for layer, norm in zip(layers, norms, strict=True):
        parts.setdefault(layer, []).append(norm)
    return {layer: math.hypot(*part) for layer, part in parts.items()}
