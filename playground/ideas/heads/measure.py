"""Heads: how one width is split among several lookups, what each looks at, and what it is worth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from core.config import ModelConfig, TrainConfig
from core.tasks import Task
from core.tasks.question import SEPARATOR
from core.trace import Edit, Recorder
from core.train import Trainer
from playground.runs.snapshot import Frame, Level, take_frame

ROWS = 64  # validation rows on which a head is switched off: those of a run's frames
# From these shares of the way between uniform attention and all of the weight, a head has a job.
MOSTLY, PARTLY = 0.4, 0.2
NO_PATTERN = "no clear pattern"

Weights = Float[np.ndarray, "heads query key"]
Cells = Bool[np.ndarray, "query key"]


# --- one width, split -----------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """How the first attention of an untrained model makes one token's queries."""

    w_q: np.ndarray  # float32 [d_model, d_model]: all heads' W_q
    x: np.ndarray  # float32 [d_model]: what the token's vector is
    q: np.ndarray  # float32 [heads, d_head]: one query for each head
    d_head: int
    token: str  # whose query it is


@lru_cache(maxsize=8)
def untrained(config: ModelConfig, task: Task) -> Trainer:
    """A trainer that has not made a step."""
    return Trainer(config, task, TrainConfig())


@lru_cache(maxsize=64)
def split(config: ModelConfig, task: Task) -> Split:
    """W_q x = q in the first block, for the last token of the task's example."""
    trainer = untrained(config, task)
    tokens = task.probe(config.form).inputs[-1]
    seen = trainer.look(tokens, only=("embed", "q"))
    packed = trainer.model.blocks[0].attention.qkv.weight.detach().cpu()
    return Split(
        w_q=packed[: config.d_model].numpy(),
        x=seen["embed"][0, -1].numpy(),
        q=seen["blocks.0.attention.q"][0, :, -1].numpy(),
        d_head=config.d_head,
        token=task.decode(tokens[0, -1:])[0],
    )


def rows_of(head: int, d_head: int) -> slice:
    """The rows of W_q that are one head's own W_q; the first head is 0."""
    return slice(head * d_head, (head + 1) * d_head)


@lru_cache(maxsize=64)
def first_look(config: ModelConfig, task: Task) -> Frame:
    """What the heads look at before training."""
    probe = task.probe(config.form)
    return take_frame(untrained(config, task), probe, level=Level.PROBE)


# --- how much the heads of a block differ ---------------------------------------------------


def divergence(weights: Weights, seen: Cells) -> float:
    """How differently the heads of one block look: mean Jensen–Shannon divergence, in nats.

    The mean over all pairs of heads and all queries with a choice: 0 where all heads look alike,
    ln 2 where no two heads look at the same key. NaN for one head, which has no other.

    Args:
        weights: [heads, query, key]; each row is positive and sums to 1.
        seen: [query, key], what the mask leaves visible.
    """
    rows = np.asarray(weights, dtype=np.float64)[:, seen.sum(-1) > 1]
    heads = len(rows)
    if heads < 2 or not rows.shape[1]:
        return math.nan
    own = _entropy(rows)
    pairs = [
        _entropy((rows[i] + rows[j]) / 2) - (own[i] + own[j]) / 2
        for i in range(heads)
        for j in range(i)
    ]
    return float(np.mean(pairs))


def _entropy(rows: np.ndarray) -> np.ndarray:
    return -(rows * np.log(np.where(rows > 0, rows, 1))).sum(-1)


def diversity(frame: Frame) -> list[float]:
    """The divergence of each block's heads, as a share of its maximum ln 2."""
    return [
        divergence(attention.stages["weights"], ~attention.hidden) / math.log(2)
        for attention in frame.attention.values()
    ]


# --- what a head looks at -------------------------------------------------------------------


def job_cells(tokens: Sequence[str], answers: Mapping[int, str]) -> dict[str, Cells]:
    """Job -> the cells [query, key] that a head with this job would look at.

    Args:
        tokens: the sequence that is read.
        answers: position -> the token that is right as its answer, where one is asked.
    """
    n = len(tokens)
    query, key = np.arange(n)[:, None], np.arange(n)[None, :]
    is_same = np.array([[a == b for b in tokens] for a in tokens])
    after = np.zeros((n, n), dtype=bool)
    after[:, 1:] = (is_same & (query != key))[:, :-1]
    other = query != key
    separator = np.array([token == SEPARATOR for token in tokens])
    is_answer = np.array([[answers.get(i) == token for token in tokens] for i in range(n)])
    return {
        "itself": query == key,
        "the token before": key == query - 1,
        # Where it is also the token before, the two jobs cannot be told apart.
        "the first token": (key == 0) & (key < query - 1),
        "the separator": separator[None, :] & (key < query - 1),
        "the same symbol": is_same & other,
        "what followed the same symbol": after & other,
        "the symbol to answer": is_answer,
    }


@dataclass(frozen=True)
class Jobs:
    """How much of its attention each head of a block gives to each job."""

    names: tuple[str, ...]  # of the jobs that occur, and differ, in this example
    measured: np.ndarray  # float64 [heads, jobs]: mean weight
    uniform: np.ndarray  # float64 [jobs]: what uniform attention over visible keys would give

    def best(self, head: int) -> "Job":
        """A head's clearest job."""
        share = (self.measured[head] - self.uniform) / np.maximum(1 - self.uniform, 1e-9)
        job = int(share.argmax())
        return Job(self.names[job], float(self.measured[head, job]), float(share[job]))


@dataclass(frozen=True)
class Job:
    """What a head looks at most clearly."""

    name: str
    weight: float  # on the keys of this job
    share: float  # of the way between uniform attention and all of the weight

    @property
    def grade(self) -> str:
        """How much of the head this job is: "mostly", "partly" or, where it is little, ""."""
        return "mostly" if self.share >= MOSTLY else "partly" if self.share >= PARTLY else ""

    def __str__(self) -> str:
        return f"{self.grade} {self.name}" if self.grade else NO_PATTERN


def jobs(weights: Weights, seen: Cells, tokens: Sequence[str], answers: Mapping[int, str]) -> Jobs:
    """Score every head for every job.

    A score is the weight on the cells of the job, as a mean over the queries that have such a
    visible key and another visible key besides. A job that no query has is left out, and so is
    one whose cells are those of a job before it.
    """
    weights = np.asarray(weights, dtype=np.float64)
    uniform = seen / np.maximum(seen.sum(-1, keepdims=True), 1)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    known: list[np.ndarray] = []
    for name, cells in job_cells(tokens, answers).items():
        cells = cells & seen
        asked = cells.any(-1) & (seen & ~cells).any(-1)
        cells = cells & asked[:, None]
        if not asked.any() or any(np.array_equal(cells, other) for other in known):
            continue
        known.append(cells)
        found[name] = tuple(
            (rows * cells).sum(-1)[..., asked].mean(-1) for rows in (weights, uniform)
        )
    return Jobs(
        tuple(found),
        np.stack([look for look, _ in found.values()], axis=-1),
        np.array([share for _, share in found.values()]),
    )


def jobs_of(frame: Frame) -> list[Jobs]:
    """The jobs of each block's heads, on the example that a frame shows."""
    answers = {found.position: found.target for found in frame.predictions}
    return [
        jobs(attention.stages["weights"], ~attention.hidden, attention.key_tokens, answers)
        for attention in frame.attention.values()
    ]


# --- what a head is worth -------------------------------------------------------------------


@dataclass(frozen=True)
class Ablation:
    """The loss on validation rows, and how far it rises when a head is switched off."""

    step: int
    loss: float
    rise: np.ndarray  # float64 [blocks, heads]


def silence(head: int) -> Edit:
    """An edit of z that sets the output of one head to 0."""

    def edit(z: Float[Tensor, "batch heads length d_head"]) -> Tensor:
        z = z.clone()
        z[:, head] = 0
        return z

    return edit


def ablation(trainer: Trainer) -> Ablation:
    """Switch off each head in turn: its output is replaced by zeros."""
    config = trainer.model_config
    batch = trainer.task.validation(config.form, ROWS)
    loss = trainer.evaluate(batch).loss

    def rise(block: int, head: int) -> float:
        without = Recorder({f"blocks.{block}.attention.z": silence(head)})
        return trainer.evaluate(batch, without).loss - loss

    rises = [[rise(i, j) for j in range(config.n_heads)] for i in range(config.n_layers)]
    return Ablation(trainer.step_count, loss, np.array(rises))
