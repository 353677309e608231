"""Blocks: how sub-layers are wired to the residual stream.

    x = after(combine(x, f(before(x))))

Post-norm (the paper), pre-norm and no norm, with and without the residual addition, are four
functions put into this one line while the model is built; where something is absent, a function
that does nothing stands in its place.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from core.attention import CrossAttention, SelfAttention
from core.config import ModelConfig
from core.init import Linear
from core.masks import Bias
from core.positions import NoPosition
from core.trace import NO_TRACE, NoTrace

Stream = Float[Tensor, "batch length d_model"]

# name -> (width -> (before the sub-layer, after the addition))
NORMS: dict[str, Callable[[int], tuple[nn.Module, nn.Module]]] = {
    "post": lambda width: (nn.Identity(), nn.LayerNorm(width)),
    "pre": lambda width: (nn.LayerNorm(width), nn.Identity()),
    "none": lambda width: (nn.Identity(), nn.Identity()),
}

# name -> (width -> the norm between the last block and the head)
FINAL_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "post": lambda width: nn.Identity(),
    "pre": nn.LayerNorm,
    "none": lambda width: nn.Identity(),
}

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}


def keep_second(x: Tensor, y: Tensor) -> Tensor:
    """The wiring without a residual connection: the input is forgotten."""
    return y


RESIDUALS: dict[bool, Callable[[Tensor, Tensor], Tensor]] = {True: torch.add, False: keep_second}


class Wiring(nn.Module):
    """What surrounds a sub-layer (paper, section 3.1: LayerNorm(x + Sublayer(x)))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.before, self.after = NORMS[config.norm](config.d_model)
        self.combine = RESIDUALS[config.residual]

    def forward(self, x: Stream, f: Callable[[Tensor], Tensor]) -> Stream:
        return self.after(self.combine(x, f(self.before(x))))


class Bypass(nn.Module):
    """The wiring of a sub-layer that is switched off: the stream passes untouched."""

    def forward(self, x: Stream, f: Callable[[Tensor], Tensor]) -> Stream:
        return x


class FeedForward(nn.Module):
    """The same two-layer network at every position (paper, equation 2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_hidden)
        self.activation = ACTIVATIONS[config.activation]()
        self.out = Linear(config.d_hidden, config.d_model)

    def forward(self, x: Stream, trace: NoTrace = NO_TRACE) -> Stream:
        return self.out(trace("hidden", self.activation(self.inner(x))))


def feed_forward(config: ModelConfig) -> tuple[nn.Module, nn.Module]:
    """The feed-forward sub-layer and its wiring, or two stand-ins when it is switched off."""
    return (FeedForward(config), Wiring(config)) if config.ffn else (nn.Identity(), Bypass())


class Block(nn.Module):
    """Self-attention, then feed-forward: the block of an encoder, and of a decoder-only model."""

    def __init__(self, config: ModelConfig, position: NoPosition) -> None:
        super().__init__()
        self.attention = SelfAttention(config, position)
        self.around_attention = Wiring(config)
        self.ffn, self.around_ffn = feed_forward(config)

    def forward(self, x: Stream, bias: Bias, trace: NoTrace = NO_TRACE) -> Stream:
        x = self.around_attention(x, lambda x: self.attention(x, bias, trace.scope("attention")))
        x = self.around_ffn(x, lambda x: self.ffn(x, trace.scope("ffn")))
        return trace("x", x)


class CrossBlock(nn.Module):
    """The block of a decoder beside an encoder: in between, it reads the encoder's output."""

    def __init__(self, config: ModelConfig, position: NoPosition) -> None:
        super().__init__()
        self.attention = SelfAttention(config, position)
        self.around_attention = Wiring(config)
        self.cross = CrossAttention(config)
        self.around_cross = Wiring(config)
        self.ffn, self.around_ffn = feed_forward(config)

    def forward(
        self,
        x: Stream,
        bias: Bias,
        memory: Float[Tensor, "batch source d_model"],
        memory_bias: Bias,
        trace: NoTrace = NO_TRACE,
    ) -> Stream:
        x = self.around_attention(x, lambda x: self.attention(x, bias, trace.scope("attention")))
        x = self.around_cross(x, lambda x: self.cross(x, memory, memory_bias, trace.scope("cross")))
        x = self.around_ffn(x, lambda x: self.ffn(x, trace.scope("ffn")))
        return trace("x", x)
