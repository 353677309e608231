"""What one configuration has come to on all of its seeds: a band of losses, a row of numbers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from playground.runs.spec import Spec
from playground.runs.view import LAST, Status, View


def steps_to(loss: np.ndarray, target: float) -> int | None:
    """The first step at which the mean of the last 20 losses is at most the target."""
    sums = np.concatenate([[0.0], np.cumsum(loss, dtype=np.float64)])
    ends = np.arange(1, len(loss) + 1)
    starts = np.maximum(ends - LAST, 0)
    below = np.flatnonzero((sums[ends] - sums[starts]) / (ends - starts) <= target)
    return int(below[0]) + 1 if len(below) else None


@dataclass(frozen=True)
class Spread:
    """Numbers of several seeds, in words: `0.0041 ± 0.0005`."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def sd(self) -> float | None:
        """Standard deviation, with n - 1; None for fewer than two numbers."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    def __str__(self) -> str:
        if not self.values:
            return "–"
        return f"{self.mean:.3g}" + ("" if self.sd is None else f" ± {self.sd:.2g}")


@dataclass(frozen=True)
class Band:
    """Mean, lowest and highest loss at the steps that all of these seeds have done."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Summary:
    """A row of the table. What a diverged seed reached counts in `diverged` alone."""

    final_loss: Spread
    accuracy: Spread
    steps_to_target: Spread  # of the seeds that got there
    n_reached: int
    seconds: Spread
    diverged: int
    seeds: int


@dataclass(frozen=True)
class Series:
    """One variant (or the base) on all of its seeds: `views[i]` has the seed `seeds[i]`."""

    label: str
    spec: Spec
    seeds: tuple[int, ...]
    views: tuple[View, ...]

    def band(self) -> Band:
        """Common steps of the seeds; without those that diverged, unless all did.

        A seed that waited in the queue joins once it has half the steps of the foremost: it would
        cut the band down to its own few.
        """
        seen = list(zip(self.seeds, self.views, strict=True))
        seen = [pair for pair in seen if not pair[1].diverged] or seen
        most = max((len(view.loss) for _, view in seen), default=0)
        seen = [pair for pair in seen if len(pair[1].loss) * 2 >= max(most, 1)]
        common = min((len(view.loss) for _, view in seen), default=0)
        losses = np.array([view.loss[:common] for _, view in seen], dtype=np.float64)
        losses = losses.reshape(-1, common) if len(losses) else np.empty((1, 0))
        return Band(
            np.arange(1, common + 1),
            losses.mean(0),
            losses.min(0),
            losses.max(0),
            tuple(seed for seed, _ in seen),
        )

    def summary(self, target: float | None = None) -> Summary:
        """The numbers of the table; `target` is the loss whose first step is looked for."""
        whole = [view for view in self.views if len(view.loss) and not view.diverged]
        n_reached = [] if target is None else [steps_to(view.loss, target) for view in whole]
        n_reached = [step for step in n_reached if step is not None]
        return Summary(
            final_loss=Spread(tuple(view.reached() for view in whole)),
            accuracy=Spread(tuple(float(v.val_accuracy[-1]) for v in whole if len(v.val_accuracy))),
            steps_to_target=Spread(tuple(map(float, n_reached))),
            n_reached=len(n_reached),
            seconds=Spread(tuple(view.seconds_trained for view in self.views if len(view.loss))),
            diverged=sum(view.diverged for view in self.views),
            seeds=len(self.seeds),
        )


def waiting(series: Iterable[Series]) -> str:
    """What runs that have not done a step are waiting for, in words; empty once one has."""
    views = [view for line in series for view in line.views]
    if any(len(view.loss) for view in views):
        return ""
    if places := [view.queue_position for view in views if view.queue_position]:
        return f"waiting: place {min(places)} in the queue"
    if any(view.status.moving for view in views):
        return "starting …"
    paused = any(view.status is Status.PAUSED for view in views)
    return "paused before the first step" if paused else "no step was made"


def any_live(series: Iterable[Series]) -> bool:
    """Whether a page should look again soon."""
    return any(view.live for line in series for view in line.views)
