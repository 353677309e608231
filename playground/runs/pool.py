"""Background runs: a few worker threads step every visitor's run in turn.

A page starts a run, asks things of it (pause, another probe, a checkpoint) and reads views of
it. Only the worker that holds a run touches its live model: it trains for a short slice of time,
or serves what was posted, and hands the run back. A run is either idle, in the line, or with one
worker; all of this book-keeping happens under one lock, the training does not.

Visitors share places, memory and time. A place is an open run; one that has ended takes none, and
where memory is short it gives up its model and all pictures but the last.
"""

import atexit
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from core.device import Device, choose_device
from playground.runs import limits
from playground.runs.limits import (
    MAX_ACTIVE,
    MAX_RUNS,
    Memory,
    check_limits,
    check_memory,
    check_share,
    memory_of,
    setting,
    together,
)
from playground.runs.run import SLICE, Run
from playground.runs.saved_run import SavedRun
from playground.runs.scheduler import Schedule
from playground.runs.spec import Spec

GRACE = 20.0  # seconds a run outlives its visitor's session
NICE = 5  # how far threads that train stand behind those that draw pages


class _Absence(NamedTuple):
    """A visitor who left."""

    end: float  # when the runs are freed
    resume: list[Run]  # those that train on if the visitor comes back before


class Runs:
    """All runs of the server and the threads that train them.

    Args:
        workers: threads; None is PLAYGROUND_WORKERS, or one per core (on a GPU one).
        grace: seconds until the runs of a visitor who left are freed.
    """

    def __init__(
        self,
        workers: int | None = None,
        max_active: int = MAX_ACTIVE,
        max_runs: int = MAX_RUNS,
        grace: float = GRACE,
        device: Device | None = None,
    ) -> None:
        self.max_runs, self.grace = max_runs, grace
        # Called with every run that has ended, by its worker, or that is discarded, under the lock.
        self.on_end: list[Callable[[Run], None]] = []
        self._workers, self._device = workers, device
        self._schedule = Schedule(max_active)
        self._lock = self._schedule.lock
        self._runs: list[Run] = []
        self._left: dict[str, _Absence] = {}  # by owner
        self._threads: list[threading.Thread] = []
        self._closing = False

    @cached_property
    def workers(self) -> int:
        """Threads that train, and so the runs of which a step is made at the same time."""
        cores = (os.cpu_count() or 1) if self.device.kind == "cpu" else 1
        return self._workers or setting("WORKERS", cores)

    @property
    def device(self) -> Device:
        """Where all runs are computed."""
        if self._device is None:
            self._device = choose_device()
        return self._device

    def check_settings(self) -> None:
        """Read what the environment says of workers and device, before anybody waits for them.

        Raises:
            ValueError: PLAYGROUND_WORKERS or PLAYGROUND_DEVICE is none that there can be.
        """
        _ = self.device, self.workers

    def start(
        self,
        owner: str,
        spec: Spec,
        play: bool = True,
        saved: SavedRun | None = None,
        instead: Collection[Run] = (),
    ) -> Run:
        """Put a run to work; it is built in the background.

        Args:
            saved: resume from there, instead of starting at step 0 with `spec`.
            instead: the visitor's runs that it replaces; they stay if it is refused.

        Raises:
            ValueError: a spec that does not fit together, is too large for this server, or is
                more than the visitor's share.
        """
        return self._start(owner, [spec], play, instead, saved)[0]

    def start_all(
        self, owner: str, specs: Sequence[Spec], play: bool = True, instead: Collection[Run] = ()
    ) -> list[Run]:
        """Put several runs to work, or none; see `start`."""
        return self._start(owner, specs, play, instead)

    def _start(
        self,
        owner: str,
        specs: Sequence[Spec],
        play: bool,
        instead: Collection[Run],
        saved: SavedRun | None = None,
    ) -> list[Run]:
        with self._lock:
            self._check_room(owner, specs, instead)
            for run in instead:
                self.discard(run)
            started = [Run(owner, spec, self._schedule, self.device, saved) for spec in specs]
            self._runs += started
            self._make_room()
            self._start_threads()
            for run in started:
                if play:
                    run.play()
            return started

    def of(self, owner: str) -> list[Run]:
        """A visitor's runs, oldest first."""
        with self._lock:
            return [run for run in self._runs if run.owner == owner]

    def leave(self, owner: str) -> None:
        """The visitor's session ended: pause now, free after the grace period."""
        with self._lock:
            if owner in self._left or not self._threads:
                return
            resume = [run for run in self.of(owner) if run.requested]
            self._left[owner] = _Absence(time.monotonic() + self.grace, resume)
            for run in self.of(owner):
                run.pause()
            self._lock.notify()  # somebody has to watch the clock

    def come_back(self, owner: str) -> None:
        """The session is back: its runs that trained when it left train on."""
        with self._lock:
            if absence := self._left.pop(owner, None):
                for run in absence.resume:
                    run.play()

    def discard(self, run: Run) -> None:
        """Stop a run and delete it; its memory is free within one step."""
        with self._lock:
            if run in self._runs:
                self._runs.remove(run)
                self._tell_end(run)
                run.free()

    def _tell_end(self, run: Run) -> None:
        for hear in self.on_end:
            hear(run)

    def close(self) -> None:
        """End all runs and threads; returns when the steps being made are over."""
        with self._lock:
            for run in list(self._runs):
                self.discard(run)
            self._closing = True
            self._lock.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()
        with self._lock:
            while run := self._schedule.take():
                run.take_turn()  # all that is left is to free it
            self._threads.clear()
            self._left.clear()
            self._closing = False
        atexit.unregister(self.close)

    def active(self) -> int:
        """Runs that train now."""
        return len(self._schedule.active)

    def threads(self) -> int:
        """Worker threads that are alive."""
        return sum(thread.is_alive() for thread in self._threads)

    # --- under the lock -------------------------------------------------------------------

    def _check_room(self, owner: str, specs: Sequence[Spec], instead: Collection[Run]) -> None:
        """Refuse what is too large, more than a share, or more than there is room for.

        What takes no more than the runs that it replaces is never more than a share: whoever had
        more when fewer visitors were there may still turn a knob.
        """
        for spec in specs:
            spec.model.check_fits(spec.task)
            self.device.check(spec.training.precision)
            spec.task.probe(spec.model.form, spec.probe)
            check_limits(spec)
        open_runs = [run for run in self._runs if not run.over]
        mine = [run for run in open_runs if run.owner == owner]
        stay = [run for run in mine if run not in instead]
        visitors = len({owner, *(run.owner for run in open_runs)})
        if len(stay) + len(specs) > len(mine):
            check_share(len(stay), len(specs), visitors, self.max_runs)
        new = [memory_of(spec) for spec in specs]
        needed = self._memory([*(run.memory for run in stay), *new])
        if needed > self._memory(run.memory for run in mine):
            others = [
                run.shown if run.over else run.memory for run in self._runs if run not in mine
            ]
            check_memory(specs[0], needed, needed + self._memory(others), visitors, not mine)

    def _memory(self, runs: Iterable[Memory]) -> int:
        return together(runs, self.workers)

    def _make_room(self) -> None:
        """Let runs that have ended give up their models while memory is short.

        Those of the visitor who has most of them come first, and of these the oldest.
        """
        while self._memory(run.memory for run in self._runs) > limits.MAX_MEMORY:
            ended = [run for run in self._runs if run.ended and not run.forgotten]
            if not ended:
                return
            count = Counter(run.owner for run in ended)
            run = max(ended, key=lambda run: count[run.owner])
            run.forget()

    def _start_threads(self) -> None:
        if self._threads or self._closing:
            return
        for i in range(self.workers):
            thread = threading.Thread(target=self._work, name=f"run-worker-{i}", daemon=True)
            self._threads.append(thread)
            thread.start()
        atexit.register(self.close)

    def _free_who_left(self) -> None:
        now = time.monotonic()
        for owner in [owner for owner, absence in self._left.items() if absence.end <= now]:
            del self._left[owner]
            for run in self.of(owner):
                self.discard(run)

    # --- workers --------------------------------------------------------------------------

    def _work(self) -> None:
        if sys.platform == "linux":  # elsewhere a thread has no niceness of its own
            os.nice(NICE)
        while (run := self._next()) is not None:
            asked, start = bool(run.requests), time.thread_time()
            run.take_turn()
            spent = time.thread_time() - start  # what else keeps the machine busy is nobody's fault
            if run.ended:
                self._tell_end(run)
            with self._lock:
                # An answer costs a slice, as a turn that ended early does.
                self._schedule.hand_back(run, SLICE if asked else max(SLICE, spent))
            del run  # an idle worker keeps no run in memory

    def _next(self) -> Run | None:
        """Wait for a run that has something to do; None when the server closes."""
        with self._lock:
            while not self._closing:
                self._free_who_left()
                if run := self._schedule.take():
                    return run
                ends = [absence.end for absence in self._left.values()]
                self._lock.wait(min(ends) - time.monotonic() if ends else None)
        return None


RUNS = Runs()
