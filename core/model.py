"""The transformer: embed, pass through the blocks, read off the logits.

A decoder-only and an encoder-only model are the same stack of blocks under different masks; an
encoder-decoder is two stacks, the second of which also reads the first one's output.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from core.blocks import Block, CrossBlock, Stream, final_norm
from core.config import ModelConfig
from core.device import compute_dtype
from core.init import embedding_factor, initialise
from core.masks import MASKS, Bias, as_bias, everything, hide_padding, keep_padding, visible
from core.positions import POSITIONS, NoPosition
from core.tokens import PAD
from core.trace import NO_TRACE, Trace

Tokens = Int[Tensor, "batch length"]
Source = Int[Tensor, "batch source"]
Logits = Float[Tensor, "batch length vocab"]


class Embedding(nn.Module):
    """Tokens become vectors that also know where they stand (paper, sections 3.4 and 3.5).

    A token is one row of a learnt table: tokens that behave alike end up with similar rows. The
    factor gives these rows and the positions added to them about the same size.
    """

    def __init__(self, config: ModelConfig, position: NoPosition) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.position = position
        self.factor = embedding_factor(config)

    def forward(self, tokens: Tokens) -> Stream:
        x = self.tokens(tokens) * self.factor  # [batch, length, d_model]
        return self.position.add(x)


class Transformer(nn.Module):
    """Decoder-only or encoder-only: one stack of blocks over one sequence.

    Args:
        config: every switch is decided here; nothing in a forward asks again.
        block: what is stacked.
    """

    def __init__(self, config: ModelConfig, block: type[Block] = Block) -> None:
        super().__init__()
        position = POSITIONS[config.position](config)
        self.max_len = config.max_len
        self.may_see = MASKS[config.mask](config.window)
        self.pad = hide_padding if config.pad_mask else keep_padding
        self.embed = Embedding(config, position)
        self.blocks = nn.ModuleList(block(config, position) for _ in range(config.n_layers))
        self.norm = final_norm(config)
        self.unembed = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_embeddings:  # one table for reading and writing (paper, section 3.4)
            self.unembed.weight = self.embed.tokens.weight

    def bias(self, tokens: Tokens, x: Stream) -> Bias:
        """What self-attention adds to its scores: mask, padding and position in one."""
        length = tokens.shape[1]
        seen = visible(self.may_see, length, length, tokens.device)  # [query, key]
        seen = self.pad(seen, tokens != PAD)  # [batch, 1, query, key]
        return as_bias(seen, self.embed.position.bias(length, length), compute_dtype(x))

    def forward(self, tokens: Tokens, trace: Trace = NO_TRACE) -> Logits:
        x = trace("embed", self.embed(tokens))  # [batch, length, d_model]
        bias = self.bias(tokens, x)
        for i, block in enumerate(self.blocks):
            x = block(x, bias, trace.scope(f"blocks.{i}"))
        return trace("logits", self.unembed(self.norm(x)))  # [batch, length, vocab]


class Encoder(nn.Module):
    """The stack beside a decoder: it reads the whole source, both ways."""

    def __init__(self, config: ModelConfig, position: NoPosition) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config, position) for _ in range(config.n_layers))
        self.norm = final_norm(config)

    def forward(self, x: Stream, bias: Bias, trace: Trace = NO_TRACE) -> Stream:
        for i, block in enumerate(self.blocks):
            x = block(x, bias, trace.scope(f"blocks.{i}"))
        return trace("memory", self.norm(x))


class EncoderDecoder(Transformer):
    """The paper's own architecture (figure 1), with one embedding for source and target."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, CrossBlock)
        self.encoder = Encoder(config, self.embed.position)

    def source_bias(
        self, n_query: int, source: Source, x: Stream, position_bias: Tensor | float
    ) -> Bias:
        """Every query may read the whole source, padding excepted."""
        seen = visible(everything, n_query, source.shape[1], source.device)
        return as_bias(self.pad(seen, source != PAD), position_bias, compute_dtype(x))

    def forward(self, source: Source, target: Tokens, trace: Trace = NO_TRACE) -> Logits:
        n_source, n_target = source.shape[1], target.shape[1]
        x = trace("encoder.embed", self.embed(source))  # [batch, source, d_model]
        bias = self.source_bias(n_source, source, x, self.embed.position.bias(n_source, n_source))
        memory = self.encoder(x, bias, trace.scope("encoder"))

        x = trace("embed", self.embed(target))  # [batch, length, d_model]
        bias, memory_bias = self.bias(target, x), self.source_bias(n_target, source, x, 0.0)
        for i, block in enumerate(self.blocks):
            x = block(x, bias, memory, memory_bias, trace.scope(f"blocks.{i}"))
        return trace("logits", self.unembed(self.norm(x)))  # [batch, length, vocab]


# The switch `architecture`: an encoder-only model differs from a decoder-only one by its mask.
ARCHITECTURES: dict[str, type[Transformer]] = {
    "decoder": Transformer,
    "encoder": Transformer,
    "encoder-decoder": EncoderDecoder,
}


def build_model(config: ModelConfig, seed: int = 0) -> Transformer:
    """The model that a config describes, with its initial numbers.

    Args:
        seed: with the parameter's name, decides the numbers each parameter starts from.
    """
    # PyTorch fills each new layer at random; the process's random state is to stay as it was.
    with torch.random.fork_rng(devices=[]):
        model = ARCHITECTURES[config.architecture](config)
    initialise(model, config, seed)
    return model


def adopt(model: Transformer, old: Transformer) -> Transformer:
    """Let a model take over another one's parameters and buffers: the very same tensors.

    A hot change builds a new model from the new config and lets it adopt what the old one has
    learnt. Tied parameters stay tied, and the optimiser goes on with the objects it knows.
    """
    for name, module in model.named_modules():
        source = old.get_submodule(name)
        module._parameters.update(source._parameters)
        module._buffers.update(source._buffers)
    return model
