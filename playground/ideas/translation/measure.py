"""Encoder and decoder: an answer written token by token, and where each token looks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from core.config import ModelConfig, TrainConfig
from core.generate import generate
from core.measure import Accuracy, free_running, read_mask, teacher_forced
from core.model import Transformer
from core.tasks import PAD, TASKS
from core.tasks.translation import Translation
from core.trace import Recorder
from playground.runs.spec import Spec

ARCHITECTURE = "encoder-decoder"
GUESSES = 3  # that are shown for each token
ROWS = 128  # held-out questions on which the accuracies are measured

# What a model is made of and how it learns: quick on one core, or as in the paper (2017).
RECIPES: dict[str, tuple[dict, dict]] = {
    "quick": (
        {"position": "rotary", "norm": "pre"},
        {"steps": 500, "lr": 3e-3, "schedule": "cosine", "warmup": 50},
    ),
    "paper": (
        {"position": "sinusoidal", "norm": "post"},
        {"steps": 700, "lr": 3e-3, "schedule": "paper", "warmup": 100, "label_smoothing": 0.1},
    ),
}


def spec(task: str, recipe: str) -> Spec:
    """What is trained here: one block in each stack is enough."""
    model, training = RECIPES[recipe]
    learnt = TASKS[task]()
    config = ModelConfig.for_task(learnt, architecture=ARCHITECTURE, n_layers=1, **model)
    return Spec(config, learnt, TrainConfig(batch_size=64, **training))


# --- an answer ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Maps:
    """One kind of attention, of the last block."""

    weights: np.ndarray  # float32 [heads, query, key]
    hidden: np.ndarray  # bool [query, key]: what the mask hides


@dataclass(frozen=True)
class Decoded:
    """A question, the answer that a model has written to it, and where it looked."""

    source: list[str]  # what the encoder reads, padding included
    read: list[str]  # what the decoder reads at each step: the start, then its own answer
    written: list[str]  # what it writes there
    right: list[str]
    guesses: list[list[tuple[str, float]]]  # at each step, the likeliest tokens and how likely
    encoder: Maps
    decoder: Maps
    cross: Maps

    @property
    def length(self) -> int:
        """Tokens of the question, without padding."""
        return len(self.source) - self.source.count("·")


@torch.no_grad()
def decode(model: Transformer, task: Translation, text: str) -> Decoded:
    """Let a model answer greedily, and look at all of its steps.

    Raises:
        ValueError: `text` is no question of the task; the message says the rule.
    """
    prompt = task.prompt(ARCHITECTURE, text)
    source, start = prompt.inputs
    written = generate(model, prompt.inputs, prompt.n_new, end=prompt.end)
    # Nothing that comes later changes an earlier step, so one look shows them all.
    read, trace = torch.cat((start, written[:, :-1]), dim=1), Recorder()
    logits = model(source, read, trace)[0].float()
    logits[:, PAD] = -torch.inf  # as when it wrote
    best = logits.softmax(-1).topk(GUESSES)
    right = task.solve(source)[0]
    last = len(model.blocks) - 1
    return Decoded(
        task.decode(source),
        task.decode(read),
        task.decode(written),
        task.decode(right[right != PAD]),
        [
            list(zip(task.decode(ids), chances.tolist(), strict=True))
            for ids, chances in zip(best.indices, best.values, strict=True)
        ],
        *(
            _maps(trace.seen, f"{name.format(last)}")
            for name in ("encoder.blocks.{}.attention", "blocks.{}.attention", "blocks.{}.cross")
        ),
    )


def _maps(seen: dict[str, Tensor], name: str) -> Maps:
    allowed = read_mask(seen[f"{name}.masked"])[0, 0]
    return Maps(seen[f"{name}.weights"][0].numpy(), ~allowed.numpy())


# --- where it looks -------------------------------------------------------------------------


def parts_of(text: str) -> dict[str, list[int]]:
    """Which characters of a date are its day, its month and its year."""
    found = [(m.start(), m.group()) for m in re.finditer(r"[A-Za-z]+|\d+", text)]
    places = {start: list(range(start, start + len(word))) for start, word in found}
    words = [(s, w) for s, w in found if w not in ("the", "of", "st", "nd", "rd", "th")]
    spelled = [item for item in words if item[1].isalpha()]
    others = [item for item in words if item not in spelled]
    order = [others[0], *(spelled or [others[1]]), others[-1]]
    return dict(zip(("day", "month", "year"), (places[s] for s, _ in order), strict=True))


# Which steps of yyyy-mm-dd write which part. Of the year the last two digits: of the first two
# the question may say nothing.
STEPS_OF = {"year": (2, 3), "month": (5, 6), "day": (8, 9)}


@dataclass(frozen=True)
class Look:
    """How much of a head's weight lies on the part that is being written."""

    part: str  # day, month, year
    head: int  # the one that looks there most
    weight: float  # mean over the steps that write it
    uniform: float  # what uniform attention over the question would give


def looks(found: Decoded, text: str) -> list[Look]:
    """For each part of a date, the head that looks at it most while it is written."""
    cross, made = found.cross.weights, []
    for part, places in parts_of(text).items():
        steps = [i for i in STEPS_OF[part] if i < cross.shape[1]]
        if steps:
            weight = cross[:, steps][:, :, places].sum(-1).mean(-1)  # [heads]
            head = int(weight.argmax())
            made.append(Look(part, head, float(weight[head]), len(places) / found.length))
    return made


# --- how good it is -------------------------------------------------------------------------


@lru_cache(maxsize=8)
def accuracies(model: Transformer, task: Translation) -> tuple[Accuracy, Accuracy]:
    """On held-out questions: with the right answer so far, and on its own."""
    batch = task.validation(ARCHITECTURE, ROWS)
    return teacher_forced(model, batch), free_running(model, batch)


def heads_shown(weights: np.ndarray, head: int) -> np.ndarray:
    """The map of one head, counted from 1; 0 is the mean of all."""
    return weights.mean(0) if head == 0 else weights[head - 1]


def visible(tokens: Sequence[str]) -> str:
    """Tokens in a row, without the end and padding."""
    return "".join(token for token in tokens if token not in "■·")
