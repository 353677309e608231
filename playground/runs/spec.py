"""What decides a run, and how two of them differ: as data and in words."""

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import Field, dataclass, fields, replace
from functools import lru_cache
from typing import Any

from core.config import FROM_TASK, ModelConfig, TrainConfig
from core.forms import form_of
from core.knobs import as_text, cut, difference, from_text, knob, quoted, turned
from core.tasks import TASKS, Chance, Task, task_from_dict
from core.tasks.sequences import SequenceTask
from core.train import Change

# The parts of a spec as a dict: the first three decide the run.
PARTS = {"task": dict, "model": dict, "training": dict, "probe": str | None, "label": str}
DECISIVE = ("task", "model", "training")
Changes = tuple[tuple[str, Any], ...]  # (knob, value)
MAX_CHARACTERS = 10_000  # of an example or a label in a file


# --- every knob by its name -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Which:
    task: str = knob("reverse", choices=tuple(TASKS), help="What the model is to learn.")


def _knobs(config: type) -> dict[str, Field]:
    """The fields that can be chosen; vocabulary and length follow from the task."""
    names = {item.name: item for item in fields(config) if item.metadata}
    return {name: names[name] for name in names if name not in FROM_TASK}


MODEL_KNOBS, TRAINING_KNOBS = _knobs(ModelConfig), _knobs(TrainConfig)
TASK_KNOBS = {name: _knobs(task) for name, task in TASKS.items()}
# A knob that several tasks have is written the same way in all of them.
OF_ANY_TASK = {name: item for knobs in TASK_KNOBS.values() for name, item in knobs.items()}
KNOBS = _knobs(_Which) | OF_ANY_TASK | MODEL_KNOBS | TRAINING_KNOBS


def value_text(name: str, value: Any) -> str:
    """A knob's value in words: `√d_k`, `off`, `0.01`."""
    return as_text(KNOBS[name], value)


def read_value(name: str, text: str) -> Any:
    """The value that a text means.

    Raises:
        ValueError: names the knob, the text and what it may be.
    """
    with within(f"{name}={quoted(text)}"):
        return from_text(KNOBS[name], text)


# --- what decides a run ---------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """Everything that decides a run."""

    model: ModelConfig
    task: Task
    training: TrainConfig
    probe: str | None = None  # the visitor's own example; None takes the task's
    label: str = ""

    @classmethod
    def of(cls, task: Task) -> "Spec":
        """Every knob of the model and of the training at its default."""
        return cls(ModelConfig.for_task(task), task, TrainConfig())

    @property
    def chance(self) -> Chance:
        """The losses that need no reading of the input."""
        return _chance(self.task, self.model.form)

    @property
    def floor(self) -> float | None:
        """The loss that no run of this task, architecture and mask can beat; None: unknown."""
        return floor_of(self.task, self.model)

    def value(self, name: str) -> Any:
        """What a knob says; None where the task has no such knob."""
        if name == "task":
            return self.task.name
        part = self.task
        if name in MODEL_KNOBS or name in TRAINING_KNOBS:
            part = self.model if name in MODEL_KNOBS else self.training
        return getattr(part, name, None)

    def has(self, name: str) -> bool:
        """Whether a knob is one of this run: each task has its own."""
        return name not in OF_ANY_TASK or name in TASK_KNOBS[self.task.name]

    def changed(self, changes: Iterable[tuple[str, Any]]) -> "Spec":
        """The same run with some knobs of the model, the training or the task, or another task.

        Another task keeps the knobs of the old one where they mean the same (copy, reverse, sort),
        else it starts with its own defaults. An example that it cannot read is dropped.

        Raises:
            ValueError: an unknown knob, one that is given twice, an illegal value, or values that
                do not fit together; the message names the knob.
        """
        model, training, of_task = {}, {}, {}
        for name, value in changes:
            if name not in KNOBS and name != "text":
                raise ValueError(f"{cut(name)}: {unknown(name)}")
            part = model if name in MODEL_KNOBS else training if name in TRAINING_KNOBS else of_task
            if name in part:
                raise ValueError(f"{name} is given twice: {quoted(part[name])} and {quoted(value)}")
            part[name] = value
        task = _changed_task(self.task, of_task)
        if task is not self.task or "architecture" in model:
            architecture = model.get("architecture", self.model.architecture)
            task.check_architecture(architecture)
            model |= task.sizes(form_of(architecture))
        config = replace(self.model, **model)
        config.check_fits(task)
        probe = self.probe if task is self.task else _readable(task, self)
        return Spec(config, task, replace(self.training, **training), probe, self.label)

    def turned(self, values: Mapping[str, Any]) -> "Spec":
        """The same run after a hot change.

        Raises:
            ValueError: a knob that is not hot, or an illegal value.
        """
        model, training = turned((self.model, self.training), values)
        return replace(self, model=model, training=training)

    def replayed(self, changes: Iterable[Change]) -> "Spec":
        """The run as its hot changes have left it.

        Raises:
            ValueError: names the step of a change that cannot be made.
        """
        spec = self
        for step, values in changes_by_step(changes).items():
            with within(f"step {step}"):
                spec = spec.turned(values)
        return spec

    def diff(self, other: "Spec") -> dict[str, tuple[Any, Any]]:
        """The knobs in which another run differs: name -> (here, there). Examples do not count.

        `self.changed` with the second values leads to the other one.
        """
        task, found = self.task, {}
        if type(task) is not type(other.task):
            found["task"] = (task.name, other.task.name)
            task = _changed_task(task, {"task": other.task.name})
        found |= difference(task, other.task)
        found |= difference(self.model, other.model) | difference(self.training, other.training)
        if getattr(other.task, "source", None) != "own":
            found.pop("text", None)
        # The mask that `auto` means is no other one, whatever the knob says.
        if "mask" in found:
            mine = replace(other.model, mask=self.model.mask)
            if mine.mask_rule == other.model.mask_rule:
                del found["mask"]
        return {name: pair for name, pair in found.items() if name not in FROM_TASK}

    def changes_to(self, other: "Spec") -> Changes:
        """What to change to get another run: `self.changed` with it gives that one."""
        return tuple((name, new) for name, (_, new) in self.diff(other).items())

    def unusual(self) -> Changes:
        """The knobs that are not at the defaults of the task; which text it is does not count."""
        usual = Spec.of(type(self.task)())
        return tuple(change for change in usual.changes_to(self) if change[0] != "text")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a file; of a text only its SHA-256."""
        task = self.task.to_dict()
        task.pop("vocabulary", None)  # the text's hash says it all
        return {
            "task": task,
            "model": self.model.to_dict(),
            "training": self.training.to_dict(),
            "probe": self.probe,
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], text: str | None = None) -> "Spec":
        """Build again what `to_dict` has written.

        Args:
            text: the visitor's own text, which no file contains.

        Raises:
            ValueError: names the part, the field, the value and the rule.
        """
        check_fields(values, PARTS, DECISIVE)
        with within("task"):
            task = _read_task(values["task"], text)
        with within("model"):
            model = ModelConfig.from_dict(values["model"])
            model.check_fits(task)
        with within("training"):
            training = TrainConfig.from_dict(values["training"])
        probe, label = values.get("probe"), values.get("label", "")
        for name, typed in (("probe", probe or ""), ("label", label)):
            if (size := len(typed)) > MAX_CHARACTERS:
                raise ValueError(f"{name} has {size:,} characters, at most {MAX_CHARACTERS:,} fit")
        with within("probe"):
            task.probe(model.form, probe)
        return cls(model, task, training, probe, label)


@lru_cache(maxsize=256)
def _chance(task: Task, architecture: str) -> Chance:
    return task.chance(architecture)


@lru_cache(maxsize=256)
def floor_of(task: Task, model: ModelConfig) -> float | None:
    """A task's floor for a model; of a long text it takes a moment to find, so once."""
    return task.floor(model)


def unknown(name: str) -> str:
    """Why a name is not a knob, and which one may be meant."""
    if name in FROM_TASK:
        return "follows from the task and cannot be chosen"
    near = difflib.get_close_matches(name, KNOBS, n=1)
    return "no such field" + (f"; did you mean {near[0]}?" if near else "")


def _changed_task(old: Task, values: dict[str, Any]) -> Task:
    if not values:
        return old
    values = dict(values)
    if (name := values.pop("task", old.name)) not in TASKS:
        raise ValueError(f"task={quoted(name)}: choose one of {', '.join(TASKS)}")
    new = TASKS[name]
    known = [item.name for item in fields(new)]
    if not_there := [knob for knob in values if knob not in known]:
        raise ValueError(
            f"{not_there[0]}: task {name} has no such knob; it has {', '.join(TASK_KNOBS[name])}"
        )
    related = type(old) is new or (isinstance(old, SequenceTask) and issubclass(new, SequenceTask))
    kept = {item: getattr(old, item) for item in known} if related else {}
    values = kept | values
    if values.get("source") != "own":
        values.pop("text", None)
    return new(**values)


def _readable(task: Task, base: Spec) -> str | None:
    with suppress(ValueError):
        task.probe(base.model.form, base.probe)
        return base.probe
    return None


# --- in words -------------------------------------------------------------------------------


def counted(n: int, thing: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{n} {thing}{'s' * (n != 1)}"


def in_nats(loss: float) -> str:
    """A loss with three digits after the point; one that blows up by its power of ten."""
    return f"{loss:.3f}" if loss < 1000 else f"{loss:.1e}"


def loss_text(loss: float) -> str:
    """A loss that a run has reached: infinite where it diverged."""
    return in_nats(loss) if math.isfinite(loss) else "diverged"


def range_text(values: Sequence[float], write: Callable[[float], str]) -> str:
    """From the lowest to the highest: `0.003 to 0.005`; once where both are written alike."""
    low, high = write(min(values)), write(max(values))
    return low if low == high else f"{low} to {high}"


def changes_text(changes: Iterable[tuple[str, Any]]) -> str:
    """`scale=none, lr=0.01`: knobs and their values; of a text only that it is another."""
    return ", ".join(
        "another text" if name == "text" else f"{name}={value_text(name, value)}"
        for name, value in changes
    )


def diff_text(diff: Mapping[str, tuple[Any, Any]]) -> str:
    """`scale √d_k → none, lr 0.001 → 0.01`: what changes from one spec to another."""
    return ", ".join(
        "another text"
        if name == "text"
        else f"{name} {value_text(name, old)} → {value_text(name, new)}"
        for name, (old, new) in diff.items()
    )


def hot_changes_text(changes: Iterable[Change]) -> str:
    """`scale=none, lr=0.01 after step 120; lr=0.1 after step 150`."""
    return "; ".join(
        f"{changes_text(values.items())} after step {step}"
        for step, values in changes_by_step(changes).items()
    )


def changes_by_step(changes: Iterable[Change]) -> dict[int, dict[str, Any]]:
    """All changes made between two steps at once: what was legal together stays so."""
    found: dict[int, dict[str, Any]] = {}
    for step, name, value in changes:
        found.setdefault(step, {})[name] = value
    return found


# --- read from a file -----------------------------------------------------------------------


EXPECTED = {
    dict: "an object {…}",
    list: "a list […]",
    int: "a whole number",
    str: "a string",
    str | None: "a string or null",
}


def check_fields(values: Any, known: Mapping[str, Any], required: Iterable[str]) -> None:
    """Refuse what is not a dict, has an unknown field, one of another type, or lacks one.

    Args:
        known: the type of each field.

    Raises:
        ValueError: names the field.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{quoted(values)}: expected {EXPECTED[dict]}")
    if extra := sorted(values.keys() - known.keys()):
        raise ValueError(f"unknown field {cut(', '.join(extra))}; there is {', '.join(known)}")
    if missing := [name for name in required if name not in values]:
        raise ValueError(f"field {', '.join(missing)} is missing")
    for name, value in values.items():
        slip = known[name] is int and isinstance(value, bool)
        if slip or not isinstance(value, known[name]):
            raise ValueError(f"{name}={quoted(value)}: expected {EXPECTED[known[name]]}")


@contextmanager
def within(part: str) -> Iterator[None]:
    """Name this part in the message of whatever is refused in this block."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{part}: {error}") from error


def _read_task(values: dict[str, Any], text: str | None) -> Task:
    for name in ("task", "text_sha256"):
        if not isinstance(values.get(name, ""), str):
            raise ValueError(f"{name}={quoted(values[name])}: expected a string")
    if "text" in values:
        raise ValueError("unknown field text: a file holds text_sha256 instead of the text")
    if values.get("source") == "own" and "text_sha256" not in values:
        raise ValueError("field text_sha256 is missing: it says which text source='own' means")
    return task_from_dict(values, text)
