"""The transformer: embed, pass through the blocks, read off the logits.

A decoder-only and an encoder-only model are the same stack of blocks: the task gives them other
targets, and the mask decides what each position sees (usually what came before it in a decoder,
everything in an encoder). An encoder-decoder is two stacks, the second of which also reads the
first one's output.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from core.blocks import Block, CrossBlock, Stream, final_norm
from core.cache import NO_CACHE, NoCache
from core.config import ModelConfig
from core.device import compute_dtype
from core.embedding import Embedding, Keys, PatchEmbedding, Patches
from core.init import initialise
from core.masks import MASKS, Bias, Rule, allowed_keys, as_bias, everything, hide_padding
from core.positions import POSITIONS, Position
from core.recurrent import GRU, LSTM, Recurrent
from core.tokens import PAD
from core.trace import NO_TRACE, Trace

Tokens = Int[Tensor, "batch length"]
Read = Int[Tensor, "batch ..."]  # tokens, or patches of a picture, which are many numbers each
Source = Int[Tensor, "batch source"]
Logits = Float[Tensor, "batch length vocab"]
Memory = Float[Tensor, "batch source d_model"]


class Transformer(nn.Module):
    """Decoder-only or encoder-only: one stack of blocks over one sequence.

    Args:
        config: every switch; what it stands for is chosen here, once.
        block: what is stacked.
    """

    def __init__(self, config: ModelConfig, block: type[Block] = Block) -> None:
        super().__init__()
        position = POSITIONS[config.position](config)
        self.max_len = config.max_len
        self.may_see = MASKS[config.mask_rule](config.window)
        self.pad_mask = config.pad_mask  # off shows the damage that padding does
        self.embed = Embedding(config, position)
        self.blocks = nn.ModuleList(block(config, position) for _ in range(config.n_layers))
        self.norm = final_norm(config)
        self.unembed = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_embeddings:  # one table for reading and writing (paper, section 3.4)
            self.unembed.weight = self.embed.tokens.weight

    def attention_bias(
        self, may_see: Rule, n_query: int, keys: Keys, position_bias: Tensor | float = 0.0
    ) -> Bias:
        """What attention adds to its scores: mask, padding and position in one.

        Args:
            keys: the tokens that are looked at.
        """
        allowed = allowed_keys(may_see, n_query, keys.shape[1], keys.device)  # [query, key]
        if self.pad_mask:
            allowed = hide_padding(allowed, keys != PAD)  # [batch, 1, query, key]
        return as_bias(allowed, position_bias, compute_dtype(self.unembed.weight))

    def begin(self, tokens: Tokens, trace: Trace, cache: NoCache) -> tuple[Stream, Bias]:
        """The tokens as vectors, and what the attention among them adds to its scores."""
        cache.check(self.may_see)
        start = cache.length
        (keys,) = cache.extend(tokens, dim=1)  # these tokens, behind what the cache has read
        n, n_key = tokens.shape[1], keys.shape[1]
        bias = self.attention_bias(self.may_see, n, keys, self.embed.position.bias(n, n_key))
        return trace("embed", self.embed(keys, start)), bias

    def forward(self, tokens: Read, trace: Trace = NO_TRACE, cache: NoCache = NO_CACHE) -> Logits:
        x, bias = self.begin(tokens, trace, cache)  # [batch, length, d_model]
        for i, block in enumerate(self.blocks):
            x = block(x, bias, trace.scope(f"blocks.{i}"), cache.scope(f"blocks.{i}"))
        return trace("logits", self.unembed(self.norm(x)))  # [batch, length, vocab]

    def reader(self) -> Callable[..., Logits]:
        """What generation asks again and again: tokens (and a cache) -> logits."""
        return self


class Encoder(nn.Module):
    """The stack beside a decoder: it reads the whole source, both ways."""

    def __init__(self, config: ModelConfig, position: Position) -> None:
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

    def forward(
        self, source: Source, target: Tokens, trace: Trace = NO_TRACE, cache: NoCache = NO_CACHE
    ) -> Logits:
        memory = cache.once(lambda: self.read(source, trace))
        return self.write(source, memory, target, trace, cache)

    def read(self, source: Source, trace: Trace = NO_TRACE) -> Memory:
        """What the encoder makes of a source."""
        n = source.shape[1]
        bias = self.attention_bias(everything, n, source, self.embed.position.bias(n, n))
        x = trace("encoder.embed", self.embed(source))  # [batch, source, d_model]
        return self.encoder(x, bias, trace.scope("encoder"))

    def write(
        self,
        source: Source,
        memory: Memory,
        target: Tokens,
        trace: Trace = NO_TRACE,
        cache: NoCache = NO_CACHE,
    ) -> Logits:
        """What follows each token of the target. Of the source, only its padding matters here."""
        memory_bias = self.attention_bias(everything, target.shape[1], source)
        x, bias = self.begin(target, trace, cache)  # [batch, length, d_model]
        for i, block in enumerate(self.blocks):
            name = f"blocks.{i}"
            x = block(x, bias, memory, memory_bias, trace.scope(name), cache.scope(name))
        return trace("logits", self.unembed(self.norm(x)))  # [batch, length, vocab]

    def reader(self, source: Source) -> Callable[..., Logits]:
        """The source is read here, once."""
        return partial(self.write, source, self.read(source))


class VisionTransformer(Transformer):
    """An encoder that reads a picture (ViT: Dosovitskiy et al. 2021): its tokens are patches.

    A learnt class token stands before them; what it has gathered from all of them is the answer.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.embed = PatchEmbedding(config, self.embed.position)

    def begin(self, patches: Patches, trace: Trace, cache: NoCache) -> tuple[Stream, Bias]:
        cache.check(everything)  # nothing is written after a picture
        x = trace("embed", self.embed(patches))  # [batch, 1 + patches, d_model]
        n, filled = x.shape[1], x.new_ones(x.shape[:2]).long()  # no place is padding
        return x, self.attention_bias(self.may_see, n, filled, self.embed.position.bias(n, n))

    def reader(self) -> Callable[..., Logits]:
        raise ValueError("a vit answers at its class token, once: it writes nothing")


# The switch `architecture`. "encoder" is the same model as "decoder", with other targets and masks.
Model = Transformer | Recurrent
ARCHITECTURES: dict[str, type[Model]] = {
    "decoder": Transformer,
    "encoder": Transformer,
    "encoder-decoder": EncoderDecoder,
    "vit": VisionTransformer,
    "gru": GRU,
    "lstm": LSTM,
}


def build_model(config: ModelConfig, seed: int = 0) -> Model:
    """The model that a config describes, with its initial numbers.

    Args:
        seed: with the parameter's name, decides the numbers each parameter starts from.
    """
    # PyTorch fills each new layer at random; the process's random state is to stay as it was.
    with torch.random.fork_rng(devices=[]):
        model = ARCHITECTURES[config.architecture](config)
    initialise(model, config, seed)
    return model


def adopt(model: Model, old: Model) -> Model:
    """Let a model take over another one's parameters and buffers: the very same tensors.

    A hot change builds a new model from the new config and lets it adopt what the old one has
    learnt. Tied parameters stay tied, and the optimiser goes on with the objects it knows.
    """
    for name, module in model.named_modules():
        source = old.get_submodule(name)
        for part, parameter in source.named_parameters(recurse=False):
            setattr(module, part, parameter)  # torch's GRU and LSTM also list theirs
        module._buffers.update(source._buffers)
    return model
