"""Which steps of a run are looked at, and how closely.

The frames that are kept are those of fixed steps, decided by the run alone: the same run shows the
same pictures on every machine. In between a picture is taken only for whoever looks, and replaced
by the next one.
"""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from playground.runs.snapshot import Level

FRAMES = 40  # regular frames of a whole run
VALIDATIONS = 5, 40  # evaluations of a whole run: at least, at most
VALIDATION_SHARE = 0.02  # of the run's time, unless that would be too few
SOON = 8  # steps after a change at which the validation set is evaluated once more
LIVE_INTERVAL = 0.2  # seconds between two live pictures, at least
WATCHED = 2.0  # seconds for which a look at the run lets it take live pictures


def planned(step: int, steps: int, changed: int | None, cost: float) -> Level | None:
    """How closely a run is looked at after `step` of its `steps`; None: no frame is kept there.

    At the beginning, and after a change, after 1, 2, 4 … steps, then every fortieth of the run;
    the validation set at some of these, and soon after a change.

    Args:
        changed: the step of the last hot change.
        cost: what an evaluation costs, in training steps.
    """
    stride = math.ceil(steps / FRAMES)
    least, most = VALIDATIONS
    apart = min(max(cost / VALIDATION_SHARE, steps / most), steps / least)
    since = step - (changed or 0)
    if step % (stride * max(1, int(apart / stride))) == 0 or (
        changed is not None and since == SOON
    ):
        return Level.VALIDATION
    early = 0 < since < stride and since.bit_count() == 1
    return Level.PROBE if early or step % stride == 0 else None


class Budget:
    """Time for looking: a share of the time that was trained.

    Processor time of the looking thread: whoever else keeps the machine busy does not count.

    Args:
        share: 0.03 is three seconds in a hundred.
        cost: what a look is thought to cost until one has been made, in seconds.
        credit: seconds of looking ahead of that.
    """

    def __init__(self, share: float, cost: float, credit: float = 0.0) -> None:
        self._share, self._cost, self._credit = share, cost, credit
        self._spent = 0.0

    def allows(self, trained: float, n_active: int = 1) -> bool:
        """Whether one more look is affordable; `n_active` runs share the credit."""
        credit = self._credit / max(1, n_active)
        return self._spent + self._cost <= self._share * trained + credit

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Charge what is done inside."""
        start = time.thread_time()
        yield
        self._cost = time.thread_time() - start
        self._spent += self._cost


class Watch:
    """Time for what the clock decides: pictures between the kept ones, and what a model writes.

    A live picture is cheap, so a run that is looked at moves all the time; writing costs as much
    as some steps, so it comes with few of the evaluations.
    """

    def __init__(self) -> None:
        self._live = Budget(0.02, cost=0.003, credit=0.05)
        self._writing = Budget(0.0125, cost=0.05)
        self._trained = 0.0
        self._seen = self._taken = -math.inf  # when a page looked, and when a picture was taken

    def seen(self) -> None:
        """A page looks at the run."""
        self._seen = time.perf_counter()

    @contextmanager
    def training(self) -> Iterator[None]:
        """What is done inside earns time for looking."""
        start = time.thread_time()
        yield
        self._trained += time.thread_time() - start

    def live(self, n_active: int = 1) -> bool:
        """Whether to take a live picture now, while so many runs train."""
        now = time.perf_counter()
        if now - self._seen > WATCHED or now - self._taken < LIVE_INTERVAL:
            return False
        if not self._live.allows(self._trained, n_active):
            return False
        self._taken = now
        return True

    def closer(self, level: Level) -> Level:
        """The level of a planned look: with what the model writes, where there is time for it."""
        if level is Level.VALIDATION and self._writing.allows(self._trained):
            return Level.GENERATION
        return level

    def taking_live(self) -> AbstractContextManager:
        """Charge a live picture, which is taken inside."""
        return self._live.charged()

    def charged(self, level: Level) -> AbstractContextManager:
        """Charge what is done inside for a level of a planned look; see `take_frame`."""
        return self._writing.charged() if level is Level.GENERATION else nullcontext()
