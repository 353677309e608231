"""What a training reports: each step, an evaluation, a change on the way, and its early end."""

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Step:
    """What one optimiser step did. Norms are before clipping and without the loss scale."""

    step: int  # updates done so far, this one included
    loss: float  # nats per scored token
    lr: float
    grad_norm: float
    layer_norms: dict[str, float]  # gradient norm per layer, from input to output
    tokens: int
    seconds: float


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
