"""Widgets <-> frozen configs <-> the address bar: the only file that knows all three.

Each knob is a widget whose key is the config field's name and whose value is bound to the query
string, so the link in the address bar is the page. Limits that only the browser enforces are
checked again here: a link can hold anything.
"""

from collections.abc import Mapping, Sequence
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
from playground.runs.spec import KNOBS, MODEL_KNOBS, TASK_KNOBS, TRAINING_KNOBS, Spec
from playground.ui import own_text
from playground.ui.knob import Knob, forget_notes, note
from playground.ui.page_list import IDEAS, PAGES

MAX_HEADS = 16

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


def _knobs(items: Mapping[str, Item], task: str = "") -> dict[str, Knob]:
    prefix = f"{task}_" if task else ""
    return {
        prefix + name: Knob(
            prefix + name,
            TITLES.get(name, name),
            _choices(item, of_task=bool(task)),
            item.default,
            item.metadata["help"],
            partial(as_text, item),
            parse=partial(from_text, item),
            between=not task and name in OFFERED and name != "n_heads",
        )
        for name, item in items.items()
    }


def _choices(item: Item, of_task: bool) -> Sequence[Any]:
    if choices := item.metadata["choices"]:
        return tuple(choices)
    if isinstance(item.default, bool):
        return (False, True)
    if choices := None if of_task else OFFERED.get(item.name):
        return tuple(sorted({*choices, item.default}, key=lambda n: (n is not None, n)))
    return range(item.metadata["low"], item.metadata["high"] + 1)


MODEL = _knobs(MODEL_KNOBS)
TRAINING = _knobs(TRAINING_KNOBS)
OF_TASK = {name: _knobs(items, name) for name, items in TASK_KNOBS.items()}
TASK = _knobs({"task": KNOBS["task"]})["task"]
# What is under "More", in the order of the configs.
MORE_MODEL = [name for name in MODEL if name not in (*FIRST, "window", "architecture")]
MORE_TRAINING = [name for name in TRAINING if name != "seed"]
EVERY = {"task": TASK} | MODEL | TRAINING
for of_one in OF_TASK.values():
    EVERY |= of_one
# Keys of widgets that are bound to the link but are not knobs of a run.
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
    """What the visitor has chosen: a spec to run, or why there is none."""

    spec: Spec | None
    problem: str | None = None


# --- a link is checked once, when it is opened ----------------------------------------------


def check_link() -> None:
    """Note what the link holds that it may not hold, and use something else instead.

    Once a session, before the first widget is drawn; knobs that are not on the page count too.
    """
    if "overruled" not in st.session_state:
        for key in st.query_params:
            if key in EVERY:
                EVERY[key].check_link()
            elif key not in OTHER_KEYS and key.partition("_")[0] not in IDEAS:
                meant = [name for name in EVERY if name.endswith(f"_{key}")]
                near = f" (did you mean {' or '.join(meant)}?)" if meant else ""
                note(f"`{cut(key)}` is not a knob of this page: ignored{near}")
        keys = EVERY.keys() & st.session_state.keys()
        st.session_state.overruled = {key: st.session_state[key] for key in keys}
    for key, value in st.session_state.overruled.items():
        st.session_state[key] = value


def _overrule() -> None:
    """Run once more where a widget has made its own sense of an impossible value: 1.5 -> 1."""
    wrong = {
        key: value
        for key, value in st.session_state.overruled.items()
        if st.session_state.get(key, value) != value
    }
    st.session_state.overruled = wrong
    if wrong:
        st.rerun()


def _present(key: str) -> Any:
    return EVERY[key].present()


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
    """Those below the steps; the one in use may come from a link or a file."""
    offered = {*TRAINING["warmup"].choices, _present("warmup")}
    return sorted(n for n in offered if n < _present("steps"))


def _new_task() -> None:
    """Another task: an example of the old one means nothing."""
    forget_notes()
    st.session_state.probe = ""


# --- widgets --------------------------------------------------------------------------------


def choice() -> Choice:
    """What the knobs say on this run of the page."""
    return st.session_state.choice


def draw(device: Device) -> None:
    """Draw every knob in the sidebar and read them off, for `choice`."""
    st.session_state.choice = _draw(device)


def _draw(device: Device) -> Choice:
    style = {"key": TASK.key, "help": TASK.help, "bind": "query-params", "on_change": _new_task}
    task_class = TASKS[st.selectbox(TASK.title, TASK.choices, **style)]
    st.caption(task_class.about)
    with st.container(key="first_knobs", gap="small"):
        model = {}
        for name in FIRST:
            limits = (heads_offered(), why_heads()) if name == "n_heads" else ()
            model[name] = MODEL[name].draw(*limits, width="stretch")
            if name == "mask" and model["mask"] == "window":
                model["window"] = MODEL["window"].draw()
    if _lacks_text():
        st.session_state.more_task = True  # that is where it can be added
    with st.expander("More: the task", key="more_task", bind="query-params"):
        task_values = _draw_task(task_class)
    with st.expander("More: the model", key="more_model", bind="query-params"):
        why = why_not(task_class, _present("architecture"))
        model["architecture"] = MODEL["architecture"].draw(
            task_class.architectures, why, width="stretch"
        )
        model |= {name: MODEL[name].draw(width="stretch") for name in MORE_MODEL}
    with st.expander("More: the training", key="more_training", bind="query-params"):
        training = {name: _draw_training(name, device) for name in MORE_TRAINING}
    training["seed"] = TRAINING["seed"].draw()
    st.button(
        "Back to the defaults",
        key="defaults",
        icon=":material/undo:",
        on_click=back_to_defaults,
        width="stretch",
        help="Every knob back to where it was at the start.",
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


def _draw_training(name: str, device: Device) -> Any:
    limits = ()
    if name == "warmup":
        limits = warmups_offered(), "it must be below the steps"
    elif name == "precision":
        limits = device.precisions, f"not on {device.words}"
        for precision, refusal in device.refusals:
            if refusal:
                st.caption(f"{precision} is not offered: {refusal}")
    return TRAINING[name].draw(*limits, width="stretch")


def _draw_task(task_class: type[Task]) -> dict[str, Any]:
    values = {
        key.removeprefix(f"{task_class.name}_"): knob.draw(width="stretch")
        for key, knob in OF_TASK[task_class.name].items()
    }
    if values.get("source") == "own":
        values["text"] = own_text.draw(partial(task_class, **values))
    return values


def _lacks_text() -> bool:
    """Whether the visitor's own text is to be learnt, and there is none yet."""
    of_own = _present("task") == "text" and _present("text_source") == "own"
    return of_own and not own_text.in_use()


def knobs_of(spec: Spec) -> dict[str, Any]:
    """The value of every knob for a spec; the visitor's own text is not among them.

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
            raise ValueError(
                f"{key}={EVERY[key].show(value)}: no knob says this; {error}"
            ) from None
    return values


def turn_to(spec: Spec) -> None:
    """Turn every knob to what a spec says. Call it before the knobs are drawn.

    The visitor's own text must be in use already.

    Raises:
        ValueError: no knob says this; nothing has been turned then.
    """
    values = knobs_of(spec)
    forget_notes()
    for key, value in values.items():
        st.session_state[key] = value
    st.session_state.probe = spec.probe or ""


def back_to_defaults() -> None:
    """Every knob, and the example, back to where it was at first."""
    forget_notes()
    for key, knob in EVERY.items():
        if key in st.session_state:
            st.session_state[key] = knob.default
    st.session_state.probe = ""


def new_seed() -> None:
    st.session_state.seed = _present("seed") + 1


# --- the visitor's own example --------------------------------------------------------------


def draw_example(spec: Spec) -> None:
    """A field for the visitor's own example; the task's is shown as one would type it."""
    st.text_input(
        "Your example",
        key="probe",
        bind="query-params",
        placeholder=spec.task.example(spec.model.architecture),
        help="What the maps and the predictions are about: type your own and press Enter.",
    )


def own_example() -> str | None:
    """What the visitor typed as an example of their own."""
    return st.session_state.get("probe") or None


# --- to another page ------------------------------------------------------------------------


def take_to(page: str, spec: Spec, **link: str) -> None:
    """Turn every knob to a spec, and go to another page once they are drawn.

    Args:
        link: what the address of that page is to hold besides the knobs, which write theirs.
    """
    turn_to(spec)
    st.session_state.way = PAGES[page].file, link


def open_page() -> None:
    """Go where a button said."""
    if way := st.session_state.pop("way", None):
        page, link = way
        st.switch_page(page, query_params=link)
