"""Feed-forward and the block: what each part costs, and what it does at each position."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from core.attention import SelfAttention
from core.blocks import ACTIVATIONS, FeedForward
from core.config import ModelConfig
from core.init import initialise
from core.model import build_model
from core.positions import Position
from core.tasks import TASKS
from core.trace import Recorder
from playground.ideas.shared_measures import mask_bias

LENGTHS = tuple(2**i for i in range(4, 14))
FINE = tuple(round(2 ** (i / 4)) for i in range(16, 53))  # the same range, in finer steps
ROWS = 8  # examples whose hidden activations are measured

# --- what it costs --------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What one part of the model costs."""

    parameters: int  # numbers that are learnt
    flops: int  # multiplications and additions in the matrix products of one forward pass


def model_config(
    width: int, factor: int, layers: int, vocabulary: int, length: int, like_gpt: bool = False
) -> ModelConfig:
    """A decoder-only model of these sizes; the number of heads changes no number here.

    Args:
        like_gpt: one table for input and output, learned positions, LayerNorm before each
            sub-layer and once at the end (Radford et al. 2019, section 2.3).
    """
    gpt = {"tie_embeddings": True, "position": "learned", "norm": "pre"} if like_gpt else {}
    return ModelConfig(
        **gpt,
        d_model=width,
        d_ff=factor * width,
        n_layers=layers,
        n_heads=1,
        vocab_size=vocabulary,
        max_len=length,
    )


def costs(config: ModelConfig, length: int) -> dict[str, Cost]:
    """Parameters and floating-point operations by part, for one sequence of `length` tokens.

    A product of an m×k and a k×n matrix counts 2·m·k·n. Only matrix products are counted; norms,
    softmax, activations and the lookup of the embeddings are not. The products q·k and weights·v
    count in full, hidden cells included: that is how they are computed.
    """
    parameters = config.parameters_by_part()
    d, hidden, layers = config.d_model, config.d_hidden, config.n_layers
    return {
        "embedding": Cost(parameters["embedding"] + parameters["positions"], 0),
        "projections": Cost(parameters["attention"], layers * 8 * length * d * d),
        "products": Cost(0, layers * 4 * length * length * d),
        "feed-forward": Cost(parameters["feed-forward"], layers * 4 * length * d * hidden),
        "norms": Cost(parameters["norms"], 0),
        "unembedding": Cost(parameters["unembedding"], 2 * length * d * config.vocab_size),
    }


def flop_shares(config: ModelConfig) -> dict[str, list[float]]:
    """Share of the operations at each length of `FINE`, for each part that has any."""
    rows = [{name: cost.flops for name, cost in costs(config, n).items()} for n in FINE]
    shares = {name: [row[name] / sum(row.values()) for row in rows] for name in rows[0]}
    return {name: values for name, values in shares.items() if any(values)}


def crossing(config: ModelConfig) -> float:
    """The length at which q·k and weights·v are half of all operations.

    4·L·d = 8·d² + 4·d·d_ff + 2·d·V/n_layers, solved for L.
    """
    return 2 * config.d_model + config.d_hidden + config.vocab_size / (2 * config.n_layers)


@lru_cache(maxsize=64)
@torch.no_grad()
def counted(config: ModelConfig, length: int) -> dict[str, int]:
    """The same operations, counted by PyTorch while the real model runs.

    The model is on the meta device, which knows shapes only, so any size is quick. One block
    runs, and counts for all of them: they have the same shapes.
    """
    one = ModelConfig(**config.to_dict() | {"n_layers": 1})
    with torch.device("meta"):
        model = build_model(one)
        tokens = torch.ones(1, length, dtype=torch.long)
        # Watched, attention runs spelled out: the counter does not see into the fused kernel.
        with FlopCounterMode(display=False) as counter:
            model(tokens, trace=Recorder())
    found = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    block = "Transformer.blocks.0"
    projections = found[f"{block}.attention.qkv"] + found[f"{block}.attention.out"]
    of_a_block = {
        "projections": projections,
        "products": found[f"{block}.attention"] - projections,
        "feed-forward": found[f"{block}.ffn"],
    }
    all_blocks = {name: config.n_layers * count for name, count in of_a_block.items()}
    return all_blocks | {"unembedding": found["Transformer.unembed"]}


# --- position by position -------------------------------------------------------------------

WIDTH, HEADS = 64, 4
ORDERS: dict[str, Callable[[int], list[int]]] = {
    "reversed": lambda n: list(range(n))[::-1],
    "moved by one": lambda n: [n - 1, *range(n - 1)],
    "shuffled": lambda n: torch.randperm(n, generator=torch.Generator().manual_seed(1)).tolist(),
}


@dataclass(frozen=True)
class Mixing:
    """What a sub-layer lets through from one position to another."""

    influence: np.ndarray  # [output, token]: how far each output moves when one token changes
    permuted: float  # largest difference of f(permuted tokens) and permuted f(tokens)

    @property
    def moved(self) -> np.ndarray:
        """[output, token]: whether that output moves at all."""
        return self.influence > 0


@lru_cache(maxsize=32)
@torch.no_grad()
def mixing(length: int, order: str) -> dict[str, Mixing]:
    """The real sub-layers, untrained and without positions, on random tokens."""
    drawn = torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 1, length, WIDTH, generator=drawn)
    return {name: _mixing(f, x, other, ORDERS[order](length)) for name, f in sublayers(length)}


def sublayers(length: int) -> list[tuple[str, Callable[[Tensor], Tensor]]]:
    """The two sub-layers of a block, attention with and without a mask."""
    config = ModelConfig(d_model=WIDTH, n_heads=HEADS, max_len=length)
    block = nn.ModuleDict(
        {"attention": SelfAttention(config, Position()), "ffn": FeedForward(config)}
    )
    initialise(block, config, 0)
    biases = {mask: mask_bias(mask, length) for mask in ("none", "causal")}
    return [
        ("feed-forward", block["ffn"]),
        ("attention, no mask", lambda x: block["attention"](x, biases["none"])),
        ("attention, causal mask", lambda x: block["attention"](x, biases["causal"])),
    ]


def _mixing(
    f: Callable[[Tensor], Tensor],
    x: Float[Tensor, "1 length d_model"],
    other: Float[Tensor, "1 length d_model"],
    order: list[int],
) -> Mixing:
    usual = f(x)
    columns = []
    for i in range(x.shape[1]):
        changed = x.clone()
        changed[:, i] = other[:, i]
        columns.append((f(changed) - usual)[0].norm(dim=-1))
    permuted = (f(x[:, order]) - usual[:, order]).abs().max().item()
    return Mixing(torch.stack(columns, dim=1).numpy(), permuted)


# --- the activation -------------------------------------------------------------------------


@dataclass(frozen=True)
class Hidden:
    """The hidden activations of all feed-forwards of a model, on real examples."""

    values: np.ndarray  # [n]
    zero: float  # share that is exactly 0
    negative: float  # share below 0
    least: float
    dead: float  # share of the units that are not above 0 for any token


@lru_cache(maxsize=16)
@torch.no_grad()
def hidden(activation: str, init: str) -> Hidden:
    """What the default model, untrained, has between the two matrices of its feed-forwards."""
    task = TASKS["reverse"]()
    model = build_model(ModelConfig.for_task(task, activation=activation, init=init))
    trace = Recorder()
    model(*task.validation("decoder", ROWS).inputs, trace=trace)
    layers = [tensor for name, tensor in trace.seen.items() if name.endswith("ffn.hidden")]
    units = torch.cat([layer.flatten(0, 1) for layer in layers], dim=1)  # [token, unit]
    return Hidden(
        values=units.flatten().numpy(),
        zero=(units == 0).float().mean().item(),
        negative=(units < 0).float().mean().item(),
        least=units.min().item(),
        dead=(units <= 0).all(0).float().mean().item(),
    )


@torch.no_grad()
def curve(activation: str, x: np.ndarray) -> np.ndarray:
    """The activation itself."""
    return ACTIVATIONS[activation]()(torch.as_tensor(x)).numpy()
