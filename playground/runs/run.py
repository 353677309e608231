"""One run: what its page asks of it, and how the worker that holds it serves that.

Only that worker touches the live model, between two steps. Requests are posted and return at once.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from core.device import Device
from core.tasks import Batch
from core.train import Diverged, Trainer
from playground.runs.limits import Memory, check_limits, failure_in_words, frame_bytes, memory_of
from playground.runs.saved_run import SavedRun, save
from playground.runs.scheduler import Schedule, State
from playground.runs.snapshot import Level, evaluation_cost, take_frame
from playground.runs.spec import Spec
from playground.runs.view import Record, Status, View
from playground.runs.watch import Watch, planned

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

SLICE = 0.04  # seconds a run trains before the next one gets its turn


class Run:
    """One training run. Every public method returns at once."""

    def __init__(
        self,
        owner: str,
        spec: Spec,
        schedule: Schedule,
        device: Device,
        saved: SavedRun | None = None,
    ) -> None:
        self.owner, self.started = owner, saved.began if saved else spec
        self._schedule, self._lock, self._device = schedule, schedule.lock, device
        # Under the lock:
        self.state = State.IDLE
        self.requests: deque[Callable[[], None]] = deque()
        self.requested = False  # whether it should be training
        self.memory = memory_of(spec)
        self.forgotten = False  # whether its model is given up
        self._spec = spec
        self.resumed = saved.trainer.step_count if saved else 0  # steps of an earlier run
        over = saved is not None and self.resumed >= spec.training.steps
        self._outcome: Status | None = Status.DONE if over else None
        self._message = ""
        self._freed = False
        # Written by the worker alone:
        self.record = saved.record if saved else Record()
        self._saved = saved  # until it has been built
        self._trainer: Trainer | None = None
        self._probe = spec.task.probe(spec.model.form, spec.probe)
        self._watch = Watch()
        with self._lock:
            self._post(self._do_build)

    # --- for pages ------------------------------------------------------------------------

    def play(self) -> None:
        """Train; wait in the queue if too many do."""
        with self._lock:
            if self._outcome is None and not self._freed:
                self.requested = True
                self._schedule.admit(self)

    def pause(self) -> None:
        """Train no further than the step that is being made."""
        self._halt(self._do_pause)

    def step_once(self) -> None:
        """Pause, and make one step."""
        self._halt(self._do_step)

    def change(self, target: Spec) -> None:
        """Turn the hot knobs in which another spec differs; in force from the next step on.

        Raises:
            ValueError: not a hot knob, an illegal value, or too large; nothing has changed then.
        """
        with self._lock:
            if self.forgotten:
                raise _gone()
            hot = dict(self._spec.changes_to(target))
            spec = self._spec.turned(hot)
            check_limits(spec)
            self._spec, self.memory = spec, memory_of(spec)
            if self._outcome is Status.DONE and len(self.record) < spec.training.steps:
                self._outcome = None  # more steps are asked for: it can continue
            self._post(partial(self._do_change, hot))

    def show(self, probe: str | None) -> None:
        """Look at another example; None is the task's own.

        Raises:
            ValueError: the text is not an example of the task; the old one stays then.
        """
        batch = self._spec.task.probe(self._spec.model.form, probe)
        with self._lock:
            self._spec = replace(self._spec, probe=probe)
            self._post(partial(self._do_show, batch))

    def ask(self, question: Callable[[Trainer], Answer]) -> "Future[Answer]":
        """The worker's answer to a question about the live model, between two steps.

        Args:
            question: called in the worker's thread, and leaves the trainer as it is.

        The future raises what the question raises, and ValueError where there is no model.
        """
        future: Future[Answer] = Future()
        with self._lock:
            if self._freed:
                future.set_exception(_gone())
            self._post(partial(self._do_answer, question, future))
        return future

    def checkpoint(self) -> "Future[bytes]":
        """The run as it is between two steps, as a file's bytes.

        The future raises ValueError where there is nothing to save.
        """
        began = replace(self.started, probe=self._spec.probe)  # typed at any time
        return self.ask(lambda trainer: save(trainer, self.record, began))

    def forget(self) -> None:
        """Give up the model of a run that has ended: its curve and its last picture stay."""
        with self._lock:
            self.forgotten, self.memory = True, self.shown
            self._post(self._do_forget)

    @property
    def shown(self) -> Memory:
        """What it takes without its model."""
        return Memory(frame_bytes(self._spec))

    def free(self) -> None:
        """End the run for good, within one step; its model is forgotten."""
        with self._lock:
            self._halt(self._do_free)
            self._freed = True

    @property
    def over(self) -> bool:
        """Whether it makes no further step."""
        return self._outcome is not None

    @property
    def ended(self) -> bool:
        """Whether it is over, its last picture included."""
        return self._outcome is not None and not self.requests and not self._freed

    def view(self) -> View:
        """The run as it is now, for a page: while it is looked at, it takes live pictures."""
        self._watch.seen()
        with self._lock:
            place = self._schedule.position(self)
            now = {
                "status": self._status(place),
                "message": self._message,
                "queue_position": place,
                "busy": bool(self.requests)
                or (self.state is State.WITH_WORKER and not self.requested),
                "spec": self._spec,
                "began": self.started,
            }
        return self.record.view(**now)

    def _status(self, place: int | None) -> Status:
        if self._outcome is not None:
            return self._outcome
        if place is not None or self._trainer is None:
            return Status.QUEUED
        # A run that is asked to pause still runs until it has paused.
        return Status.RUNNING if self in self._schedule.active else Status.PAUSED

    def _halt(self, request: Callable[[], None]) -> None:
        """Post what ends the request to train."""
        with self._lock:
            self.requested = False
            self._post(request)

    def _post(self, request: Callable[[], None]) -> None:
        if not self._freed:
            self.requests.append(request)
            self._schedule.call(self)

    def admitted(self) -> None:
        """The schedule lets it train from now on."""
        self.record.forget_speed()

    # --- for the worker that holds the run ------------------------------------------------

    def take_turn(self) -> None:
        """Serve what was posted, or train for a slice. Whatever goes wrong ends this run only."""
        try:
            if self.requests:
                while self.requests:
                    self.requests.popleft()()
            elif self._trainer is not None:
                self._train(time.perf_counter() + SLICE)
        except Diverged as end:
            end.with_traceback(None)  # it would keep the step's tensors
            self._finish(Status.DIVERGED, str(end))
            self.requests.append(self._refresh)
        except Exception as error:
            self._trainer = None
            log.exception("run %r failed", self.started.label)
            self._finish(Status.FAILED, failure_in_words(error, self._spec))

    def _train(self, end: float) -> None:
        while True:
            self._step()
            if self._outcome is not None:
                return
            self._watch_step()
            if self.requests or time.perf_counter() >= end:
                return

    def _step(self) -> None:
        """One step, or the end of the run."""
        if self._trainer.step_count < self._trainer.config.steps:
            with self._watch.training():
                step = self._trainer.step()
            self.record.add_step(step)
        if self._trainer.step_count >= self._trainer.config.steps:
            self._look(Level.GENERATION)
            self._finish(Status.DONE)

    def _watch_step(self) -> None:
        """Take the frame of this step, if there is to be one."""
        if (level := self._planned()) is not None:
            self._look(self._watch.closer(level), self._watch.charged)
        elif self._watch.live(n_active=len(self._schedule.active)):
            with self._watch.taking_live():
                self._look(Level.PROBE)

    def _planned(self) -> Level | None:
        """How closely the present step is looked at in every run like this one."""
        trainer, changes = self._trainer, self.record.changes
        changed = changes[-1].step if changes else None
        step, steps = trainer.step_count, trainer.config.steps
        return planned(step, steps, changed, evaluation_cost(trainer))

    def _look(
        self,
        level: Level = Level.VALIDATION,
        charged: Callable[[Level], AbstractContextManager] = nullcontext,
    ) -> None:
        """Show pages a frame, unless the model has nothing finite to show.

        It is kept if it belongs to the run: at a planned step, at a change, or at the end.
        """
        if self._trainer is None:
            return
        last, asked = self.record.last, self._interrupted
        frame = take_frame(self._trainer, self._probe, last, level, asked, charged)
        ends = frame.step >= self._trainer.config.steps
        turned = any(change.step == frame.step for change in self.record.changes)
        if frame.finite:
            self.record.add_frame(frame, kept=ends or turned or self._planned() is not None)

    def _interrupted(self) -> bool:
        """Whether somebody waits for the worker."""
        return bool(self.requests)

    def _refresh(self) -> None:
        """Let the last frame be of the last step, all of it measured."""
        if self.record.last is None or self.record.last.measured_at != len(self.record):
            self._look()

    def _stop_training(self) -> None:
        """Train no further, unless somebody pressed Play since."""
        self._refresh()
        with self._lock:
            if not self.requested:
                self._schedule.withdraw(self)

    def _finish(self, status: Status, message: str = "") -> None:
        with self._lock:
            self._outcome, self._message, self.requested = status, message, False
            self._schedule.withdraw(self)

    def _do_build(self) -> None:
        if self._freed:
            return
        spec, saved, self._saved = self.started, self._saved, None
        if saved is None:
            self._trainer = Trainer(spec.model, spec.task, spec.training, self._device)
            self.record = Record(self._trainer.layers)
        else:
            self._trainer = saved.trainer
        self._look(Level.GENERATION if self._outcome is Status.DONE else Level.VALIDATION)

    def _do_pause(self) -> None:
        if self._outcome is None:
            self._stop_training()

    def _do_step(self) -> None:
        if self._outcome is None:
            self._step()
            self._stop_training()

    def _do_change(self, hot: dict[str, Any]) -> None:
        if self._trainer is not None:
            self._refresh()  # what the knobs before have led to
            self._trainer.change(**hot)
            self.record.changes = tuple(self._trainer.changes)
            self._look()

    def _do_show(self, probe: Batch) -> None:
        self._probe = probe
        self._look(Level.PROBE)

    def _do_answer(self, question: Callable[[Trainer], Answer], future: "Future[Answer]") -> None:
        try:
            if self._trainer is None:
                raise _gone()
            future.set_result(question(self._trainer))
        except Exception as error:
            future.set_exception(error)

    def _do_forget(self) -> None:
        self._trainer = None
        self.record.forget_pictures()

    def _do_free(self) -> None:
        self._trainer = None
        if self._outcome is None:
            self._finish(Status.STOPPED)


def _gone() -> ValueError:
    return ValueError("this run is no longer in memory: there is nothing to save or to measure")
