"""Compare: a base and its variants, run side by side on the same seeds.

Every variant has the same seeds: the same initial numbers wherever shapes agree, and the same
batches. What differs afterwards is due to what was changed.
"""

from collections.abc import Callable
from dataclasses import replace

from playground.experiments.series import Series, any_live
from playground.experiments.variants import Setup
from playground.runs.limits import MAX_MEMORY, estimated_memory
from playground.runs.pool import RUNS, Runs
from playground.runs.run import Run
from playground.runs.spec import Spec

MAX_SEEDS = 10


class Comparison:
    """All runs of a setup, on all seeds. Every method returns at once; workers do the rest."""

    def __init__(self, owner: str, runs: Runs = RUNS) -> None:
        self.owner, self.runs = owner, runs
        self.setup: Setup | None = None
        self.seeds: tuple[int, ...] = ()
        self._runs: dict[Spec, Run] = {}

    def start(self, setup: Setup, seeds: int = 1, play: bool = True) -> None:
        """Put a setup to work; runs that are here already continue, stopped ones start over.

        The first seed of every variant comes first, so that a queue delays none of them.

        Raises:
            ValueError: too many seeds, or more than this server takes on; the message has the
                numbers. What is too much in itself changes nothing; where other visitors take
                the room, nothing runs any more.
        """
        chosen = self._seeds(setup, seeds)
        requested = [
            replace(spec, training=replace(spec.training, seed=seed))
            for seed in chosen
            for spec in setup.specs
        ]
        self._check(requested, len(setup.specs), seeds)
        keys = {_key(spec): spec for spec in requested}
        present = self.runs.of(self.owner)
        for key, run in list(self._runs.items()):
            status = run.view().status
            broken_off = status.over and not status.conclusive
            if key not in keys or run not in present or broken_off:
                self.runs.discard(self._runs.pop(key))
        self._start({key: spec for key, spec in keys.items() if key not in self._runs}, play)
        self.setup, self.seeds = setup, chosen
        if play:
            self.play()

    def _seeds(self, setup: Setup, seeds: int) -> tuple[int, ...]:
        if not 1 <= seeds <= MAX_SEEDS:
            raise ValueError(f"seeds={seeds}: choose 1 to {MAX_SEEDS}")
        first = setup.base.training.seed
        return tuple(range(first, first + seeds))

    def _check(self, requested: list[Spec], rows: int, seeds: int) -> None:
        much = f"{rows} configurations × {seeds} seed{'s' if seeds > 1 else ''}"
        if len(requested) > self.runs.max_runs:
            raise ValueError(
                f"{much} are {len(requested)} runs: the limit here is {self.runs.max_runs}; "
                "take fewer variants or seeds"
            )
        if (n := seeds * sum(map(estimated_memory, requested[:rows]))) > MAX_MEMORY:
            raise ValueError(
                f"{much} need about {n / 1e6:,.0f} MB: the limit here is {MAX_MEMORY / 1e6:,.0f} "
                "MB; take fewer variants or seeds, or a smaller d_model or batch_size"
            )

    def _start(self, new: dict[Spec, Spec], play: bool) -> None:
        """All of them, or none."""
        started: dict[Spec, Run] = {}
        try:
            for key, spec in new.items():
                started[key] = self.runs.start(self.owner, spec, play=play)
        except ValueError as error:
            self._runs |= started
            self.discard()
            raise ValueError(
                f"only {len(started)} of {len(new)} new runs found room, so none was started: "
                f"{error}"
            ) from None
        self._runs |= started

    def series(self) -> tuple[Series, ...]:
        """The base first, then each variant, as they are now."""
        if self.setup is None:
            return ()
        return tuple(
            Series(
                label,
                spec,
                self.seeds,
                tuple(self.run_of(spec, seed).view() for seed in self.seeds),
            )
            for label, spec in zip(self.setup.labels, self.setup.specs, strict=True)
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
        """Whether a page should look again soon."""
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
        self._all(self.runs.discard)
        self._runs, self.setup, self.seeds = {}, None, ()


def _key(spec: Spec) -> Spec:
    """What decides the numbers of a run."""
    return replace(spec, probe=None, label="")
