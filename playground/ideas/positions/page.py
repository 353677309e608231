"""Positions: five ways to encode the order, what a shuffle shows, longer texts than trained on."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import streamlit as st

from core import positions
from core.config import ModelConfig, TrainConfig
from core.model import Embedding
from core.positions import POSITIONS
from playground.experiments.variants import make_setup
from playground.figures.style import Figure
from playground.ideas import common
from playground.ideas.positions import measure
from playground.ideas.positions.figures import (
    Line,
    beyond_chart,
    difference_chart,
    number,
    order_picture,
    shuffle_picture,
)
from playground.live.picture import Shown
from playground.runs.spec import Spec, counted
from playground.runs.view import View
from playground.ui.components import live_plot
from playground.ui.knob import Knob

KINDS = tuple(POSITIONS)
MASKS = ("none", "causal")
STEPS = 200
EQUIVARIANT = 1e-9  # a difference below is rounding: everything is computed in float64

KIND = Knob(
    "order_kind", "Positions", KINDS, "sinusoidal", "How the model is told the position of a token."
)
WIDTH = Knob("order_d_model", "d_model", (16, 32, 64, 128), 64, "Columns of the table.")
HEADS = Knob(
    "order_heads",
    "Heads",
    (1, 2, 4, 8),
    4,
    "Rotary rotates the columns of each head; ALiBi has a slope for each head.",
)
LENGTH = Knob("order_length", "Length", (16, 32, 64, 128), 64, "How many positions are shown.")
PAIR = Knob(
    "order_pair",
    "Pair of columns",
    tuple(range(64)),
    4,
    "Two columns with the same wavelength: framed in the table, drawn as waves.",
)
HEAD = Knob("order_head", "Head", tuple(range(1, 9)), 2, "The head whose bias is drawn as a map.")
ORDER = Knob(
    "order_shuffle",
    "Shuffle",
    tuple(measure.ORDERS),
    "dog ↔ man",
    "The order in which the words are read the second time.",
)
MASK = Knob("order_mask", "Mask", MASKS, "none", "Whether a word may look at the words after it.")
TRAINED = Knob(
    "order_trained",
    "Trained on",
    (16, 32, 64),
    32,
    "Characters in each text that the models learn from; they are tested on four times as many.",
)


# --- what a scheme does --------------------------------------------------------------------


class Shape(NamedTuple):
    """The chosen scheme and sizes; `chosen` is a pair of columns, or a head of ALiBi, from 0."""

    kind: str
    d_model: int
    n_heads: int
    length: int
    chosen: int

    @property
    def far(self) -> int:
        """A distance to compare with that of neighbours."""
        return self.length // 4

    def effect(self) -> measure.Effect:
        return measure.effect(*self[:4])

    def similarity(self) -> measure.Similarity:
        return measure.similarity(*self[:4])


class Explained(NamedTuple):
    """A scheme in a sentence, in a formula and in a picture, all with measured numbers."""

    sentence: str
    formula: tuple[str, str]
    figure: Figure


def no_positions(shape: Shape) -> Explained:
    table = shape.effect().table
    return Explained(
        "Nothing is added, rotated or subtracted: a token looks the same at every position.",
        (r"x_p = E[\text{token}_p],", r"P[p] = 0 \text{ for every } p"),
        order_picture(
            table,
            [Line("nothing", table[:, 0])],
            [Line("every distance", np.ones(shape.length))],
            titles=(
                "added to the tokens: nothing",
                "over the positions",
                "what is left of a weight",
            ),
            axes=("column", "position"),
            fit_axis="factor on the weight",
            alt="No positions: zero everywhere.",
            size=common.tall(340),
        ),
    )


def alibi(shape: Shape) -> Explained:
    head, biases = shape.chosen, shape.effect().bias
    slopes = [-float(bias[0, 1]) for bias in biases]
    slope, middle, distance = slopes[head], shape.length // 2, np.arange(shape.length)

    def lines(rows: list[np.ndarray]) -> list[Line]:
        return [Line(f"head {i + 1}", y, 0 if i == head else None) for i, y in enumerate(rows)]

    return Explained(
        f"Nothing is added to the tokens. Head {head + 1} takes {slope:.3g} off a score for each "
        f"step of distance: a key 8 steps away keeps {math.exp(-8 * slope):.0%} of its weight. "
        "It does not tell forwards from backwards; only a mask does.",
        (
            r"\text{score}_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}} - m_h\,|i-j|,",
            rf"m_{{{head + 1}}} = {slope:.4g},\quad e^{{-8 m}} = {math.exp(-8 * slope):.3g}",
        ),
        order_picture(
            biases[head],
            lines([bias[middle] for bias in biases]),
            lines([np.exp(-m * distance) for m in slopes]),
            titles=(
                f"added to head {head + 1}'s scores",
                f"each head, seen from position {middle}",
                "what is left of a weight",
            ),
            axes=("key", "query"),
            fit_axis="factor on the weight",
            alt=f"ALiBi: head {head + 1} loses {slope:.3g} of score for each step of distance.",
            size=common.tall(340),
        ),
    )


def learned(shape: Shape) -> Explained:
    length, near = shape.length, shape.similarity().mean
    return Explained(
        f"Untrained, the table is noise: the similarity of neighbours is {number(near[1])}, of "
        f"rows {shape.far} apart {number(near[shape.far])}, of a row and itself 1. The order "
        f"has to be learnt, row by row, and there is no row after position {length - 1}.",
        (
            r"x_p = E[\text{token}_p] + P[p],\quad P \sim N(0,\, 0.02^2),",
            rf"{length} \times {shape.d_model} = {length * shape.d_model}\ \text{{parameters}}",
        ),
        table_picture(shape, ("first column", "second column")),
    )


def sinusoidal(shape: Shape) -> Explained:
    found = shape.similarity()
    said, wave = waves_in_words(shape, shape.d_model)
    return Explained(
        f"{said} The similarity of neighbours is {found.mean[1]:.2f}, of rows {shape.far} "
        f"apart {found.mean[shape.far]:.2f}, at every position (to {number(found.drift)}).",
        (
            r"PE_{p,2i} = \sin\frac{p}{10000^{2i/d}},\; PE_{p,2i+1} = \cos\frac{p}{10000^{2i/d}},",
            wave,
        ),
        table_picture(shape, ("sin", "cos")),
    )


def rotary(shape: Shape) -> Explained:
    found = shape.similarity()
    said, wave = waves_in_words(shape, shape.d_model // shape.n_heads)
    pair = r"\begin{pmatrix}q_{2i}\\q_{2i+1}\end{pmatrix}"
    return Explained(
        f"{said} Equal q and k keep {found.mean[1]:.0%} of their score at distance 1 and "
        f"{found.mean[shape.far]:.0%} at {shape.far} (the band: 8 of 10 random tokens). Their "
        "positions do not matter, only the distance: the share differs by "
        f"{number(found.drift)} at most.",
        (rf"{pair} \mapsto R(p\,\theta_i){pair},\; \theta_i = 10000^{{-2i/d_k}},", wave),
        table_picture(
            shape,
            ("cos", "sin"),
            product="q·k",
            titles=("what (1, 0) is rotated to", "equal q and k"),
            axes=("column of a head", "share of the score"),
        ),
    )


def waves_in_words(shape: Shape, width: int) -> tuple[str, str]:
    """How many pairs of columns go all the way round; the wavelength of the chosen one, in TeX."""
    length, waves = shape.length, measure.wavelengths(width)
    turns, wave = sum(wave <= length for wave in waves), f"{waves[shape.chosen]:,.1f}"
    return (
        f"{turns} of {len(waves)} pairs complete{'s' * (turns == 1)} a full turn within {length} "
        f"positions; the slowest needs {waves[-1]:,.0f}.",
        rf"\lambda_{{{shape.chosen}}} = 2\pi\cdot 10000^{{{2 * shape.chosen}/{width}}} = "
        + wave.replace(",", "{,}"),
    )


def table_picture(
    shape: Shape,
    names: tuple[str, str],
    *,
    product: str = "p·p",
    titles: tuple[str, str] = ("added to the tokens", "similarity of two rows"),
    axes: tuple[str, str] = ("column", "p·p, as a share of |p|²"),
) -> Figure:
    """A table with a row for each position, a pair of its columns as waves, its rows' similarity.

    Args:
        names: of the two columns of the chosen pair; the fastest and the slowest pair lie behind.
        titles: of the table and of the similarity.
        axes: of the table's columns and of the similarity.
    """
    pair, found, table = shape.chosen, shape.similarity(), shape.effect().table
    columns, mean = table.T, found.mean
    return order_picture(
        table,
        [
            Line("pair 0", columns[0], None),
            Line(f"pair {len(columns) // 2 - 1}", columns[-2], None),
            Line(names[0], columns[2 * pair], 0),
            Line(names[1], columns[2 * pair + 1], 1, dashed=True),
        ],
        [Line(product, mean, 2, low=found.low, high=found.high)],
        titles=(titles[0], f"pair {pair} over the positions", titles[1]),
        axes=(axes[0], "position"),
        columns=(2 * pair, 2 * pair + 1),
        fit_axis=axes[1],
        alt=f"Positions {shape.kind}: at distance 1 the similarity is {mean[1]:.2f}, at "
        f"{shape.far} it is {mean[shape.far]:.2f}.",
        size=common.tall(340),
    )


# kind -> how it is explained, and the code that it is
SCHEMES = {
    "sinusoidal": (sinusoidal, positions.sinusoids, positions.Sinusoidal),
    "learned": (learned, positions.Learned),
    "none": (no_positions, positions.Position),
    "rotary": (rotary, positions.Rotary),
    "alibi": (alibi, positions.alibi_slopes, positions.ALiBi),
}


# --- a shuffle ------------------------------------------------------------------------------


def noticed(found: measure.Shuffled, kind: str) -> str:
    """Whether the model noticed, and why."""
    largest = f"(largest difference {number(found.difference)})"
    if found.difference < EQUIVARIANT:
        said = (
            f"The outputs are shuffled along with the words {largest}: the model is "
            "**equivariant**. It is not invariant, as many say: the output at a position "
            f"changes by up to {found.in_place:.2g}. Only a sum over all positions is invariant, "
            f"such as their mean (it changes by {number(found.of_mean)})."
        )
        if kind == "alibi":
            said += (
                " ALiBi without a mask knows distances but no directions, and read backwards all "
                "distances are the same."
            )
        return said
    if kind == "none":
        return (
            f"The shuffle is noticed {largest}, although there are no positions: the **causal mask "
            "alone leaks the order**, since each word sees only those before it."
        )
    return f"The shuffle is noticed {largest}: the same words in another order are another text."


# --- trained short, tested long -------------------------------------------------------------


def tested_longer(views: dict[str, View], _: Mapping[str, Shown]) -> None:
    """Each run that is not training, tested on texts longer than it was trained on."""
    if not views:
        return
    trained = views[KINDS[0]].spec.task.length
    tests = {
        kind: found
        for kind, view in views.items()
        if (found := common.measured_when_idle("order", view, measure.beyond)) is not None
    }
    st.markdown(f"**Trained on {trained} characters, tested on {measure.TIMES * trained}**")
    left, right = common.beside(2, vertical_alignment="center")
    with left:
        figure = beyond_chart(
            {kind: (KINDS.index(kind), found.loss) for kind, found in tests.items()},
            trained,
            measure.TIMES * trained,
            bins=trained // 8,
            size=common.tall(360),
        )
        live_plot(figure, key="order_beyond")
    with right:
        if tests:
            st.markdown(
                "\n".join(
                    ["| within → beyond | loss | right |", "|---|---|---|"]
                    + [within_and_beyond(*test) for test in tests.items()]
                )
            )
        for kind, found in tests.items():
            if found.refused:
                st.caption(f"`{kind}` refuses: {found.refused}.")
    if tests:
        st.markdown(cost_beyond(tests))
        st.caption(
            "Mean loss in nats and share of characters predicted right, on validation texts that "
            "begin anywhere in Python's documentation. After the first few, which have little "
            "context, all positions are equally hard: what rises beyond the line comes from a "
            "position, or a length, that was never seen in training."
        )


def within_and_beyond(kind: str, found: measure.Beyond) -> str:
    """The row of one kind in a table of Markdown."""
    loss, right = found.beyond(found.loss), found.beyond(found.right)
    beyond = ("–", "–") if found.refused else (f"{loss:.2f}", f"{right:.0%}")
    return (
        f"| {kind} | {found.within(found.loss):.2f} → {beyond[0]} | "
        f"{found.within(found.right):.0%} → {beyond[1]} |"
    )


def cost_beyond(tests: dict[str, measure.Beyond]) -> str:
    """By how much each loss rises beyond the trained length, best first."""
    lost = {
        kind: found.beyond(found.loss) - found.within(found.loss)
        for kind, found in tests.items()
        if not found.refused
    }
    if not lost:
        return ""
    costs = [f"`{kind}` {lost[kind]:+.2f}" for kind in sorted(lost, key=lost.get)]
    said = ", ".join(costs).replace("-", "−")
    return f"Rise of the loss beyond the trained length, in nats: {said}."


# --- the page -------------------------------------------------------------------------------

common.begin(
    "order",
    "Attention sees a set, not a sequence; without positions it is blind to the order of its "
    "input.",
)
with common.row():
    kind = KIND.draw()
    shown = st.container(width="content")
    with common.more():
        d_model, n_heads, length = WIDTH.draw(), HEADS.draw(), LENGTH.draw()
    with shown:
        chosen = 0
        if kind == "alibi":
            width = "content" if n_heads < 8 else 200
            chosen = HEAD.draw(tuple(range(1, n_heads + 1)), width=width) - 1
        elif kind != "none":
            width = d_model // n_heads if kind == "rotary" else d_model
            chosen = PAIR.draw(tuple(range(width // 2)), width=200)

explain, *code = SCHEMES[kind]
explained = explain(Shape(kind, d_model, n_heads, length, chosen))
common.say(explained.sentence)
live_plot(explained.figure, key="order_picture")
common.formula(*explained.formula)

st.subheader("Shuffle the words", anchor=False)
with common.row():
    name = ORDER.draw(width="content")
    mask = MASK.draw(width="content")
    st.markdown(f"Positions: **{kind}**, untrained, {d_model} columns, {counted(n_heads, 'head')}")
order = measure.ORDERS[name]
found = measure.shuffled(kind, mask, order, d_model, n_heads)
st.markdown(noticed(found, kind))
left, right = common.beside(2.2, vertical_alignment="center")
with left:
    figure = shuffle_picture(
        found.before,
        found.after,
        measure.WORDS,
        [measure.WORDS[i] for i in order],
        size=common.tall(300),
    )
    live_plot(figure, key="order_shuffled")
with right:
    figure = difference_chart(
        {
            f"mask {m}": {
                k: measure.shuffled(k, m, order, d_model, n_heads).difference for k in KINDS
            }
            for m in MASKS
        },
        chosen=(f"mask {mask}", kind),
        size=common.tall(300),
    )
    live_plot(figure, key="order_blind")
common.source(*code, Embedding)

st.subheader("Trained short, tested long", anchor=False)
trained = TRAINED.draw(width="content")
task = measure.task(trained)
base = Spec(ModelConfig.for_task(task, position=KINDS[0]), task, TrainConfig(steps=STEPS))
common.training(
    "order",
    f"Five models learn Python's documentation, {trained} characters at a time. Which of them can "
    f"read a text of {measure.TIMES * trained}? The paper hoped that sinusoids would (section "
    "3.5). Guess first; each is tested as soon as it finishes or pauses.",
    make_setup(base, [(("position", kind),) for kind in KINDS[1:]]),
    list(KINDS),
    after=tested_longer,
)
common.prev_next("order")
