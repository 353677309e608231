"""Take it home: the numbers of a run as CSV, its configuration as JSON, the run as a Python file."""

import json
import platform
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import torch

from core.config import ModelConfig, TrainConfig
from core.tasks import Task
from core.tasks.sources import decode_upload
from core.train import Change
from playground.bundle import bundle
from playground.spec import PARTS, Spec, changes_by_step, check_names, within
from playground.view import View

FORMAT = 1
MAX_CONFIG_BYTES = 100_000
SECTIONS = ("format", *PARTS, "changes")
REQUIRED = SECTIONS[:4]


# --- metrics --------------------------------------------------------------------------------


def metrics_csv(view: View) -> str:
    """One row per step; the validation columns are filled where the model was evaluated.

    A row for step 0 holds the evaluation before any training, if there was one. Numbers have as
    many digits as bring the same float32 back.
    """
    layers = {f"grad_norm.{layer}": norms for layer, norms in view.layer_norms.items()}
    training = pd.DataFrame(
        {"loss": view.loss, "lr": view.lr, "grad_norm": view.grad_norm, **layers},
        index=pd.Index(view.steps, name="step"),
    )
    validation = pd.DataFrame(
        {"validation_loss": view.val_loss, "validation_accuracy": view.val_accuracy},
        index=pd.Index(view.val_steps, name="step"),
    )
    # After a hot change the same step is evaluated once more: the last one counts.
    validation = validation[~validation.index.duplicated(keep="last")]
    return training.join(validation, how="outer").to_csv(lineterminator="\n")


# --- configuration --------------------------------------------------------------------------


def config_json(spec: Spec, changes: Sequence[Change] = ()) -> str:
    """Everything that decides a run, as JSON; of a text only its SHA-256.

    Args:
        spec: the run as it was started, before any of the changes (`Run.started`).
        changes: the hot changes made since.
    """
    values = {"format": FORMAT} | spec.to_dict()
    values["changes"] = [change._asdict() for change in changes]
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def config_from_json(
    text: str | bytes, own_text: str | None = None
) -> tuple[Spec, tuple[Change, ...]]:
    """The spec and the hot changes that `config_json` wrote down.

    Args:
        own_text: the text of a run on a text of one's own, which no such file contains.

    Raises:
        ValueError: the file is not whole or holds something illegal; the message names the
            field, the value and the rule.
    """
    values = _parsed(text)
    within("the file", lambda: check_names(values, SECTIONS, REQUIRED))
    if values["format"] != FORMAT:
        raise ValueError(f"format={values['format']!r}: this version reads format {FORMAT}")
    changes = values.get("changes", [])
    if not isinstance(changes, list):
        raise ValueError(f"changes={changes!r}: expected a list […]")
    spec = Spec.from_dict({name: values[name] for name in PARTS if name in values}, own_text)
    return spec, within("changes", lambda: _changes(changes, spec))


def _parsed(text: str | bytes) -> dict[str, Any]:
    size = len(text if isinstance(text, bytes) else text.encode(errors="replace"))
    if size > MAX_CONFIG_BYTES:
        raise ValueError(f"the file has {size:,} bytes, at most {MAX_CONFIG_BYTES:,} are taken")
    if isinstance(text, bytes):
        text = decode_upload(text)
    try:
        values = json.loads(text, object_pairs_hook=_no_field_twice)
        json.dumps(values, ensure_ascii=False).encode()  # refuses half a surrogate pair
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not JSON as the playground writes it: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(
            f"the file is JSON, but no configuration: expected an object {{…}} with the fields "
            f"{', '.join(REQUIRED)}"
        )
    return values


def _no_field_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"field {', '.join(twice)} is given more than once")
    return dict(pairs)


def _changes(items: list[Any], spec: Spec) -> tuple[Change, ...]:
    """Hot changes, checked by turning the knobs one step after the other."""
    for item in items:
        if not isinstance(item, dict):
            raise ValueError(f"{item!r}: expected an object {{…}}")
        check_names(item, Change._fields, Change._fields)
        if type(item["step"]) is not int or item["step"] < 0:
            raise ValueError(f"step={item['step']!r}: expected a whole number, at least 0")
        if not isinstance(item["field"], str):
            raise ValueError(f"field={item['field']!r}: expected a string")
    changes = tuple(Change(**item) for item in items)
    for one, after in pairwise(changes):
        if after.step < one.step:
            raise ValueError(f"step={after.step} stands after step {one.step}")
    spec.replayed(changes)
    return changes


# --- the run as one file --------------------------------------------------------------------


def script(
    spec: Spec,
    changes: Sequence[Change] = (),
    steps: int | None = None,
    *,
    threads: int | None = None,
    device: str = "cpu",
) -> str:
    """The run as one Python file that needs nothing but PyTorch.

    On the CPU of the same machine it computes the same losses, digit for digit, and prints them.
    It is made from the sources of `core` as they are now. A text of one's own is part of it.

    Args:
        spec: the run as it was started, before any of the changes (`Run.started`).
        changes: the hot changes made since; those after the last step are left out.
        steps: how many steps it makes; None is as many as the run was started for.
        threads: the intra-op threads that the run had; None is as many as this process uses.
        device: where it computes.
    """
    steps = spec.training.steps if steps is None else steps
    by_step = changes_by_step(change for change in changes if change.step < steps)
    own_text = getattr(spec.task, "text", "")
    main = MAIN.format(
        task=spec.task.name,
        knobs=_unusual_knobs(spec),
        python=platform.python_version(),
        torch=torch.__version__,
        threads=torch.get_num_threads() if threads is None else threads,
        task_module=type(spec.task).__module__,
        task_class=type(spec.task).__name__,
        own_text=f"OWN_TEXT = {_quoted(own_text)}\n\n\n" if own_text else "",
        task_call=_task_call(spec.task),
        model_call=_call("ModelConfig", spec.model.to_dict()),
        training_call=_call("TrainConfig", spec.training.to_dict()),
        device=device,
        changes=_CHANGES.format(lines=_lines(by_step, "{}: {},")) if by_step else "",
        turn_knobs=_TURN_KNOBS if by_step else "",
        steps=steps,
    )
    return bundle(main, _values(spec, by_step))


MAIN = '''"""A transformer learns {task}: one run of the transformer playground, in one file.

{knobs}

Prints the loss of each step, in nats per scored token. The playground ran it with Python {python},
PyTorch {torch} and {threads} thread(s): with these, the CPU of the same machine gives the same
digits. Only what this run uses is in here.
"""

import torch

from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.train import Diverged, Trainer
from {task_module} import {task_class}

torch.set_num_threads({threads})  # another number would change the last digits of sums

{own_text}# --- the run itself ------------------------------------------------------------------------------
def main() -> None:
    """Train, and print the loss of each step."""
    task = {task_call}
    model = {model_call}
    training = {training_call}
    trainer = Trainer(model, task, training, choose_device("{device}"))
{changes}    try:
        while trainer.step_count < {steps}:
{turn_knobs}            step = trainer.step()
            print(f"step {{step.step}} loss {{step.loss!r}}")
    except Diverged as end:
        print(end)


if __name__ == "__main__":
    main()
'''

_CHANGES = """    # Knobs that were turned on the way: after so many steps, these values.
    changes = {{
{lines}    }}
"""
_TURN_KNOBS = "            trainer.change(**changes.get(trainer.step_count, {}))\n"


def _task_call(task: Task) -> str:
    values = task.to_dict()
    values.pop("vocabulary", None)
    name = type(task).__name__
    if "text_sha256" not in values:
        del values["task"]
        return _call(name, values)
    # Refuses another text, or the documentation of another Python.
    own_text = ", text=OWN_TEXT" if values["source"] == "own" else ""
    lines = _lines(values, '"{}": {},')
    return f"{name}.from_dict({{\n{lines}    }}{own_text})"


def _call(name: str, values: dict[str, Any]) -> str:
    return f"{name}(\n{_lines(values, '{}={},')}    )"


def _lines(values: dict[Any, Any], form: str) -> str:
    lines = (form.format(name, _python(value)) for name, value in values.items())
    return "".join(f"        {line}\n" for line in lines)


def _python(value: Any) -> str:
    """A knob's value, or several by name, in code."""
    return repr(value).replace("'", '"')


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""\\\n{escaped}"""'


def _values(spec: Spec, by_step: dict[int, dict[str, Any]]) -> dict[str, set[str]]:
    """Each knob's values in the course of the run, as Python writes them."""
    configs = [config.to_dict() for config in (spec.task, spec.model, spec.training)]
    values = defaultdict(set)
    for knobs in (*configs, *by_step.values()):
        for name, value in knobs.items():
            values[name].add(repr(value))
    return values


def _unusual_knobs(spec: Spec) -> str:
    """The knobs that are not at their defaults, one a line."""
    plain = ModelConfig.for_task(spec.task, architecture=spec.model.architecture).to_dict()
    plain |= TrainConfig().to_dict() | {"architecture": ModelConfig.architecture}
    knobs = spec.model.to_dict() | spec.training.to_dict()
    unusual = [f"    {name} = {value}" for name, value in knobs.items() if value != plain[name]]
    if not unusual:
        return "Every knob of the model and of the training is at its default."
    return "\n".join(["These knobs are not at their defaults:", "", *unusual])
