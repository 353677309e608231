"""Residuals and norms: what depth does to the stream, to the positions and to the gradient."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from core.config import ModelConfig
from core.knobs import cut
from core.model import build_model
from core.tasks import TASKS
from core.tasks.base import Batch
from core.trace import Recorder
from core.train import Trainer, cross_entropy
from playground.runs.inside import stream

DEPTHS = (1, 2, 4, 8, 16, 32)
D_MODEL, N_HEADS = 48, 4
ROWS = 6  # of the task reverse, for each measurement
TASK = TASKS["reverse"]()
SMALLEST = torch.finfo(torch.float32).tiny  # smaller numbers soon are 0 in float32

COUNT = 8  # numbers of the token whose LayerNorm is shown
LARGEST = 1e6  # of these


# --- through the blocks ---------------------------------------------------------------------


@dataclass(frozen=True)
class Flow:
    """An untrained model, block by block. Entry 0 is the input, entry l comes after block l."""

    stream: tuple[float, ...]  # rms of x
    variation: tuple[float, ...]  # how much the positions of a row differ, see `variation`
    gradient: tuple[float, ...]  # norm of d loss / d x
    values: tuple[float, ...]  # norm of the gradient of W_v, one for each block
    loss: float

    @property
    def factor(self) -> float:
        """The share of the last block's gradient left in block 1; with one block, in the input."""
        first = self.gradient[1 if len(self.gradient) > 2 else 0]
        return first / self.gradient[-1] if self.gradient[-1] else 0.0

    @property
    def steps(self) -> int:
        """How many blocks `factor` goes through."""
        return max(len(self.gradient) - 2, 1)


STEPS = 250  # of the training


def config(n_layers: int, residual: bool, norm: str, init: str) -> ModelConfig:
    """The model that is measured and trained: narrow, so that many blocks of it are quick."""
    return ModelConfig.for_task(
        TASK,
        d_model=D_MODEL,
        n_heads=N_HEADS,
        n_layers=n_layers,
        residual=residual,
        norm=norm,
        init=init,
        position="learned",
    )


@lru_cache(maxsize=256)
def flow(n_layers: int, residual: bool, norm: str, init: str) -> Flow:
    """One forward and one backward of an untrained model on a few rows of reverse.

    In float64: without residual connections numbers get smaller than float32 can hold.
    """
    model = build_model(config(n_layers, residual, norm, init)).double()
    batch, trace = TASK.validation("decoder", ROWS), Recorder()
    loss = cross_entropy(model(*batch.inputs, trace), batch.targets)
    levels = stream(trace)
    matrices = [block.attention.qkv.weight for block in model.blocks]
    gradients = torch.autograd.grad(loss, levels + matrices)
    return Flow(
        stream=tuple(length(x) / math.sqrt(x.numel()) for x in levels),
        variation=tuple(map(variation, levels)),
        gradient=tuple(map(length, gradients[: len(levels)])),
        values=tuple(length(g[2 * D_MODEL :]) for g in gradients[len(levels) :]),
        loss=loss.item(),
    )


def length(x: Tensor) -> float:
    """Root of the sum of the squares, also where these would be too small or too large."""
    largest = x.detach().abs().max().item()
    return largest * (x.detach() / largest).norm().item() if largest else 0.0


def variation(x: Tensor) -> float:
    """How much the positions of a row differ, as a share of their size: 0 when all are the same.

    What is left of x when its mean over the positions is subtracted.
    """
    size = length(x)
    return length(x - x.mean(1, keepdim=True)) / size if size else 0.0


def sweep(init: str, norms: Sequence[str]) -> dict[tuple[bool, str], list[Flow]]:
    """Every depth, with and without residual connections, for each norm."""
    return {
        (residual, norm): [flow(n, residual, norm, init) for n in DEPTHS]
        for residual in (True, False)
        for norm in norms
    }


# --- LayerNorm, by hand ---------------------------------------------------------------------


@dataclass(frozen=True)
class Normalised:
    """One token through LayerNorm, one step after another."""

    values: tuple[float, ...]
    mean: float
    variance: float
    eps: float
    centred: tuple[float, ...]  # minus the mean
    scaled: tuple[float, ...]  # divided by √(variance + eps)
    out: tuple[float, ...]  # times gain, plus shift
    off: float  # largest difference from what nn.LayerNorm gives


def layer_norm(values: Sequence[float], gain: float, shift: float) -> Normalised:
    """The arithmetic of LayerNorm with plain numbers, compared with PyTorch's own."""
    mean = sum(values) / len(values)
    centred = [value - mean for value in values]
    variance = sum(value**2 for value in centred) / len(values)
    norm = nn.LayerNorm(len(values), dtype=torch.float64)
    scaled = [value / math.sqrt(variance + norm.eps) for value in centred]
    out = [gain * value + shift for value in scaled]
    with torch.no_grad():
        norm.weight.fill_(gain)
        norm.bias.fill_(shift)
        theirs = norm(torch.tensor(values, dtype=torch.float64)).tolist()
    off = max(abs(a - b) for a, b in zip(out, theirs, strict=True))
    return Normalised(
        tuple(values), mean, variance, norm.eps, tuple(centred), tuple(scaled), tuple(out), off
    )


def numbers(text: str) -> tuple[float, ...]:
    """Read the numbers of a token.

    Raises:
        ValueError: too few or too many numbers, or one that is too large; the message gives the
            rule.
    """
    found = []
    for word in text.replace(",", " ").replace("−", "-").split():
        try:
            found.append(float(word))
        except ValueError:
            raise ValueError(
                f"{cut(word)!r} is not a number: write {COUNT} of them, with spaces between"
            ) from None
        if not abs(found[-1]) <= LARGEST:
            raise ValueError(
                f"{cut(word)!r}: each has to lie between −{LARGEST:,.0f} and {LARGEST:,.0f}"
            )
    if len(found) != COUNT:
        raise ValueError(f"{cut(text)!r} has {len(found)} numbers: it takes exactly {COUNT}")
    return tuple(found)


# --- a trained model without one of its blocks ------------------------------------------------


@dataclass(frozen=True)
class Skipped:
    """Validation losses of a trained model: as it is, and with each block left out."""

    whole: float
    without: tuple[float, ...]


def skip_each(trainer: Trainer) -> Skipped:
    """Leave out each block of a trained model in turn."""
    batch, blocks = TASK.validation("decoder"), range(len(trainer.model.blocks))
    return Skipped(
        trainer.evaluate(batch).loss, tuple(loss_without(trainer, batch, block) for block in blocks)
    )


def loss_without(trainer: Trainer, batch: Batch, block: int) -> float:
    """Loss when the output of a block is replaced by its input."""
    name = f"blocks.{block}"
    trace = Recorder({f"{name}.resid_post": lambda x: trace.seen[f"{name}.resid_pre"]})
    return trainer.evaluate(batch, trace).loss
