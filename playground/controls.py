"""Widgets <-> frozen configs <-> the address bar: the only file that knows all three.

Each knob is a widget whose key is the config field's name and whose value is bound to the query
string, so the link in the address bar is the page. Limits that only the browser enforces are
checked again here: a link can hold anything.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field as Item
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from core.config import ModelConfig, TrainConfig
from core.device import Device
from core.knobs import as_text, from_text
from core.tasks import TASKS, Task
from core.tasks.base import cut
from playground import own_text
from playground.pages import IDEAS
from playground.spec import KNOBS, MODEL_KNOBS, TASK_KNOBS, TRAINING_KNOBS, Spec

MAX_HEADS = 16
MOST_BUTTONS = 6  # choices that fit into a row of buttons; more make a slider

TITLES = {
    "task": "Task",
    "d_model": "d_model: width",
    "n_heads": "n_heads: attention heads",
    "n_layers": "n_layers: blocks",
    "scale": "Scores divided by",
    "position": "Position",
    "mask": "Mask",
    "window": "Window: keys seen, self included",
    "residual": "Residual connections",
    "norm": "LayerNorm",
    "init": "Initialisation",
    "d_ff": "d_ff: feed-forward width",
    "architecture": "Architecture",
    "pad_mask": "Hide padding",
    "ffn": "Feed-forward",
    "activation": "Activation",
    "tie_embeddings": "Tie embeddings",
    "steps": "Steps",
    "batch_size": "Batch size",
    "lr": "Learning rate",
    "optimizer": "Optimiser",
    "weight_decay": "Weight decay",
    "schedule": "Schedule",
    "warmup": "Warmup steps",
    "clip": "Clip gradients at",
    "precision": "Precision",
    "seed": "Seed",
    "symbols": "Symbols",
    "length": "Length",
    "vary": "Lengths vary",
    "source": "Source",
}

# The numbers offered where a field's legal range is wider than anyone needs.
OFFERED: dict[str, tuple[Any, ...]] = {
    "n_heads": tuple(range(1, MAX_HEADS + 1)),
    "d_model": (8, 16, 24, 32, 48, 64, 96, 128, 192, 256),
    "n_layers": (1, 2, 3, 4, 6, 8, 12),
    "d_ff": (None, 16, 32, 64, 128, 256, 512, 1024),
    "window": (1, 2, 3, 4, 6, 8, 12, 16, 32),
    "steps": (50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000, 50_000),
    "batch_size": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "lr": (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 10.0, 100.0, 1000.0),
    "weight_decay": (0.0, 0.001, 0.01, 0.1, 1.0),
    "warmup": (0, 10, 30, 50, 100, 300, 1000),
    "clip": (None, 0.1, 0.3, 1.0, 3.0, 10.0),
}

FIRST = ("d_model", "n_heads", "n_layers", "scale", "position", "mask", "residual", "norm", "init")
MORE_MODEL = ("d_ff", "ffn", "activation", "tie_embeddings", "pad_mask")
MORE_TRAINING = (
    "steps",
    "lr",
    "batch_size",
    "optimizer",
    "weight_decay",
    "schedule",
    "warmup",
    "clip",
    "precision",
)


@dataclass(frozen=True)
class Field:
    """One knob: its key in the link, the dataclass field behind it, and what is offered."""

    key: str
    item: Item
    choices: tuple[Any, ...] | None  # None: any whole number between low and high

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def default(self) -> Any:
        return self.item.default

    @property
    def help(self) -> str:
        return self.item.metadata["help"]

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name)

    def label(self, value: Any) -> str:
        return as_text(self.item, value)

    def read(self, text: str) -> Any:
        """The value that a link's text stands for.

        Raises:
            ValueError: the text is none of the offered values.
        """
        try:
            return self.check(from_text(self.item, text))
        except ValueError:
            raise ValueError(self._rule()) from None

    @property
    def between(self) -> tuple[Any, Any] | None:
        """The smallest and the largest number offered, where others between them do as well."""
        if self.name not in OFFERED or self.name == "n_heads":
            return None
        numbers = [choice for choice in self.choices if choice is not None]
        return min(numbers), max(numbers)

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest whole number, where there are no choices."""
        return self.item.metadata["low"], self.item.metadata["high"]

    def check(self, value: Any) -> Any:
        """The value, if this knob can be turned to it.

        Raises:
            ValueError: says which values it takes.
        """
        if self.choices is None:
            low, high = self.range
        elif value in self.choices:
            return value
        elif self.between is None or value is None:
            raise ValueError(self._rule())
        else:
            low, high = self.between
        if not low <= value <= high:
            raise ValueError(self._rule())
        return value

    def _rule(self) -> str:
        if self.choices is None:
            return "choose a whole number from {} to {}".format(*self.range)
        offered = ", ".join(self.label(choice) for choice in self.choices)
        return f"choose one of {offered}" + (", or a number between them" if self.between else "")


def _fields(items: Mapping[str, Item], prefix: str = "") -> dict[str, Field]:
    return {
        prefix + name: Field(prefix + name, item, _choices(item, of_task=bool(prefix)))
        for name, item in items.items()
    }


def _choices(item: Item, of_task: bool) -> tuple[Any, ...] | None:
    if choices := item.metadata["choices"]:
        return tuple(choices)
    if isinstance(item.default, bool):
        return (False, True)
    choices = None if of_task else OFFERED.get(item.name)
    return choices and _with(choices, item.default)


def _with(choices: Sequence[Any], value: Any) -> tuple[Any, ...]:
    """The numbers offered, and the one in use, which may come from a link or a file."""
    if value in choices:
        return tuple(choices)
    return tuple(sorted({*choices, value}, key=lambda n: (n is not None, n)))


MODEL = _fields(MODEL_KNOBS)
TRAINING = _fields(TRAINING_KNOBS)
OF_TASK = {name: _fields(items, f"{name}_") for name, items in TASK_KNOBS.items()}
TASK = Field("task", KNOBS["task"], tuple(TASKS))
EVERY = (
    {"task": TASK}
    | MODEL
    | TRAINING
    | {k: f for group in OF_TASK.values() for k, f in group.items()}
)
# Keys of widgets that are bound to the link but are no knobs of a run.
OTHER_KEYS = {
    "variants",
    "seeds",
    "projector",
    "log",
    "show_lr",
    "stage",
    "layer",
    "head",
    "probe",
    "fingerprint",
    "more_task",
    "more_model",
    "more_training",
    "scenario",
}


@dataclass(frozen=True)
class Choice:
    """What the visitor has chosen: a spec to run, or the sentence that says what stands in its way."""

    spec: Spec | None
    problem: str | None = None


# --- a link is checked once, when it is opened ----------------------------------------------


def check_link() -> list[str]:
    """What the link held that it may not hold, and what is used instead.

    A widget replaces an impossible value silently; this says so. Checked once a session, before
    the first widget is drawn.
    """
    if "replaced" not in st.session_state:
        st.session_state.overruled = {}
        st.session_state.replaced = list(_replaced())
    for key, value in st.session_state.overruled.items():
        st.session_state[key] = value
    return st.session_state.replaced


def _overrule() -> None:
    """Run once more where a widget has made its own sense of an impossible value: 1.5 -> 1."""
    wrong = {
        key: value
        for key, value in st.session_state.pop("overruled", {}).items()
        if st.session_state.get(key, value) != value
    }
    st.session_state.overruled = wrong
    if wrong:
        st.rerun()


def _replaced() -> Iterator[str]:
    for key in st.query_params:
        field, texts = EVERY.get(key), st.query_params.get_all(key)
        if key in OTHER_KEYS or key.partition("_")[0] in IDEAS:
            continue
        if field is None:
            meant = [name for name in EVERY if name.endswith(f"_{key}")]
            near = f" (did you mean {' or '.join(meant)}?)" if meant else ""
            yield f"`{cut(key)}` is not a knob of this page: ignored{near}"
            continue
        try:
            value = field.read(texts[0])
            if texts[0] != _of_widget(field, value):
                st.session_state.overruled[key] = value
            problem = f"` is given {len(texts)} times" if len(texts) > 1 else ""
        except ValueError as error:
            problem = f"={cut(texts[0])}`: {error}"
        if problem:
            st.session_state.overruled[key] = field.default
            yield f"`{key}{problem}; the default {field.label(field.default)} is used"
    if (heads := _present("n_heads")) not in (legal := heads_offered()):
        st.session_state.n_heads = nearest(legal, heads)
        yield f"`n_heads={heads}`: {why_heads()}; {st.session_state.n_heads} is used"
    if (warmup := _present("warmup")) not in (legal := warmups_offered()):
        st.session_state.warmup = nearest(legal, warmup)
        yield f"`warmup={warmup}` must be below steps; {st.session_state.warmup} is used"
    task, architecture = TASKS[_present("task")], _present("architecture")
    if architecture not in task.architectures:
        st.session_state.architecture = task.architectures[0]
        yield f"`architecture={architecture}`: {why_not(task, architecture)}; {task.architectures[0]} is used"


def _of_widget(field: Field, value: Any) -> str:
    """The one spelling that the widget itself reads in a link, which may hold another."""
    return str(value).lower() if isinstance(value, bool) else field.label(value)


def _present(key: str) -> Any:
    """A knob's value, even before its widget exists: from the state, the link, or the default."""
    field = EVERY[key]
    try:
        return (
            st.session_state[key] if key in st.session_state else field.read(st.query_params[key])
        )
    except (KeyError, ValueError):
        return field.default


# --- knobs that limit one another -----------------------------------------------------------


def heads_offered() -> list[int]:
    """Head counts that fit the chosen width and position scheme."""
    d_model, even = _present("d_model"), _present("position") == "rotary"
    divisors = [n for n in range(1, MAX_HEADS + 1) if d_model % n == 0]
    return [n for n in divisors if not (even and d_model // n % 2)]


def why_heads() -> str:
    even = ", an even number for rotary positions" if _present("position") == "rotary" else ""
    return f"each head gets d_model/n_heads columns of {_present('d_model')}{even}"


def why_not(task: type[Task], architecture: str) -> str:
    return f"task {task.name} has no such form, {task.refusals.get(architecture, '')}"


def warmups_offered() -> list[int]:
    steps = _present("steps")
    return [n for n in _with(OFFERED["warmup"], _present("warmup")) if n < steps]


def nearest(legal: list[int], wish: int) -> int:
    return min(legal, key=lambda n: (abs(n - wish), n))


def _fit_heads() -> None:
    if (heads := _present("n_heads")) not in (legal := heads_offered()):
        st.session_state.n_heads = nearest(legal, heads)
        st.toast(f"n_heads {heads} → {st.session_state.n_heads}: {why_heads()}")


def _fit_warmup() -> None:
    if (warmup := _present("warmup")) not in (legal := warmups_offered()):
        st.session_state.warmup = nearest(legal, warmup)
        st.toast(f"warmup {warmup} → {st.session_state.warmup}: it must be below the steps")


def _new_task() -> None:
    """Another task: an example of the old one means nothing, and the architecture must fit."""
    st.session_state.probe = ""
    architecture, task = _present("architecture"), TASKS[_present("task")]
    if architecture not in task.architectures:
        st.session_state.architecture = task.architectures[0]
        st.toast(
            f"architecture {architecture} → {task.architectures[0]}: {why_not(task, architecture)}"
        )


AFTER: dict[str, Callable[[], None]] = {
    "d_model": _fit_heads,
    "position": _fit_heads,
    "steps": _fit_warmup,
}


# --- widgets --------------------------------------------------------------------------------


def knob(field: Field, choices: Sequence[Any] | None = None) -> Any:
    """Draw one knob, bound to the link: a switch, a row of buttons, a slider or a number."""
    if choices is None and field.choices is not None:
        choices = _with(field.choices, _present(field.key)) if field.between else field.choices
    common = {
        "label": field.title,
        "key": field.key,
        "help": field.help,
        "bind": "query-params",
        "on_change": AFTER.get(field.name, "rerun"),
    }
    if choices is None:
        low, high = field.range
        return st.number_input(min_value=low, max_value=high, value=field.default, step=1, **common)
    if choices == (False, True):
        return st.toggle(value=field.default, **common)
    if len(choices) == 1:
        st.caption(f"{field.title}: {field.label(choices[0])}, the only choice here")
        return choices[0]
    default = field.default if field.default in choices else nearest(choices, field.default)
    # For a row of buttons None means that no button is pressed.
    if len(choices) <= MOST_BUTTONS and None not in choices:
        return st.segmented_control(
            options=choices,
            default=default,
            required=True,
            format_func=field.label,
            width="stretch",
            **common,
        )
    return st.select_slider(options=choices, value=default, format_func=field.label, **common)


def draw(device: Device) -> Choice:
    """Draw every knob in the sidebar and read them off.

    Returns:
        The spec to run, or the sentence that says what stands in its way.
    """
    task_class = TASKS[
        st.selectbox(
            TASK.title,
            TASK.choices,
            key=TASK.key,
            help=TASK.help,
            bind="query-params",
            on_change=_new_task,
        )
    ]
    st.caption(task_class.about)
    with st.container(key="first_knobs", gap="small"):
        model = {}
        for name in FIRST:
            model[name] = _draw_model(name)
            if name == "mask" and model["mask"] == "window":
                model["window"] = knob(MODEL["window"])
    training = {}
    if _lacks_text():
        st.session_state.more_task = True  # that is where it can be added
    with st.expander("More: the task", key="more_task", bind="query-params"):
        task_values = _draw_task(task_class)
    with st.expander("More: the model", key="more_model", bind="query-params"):
        model["architecture"] = knob(MODEL["architecture"], task_class.architectures)
        model |= {name: knob(MODEL[name]) for name in MORE_MODEL}
    with st.expander("More: the training", key="more_training", bind="query-params"):
        for name in MORE_TRAINING:
            training[name] = _draw_training(name, device)
    training["seed"] = knob(TRAINING["seed"])
    st.button(
        "Back to the defaults",
        key="defaults",
        icon=":material/undo:",
        on_click=back_to_defaults,
        width="stretch",
        help="Every knob back to where it was at first.",
    )
    _overrule()
    if _lacks_text():
        return Choice(None, own_text.MISSING)
    try:
        task = task_class(**task_values)
        spec = Spec(ModelConfig.for_task(task, **model), task, TrainConfig(**training))
    except ValueError as error:
        return Choice(None, str(error))
    return Choice(spec)


def _draw_model(name: str) -> Any:
    return knob(MODEL[name], heads_offered() if name == "n_heads" else None)


def _draw_training(name: str, device: Device) -> Any:
    if name == "warmup":
        return knob(TRAINING[name], warmups_offered())
    if name != "precision":
        return knob(TRAINING[name])
    for precision, refusal in device.refusals:
        if refusal:
            st.caption(f"{precision} is not offered: {refusal}")
    return knob(TRAINING[name], device.precisions)


def _draw_task(task_class: type[Task]) -> dict[str, Any]:
    values = {field.name: knob(field) for field in OF_TASK[task_class.name].values()}
    if values.get("source") == "own":
        values["text"] = own_text.draw(partial(task_class, **values))
    return values


def _lacks_text() -> bool:
    """Whether a text of one's own is to be learnt, and nobody has added one."""
    of_own = _present("task") == "text" and _present("text_source") == "own"
    return of_own and not st.session_state.get("own_text")


def knobs_of(spec: Spec) -> dict[str, Any]:
    """What every knob has to say for a spec; of a text of one's own not the text.

    Raises:
        ValueError: no knob says this; names the field and its value.
    """
    of_task = {f"{spec.task.name}_{name}": v for name, v in spec.task.to_dict().items()}
    values = {"task": spec.task.name} | spec.model.to_dict() | spec.training.to_dict() | of_task
    values = {key: value for key, value in values.items() if key in EVERY}
    if spec.model.mask != "window":
        del values["window"]  # its knob is not on the page
    for key, value in values.items():
        try:
            EVERY[key].check(value)
        except ValueError as error:
            said = f"{EVERY[key].name}={EVERY[key].label(value)}"
            raise ValueError(f"{said}: no knob says this; {error}") from None
    return values


def turn_to(spec: Spec) -> None:
    """Turn every knob to what a spec says. Call it before the knobs are drawn.

    A text of one's own must be in use already.

    Raises:
        ValueError: no knob says this; nothing has been turned then.
    """
    for key, value in knobs_of(spec).items():
        st.session_state[key] = value
    st.session_state.probe = spec.probe or ""


def back_to_defaults() -> None:
    """Every knob, and the example, back to where it was at first."""
    for field in EVERY.values():
        if field.key in st.session_state:
            st.session_state[field.key] = field.default
    st.session_state.probe = ""
