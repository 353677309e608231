"""Prepared questions: predict, run, compare. They are data; see `scenarios.toml`.

A scenario compares a base with variants, like the Compare page, and offers outcomes to predict
from. Each outcome has conditions on what was measured, made of a few fixed words, so the answer is
read off the runs and never written down beforehand. So are the numbers in its explanation: what
stands in braces is filled in from the runs, `{loss of not divided}`.
"""

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from core.tasks import TASKS
from playground.experiments.comparison import MAX_SEEDS
from playground.experiments.series import Series, steps_to
from playground.experiments.variants import MAX_VARIANTS, Setup, Variant, encode
from playground.runs.diagnosis import first_attention
from playground.runs.spec import (
    KNOBS,
    Changes,
    Spec,
    check_fields,
    loss_text,
    range_text,
    read_value,
    within,
)
from playground.runs.view import View

FILE = Path(__file__).with_name("scenarios.toml")
REFERENCES = ("chance", "floor")  # of the task: losses that a condition can name like a run

PLACE = re.compile(r"\{(\w+) of ([^{}]+)\}")  # {loss of not divided}

# name of a run, or of a reference -> measure -> a number for each seed
Results = Mapping[str, Mapping[str, Sequence[float]]]


# --- what is measured -----------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A number that is read off a finished run."""

    title: str
    read: Callable[[View], float]
    write: Callable[[float], str]

    def range(self, values: Sequence[float]) -> str:
        """The values of all seeds in words: `0.003 to 0.005`."""
        known = [value for value in values if not math.isnan(value)]
        return range_text(known, self.write) if known else "–"


def _last(numbers: Sequence[float], view: View, lost: float = math.nan) -> float:
    if view.diverged:
        return lost
    return float(numbers[-1]) if len(numbers) else math.nan


def _free(view: View) -> float:
    found = view.frames[-1].free_running if view.frames else None
    return math.nan if found is None else found


def _steps(view: View) -> float:
    blind = view.spec.chance.blind
    found = None if view.diverged else steps_to(view.loss, blind / 2)
    return math.inf if found is None else float(found)


def _first(view: View) -> float:
    return float(view.loss[0]) if len(view.loss) else math.nan


def _spread(view: View) -> float:
    """Of the first attention's scaled scores, on the example, before the first step."""
    if not view.frames or view.frames[0].step:
        return math.nan
    attention = first_attention(view.frames[0])
    return math.nan if attention is None else attention.spread


def _gradient(view: View) -> float:
    """Its length in the first block, at the first step."""
    block = next((norms for name, norms in view.layer_norms.items() if "blocks." in name), ())
    return float(block[0]) if len(block) else math.nan


def _number(value: float) -> str:
    """Three digits; what is tiny by its power of ten."""
    return f"{value:.3g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.0e}"


def _share(value: float) -> str:
    return f"{value:.0%}" if math.isfinite(value) else "–"


MEASURES: dict[str, Measure] = {
    "loss": Measure("final loss", View.reached, loss_text),
    "validation": Measure(
        "validation loss", lambda view: _last(view.val_loss, view, math.inf), loss_text
    ),
    "accuracy": Measure("accuracy", lambda view: _last(view.val_accuracy, view), _share),
    "free": Measure("accuracy on its own", _free, _share),
    "steps": Measure(
        "steps to half of chance", _steps, lambda n: f"{n:.0f}" if math.isfinite(n) else "never"
    ),
    "first": Measure("loss of the first step", _first, loss_text),
    "spread": Measure("spread of the scores at step 0", _spread, _number),
    "gradient": Measure("first gradient of block 1", _gradient, _number),
    "lasted": Measure("steps it lasted", lambda view: float(len(view.loss)), lambda n: f"{n:.0f}"),
    "diverged": Measure(
        "diverged", lambda view: float(view.diverged), lambda x: "yes" if x else "no"
    ),
}


def measure(scenario: "Scenario", series: Iterable[Series]) -> Results:
    """What came out: every measure of every run, and the losses that need no run."""
    found: dict[str, dict[str, tuple[float, ...]]] = {
        name: {key: tuple(map(measure.read, line.views)) for key, measure in MEASURES.items()}
        for name, line in zip(scenario.names, series, strict=True)
    }
    return found | scenario.references


# --- what is predicted ----------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """`what` of a run lies above or below a number: alone, minus another's, or over another's.

    It must hold in every seed; between two runs, for every seed of the one with every seed of the
    other, so that ranges which overlap satisfy neither `above = 0` nor `below = 0`.
    """

    what: str
    of: str
    minus: str | None = None
    over: str | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, results: Results) -> bool:
        values = list(results[self.of][self.what])
        if self.minus is not None:
            values = [a - b for a in values for b in results[self.minus][self.what]]
        if self.over is not None:
            values = [
                a / b if b else math.nan for a in values for b in results[self.over][self.what]
            ]
        above = all(value > self.above for value in values) if self.above is not None else True
        below = all(value < self.below for value in values) if self.below is not None else True
        return bool(values) and above and below


@dataclass(frozen=True)
class Outcome:
    """A choice to predict. The first whose conditions all hold is what happened."""

    name: str
    say: str
    when: tuple[Condition, ...]  # none: whatever no outcome before it describes


@dataclass(frozen=True)
class Scenario:
    """A prepared question."""

    id: str
    title: str
    question: str
    change: str  # the one thing that changes
    watch: str  # what to watch
    why: str  # revealed afterwards
    name: str  # of the base
    base: Spec
    variants: tuple[tuple[str, Variant], ...]  # their names
    outcomes: tuple[Outcome, ...]
    expected: str  # name of the outcome that the explanation is about
    shown: tuple[str, ...]  # measures in the table, beside the final loss
    seeds: int
    early: Mapping[str, int]  # runs that are known to break down, and after how many steps

    @property
    def names(self) -> tuple[str, ...]:
        """The base first, then each variant."""
        return (self.name, *(name for name, _ in self.variants))

    @cached_property
    def setup(self) -> Setup:
        return Setup(self.base, tuple(variant for _, variant in self.variants))

    @property
    def link(self) -> str:
        """The variants as the field of the Compare page has them."""
        return encode(self.setup.variants)

    @cached_property
    def references(self) -> dict[str, dict[str, tuple[float, ...]]]:
        """Chance and floor of the base's task, as if they were runs."""
        losses = {"chance": self.base.chance.blind, "floor": self.base.floor}
        return {
            name: {"loss": (loss,), "validation": (loss,)}
            for name, loss in losses.items()
            if loss is not None
        }

    def outcome(self, results: Results) -> Outcome:
        """What happened: one of the outcomes, and exactly one."""
        return next(o for o in self.outcomes if all(c.holds(results) for c in o.when))

    def explained(self, results: Results) -> str:
        """The reason, with the numbers that were measured."""
        return self.filled(self.why, results)

    def filled(self, text: str, results: Results) -> str:
        """A text, with the numbers that were measured in place of its braces."""

        def number(found: re.Match[str]) -> str:
            what, of = found.groups()
            return MEASURES[what].range(results[of][what])

        return PLACE.sub(number, text)

    def named(self, series: Iterable[Series]) -> tuple[Series, ...]:
        """The series of a comparison under the scenario's own names."""
        return tuple(
            replace(line, label=name) for name, line in zip(self.names, series, strict=True)
        )


# --- from the file --------------------------------------------------------------------------


@cache
def load(path: Path = FILE) -> dict[str, Scenario]:
    """All scenarios of a file, in its order.

    Raises:
        ValueError: names the scenario, the entry and the rule.
    """
    return read(path.read_text(encoding="utf-8"))


def read(text: str) -> dict[str, Scenario]:
    """The scenarios of a TOML text; see `load`."""
    found = {}
    for name, table in tomllib.loads(text).items():
        try:
            found[name] = _scenario(name, table)
        except (ValueError, TypeError) as error:
            raise ValueError(f"scenario {name}: {error}") from None
    return found


TEXTS = ("title", "question", "change", "watch", "why", "name", "expected")
NEEDED = dict.fromkeys(TEXTS, str) | {"variants": dict, "outcomes": dict}
ENTRIES = NEEDED | {"base": dict, "shown": list, "seeds": int, "early": dict}
SETTABLE = {name: object for name in KNOBS if name != "seed"}
CONDITION = {field.name: object for field in fields(Condition)}


def _scenario(key: str, table: dict[str, Any]) -> Scenario:
    check_fields(table, ENTRIES, NEEDED)
    with within("base"):
        base = plain().changed(read_changes(table.get("base", {})))
    variants = tuple(
        (name, read_variant(name, base, knobs)) for name, knobs in table["variants"].items()
    )
    names = (table["name"], *(name for name, _ in variants))
    if len(set(names)) < len(names) or set(names) & set(REFERENCES):
        raise ValueError(f"names {', '.join(names)}: all must differ, and none be {REFERENCES}")
    if not 1 <= len(variants) <= MAX_VARIANTS:
        raise ValueError(f"{len(variants)} variants: give 1 to {MAX_VARIANTS}")
    if not 1 <= (seeds := table.get("seeds", 2)) <= MAX_SEEDS:
        raise ValueError(f"seeds={seeds}: give 1 to {MAX_SEEDS}")
    outcomes = tuple(_outcome(name, entry, names) for name, entry in table["outcomes"].items())
    _check_outcomes(outcomes, table["expected"])
    shown = tuple(table.get("shown", ("accuracy",)))
    if unknown := set(shown) - set(MEASURES):
        raise ValueError(f"shown={', '.join(unknown)}: choose of {', '.join(MEASURES)}")
    texts = {entry: " ".join(table[entry].split()) for entry in TEXTS if entry != "why"}
    scenario = Scenario(
        id=key,
        why=table["why"].strip(),
        base=base,
        variants=variants,
        outcomes=outcomes,
        shown=shown,
        seeds=seeds,
        early=_early(table.get("early", {}), names),
        **texts,
    )
    for condition in (condition for outcome in outcomes for condition in outcome.when):
        for side in (condition.of, condition.minus, condition.over):
            if side in REFERENCES:
                check_measured(scenario, condition.what, side)
    for what, of in PLACE.findall(scenario.why):
        with within("why"):
            check_measured(scenario, what, of)
    return scenario


def _early(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
    for name, steps in found.items():
        with within(f"early: {name}"):
            if name not in names:
                raise ValueError(f"no such run; there are {', '.join(names)}")
            if type(steps) is not int or steps < 1:
                raise ValueError(f"{steps}: give a whole number of steps")
    return dict(found)


def check_measured(scenario: Scenario, what: str, of: str) -> None:
    """There is such a measure, such a run or reference, and the one has the other.

    Raises:
        ValueError: says which there are.
    """
    if what not in MEASURES:
        raise ValueError(f"{what} of {of}: choose one of {', '.join(MEASURES)}")
    if of not in (*scenario.names, *REFERENCES):
        raise ValueError(f"{of!r}: no such run; there are {', '.join(scenario.names)}")
    if of in REFERENCES and what not in scenario.references.get(of, ()):
        raise ValueError(f"{of}: the task has none of measure {what}")


def read_changes(knobs: Any) -> Changes:
    """The knobs of a table. TOML has no null, so a text may be given for any value.

    Raises:
        ValueError: names the knob.
    """
    check_fields(knobs, SETTABLE, ())
    return tuple(
        (name, read_value(name, value) if isinstance(value, str) else value)
        for name, value in knobs.items()
    )


@cache
def plain() -> Spec:
    """Every knob at its default."""
    return Spec.of(TASKS["reverse"]())


def read_variant(name: str, base: Spec, knobs: Any) -> Variant:
    """A variant of the base, of a table of knobs.

    Raises:
        ValueError: names it and the knob, or says that it changes nothing.
    """
    with within(f"variants: {name}"):
        variant = Variant.of(base, base.changed(read_changes(knobs)))
        if not variant.changes:
            raise ValueError(f"{knobs}: it is the base itself")
    return variant


def _outcome(name: str, entry: Any, names: Sequence[str]) -> Outcome:
    with within(f"outcomes: {name}"):
        check_fields(entry, {"say": str, "when": list}, ("say",))
        when = tuple(_condition(item, names) for item in entry.get("when", ()))
    return Outcome(name, " ".join(entry["say"].split()), when)


def _condition(item: Mapping[str, Any], names: Sequence[str]) -> Condition:
    check_fields(item, CONDITION, ("what", "of"))
    condition = Condition(**item)
    if condition.what not in MEASURES:
        raise ValueError(f"what={condition.what}: choose one of {', '.join(MEASURES)}")
    for side in (condition.of, condition.minus, condition.over):
        if side is not None and side not in (*names, *REFERENCES):
            raise ValueError(f"{side!r}: no such run; there are {', '.join((*names, *REFERENCES))}")
    if condition.minus is not None and condition.over is not None:
        raise ValueError("minus and over: give one of them")
    if condition.above is None and condition.below is None:
        raise ValueError("give above, below, or both")
    return condition


def _check_outcomes(outcomes: Sequence[Outcome], expected: str) -> None:
    if not 2 <= len(outcomes) <= 4:
        raise ValueError(f"{len(outcomes)} outcomes: give 2 to 4")
    if [outcome.name for outcome in outcomes if not outcome.when] != [outcomes[-1].name]:
        raise ValueError(
            "the last outcome, and only that, has no conditions: it is what else may come"
        )
    if expected not in [outcome.name for outcome in outcomes]:
        raise ValueError(f"expected={expected}: no such outcome")
