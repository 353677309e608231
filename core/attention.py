"""Attention: a lookup whose queries, keys and values are all learnt.

    softmax(q kᵀ · scale + bias) v        (paper, equation 1; scale = 1/√d_k there)

This is the only place in a transformer where one token reads another; everything else treats
each token alone. ("Paper" in these files is Vaswani et al. 2017, "Attention Is All You Need"; its
d_k, the columns of one head, is `d_head` in the code.)

One formula, two ways to run it: spelled out when somebody wants to see what happens inside, one
fused kernel otherwise. Both give the same numbers. `trace(name, t)` hands t back, and a `Recorder`
also keeps it (trace.py); `bias` says which keys a query may see (masks.py); `cache` gives back the
keys and values of what earlier calls have read (cache.py), and in training nothing.
"""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from core.cache import NO_CACHE, NoCache
from core.config import ModelConfig
from core.masks import Bias
from core.positions import Position
from core.trace import NO_TRACE, Trace


def attention_spelled_out(
    q: Float[Tensor, "batch heads query d_head"],
    k: Float[Tensor, "batch heads key d_head"],
    v: Float[Tensor, "batch heads key d_head"],
    bias: Bias,
    scale: float,
    trace: Trace = NO_TRACE,
) -> Float[Tensor, "batch heads query d_head"]:
    """Equation 1, one step at a time, each step shown to the trace.

    A score is high where a query and a key point the same way. Softmax turns each query's scores
    into shares of 1, and the result is the values mixed in these shares. The scale keeps the
    scores of wide heads from growing: a sum of d_k products of independent numbers of unit
    variance has variance d_k (footnote 4), and large scores make softmax pick one key and pass
    no gradient to the others.
    """
    scores = trace("scores", q @ k.transpose(-2, -1))  # [batch, heads, query, key]
    scaled = trace("scaled", scores * scale)
    masked = trace("masked", scaled + bias.added)
    weights = trace("weights", masked.softmax(dim=-1) * bias.sees)  # each row sums to 1
    return weights @ v  # [batch, heads, query, d_head]


def attention(
    q: Float[Tensor, "batch heads query d_head"],
    k: Float[Tensor, "batch heads key d_head"],
    v: Float[Tensor, "batch heads key d_head"],
    bias: Bias,
    scale: float,
    trace: Trace = NO_TRACE,
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
    x = x.unflatten(-1, (n_heads, -1))  # [batch, length, heads, d_head]
    return x.transpose(1, 2)


def merge_heads(
    z: Float[Tensor, "batch heads length d_head"],
) -> Float[Tensor, "batch length d_model"]:
    """Put the heads' columns side by side again."""
    return z.transpose(1, 2).flatten(2)


# The switch `scale` names what the scores are divided by: name -> 1 / that number, because the
# fused kernel multiplies.
SCALES: dict[str, Callable[[ModelConfig], float]] = {
    "sqrt_d_head": lambda config: config.d_head**-0.5,
    "none": lambda config: 1.0,
    "d_head": lambda config: 1 / config.d_head,
    "sqrt_d_model": lambda config: config.d_model**-0.5,
}


class SelfAttention(nn.Module):
    """Several heads look at the same sequence, each in its own columns (paper, section 3.2.2).

    A head has one row of weights per query, so it looks for one thing at a time: several heads
    look for several things, at the cost of one wide one.

    W_q, W_k and W_v are three d_model x d_model matrices kept in one, so that one product makes
    all queries, keys and values. nn.Linear stores a matrix as [out, in] and computes x Wᵀ, so
    the columns of q that belong to head i come from rows i·d_head to (i+1)·d_head of W_q.
    """

    def __init__(self, config: ModelConfig, position: Position) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.scale = SCALES[config.scale](config)
        # Does nothing, unless positions are rotary. The method only: kept whole, the scheme and
        # its parameters would become part of every layer.
        self.rotate = position.rotate
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def forward(
        self,
        x: Float[Tensor, "batch length d_model"],
        bias: Bias,
        trace: Trace = NO_TRACE,
        cache: NoCache = NO_CACHE,
    ) -> Float[Tensor, "batch length d_model"]:
        parts = self.qkv(x).chunk(3, dim=-1)  # each [batch, length, d_model]
        q, k, v = (split_heads(x, self.n_heads) for x in parts)  # [batch, heads, length, d_head]
        q, k = self.rotate(q, cache.length), self.rotate(k, cache.length)
        k, v = cache.extend(k, v, dim=2)  # [batch, heads, key, d_head]
        q, k, v = trace("q", q), trace("k", k), trace("v", v)
        z = trace("z", attention(q, k, v, bias, self.scale, trace))
        return self.out(merge_heads(z))  # W_o mixes what the heads found


class CrossAttention(nn.Module):
    """Queries from one sequence, keys and values from another (paper, section 3.2.3).

    So a decoder asks the encoder's output about the source, at every one of its positions.
    Nothing is rotated here, and no distance added to the scores: a position in the target has no
    distance from one in the source.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.scale = SCALES[config.scale](config)
        self.q = nn.Linear(config.d_model, config.d_model)
        self.kv = nn.Linear(config.d_model, 2 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        bias: Bias,
        trace: Trace = NO_TRACE,
        cache: NoCache = NO_CACHE,
    ) -> Float[Tensor, "batch query d_model"]:
        kv = cache.once(lambda: self.kv(memory))  # the source stays the same
        k, v = kv.chunk(2, dim=-1)  # each [batch, key, d_model]
        q = trace("q", split_heads(self.q(x), self.n_heads))  # [batch, heads, query, d_head]
        k = trace("k", split_heads(k, self.n_heads))  # [batch, heads, key, d_head]
        v = trace("v", split_heads(v, self.n_heads))
        z = trace("z", attention(q, k, v, bias, self.scale, trace))
        return self.out(merge_heads(z))  # [batch, query, d_model]
