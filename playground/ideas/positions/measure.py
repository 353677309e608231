"""Positions: what each scheme does, whether a shuffle is noticed, longer texts than trained on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from core.config import ModelConfig
from core.model import build_model
from core.positions import Position
from core.tasks import Batch
from core.tasks.text import Text
from core.trace import Recorder
from core.train import Trainer

BASE = 10_000.0  # of the wavelengths, in the paper and in RoFormer
QUERIES = 64  # random ones that are rotated
WORDS = ("the", "dog", "bites", "the", "man")
# name -> at each position the index of the word that is moved there
ORDERS: dict[str, tuple[int, ...]] = {
    "dog ↔ man": (0, 4, 2, 3, 1),
    "backwards": (4, 3, 2, 1, 0),
    "mixed": (2, 0, 4, 1, 3),
}
SOURCE = "docs"  # the text
TIMES = 4  # tested on texts this many times as long as those trained on
ROWS, TOKENS = 256, 24_576  # of the test: at most so many texts, and characters in total


# --- what a scheme does --------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """What a position scheme does, as the real object does it."""

    table: np.ndarray  # float32 [position, column]: what is added, or what (1, 0) is rotated to
    bias: np.ndarray  # float32 [head, query, key]: what is added to the scores


@lru_cache(maxsize=128)
def scheme(kind: str, d_model: int, n_heads: int, length: int) -> Position:
    """The scheme of an untrained model."""
    config = ModelConfig(
        position=kind, d_model=d_model, n_heads=n_heads, max_len=length, n_layers=1, vocab_size=2
    )
    return build_model(config).embed.position


@lru_cache(maxsize=128)
@torch.no_grad()
def effect(kind: str, d_model: int, n_heads: int, length: int) -> Effect:
    """What is added to tokens, how pairs of columns are rotated, what is added to scores."""
    position = scheme(kind, d_model, n_heads, length)
    zeros = torch.zeros(1, length, d_model)
    added = position.add(zeros)[0]
    upright = torch.zeros(1, 1, length, d_model // n_heads)
    upright[..., 0::2] = 1
    turned = position.rotate(upright)
    bias = torch.as_tensor(position.bias(length, length), dtype=torch.float32)
    return Effect(
        table=(added if torch.equal(turned, upright) else turned[0, 0]).numpy(),
        bias=bias.expand(1, n_heads, length, length)[0].numpy(),
    )


def wavelengths(width: int) -> list[float]:
    """How many positions make a full turn of each pair of columns: 2π·10000^(2i/width)."""
    return [2 * math.pi * BASE ** (2 * i / width) for i in range((width + 1) // 2)]


@dataclass(frozen=True)
class Similarity:
    """The similarity of two positions, over the distance between them."""

    mean: np.ndarray  # float64 [distance], 1 at distance 0
    low: np.ndarray  # 10th percentile
    high: np.ndarray  # 90th percentile
    drift: float  # the largest difference between two pairs of positions at one distance


@lru_cache(maxsize=128)
@torch.no_grad()
def similarity(kind: str, d_model: int, n_heads: int, length: int) -> Similarity:
    """p_i·p_j of the rows that are added, or q·k of equal queries and keys that are rotated.

    As a share of what they are at distance 0; the rotated ones are `QUERIES` random queries.
    """
    position = scheme(kind, d_model, n_heads, length)
    added = position.add(torch.zeros(1, length, d_model))
    drawn = torch.Generator().manual_seed(0)
    q = torch.randn(QUERIES, 1, 1, d_model // n_heads, generator=drawn, dtype=torch.float64)
    turned = position.rotate(q.expand(QUERIES, 1, length, -1))[:, 0]
    rows = added.double() if added.any() else turned
    products = (rows @ rows.mT).numpy()
    products /= products.diagonal(axis1=1, axis2=2).mean(-1)[:, None, None]
    by_distance = [products.diagonal(d, 1, 2) for d in range(length)]
    return Similarity(
        mean=np.array([values.mean() for values in by_distance]),
        low=np.array([np.quantile(values, 0.1) for values in by_distance]),
        high=np.array([np.quantile(values, 0.9) for values in by_distance]),
        drift=max(float(np.ptp(values, axis=-1).max()) for values in by_distance),
    )


# --- is a shuffle noticed? ------------------------------------------------------------------


@dataclass(frozen=True)
class Shuffled:
    """An untrained model reads words, and then the same words in another order. In float64."""

    before: np.ndarray  # float64 [word, d_model]: the output of each word
    after: np.ndarray  # the same of the shuffled words, each output back at its word
    difference: float  # the largest one between these two: 0 is equivariant
    in_place: float  # the largest one between outputs at one position: 0 would be invariant
    of_mean: float  # the largest one between the means over all positions


@lru_cache(maxsize=256)
@torch.no_grad()
def shuffled(
    kind: str, mask: str, order: Sequence[int], d_model: int = 64, n_heads: int = 4
) -> Shuffled:
    """Compare the outputs with and without a shuffle.

    Args:
        order: at each position the index of the word that is moved there.
    """
    names = list(dict.fromkeys(WORDS))
    config = ModelConfig(
        position=kind,
        mask=mask,
        d_model=d_model,
        n_heads=n_heads,
        max_len=len(WORDS),
        vocab_size=1 + len(names),
    )
    model = build_model(config).double()
    tokens = torch.tensor([[1 + names.index(word) for word in WORDS]])

    def outputs(tokens: Tensor) -> Tensor:
        trace = Recorder()
        model(tokens, trace)
        return trace.seen[f"blocks.{config.n_layers - 1}.resid_post"][0]

    before, moved = outputs(tokens), outputs(tokens[:, list(order)])
    after = torch.empty_like(moved)
    after[list(order)] = moved
    return Shuffled(
        before.numpy(),
        after.numpy(),
        difference=(after - before).abs().max().item(),
        in_place=(moved - before).abs().max().item(),
        of_mean=(moved.mean(0) - before.mean(0)).abs().max().item(),
    )


# --- trained short, tested long -------------------------------------------------------------


@dataclass(frozen=True)
class Beyond:
    """How well a model does at each position, also beyond the length that it was trained on."""

    trained: int  # positions
    tested: int  # positions
    step: int
    loss: np.ndarray  # float64 [position]: nats
    right: np.ndarray  # float64 [position]: share of right characters
    refused: str  # why there is nothing beyond; empty where there is

    def within(self, values: np.ndarray) -> float:
        """Mean of `loss` or `right` over the positions that were trained."""
        return float(values[: self.trained].mean())

    def beyond(self, values: np.ndarray) -> float:
        """Their mean over the positions never seen; NaN where the model has none."""
        return float(values[self.trained :].mean()) if not self.refused else math.nan


@lru_cache(maxsize=8)
def long_texts(length: int) -> Batch:
    """Validation texts of this length; they begin anywhere, so all positions are equally hard."""
    return Text(source=SOURCE, length=length).validation("decoder", min(ROWS, TOKENS // length))


@torch.no_grad()
def beyond(trainer: Trainer) -> Beyond:
    """Let a model read texts `TIMES` as long as those it was trained on."""
    trained = trainer.task.length
    tested = TIMES * trained
    batch = long_texts(tested)
    device, refused = trainer.device.name, ""
    try:
        logits = trainer.model(batch.inputs[0].to(device))
    except ValueError as error:
        refused = str(error)
        logits = trainer.model(batch.inputs[0][:, :trained].to(device))
    logits = logits.float().cpu()
    targets = batch.targets[:, : logits.shape[1]]
    losses = F.cross_entropy(logits.mT, targets, reduction="none")
    return Beyond(
        trained,
        tested,
        trainer.step_count,
        losses.mean(0, dtype=torch.float64).numpy(),
        (logits.argmax(-1) == targets).double().mean(0).numpy(),
        refused,
    )


def task(length: int) -> Text:
    """The task that is learnt."""
    return Text(source=SOURCE, length=length)
