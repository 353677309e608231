"""Writing: what a key-value cache saves, computed and timed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from core.cache import NO_CACHE, Cache, NoCache
from core.config import ModelConfig, TrainConfig
from core.model import Transformer, build_model
from core.tasks.text import Text
from playground.runs.spec import Spec

STEPS, RATE, SLOW_RATE = 400, 4e-3, 1e-3
LENGTHS = (16, 64, 128, 256, 512)  # at which the next token is timed
LEAST, SECONDS = 3, 0.15  # tokens timed at each length, and for how long


def spec(source: str) -> Spec:
    """What is trained here: it learns a text well on one core."""
    task = Text(source=source, length=64)
    model = ModelConfig.for_task(task, position="rotary", norm="pre")
    return Spec(model, task, TrainConfig(steps=STEPS, lr=RATE, schedule="cosine", warmup=20))


# --- the key-value cache --------------------------------------------------------------------


def operations(config: ModelConfig, length: int, new: int) -> int:
    """Multiplications and additions of the matrix products that read `new` of `length` tokens.

    The others come from the cache. Without one all tokens are new: `new` is `length`.
    """
    d, hidden = config.d_model, config.d_hidden
    projections = 4 * d * d
    feed_forward = (3 if config.gated else 2) * d * hidden * config.ffn  # a gate is a third matrix
    products = 2 * length * d  # q·k, and the mix of the values
    block = new * (projections + feed_forward + products)
    return 2 * (config.n_layers * block + new * d * config.vocab_size)


def kept_bytes(config: ModelConfig, length: int) -> int:
    """What the cache of one row holds: a key and a value for each token and block, in fp32."""
    return 4 * 2 * config.n_layers * length * config.d_model


@dataclass(frozen=True)
class Speed:
    """Tokens per second that a model writes at each length of the text, one row."""

    lengths: tuple[int, ...]
    cached: tuple[float, ...]
    whole: tuple[float, ...]  # without a cache: the text is read from the beginning


@torch.no_grad()
def speed(
    config: ModelConfig,
    lengths: Sequence[int] = LENGTHS,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Speed:
    """Time the next token of texts of these lengths, with and without a cache, in turn.

    In turn: whatever else the machine is doing slows both equally.
    """
    model = build_model(ModelConfig(**config.to_dict() | {"max_len": 2 * max(lengths)}))
    found: dict[str, list[float]] = {"cached": [], "whole": []}
    for length in lengths:
        text = torch.ones(1, length, dtype=torch.int64)
        cache = Cache()
        model(text[:, :-1], cache=cache)
        model(text), model(text[:, -1:], cache=cache)  # warm up
        times: dict[str, list[float]] = {"cached": [], "whole": []}
        end = clock() + seconds
        while len(times["whole"]) < LEAST or clock() < end:
            times["whole"].append(_timed(model, text, NO_CACHE, clock))
            times["cached"].append(_timed(model, text[:, -1:], cache, clock))
        for name, each in times.items():
            found[name].append(1 / float(np.median(each)))
    return Speed(tuple(lengths), tuple(found["cached"]), tuple(found["whole"]))


def _timed(
    model: Transformer, text: torch.Tensor, cache: NoCache, clock: Callable[[], float]
) -> float:
    start = clock()
    model(text, cache=cache)
    return max(clock() - start, 1e-9)
