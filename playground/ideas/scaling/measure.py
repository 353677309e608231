"""√d_k: the spread of an untrained model's first scores, and what it does to the softmax."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from core.attention import SCALES, attention
from core.config import ModelConfig, TrainConfig
from core.measure import (
    entropy_share,
    largest_weight,
    read_mask,
    score_spread,
    share_shut,
    spread_at_start,
)
from core.model import build_model
from core.tasks import TASKS
from core.trace import Recorder
from playground.ideas.shared_measures import mask_bias
from playground.runs.spec import Spec

NARROWEST, WIDEST = 8, 256  # d_model of the models
WIDTHS = tuple(2**i for i in range(9))  # d_k
SEEDS = 3  # untrained models that a point of the sweep is the mean of
TOKENS = 640  # read for each measurement: 32 rows at the usual length
SCORES = 20_000  # kept for each picture at most


@dataclass(frozen=True)
class Scores:
    """The scores of a first attention, after scaling, and what its softmax makes of them."""

    values: np.ndarray  # float32 [n]: the scaled scores of the keys that a query may see
    weights: np.ndarray  # float32 [keys]: a typical last query's weights, largest first
    unscaled: float  # spread of q·k
    spread: float  # spread of q·k·scale
    theory: float  # the spread to expect of this model, see `spread_at_start`
    entropy: float  # of the weights, as a share of its maximum
    largest: float  # mean of each row's largest weight
    uniform: float  # the same for uniform attention
    shut: float  # share of the rows whose softmax gradient is below `SHUT`
    scale: float


@lru_cache(maxsize=512)
def base(d_head: int, n_heads: int, scale: str, init: str, keys: int) -> Spec:
    """The run whose untrained model is measured, and which the page trains.

    Pre-norm, so that attention reads numbers of unit variance whatever the initialisation, and
    learned positions, which start as small as GPT-2's embeddings: neither drowns the other.

    Args:
        keys: as many as the last query may see: the symbols to reverse, a separator, and all but
            one symbol of the answer.
    """
    task = TASKS["reverse"](length=keys // 2)
    model = ModelConfig.for_task(
        task,
        d_model=d_head * n_heads,
        n_heads=n_heads,
        scale=scale,
        init=init,
        norm="pre",
        position="learned",
    )
    return Spec(model, task, TrainConfig())


@lru_cache(maxsize=64)
@torch.no_grad()
def queries_and_keys(
    d_head: int, n_heads: int, init: str, keys: int, seed: int
) -> tuple[Float[Tensor, "batch heads length d_head"], Float[Tensor, "batch heads length d_head"]]:
    """q and k of the first attention before training, on rows that training never draws.

    The scale comes later, so they are the same for every one.
    """
    spec, trace = base(d_head, n_heads, "none", init, keys), Recorder()
    build_model(spec.model, seed)(*spec.task.validation("decoder", TOKENS // keys).inputs, trace)
    # Copied: a part of a tensor would keep the whole.
    q, k = (trace.seen[f"blocks.0.attention.{name}"].contiguous() for name in "qk")
    return q, k


@lru_cache(maxsize=512)
@torch.no_grad()
def scores(d_head: int, n_heads: int, scale: str, init: str, keys: int, seed: int = 0) -> Scores:
    """What the first attention of the model does before training, under the causal mask."""
    q, k = queries_and_keys(d_head, n_heads, init, keys, seed)
    model, trace = base(d_head, n_heads, scale, init, keys).model, Recorder()
    factor = SCALES[scale](model)
    attention(q, k, k, mask_bias("causal", keys), factor, trace)
    scaled, weights = trace.seen["scaled"], trace.seen["weights"]
    allowed = read_mask(trace.seen["masked"])
    visible = allowed.expand_as(scaled)
    n_allowed = visible.sum(-1)
    chooses = n_allowed > 1  # the first query sees itself alone
    last = weights[:, :, -1].flatten(0, 1)
    typical = (last.amax(-1) - last.amax(-1).mean()).abs().argmin()
    return Scores(
        values=scaled[visible][:SCORES].numpy(),
        weights=last[typical].sort(descending=True).values.numpy(),
        unscaled=score_spread(trace.seen["scores"], allowed),
        spread=score_spread(scaled, allowed),
        theory=spread_at_start(model),
        entropy=entropy_share(weights, allowed).mean().item(),
        largest=largest_weight(weights, allowed).mean().item(),
        uniform=(1 / n_allowed[chooses]).mean().item(),
        shut=share_shut(weights, allowed),
        scale=factor,
    )


def widths(n_heads: int) -> list[int]:
    """The head widths that are looked at."""
    return [width for width in WIDTHS if NARROWEST <= width * n_heads <= WIDEST]


def sweep(n_heads: int, init: str, keys: int) -> dict[str, list[list[Scores]]]:
    """Every scale at every width, once for each of `SEEDS` models."""
    return {
        scale: [
            [scores(d_head, n_heads, scale, init, keys, seed) for seed in range(SEEDS)]
            for d_head in widths(n_heads)
        ]
        for scale in SCALES
    }
