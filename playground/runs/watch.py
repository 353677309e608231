"""How often, and how closely, a run in training is looked at."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from playground.runs.snapshot import Level

FRAME_INTERVAL = 0.5  # seconds between frames, at least
HEAD_START, FIRST_INTERVAL = 2.0, 0.2  # seconds of training in which frames come faster


class Budget:
    """Time for one level of a frame: a share of the time that was trained.

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
    """Decides how often, and how closely, a run in training is looked at without being asked.

    Reading the probe is cheap, so the picture moves all the time; evaluating and generating cost
    as much as some steps, so they come less often. Together they take 4 % of a long run.
    """

    def __init__(self) -> None:
        self._budgets = {
            Level.PROBE: Budget(0.015, cost=0.003, credit=0.05),
            Level.VALIDATION: Budget(0.0125, cost=0.02, credit=0.03),
            Level.GENERATION: Budget(0.0125, cost=0.05),
        }
        self._trained = 0.0
        self._looked = -math.inf  # when

    @contextmanager
    def training(self) -> Iterator[None]:
        """What is done inside earns time for looking."""
        start = time.thread_time()
        yield
        self._trained += time.thread_time() - start

    def due(self, n_active: int = 1) -> Level | None:
        """The level of a frame to be taken now, while so many runs train.

        None: it is too early, or all the time has been spent.
        """
        interval = FIRST_INTERVAL if self._trained < HEAD_START else FRAME_INTERVAL
        if time.perf_counter() - self._looked < interval:
            return None
        affordable = [b.allows(self._trained, n_active) for b in self._budgets.values()]
        if not affordable[Level.PROBE]:
            return None
        self._looked = time.perf_counter()
        return Level([*affordable, False].index(False) - 1)

    def charged(self, level: Level) -> AbstractContextManager:
        """Charge what is done inside to the budget of a level; see `take_frame`."""
        return self._budgets[level].charged()
