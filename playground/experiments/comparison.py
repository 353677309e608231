"""Compare: a base and its variants, run side by side on the same seeds.

Every variant has the same seeds: the same initial numbers wherever shapes agree, and the same
batches. What differs afterwards is due to what was changed.
"""

from collections.abc import Callable
from dataclasses import replace
from threading import RLock

from core.knobs import cut
from playground.experiments.series import Series, any_live
from playground.experiments.variants import Setup
from playground.runs.pool import RUNS, Runs
from playground.runs.run import Run
from playground.runs.spec import Spec

MAX_SEEDS = 10


class Comparison:
    """All runs of a setup, on all seeds. Every method returns at once; workers do the rest.

    One thread changes them, others may look at them (`series`) meanwhile.
    """

    def __init__(self, owner: str, runs: Runs = RUNS) -> None:
        self.owner, self.runs = owner, runs
        self.setup: Setup | None = None
        self.seeds: tuple[int, ...] = ()
        self._runs: dict[Spec, Run] = {}
        self._lock = RLock()

    def start(self, setup: Setup, seeds: int = 1, play: bool = True) -> None:
        """Put a setup to work; runs that are here already continue, stopped ones start over.

        The first seed of every variant comes first, so that a queue delays none of them.

        Raises:
            ValueError: too many seeds, or more than the visitor's share of this server; the
                message has the numbers, and nothing has changed.
        """
        chosen = self._seeds(setup, seeds)
        label = cut("; ".join(setup.labels))
        requested = [
            replace(spec, training=replace(spec.training, seed=seed), label=label)
            for seed in chosen
            for spec in setup.specs
        ]
        keys = {_key(spec): spec for spec in requested}
        with self._lock:
            self._replace(keys, play)
            self.setup, self.seeds = setup, chosen
        if play:
            self.play()

    def _replace(self, keys: dict[Spec, Spec], play: bool) -> None:
        """These runs, by key, instead of those that are here."""
        present = self.runs.of(self.owner)
        kept = {
            key: run
            for key, run in self._runs.items()
            if key in keys and run in present and not _broken_off(run)
        }
        gone = [run for key, run in self._runs.items() if key not in kept]
        new = {key: spec for key, spec in keys.items() if key not in kept}
        started = self.runs.start_all(self.owner, list(new.values()), play, instead=gone)
        self._runs = kept | dict(zip(new, started, strict=True))

    def _seeds(self, setup: Setup, seeds: int) -> tuple[int, ...]:
        if not 1 <= seeds <= MAX_SEEDS:
            raise ValueError(f"seeds={seeds}: choose 1 to {MAX_SEEDS}")
        first = setup.base.training.seed
        return tuple(range(first, first + seeds))

    def series(self) -> tuple[Series, ...]:
        """The base first, then each variant, as they are now."""
        with self._lock:
            return self.series_of(self.setup) if self.setup is not None else ()

    def series_of(self, setup: Setup) -> tuple[Series, ...]:
        """The same, if it is this setup that runs; else none."""
        with self._lock:
            if self.setup != setup:
                return ()
            return tuple(
                Series(
                    label,
                    spec,
                    self.seeds,
                    tuple(self.run_of(spec, seed).view() for seed in self.seeds),
                )
                for label, spec in zip(setup.labels, setup.specs, strict=True)
            )

    def run_of(self, spec: Spec, seed: int | None = None) -> Run | None:
        """The run of a spec, on another seed than its own if one is given; None: there is none."""
        if seed is not None:
            spec = replace(spec, training=replace(spec.training, seed=seed))
        return self._runs.get(_key(spec))

    def all_runs(self) -> list[Run]:
        return list(self._runs.values())

    @property
    def live(self) -> bool:
        """Whether they will change without the visitor."""
        return any_live(self.series())

    def play(self) -> None:
        self._all(Run.play)

    def pause(self) -> None:
        self._all(Run.pause)

    def _all(self, ask: Callable[[Run], None]) -> None:
        for run in self._runs.values():
            ask(run)

    def discard(self) -> None:
        """Stop all runs and delete them."""
        with self._lock:
            self._all(self.runs.discard)
            self._runs, self.setup, self.seeds = {}, None, ()


def _broken_off(run: Run) -> bool:
    status = run.view().status
    return status.over and not status.conclusive


def _key(spec: Spec) -> Spec:
    """What decides the numbers of a run."""
    return replace(spec, probe=None, label="")
