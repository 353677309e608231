"""Compare: a base and up to five variants that each change something, on the same seeds.

A variant is a list of changes, `(("scale", "none"),)`, so it fits into a link and says by itself
in which fields it differs. Every variant runs with the same seeds: the same initial numbers
wherever shapes agree, and the same batches. What differs afterwards is said in words, and only as
far as the seeds carry it.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from core.device import Device, choose_device
from core.knobs import difference
from core.tasks import TASKS, Task
from core.tasks.sequences import SequenceTask
from core.train import check_fits
from playground.diagnosis import LEAK
from playground.run import Run
from playground.runs import RUNS, Runs
from playground.spec import (
    FROM_TASK,
    KNOBS,
    MAX_MEMORY,
    MODEL_KNOBS,
    OF_ANY_TASK,
    TRAINING_KNOBS,
    Spec,
    check_limits,
    estimated_memory,
    read_value,
    value_text,
)
from playground.view import LAST, Status, View

MAX_VARIANTS = 5
MAX_SEEDS = 10
MAX_LINK = 1000  # characters
FEW_SEEDS = 4  # below this, chance alone parts two equal groups more often than 1 time in 20

Change = tuple[str, Any]  # (field, value)
Changes = tuple[Change, ...]

# --- what a variant is ----------------------------------------------------------------------


def apply(base: Spec, changes: Iterable[Change]) -> Spec:
    """The base with some fields changed: of the model, the training, the task, or `task` itself.

    Another task keeps the knobs of the old one where they mean the same (copy, reverse, sort), else
    it begins with its own defaults. An example that the new task cannot read is dropped.

    Raises:
        ValueError: an unknown field, a field given twice, an illegal value, or values that do not
            fit together; the message names the field.
    """
    given: dict[str, Any] = {}
    for name, value in changes:
        if name not in KNOBS and name != "text":
            raise ValueError(f"{name}: {_unknown(name)}")
        if name in given:
            raise ValueError(f"{name} is given twice: {given[name]} and {value}")
        given[name] = value
    task = _task(
        base.task, {name: given[name] for name in given if name in ("task", "text", *OF_ANY_TASK)}
    )
    model = {name: value for name, value in given.items() if name in MODEL_KNOBS}
    if task is not base.task or "architecture" in model:
        architecture = model.get("architecture", base.model.architecture)
        task.check_architecture(architecture)
        model |= {"vocab_size": task.vocab_size, "max_len": task.max_len(architecture)}
    training = {name: value for name, value in given.items() if name in TRAINING_KNOBS}
    spec = replace(
        base,
        model=replace(base.model, **model),
        task=task,
        training=replace(base.training, **training),
        probe=base.probe if task is base.task else _readable(task, base),
    )
    check_fits(spec.model, spec.task)
    return spec


def _unknown(name: str) -> str:
    if name in FROM_TASK:
        return "follows from the task and cannot be chosen"
    near = difflib.get_close_matches(name, KNOBS, n=1)
    return "no such field" + (f"; did you mean {near[0]}?" if near else "")


def _task(old: Task, wishes: dict[str, Any]) -> Task:
    if not wishes:
        return old
    if (name := wishes.pop("task", old.name)) not in TASKS:
        raise ValueError(f"task={name!r}: choose one of {', '.join(TASKS)}")
    new = TASKS[name]
    known = [item.name for item in fields(new)]
    if strange := [wish for wish in wishes if wish not in known]:
        raise ValueError(
            f"{strange[0]}: task {name} has no such knob; it has {', '.join(set(known) - {'text'})}"
        )
    alike = type(old) is new or (isinstance(old, SequenceTask) and issubclass(new, SequenceTask))
    values = {item: getattr(old, item) for item in known} if alike else {}
    values |= wishes
    if values.get("source") != "own":
        values.pop("text", None)
    return new(**values)


def _readable(task: Task, base: Spec) -> str | None:
    with suppress(ValueError):
        task.probe(base.model.architecture, base.probe)
        return base.probe
    return None


def differences(base: Spec, spec: Spec) -> Changes:
    """The changes that lead from the base to another spec: `apply(base, …)` gives it again."""
    found: dict[str, Any] = {}
    before = base.task
    if type(before) is not type(spec.task):
        found["task"] = spec.task.name
        before = _task(before, {"task": spec.task.name})
    for old, new in (
        (before, spec.task),
        (base.model, spec.model),
        (base.training, spec.training),
    ):
        found |= {name: value for name, (_, value) in difference(old, new).items()}
    if getattr(spec.task, "source", None) != "own":
        found.pop("text", None)
    return tuple((name, value) for name, value in found.items() if name not in FROM_TASK)


def name_of(changes: Iterable[Change]) -> str:
    """`scale=none, lr=0.01`: the name of a variant; without changes `base`."""
    words = [
        "another text" if name == "text" else f"{name}={value_text(name, value)}"
        for name, value in changes
    ]
    return ", ".join(words) or "base"


def caution(changes: Sequence[Change]) -> str | None:
    """What to say of a variant that changes more than one thing."""
    names = {name for name, _ in changes}
    count = len(names - {"text"} if "source" in names else names)
    if count < 2:
        return None
    return f"you changed {count} things: this run cannot tell which one mattered"


@dataclass(frozen=True)
class Variant:
    """Something to hold against the base."""

    label: str  # exactly the fields in which it differs, and their values
    changes: Changes

    @classmethod
    def of(cls, base: Spec, spec: Spec) -> "Variant":
        changes = differences(base, spec)
        return cls(name_of(changes), changes)


@dataclass(frozen=True)
class LineUp:
    """A base, the variants that can run beside it, and why the others cannot."""

    base: Spec
    variants: tuple[Variant, ...] = ()
    left_out: tuple[str, ...] = ()

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """The base first, then each variant."""
        return (self.base, *(apply(self.base, variant.changes) for variant in self.variants))

    @property
    def labels(self) -> tuple[str, ...]:
        return ("base", *(variant.label for variant in self.variants))


def line_up(base: Spec, wishes: Iterable[Changes], device: Device | None = None) -> LineUp:
    """Put variants beside the base; what cannot run is left out, with a sentence why.

    Args:
        device: where they will run, which decides about precisions; None is the best one.
    """
    device = device or choose_device()
    variants: list[Variant] = []
    wished: list[Changes] = []
    left_out = []
    for changes in wishes:
        try:
            if len(variants) == MAX_VARIANTS:
                raise ValueError(f"at most {MAX_VARIANTS} variants fit beside the base")
            variant = None if changes in wished else _variant(base, changes, device)
            if variant is None or variant in variants:
                raise ValueError("it is here already")
            variants.append(variant)
        except ValueError as error:
            left_out.append(f"{name_of(changes)} is left out: {error}")
        wished.append(changes)
    return LineUp(base, tuple(variants), tuple(left_out))


def _variant(base: Spec, changes: Changes, device: Device) -> Variant:
    spec = apply(base, changes)
    if spec.training.seed != base.training.seed:
        raise ValueError("seed: all variants run on the same seeds; choose how many instead")
    device.check(spec.training.precision)
    check_limits(spec)
    variant = Variant.of(base, spec)
    if not variant.changes:
        raise ValueError("it is the base itself")
    return variant


# --- quick choices --------------------------------------------------------------------------


@dataclass(frozen=True)
class Contrast:
    """A usual question: what the base is held against, as data."""

    title: str
    options: tuple[Changes, ...]
    switch: bool = False  # two options, off and on: a base that is not `off` is held against `off`

    def line_up(self, base: Spec, device: Device | None = None) -> LineUp:
        """The options that differ from the base; impossible ones are left out, with a reason."""
        if self.switch:
            off, on = self.options
            wishes = [on] if self._is(base, off) else [off]
        else:
            wishes = [option for option in self.options if not self._is(base, option)]
        return line_up(base, wishes, device)

    @staticmethod
    def _is(base: Spec, option: Changes) -> bool:
        """Whether the base is so already."""
        return all(_value(base, name) == value for name, value in option)


def _value(spec: Spec, name: str) -> Any:
    if name == "task":
        return spec.task.name
    part = (
        spec.model
        if name in MODEL_KNOBS
        else spec.training
        if name in TRAINING_KNOBS
        else spec.task
    )
    return getattr(part, name, None)


def _each(name: str, *values: Any) -> tuple[Changes, ...]:
    return tuple(((name, value),) for value in values)


def _choices(name: str) -> tuple[Changes, ...]:
    return _each(name, *KNOBS[name].metadata["choices"])


# A new one is one line.
CONTRASTS: dict[str, Contrast] = {
    "scale": Contrast("All scales", _choices("scale")),
    "position": Contrast("All positions", _choices("position")),
    "residual": Contrast("Residual connections on and off", _each("residual", True, False)),
    "norm": Contrast("LayerNorm after, before, none", _choices("norm")),
    "n_heads": Contrast("Heads 1, 2, 4, 8", _each("n_heads", 1, 2, 4, 8)),
    "d_model": Contrast("Width 16 to 256", _each("d_model", 16, 32, 64, 128, 256)),
    "mask": Contrast("Causal, no mask, window", _choices("mask")),
    "init": Contrast("All initialisations", _choices("init")),
    "n_layers": Contrast("Blocks 1, 2, 4, 8", _each("n_layers", 1, 2, 4, 8)),
    "lr": Contrast("Learning rates", _each("lr", 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)),
    "tie_embeddings": Contrast("Tied embeddings on and off", _each("tie_embeddings", False, True)),
    "warmup": Contrast(
        "Warmup and cosine on and off",
        (
            (("schedule", "constant"), ("warmup", 0)),
            (("schedule", "cosine"), ("warmup", 30)),
        ),
        switch=True,
    ),
    "clip": Contrast("Clipping on and off", _each("clip", None, 1.0), switch=True),
    "precision": Contrast("All precisions", _choices("precision")),
}


# --- in a link ------------------------------------------------------------------------------


def encode(variants: Iterable[Variant]) -> str:
    """Variants as one short text: `scale=none;norm=pre,lr=0.01`.

    Raises:
        ValueError: a text of one's own does not fit into a link, nor does what is too long.
    """
    parts = []
    for variant in variants:
        if any(name == "text" or (name, v) == ("source", "own") for name, v in variant.changes):
            raise ValueError(f"{variant.label}: a text of one's own does not fit into a link")
        parts.append(",".join(f"{name}={value_text(name, v)}" for name, v in variant.changes))
    if len(link := ";".join(parts)) > MAX_LINK:
        raise ValueError(_too_long(link))
    return link


def decode(text: str) -> tuple[Changes, ...]:
    """The changes of each variant in a link's text; whether they fit a base, `line_up` says.

    Raises:
        ValueError: names the variant by its place, and what is wrong with it.
    """
    if len(text) > MAX_LINK:
        raise ValueError(_too_long(text))
    return tuple(_parse(part, place) for place, part in _parts(text))


def _parts(text: str) -> list[tuple[int, str]]:
    """Each variant's part and its place, from 1; empty parts are no variants."""
    return list(enumerate(filter(str.strip, text.split(";")), 1))


def _too_long(text: str) -> str:
    return f"the variants take {len(text)} characters: a link holds {MAX_LINK}"


def read_link(text: str, base: Spec, device: Device | None = None) -> LineUp:
    """The line-up that a link's text describes. What cannot be read is left out, with a reason."""
    wishes, unreadable = [], []
    for place, part in _parts(text[:MAX_LINK]):
        try:
            wishes.append(_parse(part, place))
        except ValueError as error:
            unreadable.append(str(error))
    if len(text) > MAX_LINK:
        unreadable.append(_too_long(text))
    found = line_up(base, wishes, device)
    return replace(found, left_out=(*unreadable, *found.left_out))


def _parse(part: str, place: int) -> Changes:
    changes: dict[str, Any] = {}
    for item in part.split(","):
        name, equals, text = (word.strip() for word in item.partition("="))
        if not equals or not name or not text:
            raise ValueError(f"variant {place}: {item.strip()!r}: expected field=value")
        if name not in KNOBS:
            raise ValueError(f"variant {place}: {name}: {_unknown(name)}")
        if name in changes:
            raise ValueError(f"variant {place}: {name} is given twice")
        try:
            changes[name] = read_value(name, text)
        except ValueError as error:
            raise ValueError(f"variant {place}: {name}={text!r}: {error}") from None
    return tuple(changes.items())


# --- what came out --------------------------------------------------------------------------


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
    got_there: int
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
        got_there = [] if target is None else [steps_to(view.loss, target) for view in whole]
        got_there = [step for step in got_there if step is not None]
        return Summary(
            final_loss=Spread(tuple(view.reached() for view in whole)),
            accuracy=Spread(tuple(float(v.val_accuracy[-1]) for v in whole if len(v.val_accuracy))),
            steps_to_target=Spread(tuple(map(float, got_there))),
            got_there=len(got_there),
            seconds=Spread(tuple(view.seconds_trained for view in self.views if len(view.loss))),
            diverged=sum(view.diverged for view in self.views),
            seeds=len(self.seeds),
        )


def any_live(series: Iterable[Series]) -> bool:
    """Whether a page should look again soon."""
    return any(view.live for line in series for view in line.views)


def verdict(base: Series, variant: Series) -> str:
    """What the seeds say about a variant, in words, and never more than they say.

    Seeds are paired: both sides had the same batches and initial numbers. Two sides can be told
    apart when their losses do not overlap; a diverged run counts as an infinite one. While they
    train, both are read at the last step that all have done.
    """
    pairs = list(_pairs(base, variant))
    if not pairs:
        return "no steps yet"
    ours, theirs = _names(base.spec, variant.spec)
    over = all(view.status.conclusive for pair in pairs for view in pair)
    lengths = [len(view.loss) for pair in pairs for view in pair if not view.diverged]
    at = None if over or not lengths else min(lengths)
    if at is not None and at < LAST:
        return f"too early to say: step {at}"
    sentence = _sentence(pairs, at, ours, theirs) + _missing(base, len(pairs))
    return sentence if at is None else f"so far, at step {at}: {sentence}"


def _pairs(base: Series, variant: Series) -> Iterable[tuple[View, View]]:
    """The views of both sides with the same seed, where both have something to say."""
    others = dict(zip(variant.seeds, variant.views, strict=True))
    for seed, view in zip(base.seeds, base.views, strict=True):
        pair = (view, others.get(seed))
        if all(v and v.status is not Status.FAILED and (len(v.loss) or v.diverged) for v in pair):
            yield pair


def _names(base: Spec, variant: Spec) -> tuple[str, str]:
    """What to call both: `sqrt_d_head` and `scale=none`, `n_heads=4` and `n_heads=1`."""
    changes = differences(base, variant)
    if len(changes) != 1 or changes[0][0] == "text":
        return "the base", name_of(changes)
    name = changes[0][0]
    old = _value(base, name)
    words = value_text(name, old)
    return words if isinstance(old, str) else f"{name}={words}", name_of(changes)


def _missing(base: Series, count: int) -> str:
    left = len(base.seeds) - count
    return f"; {left} of {len(base.seeds)} seeds have no result" if left else ""


def _sentence(pairs: list[tuple[View, View]], at: int | None, ours: str, theirs: str) -> str:
    n = len(pairs)
    x, y = np.array([[view.reached(at) for view in pair] for pair in pairs]).T
    finite = np.isfinite(x) & np.isfinite(y)
    if finite.all() and all(np.array_equal(b.loss[:at], v.loss[:at]) for b, v in pairs):
        return f"{theirs} changes nothing here: the losses equal those of {ours}, number for number"
    if n == 1:
        return f"one seed: no claim; add seeds ({theirs} {_end(y[0])}, {ours} {_end(x[0])})"
    above, below = y.min() > x.max(), y.max() < x.min()
    if not above and not below:
        return (
            f"cannot tell apart: {theirs} ends {_range(y)}, {ours} {_range(x)}, "
            f"and {theirs} is lower in {int((y < x).sum())} of {n} seeds"
        )
    if not finite.any():
        worse, better, survivors = (theirs, ours, x) if above else (ours, theirs, y)
        count = int(np.isinf(survivors).sum())
        said = f"{worse} diverges in {n} of {n} seeds, {better} in {count or 'none'}"
    else:
        gap = abs(float((y - x)[finite].mean()))
        where = "above" if above else "below"
        said = f"{theirs} ends {gap:.3g} nats {where} {ours} in {n} of {n} seeds"
        lost = int(np.isinf(y if above else x).sum())
        said += f", and {theirs if above else ours} diverges in {lost} of them" if lost else ""
    if n < FEW_SEEDS:
        said += f" (if nothing but chance parted {n} and {n} seeds, they would part so cleanly 1 time in {math.comb(2 * n, n) // 2})"
    return said + _leak(pairs, theirs, ours)


def _end(loss: float) -> str:
    return f"{loss:.3g}" if math.isfinite(loss) else "diverged"


def _range(losses: np.ndarray) -> str:
    low, high = _end(losses.min()), _end(losses.max())
    return low if low == high else f"{low} to {high}"


def _leak(pairs: list[tuple[View, View]], theirs: str, ours: str) -> str:
    """A low loss that was read off the answer is no success."""
    leaks = [any(_sees_ahead(pair[i]) for pair in pairs) for i in (0, 1)]
    if leaks[0] == leaks[1]:
        return ""
    return f"; but {theirs if leaks[1] else ours} sees the tokens it is to predict"


def _sees_ahead(view: View) -> bool:
    return bool(view.frames) and (view.frames[-1].future_influence or 0) >= LEAK


# --- the runs -------------------------------------------------------------------------------


class Comparison:
    """All runs of a line-up, on all seeds. Every method returns at once; workers do the rest."""

    def __init__(self, owner: str, runs: Runs = RUNS) -> None:
        self.owner, self.runs = owner, runs
        self.lineup: LineUp | None = None
        self.seeds: tuple[int, ...] = ()
        self._runs: dict[Spec, Run] = {}

    def start(self, lineup: LineUp, seeds: int = 1, play: bool = True) -> None:
        """Put a line-up to work; a run that is here already goes on, one that was stopped begins anew.

        The first seed of every variant comes first, so that a queue delays none of them.

        Raises:
            ValueError: too many seeds, or more than this server takes on; the message has the
                numbers. What is too much in itself changes nothing; where other visitors take
                the room, nothing runs any more.
        """
        chosen = self._seeds(lineup, seeds)
        wanted = [
            replace(spec, training=replace(spec.training, seed=seed))
            for seed in chosen
            for spec in lineup.specs
        ]
        self._check(wanted, len(lineup.specs), seeds)
        keys = {_key(spec): spec for spec in wanted}
        present = self.runs.of(self.owner)
        for key, run in list(self._runs.items()):
            status = run.view().status
            broken_off = status.over and not status.conclusive
            if key not in keys or run not in present or broken_off:
                self.runs.discard(self._runs.pop(key))
        self._start({key: spec for key, spec in keys.items() if key not in self._runs}, play)
        self.lineup, self.seeds = lineup, chosen
        if play:
            self.play()

    def _seeds(self, lineup: LineUp, seeds: int) -> tuple[int, ...]:
        if not 1 <= seeds <= MAX_SEEDS:
            raise ValueError(f"seeds={seeds}: choose 1 to {MAX_SEEDS}")
        first = lineup.base.training.seed
        return tuple(range(first, first + seeds))

    def _check(self, wanted: list[Spec], rows: int, seeds: int) -> None:
        much = f"{rows} configurations × {seeds} seed{'s' if seeds > 1 else ''}"
        if len(wanted) > self.runs.max_runs:
            raise ValueError(
                f"{much} are {len(wanted)} runs: the limit here is {self.runs.max_runs}; "
                "take fewer variants or seeds"
            )
        if (n := seeds * sum(map(estimated_memory, wanted[:rows]))) > MAX_MEMORY:
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
                f"only {len(started)} of {len(new)} new runs found room, so none was started: {error}"
            ) from None
        self._runs |= started

    def series(self) -> tuple[Series, ...]:
        """The base first, then each variant, as they are now."""
        if self.lineup is None:
            return ()
        return tuple(
            Series(
                label,
                spec,
                self.seeds,
                tuple(self.run_of(spec, seed).view() for seed in self.seeds),
            )
            for label, spec in zip(self.lineup.labels, self.lineup.specs, strict=True)
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

    def show(self, probe: str | None) -> None:
        """Look at another example everywhere; other tasks than the base's keep their own.

        Raises:
            ValueError: the text is no example of the base's task.
        """
        if self.lineup is None:
            return
        base = self.lineup.base
        base.task.probe(base.model.architecture, probe)
        for run in self._runs.values():
            with suppress(ValueError):
                run.show(probe)

    def play(self) -> None:
        self._all(Run.play)

    def pause(self) -> None:
        self._all(Run.pause)

    def stop(self) -> None:
        self._all(Run.stop)

    def _all(self, ask: Callable[[Run], None]) -> None:
        for run in self._runs.values():
            ask(run)

    def discard(self) -> None:
        """Stop all runs and forget them."""
        self._all(self.runs.discard)
        self._runs, self.lineup, self.seeds = {}, None, ()


def _key(spec: Spec) -> Spec:
    """What decides the numbers of a run."""
    return replace(spec, probe=None, label="")
