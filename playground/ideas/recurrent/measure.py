"""Against a recurrent net: gradients over a distance, time against length, longer rows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from core.cache import Cache, NoCache
from core.config import ModelConfig, TrainConfig
from core.measure import teacher_forced
from core.model import Model, build_model
from core.optimize import cross_entropy
from core.tasks import TASKS, Task
from core.tasks.distance import Distance
from core.trace import Recorder
from core.train import Trainer
from playground.runs.spec import Spec

NAMES = {"decoder": "transformer", "gru": "GRU", "lstm": "LSTM"}
TASKS_HERE: dict[str, Task] = {
    "one distance": TASKS["distance"](distance=32),
    "mixed distances": TASKS["distance"](distance=32, mixed=True),
    "look-up": TASKS["recall"](length=6),
    "reversal": TASKS["reverse"](),
}
DISTANCES = (1, 2, 4, 8, 16, 32, 64)  # of the gradient
FURTHER = (8, 16, 32, 64, 128)  # at which a trained model is tried
LENGTHS = (16, 64, 256)  # of what is timed
ROWS, LEAST, SECONDS = 8, 3, 0.04  # a batch that is timed, how often, and for how long
WIDTH, BLOCKS = 64, 2


def width_of(architecture: str, like: ModelConfig) -> int:
    """The d_model at which a recurrent net has as many parameters as a transformer, nearly."""

    def away(width: int) -> int:
        sizes = {"architecture": architecture, "d_model": width, "n_heads": 1}
        return abs(replace(like, **sizes).n_parameters - like.n_parameters)

    return min(range(2, 4 * like.d_model, 2), key=away)


@lru_cache(maxsize=32)
def specs(task: Task, n_layers: int = BLOCKS) -> dict[str, Spec]:
    """A transformer, a GRU and an LSTM for a task, of about the same number of parameters."""
    switches = {"d_model": WIDTH, "n_layers": n_layers, "position": "rotary", "norm": "pre"}
    model = ModelConfig.for_task(task, **switches)
    training = TrainConfig(steps=300, lr=3e-3, batch_size=32 if task.name == "distance" else 64)
    found = {"decoder": Spec(model, task, training)}
    for architecture in ("gru", "lstm"):
        sizes = {"d_model": width_of(architecture, model), "n_heads": 1}
        found[architecture] = Spec(
            replace(model, architecture=architecture, **sizes), task, training
        )
    return found


# --- how far a gradient reaches -------------------------------------------------------------


def gradient(model: Model, task: Distance, rows: int = 32) -> float:
    """How strongly the loss of the answer pulls at the value, `task.distance` letters before it.

    The length of the gradient with respect to the value's vector, as the first block reads it:
    the mean over the rows, of each row's own loss.
    """
    batch = task.validation("decoder", rows)
    vectors: list[torch.Tensor] = []

    def watched(x: torch.Tensor) -> torch.Tensor:
        vectors.append(x.detach().requires_grad_())
        return vectors[0]

    loss = cross_entropy(model(*batch.inputs, Recorder({"embed": watched})), batch.targets)
    (found,) = torch.autograd.grad(rows * loss, vectors)  # [rows, length, d_model]
    return found[:, 0].norm(dim=-1).mean().item()


@lru_cache(maxsize=32)
def gradients(n_layers: int, seed: int = 0) -> dict[str, list[float]]:
    """At each of DISTANCES, of the models before their first step: architecture -> lengths."""
    chosen = specs(TASKS["distance"](distance=max(DISTANCES)), n_layers)
    models = {name: build_model(spec.model, seed) for name, spec in chosen.items()}
    tasks = [Distance(distance=distance) for distance in DISTANCES]
    return {name: [gradient(model, task) for task in tasks] for name, model in models.items()}


# --- longer rows than those of the training -------------------------------------------------


def further(trainer: Trainer) -> list[float]:
    """Share of right answers at each of FURTHER: rows of one distance, most of them unseen."""
    config = replace(trainer.model_config, max_len=max(FURTHER) + 2)
    longer = build_model(config)
    with torch.no_grad():
        for mine, learnt in zip(longer.parameters(), trainer.model.parameters(), strict=True):
            mine.copy_(learnt)
    symbols = trainer.task.symbols
    tasks = (Distance(symbols=symbols, distance=distance) for distance in FURTHER)
    return [teacher_forced(longer, task.validation("decoder")).exact for task in tasks]


# --- time -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """Milliseconds at each length; tokens a second when writing one row."""

    lengths: tuple[int, ...]
    forward: dict[str, list[float]]
    both: dict[str, list[float]]  # forward and backward
    written: dict[str, list[float]]  # tokens a second, with what was read kept in a cache


def timed(
    task: Task,
    device: str,
    n_layers: int = BLOCKS,
    lengths: Sequence[int] = LENGTHS,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Timed:
    """Time all models at these lengths, on this device, the models in turn."""
    long = {"max_len": 2 * max(lengths)}
    configs = {name: replace(s.model, **long) for name, s in specs(task, n_layers).items()}
    models = {name: build_model(config).to(device) for name, config in configs.items()}
    found = {what: {name: [] for name in models} for what in ("forward", "both", "written")}
    for length in lengths:
        text = torch.ones(ROWS, length, dtype=torch.int64, device=device)
        for name, model in models.items():

            def ahead(model: Model = model, text: torch.Tensor = text) -> torch.Tensor:
                with torch.no_grad():
                    return model(text)

            def back(model: Model = model, text: torch.Tensor = text) -> None:
                model(text).sum().backward()

            cache = _read(model, text[:1])

            def write(model: Model = model, text: torch.Tensor = text, cache=cache) -> None:
                with torch.no_grad():
                    model(text[:1, :1], cache=cache)

            for what, act in (("forward", ahead), ("both", back), ("written", write)):
                found[what][name].append(_median(act, device, seconds, clock))
    thousand = {w: {n: [1e3 * s for s in each] for n, each in found[w].items()} for w in found}
    each_second = {name: [1 / s for s in each] for name, each in found["written"].items()}
    return Timed(tuple(lengths), thousand["forward"], thousand["both"], each_second)


def _read(model: Model, text: torch.Tensor) -> NoCache:
    cache = Cache()
    with torch.no_grad():
        model(text, cache=cache)
    return cache


def _median(act: Callable[[], object], device: str, seconds: float, clock) -> float:
    act()  # warm up
    times: list[float] = []
    end = clock() + seconds
    while len(times) < LEAST or clock() < end:
        start = clock()
        act()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        times.append(max(clock() - start, 1e-9))
    return float(np.median(times))
