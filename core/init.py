"""How the weights are drawn before the first step: their size decides how large scores start.

Each parameter is drawn from a generator of its own, seeded by (seed, parameter name): two models
that differ in one switch start from the same numbers wherever their shapes agree, and building
one never touches the process's random state.
"""

import hashlib
import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from core.config import ModelConfig


def xavier(name: str, p: Tensor, config: ModelConfig, generator: Generator) -> None:
    """The paper's setting: a square layer keeps unit variance.

    Queries and keys then have it too, and the spread of their scores is √d_k. Matrices are
    U(±√(6/(fan_in + fan_out))) (Glorot and Bengio 2010, equation 16), which multiplies the
    variance by 2·fan_in/(fan_in + fan_out): by 0.4 where the feed-forward widens four times, by
    1.6 where it narrows again.
    """
    if name.endswith("bias"):
        nn.init.zeros_(p)
    elif name == "embed.tokens.weight":  # N(0, 1) after the factor; as it is, fit for a tied output
        nn.init.normal_(p, 0.0, config.d_model**-0.5, generator=generator)
    elif name in ("embed.position.table", "embed.class_token"):
        nn.init.normal_(p, 0.0, 0.02, generator=generator)
    elif name.endswith((".qkv.weight", ".kv.weight")):
        # Drawn as one tall matrix, W_q, W_k and W_v would be too small.
        for matrix in p.split(config.d_model):
            nn.init.xavier_uniform_(matrix, generator=generator)
    else:
        nn.init.xavier_uniform_(p, generator=generator)


def gpt2(name: str, p: Tensor, config: ModelConfig, generator: Generator) -> None:
    """Everything small, N(0, 0.02²), and smaller still where a sub-layer adds to the stream.

    There N(0, 0.02²/(2·n_layers)): the stream's size stays put as blocks add up (GPT-2, 2.3).
    """
    if name.endswith("bias"):
        nn.init.zeros_(p)
    elif name.endswith(".out.weight"):
        nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * config.n_layers), generator=generator)
    else:
        nn.init.normal_(p, 0.0, 0.02, generator=generator)


def torch_default(name: str, p: Tensor, config: ModelConfig, generator: Generator) -> None:
    """What nn.Embedding, nn.MultiheadAttention and nn.Linear do on their own."""
    if name.startswith("embed.") and not name.startswith("embed.patches."):
        nn.init.normal_(p, 0.0, 1.0, generator=generator)
    elif name.endswith((".qkv.weight", ".kv.weight", ".cross.q.weight")):
        # Xavier, with W_q, W_k and W_v as one 3·d_model x d_model matrix
        bound = math.sqrt(6 / (4 * config.d_model))
        nn.init.uniform_(p, -bound, bound, generator=generator)
    elif name.endswith("weight"):  # U(±1/√fan_in)
        nn.init.kaiming_uniform_(p, a=math.sqrt(5), generator=generator)
    elif ".ffn." in name:  # its biases, U(±1/√fan_in) like the weights
        fan_in = config.d_hidden if ".out." in name else config.d_model
        nn.init.uniform_(p, -(fan_in**-0.5), fan_in**-0.5, generator=generator)
    elif name == "embed.patches.bias":
        nn.init.uniform_(p, -(config.d_patch**-0.5), config.d_patch**-0.5, generator=generator)
    else:  # biases of attention
        nn.init.zeros_(p)


def recurrent(name: str, p: Tensor, config: ModelConfig, generator: Generator) -> None:
    """What nn.GRU and nn.LSTM do on their own, whatever `init` says: U(±1/√d_model)."""
    nn.init.uniform_(p, -(config.d_model**-0.5), config.d_model**-0.5, generator=generator)


# The switch `init`: name -> how each parameter is filled.
INITS: dict[str, Callable[[str, Tensor, ModelConfig, Generator], None]] = {
    "xavier": xavier,
    "gpt2": gpt2,
    "torch": torch_default,
}


def embedding_factor(config: ModelConfig) -> float:
    """What token embeddings are multiplied by on the way in (paper, section 3.4)."""
    return math.sqrt(config.d_model) if config.init == "xavier" else 1.0


def generator_of(name: str, seed: int) -> Generator:
    """A parameter's own source of randomness, decided by the seed and its name.

    The output layer is still called by the name it had when the numbers of runs were fixed.
    """
    name = name.replace("unembed", "head")
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


@torch.no_grad()
def initialise(model: nn.Module, config: ModelConfig, seed: int) -> None:
    """Give every parameter its first numbers, each from a generator of its own."""
    for name, parameter in model.named_parameters():
        if "around_" in name or "norm." in name:
            continue  # a norm starts as the plain normalisation: gain 1, shift 0
        of_a_recurrent_layer = not config.attends and name.startswith("blocks.")
        draw = recurrent if of_a_recurrent_layer else INITS[config.init]
        draw(name, parameter, config, generator_of(name, seed))
