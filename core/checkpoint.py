"""Checkpoints: everything a run needs to go on bit for bit, and nothing that could run code.

One zip file with two members: `tensors.safetensors` (weights, optimiser state, the state of the
batch generator) and `run.json` (configs, task, vocabulary, step, learning-rate changes). Nothing
is ever unpickled. A file is written beside its place and then renamed, so an older checkpoint is
only replaced by a whole one.
"""

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from core.config import ModelConfig, TrainConfig
from core.device import Device
from core.tasks import task_from_dict
from core.train import Change, Trainer

FORMAT = 1
TENSORS, RUN = "tensors.safetensors", "run.json"
MAX_BYTES = 1 << 30


class Snapshot(NamedTuple):
    """A trainer at rest: tensors by name, and everything else as plain JSON values."""

    tensors: dict[str, Tensor]
    run: dict[str, Any]


def snapshot(trainer: Trainer) -> Snapshot:
    """Copy what the trainer needs to go on.

    Raises:
        ValueError: a weight is not finite; such a checkpoint would be of no use to anyone.
    """
    tensors = {"generator.batches": trainer.batches.get_state()}
    for name, parameter in trainer.model.named_parameters():
        if not parameter.isfinite().all():
            raise ValueError(f"{name} holds values that are not finite: nothing is saved")
        tensors[f"model.{name}"] = parameter.detach().cpu().clone()
        for key, value in trainer.optimizer.state[parameter].items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{name}.{key}"] = value.cpu().clone()
    run = {
        "format": FORMAT,
        "model": trainer.model_config.to_dict(),
        "training": trainer.config.to_dict(),
        "task": trainer.task.to_dict(),
        "vocabulary": list(trainer.task.vocabulary),
        "step": trainer.step_count,
        "changes": [list(change) for change in trainer.changes],
        "scaler": trainer.scaler.state_dict(),
        "threads": torch.get_num_threads(),
    }
    return Snapshot(tensors, run)


def restore(saved: Snapshot, device: Device | None = None, text: str | None = None) -> Trainer:
    """A trainer that goes on where the snapshot was taken.

    Args:
        text: the text of a run on a text of one's own, which no checkpoint contains.

    Raises:
        ValueError: the snapshot does not hold together; the message says what is wrong.
    """
    run = saved.run
    if run.get("format") != FORMAT:
        raise ValueError(f"format {run.get('format')!r}: this version reads format {FORMAT}")
    try:
        task = task_from_dict(run["task"], text=text)
        trainer = Trainer(
            ModelConfig.from_dict(run["model"]),
            task,
            TrainConfig.from_dict(run["training"]),
            device,
        )
        if run["vocabulary"] != list(task.vocabulary):
            raise ValueError("its vocabulary is not the one that the task has now")
        _load(trainer, saved.tensors)
        trainer.step_count = int(run["step"])
        trainer.changes = [Change(*change) for change in run["changes"]]
        trainer.scaler.load_state_dict(run["scaler"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"not a usable checkpoint: {error}") from error
    return trainer


@torch.no_grad()
def _load(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
    """Copy into the existing parameters: tied ones stay tied, the optimiser keeps its objects."""
    left = dict(tensors)
    trainer.batches.set_state(left.pop("generator.batches"))
    for name, parameter in trainer.model.named_parameters():
        value = left.pop(f"model.{name}")
        if value.shape != parameter.shape:
            raise ValueError(
                f"model.{name} has shape {list(value.shape)}, the configuration needs "
                f"{list(parameter.shape)}"
            )
        parameter.copy_(value)
        prefix = f"optimizer.{name}."
        for key in [key for key in left if key.startswith(prefix)]:
            state = left.pop(key)
            trainer.optimizer.state[parameter][key.removeprefix(prefix)] = state.to(
                parameter.device
            )
    if left:
        raise ValueError(f"it holds tensors that this model does not have: {sorted(left)[:3]}")


def to_bytes(saved: Snapshot) -> bytes:
    """The checkpoint as the bytes of a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(TENSORS, safetensors.torch.save(saved.tensors))
        archive.writestr(RUN, json.dumps(saved.run, indent=2, ensure_ascii=False))
    return buffer.getvalue()


def from_bytes(data: bytes) -> Snapshot:
    """Read a checkpoint; a file of any other kind is refused without being run or unpickled.

    Raises:
        ValueError: it is not a whole checkpoint of this program.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(item.file_size for item in archive.infolist()) > MAX_BYTES:
                raise ValueError(f"not a usable checkpoint: more than {MAX_BYTES} bytes unpacked")
            run = json.loads(archive.read(RUN))
            tensors = safetensors.torch.load(archive.read(TENSORS))
    except (zipfile.BadZipFile, KeyError, SafetensorError, UnicodeDecodeError, EOFError) as error:
        raise ValueError(f"not a usable checkpoint: {error}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not a usable checkpoint: {RUN} is no JSON: {error}") from error
    if not isinstance(run, dict):
        raise ValueError(f"not a usable checkpoint: {RUN} holds no object")
    return Snapshot(tensors, run)


def save(trainer: Trainer, path: str | Path) -> None:
    """Write a checkpoint: beside its place first, then renamed."""
    path = Path(path)
    data = to_bytes(snapshot(trainer))
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def load(path: str | Path, device: Device | None = None, text: str | None = None) -> Trainer:
    """Read a checkpoint and go on from it.

    Raises:
        ValueError: it is not a whole checkpoint of this program.
    """
    return restore(from_bytes(Path(path).read_bytes()), device, text)
