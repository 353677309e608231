"""The knobs in the sidebar: widgets for what a link may hold, and the spec that they describe.

Limits that only the browser enforces are checked again here.
"""

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.config import ARCHITECTURES, ModelConfig, TrainConfig
from core.device import Device
from core.forms import RECURRENT, form_of
from core.tasks import TASKS, Task
from playground.experiments.ready_made import GOOD_SETTINGS, READY_MADE
from playground.figures.model_drawing import LEGEND as MEANING
from playground.figures.model_drawing import LIVE, RESTART
from playground.runs.controller import is_hot
from playground.runs.limits import check_limits
from playground.runs.spec import Changes, Spec, changes_text
from playground.ui import allowed, notes, own_text
from playground.ui.link import EVERY, MAX_HEADS, MODEL, OF_TASK, TASK, TRAINING, present
from playground.ui.page_list import INSTRUMENTS, PAGES
from playground.ui.turned import hold, turn

FIRST = (
    "architecture",
    "d_model",
    "n_heads",
    "n_layers",
    "scale",
    "position",
    "mask",
    "residual",
    "norm",
    "init",
)
# What a recurrent net has none of.
OF_ATTENTION = ("n_heads", "scale", "position", "mask", "pad_mask", "residual", "norm")
OF_ATTENTION += ("norm_type", "ffn", "d_ff", "gated", "activation")
FEW = ("n_heads", "scale", "position", "residual")  # beside the pictures of a phone

# What is under "More", in the order of the configs.
MORE_MODEL = [name for name in MODEL if name not in (*FIRST, "window")]
MORE_TRAINING = [name for name in TRAINING if name != "seed"]

# What a knob says of itself where a run may go on: whether it changes that run or begins another.
SIGNS = {True: f"{LIVE} live", False: RESTART}
IN_WORDS = {hot: f"{MEANING[sign[0]].capitalize()}." for hot, sign in SIGNS.items()}
LEGEND = "; ".join(f"**{SIGNS[hot]}** {MEANING[SIGNS[hot][0]]}" for hot in SIGNS) + "."
ROOM = 34  # characters that the sidebar has room for


def few_knobs() -> DeltaGenerator:
    """Where the most important knobs go on a phone, whose sidebar and navigation are closed."""
    page = INSTRUMENTS["playground"]
    st.caption(f"**{page.title}.** {page.says} {LEGEND}")
    return st.container(key="few_knobs")


@dataclass(frozen=True)
class Look:
    """How the knobs are drawn.

    Attributes:
        signs: whether each says what turning it does to a run.
        projector: one line for each, so that the column is short however large its letters are.
        few: where the most important ones go instead of the sidebar, where that is out of sight;
            of a teacher's link all that are seen.
        middle: where the visitor's text is asked for while there is none.
    """

    signs: bool = False
    projector: bool = False
    few: DeltaGenerator | None = None
    middle: DeltaGenerator | None = None

    def place(self, name: str) -> AbstractContextManager:
        """Where a knob goes."""
        return self.few if self._among_few(name) else nullcontext()

    def _among_few(self, name: str) -> bool:
        chosen = allowed.allowed().sees(name) if self.limited else name in FEW
        return self.few is not None and chosen

    @property
    def limited(self) -> bool:
        """Whether a teacher's link says which of them are seen."""
        return allowed.limited()

    def style(self, name: str, first: bool = False) -> dict[str, Any]:
        """How a knob is drawn: see `Knob.draw`."""
        short = first and (self.projector or self._among_few(name))
        style = {"room": 0 if short else ROOM, "width": "stretch"}
        if not self.signs:
            return style
        hot = is_hot([name])
        return style | {"sign": SIGNS[hot], "note": IN_WORDS[hot]}


@dataclass(frozen=True)
class Choice:
    """What the visitor has chosen: a spec to run, or why there is none."""

    spec: Spec | None
    problem: str | None = None


# --- knobs that limit one another -----------------------------------------------------------


def heads_offered() -> list[int]:
    """Head counts that fit the chosen width and position scheme; an odd width has no rotary one."""
    d_model = present("d_model")
    even = present("position") == "rotary" and d_model % 2 == 0
    divisors = [n for n in range(1, MAX_HEADS + 1) if d_model % n == 0]
    return [n for n in divisors if not (even and d_model // n % 2)]


def why_heads() -> str:
    even = ", an even number for rotary positions" if present("position") == "rotary" else ""
    return f"each head gets d_model/n_heads columns of {present('d_model')}{even}"


def positions_offered() -> list[str]:
    """Rotary positions turn pairs of columns: an odd width has none."""
    odd = present("d_model") % 2
    return [name for name in MODEL["position"].choices if not (odd and name == "rotary")]


def architectures_offered() -> list[str]:
    forms = TASKS[present("task")].architectures
    return [name for name in ARCHITECTURES if form_of(name) in forms]


def why_architecture() -> str:
    task = TASKS[present("task")]
    return f"task {task.name} has no such form, {task.refusals.get(present('architecture'), '')}"


def without_effect(name: str, model: dict[str, Any], padded: bool) -> str:
    """Why turning a knob would change nothing beside the others; empty: it does change something.

    Args:
        model: the values of the other knobs of the model that may say so.
        padded: whether some rows of the task end in padding.
    """
    if name in OF_ATTENTION and model["architecture"] in RECURRENT:
        return "A recurrent net has none."
    if name == "pad_mask" and not padded:
        return "No row of this task is padded."
    if name == "tie_embeddings" and model["architecture"] == "vit":
        return "Patches are in no table that could be tied."
    if name in ("d_ff", "activation", "gated") and not model["ffn"]:
        return "There is no feed-forward."
    if name == "norm_type" and model["norm"] == "none":
        return "There is no norm."
    return ""


LIMITS = {
    "architecture": lambda: (architectures_offered(), why_architecture()),
    "n_heads": lambda: (heads_offered(), why_heads()),
    "position": lambda: (positions_offered(), "rotary positions turn pairs of columns"),
}


def warmups_offered() -> list[int]:
    """Those below the steps; the one in use may come from a link or a file."""
    offered = {*TRAINING["warmup"].choices, present("warmup")}
    return sorted(n for n in offered if n < present("steps"))


def _new_task() -> None:
    """Another task: an example of the old one means nothing."""
    notes.forget(TASK.key)
    st.session_state.probe = ""


# --- widgets --------------------------------------------------------------------------------


def choice() -> Choice:
    """What the knobs say on this run of the page."""
    return st.session_state.choice


def foreseen() -> Spec | None:
    """What the knobs will say once they are drawn, unless one of them has to be corrected.

    None: that, or they are drawn for the first time, or there is a text of the visitor's own.
    """
    if TASK.key not in st.session_state or present("text_source") == "own":
        return None
    name = present(TASK.key)
    of_task = {key: knob.present() for key, knob in OF_TASK[name].items()}
    values = {key.removeprefix(f"{name}_"): value for key, value in of_task.items()}
    try:
        task = TASKS[name](**values)
        model = {key: knob.present() for key, knob in MODEL.items()}
        if model["mask"] != "window":
            del model["window"]  # its knob is not drawn
        training = {key: knob.present() for key, knob in TRAINING.items()}
        spec = Spec(ModelConfig.for_task(task, **model), task, TrainConfig(**training))
        check_limits(spec)
        spec = replace(spec, probe=own_example())
        task.probe(spec.model.form, spec.probe)
    except ValueError:
        return None
    return spec


def draw(device: Device, look: Look) -> None:
    """Draw every knob in the sidebar and read them off, for `choice`."""
    st.session_state.choice = _draw(device, look)


def _draw(device: Device, look: Look) -> Choice:
    if look.signs and look.few is None:
        st.caption(LEGEND)
    with st.container(key="first_knobs", gap="small"):
        as_list = look.style("task") | {"room": 0, "on_change": _new_task}
        with look.place("task"):
            task_class = TASKS[TASK.draw(**as_list)]
        if not look.projector:
            st.caption(task_class.about)
            if not look.limited:
                _draw_good_settings(task_class.name)
        model = {}
        for name in FIRST:
            limits = LIMITS[name]() if name in LIMITS else ()
            style = look.style(name, first=True)
            if why := without_effect(name, model, padded=True):
                style |= {"disabled": True, "note": why}
            with look.place(name):
                model[name] = MODEL[name].draw(*limits, **style)
            if name == "mask" and model["mask"] == "window" and not why:
                with look.place("window"):
                    model["window"] = MODEL["window"].draw(**look.style("window"))
    with _more("task", look):
        task_values = _draw_task(task_class, look)
    with _more("model", look):
        chosen = {"ffn": present("ffn")} | model
        padded = _padded(task_class, task_values)
        for name in MORE_MODEL:
            style = look.style(name)
            if why := without_effect(name, chosen, padded):
                style |= {"disabled": True, "note": why}
            with look.place(name):
                model[name] = MODEL[name].draw(**style)
    with _more("training", look):
        training = {name: _draw_training(name, device, look) for name in MORE_TRAINING}
    with look.place("seed"):
        training["seed"] = TRAINING["seed"].draw(**look.style("seed"))
    if look.limited:
        with look.few or nullcontext():
            allowed.draw_way_out()
    else:
        _draw_ways_back(task_class)
    if _lacks_text():
        return Choice(None)  # its place says what is missing
    try:
        task = task_class(**task_values)
        spec = Spec(ModelConfig.for_task(task, **model), task, TrainConfig(**training))
    except ValueError as error:
        return Choice(None, str(error))
    return Choice(spec)


def _more(what: str, look: Look) -> AbstractContextManager:
    """Room for what is chosen less often; the few that a teacher's link shows need none of it."""
    if look.limited:
        return nullcontext()
    return st.expander(f"More: the {what}", key=f"more_{what}", bind="query-params")


def _draw_ways_back(task_class: type[Task]) -> None:
    """Buttons that turn many knobs at once."""
    st.button(
        "Back to the defaults",
        key="defaults",
        icon=":material/undo:",
        on_click=back_to_defaults,
        width="stretch",
        help="Every knob back to where it was at the start.",
    )
    st.menu_button(
        "Ready-made",
        [name for name, ready in READY_MADE.items() if ready.fits(task_class)],
        key="ready_made",
        icon=":material/category:",
        on_click=_take_ready_made,
        width="stretch",
        format_func=lambda name: READY_MADE[name].title,
        help="Turn the switches to those of a well-known transformer; sizes, steps and seed stay. "
        "The Playground's tab “This model” has all of them in a table.",
    )


def _padded(task_class: type[Task], values: dict[str, Any]) -> bool:
    with suppress(ValueError):  # a text that is missing, or too short
        return task_class(**values).padded
    return False


def _draw_training(name: str, device: Device, look: Look) -> Any:
    limits = ()
    if name == "warmup":
        limits = warmups_offered(), "it must be below the steps"
    elif name == "precision":
        limits = device.precisions, f"not on {device.words}"
        for precision, refusal in device.refusals:
            if refusal and allowed.allowed().sees(name):
                st.caption(f"{precision} is not offered: {refusal}")
    with look.place(name):
        return TRAINING[name].draw(*limits, **look.style(name))


def _draw_task(task_class: type[Task], look: Look) -> dict[str, Any]:
    values = {}
    for key, knob in OF_TASK[task_class.name].items():
        with look.place(key):
            values[key.removeprefix(f"{task_class.name}_")] = knob.draw(**look.style(key))
    if not values and not look.limited:
        st.caption("There is nothing to choose in this task.")
    if values.get("source") == "own":
        missing = look.middle if look.middle is not None and _lacks_text() else nullcontext()
        with missing:
            values["text"] = own_text.draw(partial(task_class, **values))
    return values


def _draw_good_settings(task: str) -> None:
    """A button that turns to what learns well, where the defaults are not it and it is not there.

    Defaults are part of every link, so a task does not change them.
    """
    changes, why = GOOD_SETTINGS.get(task, ((), ""))
    if any(present(name) != value for name, value in changes):
        st.button(
            "Good settings for this task",
            key="good_settings",
            icon=":material/tune:",
            on_click=_turn,
            args=(changes,),
            width="stretch",
            help=f"{why} Turns to {changes_text(changes)}.",
        )


def _take_ready_made() -> None:
    _turn(READY_MADE[st.session_state.ready_made].changes)


def _turn(changes: Changes) -> None:
    """Turn some knobs; what does not fit the others is corrected, and said, as in a link."""
    hold()
    turn(dict(changes))


def _lacks_text() -> bool:
    """Whether the visitor's own text is to be learnt, and there is none yet."""
    of_own = present("task") == "text" and present("text_source") == "own"
    return of_own and not own_text.in_use()


def knobs_of(spec: Spec) -> dict[str, Any]:
    """The value of every knob for a spec; the visitor's own text is not among them.

    Raises:
        ValueError: a knob has no such value; names the field and its value.
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
                f"{key}={EVERY[key].show(value)} is not on the page: {error}"
            ) from None
    return values


def turn_to(spec: Spec, **also: str) -> None:
    """Turn every knob to what a spec says. Call it before the knobs are drawn.

    The visitor's own text must be in use already. A teacher's link ends: its values do.

    Args:
        also: values of other widgets, by their keys.

    Raises:
        ValueError: a knob has no such value; nothing has been turned then.
    """
    values = knobs_of(spec)
    notes.forget()
    turn(values | {"probe": spec.probe or ""} | allowed.free() | also)


def back_to_defaults() -> None:
    """Every knob, and the example, back to where it was at first."""
    notes.forget()
    at_first = {key: knob.default for key, knob in EVERY.items() if key in st.session_state}
    turn(at_first | {"probe": ""})


def new_seed() -> None:
    hold()
    turn({"seed": present("seed") + 1})


# --- the visitor's own example --------------------------------------------------------------


def draw_example(spec: Spec) -> None:
    """A field for the visitor's own example; the task's is shown as one would type it."""
    st.text_input(
        "Your example",
        key="probe",
        bind="query-params",
        placeholder=spec.task.example(spec.model.form),
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
    go_to(page, **link)


def go_to(page: str, **link: str) -> None:
    """Go to another page once the knobs are drawn, which keep what they hold; see `take_to`."""
    st.session_state.way = PAGES[page].file, link


def open_page() -> None:
    """Go where a button said."""
    if way := st.session_state.pop("way", None):
        page, link = way
        st.switch_page(page, query_params=link)
