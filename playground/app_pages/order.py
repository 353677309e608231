"""Positions: five ways to tell the order, what a shuffle shows, and texts longer than the training."""

import math

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import positions
from core.config import ModelConfig, TrainConfig
from core.model import Embedding
from core.positions import POSITIONS
from playground import lesson
from playground.comparison import Series, line_up
from playground.components import live_plot
from playground.figures.order import (
    Line,
    beyond_chart,
    blind_chart,
    number,
    order_picture,
    shuffle_picture,
)
from playground.glossary import explain
from playground.ideas import order
from playground.lesson import Knob
from playground.spec import Spec

KINDS = tuple(POSITIONS)
MASKS = ("none", "causal")
STEPS = 200
EQUIVARIANT = 1e-9  # a difference below is rounding: everything is computed in float64

KIND = Knob(
    "order_kind", "Positions", KINDS, "sinusoidal", "How the model is told where a token stands."
)
WIDTH = Knob("order_d_model", "d_model", (16, 32, 64, 128), 64, "Columns of the table.")
HEADS = Knob(
    "order_heads",
    "Heads",
    (1, 2, 4, 8),
    4,
    "Rotary turns the columns of a head; ALiBi has a slope for each.",
)
LENGTH = Knob("order_length", "Length", (16, 32, 64, 128), 64, "How many positions are shown.")
PAIR = Knob(
    "order_pair",
    "Pair of columns",
    tuple(range(64)),
    4,
    "Two columns that share a wavelength: framed in the table, drawn as waves.",
)
HEAD = Knob("order_head", "Head", tuple(range(1, 9)), 2, "Whose bias is drawn as a map.")
ORDER = Knob(
    "order_shuffle",
    "Shuffle",
    tuple(order.ORDERS),
    "dog ↔ man",
    "In which order the words are read the second time.",
)
MASK = Knob("order_mask", "Mask", MASKS, "none", "Whether a word may look at those behind it.")
TRAINED = Knob(
    "order_trained",
    "Trained on",
    (16, 32, 64),
    32,
    "Characters in each text that the models learn from; they are tested on four times as many.",
)


def beside(share: float) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Two places side by side; for the back row one below the other."""
    if lesson.projector():
        return st.container(), st.container()
    return tuple(st.columns([share, 1], gap="medium", vertical_alignment="center"))


# --- what a scheme tells --------------------------------------------------------------------


def waves_of(kind: str, told: order.Told, pair: int) -> list[Line]:
    """The two columns of a pair, with the fastest and the slowest pair behind them."""
    table = told.table.T
    first, second = ("cos", "sin") if kind == "rotary" else ("sin", "cos")
    if kind == "learned":
        first, second = "first column", "second column"
    return [
        Line("pair 0", table[0].tolist(), None),
        Line(f"pair {len(table) // 2 - 1}", table[-2].tolist(), None),
        Line(first, table[2 * pair].tolist(), 0),
        Line(second, table[2 * pair + 1].tolist(), 1, dashed=True),
    ]


def picture(kind: str, d_model: int, n_heads: int, length: int, chosen: int) -> None:
    """The main picture of one kind."""
    told = order.told(kind, d_model, n_heads, length)
    shared = {"projector": lesson.projector()}
    if kind == "alibi":
        middle, distance = length // 2, np.arange(length)
        slopes = [-float(bias[0, 1]) for bias in told.bias]
        figure = order_picture(
            told.bias[chosen],
            [_head_line(i, bias[middle].tolist(), chosen) for i, bias in enumerate(told.bias)],
            [_head_line(i, np.exp(-m * distance).tolist(), chosen) for i, m in enumerate(slopes)],
            titles=(
                f"added to head {chosen + 1}'s scores",
                f"each head, seen from position {middle}",
                "what is left of a weight",
            ),
            axes=("key", "query"),
            fit_axis="factor on the weight",
            alt=f"ALiBi: head {chosen + 1} loses {slopes[chosen]:.3g} of score for each step of distance.",
            **shared,
        )
    elif kind == "none":
        flat = [1.0] * length
        figure = order_picture(
            told.table,
            [Line("nothing", told.table[:, 0].tolist(), 0)],
            [Line("every distance", flat, 0)],
            titles=(
                "added to the tokens: nothing",
                "over the positions",
                "what is left of a weight",
            ),
            axes=("column", "position"),
            fit_axis="factor on the weight",
            alt="No positions: zero everywhere.",
            **shared,
        )
    else:
        fits = order.alike(kind, d_model, n_heads, length)
        turned = kind == "rotary"
        figure = order_picture(
            told.table,
            waves_of(kind, told, chosen),
            [
                Line(
                    "q·k" if turned else "p·p",
                    fits.mean.tolist(),
                    2,
                    low=fits.low.tolist(),
                    high=fits.high.tolist(),
                )
            ],
            titles=(
                "what becomes of (1, 0)" if turned else "added to the tokens",
                f"pair {chosen} over the positions",
                "equal q and k" if turned else "how alike two rows are",
            ),
            axes=("column of a head" if turned else "column", "position"),
            columns=(2 * chosen, 2 * chosen + 1),
            fit_axis="share of the score" if turned else "p·p, as a share of |p|²",
            alt=f"Positions {kind}: at distance 1 the likeness is {fits.mean[1]:.2f}, at {length // 4} it is {fits.mean[length // 4]:.2f}.",
            **shared,
        )
    live_plot(figure, key="order_picture")


def _head_line(head: int, values: list[float], chosen: int) -> Line:
    return Line(f"head {head + 1}", values, 0 if head == chosen else None)


def verdict(kind: str, d_model: int, n_heads: int, length: int, chosen: int) -> str:
    """What the picture says, in numbers measured from it."""
    if kind == "none":
        return "Nothing is added, turned or subtracted: a token looks the same wherever it stands."
    if kind == "alibi":
        slope = -float(order.told(kind, d_model, n_heads, length).bias[chosen, 0, 1])
        return (
            f"Nothing is added to the tokens. Head {chosen + 1} takes {slope:.3g} off a score for each "
            f"step of distance: a key 8 steps away keeps {math.exp(-8 * slope):.0%} of its weight. "
            "Forwards or backwards makes no difference; only a mask makes one."
        )
    fits, far = order.alike(kind, d_model, n_heads, length), length // 4
    if kind == "learned":
        return (
            f"Untrained, the table is noise: neighbours are alike by {number(fits.mean[1])}, rows {far} apart "
            f"by {number(fits.mean[far])}, a row and itself by 1. Order has to be learnt, row by row, and "
            f"there is no row after position {length - 1}."
        )
    waves = order.wavelengths(d_model // n_heads if kind == "rotary" else d_model)
    turns = sum(wave <= length for wave in waves)
    said = (
        f"{turns} of {len(waves)} pairs turn{'s' * (turns == 1)} all the way round within {length} positions; "
        f"the slowest needs {waves[-1]:,.0f}. "
    )
    if kind == "rotary":
        return (
            f"{said}Equal q and k keep {fits.mean[1]:.0%} of their score at distance 1 and "
            f"{fits.mean[far]:.0%} at {far} (the band: 8 of 10 random tokens). Where they stand does "
            f"not matter, only how far apart: it differs by {number(fits.drift)} at most."
        )
    return (
        f"{said}Neighbours are alike by {fits.mean[1]:.2f}, rows {far} apart by {fits.mean[far]:.2f}, "
        f"the same wherever they stand (to {number(fits.drift)})."
    )


def formula(kind: str, d_model: int, n_heads: int, length: int, chosen: int) -> None:
    """The formula of one kind, with the numbers of the picture."""
    width = d_model // n_heads if kind == "rotary" else d_model
    if kind in ("sinusoidal", "rotary"):
        wave = order.wavelengths(width)[chosen]
        says = (
            r"PE_{p,2i} = \sin\frac{p}{10000^{2i/d}},\; PE_{p,2i+1} = \cos\frac{p}{10000^{2i/d}},"
            if kind == "sinusoidal"
            else r"\begin{pmatrix}q_{2i}\\q_{2i+1}\end{pmatrix} \mapsto R(p\,\theta_i)\begin{pmatrix}q_{2i}\\q_{2i+1}\end{pmatrix},\; \theta_i = 10000^{-2i/d_k},"
        )
        lesson.formula(
            says,
            rf"\lambda_{{{chosen}}} = 2\pi\cdot 10000^{{{2 * chosen}/{width}}} = {wave:,.1f}".replace(
                ",", "{,}"
            ),
        )
    elif kind == "learned":
        lesson.formula(
            r"x_p = E[\text{token}_p] + P[p],\quad P \sim N(0,\, 0.02^2),",
            rf"{length} \times {d_model} = {length * d_model}\ \text{{parameters}}",
        )
    elif kind == "alibi":
        slope = -float(order.told(kind, d_model, n_heads, length).bias[chosen, 0, 1])
        lesson.formula(
            r"\text{score}_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}} - m_h\,|i-j|,",
            rf"m_{{{chosen + 1}}} = {slope:.4g},\quad e^{{-8 m}} = {math.exp(-8 * slope):.3g}",
        )
    else:
        lesson.formula(r"x_p = E[\text{token}_p],", r"P[p] = 0 \text{ for every } p")


# --- a shuffle ------------------------------------------------------------------------------


def noticed(found: order.Shuffled, kind: str, mask: str, wish: str) -> str:
    """Whether the model noticed, and why."""
    largest = f"(largest difference {number(found.difference)})"
    if found.difference < EQUIVARIANT:
        said = (
            f"The outputs are shuffled along with the words {largest}: the model is **equivariant**. "
            f"It is not invariant, as is often said: what comes out at a place changes by up to "
            f"{found.in_place:.2g}. Only what adds up all places is invariant, such as "
            f"their mean (it changes by {number(found.of_mean)})."
        )
        if kind == "alibi":
            said += " ALiBi without a mask knows distances but no directions, and read backwards all distances are the same."
        return said
    if kind == "none":
        return (
            f"The shuffle is noticed {largest}, although there are no positions: the **causal mask alone "
            "leaks the order**, since each word sees only those before it."
        )
    return f"The shuffle is noticed {largest}: the same words in another order are another text."


# --- trained short, tested long -------------------------------------------------------------


def longer(series: tuple[Series, ...]) -> None:
    """Each run at rest, tested on texts longer than it was trained on."""
    trained = series[0].spec.task.length
    tests = {
        kind: found
        for kind, line in zip(KINDS, series, strict=True)
        if (found := lesson.at_rest("order", line.views[0], order.beyond)) is not None
    }
    st.markdown(f"**Trained on {trained} characters, tested on {order.TIMES * trained}**")
    left, right = beside(2)
    with left:
        figure = beyond_chart(
            {kind: (KINDS.index(kind), found.loss) for kind, found in tests.items()},
            trained,
            order.TIMES * trained,
            bins=trained // 8,
            projector=lesson.projector(),
        )
        live_plot(figure, key="order_beyond")
    with right:
        rows = [
            f"| {kind} | {found.within(found.loss):.2f} → {_shown(found.beyond(found.loss), '.2f')} | "
            f"{found.within(found.right):.0%} → {_shown(found.beyond(found.right), '.0%')} |"
            for kind, found in tests.items()
        ]
        if rows:
            st.markdown("\n".join(["| within → beyond | loss | right |", "|---|---|---|", *rows]))
        for kind, found in tests.items():
            if found.refused:
                st.caption(f"`{kind}` refuses: {found.refused}.")
    if tests:
        st.markdown(who_goes_on(tests))
        st.caption(
            "Mean loss in nats and share of characters predicted right, on validation texts that begin "
            "anywhere in Python's documentation. Behind the first few, which have little to go by, all "
            "positions are as hard as each other: what rises beyond the line comes from a place, or a "
            "length, that was never seen."
        )


def who_goes_on(tests: dict[str, order.Beyond]) -> str:
    """By how much each loses beyond the trained length, best first."""
    lost = {
        kind: found.beyond(found.loss) - found.within(found.loss)
        for kind, found in tests.items()
        if not found.refused
    }
    if not lost:
        return ""
    said = ", ".join(f"`{kind}` {_signed(lost[kind])}" for kind in sorted(lost, key=lost.get))
    return f"What the step beyond the trained length costs, in nats: {said}."


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _shown(value: float, digits: str) -> str:
    return f"{value:{digits}}" if math.isfinite(value) else "–"


# --- the page -------------------------------------------------------------------------------

lesson.begin(
    "order",
    "Attention sees a set, not a sequence; without positions it is blind to the order of its input.",
)
with st.container(horizontal=True, vertical_alignment="bottom"):
    kind = KIND.draw(width="content")
    d_model = WIDTH.draw(width="content")
    n_heads = HEADS.draw(width="content")
    length = LENGTH.draw(width="content")
    if kind == "alibi":
        chosen = (
            HEAD.draw(tuple(range(1, n_heads + 1)), width="content" if n_heads < 8 else 200) - 1
        )
    elif kind != "none":
        width = d_model // n_heads if kind == "rotary" else d_model
        chosen = PAIR.draw(tuple(range(width // 2)), width=200)
    else:
        chosen = 0

shape = (kind, d_model, n_heads, length, chosen)
st.markdown(explain(verdict(*shape)), unsafe_allow_html=True)
picture(*shape)
formula(*shape)

st.subheader("Shuffle the words", anchor=False)
with st.container(horizontal=True, vertical_alignment="bottom"):
    wish = ORDER.draw(width="content")
    mask = MASK.draw(width="content")
    st.markdown(
        f"Positions: **{kind}**, untrained, {d_model} columns, {n_heads} head{'s' * (n_heads > 1)}"
    )
places = order.ORDERS[wish]
found = order.shuffled(kind, mask, places, d_model, n_heads)
st.markdown(noticed(found, kind, mask, wish))
left, right = beside(2.2)
with left:
    figure = shuffle_picture(
        found.before,
        found.after,
        order.WORDS,
        [order.WORDS[i] for i in places],
        projector=lesson.projector(),
    )
    live_plot(figure, key="order_shuffled")
with right:
    figure = blind_chart(
        {
            f"mask {m}": {
                k: order.shuffled(k, m, places, d_model, n_heads).difference for k in KINDS
            }
            for m in MASKS
        },
        chosen=(f"mask {mask}", kind),
        projector=lesson.projector(),
    )
    live_plot(figure, key="order_blind")
SHOWN = {
    "sinusoidal": (positions.sinusoids, positions.Sinusoidal),
    "learned": (positions.Learned,),
    "none": (positions.NoPosition,),
    "rotary": (positions.Rotary,),
    "alibi": (positions.alibi_slopes, positions.ALiBi),
}
lesson.source(*SHOWN[kind], Embedding)

st.subheader("Trained short, tested long", anchor=False)
trained = TRAINED.draw(width="content")
task = order.task(trained)
base = Spec(ModelConfig.for_task(task, position=KINDS[0]), task, TrainConfig(steps=STEPS))
lesson.training(
    "order",
    f"Five models learn Python's documentation, {trained} characters at a time. Which of them can read a text "
    f"of {order.TIMES * trained}? The paper hoped that sinusoids would (section 3.5). Guess first; each "
    "is tested as soon as it rests.",
    line_up(base, [(("position", kind),) for kind in KINDS[1:]]),
    list(KINDS),
    longer,
)
lesson.onwards("order")
