"""Which runs go on the board of a class: those of its members' Playgrounds, once they are over.

A run counts when it came to an end of its own, began at its first step (no checkpoint), and anybody
can start it again from its knobs (no text of the visitor's own). A thread of its own writes: no
page and no run waits.
"""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from uuid import uuid4
from weakref import WeakKeyDictionary

from playground.classroom.database import CLASSES, Classes
from playground.history.file import FileUnavailable
from playground.runs.pool import RUNS
from playground.runs.run import Run
from playground.runs.spec import Spec
from playground.runs.view import View

MAX_TABS = 10_000  # whose browser is known


class BoardRecorder:
    """Puts finished runs on boards. Every method but `flush` returns at once."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self._browsers: dict[str, str] = {}  # tab -> browser
        self._kept: WeakKeyDictionary[Run, tuple[str, int]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="board")

    def set_browser(self, tab: str, browser: str) -> None:
        """Say whose runs those of a tab are."""
        with self._lock:
            self._browsers.pop(tab, None)
            self._browsers[tab] = browser
            while len(self._browsers) > MAX_TABS:
                del self._browsers[next(iter(self._browsers))]

    def keep(self, run: Run) -> None:
        """Put a run that is over on the board, once; one that was trained further, again."""
        browser = self._browsers.get(run.owner)
        if browser is None or run.resumed or run.started.label:  # of a comparison
            return
        if getattr(run.started.task, "source", None) == "own":
            return
        view = run.view()
        steps = len(view.loss)
        if not view.status.conclusive or not steps:
            return
        with self._lock:
            id, before = self._kept.get(run, (uuid4().hex, 0))
            if steps <= before:
                return
            self._kept[run] = id, steps
        with suppress(RuntimeError):  # the process ends
            self._writer.submit(self._write, browser, id, run.started, view)

    def flush(self, timeout: float = 2.0) -> bool:
        """Wait until what was to be kept is written; whether it was."""
        with suppress(RuntimeError):
            return not wait([self._writer.submit(lambda: None)], timeout).not_done
        return False

    def _write(self, browser: str, id: str, began: Spec, view: View) -> None:
        with suppress(FileUnavailable):
            self.classes.add_point(browser, id, began, view)


BOARD = BoardRecorder(CLASSES)
RUNS.on_end.append(BOARD.keep)
