"""√d_k: the spread of an untrained head's scores, and what it does to the softmax."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from core.attention import SCALES, SelfAttention, attention
from core.config import ModelConfig
from core.init import initialise
from core.measure import entropy_share, largest_weight, read_mask, score_spread, spread_in_theory
from core.positions import Position
from core.trace import Recorder
from playground.ideas.shared_measures import mask_bias

MAX_WIDTH = 1024  # d_model of the widest head looked at
SCORES = 20_000  # drawn for each picture, roughly
LEAST_ROWS = 64  # rows of scores, whatever their length
NUMBERS = 256  # columns of all the attentions drawn for one width


@dataclass(frozen=True)
class Scores:
    """The scores of one untrained attention, after scaling, and what its softmax makes of them."""

    values: np.ndarray  # float32 [n]: the scaled scores
    weights: np.ndarray  # float32 [length]: a typical query's weights, largest first
    unscaled: float  # spread of q·k
    spread: float  # spread of q·k·scale
    theory: float  # the spread for q and k of unit variance
    entropy: float  # of the weights, as a share of its maximum
    largest: float  # mean of each row's largest weight
    gradient: float  # mean length of the softmax's Jacobian, see `softmax_gradient`
    scale: float


def softmax_gradient(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """Frobenius norm of the softmax's Jacobian diag(w) - w wᵀ: how much gradient it lets through.

    √(n-1)/n for uniform weights over n keys, 0 when one key has all the weight.
    """
    squares, cubes = weights.pow(2).sum(-1), weights.pow(3).sum(-1)
    return (squares - 2 * cubes + squares**2).clamp(min=0).sqrt()


@lru_cache(maxsize=64)
@torch.no_grad()
def queries_and_keys(
    d_head: int, n_heads: int, init: str, length: int, seed: int = 0
) -> tuple[Float[Tensor, "batch heads length d_head"], Float[Tensor, "batch heads length d_head"]]:
    """q and k of untrained attentions that read tokens of unit variance.

    The tokens are independent N(0, 1) vectors, as a LayerNorm hands them on. A narrow attention
    has few weights, so several are drawn: their mean says more than one of them.
    """
    config = ModelConfig(
        d_model=d_head * n_heads, n_heads=n_heads, init=init, max_len=length, vocab_size=2
    )
    layer = nn.ModuleDict({"attention": SelfAttention(config, Position())})
    models = max(1, NUMBERS // config.d_model)
    rows = max(LEAST_ROWS, SCORES // length)
    batch = -(-rows // (length * n_heads * models))
    drawn = torch.Generator().manual_seed(seed)
    found = []
    for model in range(models):
        initialise(layer, config, seed + model)
        trace = Recorder()
        x = torch.randn(batch, length, config.d_model, generator=drawn)
        layer["attention"](x, mask_bias("none", length), trace)
        found.append((trace.seen["q"], trace.seen["k"]))
    q, k = (torch.cat(tensors) for tensors in zip(*found, strict=True))
    return q, k


@lru_cache(maxsize=512)
def scores(d_head: int, n_heads: int, scale: str, init: str, length: int, seed: int = 0) -> Scores:
    """What an untrained attention without a mask does with tokens of unit variance."""
    q, k = queries_and_keys(d_head, n_heads, init, length, seed)
    factor = SCALES[scale](ModelConfig(d_model=d_head * n_heads, n_heads=n_heads))
    trace = Recorder()
    attention(q, k, k, mask_bias("none", length), factor, trace)
    scaled, weights = trace.seen["scaled"], trace.seen["weights"]
    seen = read_mask(trace.seen["masked"])
    rows = weights.flatten(0, -2)
    typical = (rows.amax(-1) - rows.amax(-1).mean()).abs().argmin()
    return Scores(
        values=scaled.flatten()[:SCORES].numpy(),
        weights=rows[typical].sort(descending=True).values.numpy(),
        unscaled=score_spread(trace.seen["scores"], seen),
        spread=score_spread(scaled, seen),
        theory=spread_in_theory(d_head, factor),
        entropy=entropy_share(weights, seen).mean().item(),
        largest=largest_weight(weights, seen).mean().item(),
        gradient=softmax_gradient(weights).mean().item(),
        scale=factor,
    )


def widths(n_heads: int) -> list[int]:
    """The head widths that are looked at: powers of two."""
    return [2**i for i in range(11) if 2**i * n_heads <= MAX_WIDTH]


def sweep(n_heads: int, init: str, length: int) -> dict[str, list[Scores]]:
    """Every scale at every width."""
    return {
        scale: [scores(d_head, n_heads, scale, init, length) for d_head in widths(n_heads)]
        for scale in SCALES
    }
