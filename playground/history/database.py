"""Run history: what a visitor's runs were and what came out, in an SQLite file.

Numbers, a thinned curve and the last attention picture are kept; a visitor's own text is not, only
its hash. The oldest runs make room for new ones.
"""

import io
import json
import math
import sqlite3
import sys
import time
import zipfile
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from core.checkpoint_file import check_changes
from core.knobs import cut, quoted
from core.tasks import TASKS
from core.train import Change
from playground.history.file import WAIT, SqliteFile
from playground.runs.snapshot import Attention, Frame
from playground.runs.spec import DECISIVE, PARTS, Spec, check_fields
from playground.runs.view import Status, View

MAX_ENTRIES = 200  # of one visitor
MAX_BYTES = 50_000_000  # of one visitor
MAX_TOTAL_BYTES = 500_000_000  # of all visitors
MAX_POINTS = 300  # of a curve
MAX_PICTURE = 500_000  # bytes of one picture
MAX_UNPACKED = 100_000_000  # bytes of one picture when it is read
MAX_LABEL = 120  # characters
LATEST = 4e9  # seconds since 1970: an entry of a later day is damaged
SCHEMA = 1
# What is kept of an attention picture beside its weights.
ABOUT = ("name", "query_tokens", "key_tokens", "entropy", "largest", "spread", "theory")
EVERYONE = ""  # the owner in single-user mode: sees all

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    created REAL NOT NULL,
    label TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    spec TEXT NOT NULL,        -- JSON: model, task, training, probe
    changes TEXT NOT NULL,     -- JSON: [[step, field, value], ...]
    result TEXT NOT NULL,      -- JSON: the numbers of Result
    curve BLOB NOT NULL,       -- float32 [2, points]: steps, loss
    validation BLOB NOT NULL,  -- float32 [3, points]: steps, loss, accuracy
    picture BLOB               -- npz: float16 weights
);
CREATE INDEX IF NOT EXISTS runs_of_owner ON runs (owner, id);
"""
_COLUMNS = "id, created, label, spec, changes, result, curve, validation, picture IS NOT NULL"


@dataclass(frozen=True)
class Result:
    """What a run has come to. Losses in nats per scored token; None: not measured."""

    status: str
    message: str  # why it diverged or failed
    steps: int
    final_loss: float | None  # mean of the last 20 steps, or of those since a knob was turned
    val_loss: float | None
    accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class Entry:
    """One run of the history. The arrays of its view have at most MAX_POINTS entries."""

    id: int
    created: float  # seconds since 1970
    label: str
    spec: dict[str, Any]  # as the run began; `Spec.from_dict` builds it again
    result: Result
    view: View  # the run as a page reads one: its thinned curve
    has_picture: bool


class History(SqliteFile):
    """The runs of all visitors; each one sees only their own, the owner "" (single user) all.

    Every method raises FileUnavailable where the file cannot be used. Runs work without it.
    """

    name, what, schema, version = "history.sqlite3", "run history", _SCHEMA, SCHEMA

    def add(
        self,
        owner: str,
        label: str,
        spec: Spec,
        view: View,
        *,
        created: float | None = None,
        instead: tuple[int, str] | None = None,
    ) -> int:
        """Keep a run; the oldest ones go where the limits are reached.

        Args:
            label: what the visitor changed.
            spec: as the run began, before hot changes (`run.started`).
            view: the run at its end.
            instead: the entry that it replaces, and what that was called at first: another name
                is the visitor's, and stays.

        Returns:
            The id of the entry.
        """
        row = {
            "owner": owner,
            "created": time.time() if created is None else created,
            "label": _label(label or spec.label or "a run"),
            "spec": json.dumps(replace(spec, probe=view.spec.probe).to_dict()),
            "changes": json.dumps([list(change) for change in view.changes]),
            "result": json.dumps(asdict(_result(view))),
            "curve": _pack(view.steps, view.loss),
            "validation": _pack(view.val_steps, view.val_loss, view.val_accuracy),
            "picture": _pack_picture(view.frames[-1]) if view.frames else None,
        }
        row["bytes"] = sum(len(v) for v in row.values() if isinstance(v, str | bytes))
        columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)

        def write(db: sqlite3.Connection) -> int:
            if instead is not None:
                id, called = instead
                mine = "FROM runs WHERE id = ? AND owner = ?", (id, owner)
                for (name,) in db.execute(f"SELECT label {mine[0]}", mine[1]).fetchall():
                    row["label"] = row["label"] if name == _label(called) else name
                db.execute(f"DELETE {mine[0]}", mine[1])
            added = db.execute(f"INSERT INTO runs ({columns}) VALUES ({values})", row).lastrowid
            _drop_oldest(db, "owner = ?", (owner,), MAX_ENTRIES, MAX_BYTES)
            _drop_oldest(db, "1", (), sys.maxsize, MAX_TOTAL_BYTES)
            return added

        return self._do(write, WAIT)

    def list(self, owner: str) -> tuple[Entry, ...]:
        """A visitor's runs, newest first; without those that cannot be read."""
        return self.read(owner)[0]

    def read(self, owner: str) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        """A visitor's runs, newest first, and of each that cannot be read why not."""
        entries, damaged = self._read(owner)
        return entries, tuple(damaged.values())

    def _read(self, owner: str) -> tuple[tuple[Entry, ...], dict[int, str]]:
        where, values = _mine(owner)
        query = f"SELECT {_COLUMNS} FROM runs WHERE {where} ORDER BY id DESC"
        entries, damaged = [], {}
        for row in self._do(lambda db: db.execute(query, values).fetchall()):
            try:
                entries.append(_entry(row))
            except ValueError as error:
                damaged[row[0]] = str(error)
        return tuple(entries), damaged

    def get(self, owner: str, id: int) -> Entry:
        """One run.

        Raises:
            ValueError: this visitor has no such run, or it cannot be read.
        """
        return _entry(self._one(owner, id, _COLUMNS))

    def picture(self, owner: str, id: int) -> Frame | None:
        """A run's last frame: the attention weights of as many layers as there was room for.

        None if there is none.

        Raises:
            ValueError: this visitor has no such run, or its picture cannot be read.
        """
        (packed,) = self._one(owner, id, "picture")
        if packed is None:
            return None
        try:
            return _unpack_picture(packed)
        except Exception as error:  # a damaged zip raises a dozen kinds
            raise ValueError(f"the picture of run {id} cannot be read: {error}") from error

    def rename(self, owner: str, id: int, label: str) -> None:
        """Give a run another name.

        Raises:
            ValueError: no such run, or an empty name.
        """
        if not label.strip():
            raise ValueError("label='': a run needs a name")
        self._change(owner, id, "UPDATE runs SET label = ?", (_label(label),))

    def delete(self, owner: str, id: int) -> None:
        """Delete a run.

        Raises:
            ValueError: this visitor has no such run.
        """
        self._change(owner, id, "DELETE FROM runs", ())

    def delete_damaged(self, owner: str) -> int:
        """Delete those of a visitor's runs that cannot be read; how many there were."""
        where, values = _mine(owner)
        query = f"DELETE FROM runs WHERE id = ? AND {where}"
        rows = [(id, *values) for id in self._read(owner)[1]]
        return self._do(lambda db: db.executemany(query, rows).rowcount) if rows else 0

    # --- the file -------------------------------------------------------------------------

    def _one(self, owner: str, id: int, columns: str) -> tuple:
        where, values = _mine(owner)
        query = f"SELECT {columns} FROM runs WHERE id = ? AND {where}"
        row = self._do(lambda db: db.execute(query, (id, *values)).fetchone())
        if row is None:
            raise _no_such(id)
        return row

    def _change(self, owner: str, id: int, statement: str, given: tuple) -> None:
        where, values = _mine(owner)
        query = f"{statement} WHERE id = ? AND {where}"
        values = (*given, id, *values)
        if not self._do(lambda db: db.execute(query, values).rowcount):
            raise _no_such(id)


def _mine(owner: str) -> tuple[str, tuple[str, ...]]:
    return ("1", ()) if owner == EVERYONE else ("owner = ?", (owner,))


def _no_such(id: int) -> ValueError:
    return ValueError(
        f"run {id} is not in your history: it was deleted, or made room for newer ones"
    )


def _drop_oldest(
    db: sqlite3.Connection, where: str, values: tuple, max_entries: int, max_bytes: int
) -> None:
    db.execute(
        f"""DELETE FROM runs WHERE id IN (
            SELECT id FROM (
                SELECT id, row_number() OVER newest AS number, sum(bytes) OVER newest AS size
                FROM runs WHERE {where} WINDOW newest AS (ORDER BY id DESC)
            ) WHERE number > ? OR size > ?)""",
        (*values, max_entries, max_bytes),
    )


# --- what is in a row -----------------------------------------------------------------------


def _label(label: str) -> str:
    label = " ".join(label.split())
    return label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"


def _result(view: View) -> Result:
    measured = bool(len(view.val_loss))
    return Result(
        status=str(view.status),
        message=view.message,
        steps=len(view.loss),
        final_loss=_finite(view.recent_loss()),
        val_loss=_finite(view.val_loss[-1]) if measured else None,
        accuracy=_finite(view.val_accuracy[-1]) if measured else None,
        seconds=view.seconds_trained,
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _entry(row: tuple) -> Entry:
    """An entry from its row, in which anything may stand.

    Raises:
        ValueError: names the run and what is wrong with it.
    """
    try:
        return _read_entry(*row)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"run {row[0]} cannot be read: {cut(str(error))}") from error


def _read_entry(
    id: int,
    created: float,
    label: str,
    spec: str,
    changes: str,
    result: str,
    curve: bytes,
    validation: bytes,
    has_picture: int,
) -> Entry:
    values, ended, turned = json.loads(spec), Result(**json.loads(result)), json.loads(changes)
    if not isinstance(label, str) or not 0 <= created <= LATEST:
        raise ValueError("its name or its date is none")
    check_fields(values, PARTS, DECISIVE)
    if values["task"].get("task") not in TASKS:
        raise ValueError("it has no task that there is")
    _check_result(ended)
    check_changes(turned, ended.steps)
    steps, loss = _unpack(curve, 2)
    val_steps, val_loss, val_accuracy = _unpack(validation, 3)
    if not (_ascending(steps, ended.steps) and _ascending(val_steps, ended.steps)):
        raise ValueError("its curve is not one")
    view = View(
        status=Status(ended.status),
        message=ended.message,
        spec=None,
        steps=steps.astype(int),
        loss=loss,
        val_steps=val_steps.astype(int),
        val_loss=val_loss,
        val_accuracy=val_accuracy,
        changes=tuple(Change(*change) for change in turned),
        seconds_trained=ended.seconds,
    )
    return Entry(id, created, label, values, ended, view, bool(has_picture))


def _check_result(result: Result) -> None:
    kinds = {"status": str, "message": str, "steps": int}
    for name, value in asdict(result).items():
        kind = kinds.get(name, int | float | None)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name}={quoted(value)}")
    if not Status(result.status).over or not 0 <= result.steps <= 2**31:
        raise ValueError(f"status={result.status}, steps={result.steps}")


def _ascending(steps: np.ndarray, last: int) -> bool:
    """Whether these are steps of a run, one after another; the same may be measured twice."""
    inside = np.isfinite(steps).all() and (steps >= 0).all() and (steps <= last).all()
    return bool(inside and (np.diff(steps) >= 0).all())


def _pack(*rows: np.ndarray) -> bytes:
    """Rows of equal length, thinned to MAX_POINTS entries: the first and the last one stay."""
    count = len(rows[0])
    chosen = np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(int)
    return np.stack([np.asarray(row)[chosen] for row in rows]).astype("<f4").tobytes()


def _unpack(packed: bytes, rows: int) -> np.ndarray:
    return np.frombuffer(packed, "<f4").reshape(rows, -1)


# --- the picture ----------------------------------------------------------------------------


def _pack_picture(frame: Frame) -> bytes | None:
    """The weights of as many layers, from the first on, as fit into MAX_PICTURE."""
    shown = list(frame.attention.values())
    while shown:
        packed = _zip(frame.step, shown)
        if len(packed) <= MAX_PICTURE:
            return packed
        shown = shown[: len(shown) // 2]
    return None


def _zip(step: int, shown: list[Attention]) -> bytes:
    about = [{name: getattr(layer, name) for name in ABOUT} for layer in shown]
    words = json.dumps({"step": step, "layers": about}).encode()
    arrays = {"about": np.frombuffer(words, np.uint8)}
    for i, attention in enumerate(shown):
        arrays[f"weights{i}"] = attention.stages["weights"].astype("<f2")
        arrays[f"hidden{i}"] = attention.hidden
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _unpack_picture(packed: bytes) -> Frame:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        if (size := sum(item.file_size for item in archive.infolist())) > MAX_UNPACKED:
            raise ValueError(f"{size:,} bytes unpacked, at most {MAX_UNPACKED:,} are taken")
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        about = json.loads(arrays["about"].tobytes())
        attention = {
            layer["name"]: Attention(
                stages={"weights": arrays[f"weights{i}"].astype(np.float32)},
                hidden=arrays[f"hidden{i}"],
                **layer,
            )
            for i, layer in enumerate(about["layers"])
        }
    for shown in attention.values():
        size = (len(shown.query_tokens), len(shown.key_tokens))
        if shown.stages["weights"].shape[1:] != size or shown.hidden.shape != size:
            raise ValueError("its maps do not fit its tokens")
    return Frame(about["step"], attention, predictions=[])
