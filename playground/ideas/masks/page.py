"""Masks: drawn, edited cell by cell, and what they let through, measured by gradients."""

from collections.abc import Sequence

import numpy as np
import streamlit as st

from core.attention import attention_spelled_out
from core.config import ModelConfig, TrainConfig
from core.masks import (
    MASKS,
    as_bias,
    causal,
    everything,
    hidden_score,
    hide_padding,
    sliding_window,
)
from core.measure import future_influence
from core.tasks import TASKS
from playground.experiments.series import frames_together
from playground.experiments.variants import make_setup
from playground.ideas import common
from playground.ideas.common import choose
from playground.ideas.masks import measure
from playground.ideas.masks.figures import (
    MASK_TRACE,
    REACH_TRACE,
    mask_picture,
    padded_picture,
    row_picture,
    window_chart,
)
from playground.live.picture import Html, Part
from playground.runs.snapshot import Frame
from playground.runs.spec import Spec, counted
from playground.runs.view import Status, View
from playground.ui.components import Click, live_plot, number_cells
from playground.ui.knob import Knob

SOURCES = {"causal": causal, "none": everything, "window": sliding_window}
EDITS = "masks edits"  # in the session state: the edits after each change, the current ones last
MOST_EDITS = 100  # that can be undone


def position_text(i: int) -> str:
    """A position as the page counts: from 1."""
    return f"position {i + 1}"


def position_in_link(text: str) -> int:
    """The position that a link means: links of an earlier version counted from 0, in bare numbers.

    Raises:
        ValueError: it is no number.
    """
    word, number = text.lower().split() if " " in text else ("", text)
    if word not in ("", "position"):
        raise ValueError(text)
    return int(number) - 1 if word else int(number)


def choose_window_mask() -> None:
    st.session_state.masks_kind = "window"


KIND = Knob(
    "masks_kind",
    "Mask",
    tuple(MASKS),
    "causal",
    "Causal: itself and the past. None: everything. Window: the last few, itself included.",
)
WINDOW = Knob(
    "masks_window",
    "Window",
    measure.WINDOWS,
    3,
    "How many positions a query sees under the mask `window`, itself included; chooses that mask.",
    on_change=choose_window_mask,
)
LAYERS = Knob(
    "masks_layers",
    "Blocks",
    tuple(range(1, measure.MOST_LAYERS + 1)),
    2,
    "Each block looks again: what one has gathered, the next one passes on.",
)
LENGTH = Knob(
    "masks_length",
    "Tokens",
    (8, 10, measure.MAX_LENGTH),
    10,
    "The length of the sequence, from the task reverse.",
)
PADDING = Knob(
    "masks_padding",
    "Padding in this row",
    (0, 1, 2, 3),
    0,
    "How many positions at the end are only filler, drawn as a dot; their keys are hidden.",
)
QUERY = Knob(
    "masks_query",
    "Query (an output)",
    tuple(range(measure.MAX_LENGTH)),
    7,
    "The query that is followed, on the right of the picture and below.",
    position_text,
    parse=position_in_link,
)
KEY = Knob(
    "masks_key",
    "Key",
    tuple(range(measure.MAX_LENGTH)),
    4,
    "The cell of this query and this key is the one to change.",
    position_text,
    parse=position_in_link,
)
POSITION = Knob(
    "masks_position",
    "Positions",
    ("sinusoidal", "rotary", "none"),
    "sinusoidal",
    "Padding at the start moves every token to another position: some schemes notice.",
)
TRAINED = Knob(
    "masks_trained",
    "Positions of the models to train",
    ("rotary", "sinusoidal"),
    "rotary",
    "How they know a token's position; it decides how tempting the next one is.",
)


# --- edits ------------------------------------------------------------------------------------


def edits() -> dict[tuple[int, int], bool]:
    """(query, key) -> whether it is visible, for each cell set by hand."""
    return st.session_state.setdefault(EDITS, [{}])[-1]


def change(cells: dict[tuple[int, int], bool]) -> None:
    if (changed := edits() | cells) != edits():  # a change of nothing need not be undone
        st.session_state[EDITS] = [*st.session_state[EDITS][-MOST_EDITS:], changed]


def toggle(query: int, key: int, seen: measure.Cells) -> None:
    change({(query, key): not seen[query][key]})


def undo() -> None:
    st.session_state[EDITS] = st.session_state[EDITS][:-1] or [{}]


def undo_all() -> None:
    st.session_state[EDITS] = [{}]


def clicked(seen: measure.Cells):
    """A click on the mask changes that cell; one on the map beside it chooses the output."""

    def on_click(point: Click) -> None:
        if point.trace in (MASK_TRACE, REACH_TRACE):
            query, key = int(point.y), int(point.x)
            st.session_state.masks_query, st.session_state.masks_key = query, key
            if point.trace == MASK_TRACE:
                toggle(query, key, seen)

    return on_click


# --- sentences --------------------------------------------------------------------------------


def about_mask(found: measure.Reach, seen: np.ndarray, window: int | None, n_layers: int) -> str:
    """What the picture shows, from its gradients."""
    reached, count = found.reached, len(seen)
    pairs, later = count * (count - 1) // 2, int(np.triu(reached, 1).sum())
    through = f"through {counted(n_layers, 'block')}"
    if later:
        answers = int(np.diagonal(reached, 1).sum())
        said = (
            f"The mask leaks: {later} of {pairs} pairs of an output and a later token have a "
            f"gradient. {answers} of {count - 1} outputs can see the very token that they have "
            "to predict (rings)."
        )
    else:
        said = (
            f"Nothing leaks: {through}, the gradient of every output with respect to every later "
            "token is exactly 0."
        )
    if window is not None:
        n, most = int(reached[-1].sum()), n_layers * (window - 1) + 1
        said += (
            f" The window shows {window}, {'and' if n == window else 'but'} {n} tokens reach the "
            f"last output {through}: n·(w − 1) + 1 = {most}"
        )
        said += "." if n == most else f", and there are only {count} tokens."
    if empty := np.flatnonzero(~seen.any(-1)).tolist():
        who = "Query {} sees" if len(empty) == 1 else "Queries {} see"
        said += f" {who.format(', '.join(str(i + 1) for i in empty))} nothing."
    return said


def about_row(found: measure.Reach, seen: np.ndarray, query: int) -> str:
    """What one query sees, and what happens if it sees nothing."""
    if seen[query].all():
        return f"Query {query + 1} sees every key, the later ones included. The weights sum to 1."
    if seen[query].any():
        return (
            f"Query {query + 1} sees {int(seen[query].sum())} of {len(seen)} keys. The others get "
            "a weight of exactly 0, and the weights of those it sees sum to 1."
        )
    return (
        f"Query {query + 1} sees nothing. Softmax alone would still give out weights, "
        f"{found.softmax[0, query].max():.2f} each: added to {hidden()} the scores "
        "are lost in rounding. So the code multiplies such a row by 0, attention passes on "
        f"{found.handed_over[query]:g}, and only the residual connection is left: output "
        f"{query + 1} is reached by {counted(int(found.reached[query].sum()), 'token')}, its own. "
    ) + (
        "No logit is NaN, and all gradients are finite."
        if found.finite
        else "Some numbers are not finite."
    )


def about_padding(parts: Sequence[tuple], kind: str, position: str) -> str:
    """How the four padded batches compare with their sequences alone."""
    end, end_open, start, _ = (float(np.nanmax(values)) for *_, values in parts)
    said = f"Mask {kind}, padding at the end, hidden: each sequence {_as(end)}."
    if end_open == 0:
        said += " Here it need not be hidden: it is in the future, which this mask hides anyway."
    else:
        said += f" Not hidden, it is read like a token, and logits move by up to {end_open:.2f}."
    said += f" Padding at the start, hidden: each sequence {_as(start)}"
    if start > measure.ROUNDING:
        return (
            f"{said}, because every token is at another position, and with {position} positions "
            "that matters. Hiding the padding does not help: outside this measurement, the model "
            "refuses such a batch."
        )
    if position == "none":
        return f"{said}: without positions it does not matter where a token is."
    return f"{said}: {position} positions encode distances only."


def hidden() -> str:
    """What the code adds for −∞, typeset."""
    return f"${common.tex(f'{measure.HIDDEN_SCORE:.2g}')}$"


def _as(difference: float) -> str:
    if difference == 0:
        return "gives exactly what it gives alone"
    if difference < measure.ROUNDING:
        return f"gives what it gives alone, up to rounding ({difference:.1g})"
    return f"gives other logits, by up to {difference:.2f}"


# --- the page ---------------------------------------------------------------------------------

common.begin(
    "masks",
    "A causal mask hides the future. Without it, a model copies the answer instead of working "
    "it out.",
)
kind, window, n_layers, length, padding = choose(KIND, WINDOW, LAYERS, LENGTH, PADDING)

positions = range(length)
cells = measure.table(kind, window, length, padding, edits())
plain = measure.table(kind, window, length, padding)
by_hand = [(i, j) for i in positions for j in positions if cells[i][j] != plain[i][j]]
seen, found = np.array(cells), measure.reach(cells, n_layers, padding)
names = measure.TASK.decode(measure.tokens(length, padding))
regular = kind == "window" and not by_hand and not padding

sentence_above, picture_above = st.empty(), st.container()
with common.row():
    query = QUERY.draw(positions, width=330)
    key = KEY.draw(positions, width=330)
    st.button(
        "Hide it" if cells[query][key] else "Show it",
        key="masks_toggle",
        icon=":material/edit:",
        on_click=toggle,
        args=(query, key, cells),
        help="Change the cell of this query and key; a click on the mask does the same.",
    )
    st.button(
        "Clear the row",
        key="masks_clear",
        icon=":material/visibility_off:",
        on_click=change,
        args=({(query, j): False for j in positions},),
        help="Hide every key from this query.",
    )
    st.button(
        "Undo",
        key="masks_undo",
        icon=":material/undo:",
        on_click=undo,
        disabled=len(st.session_state[EDITS]) < 2,
    )
    st.button(
        "Undo all",
        key="masks_undo_all",
        type="tertiary",
        on_click=undo_all,
        disabled=not edits(),
        help="Back to the mask as its rule says. Changes by hand are not in the link.",
    )
with sentence_above:
    common.say(about_mask(found, seen, window if regular else None, n_layers))
with picture_above:
    live_plot(
        mask_picture(
            seen,
            found.gradient,
            names,
            edited=by_hand,
            output=query,
            key=key,
            size=common.tall(430),
        ),
        key="masks_picture",
        on_click=clicked(cells),
    )

st.subheader("One row of the formula", anchor=False)
added = "0" if seen[query, key] else f"({common.tex(f'{found.added[query, key]:.2g}')})"
weight = f"{found.weights[0, query, key]:.2f}" if seen[query, key] else "0"
common.formula(
    r"w_{ij} = \operatorname{softmax}_j\left(\frac{q_i \cdot k_j}{\sqrt{d_k}} + b_{ij}\right),"
    r"\quad b_{ij} = 0 \text{ or } -\infty",
    rf"{found.scaled[0, query, key]:.2f} + {added} \;\Rightarrow\; "
    rf"w_{{{query + 1},{key + 1}}} = {weight}",
)
live_plot(
    row_picture(
        [
            ("scaled score", found.scaled[0, query], "scores"),
            ("the mask adds", found.added[query], "scores"),
            ("softmax", found.softmax[0, query], "weights"),
            ("weight", found.weights[0, query], "weights"),
        ],
        names,
        query=query,
        size=common.tall(230, 330),
    ),
    key="masks_row",
)
common.say(about_row(found, seen, query))
st.caption(
    f"Head 1 of block 1. For −∞ the code adds {hidden()}, half of the most "
    "negative float32: far enough for a weight of exactly 0, and a finite number, so that a row "
    "with every key hidden does not become NaN."
)

left, right = st.columns(2, gap="large")
with left:
    st.subheader("A window reaches further than it looks", anchor=False)
    st.markdown(
        "Each block looks `w − 1` positions further back than the one before: what block 1 has "
        f"gathered, block 2 passes on. Counted by gradients, for the last of "
        f"{measure.MAX_LENGTH} tokens."
    )
    live_plot(
        window_chart(
            measure.WINDOWS,
            [measure.window_reach(w) for w in measure.WINDOWS],
            measure.MAX_LENGTH,
            chosen=(window, n_layers) if kind == "window" else None,
            size=common.tall(350, 440),
        ),
        key="masks_windows",
    )
with right:
    st.subheader("The leak, measured from outside", anchor=False)
    st.markdown(
        "Without gradients: change a later token, and see how far the logits before it move. With "
        "a causal mask or a window they stay the same, to the last digit. "
        f"({counted(n_layers, 'block')}, plain masks, untrained.)"
    )
    with st.container(horizontal=True):
        for name in MASKS:
            moved = measure.leak(name, window, n_layers, length)
            st.metric(
                name,
                f"{moved:.2g}",
                border=True,
                help="How far a logit moves when a later token is replaced.",
                delta="no leak" if moved == 0 else "leaks",
                delta_arrow="off",
                delta_color="green" if moved == 0 else "red",
            )
    st.markdown(
        "A low training loss does not show it. When a model writes by itself, the next token does "
        "not exist yet and cannot be copied: train both at the end of this page."
    )

st.subheader("A padded batch against the same sequences alone", anchor=False)
position = POSITION.draw()
parts = []
for side in measure.SIDES:
    batch = measure.padded(kind, window, n_layers, position, side)
    parts += [
        (f"padding at the {side}, hidden", batch.shown, batch.hidden),
        (f"padding at the {side}, not hidden", batch.shown, batch.visible),
    ]
live_plot(padded_picture(parts, size=common.tall(340, 470)), key="masks_padded")
st.markdown(about_padding(parts, kind, position))
st.caption(
    "Colour: the largest difference of a logit at that position. Padding itself is not compared."
)
common.source(
    SOURCES[kind],
    hide_padding,
    hidden_score,
    as_bias,
    attention_spelled_out,
    future_influence,
)

# --- training ---------------------------------------------------------------------------------

LINES = ("causal mask", "no mask")
COLLAPSED, HOLDS = 0.5, 0.8  # accuracies without teacher forcing
ACCURACIES = {
    "with teacher forcing": "Each token is predicted with the right answer before it given.",
    "without": "The model continues from its own output, as it has to in use.",
}


def accuracies(views: dict[str, View]) -> dict[str, Part]:
    """Accuracy with teacher forcing, and without, of both at the same step."""
    if not views:
        return {}
    frames = frames_together([[f for f in v.frames if measured(f)] for v in views.values()])
    shares = [(f.teacher_forced, f.free_running) for f in frames or ()] or [(None, None)] * 2
    cells = {
        f"{label}: right, {what}": ("–" if value is None else f"{value:.0%}", about)
        for label, pair in zip(LINES, shares, strict=True)
        for (what, about), value in zip(ACCURACIES.items(), pair, strict=True)
    }
    step = "" if frames is None else f", at step {frames[0].step}"
    said = f"<small>Share of the answers that are right, on validation examples{step}</small>"
    if all(view.status is Status.DONE for view in views.values()) and None not in shares[1]:
        said += common.paragraph(about_no_mask(*shares[1])).html
    return {"masks_accuracies": Html(number_cells(cells).html + said)}


def measured(frame: Frame) -> bool:
    """Whether the model has written by itself at this very step."""
    return frame.free_running is not None and frame.written_at == frame.step


def about_no_mask(forced: float, free: float) -> str:
    """What the model without a mask has learnt."""
    said = f"Without a mask {forced:.0%} are right with teacher forcing, and {free:.0%} without"
    if free < COLLAPSED:
        return (
            f"{said}: it has learnt to copy the answer, and little else. Its loss does not show it."
        )
    if free < HOLDS:
        return f"{said}: a good part of it was copied."
    return (
        f"{said}: it could look ahead, and learnt the task all the same. "
        "A leak does not say whether a model uses it: both have to be measured."
    )


trained = TRAINED.draw()
task = TASKS["reverse"](length=6)
base = Spec(ModelConfig.for_task(task, position=trained), task, TrainConfig())
common.training(
    "masks",
    "Reverse six symbols, under a causal mask and without any. Which loss ends lower? And which "
    "model can still do it when there is no answer to copy? Then choose "
    f"{'sinusoidal' if trained == 'rotary' else 'rotary'} positions, and train again.",
    make_setup(base, [(("mask", "none"),)]),
    LINES,
    moving=accuracies,
)
common.prev_next("masks")
