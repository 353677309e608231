"""A run as a file: the checkpoint of `core`, and what a page needs to resume it.

`core.checkpoint` reads these files too; it passes over what is added here: how the run began
(before any knob was turned), its example and its curve. A checkpoint without these, as the
command line writes it, can be resumed as well: its curve begins there.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from core import checkpoint
from core.device import Device
from core.train import Trainer
from playground.runs.limits import check_limits
from playground.runs.spec import DECISIVE, Spec, within
from playground.runs.view import Record

ADDED = "playground"
CURVE, VALIDATION = ("loss", "lr", "grad_norm"), ("step", "loss", "accuracy")


class SavedRun(NamedTuple):
    """A run that can be resumed."""

    spec: Spec  # as it is now
    began: Spec  # as it was before its knobs were turned
    trainer: Trainer
    record: Record


def save(trainer: Trainer, record: Record, began: Spec) -> bytes:
    """The run as the bytes of a checkpoint file.

    Raises:
        ValueError: a weight is not finite.
    """
    saved = checkpoint.snapshot(trainer)
    curve, validation = record.saved()
    saved.run[ADDED] = {
        "began": began.to_dict(),
        "curve": {name: _numbers(row) for name, row in zip(CURVE, curve.T, strict=True)},
        "validation": {
            name: _numbers(row) for name, row in zip(VALIDATION, validation.T, strict=True)
        },
    }
    return checkpoint.to_bytes(saved)


def load(data: bytes, device: Device | None = None, text: str | None = None) -> SavedRun:
    """Read a run's file.

    Args:
        text: the visitor's own text, which no checkpoint contains.

    Raises:
        ValueError: not a whole checkpoint, one of another version, without its text, or too large
            for this server; the message says what is wrong.
    """
    saved = checkpoint.from_bytes(data)
    added = saved.run.pop(ADDED, {})
    try:
        spec = Spec.from_dict({name: saved.run[name] for name in DECISIVE}, text)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a usable checkpoint: {checkpoint.in_words(error)}") from error
    check_limits(spec)  # before anything of its size is built
    trainer = checkpoint.restore(saved, device, text)
    record = Record(trainer.layers)
    record.changes = tuple(trainer.changes)
    try:
        # Once the example and the label stood beside "began".
        older = {name: added[name] for name in ("probe", "label") if name in added}
        values = spec.to_dict() | older | added.get("began", {})
        with within(ADDED):
            began = Spec.from_dict(values, text)
            now = began.replayed(trainer.changes)
        record.resume(*_curves(added, trainer.step_count))
    except (KeyError, TypeError, AttributeError) as error:
        why = checkpoint.in_words(error)
        raise ValueError(f"{ADDED}: not as the playground writes it: {why}") from error
    if "began" in added and spec.diff(now):
        raise ValueError(f"{ADDED}: its changes do not lead from how it began to how it is now")
    spec = replace(spec, probe=began.probe, label=began.label)
    return SavedRun(spec, began, trainer, record)


def _curves(added: dict[str, Any], done: int) -> tuple[np.ndarray, np.ndarray]:
    """[done, 3] and [evaluations, 3]; NaN where the file does not know."""
    if "curve" not in added:
        return np.full((done, len(CURVE)), np.float32("nan")), np.empty((0, len(VALIDATION)))
    curve = _columns("curve", added["curve"], CURVE)
    validation = _columns("validation", added["validation"], VALIDATION)
    if len(curve) != done:
        raise ValueError(f"{ADDED}: its curve has {len(curve)} steps, the checkpoint {done}")
    validation = validation[~np.isnan(validation).any(axis=1)]
    steps, _, accuracy = validation.T
    if (steps > done).any() or (steps % 1).any() or (np.diff(steps) < 0).any():
        raise ValueError(f"{ADDED}: validation is not at steps from 0 to {done}, one after another")
    if (accuracy > 1).any():
        raise ValueError(f"{ADDED}: validation has an accuracy above 1")
    return curve, validation


def _columns(where: str, rows: dict[str, list[float]], names: Sequence[str]) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            table = np.array([rows[name] for name in names], dtype=np.float32)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{ADDED}: {where} is not a table of numbers: {error}") from error
    if table.ndim != 2:
        raise ValueError(
            f"{ADDED}: {where} is not a table of numbers: it has {table.ndim} dimensions"
        )
    if (table < 0).any() or np.isinf(table).any():
        raise ValueError(f"{ADDED}: {where} holds a number below 0 or beyond all bounds")
    return table.T


def _numbers(row: np.ndarray) -> list[float | None]:
    """Each float32 with as many digits as it takes to read it back; null where there is none."""
    return [float(str(value)) if math.isfinite(value) else None for value in row]
