"""What a link may hold: every knob of a run, the keys of other widgets, and nothing else.

A knob's key is the config field's name, and its value is bound to the query string, so the link in
the address bar is the page. A link can hold anything: what it may not hold is said, and not used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import Field as Item
from functools import partial
from typing import Any

import streamlit as st

from core.knobs import as_text, cut, from_text
from playground.runs.spec import KNOBS, MODEL_KNOBS, TASK_KNOBS, TRAINING_KNOBS
from playground.ui.knob import Knob, note
from playground.ui.page_list import IDEAS

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


def overrule() -> None:
    """Run once more where a widget has made its own sense of an impossible value: 1.5 -> 1."""
    wrong = {
        key: value
        for key, value in st.session_state.overruled.items()
        if st.session_state.get(key, value) != value
    }
    st.session_state.overruled = wrong
    if wrong:
        st.rerun()


def present(key: str) -> Any:
    """The value of a knob, even before its widget is drawn."""
    return EVERY[key].present()
