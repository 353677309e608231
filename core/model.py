"""The transformer: embed, pass through the blocks, read off the logits.

A decoder-only and an encoder-only model are the same stack of blocks under different masks; an
encoder-decoder is two stacks, the second of which also reads the first one's output.
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from core.blocks import FINAL_NORMS, Block, CrossBlock
from core.config import ModelConfig
from core.init import INITS, Linear, Table, initialise
from core.masks import MASKS, Bias, as_bias, everything, hide_padding, score_dtype, visible
from core.positions import POSITIONS, NoPosition
from core.tasks.base import PAD
from core.trace import NO_TRACE, NoTrace

Tokens = Int[Tensor, "batch length"]
Source = Int[Tensor, "batch source"]
Stream = Float[Tensor, "batch length d_model"]
Logits = Float[Tensor, "batch length vocab"]

# pad_mask -> what happens to keys that are padding
PADDING = {True: hide_padding, False: lambda seen, real: seen}


class Embedding(nn.Module):
    """Tokens become vectors that also know where they stand (paper, sections 3.4 and 3.5)."""

    def __init__(self, config: ModelConfig, position: NoPosition) -> None:
        super().__init__()
        self.tokens = Table(config.vocab_size, config.d_model)
        self.position = position
        self.factor = INITS[config.init].embedding_factor(config)

    def forward(self, tokens: Tokens) -> Stream:
        return self.position.add(self.tokens(tokens) * self.factor)


class Transformer(nn.Module):
    """Decoder-only or encoder-only: one stack of blocks over one sequence.

    Args:
        config: every switch is decided here; nothing in a forward asks again.
        seed: with the parameter's name, decides the numbers each parameter starts from.
    """

    block: type[nn.Module] = Block

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.build(config)
        initialise(self, config, seed)

    def build(self, config: ModelConfig) -> None:
        position = POSITIONS[config.position](config)
        self.max_len = config.max_len
        self.see = MASKS[config.mask](config.window)
        self.pad = PADDING[config.pad_mask]
        self.embed = Embedding(config, position)
        self.blocks = nn.ModuleList(self.block(config, position) for _ in range(config.n_layers))
        self.norm = FINAL_NORMS[config.norm](config.d_model)
        self.head = Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.head.weight = self.embed.tokens.weight

    def bias(self, tokens: Tokens, x: Stream) -> Bias:
        """What self-attention adds to its scores: mask, padding and position in one."""
        length = tokens.shape[1]
        seen = self.pad(visible(self.see, length, length, tokens.device), tokens != PAD)
        return as_bias(seen, self.embed.position.bias(length, length), score_dtype(x))

    def forward(self, tokens: Tokens, trace: NoTrace = NO_TRACE) -> Logits:
        x = trace("embed", self.embed(tokens))
        bias = self.bias(tokens, x)
        for i, block in enumerate(self.blocks):
            x = block(x, bias, trace.scope(f"blocks.{i}"))
        return trace("logits", self.head(self.norm(x)))


class Encoder(nn.Module):
    """The stack beside a decoder: it reads the whole source, both ways."""

    def __init__(self, config: ModelConfig, embed: Embedding) -> None:
        super().__init__()
        position = embed.position
        self.blocks = nn.ModuleList(Block(config, position) for _ in range(config.n_layers))
        self.norm = FINAL_NORMS[config.norm](config.d_model)

    def forward(self, x: Stream, bias: Bias, trace: NoTrace = NO_TRACE) -> Stream:
        for i, block in enumerate(self.blocks):
            x = block(x, bias, trace.scope(f"blocks.{i}"))
        return trace("memory", self.norm(x))


class EncoderDecoder(Transformer):
    """The paper's own architecture (figure 1), with one embedding for source and target."""

    block = CrossBlock

    def build(self, config: ModelConfig) -> None:
        super().build(config)
        self.encoder = Encoder(config, self.embed)

    def reading(
        self, n_query: int, source: Source, x: Stream, position_bias: Tensor | float
    ) -> Bias:
        """Every query may read the whole source, padding excepted."""
        seen = visible(everything, n_query, source.shape[1], source.device)
        return as_bias(self.pad(seen, source != PAD), position_bias, score_dtype(x))

    def forward(self, source: Source, target: Tokens, trace: NoTrace = NO_TRACE) -> Logits:
        n_source, n_target = source.shape[1], target.shape[1]
        x = trace("encoder.embed", self.embed(source))
        bias = self.reading(n_source, source, x, self.embed.position.bias(n_source, n_source))
        memory = self.encoder(x, bias, trace.scope("encoder"))

        x = trace("embed", self.embed(target))
        bias, memory_bias = self.bias(target, x), self.reading(n_target, source, x, 0.0)
        for i, block in enumerate(self.blocks):
            x = block(x, bias, memory, memory_bias, trace.scope(f"blocks.{i}"))
        return trace("logits", self.head(self.norm(x)))


ARCHITECTURES: dict[str, type[Transformer]] = {
    "decoder": Transformer,
    "encoder": Transformer,
    "encoder-decoder": EncoderDecoder,
}


def build_model(config: ModelConfig, seed: int = 0) -> Transformer:
    """The model that a config describes, with its initial numbers."""
    return ARCHITECTURES[config.architecture](config, seed)


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
