"""Blocks: how sub-layers are connected to the residual stream.

    x = after(combine(x, f(before(x))))

The stream `x` runs through the whole model, and each sub-layer f reads it and adds to it. The
paper normalises after the addition, most models since before f: post-norm, pre-norm and no norm,
with and without the addition, are put into this one line while the model is built; where
something is absent, a function that does nothing stands in its place.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from core.attention import CrossAttention, SelfAttention
from core.cache import NO_CACHE, NoCache
from core.config import ModelConfig
from core.masks import Bias
from core.positions import Position, Stream
from core.trace import NO_TRACE, Trace


def keep_second(x: Tensor, y: Tensor) -> Tensor:
    """In place of the addition: the stream is forgotten, and gradients lose their short way."""
    return y


# The switch `norm_type`: name -> (width -> norm). LayerNorm brings each token's numbers to mean 0
# and variance 1; RMSNorm only divides them by their root mean square (Zhang and Sennrich 2019).
# Both multiply each number by a learnt gain, and LayerNorm adds a learnt shift.
NORM_TYPES: dict[str, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": lambda width: nn.RMSNorm(width, eps=1e-5),
}


def new_norm(config: ModelConfig) -> nn.Module:
    """A norm over the numbers of each token, of the chosen type."""
    return NORM_TYPES[config.norm_type](config.d_model)


# The switch `norm`: name -> (before the sub-layer, after the addition).
NORMS: dict[str, Callable[[ModelConfig], tuple[nn.Module, nn.Module]]] = {
    "post": lambda config: (nn.Identity(), new_norm(config)),
    "pre": lambda config: (new_norm(config), nn.Identity()),
    "none": lambda config: (nn.Identity(), nn.Identity()),
}


class SublayerConnection(nn.Module):
    """What surrounds a sub-layer (paper, section 3.1: LayerNorm(x + Sublayer(x))).

    The addition lets a gradient reach every block unchanged (He et al. 2016), and the norm keeps
    the size of the stream the same however many sub-layers have added to it.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.before, self.after = NORMS[config.norm](config)
        self.combine = torch.add if config.residual else keep_second

    def forward(self, x: Stream, f: Callable[[Tensor], Tensor]) -> Stream:
        return self.after(self.combine(x, f(self.before(x))))


class Bypass(nn.Module):
    """Around a sub-layer that is switched off: the stream passes, and f is never called."""

    def forward(self, x: Stream, f: Callable[[Tensor], Tensor]) -> Stream:
        return x


def final_norm(config: ModelConfig) -> nn.Module:
    """Pre-norm leaves the stream itself as large as it grew, so one norm stands at its end."""
    return new_norm(config) if config.norm == "pre" else nn.Identity()


# The switch `activation`: without one, two linear layers in a row are only one.
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,  # x times sigmoid of x, also called Swish
}


class FeedForward(nn.Module):
    """The same two-layer network at every position (paper, equation 2).

    Attention only mixes values: what becomes of the mixture is worked out here, token by token,
    in most of the model's parameters.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_hidden)
        self.activation = ACTIVATIONS[config.activation]()
        self.out = nn.Linear(config.d_hidden, config.d_model)

    def forward(self, x: Stream, trace: Trace = NO_TRACE) -> Stream:
        hidden = trace("hidden", self.activation(self.inner(x)))  # [batch, length, d_hidden]
        return self.out(hidden)


class GatedFeedForward(FeedForward):
    """A feed-forward with a gate (Shazeer 2020, equation 6): with `silu` this is SwiGLU.

    One matrix proposes the hidden numbers, another decides, through the activation, how much of
    each passes: a product of two readings of the token, where there was only one.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.gate = nn.Linear(config.d_model, config.d_hidden)

    def forward(self, x: Stream, trace: Trace = NO_TRACE) -> Stream:
        passes = self.activation(self.gate(x))  # [batch, length, d_hidden]
        return self.out(trace("hidden", passes * self.inner(x)))


# The switch `gated`.
FEED_FORWARDS: dict[bool, type[FeedForward]] = {False: FeedForward, True: GatedFeedForward}


class Block(nn.Module):
    """Read the other tokens, then think: the block of an encoder, and of a decoder-only model."""

    def __init__(self, config: ModelConfig, position: Position) -> None:
        super().__init__()
        self.attention = SelfAttention(config, position)
        self.around_attention = SublayerConnection(config)
        self.ffn = FEED_FORWARDS[config.gated](config) if config.ffn else None
        self.around_ffn = SublayerConnection(config) if config.ffn else Bypass()

    def forward(
        self, x: Stream, bias: Bias, trace: Trace = NO_TRACE, cache: NoCache = NO_CACHE
    ) -> Stream:
        looked, kept = trace.scope("attention"), cache.scope("attention")
        x = trace("resid_pre", x)
        x = self.around_attention(x, lambda h: self.attention(h, bias, looked, kept))
        x = trace("resid_mid", x)
        x = self.around_ffn(x, lambda h: self.ffn(h, trace.scope("ffn")))
        return trace("resid_post", x)


class CrossBlock(Block):
    """The block of a decoder beside an encoder: in between, it reads the encoder's output."""

    def __init__(self, config: ModelConfig, position: Position) -> None:
        super().__init__(config, position)
        self.cross = CrossAttention(config)
        self.around_cross = SublayerConnection(config)

    def forward(
        self,
        x: Stream,
        bias: Bias,
        memory: Float[Tensor, "batch source d_model"],
        memory_bias: Bias,
        trace: Trace = NO_TRACE,
        cache: NoCache = NO_CACHE,
    ) -> Stream:
        looked, kept = trace.scope("attention"), cache.scope("attention")
        x = trace("resid_pre", x)
        x = self.around_attention(x, lambda h: self.attention(h, bias, looked, kept))
        x = trace("resid_mid", x)
        looked, kept = trace.scope("cross"), cache.scope("cross")
        x = self.around_cross(x, lambda h: self.cross(h, memory, memory_bias, looked, kept))
        x = trace("resid_mid_cross", x)
        x = self.around_ffn(x, lambda h: self.ffn(h, trace.scope("ffn")))
        return trace("resid_post", x)
