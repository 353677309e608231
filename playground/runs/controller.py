"""One visitor's controller: the current run, the curves before it, what was changed in between.

The knobs say what is wanted (`follow`), the buttons say when (`play`, `pause`, `step`, `reset`).
A knob that keeps all shapes is turned in the running model; any other one starts over, and the
old curve stays as a ghost to compare with.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, count

from core.config import ModelConfig, TrainConfig
from core.device import Device, choose_device
from core.train import Trainer
from playground.runs import estimate
from playground.runs.limits import check_limits
from playground.runs.pool import RUNS, Runs
from playground.runs.run import Run
from playground.runs.saved_run import SavedRun
from playground.runs.snapshot import Frame, take_frame
from playground.runs.spec import Spec, changes_text, diff_text, hot_changes_text
from playground.runs.view import Status, View

GHOSTS = 3  # earlier curves kept for comparison
TOO_SHORT, LONG_ENOUGH = 20, 200  # steps: what is never kept as a ghost, and what always is


@dataclass(frozen=True, eq=False)
class Ghost:
    """The curve of an earlier run, and what it was trained with."""

    label: str
    view: View


def worth_keeping(view: View) -> bool:
    """Whether a curve is long enough to compare with: a tenth of its run, within limits."""
    tenth = view.spec.training.steps // 10
    return len(view.loss) >= min(LONG_ENOUGH, max(TOO_SHORT, tenth))


def named(ghosts: Iterable[Ghost], spec: Spec) -> list[Ghost]:
    """Ghosts by what they had and the knobs no longer have: `norm=post; lr=0.1 after step 120`.

    One that does not know how it began keeps its name; of two of one name, the later has a number.
    """
    found: list[Ghost] = []
    for ghost in ghosts:
        label, view = ghost.label, ghost.view
        if view.began is not None:
            other = changes_text(spec.changes_to(view.began)) or "the same knobs"
            plain = "; ".join(filter(None, [other, hot_changes_text(view.changes)]))
            names = chain([plain], (f"{plain} ({number})" for number in count(2)))
            taken = {one.label for one in found}
            label = next(name for name in names if name not in taken)
        found.append(ghost if label == ghost.label else replace(ghost, label=label))
    return found


def is_hot(names: Iterable[str]) -> bool:
    """Whether knobs can be turned during a run."""
    return set(names) <= {*ModelConfig.hot(), *TrainConfig.hot()}


@lru_cache(maxsize=64)
def untrained(spec: Spec, device: Device) -> Frame:
    """What the model sees before its first step. A spec says everything, so this is cached."""
    trainer = Trainer(spec.model, spec.task, spec.training, device)
    return take_frame(trainer, spec.task.probe(spec.model.form, spec.probe))


class Controller:
    """The state behind one visitor's Playground page."""

    correction = 1.0  # measured step time over estimated, shared by all visitors

    def __init__(self, owner: str, runs: Runs = RUNS, device: Device | None = None) -> None:
        self.owner, self.runs = owner, runs
        self.device = device or choose_device()
        self.spec: Spec | None = None
        self.run: Run | None = None
        self.ghosts: list[Ghost] = []
        self.notice: str | None = None
        self.left: View | None = None  # the last run, before the next one begins
        self.fresh = True  # no run yet in this session
        self.begun = 0  # runs so far

    def learn_speed(self, view: View) -> None:
        """Let a measured run correct the estimate for those to come."""
        if len(view.loss) >= 20 and view.seconds_trained:
            guess = estimate.seconds_per_step(view.spec)
            Controller.correction = view.seconds_trained / len(view.loss) / guess

    def follow(self, spec: Spec) -> None:
        """The knobs now say `spec`: change the run, or start over.

        Raises:
            ValueError: the spec is beyond the limits; the old run continues.
        """
        old = self.spec
        diff = old.diff(spec) if old is not None else {}
        if diff or old is None:
            check_limits(spec)
        self.spec = spec
        try:
            if diff and self.run is not None:
                self._turn(diff)
            elif diff and self.left is not None:
                self.notice = self._since(self.left)
        except ValueError:
            self.spec = old
            raise
        self.ghosts = named(self.ghosts, spec)
        if self.run is not None and old.probe != spec.probe:
            self.run.show(spec.probe)

    def _turn(self, diff: dict[str, tuple]) -> None:
        view = self.run.view()
        lost = self.run.forgotten or view.status in (Status.DIVERGED, Status.FAILED)
        if is_hot(diff) and not lost:
            when = "after its end" if view.status.over else "while it ran"
            self.run.change(self.spec)
            since = diff_text(self.run.started.diff(self.spec))
            self.notice = (
                f"Changed {when}: {since or f'{diff_text(diff)}, as the run began'}. A run started "
                "from this page's link has the knobs as they are now from its first step."
            )
            return
        if view.status.moving:
            self._start()
            self._keep_curve(view)
        else:
            self.put_away()
        self.notice = self._since(view)

    def put_away(self) -> None:
        """No run any more: its curve stays to compare with, if it is long enough."""
        if self.run is not None:
            view = self.run.view()
            self.runs.discard(self.run)
            self.run, self.left = None, view
            self._keep_curve(view)

    def _since(self, view: View) -> str:
        """In what the knobs differ from those of the last run, whose curve stays or does not."""
        changed = diff_text(view.began.diff(self.spec))
        on_the_way = hot_changes_text(view.changes)
        curve = f"its curve{f' ({on_the_way})' if on_the_way else ''}"
        stays = "stays for comparison" if worth_keeping(view) else "was too short to keep"
        return (
            (f"Changed since the last run began: {changed}. " if changed else "")
            + ("Press Play to train with it; " if self.run is None else "This is a new run; ")
            + f"{curve} {stays}."
        )

    def _keep_curve(self, view: View) -> None:
        """Make a run that is over or replaced a ghost, without its pictures; if it is worth it."""
        if worth_keeping(view):
            self.ghosts = [*self.ghosts, Ghost("", replace(view, frames=()))][-GHOSTS:]

    @property
    def view(self) -> View | None:
        """The run as it is now; None: there is none. A page reads this once and hands it on."""
        return self.run.view() if self.run else None

    def play(self) -> None:
        """Continue, or start: a finished run starts over unless steps have been added.

        Raises:
            ValueError: the spec is beyond the limits; the message says them in numbers.
        """
        if self._is_over():
            self._start()
        else:
            self.run.play()

    def step(self) -> None:
        """Do one optimiser step and pause."""
        if self._is_over():
            self._start(play=False)
        self.run.step_once()

    def _is_over(self) -> bool:
        return self.run is None or self.run.view().status.over

    def _start(self, play: bool = True, saved: SavedRun | None = None) -> None:
        """Start a run of the present spec, instead of the current one if there is any."""
        instead = [self.run] if self.run is not None else []
        self.run = self.runs.start(self.owner, self.spec, play, saved, instead)
        self.fresh, self.notice = False, None
        self.begun += 1
        if self.left is not None:
            self.notice, self.left = self._since(self.left), None

    def pause(self) -> None:
        if self.run is not None:
            self.run.pause()

    def reset(self) -> None:
        """Back to before the first step: same seed, same numbers, no ghosts."""
        if self.run is not None:
            self.runs.discard(self.run)
        self.run, self.ghosts, self.notice, self.left = None, [], None, None

    def show(self, ghosts: list[Ghost]) -> None:
        """Show these earlier curves behind the current one, instead of the present ghosts."""
        self.ghosts, self.notice, self.left = list(ghosts), None, None

    def resume(self, saved: SavedRun) -> None:
        """Replace the current run by a saved one; it is paused until Play is pressed.

        Raises:
            ValueError: no room for it on this server; the current run continues.
        """
        old, view = self.spec, self.view
        self.spec = saved.spec
        try:
            self._start(play=False, saved=saved)
        except ValueError:
            self.spec = old
            raise
        if view is not None:
            self._keep_curve(view)
        self.ghosts = named(self.ghosts, saved.spec)
        self.notice = f"Resumed from a checkpoint of step {saved.trainer.step_count}."

    def frames(self, view: View | None) -> tuple[Frame, ...]:
        """The pictures there are, oldest first; without a run, that of the untrained model."""
        if view is not None and view.frames:
            return view.frames
        return (
            untrained(replace(self.spec, training=_untrained(self.spec.training)), self.device),
        )


def _untrained(training: TrainConfig) -> TrainConfig:
    """Only the seed decides what an untrained model sees: one cache entry for all the rest."""
    return TrainConfig(seed=training.seed)
