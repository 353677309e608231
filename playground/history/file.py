"""An SQLite file in the user's data folder, which several threads and servers share.

Each call opens the file, does one transaction and closes it (write-ahead logging). A damaged file
is set aside and a new one begun; on a full disk what needs no room still works.
"""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from platformdirs import user_data_path

FULL = 1_000_000  # bytes: a disk with less than this left is called full
WAIT = 10.0  # seconds that what must not be lost waits for another transaction
PATIENCE = 1.0  # that a page waits
FOLDER = "PLAYGROUND_DATA"

Answer = TypeVar("Answer")

_SETTING_ASIDE = threading.Lock()
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class FileUnavailable(RuntimeError):
    """The file cannot be used now; the message says why."""


def data_folder() -> Path:
    """Where this system keeps a user's data; PLAYGROUND_DATA overrides it.

    Raises:
        FileUnavailable: there is no home folder.
    """
    try:
        chosen = os.environ.get(FOLDER) or user_data_path("transformer-playground", appauthor=False)
        return Path(chosen).expanduser()
    except RuntimeError as error:
        raise FileUnavailable(
            f"there is no home folder: set {FOLDER} to a folder that can be written"
        ) from error


class SqliteFile:
    """One file of tables; a kind of it says which.

    Every method raises FileUnavailable where the file cannot be used: no room on the disk, a
    folder that may not be written, another program that holds it.

    Args:
        path: the file; None is `name` in the user's data folder.
    """

    name: str  # of the file
    what: str  # what it holds: "run history"
    schema: str  # SQL that makes its tables
    version: int  # of the schema

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.notice: str | None = None  # what became of a damaged file

    @property
    def path(self) -> Path:
        return self._path or data_folder() / self.name

    def _do(
        self, work: Callable[[sqlite3.Connection], Answer], wait: float | None = None
    ) -> Answer:
        """One transaction. A damaged file is set aside, and the work done on a new one.

        Args:
            wait: seconds for those of others; None is as long as a page waits.
        """
        wait = PATIENCE if wait is None else wait
        try:
            with suppress(_Damaged):
                return self._transaction(work, wait)
            with _SETTING_ASIDE:
                try:
                    return self._transaction(work, wait)  # another thread has started a new file
                except _Damaged as damage:
                    self._set_aside(damage)
            return self._transaction(work, wait)
        except (sqlite3.Error, OSError) as error:
            why = "the disk is full" if _is_no_room(error) and self._full() else error
            raise FileUnavailable(f"the {self.what} cannot be used: {why} ({self.path})") from error

    def _transaction(self, work: Callable[[sqlite3.Connection], Answer], wait: float) -> Answer:
        """One transaction; on a full disk one that needs no room, so that runs can be deleted.

        A log beside the file takes room even to read. In memory it takes none, but a power cut
        would damage the file: only where it would not work at all otherwise.
        """
        try:
            return self._attempt(work, wait, log="WAL")
        except sqlite3.OperationalError as error:
            if not _is_no_room(error):
                raise
            with suppress(sqlite3.OperationalError):
                return self._attempt(work, wait, log="MEMORY")
            raise

    def _full(self) -> bool:
        with suppress(OSError):
            return shutil.disk_usage(self.path.parent).free < FULL
        return False

    def _attempt(
        self, work: Callable[[sqlite3.Connection], Answer], wait: float, log: str
    ) -> Answer:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The write lock is taken at once: no transaction fails half-way for it.
        opened = sqlite3.connect(self.path, timeout=wait, isolation_level="IMMEDIATE")
        try:
            with closing(opened) as db, db:
                if log == "MEMORY":  # without the other files that a shared log needs
                    db.execute("PRAGMA locking_mode = EXCLUSIVE")
                with suppress(sqlite3.OperationalError):  # it is being set now, or cannot be
                    db.execute(f"PRAGMA journal_mode = {log}")
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute("PRAGMA secure_delete = ON")  # what is deleted leaves the file too
                self._prepare(db)
                return work(db)
        except sqlite3.DatabaseError as error:
            raise _Damaged(error) if _is_damage(error) else error from None

    def _prepare(self, db: sqlite3.Connection) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > self.version:
            raise FileUnavailable(
                f"the {self.what} has format {version}, this version reads {self.version}: "
                f"it was written by a newer one ({self.path})"
            )
        if version < self.version:
            db.executescript(
                f"BEGIN IMMEDIATE; {self.schema} PRAGMA user_version = {self.version}; COMMIT"
            )

    def _set_aside(self, damage: Exception) -> None:
        """Give a damaged file another name."""
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:8]}"
        aside = self.path.with_name(f"{self.path.stem}.damaged-{stamp}{self.path.suffix}")
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        self.notice = (
            f"The {self.what} could not be read ({damage}). The file was set aside as {aside}, "
            f"and a new {self.what} started."
        )


class _Damaged(sqlite3.DatabaseError):
    """The file is not a database, or not a whole one."""


def _is_damage(error: sqlite3.Error) -> bool:
    # The low byte is the kind, the rest tells more about it.
    code = getattr(error, "sqlite_errorcode", 0)
    kind = code & 0xFF
    if code == sqlite3.SQLITE_READONLY_DBMOVED:
        return True  # another thread has just set it aside
    return kind in _DAMAGE or str(error).startswith(("no such table", "no such column"))


def _is_no_room(error: Exception) -> bool:
    """Whether it may come of a full disk."""
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
