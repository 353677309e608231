"""What a class has tried and what came of it: runs of one configuration together, over their seeds.

Losses are only held against each other where they mean the same: on one task, with one
architecture. What is called surprising is measured: how far a loss lies from the mean of those
configurations that differ from it in one knob alone.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from core.train import Change
from playground.classroom.database import NAMELESS, Point
from playground.runs.spec import (
    KNOBS,
    MODEL_KNOBS,
    TRAINING_KNOBS,
    Spec,
    changes_text,
    diff_text,
    hot_changes_text,
    value_text,
)

LEAST = 3  # configurations that differ in one knob alone, of which one may surprise
CHOICES = tuple(
    name for name in (*MODEL_KNOBS, *TRAINING_KNOBS) if name not in ("seed", "architecture")
)


@dataclass(frozen=True)
class Spot:
    """One configuration, and all the runs that had it."""

    began: Spec  # of its first run
    changes: tuple[Change, ...]  # what was turned on the way: other changes are another spot
    points: tuple[Point, ...]

    @cached_property
    def ended(self) -> Spec:
        """With the knobs as they were at the end."""
        return self.began.replayed(self.changes)

    @property
    def losses(self) -> list[float]:
        """In nats per scored token; without those that diverged."""
        return [point.loss for point in self.points if point.loss is not None]

    @property
    def accuracies(self) -> list[float]:
        return [point.accuracy for point in self.points if point.accuracy is not None]

    @property
    def diverged(self) -> int:
        """How many of its runs diverged."""
        return sum(point.diverged for point in self.points)

    @property
    def loss(self) -> float | None:
        """The mean over its runs; None: all diverged."""
        return _mean(self.losses)

    @property
    def names(self) -> str:
        """Whose runs these are: `Ada, Bob and 2 students without a name`."""
        known = list(dict.fromkeys(p.name for p in self.points if p.name != NAMELESS))
        nameless = len({p.member for p in self.points if p.name == NAMELESS})
        more = [NAMELESS if nameless == 1 else f"{nameless} students"] if nameless else []
        return ", ".join([*known, *more])

    def value(self, knob: str) -> str:
        """What a knob says, in words."""
        return value_text(knob, self.ended.value(knob))

    def difference(self, setup: Spec | None) -> str:
        """In what it differs from the teacher's set-up; without one, from the defaults."""
        if setup is None:
            plain = changes_text(c for c in self.began.unusual() if c[0] != "seed")
        else:
            diff = setup.diff(self.began)
            plain = diff_text({name: pair for name, pair in diff.items() if name != "seed"})
        said = "; ".join(filter(None, [plain, hot_changes_text(self.changes)]))
        return said or ("every knob at its default" if setup is None else "the set-up itself")


@dataclass(frozen=True)
class Surprise:
    """A configuration whose loss is far from that of the others on its line."""

    spot: Spot
    knob: str  # in which alone they differ
    others: int
    expected: float  # their mean loss, in nats

    @property
    def gap(self) -> float:
        """Nats by which its loss lies above theirs; negative: below."""
        return self.spot.loss - self.expected


def spots(points: Iterable[Point]) -> tuple[Spot, ...]:
    """The runs of each configuration together, in the order in which they came first.

    Seeds do not tell configurations apart. Points that cannot be read are left out.
    """
    found: dict[Any, list[tuple[Spec, tuple[Change, ...], Point]]] = defaultdict(list)
    for point in points:
        if (read := _read(point.spec, point.changes)) is not None:
            began, changes = read
            found[_values(began), point.changes].append((began, changes, point))
    return tuple(
        Spot(group[0][0], group[0][1], tuple(point for *_, point in group))
        for group in found.values()
    )


def ground(spot: Spot) -> tuple[Any, str]:
    """What must be the same for losses to be held against each other."""
    return spot.began.task, spot.began.model.architecture


def ground_text(spot: Spot) -> str:
    """The same in words: `reverse (length=8), decoder`."""
    task, architecture = ground(spot)
    special = changes_text(Spec.of(type(task)()).changes_to(Spec.of(task)))
    return f"{task.name}{f' ({special})' if special else ''}, {architecture}"


def turned(found: Iterable[Spot]) -> list[str]:
    """The knobs in which these differ, those with the most values first."""
    found = list(found)
    values = {knob: len({spot.value(knob) for spot in found}) for knob in CHOICES}
    return sorted((knob for knob in CHOICES if values[knob] > 1), key=lambda knob: -values[knob])


def best(found: Iterable[Spot], most: int = 3) -> list[Spot]:
    """The lowest mean losses, of configurations of which no run diverged."""
    whole = [spot for spot in found if spot.loss is not None and not spot.diverged]
    return sorted(whole, key=lambda spot: spot.loss)[:most]


def diverged(found: Iterable[Spot]) -> list[Spot]:
    """Configurations of which a run diverged."""
    return [spot for spot in found if spot.diverged]


def surprising(found: Iterable[Spot], most: int = 3) -> list[Surprise]:
    """The configurations whose loss is farthest from those that differ in one knob alone.

    At least `LEAST` must stand on such a line. Those on which something was turned on the way, and
    those of which a run diverged, are left out.
    """
    whole = [s for s in found if s.loss is not None and not s.diverged and not s.changes]
    seen: dict[int, Surprise] = {}
    values = [dict(_values(spot.began)) for spot in whole]
    for knob in turned(whole):
        lines: dict[Any, list[int]] = defaultdict(list)
        for i, each in enumerate(values):
            lines[frozenset((k, v) for k, v in each.items() if k != knob)].append(i)
        for line in lines.values():
            for i in line if len(line) >= LEAST else ():
                others = [whole[j].loss for j in line if j != i]
                one = Surprise(whole[i], knob, len(others), _mean(others))
                if i not in seen or abs(one.gap) > abs(seen[i].gap):
                    seen[i] = one
    return sorted(seen.values(), key=lambda one: -abs(one.gap))[:most]


def rows(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A row for each run, for a spreadsheet: who, every knob as the run began, what came out."""
    found = []
    for point in points:
        if (read := _read(point.spec, point.changes)) is None:
            continue
        began, changes = read
        knobs = {name: value_text(name, began.value(name)) for name in KNOBS if began.has(name)}
        found.append(
            {"name": point.name}
            | {name: knobs.get(name, "") for name in KNOBS}
            | {
                "changed": hot_changes_text(changes),
                "steps done": point.steps,
                "loss": point.loss,
                "accuracy": point.accuracy,
                "diverged": int(point.diverged),
            }
        )
    return found


@lru_cache(maxsize=8192)
def _read(spec: str, changes: str) -> tuple[Spec, tuple[Change, ...]] | None:
    try:
        began = Spec.from_dict(json.loads(spec))
        turned = tuple(Change(*change) for change in json.loads(changes))
        began.replayed(turned)
    except (ValueError, TypeError):  # of an earlier version
        return None
    return began, turned


@lru_cache(maxsize=8192)
def _values(spec: Spec) -> tuple[tuple[str, Any], ...]:
    return tuple((k, spec.value(k)) for k in KNOBS if k != "seed" and spec.has(k))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
