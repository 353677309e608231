"""Run history: what a visitor's runs were and what came out, in an SQLite file.

Each call opens the file, does one transaction and closes it, so threads and several servers can
share it (write-ahead logging). Numbers, a thinned curve and the last attention picture are kept;
a visitor's own text is not, only its hash. The oldest runs make room for new ones.
"""

import io
import json
import math
import os
import sqlite3
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from platformdirs import user_data_path

from core.train import Change
from playground.runs.snapshot import Attention, Frame
from playground.runs.spec import Spec
from playground.runs.view import Status, View

MAX_ENTRIES = 200  # of one visitor
MAX_BYTES = 50_000_000  # of one visitor
MAX_TOTAL_BYTES = 500_000_000  # of all visitors
MAX_POINTS = 300  # of a curve
MAX_PICTURE = 500_000  # bytes of one picture
MAX_LABEL = 120  # characters
SCHEMA = 1
WAIT = 10.0  # seconds that a call waits for another one's transaction
FOLDER = "PLAYGROUND_DATA"
# What is kept of an attention picture beside its weights.
ABOUT = ("name", "query_tokens", "key_tokens", "entropy", "largest", "spread", "theory")
EVERYONE = ""  # the owner in single-user mode: sees all

Answer = TypeVar("Answer")

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
_SETTING_ASIDE = threading.Lock()
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class HistoryUnavailable(RuntimeError):
    """The file cannot be used now; the message says why. Runs work without it."""


@dataclass(frozen=True)
class Result:
    """What a run has come to. Losses in nats per scored token; None: not measured."""

    status: str
    message: str  # why it diverged or failed
    steps: int
    final_loss: float | None  # mean of the last 20 steps
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


def data_folder() -> Path:
    """Where this system keeps a user's data; PLAYGROUND_DATA overrides it.

    Raises:
        HistoryUnavailable: there is no home folder.
    """
    try:
        chosen = os.environ.get(FOLDER) or user_data_path("transformer-playground", appauthor=False)
        return Path(chosen).expanduser()
    except RuntimeError as error:
        raise HistoryUnavailable(
            f"there is no home folder: set {FOLDER} to a folder that can be written"
        ) from error


class History:
    """The runs of all visitors; each one sees only their own, the owner "" (single user) all.

    Every method raises HistoryUnavailable where the file cannot be used: no room on the disk, a
    folder that may not be written, another program that holds it.

    Args:
        path: the file; None is `history.sqlite3` in the user's data folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.notice: str | None = None  # what became of a damaged file

    @property
    def path(self) -> Path:
        return self._path or data_folder() / "history.sqlite3"

    def add(
        self, owner: str, label: str, spec: Spec, view: View, *, created: float | None = None
    ) -> int:
        """Keep a run; the oldest ones go where the limits are reached.

        Args:
            label: what the visitor changed.
            spec: as the run began, before hot changes (`run.started`).
            view: the run at its end.

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
            added = db.execute(f"INSERT INTO runs ({columns}) VALUES ({values})", row).lastrowid
            _drop_oldest(db, "owner = ?", (owner,), MAX_ENTRIES, MAX_BYTES)
            _drop_oldest(db, "1", (), sys.maxsize, MAX_TOTAL_BYTES)
            return added

        return self._do(write)

    def list(self, owner: str) -> tuple[Entry, ...]:
        """A visitor's runs, newest first."""
        where, values = _mine(owner)
        query = f"SELECT {_COLUMNS} FROM runs WHERE {where} ORDER BY id DESC"
        return self._do(lambda db: tuple(map(_entry, db.execute(query, values))))

    def get(self, owner: str, id: int) -> Entry:
        """One run.

        Raises:
            ValueError: this visitor has no such run.
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
        except (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile) as error:
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

    def _do(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """One transaction. A damaged file is set aside, and the work done on a new one."""
        try:
            with suppress(_Damaged):
                return self._transaction(work)
            with _SETTING_ASIDE:
                try:
                    return self._transaction(work)  # another thread has started a new file
                except _Damaged as damage:
                    self._set_aside(damage)
            return self._transaction(work)
        except (sqlite3.Error, OSError) as error:
            raise HistoryUnavailable(
                f"the run history cannot be used: {error} ({self.path})"
            ) from error

    def _transaction(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The write lock is taken at once: no transaction fails half-way for it.
        opened = sqlite3.connect(self.path, timeout=WAIT, isolation_level="IMMEDIATE")
        try:
            with closing(opened) as db, db:
                with suppress(sqlite3.OperationalError):  # it is being set now, or cannot be
                    db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute("PRAGMA secure_delete = ON")  # what is deleted leaves the file too
                self._prepare(db)
                return work(db)
        except sqlite3.DatabaseError as error:
            raise _Damaged(error) if _is_damage(error) else error from None

    def _prepare(self, db: sqlite3.Connection) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA:
            raise HistoryUnavailable(
                f"the run history has format {version}, this version reads {SCHEMA}: "
                f"it was written by a newer one ({self.path})"
            )
        if version < SCHEMA:
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA}; COMMIT")

    def _set_aside(self, damage: Exception) -> None:
        """Give a damaged file another name."""
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:8]}"
        aside = self.path.with_name(f"{self.path.stem}.damaged-{stamp}{self.path.suffix}")
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        self.notice = (
            f"The run history could not be read ({damage}). The file was set aside as {aside}, "
            "and a new history started."
        )


class _Damaged(sqlite3.DatabaseError):
    """The file is not a database, or not a whole one."""


def _is_damage(error: sqlite3.Error) -> bool:
    # The low byte is the kind, the rest tells more about it.
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return kind in _DAMAGE or str(error).startswith(("no such table", "no such column"))


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
    id, created, label, spec, changes, result, curve, validation, has_picture = row
    steps, loss = _unpack(curve, 2)
    val_steps, val_loss, val_accuracy = _unpack(validation, 3)
    ended = Result(**json.loads(result))
    view = View(
        status=Status(ended.status),
        message=ended.message,
        spec=None,
        steps=steps.astype(int),
        loss=loss,
        val_steps=val_steps.astype(int),
        val_loss=val_loss,
        val_accuracy=val_accuracy,
        changes=tuple(Change(*change) for change in json.loads(changes)),
        seconds_trained=ended.seconds,
    )
    return Entry(id, created, label, json.loads(spec), ended, view, bool(has_picture))


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
    return Frame(about["step"], attention, predictions=[])
