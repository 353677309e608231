"""Whose turn it is, and who may train at all: fair between visitors, however many runs each has."""

import threading
from collections import Counter
from collections.abc import Collection
from enum import Enum
from typing import Any, Protocol


class State(Enum):
    """Where a run is."""

    IDLE, IN_LINE, WITH_WORKER = range(3)


class Job(Protocol):
    """What is known here of a run."""

    owner: str
    state: State
    requests: Collection[Any]  # requests that wait for a worker

    def admitted(self) -> None:
        """It trains from now on."""


class Schedule:
    """The line of runs that have something to do, and the queue of those that may not train yet.

    Workers' time is shared between visitors: the next turn is that of the visitor who has had the
    least of it, whether one run or sixty wait for it. Whoever is new starts even with the others.

    Every method is to be called under `lock`.

    Args:
        max_active: runs that train at once; the others wait, but never a visitor's only one.
    """

    def __init__(self, max_active: int) -> None:
        self.max_active = max_active
        self.lock = threading.Condition(threading.RLock())
        self.active: set[Job] = set()  # runs that train
        self._queue: list[Job] = []  # runs that wait until they may, by their arrival
        self._line: dict[Job, None] = {}  # by their arrival: within a visitor the first comes first
        self._had: dict[str, float] = {}  # visitor -> seconds of workers' time
        self._held: Counter[str] = Counter()  # visitor -> runs with workers
        self._now = 0.0  # what a visitor has had who always had something to do

    def position(self, run: Job) -> int | None:
        """Its position in the queue: 1 is next, None is not waiting."""
        return self._waiting().index(run) + 1 if run in self._queue else None

    def admit(self, run: Job) -> None:
        """Let a run train, or let it wait until fewer do."""
        if run in self.active or run in self._queue:
            return
        is_first = all(run.owner != other.owner for other in self.active)
        if is_first or len(self.active) < self.max_active:
            self._activate(run)
        else:
            self._queue.append(run)

    def withdraw(self, run: Job) -> None:
        """Let a run train no longer, and the next ones of the queue instead."""
        self.active.discard(run)
        if run in self._queue:
            self._queue.remove(run)
        busy = {other.owner for other in self.active}
        for other in self._waiting():
            if len(self.active) < self.max_active or other.owner not in busy:
                self._queue.remove(other)
                self._activate(other)
                busy.add(other.owner)

    def call(self, run: Job) -> None:
        """A request waits: it is served before others train on."""
        if run.state is State.IDLE:
            self._put_in_line(run)
            self.lock.notify()

    def take(self) -> Job | None:
        """The run whose turn it is, now with the caller."""
        if not self._line:
            return None
        run = min(self._line, key=self._precedence)
        del self._line[run]
        run.state = State.WITH_WORKER
        self._held[run.owner] += 1
        if not run.requests:
            self._now = max(self._now, self._had[run.owner])
        return run

    def hand_back(self, run: Job, seconds: float) -> None:
        """After its turn of so many seconds a run is in line again, if it has more to do."""
        self._had[run.owner] = self._had.get(run.owner, self._now) + seconds
        self._held[run.owner] -= 1
        run.state = State.IDLE
        if run.requests or run in self.active:
            # No notify: who hands it back takes the next run of the line itself.
            self._put_in_line(run)
        elif all(run.owner != other.owner for other in (*self._line, *self.active)):
            del self._had[run.owner]
        self._held += Counter()  # drops the zeros

    def _precedence(self, run: Job) -> tuple[bool, float, int]:
        """The smallest comes first: who asks, who has had least, whom no worker serves now."""
        return not run.requests, self._had[run.owner], self._held[run.owner]

    def _waiting(self) -> list[Job]:
        """The queue in the order in which its runs will train: who has fewest comes first."""
        before = Counter(run.owner for run in self.active)
        rank = {}
        for run in self._queue:
            rank[run] = before[run.owner]
            before[run.owner] += 1
        return sorted(self._queue, key=rank.__getitem__)

    def _activate(self, run: Job) -> None:
        self.active.add(run)
        run.admitted()
        if run.state is State.IDLE:
            self._put_in_line(run)
            self.lock.notify()

    def _put_in_line(self, run: Job) -> None:
        run.state = State.IN_LINE
        self._line[run] = None
        # Time in which a visitor had nothing to do is not saved up.
        self._had[run.owner] = max(self._had.get(run.owner, 0.0), self._now)
