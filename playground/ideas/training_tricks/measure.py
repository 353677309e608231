"""The tricks of training: what schedule, clipping, tying and precision do, measured."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import get_total_norm

from core.config import ModelConfig, TrainConfig
from core.device import DTYPES, Device
from core.model import build_model
from core.optimize import learning_rate
from core.tasks import TASKS, Task
from core.trace import Recorder
from core.train import Diverged, Trainer, cross_entropy
from playground.runs.spec import in_nats

# --- the result in words --------------------------------------------------------------------------

# Shares of `chance`, the loss of the best guess without reading the input.
STUCK = 0.9  # a run that ends above has learnt nothing
SOLVED = 0.02  # losses below this are equally good
SIMILAR = 1.25  # a ratio of two losses that a single seed cannot distinguish


def outcome(loss: float, chance: float) -> str:
    """How a run ended, from the loss that it reached (infinite: it diverged)."""
    if math.isinf(loss):
        return "diverges"
    if loss > STUCK * chance:
        return f"hardly learns ({in_nats(loss)}, {loss / chance:.0%} of chance)"
    return f"learns ({in_nats(loss)})"


def learnt(loss: float, chance: float) -> bool:
    return loss <= STUCK * chance


def after_warmup(flat: float, scheduled: float | None, pre: float, chance: float) -> str:
    """Who needed the warmup: post-norm from the first step, with the schedule, and pre-norm."""
    said = f"Post-norm from the first step {outcome(flat, chance)}"
    if scheduled is not None:
        said += f", with this schedule it {outcome(scheduled, chance)}"
    said += f"; pre-norm from the first step {outcome(pre, chance)}. "
    if learnt(flat, chance):
        return said + "Nothing here needs a warmup in order to learn."
    if scheduled is None or not learnt(scheduled, chance):
        return said + "This schedule does not save post-norm at this rate."
    if learnt(pre, chance):
        return said + "The schedule saves post-norm; pre-norm does not need to be saved."
    return said + "The schedule saves post-norm."


def after_clipping(plain: float, clipped: float, chance: float) -> str:
    """Whether clipping saved the run, helped it, or did nothing for it."""
    said = (
        f"As they are: the run {outcome(plain, chance)}. Clipped: it {outcome(clipped, chance)}. "
    )
    if learnt(clipped, chance) and not learnt(plain, chance):
        return said + "Clipping saves this run."
    if not learnt(plain, chance):
        return said + "Clipping does not save this one."
    if not learnt(clipped, chance):
        return said + "Steps this short ruin it."
    if similar(plain, clipped, chance):
        return said + "Clipping makes hardly any difference here."
    if clipped < plain:
        return said + "Clipping helps here."
    return said + "Here it learns faster unclipped."


def after_tying(two: float, one: float, chance: float) -> str:
    """What one table instead of two does to the loss."""
    said = f"Two tables: the run {outcome(two, chance)}. One table: it {outcome(one, chance)}. "
    if similar(two, one, chance):
        return said + "The loss does not suffer."
    return f"{said}One table learns {'faster' if one < two else 'more slowly'} here."


def after_precision(losses: dict[str, float], chance: float) -> str:
    """Whether shorter numbers change the loss, from the loss of each precision."""
    said = ", ".join(f"{name} {outcome(loss, chance)}" for name, loss in losses.items())
    if len(losses) < 2:
        return f"{said}. This device offers no other precision."
    worse = [name for name, loss in losses.items() if not similar(loss, losses["fp32"], chance)]
    return f"{said}. " + (
        f"The loss suffers in {' and '.join(worse)}." if worse else "The loss does not suffer."
    )


def similar(one: float, other: float, chance: float) -> bool:
    """Whether two losses, of one seed each, are too close to call."""
    low, high = sorted((one, other))
    return high < SOLVED * chance or (math.isfinite(high) and high <= SIMILAR * low)


# --- warmup ---------------------------------------------------------------------------------


def schedule(config: TrainConfig) -> list[float]:
    """The learning rate of each update of a run."""
    return [learning_rate(i, config) for i in range(config.steps)]


# --- clipping -------------------------------------------------------------------------------

BATCHES = 6  # whose gradients are measured


def clip_factor(norm: float, clip: float) -> float:
    """What a gradient of this norm is multiplied by (Pascanu et al. 2013, algorithm 1)."""
    return min(1.0, clip / norm) if norm > 0 else 1.0


@dataclass(frozen=True)
class Clipped:
    """Gradients of an untrained model on a few batches: their norms before and after clipping."""

    before: tuple[float, ...]
    after: tuple[float, ...]


@lru_cache(maxsize=64)
def first_gradients(norm: str, clip: float) -> Clipped:
    """What the trainer does to the gradients of the model that the page trains.

    With a learning rate of 0 the model stays as it is: every batch meets the same weights.
    """
    task, model = clipping_model(norm)
    still = TrainConfig(lr=0.0, weight_decay=0.0, clip=clip, optimizer="sgd", steps=BATCHES)
    trainer = Trainer(model, task, still)
    before, after = [], []
    for step in trainer:
        before.append(step.grad_norm)
        after.append(float(get_total_norm([p.grad for p in trainer.parameters])))
    return Clipped(tuple(before), tuple(after))


def clipping_model(norm: str) -> tuple[Task, ModelConfig]:
    """The small model whose gradients get large where nothing normalises them."""
    task = TASKS["reverse"]()
    return task, ModelConfig.for_task(task, d_model=32, norm=norm)


def share_clipped(norms: np.ndarray, clip: float) -> float:
    """Share of the steps whose gradient was longer than the threshold."""
    return float(np.mean(np.asarray(norms) > clip)) if len(norms) else 0.0


# --- tying ----------------------------------------------------------------------------------


def tables(config: ModelConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Parameters by part with two tables, and with one that serves as both."""
    two, one = (replace(config, tie_embeddings=tied) for tied in (False, True))
    return two.parameters_by_part(), one.parameters_by_part()


# --- precision ------------------------------------------------------------------------------

EXAMPLES = 8  # in the batch whose gradients are measured
SAMPLE = 100_000  # of them
SECONDS = 1.5  # of timing
LEAST_ROUNDS, WARM_UP = 5, 2


@dataclass(frozen=True)
class NumberFormat:
    """A number type: its largest number, and how small its numbers get."""

    largest: float
    normal: float  # the smallest with all its digits
    smallest: float  # the smallest above 0
    eps: float  # from 1 to the next number


def number_format(precision: str) -> NumberFormat:
    """The number type of the matrix products under this precision."""
    about = torch.finfo(DTYPES[precision] or torch.float32)
    smallest = about.smallest_normal * about.eps
    return NumberFormat(about.max, about.tiny, smallest, about.eps)


@dataclass(frozen=True)
class Gradients:
    """Sizes of the gradients that flow back through an untrained model."""

    exponents: np.ndarray  # log10 of each that is not 0
    median: float  # of them
    lost: dict[str, float]  # precision -> share of them that would be rounded to 0
    blurred: dict[str, float]  # … that would keep only some of their digits
    overflown: dict[str, float]  # precision -> share of them that would become infinite


@lru_cache(maxsize=8)
def gradient_sizes(d_model: int) -> Float[Tensor, " n"]:
    """Gradients of the loss by every tensor that a trace sees on the way: a sample of their sizes.

    These are the numbers that a half-precision run has to store between two layers.
    """
    task, config = precision_model(d_model)
    model, trace = build_model(config), Recorder()
    drawn = torch.Generator().manual_seed(0)
    batch = task.batch("decoder", EXAMPLES, drawn)
    loss = cross_entropy(model(*batch.inputs, trace=trace), batch.targets)
    each = list(dict.fromkeys(trace.seen.values()))  # the stream between two blocks has two names
    found = torch.autograd.grad(loss, each)
    values = torch.cat([gradient.flatten() for gradient in found])
    values = values[values != 0].abs()
    return values[torch.randint(len(values), (SAMPLE,), generator=drawn)]


@lru_cache(maxsize=32)
def gradients(d_model: int, scale: float) -> Gradients:
    """How well each number type holds these gradients when the loss is multiplied by `scale`.

    A power of two multiplies each of them exactly.
    """
    values = gradient_sizes(d_model) * scale
    stored = {name: values.to(DTYPES[name] or torch.float32) for name in DTYPES}
    return Gradients(
        exponents=values.log10().numpy(),
        median=values.log10().median().item(),
        lost={name: (kept == 0).float().mean().item() for name, kept in stored.items()},
        blurred={
            name: ((kept > 0) & (kept < number_format(name).normal)).float().mean().item()
            for name, kept in stored.items()
        },
        overflown={name: kept.isinf().float().mean().item() for name, kept in stored.items()},
    )


def precision_model(d_model: int) -> tuple[Task, ModelConfig]:
    """The default model at another width."""
    task = TASKS["reverse"]()
    return task, ModelConfig.for_task(task, d_model=d_model)


@dataclass(frozen=True)
class Timing:
    """How long a training step takes."""

    milliseconds: float  # of the fastest: whatever else the machine does can only add to it
    steps: int  # that were timed


def race(
    d_model: int,
    device: Device,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Train in every precision that this device offers, in turn, and time the steps.

    In turn: whatever else the machine is doing slows all of them equally.
    """
    task, config = precision_model(d_model)
    trainers = {
        name: Trainer(config, task, TrainConfig(precision=name), device)
        for name in device.precisions
    }
    times: dict[str, list[float]] = {name: [] for name in trainers}
    for trainer in trainers.values():
        for _ in range(WARM_UP):
            trainer.step()
    end, rounds = clock() + seconds, 0
    while trainers and (rounds < LEAST_ROUNDS or clock() < end):
        for name, trainer in list(trainers.items()):
            try:
                times[name].append(trainer.step().seconds)
            except Diverged:
                del trainers[name]
        rounds += 1
    return {name: Timing(1000 * min(found), len(found)) for name, found in times.items() if found}
