"""How often, and how closely, a run in training is looked at."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from core.tasks import Batch
from core.train import Trainer
from playground.frames import Frame, glance, look_closer, measure

FRAME_INTERVAL = 0.5  # seconds between frames, at least
HEAD_START, FIRST_INTERVAL = 2.0, 0.2  # seconds of training in which frames come faster


class Look(IntEnum):
    """How closely to look: each look includes those before it."""

    GLANCE = 0  # attention and predictions on the probe
    MEASURE = 1  # the validation set, and the leak
    CLOSE = 2  # the model's own writing


class Allowance:
    """Time for one kind of look: a share of the time that was trained.

    Processor time of the looking thread: whoever else keeps the machine busy does not count.

    Args:
        share: 0.03 is three seconds in a hundred.
        cost: what a look is thought to cost until one has been made, in seconds.
        credit: seconds of looking ahead of that.
    """

    def __init__(self, share: float, cost: float, credit: float = 0.0) -> None:
        self._share, self._cost, self._credit = share, cost, credit
        self._spent = 0.0

    def covers(self, trained: float, rivals: int = 1) -> bool:
        """Whether one more look is affordable; `rivals` runs share the credit."""
        credit = self._credit / max(1, rivals)
        return self._spent + self._cost <= self._share * trained + credit

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Charge what is done inside."""
        start = time.thread_time()
        yield
        self._cost = time.thread_time() - start
        self._spent += self._cost


class Watch:
    """Decides how often, and how closely, a run in training is looked at without being asked.

    A glance is cheap, so the picture moves all the time; measuring and generating cost as much
    as some steps, so they come less often. Together they take 4 % of a long run.
    """

    def __init__(self) -> None:
        self._glances = Allowance(0.015, cost=0.003, credit=0.05)
        self._measures = Allowance(0.0125, cost=0.02, credit=0.03)
        self._closer = Allowance(0.0125, cost=0.05)
        self._trained = 0.0
        self._looked = -math.inf  # when

    @contextmanager
    def training(self) -> Iterator[None]:
        """What is done inside earns time for looking."""
        start = time.thread_time()
        yield
        self._trained += time.thread_time() - start

    def due(self, rivals: int = 1) -> Look | None:
        """The look that is affordable now, with so many runs that train.

        None: it is too early, or all the time has been spent.
        """
        interval = FIRST_INTERVAL if self._trained < HEAD_START else FRAME_INTERVAL
        if time.perf_counter() - self._looked < interval:
            return None
        if not self._glances.covers(self._trained, rivals):
            return None
        if not self._measures.covers(self._trained, rivals):
            return Look.GLANCE
        return Look.CLOSE if self._closer.covers(self._trained, rivals) else Look.MEASURE

    def look(
        self,
        trainer: Trainer,
        probe: Batch,
        previous: Frame | None,
        look: Look,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> Frame:
        """`take_frame`, with its parts charged where they belong."""
        self._looked = time.perf_counter()
        with self._glances.spending():
            frame = glance(trainer, probe, previous)
        if look >= Look.MEASURE:
            with self._measures.spending():
                frame = measure(trainer, frame)
        if look >= Look.CLOSE:
            with self._closer.spending():
                frame = look_closer(trainer, frame, interrupted)
        return frame
