"""Frames: what a page shows of a model at one step, as plain numbers and strings.

Torch goes in, numpy comes out. Works for an untrained model just as well, so a page can answer
before anything is trained.
"""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from core.forms import USUAL_MASK
from core.measure import (
    entropy_share,
    free_running_accuracy,
    future_influence,
    largest_weight,
    read_mask,
    score_spread,
    share_shut,
    spread_at_start,
)
from core.tasks import IGNORED, VALIDATION_SIZE, Batch
from core.tasks.question import QuestionTask
from core.train import Trainer
from playground.runs.spec import floor_of
from playground.runs.writing import Rules, Written, write

STAGES = ("scores", "scaled", "masked", "weights")
MAX_PROBE = 128  # positions of the probe that are looked at: maps grow with its square
TOP = 5
VALIDATION_ROWS = 64
VALIDATION_TOKENS = 16_384
LEAK_ROWS = 2
FREE_RUNNING_ROWS = 32
FREE_RUNNING_FLOPS = 2e10  # about half a second on one core
SAMPLE_CHARACTERS = 120
SAMPLE_SECONDS = 0.5
TEMPERATURE, SAMPLE_SEED = 0.8, 0

MAX_FRAME_BYTES = 16 * 2**20  # of one run


@dataclass(frozen=True)
class Attention:
    """One attention module on the probe."""

    name: str  # "blocks.0.attention", "encoder.blocks.0.attention", "blocks.0.cross"
    stages: dict[str, np.ndarray]  # each of STAGES: float32 [heads, query, key]
    hidden: np.ndarray  # bool [query, key]: cells the mask hides, from every head
    query_tokens: list[str]
    key_tokens: list[str]
    entropy: list[float]  # per head, as a share of its maximum
    largest: list[float]  # per head, mean of each row's largest weight
    spread: float  # standard deviation of the visible scaled scores
    theory: float | None  # the spread of this model before training; None: no simple rule
    shut: float = math.nan  # share of the rows whose softmax hardly passes a gradient


def layer_title(name: str) -> str:
    """`blocks.0.attention` -> `block 1`, `encoder.blocks.0.attention` -> `encoder 1`."""
    *stack, _, index, kind = name.split(".")
    word = "cross" if kind == "cross" else stack[0] if stack else "block"
    return f"{word} {int(index) + 1}"


def layer_word(name: str) -> str:
    """`blocks.0` -> `block 1`; `embed` and `unembed` stay."""
    stack, _, index = name.rpartition("blocks.")
    return f"{stack.rstrip('.') or 'block'} {int(index) + 1}" if index.isdigit() else name


@dataclass(frozen=True)
class Prediction:
    """One scored position of the probe."""

    position: int
    shown: str  # the token that the model reads there
    target: str
    tokens: list[str]  # the likeliest ones, best first
    probabilities: list[float]
    right: bool


@dataclass(frozen=True)
class Frame:
    """A model at one step. What costs more than the probe may be of an earlier one."""

    step: int
    attention: dict[str, Attention]  # in the order of computation
    predictions: list[Prediction]

    measured_at: int = -1  # the step that the next three are from
    loss: float = math.nan  # on the validation set, nats per scored token
    accuracy: float = math.nan
    future_influence: float | None = None  # how far a later token moves a logit; None: an encoder

    free_running: float | None = None  # accuracy without seeing the answer; None for text
    teacher_forced: float | None = None  # `accuracy` when `free_running` was measured
    sample: Written | None = None  # for text: what the model writes
    written_at: int = -1  # the step that the last three are from

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(
            attention.hidden.nbytes + sum(array.nbytes for array in attention.stages.values())
            for attention in self.attention.values()
        )

    @property
    def finite(self) -> bool:
        """Whether the model still answers in finite numbers."""
        answers = (value for found in self.predictions for value in found.probabilities)
        return all(map(math.isfinite, (self.loss, *answers)))


class Level(IntEnum):
    """How much of a frame is new: each level includes those before it."""

    PROBE = 0  # attention and predictions on the probe
    VALIDATION = 1  # the validation set, and how far later tokens reach
    GENERATION = 2  # the free-running accuracy, or for text a sample


def take_frame(
    trainer: Trainer,
    probe: Batch,
    previous: Frame | None = None,
    level: Level = Level.VALIDATION,
    interrupted: Callable[[], bool] = lambda: False,
    charged: Callable[[Level], AbstractContextManager] = nullcontext,
) -> Frame:
    """Look at a model; its training is not disturbed.

    Args:
        probe: row 0 is shown, its first `MAX_PROBE` positions at most.
        previous: an earlier frame of the run, whose costly numbers are carried on.
        interrupted: asked while a sample is written; once it says True, the sample ends there.
        charged: what to measure is done inside `charged(level)`.
    """
    with charged(Level.PROBE):
        frame = _read_probe(trainer, probe, previous)
    if level >= Level.VALIDATION:
        with charged(Level.VALIDATION):
            frame = _evaluate(trainer, frame)
    if level >= Level.GENERATION:
        with charged(Level.GENERATION):
            frame = _generate(trainer, frame, interrupted)
    return frame


def _read_probe(trainer: Trainer, probe: Batch, previous: Frame | None) -> Frame:
    probe = _first_row(probe)
    seen = trainer.look(*probe.inputs, only=(*STAGES, "logits"))
    new = {
        "step": trainer.step_count,
        "attention": _attention(trainer, probe, seen),
        "predictions": _predictions(trainer, probe, seen["logits"][0]),
    }
    return replace(previous, **new) if previous else Frame(**new)


def _evaluate(trainer: Trainer, frame: Frame) -> Frame:
    validation = _validation(trainer)
    loss, accuracy = trainer.evaluate(validation)
    influence = _future_influence(trainer, validation)
    measured = {"loss": loss, "accuracy": accuracy, "future_influence": influence}
    return replace(frame, measured_at=frame.step, **measured)


def _generate(trainer: Trainer, frame: Frame, interrupted: Callable[[], bool]) -> Frame:
    """Add what the model writes to a frame that is measured at its current step."""
    if isinstance(trainer.task, QuestionTask):
        accuracy = _free_running(trainer, _validation(trainer))
        both = {"free_running": accuracy, "teacher_forced": frame.accuracy}
        return replace(frame, written_at=frame.step, **both)
    if _labels(trainer):
        return frame
    sample = _sample(trainer, interrupted)
    return replace(frame, written_at=frame.step, sample=sample) if sample.ids else frame


def _first_row(batch: Batch) -> Batch:
    inputs = tuple(tokens[:1, :MAX_PROBE] for tokens in batch.inputs)
    return Batch(inputs, batch.targets[:1, :MAX_PROBE])


_validations: WeakKeyDictionary[Trainer, Batch] = WeakKeyDictionary()


def validation_rows(length: int) -> int:
    """On how many rows of this length a run is measured while it trains."""
    return min(VALIDATION_ROWS, max(1, VALIDATION_TOKENS // length))


def _validation(trainer: Trainer) -> Batch:
    """The validation rows of a run: the same ones in all of its frames."""
    if trainer not in _validations:
        form, task = trainer.model_config.form, trainer.task
        rows = validation_rows(task.max_len(form))
        if floor_of(task, trainer.model_config):  # a floor holds for the whole set only
            rows = VALIDATION_SIZE
        _validations[trainer] = task.validation(form, rows)
    return _validations[trainer]


def evaluation_cost(trainer: Trainer) -> float:
    """What evaluating costs, in training steps: rows forward only, against a batch both ways."""
    return len(_validation(trainer).targets) / (3 * trainer.config.batch_size)


def _attention(trainer: Trainer, probe: Batch, seen: dict[str, Tensor]) -> dict[str, Attention]:
    config = trainer.model_config
    first, last = (trainer.task.names(probe.inputs[i][0]) for i in (0, -1))
    maps = {}
    for name in (path.removesuffix(".weights") for path in seen if path.endswith(".weights")):
        stages = {stage: seen[f"{name}.{stage}"] for stage in STAGES}
        allowed = read_mask(stages["masked"])
        maps[name] = Attention(
            name,
            {stage: tensor[0].numpy() for stage, tensor in stages.items()},
            ~allowed[0, 0].numpy(),
            query_tokens=first if name.startswith("encoder.") else last,
            key_tokens=first if name.startswith("encoder.") or name.endswith(".cross") else last,
            entropy=entropy_share(stages["weights"], allowed).tolist(),
            largest=largest_weight(stages["weights"], allowed).tolist(),
            spread=score_spread(stages["scaled"], allowed),
            theory=spread_at_start(config, name),
            shut=share_shut(stages["weights"], allowed),
        )
    return maps


def _predictions(trainer: Trainer, probe: Batch, logits: Tensor) -> list[Prediction]:
    """The likeliest tokens at each scored position, from logits [length, vocab]."""
    decode = trainer.task.decode
    best = logits.softmax(-1).topk(min(TOP, logits.shape[-1]))
    ids, probabilities = best.indices.tolist(), best.values.tolist()
    names, targets = trainer.task.names(probe.inputs[-1][0]), probe.targets[0].tolist()
    return [
        Prediction(
            position,
            names[position],
            *decode([target]),
            decode(ids[position]),
            probabilities[position],
            ids[position][0] == target,
        )
        for position, target in enumerate(targets)
        if target != IGNORED
    ]


def _rows(trainer: Trainer, batch: Batch, rows: int) -> Batch:
    device = trainer.device.name
    inputs = tuple(tokens[:rows].to(device) for tokens in batch.inputs)
    return Batch(inputs, batch.targets[:rows].to(device))


def _labels(trainer: Trainer) -> bool:
    """Whether the model says what is there, and writes nothing that it could read."""
    return USUAL_MASK[trainer.model_config.form] == "none"


def _future_influence(trainer: Trainer, validation: Batch) -> float | None:
    if _labels(trainer):
        return None  # the answer is not among its inputs: seeing all of them is no leak
    return future_influence(trainer.model, _rows(trainer, validation, LEAK_ROWS).inputs)


def _free_running(trainer: Trainer, validation: Batch) -> float | None:
    config = trainer.model_config
    if _labels(trainer):
        return None  # it answers all positions at once
    tokens_a_row = sum(tokens.shape[1] for tokens in validation.inputs) * trainer.task.answer_len
    affordable = int(FREE_RUNNING_FLOPS / (2 * config.n_parameters * tokens_a_row))
    rows = min(FREE_RUNNING_ROWS, affordable)
    return free_running_accuracy(trainer.model, _rows(trainer, validation, rows)) if rows else None


def _sample(trainer: Trainer, interrupted: Callable[[], bool]) -> Written:
    """What the model writes on its own: the same random numbers at every look."""
    prompt = trainer.task.prompt(trainer.model_config.form)
    prompt = prompt._replace(n_new=min(prompt.n_new, SAMPLE_CHARACTERS))
    end = time.monotonic() + SAMPLE_SECONDS

    def enough() -> bool:
        return interrupted() or time.monotonic() > end

    rules = Rules(TEMPERATURE, seed=SAMPLE_SEED)
    return write(trainer.model, trainer.task, prompt, rules, interrupted=enough)
