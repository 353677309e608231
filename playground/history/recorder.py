"""What goes into the run history, and when: every run once, as soon as it ends.

A run that ends is kept whether or not a page looks at it; one that is replaced, or whose visitor
leaves, is kept as far as it got. A separate thread writes the file: no page and no run waits.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from playground.history.database import History
from playground.history.file import FileUnavailable
from playground.history.names import title
from playground.runs.pool import RUNS
from playground.runs.run import Run
from playground.runs.spec import Spec
from playground.runs.view import Status, View

SETTING = "PLAYGROUND_HISTORY"
MODES = ("single", "visitor", "off")
WORTH_KEEPING = 20  # steps
MAX_TABS = 10_000  # whose owner is known


def chosen_mode() -> str | None:
    """Whose history the environment asks for: one for all, one for each visitor, or none at all.

    Raises:
        ValueError: PLAYGROUND_HISTORY is none of `MODES`.
    """
    mode = os.environ.get(SETTING) or None
    if mode not in (None, *MODES):
        raise ValueError(f"{SETTING}={mode!r}: choose one of {', '.join(MODES)}")
    return mode


@dataclass
class _Kept:
    """What has been written of a run."""

    steps: int
    id: int | None = None
    title: str = ""


class Recorder:
    """Writes runs into a history. Every method but `flush` returns at once."""

    def __init__(self, history: History | None = None) -> None:
        self.history = history or History()
        self.problem: str | None = None  # why the last run could not be kept
        self._owners: dict[str, str] = {}  # tab -> owner in the history
        self._kept: WeakKeyDictionary[Run, _Kept] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="history")

    def set_owner(self, tab: str, owner: str | None) -> None:
        """Say to whom the runs of a tab belong; None: they are not kept."""
        with self._lock:
            self._owners.pop(tab, None)
            if owner is not None:
                self._owners[tab] = owner
            while len(self._owners) > MAX_TABS:
                del self._owners[next(iter(self._owners))]

    def keep(self, run: Run) -> None:
        """Keep a run that is over or about to be discarded, unless it has been kept so far.

        A run that was trained further replaces what was kept of it.
        """
        view = run.view()  # not under the lock: it takes the one of all runs
        steps = len(view.loss)
        if np.isfinite(view.loss).sum() < WORTH_KEEPING or steps <= run.resumed:
            return  # too short, or a checkpoint that was loaded and not trained further
        with self._lock:
            owner, kept = self._owners.get(run.owner), self._kept.get(run)
            if owner is None or (kept is not None and kept.steps >= steps):
                return
            if kept is None:
                kept = self._kept[run] = _Kept(steps)
            kept.steps = steps
        status = view.status if view.status.over else Status.STOPPED
        view = replace(view, status=status, frames=view.frames[-1:])
        self._post(lambda: self._write(owner, run.started, view, kept))

    def flush(self, timeout: float = 2.0) -> bool:
        """Wait until what was to be kept is written; whether it was."""
        with suppress(RuntimeError):  # the process ends
            return not wait([self._writer.submit(lambda: None)], timeout).not_done
        return False

    def _post(self, job: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the process ends
            self._writer.submit(job)

    def _write(self, owner: str, began: Spec, view: View, kept: _Kept) -> None:
        try:
            label = title(began, view.changes)
            replaced = None if kept.id is None else (kept.id, kept.title)
            kept.id = self.history.add(owner, label, began, view, instead=replaced)
            kept.title = label
            self.problem = None
        except FileUnavailable as error:
            self.problem = str(error)


RECORDER = Recorder()
RUNS.on_end.append(RECORDER.keep)
