"""Checkpoints: everything a run needs to go on bit for bit, and nothing that could run code.

`checkpoint_file` says what the file is, and what is checked before any of it is used.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from core.checkpoint_file import FORMAT, Snapshot, from_bytes, to_bytes
from core.config import ModelConfig, TrainConfig
from core.device import Device
from core.tasks import Task, task_from_dict
from core.train import Change, Trainer

# What each optimiser remembers of a parameter.
OPTIMIZER_STATE = {"adamw": ("step", "exp_avg", "exp_avg_sq"), "sgd": ("momentum_buffer",)}
NEVER_NEGATIVE = ("step", "exp_avg_sq")


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
        "skipped": trainer.skipped,
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
    saved = _in_present_names(saved)
    run = saved.run
    try:
        task = task_from_dict(run["task"], text=text)
        config = ModelConfig.from_dict(run["model"])
        _check(saved, config, task)
        trainer = Trainer(config, task, TrainConfig.from_dict(run["training"]), device)
        _load(trainer, saved.tensors)
        trainer.step_count = run["step"]
        trainer.skipped = run.get("skipped", 0)  # older files do not say
        trainer.changes = [Change(*change) for change in run["changes"]]
        trainer.scaler.load_state_dict(run["scaler"])
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"not a usable checkpoint: {in_words(error)}") from error
    return trainer


def _in_present_names(saved: Snapshot) -> Snapshot:
    """With the names that parameters have now: in format 1 the output layer was called `head`."""
    tensors = {name.replace(".head.", ".unembed."): t for name, t in saved.tensors.items()}
    return Snapshot(tensors, saved.run)


def in_words(error: Exception) -> str:
    """What reading a file has stumbled over, for somebody who does not know this code."""
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return "a value in it is of the wrong kind"


def _check(saved: Snapshot, config: ModelConfig, task: Task) -> None:
    """What can be told before anything is built."""
    tensors, run = saved
    if run["vocabulary"] != list(task.vocabulary):
        raise ValueError("its vocabulary is not the one that the task has now")
    held = sum(tensor.numel() for name, tensor in tensors.items() if name.startswith("model."))
    if held != config.n_parameters:
        raise ValueError(
            f"it holds {held} weights (model.*), the configuration needs {config.n_parameters}"
        )


@torch.no_grad()
def _load(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
    """Copy into the existing parameters: tied ones stay tied, the optimiser keeps its objects."""
    left = dict(tensors)
    trainer.batches.set_state(left.pop("generator.batches"))
    keys = OPTIMIZER_STATE[trainer.config.optimizer]
    for name, parameter in trainer.model.named_parameters():
        parameter.copy_(_take(left, f"model.{name}", parameter.shape))
        if f"optimizer.{name}.{keys[0]}" in left:  # before the first update there is none
            for key in keys:
                shape = () if key == "step" else parameter.shape
                state = _take(left, f"optimizer.{name}.{key}", shape)
                if key in NEVER_NEGATIVE and (state < 0).any():
                    raise ValueError(f"optimizer.{name}.{key} holds negative values")
                trainer.optimizer.state[parameter][key] = state.to(parameter.device)
    if left:
        raise ValueError(f"it holds tensors that this model does not have: {sorted(left)[:3]}")


def _take(tensors: dict[str, Tensor], name: str, shape: Sequence[int]) -> Tensor:
    """The tensor of this name, which must be of this shape, float32 and finite."""
    tensor = tensors.pop(name)
    if tensor.shape != torch.Size(shape) or tensor.dtype != torch.float32:
        raise ValueError(
            f"{name} is {tensor.dtype} {list(tensor.shape)}, "
            f"the configuration needs torch.float32 {list(shape)}"
        )
    if not tensor.isfinite().all():
        raise ValueError(f"{name} holds values that are not finite")
    return tensor


def save(trainer: Trainer, path: str | Path) -> None:
    """Write a checkpoint beside its place, then rename it: only a whole one replaces an older."""
    path = Path(path)
    data = to_bytes(snapshot(trainer))
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        beside = Path(folder, path.name)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)


def check_place(path: str | None) -> None:
    """Refuse, before anything is trained, a file that `save` could not write; None is no file.

    Raises:
        ValueError: says what is wrong with the place.
    """
    if path is None:
        return
    if not path.strip():
        raise ValueError(f"save={path!r}: give the name of a file")
    if Path(path).is_dir():
        raise ValueError(f"save={path!r}: this is a folder; give the name of a file in it")
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"save={path!r}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"save={path!r}: nothing may be written into {folder}")


def load(path: str | Path, device: Device | None = None, text: str | None = None) -> Trainer:
    """Read a checkpoint and go on from it; refuses what `from_bytes` and `restore` refuse."""
    return restore(from_bytes(Path(path).read_bytes()), device, text)
