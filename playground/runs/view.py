"""A run as pages see it: the record that its worker writes, and the views that pages read of it."""

import math
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from core.train import Change, Step
from playground.runs.snapshot import MAX_FRAME_BYTES, Frame
from playground.runs.spec import Spec, changes_by_step

MAX_FRAMES = 120
LAST = 20  # steps whose mean is the loss that a run has reached


class Status(StrEnum):
    QUEUED = "queued"  # not built yet, or waiting until fewer runs train
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    FAILED = "failed"

    @property
    def moving(self) -> bool:
        """Whether steps are being done, or will be without another press."""
        return self in (Status.QUEUED, Status.RUNNING)

    @property
    def over(self) -> bool:
        """Whether the run goes no further by itself."""
        return self.conclusive or self in (Status.STOPPED, Status.FAILED)

    @property
    def conclusive(self) -> bool:
        """Whether the run came to an end of its own, which says something about its knobs."""
        return self in (Status.DONE, Status.DIVERGED)


def _nothing() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True, kw_only=True)
class View:
    """A run as a page reads it: nothing in it changes any more. Arrays have one entry a step."""

    status: Status
    message: str = ""  # why a run diverged or failed, else empty
    queue_position: int | None = None  # 1 is next; None: not waiting
    busy: bool = False  # a request is still being served
    spec: Spec | None  # as asked for, hot changes included; None: a curve without its run
    steps: np.ndarray
    loss: np.ndarray
    lr: np.ndarray = field(default_factory=_nothing)
    grad_norm: np.ndarray = field(default_factory=_nothing)
    layer_norms: dict[str, np.ndarray] = field(default_factory=dict)
    val_steps: np.ndarray = field(
        default_factory=_nothing
    )  # where the validation set was evaluated
    val_loss: np.ndarray = field(default_factory=_nothing)
    val_accuracy: np.ndarray = field(default_factory=_nothing)
    frames: tuple[Frame, ...] = ()  # oldest first; which of them stay: `Album`
    changes: tuple[Change, ...] = ()
    began: Spec | None = None  # the spec before the changes; None: not known here
    steps_per_second: float = 0.0  # lately, by the clock on the wall; 0: not known yet
    tokens_per_second: float = 0.0
    seconds_left: float | None = None
    seconds_trained: float = 0.0  # spent in steps

    @property
    def live(self) -> bool:
        """Whether it will change without the visitor."""
        return self.busy or self.status.moving

    @property
    def diverged(self) -> bool:
        return self.status is Status.DIVERGED

    @property
    def skipped(self) -> np.ndarray:
        """The steps whose update was not made: in fp16 a gradient may overflow."""
        if len(self.grad_norm) != len(self.loss):
            return self.steps[:0]
        return self.steps[np.isfinite(self.loss) & ~np.isfinite(self.grad_norm)]

    @property
    def marks(self) -> tuple[int, ...]:
        """The steps after which knobs were turned, each once."""
        return tuple(changes_by_step(self.changes))

    def segment(self, step: int | None = None) -> np.ndarray:
        """The training losses since the last change that has acted, to the end or to `step`.

        What was learnt under other knobs says nothing about these: every mean begins here.
        """
        end = len(self.loss) if step is None else int(np.searchsorted(self.steps, step, "right"))
        begins = np.searchsorted(self.steps, self.marks, "right")
        begin = int(max(begins[begins < end], default=0))
        return self.loss[begin:end]

    def recent(self, step: int | None = None) -> np.ndarray:
        """The last 20 losses of `segment`."""
        return self.segment(step)[-LAST:]

    def recent_loss(self, step: int | None = None) -> float:
        """The mean of `recent`.

        An unknown loss, from a checkpoint that came without its curve, is left out; NaN where
        all are unknown.
        """
        losses = self.recent(step)
        losses = losses[np.isfinite(losses)]
        return float(np.mean(losses, dtype=np.float64)) if len(losses) else math.nan

    def has_come(self, step: int | None = None) -> bool:
        """Whether it has come to a step, or has done any."""
        return len(self.loss) >= (step or 1)

    def reached(self, step: int | None = None) -> float:
        """What the run has achieved: `recent_loss`, infinite where it diverged."""
        return math.inf if self.diverged else self.recent_loss(step)

    def at(self, step: int) -> "View":
        """The run as it was after `step` steps, with what was turned there."""
        done = int(np.searchsorted(self.steps, step, "right"))
        measured = int(np.searchsorted(self.val_steps, step, "right"))
        changes = tuple(change for change in self.changes if change.step <= step)
        began = self.began
        return replace(
            self,
            status=self.status if done == len(self.loss) else Status.PAUSED,
            spec=replace(began.replayed(changes), probe=self.spec.probe) if began else self.spec,
            steps=self.steps[:done],
            loss=self.loss[:done],
            lr=self.lr[:done],
            grad_norm=self.grad_norm[:done],
            layer_norms={name: norms[:done] for name, norms in self.layer_norms.items()},
            val_steps=self.val_steps[:measured],
            val_loss=self.val_loss[:measured],
            val_accuracy=self.val_accuracy[:measured],
            frames=tuple(frame for frame in self.frames if frame.step <= step),
            changes=changes,
        )


def waiting_for(views: Iterable[View]) -> str:
    """What runs that have not done a step are waiting for, in words; empty once one has."""
    seen = list(views)
    if any(len(view.loss) for view in seen):
        return ""
    if places := [view.queue_position for view in seen if view.queue_position]:
        return f"waiting: place {min(places)} in the queue"
    if any(view.status.moving for view in seen):
        return "starting …"
    paused = any(view.status is Status.PAUSED for view in seen)
    return "paused before the first step" if paused else "no step was made"


class Columns:
    """Rows of numbers, float32. It only grows, so a slice of it never changes."""

    def __init__(self, width: int) -> None:
        self._rows = np.empty((256, width), np.float32)
        self.count = 0

    def append(self, *row: float) -> None:
        if self.count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self.count] = row
        self.count += 1

    def extend(self, rows: np.ndarray) -> None:
        """Append [count, width] at once."""
        self._rows = np.concatenate(
            [self._rows[: self.count], rows, self._rows[self.count :]], dtype=np.float32
        )
        self.count += len(rows)

    def columns(self) -> np.ndarray:
        """[width, count], read-only."""
        count = self.count
        columns = self._rows[:count].T
        columns.flags.writeable = False
        return columns


class Album:
    """The frames of a run, oldest first, thinned evenly where they would take too much memory.

    Every frame, then every second, every fourth …; the first and the last one always stay. A live
    frame comes after them, until the next frame of any kind.
    """

    def __init__(self, max_frames: int = MAX_FRAMES, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.frames: tuple[Frame, ...] = ()
        self._numbers: tuple[int, ...] = ()  # of the frames that are kept
        self._every = 1
        self._max_frames, self._max_bytes = max_frames, max_bytes

    @property
    def last(self) -> Frame | None:
        return self.frames[-1] if self.frames else None

    def add(self, frame: Frame, kept: bool = True) -> None:
        """Add a frame; one of the same step as the last that was kept replaces it."""
        present = list(zip(self._numbers, self.frames, strict=False))  # without a live one
        again = bool(present) and present[-1][1].step == frame.step
        if present and not kept and not again:
            self.frames = (*self.frames[: len(present)], frame)
            return
        number = present[-1][0] + 1 if present else 0
        if again:
            number = present.pop()[0]
        elif present and present[-1][0] % self._every:
            present.pop()
        present.append((number, frame))
        while len(present) > 2 and self._too_much(present):
            self._every *= 2
            present = [item for item in present[:-1] if item[0] % self._every == 0] + present[-1:]
        self._numbers, self.frames = zip(*present, strict=True)

    def _too_much(self, kept: list[tuple[int, Frame]]) -> bool:
        return (
            len(kept) > self._max_frames or sum(frame.nbytes for _, frame in kept) > self._max_bytes
        )


class Record:
    """What a run has done so far. One worker writes it; views can be made of it at any time."""

    def __init__(self, layers: Iterable[str] = ()) -> None:
        self.changes: tuple[Change, ...] = ()
        self.seconds = 0.0  # spent in steps
        self._layers = list(layers)
        self._steps = Columns(3 + len(self._layers))
        self._validation = Columns(3)
        self._album = Album()
        self._tokens = 0  # in the last step
        self._marks: deque[tuple[float, int]] = deque(maxlen=16)  # (time, step), for the speed

    def __len__(self) -> int:
        """Steps done."""
        return self._steps.count

    @property
    def last(self) -> Frame | None:
        """The newest frame."""
        return self._album.last

    def add_step(self, step: Step) -> None:
        self._steps.append(step.loss, step.lr, step.grad_norm, *step.layer_norms.values())
        self._tokens = step.tokens
        self.seconds += step.seconds
        now = time.perf_counter()
        if len(self._marks) < 2 or now - self._marks[-1][0] > 0.25:
            self._marks.append((now, step.step))

    def add_frame(self, frame: Frame, kept: bool = True) -> None:
        """Show a frame, and keep its loss if that was measured for it.

        Args:
            kept: it stays when the next one comes; else it is live.
        """
        new, last = (frame.measured_at, frame.loss), self.last
        if frame.measured_at == frame.step and (not last or (last.measured_at, last.loss) != new):
            self._validation.append(frame.step, frame.loss, frame.accuracy)
        self._album.add(frame, kept)

    def forget_pictures(self) -> None:
        """Keep the last frame alone."""
        self._album, last = Album(), self.last
        if last is not None:
            self._album.add(last)

    def saved(self) -> tuple[np.ndarray, np.ndarray]:
        """What `resume` takes."""
        return self._steps.columns()[:3].T, self._validation.columns().T

    def resume(self, steps: np.ndarray, validation: np.ndarray) -> None:
        """Start with what an earlier run has recorded.

        Args:
            steps: [steps, 3], loss, learning rate and gradient norm; NaN where unknown.
            validation: [evaluations, 3], step, loss and accuracy.
        """
        unknown = np.full((len(steps), len(self._layers)), np.nan, np.float32)
        self._steps.extend(np.hstack([steps, unknown]))
        self._validation.extend(validation)

    def forget_speed(self) -> None:
        """The run stood still: what comes now says nothing about the time before."""
        self._marks.clear()

    def speed(self) -> float:
        """Steps a second, lately."""
        marks = list(self._marks)
        if len(marks) < 2 or marks[-1][0] == marks[0][0]:
            return 0.0
        return (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])

    def view(self, *, status: Status, spec: Spec, **rest: Any) -> View:
        """The record as it is now; `rest` are the fields of `View` that it does not know."""
        loss, lr, grad_norm, *layers = self._steps.columns()
        val_steps, val_loss, val_accuracy = self._validation.columns()
        speed, left = self.speed(), spec.training.steps - len(loss)
        return View(
            status=status,
            spec=spec,
            steps=np.arange(1, len(loss) + 1),
            loss=loss,
            lr=lr,
            grad_norm=grad_norm,
            layer_norms=dict(zip(self._layers, layers, strict=True)),
            val_steps=val_steps.astype(int),
            val_loss=val_loss,
            val_accuracy=val_accuracy,
            frames=self._album.frames,
            changes=self.changes,
            steps_per_second=speed,
            tokens_per_second=speed * self._tokens,
            seconds_left=left / speed if speed and status is Status.RUNNING else None,
            seconds_trained=self.seconds,
            **rest,
        )
