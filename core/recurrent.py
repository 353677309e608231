"""Recurrent nets, to hold a transformer against: they read one token after the other.

What such a net knows of earlier tokens is in a state of fixed size, which each token rewrites:
there is no attention, no mask and no position. The same tokens go in and the same logits come out
as in a transformer, so one trainer trains both. The layers are PyTorch's own.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from core.cache import NO_CACHE, NoCache
from core.config import ModelConfig
from core.embedding import Embedding
from core.masks import causal
from core.positions import Position
from core.trace import NO_TRACE, Trace

Tokens = Int[Tensor, "batch length"]
Logits = Float[Tensor, "batch length vocab"]


class Recurrent(nn.Module):
    """Embed, pass through recurrent layers of width d_model, read off the logits.

    Args:
        layer: one layer, `nn.GRU` or `nn.LSTM`.
    """

    may_see = staticmethod(causal)  # there is no other order to read in than from left to right

    def __init__(self, config: ModelConfig, layer: type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.max_len = config.max_len
        d = config.d_model
        self.embed = Embedding(config, Position())
        self.blocks = nn.ModuleList(layer(d, d, batch_first=True) for _ in range(config.n_layers))
        self.unembed = nn.Linear(d, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.unembed.weight = self.embed.tokens.weight

    def forward(self, tokens: Tokens, trace: Trace = NO_TRACE, cache: NoCache = NO_CACHE) -> Logits:
        """What follows each token; with a cache, after all that earlier calls have read."""
        cache.extend(tokens, dim=1)
        x = trace("embed", self.embed(tokens))  # [batch, length, d_model]
        # PyTorch has no LSTM of half the precision for every device.
        with torch.autocast(tokens.device.type, enabled=False):
            for i, block in enumerate(self.blocks):
                memory = cache.scope(f"blocks.{i}")
                x, state = block(x, memory.state)
                memory.keep(state)
                x = trace(f"blocks.{i}", x)
        return trace("logits", self.unembed(x))  # [batch, length, vocab]

    def reader(self) -> Callable[..., Logits]:
        """What generation asks again and again: tokens (and a cache) -> logits."""
        return self


class GRU(Recurrent):
    """Gated recurrent units (Cho et al. 2014): two gates say how much of the state is rewritten."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, nn.GRU)


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997): a second state that is added to."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, nn.LSTM)
