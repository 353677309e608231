"""Attention: a lookup whose keys, queries and values are all learnt.

    softmax(q kᵀ · scale + bias) v        (paper, equation 1; scale = 1/√d_k there)

One formula, two ways to run it: spelled out when somebody wants to see what happens inside, one
fused kernel otherwise. Both give the same numbers.
"""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from core.config import ModelConfig
from core.init import Linear
from core.masks import Bias
from core.positions import NoPosition
from core.trace import NO_TRACE, NoTrace

# name -> the number the scores are multiplied by
SCALES: dict[str, Callable[[ModelConfig], float]] = {
    "sqrt_d_head": lambda config: config.d_head**-0.5,
    "none": lambda config: 1.0,
    "d_head": lambda config: 1 / config.d_head,
    "sqrt_d_model": lambda config: config.d_model**-0.5,
}


def attention_spelled_out(
    q: Float[Tensor, "batch heads query d_head"],
    k: Float[Tensor, "batch heads key d_head"],
    v: Float[Tensor, "batch heads key d_head"],
    bias: Bias,
    scale: float,
    trace: NoTrace = NO_TRACE,
) -> Float[Tensor, "batch heads query d_head"]:
    """Equation 1, one step at a time, each step shown to the trace."""
    scores = trace("scores", q @ k.transpose(-2, -1))
    scaled = trace("scaled", scores * scale)
    masked = trace("masked", scaled + bias.added)
    weights = trace("weights", masked.softmax(dim=-1) * bias.sees)
    return weights @ v


def attention(
    q: Float[Tensor, "batch heads query d_head"],
    k: Float[Tensor, "batch heads key d_head"],
    v: Float[Tensor, "batch heads key d_head"],
    bias: Bias,
    scale: float,
    trace: NoTrace = NO_TRACE,
) -> Float[Tensor, "batch heads query d_head"]:
    """Equation 1 by the fused kernel, or spelled out when the trace watches.

    A query that may see no key at all gets a row of zeros.
    """
    if trace.watching:
        return attention_spelled_out(q, k, v, bias, scale, trace)
    z = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.added, scale=scale)
    return z * bias.sees


def split_heads(
    x: Float[Tensor, "batch length d_model"], n_heads: int
) -> Float[Tensor, "batch heads length d_head"]:
    """Give each head its own d_model/n_heads columns."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(
    z: Float[Tensor, "batch heads length d_head"],
) -> Float[Tensor, "batch length d_model"]:
    """Put the heads' columns side by side again."""
    return z.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Several heads look at the same sequence, each in its own columns (paper, section 3.2.2).

    W_q, W_k and W_v are three d_model x d_model matrices kept in one, so that one product makes
    all queries, keys and values. Head i's W_q is rows i·d_head to (i+1)·d_head of the first.
    """

    def __init__(self, config: ModelConfig, position: NoPosition) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.scale = SCALES[config.scale](config)
        self.rotate = position.rotate
        self.qkv = Linear(config.d_model, 3 * config.d_model)
        self.out = Linear(config.d_model, config.d_model)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], bias: Bias, trace: NoTrace = NO_TRACE
    ) -> Float[Tensor, "batch length d_model"]:
        q, k, v = (split_heads(part, self.n_heads) for part in self.qkv(x).chunk(3, dim=-1))
        q, k, v = trace("q", self.rotate(q)), trace("k", self.rotate(k)), trace("v", v)
        z = trace("z", attention(q, k, v, bias, self.scale, trace))
        return self.out(merge_heads(z))


class CrossAttention(nn.Module):
    """Queries from one sequence, keys and values from another (paper, section 3.2.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.scale = SCALES[config.scale](config)
        self.q = Linear(config.d_model, config.d_model)
        self.kv = Linear(config.d_model, 2 * config.d_model)
        self.out = Linear(config.d_model, config.d_model)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        bias: Bias,
        trace: NoTrace = NO_TRACE,
    ) -> Float[Tensor, "batch query d_model"]:
        k, v = (split_heads(part, self.n_heads) for part in self.kv(memory).chunk(2, dim=-1))
        q = trace("q", split_heads(self.q(x), self.n_heads))
        z = trace("z", attention(q, trace("k", k), trace("v", v), bias, self.scale, trace))
        return self.out(merge_heads(z))
