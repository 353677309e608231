"""Background runs: a few worker threads step every visitor's run in turn.

A page starts a run, posts requests to it (pause, another probe, a checkpoint) and reads views of
it. Only the worker that holds a run touches its live model: it trains for a short slice of time,
or serves what was posted, and hands the run back. A run is either idle, in the line, or with one
worker; all of this book-keeping happens under one lock, the training does not.
"""

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from functools import partial
from typing import Any

import numpy as np

from core import checkpoint
from core.config import ModelConfig, TrainConfig
from core.device import Device, choose_device
from core.tasks import Task
from core.train import Change, Diverged, Trainer, check_fits
from playground.frames import (
    MAX_FRAME_BYTES,
    MAX_PROBE,
    STAGES,
    Album,
    Frame,
    look_closer,
    take_frame,
)

log = logging.getLogger(__name__)


def _limit(name: str, default: int) -> int:
    return int(os.environ.get(f"PLAYGROUND_{name}") or default)


# Each limit can be set by an environment variable: PLAYGROUND_MAX_PARAMETERS and so on.
MAX_PARAMETERS = _limit("MAX_PARAMETERS", 20_000_000)  # of one model
MAX_TOKENS = _limit("MAX_TOKENS", 65_536)  # read in one step
MAX_ACTIVE = _limit("MAX_ACTIVE", 32)  # runs that train at once; more wait in a queue
MAX_RUNS = _limit("MAX_RUNS", 96)  # runs in memory, paused and ended ones too
MAX_MEMORY = _limit("MAX_MEMORY", 4_000_000_000)  # bytes of all runs, by `estimated_memory`
GRACE = 20.0  # seconds a run outlives its visitor's session

SLICE = 0.04  # seconds a run trains before the next one gets its turn
FRAME_INTERVAL = 0.5  # seconds between frames, at least
FRAME_SHARE, CLOSER_SHARE = 0.03, 0.01  # of a run's training time, for looking at it
FRAME_CREDIT = 0.25  # seconds of looking ahead of that, shared by the runs that train


class Status(StrEnum):
    QUEUED = "queued"  # not built yet, or waiting until fewer runs train
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    FAILED = "failed"


@dataclass(frozen=True)
class Spec:
    """Everything that decides a run."""

    model: ModelConfig
    task: Task
    training: TrainConfig
    probe: str | None = None  # the visitor's own example; None takes the task's
    label: str = ""

    def changed(self, **hot: Any) -> "Spec":
        """The same run with some hot knobs turned.

        Raises:
            ValueError: a knob that is not hot, or an illegal value.
        """
        of_model, of_training = ModelConfig.hot(), TrainConfig.hot()
        if cold := sorted(set(hot) - set(of_model + of_training)):
            raise ValueError(
                f"{', '.join(cold)} cannot change while a run goes on; "
                f"only {', '.join(of_model + of_training)} can"
            )
        model = {name: value for name, value in hot.items() if name in of_model}
        training = {name: value for name, value in hot.items() if name in of_training}
        return replace(
            self, model=replace(self.model, **model), training=replace(self.training, **training)
        )


def step_tokens(spec: Spec) -> int:
    """Tokens that the model reads in one step."""
    inputs = spec.task.probe(spec.model.architecture).inputs
    return spec.training.batch_size * sum(tokens.shape[1] for tokens in inputs)


def estimated_memory(spec: Spec) -> int:
    """Bytes that a run takes, roughly: weights, optimiser, one step's activations, frames."""
    model = spec.model
    weights = 4 * 4 * model.n_parameters  # the weights, their gradient and AdamW's two moments
    a_layer = 16 * model.d_model + 3 * model.d_hidden
    layers = model.n_layers * (2 if model.architecture == "encoder-decoder" else 1)
    activations = 4 * step_tokens(spec) * (layers * a_layer + 4 * model.vocab_size)
    shown = min(MAX_PROBE, model.max_len) ** 2
    maps = 3 * layers if model.architecture == "encoder-decoder" else 2 * layers
    frame = 4 * len(STAGES) * maps * model.n_heads * shown
    return weights + activations + max(MAX_FRAME_BYTES, 2 * frame)


def check_limits(spec: Spec) -> None:
    """Refuse a run that is too large for this server.

    Raises:
        ValueError: names the number, the limit and what to make smaller.
    """
    if (n := spec.model.n_parameters) > MAX_PARAMETERS:
        raise ValueError(
            f"{n:,} parameters: the limit here is {MAX_PARAMETERS:,}; "
            f"make d_model={spec.model.d_model} or n_layers={spec.model.n_layers} smaller"
        )
    if (n := step_tokens(spec)) > MAX_TOKENS:
        raise ValueError(
            f"batch_size={spec.training.batch_size} reads {n:,} tokens a step: the limit here is "
            f"{MAX_TOKENS:,}; make it or the task's length smaller"
        )
    if (n := estimated_memory(spec)) > MAX_MEMORY:
        raise ValueError(
            f"the run needs about {n / 1e6:,.0f} MB: the limit here is {MAX_MEMORY / 1e6:,.0f} MB; "
            f"make d_model, n_layers or batch_size={spec.training.batch_size} smaller"
        )


@dataclass(frozen=True)
class View:
    """A run as a page reads it: nothing in it changes any more. Arrays have one entry a step."""

    status: Status
    message: str  # why a run diverged or failed, else empty
    queue_place: int | None  # 1 is next; None: not waiting
    busy: bool  # a request is still being served
    spec: Spec  # as asked for, hot changes included
    version: int  # grows with every change
    steps: np.ndarray
    loss: np.ndarray
    lr: np.ndarray
    grad_norm: np.ndarray
    layer_norms: dict[str, np.ndarray]
    val_steps: np.ndarray
    val_loss: np.ndarray
    val_accuracy: np.ndarray
    frames: tuple[Frame, ...]
    changes: tuple[Change, ...]
    steps_per_second: float  # lately, by the clock on the wall; 0: not known yet
    tokens_per_second: float
    seconds_left: float | None
    seconds_trained: float  # spent in steps

    @property
    def live(self) -> bool:
        """Whether a page should look again soon."""
        return self.busy or self.status in (Status.QUEUED, Status.RUNNING)


class Series:
    """Rows of numbers, float32. It only grows, so a slice of it never changes."""

    def __init__(self, width: int) -> None:
        self._rows = np.empty((256, width), np.float32)
        self.count = 0

    def append(self, *row: float) -> None:
        if self.count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self.count] = row
        self.count += 1

    def columns(self) -> np.ndarray:
        """[width, count], read-only."""
        count = self.count
        columns = self._rows[:count].T
        columns.flags.writeable = False
        return columns


class Allowance:
    """Time for looking: a share of the time that was trained.

    Args:
        share: 0.03 is three seconds in a hundred.
        cost: what a look is thought to cost until one has been made, in seconds.
    """

    def __init__(self, share: float, cost: float) -> None:
        self._share, self._cost, self._spent = share, cost, 0.0

    def covers(self, trained: float, credit: float) -> bool:
        """Whether one more look is affordable after so many seconds of training."""
        return self._spent + self._cost <= self._share * trained + credit

    def spend(self, seconds: float) -> None:
        self._cost = seconds
        self._spent += seconds


class _Seat(Enum):
    IDLE, IN_LINE, WITH_WORKER = range(3)


class Run:
    """One training run. Every public method returns at once."""

    def __init__(self, runs: "Runs", owner: str, spec: Spec) -> None:
        self.owner, self.started = owner, spec
        self._runs, self._lock = runs, runs._lock
        # Under the lock:
        self._spec = spec
        self._memory = estimated_memory(spec)
        self._seat = _Seat.IDLE
        self._posts: deque[Callable[[], None]] = deque()
        self._wish = False  # whether it should be training
        self._resume = False  # whether it goes on when its visitor comes back
        self._outcome: Status | None = None
        self._message = ""
        self._events = 0
        self._freed = False
        # Written by the worker alone:
        self._trainer: Trainer | None = None
        self._probe = spec.task.probe(spec.model.architecture, spec.probe)
        self._album = Album()
        self._steps = Series(0)
        self._layers: list[str] = []
        self._validation = Series(3)
        self._changes: tuple[Change, ...] = ()
        self._tokens = 0  # in the last step
        self._seconds = 0.0  # spent in steps
        self._looks = Allowance(FRAME_SHARE, cost=0.02)
        self._closer_looks = Allowance(CLOSER_SHARE, cost=0.1)
        self._looked = 0.0  # when
        self._marks: deque[tuple[float, int]] = deque(maxlen=16)  # (time, step), for the speed

    # --- for pages ------------------------------------------------------------------------

    def play(self) -> None:
        """Train; wait in the queue if too many do."""
        with self._lock:
            if self._outcome is None and not self._freed:
                self._wish = True
                self._runs._admit(self)

    def pause(self) -> None:
        """Train no further than the step that is being made."""
        self._ask(self._do_pause)

    def step_once(self) -> None:
        """Pause, and make one step."""
        self._ask(self._do_step)

    def stop(self) -> None:
        """End the run within one step. What was learnt can still be looked at and saved."""
        self._ask(self._do_stop)

    def change(self, **hot: Any) -> None:
        """Turn hot knobs; in force from the next step on.

        Raises:
            ValueError: not a hot knob, an illegal value, or too large; nothing has changed then.
        """
        with self._lock:
            spec = self._spec.changed(**hot)
            check_limits(spec)
            self._spec, self._memory = spec, estimated_memory(spec)
            if self._outcome is Status.DONE and self._steps.count < spec.training.steps:
                self._outcome = None  # more steps are asked for: it can go on
            self._post(partial(self._do_change, hot))

    def show(self, probe: str | None) -> None:
        """Look at another example; None is the task's own.

        Raises:
            ValueError: the text is no example of the task; the old one stays then.
        """
        batch = self._spec.task.probe(self._spec.model.architecture, probe)
        with self._lock:
            self._spec = replace(self._spec, probe=probe)
            self._post(partial(self._do_show, batch))

    def checkpoint(self) -> "Future[bytes]":
        """The run as it is between two steps, as a file's bytes.

        The future raises ValueError where there is nothing to save.
        """
        future: Future[bytes] = Future()
        with self._lock:
            if self._freed:
                future.set_exception(_gone())
            self._post(partial(self._do_checkpoint, future))
        return future

    def view(self) -> View:
        """The run as it is now."""
        with self._lock:
            status, place = self._status(), self._runs._place(self)
            spec, message = self._spec, self._message
            busy = bool(self._posts) or (self._seat is _Seat.WITH_WORKER and not self._wish)
            version = self._events + self._steps.count + self._album.taken
        loss, lr, grad_norm, *layers = self._steps.columns() if self._layers else np.empty((3, 0))
        val_steps, val_loss, val_accuracy = self._validation.columns()
        speed = self._speed()
        left = spec.training.steps - len(loss)
        return View(
            status=status,
            message=message,
            queue_place=place,
            busy=busy,
            spec=spec,
            version=version,
            steps=np.arange(1, len(loss) + 1),
            loss=loss,
            lr=lr,
            grad_norm=grad_norm,
            layer_norms=dict(zip(self._layers, layers, strict=True)),
            val_steps=val_steps.astype(int),
            val_loss=val_loss,
            val_accuracy=val_accuracy,
            frames=self._album.frames,
            changes=self._changes,
            steps_per_second=speed,
            tokens_per_second=speed * self._tokens,
            seconds_left=left / speed if speed and status is Status.RUNNING else None,
            seconds_trained=self._seconds,
        )

    def _status(self) -> Status:
        if self._outcome is not None:
            return self._outcome
        if self._runs._place(self) is not None or self._trainer is None:
            return Status.QUEUED
        # A run that is asked to pause still runs until it has paused.
        return Status.RUNNING if self._runs._trains(self) else Status.PAUSED

    def _speed(self) -> float:
        marks = list(self._marks)
        if len(marks) < 2 or marks[-1][0] == marks[0][0]:
            return 0.0
        return (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])

    def _ask(self, request: Callable[[], None]) -> None:
        with self._lock:
            self._wish = False
            self._post(request)

    def _post(self, request: Callable[[], None]) -> None:
        if not self._freed:
            self._events += 1
            self._posts.append(request)
            self._runs._call(self)

    # --- for the worker that holds the run ------------------------------------------------

    def _take_turn(self) -> None:
        """Serve what was posted, or train for a slice. Whatever goes wrong ends this run only."""
        try:
            if self._posts:
                while self._posts:
                    self._posts.popleft()()
            elif self._trainer is not None:
                self._train(time.perf_counter() + SLICE)
        except Diverged as end:
            end.with_traceback(None)  # it would keep the step's tensors
            self._finish(Status.DIVERGED, str(end))
            self._posts.append(self._look_if_moved)
        except Exception as error:
            self._trainer = None
            log.exception("run %r failed", self.started.label)
            self._finish(Status.FAILED, _in_words(error, self._spec))

    def _train(self, end: float) -> None:
        while True:
            self._step()
            if self._outcome is not None:
                return
            credit = FRAME_CREDIT / max(1, self._runs.active())
            waited = time.perf_counter() - self._looked
            if waited >= FRAME_INTERVAL and self._looks.covers(self._seconds, credit):
                self._look(closely=self._closer_looks.covers(self._seconds, credit))
            if self._posts or time.perf_counter() >= end:
                return

    def _step(self) -> None:
        """One step, or the end of the run."""
        if self._trainer.step_count < self._trainer.config.steps:
            step = self._trainer.step()
            self._steps.append(step.loss, step.lr, step.grad_norm, *step.layer_norms.values())
            self._tokens = step.tokens
            self._seconds += step.seconds
            now = time.perf_counter()
            if len(self._marks) < 2 or now - self._marks[-1][0] > 0.25:
                self._marks.append((now, step.step))
        if self._trainer.step_count >= self._trainer.config.steps:
            self._look(closely=True)
            self._finish(Status.DONE)

    def _look(self, closely: bool = False) -> None:
        """Take a frame and publish it."""
        if self._trainer is None:
            return
        start, last = time.perf_counter(), self._album.last
        frame = take_frame(self._trainer, self._probe, last)
        self._looked = time.perf_counter()
        self._looks.spend(self._looked - start)
        if closely:
            frame = look_closer(self._trainer, frame, interrupted=partial(bool, self._posts))
            self._closer_looks.spend(time.perf_counter() - self._looked)
        if not np.isfinite(frame.loss):
            return
        if last is None or (last.step, last.loss) != (frame.step, frame.loss):
            self._validation.append(frame.step, frame.loss, frame.accuracy)
        self._album.add(frame)

    def _look_if_moved(self) -> None:
        if self._album.last is None or self._album.last.step != self._steps.count:
            self._look()

    def _finish(self, status: Status, message: str = "") -> None:
        with self._lock:
            self._outcome, self._message, self._wish = status, message, False
            self._runs._withdraw(self)

    def _do_build(self) -> None:
        if self._freed:
            return
        spec = self.started
        self._trainer = Trainer(spec.model, spec.task, spec.training, self._runs.device)
        self._steps = Series(3 + len(self._trainer.layers))
        self._layers = list(self._trainer.layers)
        self._look()
        self._looks = Allowance(FRAME_SHARE, cost=0.02)  # the first look prepared the others: free

    def _do_pause(self) -> None:
        if self._outcome is None:
            self._look_if_moved()
            with self._lock:
                if not self._wish:  # nobody pressed Play since
                    self._runs._withdraw(self)

    def _do_step(self) -> None:
        if self._outcome is None:
            self._step()
            self._look_if_moved()
            with self._lock:
                if not self._wish:
                    self._runs._withdraw(self)

    def _do_stop(self) -> None:
        if self._outcome is None:
            self._finish(Status.STOPPED)
            self._look_if_moved()

    def _do_change(self, hot: dict[str, Any]) -> None:
        if self._trainer is None:
            return
        self._trainer.change(**hot)
        self._changes = tuple(self._trainer.changes)
        self._look()

    def _do_show(self, probe: Any) -> None:
        self._probe = probe
        self._look()

    def _do_checkpoint(self, future: "Future[bytes]") -> None:
        try:
            if self._trainer is None:
                raise _gone()
            future.set_result(checkpoint.to_bytes(checkpoint.snapshot(self._trainer)))
        except Exception as error:
            future.set_exception(error)

    def _do_free(self) -> None:
        self._trainer = None
        if self._outcome is None:
            self._finish(Status.STOPPED)


def _gone() -> ValueError:
    return ValueError("this run is no longer in memory: there is nothing to save")


def _in_words(error: Exception, spec: Spec) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    if isinstance(error, MemoryError) or any(
        words in text for words in ("out of memory", "allocate memory", "not enough memory")
    ):
        return (
            f"out of memory: this run needs about {estimated_memory(spec) / 1e6:,.0f} MB; make "
            f"batch_size={spec.training.batch_size}, d_model={spec.model.d_model}, "
            f"n_layers={spec.model.n_layers} or the task's length smaller"
        )
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


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
        self.max_active, self.max_runs, self.grace = max_active, max_runs, grace
        self._workers, self._device = workers, device
        self._lock = threading.Condition(threading.RLock())
        self._runs: list[Run] = []
        self._line: deque[Run] = deque()  # runs that have something to do, next one first
        self._active: set[Run] = set()  # runs that train
        self._queue: list[Run] = []  # runs that wait until they may
        self._left: dict[str, float] = {}  # owner -> when its runs are freed
        self._threads: list[threading.Thread] = []
        self._closing = False

    @property
    def device(self) -> Device:
        """Where all runs are computed."""
        if self._device is None:
            self._device = choose_device()
        return self._device

    def start(self, owner: str, spec: Spec, play: bool = True) -> Run:
        """Put a run to work; it is built in the background.

        Raises:
            ValueError: a spec that does not fit together, or is too large for this server.
        """
        check_fits(spec.model, spec.task)
        self.device.check(spec.training.precision)
        check_limits(spec)
        run = Run(self, owner, spec)
        with self._lock:
            if len(self._runs) >= self.max_runs:
                raise ValueError(
                    f"{len(self._runs)} runs are open: the limit here is {self.max_runs}; "
                    "try again when another visitor has left"
                )
            taken = sum(run._memory for run in self._runs)
            if taken + run._memory > MAX_MEMORY:
                raise ValueError(
                    f"the run needs about {run._memory / 1e6:,.0f} MB and the "
                    f"{len(self._runs)} open ones take {taken / 1e6:,.0f} MB: the limit here is "
                    f"{MAX_MEMORY / 1e6:,.0f} MB; make it smaller or try again later"
                )
            self._runs.append(run)
            run._post(run._do_build)
            if play:
                run.play()
            self._start_threads()
        return run

    def of(self, owner: str) -> list[Run]:
        """A visitor's runs, oldest first."""
        with self._lock:
            return [run for run in self._runs if run.owner == owner]

    def leave(self, owner: str) -> None:
        """The visitor's session ended: pause now, free after the grace period."""
        with self._lock:
            if owner in self._left or not self._threads:
                return
            for run in self.of(owner):
                run._resume = run._wish
                run.pause()
            self._left[owner] = time.monotonic() + self.grace
            self._lock.notify()  # somebody has to watch the clock

    def come_back(self, owner: str) -> None:
        """The session goes on: so do its runs that trained when it left."""
        with self._lock:
            if self._left.pop(owner, None) is None:
                return
            for run in self.of(owner):
                if run._resume:
                    run.play()

    def discard(self, run: Run) -> None:
        """Stop a run and forget it; its memory is free within one step."""
        with self._lock:
            if run in self._runs:
                self._runs.remove(run)
                run._ask(run._do_free)
                run._freed = True

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
            while self._line:
                run = self._line.popleft()
                run._seat = _Seat.WITH_WORKER
                run._take_turn()
            self._threads.clear()
            self._left.clear()
            self._closing = False
        atexit.unregister(self.close)

    def active(self) -> int:
        """Runs that train now."""
        return len(self._active)

    def threads(self) -> int:
        """Worker threads that are alive."""
        return sum(thread.is_alive() for thread in self._threads)

    # --- under the lock -------------------------------------------------------------------

    def _start_threads(self) -> None:
        if self._threads or self._closing:
            return
        count = self._workers or int(os.environ.get("PLAYGROUND_WORKERS") or 0)
        count = count or ((os.cpu_count() or 1) if self.device.kind == "cpu" else 1)
        for i in range(count):
            thread = threading.Thread(target=self._work, name=f"run-worker-{i}", daemon=True)
            self._threads.append(thread)
            thread.start()
        atexit.register(self.close)

    def _place(self, run: Run) -> int | None:
        return self._queue.index(run) + 1 if run in self._queue else None

    def _trains(self, run: Run) -> bool:
        return run in self._active

    def _admit(self, run: Run) -> None:
        """Let a run train, or put it at the end of the queue."""
        if run in self._active or run in self._queue:
            return
        run._events += 1
        if len(self._active) >= self.max_active:
            self._queue.append(run)
            return
        self._active.add(run)
        run._marks.clear()
        if run._seat is _Seat.IDLE:
            self._put_in_line(run)

    def _withdraw(self, run: Run) -> None:
        """Let a run train no longer, and the next one of the queue instead."""
        run._events += 1
        self._active.discard(run)
        if run in self._queue:
            self._queue.remove(run)
        for other in self._queue:
            other._events += 1
        while self._queue and len(self._active) < self.max_active:
            self._admit(self._queue.pop(0))

    def _call(self, run: Run) -> None:
        """A request waits: it is served next, before others train on."""
        if run._seat is _Seat.IN_LINE:
            self._line.remove(run)
        if run._seat is not _Seat.WITH_WORKER:
            self._put_in_line(run, first=True)

    def _put_in_line(self, run: Run, first: bool = False) -> None:
        run._seat = _Seat.IN_LINE
        (self._line.appendleft if first else self._line.append)(run)
        self._lock.notify()

    def _free_who_left(self) -> None:
        now = time.monotonic()
        for owner in [owner for owner, end in self._left.items() if end <= now]:
            del self._left[owner]
            for run in self.of(owner):
                self.discard(run)

    # --- workers --------------------------------------------------------------------------

    def _work(self) -> None:
        while (run := self._next()) is not None:
            run._take_turn()
            with self._lock:
                run._seat = _Seat.IDLE
                if run._posts or run in self._active:
                    # No notify: this worker takes the next run of the line itself.
                    run._seat = _Seat.IN_LINE
                    self._line.append(run)
            del run  # an idle worker keeps no run in memory

    def _next(self) -> Run | None:
        """Wait for a run that has something to do; None when the server closes."""
        with self._lock:
            while not self._closing:
                self._free_who_left()
                if self._line:
                    run = self._line.popleft()
                    run._seat = _Seat.WITH_WORKER
                    return run
                ends = self._left.values()
                self._lock.wait(min(ends) - time.monotonic() if ends else None)
        return None


RUNS = Runs()
