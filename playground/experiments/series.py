"""What one configuration has come to on all of its seeds: a band of losses, a row of numbers."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from playground.runs.snapshot import Frame
from playground.runs.spec import Spec
from playground.runs.view import LAST, Status, View, waiting_for


def steps_to(loss: np.ndarray, target: float) -> int | None:
    """The first step at which the mean of the last 20 losses is at most the target."""
    sums = np.concatenate([[0.0], np.cumsum(loss, dtype=np.float64)])
    ends = np.arange(1, len(loss) + 1)
    starts = np.maximum(ends - LAST, 0)
    below = np.flatnonzero((sums[ends] - sums[starts]) / (ends - starts) <= target)
    return int(below[0]) + 1 if len(below) else None


@dataclass(frozen=True)
class Spread:
    """Numbers of several seeds: their mean, and how far they scatter."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def sd(self) -> float | None:
        """Standard deviation, with n - 1; None for fewer than two numbers."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    def text(self, show: Callable[[float], str]) -> str:
        """`0.004 ± 0.001`: both written by `show`, so with equal digits."""
        if not self.values:
            return "–"
        return show(self.mean) + ("" if self.sd is None else f" ± {show(self.sd)}")


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

    loss: Spread
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

    def reached(self, at: int | None = None) -> list[float]:
        """The loss of each seed that has come to a step, or to its end; infinite: diverged."""
        return [view.reached(at) for view in self.views if view.has_come(at)]

    def summary(
        self, target: float | None = None, at: int | None = None, measured: int | None = None
    ) -> Summary:
        """The numbers of the table, at the end or after `at` steps.

        Args:
            target: the loss whose first step is looked for.
            at: what has not come so far is left out.
            measured: the step whose accuracy is meant.
        """
        whole = [view for view in self.views if view.has_come(at) and not view.diverged]
        n_reached = [] if target is None else [steps_to(v.loss[:at], target) for v in whole]
        n_reached = [step for step in n_reached if step is not None]
        accuracy = [accuracy_at(view, measured) for view in whole]
        return Summary(
            loss=Spread(tuple(view.reached(at) for view in whole)),
            accuracy=Spread(tuple(share for share in accuracy if share is not None)),
            steps_to_target=Spread(tuple(map(float, n_reached))),
            n_reached=len(n_reached),
            seconds=Spread(tuple(view.seconds_trained for view in self.views if len(view.loss))),
            diverged=sum(view.diverged for view in self.views),
            seeds=len(self.seeds),
        )


def frames_together(
    frames: Sequence[Sequence[Frame]], step: int | None = None
) -> tuple[Frame, ...] | None:
    """A frame of each run, all of one step: the newest, or the last up to a step.

    None where a run has no frame, or they have no step in common.
    """
    found = [{frame.step: frame for frame in run} for run in frames]
    if not found:
        return None
    common = set.intersection(*map(set, found))
    upto = [known for known in common if step is None or known <= step] or list(common)
    return tuple(run[max(upto)] for run in found) if upto else None


def waiting(series: Iterable[Series]) -> str:
    """What runs that have not done a step are waiting for, in words; empty once one has."""
    return waiting_for(view for line in series for view in line.views)


def measured_together(views: Iterable[View], at: int | None = None) -> int | None:
    """The newest step, up to `at`, at which all of these have been measured on validation rows.

    Runs that diverged, or have not come to `at`, do not count; None: there is no such step.
    """
    there = [v for v in views if not v.diverged and v.has_come(at)]
    steps = [{step for step in v.val_steps.tolist() if at is None or step <= at} for v in there]
    common = set.intersection(*steps) if steps else ()
    return max(common, default=None)


def accuracy_at(view: View, step: int | None) -> float | None:
    """Share of validation tokens that were right at a step; None: not measured there."""
    found = view.val_accuracy[view.val_steps == step]
    return float(found[-1]) if len(found) else None


def common_step(series: Iterable[Series]) -> int | None:
    """The step at which all runs can be read side by side; None: at their ends, all are over.

    A run that waits for its first step is not waited for.
    """
    views = [view for line in series for view in line.views if view.status is not Status.FAILED]
    if all(view.status.conclusive for view in views):
        return None
    lengths = [len(view.loss) for view in views if not view.diverged]
    return min((n for n in lengths if n), default=0)


def averaged(series: Sequence[Series]) -> str:
    """Of which steps the loss that all have reached is the mean, in words."""
    at = common_step(series)
    lengths = [len(view.loss) for line in series for view in line.views]
    done = max(lengths, default=0) if at is None else at
    if not 0 < done < LAST:
        return f"mean of the last {LAST} steps"
    return f"mean of steps 1–{done}" if done > 1 else "step 1 alone"


def any_live(series: Iterable[Series]) -> bool:
    """Whether they will change without the visitor."""
    return any(view.live for line in series for view in line.views)
