"""Filling gaps: what a model answers at each of them, where it looks, and what could be known."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float

from core.config import ModelConfig, TrainConfig
from core.masks import reachable
from core.model import Transformer
from core.optimize import cross_entropy
from core.tasks import IGNORED
from core.tasks.gaps import Gaps
from core.trace import Recorder
from playground.runs.spec import Spec

GUESSES = 3  # that are shown at each gap
SENTENCES = {  # and where they have gaps at first
    "grammar": ("the cats that the dog sees chase a bird.", (7, 23, 30)),
    "docs": ("The value of the expression is the object itself.", (6, 21, 36)),
}
STEPS = 500
MOST = 62  # characters of a sentence


def spec(source: str, mask: str = "auto") -> Spec:
    """What is trained here: it learns to fill gaps on one core."""
    task = Gaps(source=source)
    model = ModelConfig.for_task(task, position="rotary", norm="pre", mask=mask)
    training = TrainConfig(steps=STEPS, batch_size=32, lr=3e-3, schedule="cosine", warmup=10)
    return Spec(model, task, training)


@dataclass(frozen=True)
class Filled:
    """What is answered at each gap of a sentence."""

    guesses: tuple[tuple[tuple[str, float], ...], ...]  # at each gap the likeliest, and how likely
    right: tuple[float, ...]  # probability of the character that stood there

    def best(self, gap: int) -> str:
        return self.guesses[gap][0][0]


@dataclass(frozen=True)
class Answers(Filled):
    """What a model answers, and where it looks."""

    weights: np.ndarray  # float32 [block, head, query, key], over the characters of the sentence


def read(task: Gaps, sentence: str, gaps: Collection[int]) -> torch.Tensor:
    """The ids [1, length] that a model reads: a newline, as before any sentence, then the sentence.

    Args:
        gaps: the places that are hidden, counted from 0.
    """
    ids = task.encode("\n" + sentence)
    return torch.tensor([[task.mask_id if i - 1 in gaps else t for i, t in enumerate(ids)]])


@torch.no_grad()
def answer(model: Transformer, task: Gaps, sentence: str, gaps: Sequence[int]) -> Answers:
    """Let a model fill the gaps, and look at where it looked."""
    trace = Recorder()
    logits = model(read(task, sentence, gaps), trace)[0, 1:].float()
    logits[:, [0, task.mask_id]] = -torch.inf  # neither is a character
    chances = logits.softmax(-1)
    weights = [w[0, :, 1:, 1:] for name, w in trace.seen.items() if name.endswith(".weights")]
    return Answers(*_filled(task, chances, sentence, gaps), torch.stack(weights).numpy())


def known(task: Gaps, sentence: str, gaps: Sequence[int], model: ModelConfig) -> Filled | None:
    """What can be known of each gap at all, by Bayes' rule; None where nobody knows it.

    Every probability of the grammar is known, so this is the best that any model can answer there.
    """
    tokens = read(task, sentence, gaps)
    chances = task.beliefs(tokens, reachable(model, tokens.shape[1]))
    if chances is None or chances.isnan().any():
        return None  # no sentence of the grammar
    return Filled(*_filled(task, chances[0, 1:], sentence, gaps))


def _filled(
    task: Gaps, chances: Float[torch.Tensor, "length vocab"], sentence: str, gaps: Sequence[int]
) -> tuple[tuple, tuple]:
    right = task.encode(sentence)
    best = chances.topk(GUESSES)
    guesses = tuple(
        tuple(zip(task.decode(best.indices[i]), best.values[i].tolist(), strict=True)) for i in gaps
    )
    return guesses, tuple(chances[i, right[i]].item() for i in gaps)


@dataclass(frozen=True)
class Worth:
    """How good a model is on the validation set: at its gaps, and at what it can read."""

    loss: float
    accuracy: float
    read: float  # share of the characters that are asked for nowhere, and answered with themselves


@lru_cache(maxsize=8)
@torch.no_grad()
def worth(model: Transformer, task: Gaps) -> Worth:
    """Measured on the fixed validation set."""
    (tokens,), targets = task.validation("encoder")
    logits = model(tokens)
    answers, scored = logits.argmax(-1), targets != IGNORED
    return Worth(
        cross_entropy(logits, targets).item(),
        (answers == targets)[scored].float().mean().item(),
        (answers == tokens)[~scored].float().mean().item(),
    )


@lru_cache(maxsize=4)
def best_accuracy(task: Gaps, model: ModelConfig) -> float | None:
    """Share of the gaps that the best possible answers fill rightly; None where nobody knows it."""
    (tokens,), targets = task.validation(model.form)
    chances = task.beliefs(tokens, reachable(model, task.length))
    if chances is None:
        return None
    scored = targets != IGNORED
    return (chances.argmax(-1) == targets)[scored].double().mean().item()
