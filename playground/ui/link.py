"""What a link may hold: every knob of a run, the keys of other widgets, and nothing else.

A knob's key is the config field's name, and its value is bound to the query string, so the link in
the address bar is the page. A link can hold anything: what it may not hold is said, and not used.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field as Item
from functools import partial
from typing import Any, NamedTuple

import streamlit as st
from streamlit.navigation.page import Page

from core.knobs import as_text, cut, from_text
from playground.classroom import lessons
from playground.runs.spec import KNOBS, MODEL_KNOBS, TASK_KNOBS, TRAINING_KNOBS
from playground.ui import allowed
from playground.ui.knob import KEYS, Knob, one_of, settled
from playground.ui.literal import literal
from playground.ui.notes import note
from playground.ui.page_list import IDEAS

MAX_HEADS = 16

# Each holds the name of its field: what a link, a message or a verdict says is found on the page.
TITLES = {
    "task": "Task",
    "d_model": "d_model: width",
    "n_heads": "n_heads: attention heads",
    "n_layers": "n_layers: blocks",
    "scale": "scale: scores divided by",
    "position": "Position",
    "mask": "Mask",
    "window": "Window: keys seen, self included",
    "residual": "Residual connections",
    "norm": "norm: where",
    "norm_type": "norm_type: LayerNorm or RMSNorm",
    "init": "init: initialisation",
    "d_ff": "d_ff: feed-forward width",
    "architecture": "Architecture",
    "pad_mask": "pad_mask: hide padding",
    "ffn": "ffn: feed-forward",
    "gated": "Gated feed-forward",
    "activation": "Activation",
    "tie_embeddings": "Tie embeddings",
    "steps": "Steps",
    "batch_size": "Batch size",
    "lr": "lr: learning rate",
    "optimizer": "Optimizer",
    "weight_decay": "Weight decay",
    "schedule": "Schedule",
    "warmup": "Warmup steps",
    "clip": "Clip gradients at",
    "label_smoothing": "Label smoothing",
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
    "label_smoothing": (0.0, 0.05, 0.1, 0.2, 0.3),
    "share": (0.05, 0.1, 0.15, 0.3, 0.5),
    "hidden": (0.0, 0.5, 0.8, 1.0),
    "swapped": (0.0, 0.1, 0.2),
}
LOWEST = {"clip": 1e-6}  # where less than the offered numbers does, but not all that a config takes


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
            between=_widely(item, bool(task)) and name != "n_heads",
            lowest=LOWEST.get(name, item.metadata["low"]),
        )
        for name, item in items.items()
    }


def _choices(item: Item, of_task: bool) -> Sequence[Any]:
    if choices := item.metadata["choices"]:
        return tuple(choices)
    if isinstance(item.default, bool):
        return (False, True)
    if _widely(item, of_task):
        choices = {*OFFERED[item.name], item.default}
        return tuple(sorted(choices, key=lambda n: (n is not None, n)))
    return range(item.metadata["low"], item.metadata["high"] + 1)


def _widely(item: Item, of_task: bool) -> bool:
    """Whether more is legal than is offered. The whole numbers of a task are all offered."""
    return item.name in OFFERED and not (of_task and isinstance(item.default, int))


MODEL = _knobs(MODEL_KNOBS)
TRAINING = _knobs(TRAINING_KNOBS)
OF_TASK = {name: _knobs(items, name) for name, items in TASK_KNOBS.items()}
TASK = _knobs({"task": KNOBS["task"]})["task"]
EVERY = {"task": TASK} | MODEL | TRAINING
for of_one in OF_TASK.values():
    EVERY |= of_one


def _mark(text: str) -> str:
    if text and not re.fullmatch("[0-9a-f]{12}", text):
        raise ValueError("it is no beginning of a SHA-256")
    return text


class Other(NamedTuple):
    """A widget that is bound to the link, but is no knob: on which pages, and what it may hold."""

    pages: tuple[str, ...] = ()  # none: on all of them
    read: Callable[[str], Any] = str  # what no page can know beforehand, it checks itself
    write: Callable[[Any], str] = str


def _shown(value: bool) -> str:
    return str(value).lower()


def _controls(text: str) -> tuple[str, ...]:
    """Names of controls; what an idea's page has is known once it is drawn."""
    for name in (names := allowed.read(text)):
        if name not in {*EVERY, *allowed.OF_COMPARE} and not allowed.family(name):
            raise ValueError(f"{name} is not a knob")
    return names


_switch = partial(from_text, KNOBS["residual"])  # a switch of the page reads as one of the model
PLAYGROUND, COMPARED = ("",), ("compare", "scenarios")
WRITING = ("prompt", "temperature", "top_k", "top_p", "seed", "at", "text")  # of its panel
SEEDS = (1, 2, 3, 5, 6, 8, 10)
STAGES = {"scores": "q·k", "scaled": "·scale", "masked": "+mask", "weights": "softmax"}
OTHERS = {
    "turn": Other((), _controls, allowed.write),
    "show": Other((), _controls, allowed.write),
    "lesson": Other((), lessons.read_name),
    "at": Other((), lessons.read_number),
    "projector": Other((), _switch, _shown),
    "more_task": Other((), _switch, _shown),
    "more_model": Other((), _switch, _shown),
    "more_training": Other((), _switch, _shown),
    "fingerprint": Other((), _mark),
    "probe": Other(PLAYGROUND),
    "layer": Other(PLAYGROUND),
    "head": Other(PLAYGROUND),
    "show_lr": Other(PLAYGROUND, _switch, _shown),
    "log": Other((*PLAYGROUND, *COMPARED, "history"), _switch, _shown),
    "stage": Other((*PLAYGROUND, *COMPARED), one_of(*STAGES.values())),
    "variants": Other(("compare",)),
    "seeds": Other(("compare",), one_of(*SEEDS)),
    "scenario": Other(("scenarios",)),
    "class": Other(("class",)),
    "teacher": Other(("class",)),
    "lookup_words": Other(("lookup",)),
    "lookup_query": Other(("lookup",)),
    "lookup_key": Other(("lookup",)),
    "depth_numbers": Other(("depth",)),
    "translation_text": Other(("translation",)),
    "bert_text": Other(("bert",)),
    "writing_prompt": Other(("writing",)),
    "writing_text": Other(("writing",)),
} | {f"lookup_key_{i}": Other(("lookup",)) for i in range(1, 5)}
OTHERS |= {f"write_{name}": Other(PLAYGROUND) for name in WRITING}


def check_link(page: Page) -> None:
    """Let the address hold only what it can mean, and note the rest; before any widget is drawn.

    Knobs that are not on the page count too. What a page alone can judge it settles itself.
    """
    arriving = "link_read" not in st.session_state  # later it holds what pages have left there
    st.session_state.link_read = True
    given = {key: st.query_params.get_all(key) for key in st.query_params}
    wanted = {}
    for key, texts in given.items():
        text = None
        if _is_of(page.url_path, key):
            wanted[key] = texts
        elif key in EVERY:
            text = EVERY[key].settled(texts)
        elif key in OTHERS and page.url_path in (OTHERS[key].pages or (page.url_path,)):
            text = settled(key, texts, OTHERS[key].read, OTHERS[key].write)
        elif arriving:
            _note_unknown(key)
        if text is not None:
            wanted[key] = [text]
    if wanted != given:
        # Widgets that were drawn before write what they say themselves.
        new = {key: texts for key, texts in wanted.items() if key not in st.session_state}
        st.switch_page(page, query_params=new)


def check_rest(page: Page) -> None:
    """Once the page has drawn its knobs: drop what its address holds besides them."""
    known = {*KEYS, *OTHERS}
    found = {key for key in st.query_params if _is_of(page.url_path, key) and key not in known}
    for key in sorted(found):
        _note_unknown(key)
        del st.query_params[key]
    if found | _check_allowed(page.url_path, known):
        st.rerun()


def _check_allowed(address: str, known: set[str]) -> set[str]:
    """What a teacher's link names of this page, and it has not; noted, and out of the link."""
    strange = {
        name for name in allowed.allowed().named if _is_of(address, name) and name not in known
    }
    for name in sorted(strange):
        note(name, f"{literal(name)} is not a knob of this page: it is not shown")
    allowed.drop(strange)
    return strange


def _is_of(address: str, key: str) -> bool:
    """Whether a key begins like those of an idea's page."""
    return address in IDEAS and key.startswith(f"{address}_")


def _note_unknown(key: str) -> None:
    meant = [name for name in EVERY if name.endswith(f"_{key}")]
    near = f" (did you mean {' or '.join(meant)}?)" if meant else ""
    note(key, f"{literal(cut(key))} is not a knob of this page: ignored{near}")


def present(key: str) -> Any:
    """The value of a knob, even before its widget is drawn."""
    return EVERY[key].present()
