"""Where the loss of a run in training stands: numbers of what has come since the last change."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.tasks import Chance
from playground.runs.snapshot import Frame
from playground.runs.spec import changes_by_step, changes_text, counted
from playground.runs.view import LAST, View

CLEAR = 3.0  # standard errors: a smaller difference of two means may be noise
RISING = 0.02  # share by which a loss must have risen, beyond these
FALLING = 0.02  # share by which it may have fallen, noise included, and be on a plateau
PLATEAU = 50  # steps at least, twice, without falling
WORSE = 1.05  # times the lowest validation loss: clearly above it


@dataclass(frozen=True)
class Halves:
    """The mean of some last losses, and of as many before them."""

    before: float
    after: float
    steps: int  # of the second half
    error: float  # standard error of their difference

    def in_words(self) -> str:
        last = f"{self.after:.2f} over the last {counted(self.steps, 'step')}"
        return f"{last}, {self.before:.2f} over as many before"


@dataclass(frozen=True)
class Memorised:
    """Training falls, validation rises: what is learnt holds for the training examples only."""

    best_at: int  # the step with the lowest validation loss
    best: float
    validation: float
    training_then: float
    training: float


@dataclass(frozen=True)
class Standing:
    """A run in training, and where its loss stands."""

    view: View
    frame: Frame
    chance: Chance
    floor: float | None

    @property
    def step(self) -> int:
        return len(self.view.loss)

    @cached_property
    def training(self) -> float:
        """Mean of the last losses since the last change; NaN where a checkpoint has none."""
        return self.view.recent_loss()

    @property
    def fresh(self) -> bool:
        """Whether the validation set was measured on these very steps: those of `training`.

        Not before the first step, nor before the last change.
        """
        measured = self.frame.measured_at
        return measured >= max(1, self.step - LAST, *self.view.marks)

    @property
    def validated(self) -> bool:
        """Whether `loss` is that of the validation set."""
        return self.fresh or math.isnan(self.training)

    @property
    def loss(self) -> float:
        """That of the validation set where it is fresh, else the mean of training.

        A mean of 20 steps lags by ten of them: on a falling curve it says less than there is.
        """
        return self.frame.loss if self.validated else self.training

    @property
    def right(self) -> str:
        """How many answers are right, as the end of a sentence; nothing if that is not fresh."""
        if not self.fresh:
            return ""
        share, at = self.frame.accuracy, self.frame.measured_at
        return f"; {share:.0%} of the validation answers are right at step {at}"

    @property
    def name(self) -> str:
        """What `loss` is, in words."""
        if self.validated:
            return f"validation loss at step {self.frame.measured_at}"
        return f"loss over the last {counted(len(self.view.recent()), 'step')}"

    @property
    def way(self) -> float:
        """The share of the way from chance to the floor that has been made; all of it if none."""
        whole = self.chance.blind - (self.floor or 0.0)
        return (self.chance.blind - self.loss) / whole if whole > 0 else 1.0

    @property
    def way_in_words(self) -> str:
        """How far the loss has come: from a guess to the floor, where there is one to reach."""
        guess = self.chance.blind
        if self.floor and self.way >= 0:
            return (
                f"{self.way:.0%} of the way from guessing, {guess:.2f}, to the floor, "
                f"{self.floor:.2f}"
            )
        return f"{self.loss / guess:.0%} of what guessing costs ({guess:.2f})"

    # --- how it moves ---------------------------------------------------------------------

    @property
    def rising(self) -> Halves | None:
        """Whether the last losses are above those before them, clearly."""
        halves = self._halves(LAST)
        if halves is None:
            return None
        rise = halves.after - halves.before
        return halves if rise > max(CLEAR * halves.error, RISING * halves.before) else None

    @property
    def plateau(self) -> Halves | None:
        """Whether the loss no longer falls."""
        halves = self._long_halves()
        return halves if halves and halves.steps >= PLATEAU and _flat(halves) else None

    @property
    def falling(self) -> Halves | None:
        """Whether the loss falls, clearly."""
        halves = self._long_halves()
        if halves is None or _flat(halves):
            return None
        return halves if halves.before - halves.after > CLEAR * halves.error else None

    def _long_halves(self) -> Halves | None:
        """Longer means than for a rise, since a fall is slow."""
        return self._halves(max(PLATEAU, len(self.view.segment()) // 4))

    def _halves(self, steps: int) -> Halves | None:
        losses = self.view.segment()[-2 * steps :].astype(float)
        if len(losses) < LAST or not np.isfinite(losses).all():
            return None
        before, after = np.array_split(losses, 2)
        error = math.sqrt(before.var() / len(before) + after.var() / len(after))
        return Halves(before.mean(), after.mean(), len(after), error)

    @property
    def memorised(self) -> Memorised | None:
        """Whether the validation loss has risen from its lowest, clearly, while training fell."""
        view, mark = self.view, max(self.view.marks, default=0)
        since = view.val_steps > mark
        steps, losses = view.val_steps[since], view.val_loss[since]
        if len(losses) < 3 or not np.isfinite(losses).all():
            return None
        best = int(losses.argmin())
        later, then = losses[best + 1 :], view.recent_loss(int(steps[best]))
        if len(later) < 2 or later[-2:].min() < WORSE * losses[best]:
            return None  # one measurement alone may be an accident
        if not self.training < then / WORSE or not self.training < later[-1] / WORSE:
            return None
        return Memorised(
            int(steps[best]), float(losses[best]), float(later[-1]), then, self.training
        )

    # --- before the last change -----------------------------------------------------------

    @property
    def earlier(self) -> float:
        """The training loss before the last change; NaN: there is none."""
        view = self.view
        return view.recent_loss(view.marks[-1]) if view.marks and view.marks[-1] else math.nan

    @property
    def turned(self) -> str:
        """The last change: `residual=off`."""
        return changes_text(changes_by_step(self.view.changes)[self.view.marks[-1]].items())

    @property
    def before(self) -> str:
        """What the loss was before a knob was turned, as a sentence; else nothing."""
        if math.isnan(self.earlier):
            return ""
        mark = self.view.marks[-1]
        return f" Before the change at step {mark} ({self.turned}) it was {self.earlier:.2f}."


def _flat(halves: Halves) -> bool:
    """Whether the loss has hardly fallen, even with what noise may hide of a fall."""
    return halves.before - halves.after + 2 * halves.error < FALLING * halves.before
