"""Lessons: what a teacher walks a class through, step by step. They are data; see `lessons/`.

A lesson is a TOML file. Each of its steps has a text, and most open a page as it is to be set up:
with knobs, or at a scenario. What a step states of runs is measured like a scenario: in `answer`
what stands in braces is filled in from the runs, `{loss of not divided}`.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.knobs import cut
from playground.experiments import scenarios
from playground.experiments.comparison import MAX_SEEDS
from playground.experiments.scenarios import PLACE, Results, Scenario
from playground.experiments.variants import MAX_VARIANTS, Variant, encode
from playground.runs.limits import check_limits
from playground.runs.spec import Spec, check_fields, within

FOLDER = Path(__file__).with_name("lessons")
MAX_BYTES, MAX_STEPS, MAX_LINES = 100_000, 40, 40
OF_A_RUN = ("playground", "compare")  # pages that are set up with the knobs of a run

STEP = {
    "title": str,
    "text": str,
    "page": str,
    "knobs": dict,
    "variants": dict,
    "seeds": int,
    "scenario": str,
    "turn": list,
    "show": list,
    "question": str,
    "look_for": str,
    "answer": str,
    "lines": int,
}
LESSON = {"title": str, "minutes": int, "for_whom": str, "about": str, "steps": list}
NEEDED = ("title", "minutes", "for_whom", "steps")


@dataclass(frozen=True)
class Step:
    """One step: what to read, which page to open and how, what to find out."""

    title: str
    text: str
    page: str = ""  # its address; none: there is nothing to open
    spec: Spec | None = None  # of the Playground and Compare
    knobs: tuple[tuple[str, str], ...] = ()  # of the page of an idea, as its link has them
    variants: tuple[tuple[str, Variant], ...] = ()
    seeds: int = 1
    scenario: str = ""
    turn: tuple[str, ...] = ()  # what students may turn; none: every knob
    show: tuple[str, ...] = ()  # what they see besides
    question: str = ""
    look_for: str = ""
    answer: str = ""
    lines: int = 3  # of space for an answer, on the work sheet

    @property
    def link(self) -> str:
        """The variants as the field of the Compare page has them."""
        return encode(variant for _, variant in self.variants)

    @property
    def measured(self) -> Scenario | None:
        """What has to run before the answer is known; None: nothing."""
        if self.scenario:
            found = scenarios.load()[self.scenario]
            return found if not self.answer or PLACE.search(self.answer) else None
        if self.spec is None or not PLACE.search(self.answer):
            return None
        return _experiment(self.spec, self.variants, self.seeds, self.title)

    def answered(self, results: Results | None = None) -> str:
        """The answer, with the numbers of the runs; without them, where they would stand."""
        if (measured := self.measured) is None:
            return self.answer
        text = self.answer or measured.why
        if results is None:
            return PLACE.sub("…", text)
        said = "" if self.answer else f"{measured.outcome(results).say}\n\n"
        return said + measured.filled(text, results)


@dataclass(frozen=True)
class Lesson:
    """What a file says."""

    id: str  # the name of its file, and in the link: ?lesson=id
    title: str
    minutes: int
    for_whom: str
    about: str
    steps: tuple[Step, ...]


def _experiment(
    base: Spec, variants: tuple[tuple[str, Variant], ...], seeds: int, title: str
) -> Scenario:
    """Runs without a prediction."""
    texts = dict.fromkeys(("id", "question", "change", "watch", "why", "expected"), "")
    return Scenario(
        title=title,
        name="set-up",
        base=base,
        variants=variants,
        outcomes=(),
        shown=(),
        seeds=seeds,
        early={},
        **texts,
    )


# --- from a file ------------------------------------------------------------------------------


@cache
def shipped(pages: frozenset[str]) -> dict[str, Lesson]:
    """The playground's own lessons, the shortest first."""
    found = [read_file(path, pages) for path in FOLDER.glob("*.toml")]
    return {one.id: one for one in sorted(found, key=lambda lesson: lesson.minutes)}


def in_folder(folder: Path, pages: Collection[str]) -> tuple[dict[str, Lesson], tuple[str, ...]]:
    """The lessons of a folder, and what is wrong with those that cannot be read."""
    found, problems = {}, []
    for path in sorted(folder.glob("*.toml")):
        try:
            lesson = read_file(path, pages)
            found[lesson.id] = lesson
        except (ValueError, OSError) as error:
            problems.append(str(error))
    return found, tuple(problems)


def read_file(path: Path, pages: Collection[str]) -> Lesson:
    """The lesson of a file; see `read`."""
    with path.open("rb") as file:
        return read(path.name, file.read(MAX_BYTES + 1), pages)


def read(name: str, data: bytes, pages: Collection[str]) -> Lesson:
    """The lesson in a TOML file.

    Args:
        name: of the file.
        pages: the addresses that there are.

    Raises:
        ValueError: names the file, the step, the field and the rule.
    """
    with within(cut(name)):
        if len(data) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES:,} bytes: that is no lesson")
        try:
            table = tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
        except UnicodeDecodeError:
            raise ValueError("it is not UTF-8 text") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"it is not TOML: {error}") from None
        check_fields(table, LESSON, NEEDED)
        if not 1 <= table["minutes"] <= 600:
            raise ValueError(f"minutes={table['minutes']}: give 1 to 600")
        if not 1 <= len(table["steps"]) <= MAX_STEPS:
            raise ValueError(f"{len(table['steps'])} steps: give 1 to {MAX_STEPS}")
        steps = []
        for number, entry in enumerate(table["steps"], 1):
            with within(f"step {number}"):
                steps.append(_step(entry, pages))
        texts = {key: table.get(key, "").strip() for key in ("title", "for_whom", "about")}
        return Lesson(_id(name), minutes=table["minutes"], steps=tuple(steps), **texts)


def _id(name: str) -> str:
    """What a file is called in a link."""
    letters = re.sub(r"[^a-z0-9]+", "-", name.lower().removesuffix(".toml")).strip("-")[:40]
    if not letters:
        raise ValueError("give the file a name of letters and digits")
    return letters


def _step(entry: Any, pages: Collection[str]) -> Step:
    check_fields(entry, STEP, ("title", "text"))
    page, scenario = entry.get("page", ""), entry.get("scenario", "")
    if scenario:
        if scenario not in (known := scenarios.load()):
            raise ValueError(f"scenario={cut(scenario)}: choose one of {', '.join(known)}")
        if page not in ("", "scenarios"):
            raise ValueError(f"page={cut(page)}: a scenario is on the page scenarios")
        page = "scenarios"
    if page and page not in pages:
        raise ValueError(f"page={cut(page)}: choose one of {', '.join(pages)}")
    lines = entry.get("lines", Step.lines)
    if not 0 <= lines <= MAX_LINES:
        raise ValueError(f"lines={lines}: give 0 to {MAX_LINES}")
    seeds = entry.get("seeds", 1)
    if not 1 <= seeds <= MAX_SEEDS:
        raise ValueError(f"seeds={seeds}: give 1 to {MAX_SEEDS}")
    spec, knobs, variants = None, (), ()
    if page in OF_A_RUN:
        spec, variants = _runs(entry)
    else:
        if "variants" in entry:
            raise ValueError(f"variants: only the pages {' and '.join(OF_A_RUN)} have them")
        knobs = _knobs(page, entry.get("knobs", {}))
    texts = {key: entry.get(key, "").strip() for key in ("question", "look_for", "answer")}
    step = Step(
        title=entry["title"].strip(),
        text=entry["text"].strip(),
        page=page,
        spec=spec,
        knobs=knobs,
        variants=variants,
        seeds=seeds,
        scenario=scenario,
        turn=_names(entry, "turn"),
        show=_names(entry, "show"),
        lines=lines,
        **texts,
    )
    _check_answer(step)
    return step


def _runs(entry: Mapping[str, Any]) -> tuple[Spec, tuple[tuple[str, Variant], ...]]:
    """What the Playground or Compare is set up with."""
    with within("knobs"):
        spec = scenarios.plain().changed(scenarios.read_changes(entry.get("knobs", {})))
        check_limits(spec)
    given = entry.get("variants", {})
    if len(given) > MAX_VARIANTS:
        raise ValueError(f"{len(given)} variants: give {MAX_VARIANTS} at most")
    variants = tuple(
        (name, scenarios.read_variant(name, spec, knobs)) for name, knobs in given.items()
    )
    return spec, variants


def _knobs(page: str, given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Those of another page, by their keys in its link, which settles the values."""
    for key, value in given.items():
        if not page or not key.startswith(f"{page}_"):
            raise ValueError(f"knobs: {cut(key)} is not a knob of the page {page or '(none)'}")
        if not isinstance(value, str | int | float):
            raise ValueError(f"knobs: {key}: give a text or a number")
    written = {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in given.items()}
    return tuple(written.items())


def _names(entry: Mapping[str, Any], field: str) -> tuple[str, ...]:
    names = entry.get(field, [])
    if not all(isinstance(name, str) and re.fullmatch(r"[a-z]\w*", name) for name in names):
        raise ValueError(f"{field}: give a list of names of knobs")
    return tuple(names)


def _check_answer(step: Step) -> None:
    """Whatever the answer is to be filled in with can be measured."""
    places = PLACE.findall(step.answer)
    if not places:
        return
    with within("answer"):
        if (measured := step.measured) is None:
            raise ValueError("a step without runs has nothing to measure")
        for what, of in places:
            scenarios.check_measured(measured, what, of)


# --- in a link --------------------------------------------------------------------------------


def read_name(text: str) -> str:
    """What a link may say of a lesson; whether there is one of that name is known later.

    Raises:
        ValueError: no file is called so.
    """
    if not re.fullmatch(r"[a-z0-9-]{1,40}", text):
        raise ValueError("give the name of a lesson")
    return text


def read_number(text: str) -> str:
    """The number of a step.

    Raises:
        ValueError: it is not a number from 1 on.
    """
    if not re.fullmatch(r"[1-9]\d?", text, re.ASCII) or int(text) > MAX_STEPS:
        raise ValueError(f"choose a whole number from 1 to {MAX_STEPS}")
    return text


# --- what is measured -------------------------------------------------------------------------


def experiments(lesson: Lesson) -> dict[int, Scenario]:
    """Number of a step, from 0 -> what has to run for its answer."""
    found = {number: step.measured for number, step in enumerate(lesson.steps)}
    return {number: one for number, one in found.items() if one is not None}


def answers(lesson: Lesson, results: Mapping[int, Results]) -> Iterable[str]:
    """The answer to each step, with what was measured."""
    return (step.answered(results.get(number)) for number, step in enumerate(lesson.steps))
