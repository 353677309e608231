"""Trained models that come with the app, to be looked at before anything is trained.

Each file holds the weights, and in its header what they are: the run that made them, its first
losses and what it reached. `python -m tests.train_shipped --write` trains them again.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from core.model import Transformer, build_model
from playground.runs.spec import Spec

FOLDER = Path(__file__).with_name("trained")


@dataclass(frozen=True)
class Shipped:
    """What a file says of its weights."""

    spec: Spec
    losses: tuple[float, ...]  # of the first steps
    loss: float  # on the validation set, at the end
    accuracy: float


def read(path: Path) -> Shipped:
    """The header of a file.

    Raises:
        ValueError: it is of a text that is another one here.
    """
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["about"])
    return Shipped(
        Spec.from_dict(about["spec"]), tuple(about["losses"]), about["loss"], about["accuracy"]
    )


def write(path: Path, model: Transformer, shipped: Shipped) -> None:
    """Keep the weights of a model, and what they are."""
    about: dict[str, Any] = vars(shipped) | {"spec": shipped.spec.to_dict()}
    save_file(model.state_dict(), path, {"about": json.dumps(about)})


@cache
def files() -> dict[Spec, Path]:
    """The run that each file is of; those that cannot be used here are left out."""
    found = {}
    for path in sorted(FOLDER.glob("*.safetensors")):
        try:
            found[read(path).spec] = path
        except ValueError:  # another Python has another documentation
            continue
    return found


@cache
def model_of(spec: Spec) -> Transformer | None:
    """The model that a run ended with, if it came with the app."""
    if spec not in files():
        return None
    model = build_model(spec.model)
    model.load_state_dict(load_file(files()[spec]))
    return model
