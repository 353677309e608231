"""Whose turn it is, and who may train at all."""

import threading
from collections import deque
from collections.abc import Collection
from enum import Enum
from typing import Any, Protocol


class State(Enum):
    """Where a run is."""

    IDLE, IN_LINE, WITH_WORKER = range(3)


class Job(Protocol):
    """What is known here of a run."""

    state: State
    requests: Collection[Any]  # requests that wait for a worker

    def admitted(self) -> None:
        """It trains from now on."""


class Schedule:
    """The line of runs that have something to do, and the queue of those that may not train yet.

    Every method is to be called under `lock`.
    """

    def __init__(self, max_active: int) -> None:
        self.max_active = max_active
        self.lock = threading.Condition(threading.RLock())
        self.active: set[Job] = set()  # runs that train
        self._queue: list[Job] = []  # runs that wait until they may
        self._line: deque[Job] = deque()  # next one first

    def position(self, run: Job) -> int | None:
        """Its position in the queue: 1 is next, None is not waiting."""
        return self._queue.index(run) + 1 if run in self._queue else None

    def admit(self, run: Job) -> None:
        """Let a run train, or put it at the end of the queue."""
        if run in self.active or run in self._queue:
            return
        if len(self.active) >= self.max_active:
            self._queue.append(run)
            return
        self.active.add(run)
        run.admitted()
        if run.state is State.IDLE:
            self._put_in_line(run)

    def withdraw(self, run: Job) -> None:
        """Let a run train no longer, and the next one of the queue instead."""
        self.active.discard(run)
        if run in self._queue:
            self._queue.remove(run)
        while self._queue and len(self.active) < self.max_active:
            self.admit(self._queue.pop(0))

    def call(self, run: Job) -> None:
        """A request waits: it is served next, before others train on."""
        if run.state is State.IN_LINE:
            self._line.remove(run)
        if run.state is not State.WITH_WORKER:
            self._put_in_line(run, first=True)

    def take(self) -> Job | None:
        """The run whose turn it is, now with the caller."""
        if not self._line:
            return None
        run = self._line.popleft()
        run.state = State.WITH_WORKER
        return run

    def hand_back(self, run: Job) -> None:
        """After its turn a run goes to the end of the line, if it has more to do."""
        run.state = State.IDLE
        if run.requests or run in self.active:
            # No notify: who hands it back takes the next run of the line itself.
            run.state = State.IN_LINE
            self._line.append(run)

    def _put_in_line(self, run: Job, first: bool = False) -> None:
        run.state = State.IN_LINE
        (self._line.appendleft if first else self._line.append)(run)
        self.lock.notify()
