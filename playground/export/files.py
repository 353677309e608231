"""Downloads: the numbers of a run as CSV, its configuration as JSON."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from core.knobs import cut, quoted
from core.tasks.sources import decode_upload
from core.train import Change
from playground.runs.spec import DECISIVE, PARTS, Spec, check_fields, within
from playground.runs.view import View

FORMAT = 1
MAX_CONFIG_BYTES = 100_000
SECTIONS = {"format": object, **PARTS, "changes": list}
REQUIRED = ("format", *DECISIVE)
CHANGE = {"step": int, "field": str, "value": object}


# --- metrics --------------------------------------------------------------------------------


def metrics_csv(view: View) -> str:
    """One row per step; the validation columns are filled where the model was evaluated.

    A row for step 0 holds the evaluation before any training, if there was one. Numbers have as
    many digits as it takes to read the same float32 back.
    """
    import pandas as pd  # which takes a second; only History and this need it

    layers = {f"grad_norm.{layer}": norms for layer, norms in view.layer_norms.items()}
    training = pd.DataFrame(
        {"loss": view.loss, "lr": view.lr, "grad_norm": view.grad_norm, **layers},
        index=pd.Index(view.steps, name="step"),
    )
    if len(view.skipped):  # these steps moved no weight
        training["skipped"] = training.index.isin(view.skipped).astype(int)
    validation = pd.DataFrame(
        {"validation_loss": view.val_loss, "validation_accuracy": view.val_accuracy},
        index=pd.Index(view.val_steps, name="step"),
    )
    # After a hot change the same step is evaluated once more: the last one counts.
    validation = validation[~validation.index.duplicated(keep="last")]
    return training.join(validation, how="outer").to_csv(lineterminator="\n")


def cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: what looks like one begins with a quote."""
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


def table_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same columns; none: an empty file. No text in it is taken for a formula."""
    if not rows:
        return ""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: cell(v) if isinstance(v, str) else v for k, v in row.items()})
    return file.getvalue()


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
        own_text: the visitor's own text, which no such file contains.

    Raises:
        ValueError: the file is not whole or holds something illegal; the message names the
            field, the value and the rule.
    """
    values = _parsed(text)
    with within("the file"):
        check_fields(values, SECTIONS, REQUIRED)
    if values["format"] != FORMAT:
        raise ValueError(f"format={quoted(values['format'])}: this version reads format {FORMAT}")
    spec = Spec.from_dict({name: values[name] for name in PARTS if name in values}, own_text)
    with within("changes"):
        return spec, _changes(values.get("changes", []), spec)


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
            f"the file is JSON, but not a configuration: expected an object {{…}} with the fields "
            f"{', '.join(REQUIRED)}"
        )
    return values


def _no_field_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"field {cut(', '.join(twice))} is given more than once")
    return dict(pairs)


def _changes(items: list[Any], spec: Spec) -> tuple[Change, ...]:
    """Hot changes, checked by turning the knobs one step after the other."""
    for item in items:
        check_fields(item, CHANGE, CHANGE)
        if item["step"] < 0:
            raise ValueError(f"step={quoted(item['step'])}: expected a whole number, at least 0")
    changes = tuple(Change(**item) for item in items)
    for one, after in pairwise(changes):
        if after.step < one.step:
            raise ValueError(f"step={after.step} comes after step {one.step}")
    spec.replayed(changes)
    return changes
