"""The file of a checkpoint: how it is written, and what must be so before it is believed.

One zip file with two members: `tensors.safetensors` (weights, optimiser state, the state of the
batch generator) and `run.json` (configs, task, vocabulary, step, changes on the way). Nothing is
ever unpickled, unpacked or built before it is known to be as small as it says.
"""

import io
import json
import zipfile
from dataclasses import fields
from typing import Any, NamedTuple

import safetensors.torch
from torch import Tensor

from core.config import ModelConfig, TrainConfig
from core.knobs import check_value, quoted

FORMAT = 2
TENSORS, RUN = "tensors.safetensors", "run.json"
MAX_BYTES = 1 << 30
MAX_RUN_BYTES = 1 << 24
MAX_CHANGES = 10_000
# What each part of `run.json` is; `scaler` is what torch.amp.GradScaler says of itself.
PARTS = {
    "model": dict,
    "training": dict,
    "task": dict,
    "vocabulary": list,
    "step": int,
    "changes": list,
    "scaler": dict,
}
SCALER = {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}
WORDS = {int: "a whole number", dict: "fields in {…}", list: "a list […]", str: "a text"}


KNOBS = {item.name: item for config in (ModelConfig, TrainConfig) for item in fields(config)}


class Snapshot(NamedTuple):
    """A trainer between two steps: tensors by name, and everything else as plain JSON values."""

    tensors: dict[str, Tensor]
    run: dict[str, Any]


def to_bytes(saved: Snapshot) -> bytes:
    """The checkpoint as the bytes of a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(TENSORS), safetensors.torch.save(saved.tensors))
        archive.writestr(zipfile.ZipInfo(RUN), json.dumps(saved.run, indent=2, ensure_ascii=False))
    return buffer.getvalue()


def from_bytes(data: bytes) -> Snapshot:
    """Read a checkpoint; a file of any other kind is refused without being run or unpickled.

    Raises:
        ValueError: it is not a whole checkpoint of this program; says what is wrong.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if missing := {RUN, TENSORS} - set(archive.namelist()):
                raise ValueError(f"this zip file holds no {' and no '.join(sorted(missing))}")
            run = json.loads(_member(archive, RUN, MAX_RUN_BYTES))
            tensors = safetensors.torch.load(_member(archive, TENSORS, MAX_BYTES))
        check_run(run)
    except Exception as error:  # a damaged zip raises a dozen kinds
        raise ValueError(f"not a usable checkpoint: {error}") from error
    return Snapshot(tensors, run)


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A member, which lies in the file as it is: nothing grows while it is read."""
    if archive.namelist().count(name) > 1:
        raise ValueError(f"{name} is in it more than once")
    about = archive.getinfo(name)
    if about.file_size > most:
        raise ValueError(f"{name} has {about.file_size:,} bytes, at most {most:,} are taken")
    if about.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed: a checkpoint holds it as it is")
    return archive.read(name)


# --- what is in run.json ----------------------------------------------------------------------


def check_run(run: Any) -> None:
    """Refuse, by name, what no checkpoint can say; whether it fits the task, loading it tells.

    Raises:
        ValueError: names the field, the value and the rule.
    """
    if not isinstance(run, dict):
        raise ValueError(f"{RUN} holds no object")
    if (found := run.get("format")) not in (1, FORMAT):
        raise ValueError(f"format {quoted(found)}: this version reads formats 1 and {FORMAT}")
    for name, kind in PARTS.items():
        if name not in run:
            raise ValueError(f"{name} is missing")
        _check_kind(name, run[name], kind)
    most = KNOBS["steps"].metadata["high"]
    if not 0 <= run["step"] <= most:
        raise ValueError(f"step={quoted(run['step'])}: must be from 0 to {most}")
    _check_kind("skipped", skipped := run.get("skipped", 0), int)  # older files do not say
    if not 0 <= skipped <= run["step"]:
        raise ValueError(f"skipped={quoted(skipped)}: must be from 0 to step={run['step']}")
    for config, part in ((ModelConfig, "model"), (TrainConfig, "training")):
        config.from_dict(run[part])
    check_changes(run["changes"], run["step"])
    _check_scaler(run["scaler"])


def _check_kind(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name}={quoted(value)}: expected {WORDS[kind]}")


def check_changes(changes: Any, done: int) -> None:
    """Refuse what is no list of [step, hot knob, legal value], of steps that were made.

    Raises:
        ValueError: names the part, the value and the rule.
    """
    _check_kind("changes", changes, list)
    if len(changes) > MAX_CHANGES:
        raise ValueError(f"changes: {len(changes):,} of them, at most {MAX_CHANGES:,} are taken")
    before, hot = 0, {*ModelConfig.hot(), *TrainConfig.hot()}
    for change in changes:
        if not isinstance(change, list) or len(change) != 3:
            raise ValueError(f"changes: {quoted(change)}: expected [step, field, value]")
        step, name, value = change
        _check_kind("changes: step", step, int)
        _check_kind("changes: field", name, str)
        if not before <= step <= done:
            raise ValueError(f"changes: step={quoted(step)}: must be from {before} to {done}")
        if name not in hot:
            raise ValueError(f"changes: {quoted(name)} cannot change while a run goes on")
        check_value(KNOBS[name], value)
        before = step


def _check_scaler(scaler: dict) -> None:
    """Empty where the precision needs none."""
    if scaler and scaler.keys() != SCALER:
        raise ValueError(f"scaler={quoted(scaler)}: expected {', '.join(sorted(SCALER))}")
    for name, value in scaler.items():
        lowest = 0 if name == "_growth_tracker" else 1e-30
        if type(value) not in (int, float) or not lowest <= value <= 1e30:
            raise ValueError(f"scaler: {name}={quoted(value)}: expected a number from {lowest}")
