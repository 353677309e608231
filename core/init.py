"""The numbers a model starts from: they decide what √d_k does.

Each parameter is drawn from a generator of its own, seeded by (seed, parameter name): two models
that differ in one switch start from the same numbers wherever their shapes agree, and building
one never touches the process's random state.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch

import torch
from torch import Generator, Tensor, nn

from core.config import ModelConfig

Rule = Callable[[Tensor, Generator, ModelConfig], object]


class Linear(nn.Linear):
    """`nn.Linear`, whose numbers are drawn here and only here."""

    def reset_parameters(self) -> None:
        """Leave the memory as it is until `initialise` fills it."""


class Table(nn.Embedding):
    """`nn.Embedding`, whose numbers are drawn here and only here."""

    def reset_parameters(self) -> None:
        """Leave the memory as it is until `initialise` fills it."""


def normal(std: float) -> Rule:
    """N(0, std²)."""
    return lambda p, generator, config: nn.init.normal_(p, 0.0, std, generator=generator)


def zeros(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """All zero: how biases start."""
    nn.init.zeros_(p)


def as_built(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """LayerNorm starts as the plain normalisation: gain 1, shift 0."""


def embedding(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """N(0, 1/d_model): times √d_model on the way in about N(0, 1), and fit for a tied head."""
    nn.init.normal_(p, 0.0, config.d_model**-0.5, generator=generator)


def xavier(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """U(±√(6/(fan_in + fan_out))) (Glorot and Bengio 2010, equation 16)."""
    nn.init.xavier_uniform_(p, generator=generator)


def xavier_each(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """Xavier on each d_model x d_model matrix of a stacked one.

    Taken as one tall matrix, it would halve the spread of the scores.
    """
    for matrix in p.split(config.d_model):
        nn.init.xavier_uniform_(matrix, generator=generator)


def last_of_sublayer(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """N(0, 0.02²/(2·n_layers)): the stream's size stays put as layers add up (GPT-2, 2.3)."""
    nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * config.n_layers), generator=generator)


def xavier_packed(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """U(±√(6/4d)): W_q, W_k and W_v drawn as the one 3d x d matrix of `nn.MultiheadAttention`."""
    bound = math.sqrt(6 / (4 * config.d_model))
    nn.init.uniform_(p, -bound, bound, generator=generator)


def kaiming(p: Tensor, generator: Generator, config: ModelConfig) -> None:
    """U(±1/√fan_in): what `nn.Linear` does to its weight."""
    nn.init.kaiming_uniform_(p, a=math.sqrt(5), generator=generator)


def linear_bias(fan_in: Callable[[ModelConfig], int]) -> Rule:
    """U(±1/√fan_in): what `nn.Linear` does to its bias."""

    def rule(p: Tensor, generator: Generator, config: ModelConfig) -> None:
        bound = fan_in(config) ** -0.5
        nn.init.uniform_(p, -bound, bound, generator=generator)

    return rule


@dataclass(frozen=True)
class Init:
    """Rules by parameter name (the first that fits), and the factor on the embeddings."""

    rules: tuple[tuple[str, Rule], ...]
    embedding_factor: Callable[[ModelConfig], float]


LAYER_NORMS: tuple[tuple[str, Rule], ...] = (("*around_*", as_built), ("*norm.*", as_built))

INITS: dict[str, Init] = {
    # The paper's setting: unit-variance inputs, so that √d_k matters.
    "xavier": Init(
        (
            *LAYER_NORMS,
            ("*.bias", zeros),
            ("embed.tokens.weight", embedding),
            ("embed.position.table", normal(0.02)),
            ("*attention.qkv.weight", xavier_each),
            ("*cross.kv.weight", xavier_each),
            ("*", xavier),
        ),
        embedding_factor=lambda config: math.sqrt(config.d_model),
    ),
    # GPT-2: everything small.
    "gpt2": Init(
        (
            *LAYER_NORMS,
            ("*.bias", zeros),
            ("*.out.weight", last_of_sublayer),
            ("*", normal(0.02)),
        ),
        embedding_factor=lambda config: 1.0,
    ),
    # What nn.Embedding, nn.MultiheadAttention and nn.Linear do on their own.
    "torch": Init(
        (
            *LAYER_NORMS,
            ("embed.tokens.weight", normal(1.0)),
            ("embed.position.table", normal(1.0)),
            ("*attention.*.bias", zeros),
            ("*cross.*.bias", zeros),
            ("*attention.qkv.weight", xavier_packed),
            ("*cross.q.weight", xavier_packed),
            ("*cross.kv.weight", xavier_packed),
            ("*ffn.inner.bias", linear_bias(lambda config: config.d_model)),
            ("*ffn.out.bias", linear_bias(lambda config: config.d_hidden)),
            ("*", kaiming),
        ),
        embedding_factor=lambda config: 1.0,
    ),
}


@torch.no_grad()
def initialise(model: nn.Module, config: ModelConfig, seed: int) -> None:
    """Give every parameter its first numbers, each from a generator of its own."""
    for name, parameter in model.named_parameters():
        rule = next(rule for pattern, rule in INITS[config.init].rules if fnmatch(name, pattern))
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        rule(parameter, generator, config)
