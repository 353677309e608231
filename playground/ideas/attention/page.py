"""Attention as a lookup: follow one query, try a small dictionary by hand, train one."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attention import SelfAttention, attention, attention_spelled_out
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from playground.experiments.series import frames_together
from playground.experiments.variants import make_setup
from playground.figures import STAGES as MAPS
from playground.figures.style import RIGHT_MARK, WRONG_MARK, Figure
from playground.ideas import common
from playground.ideas.attention import measure
from playground.ideas.attention.figures import (
    Bars,
    dictionary_picture,
    found_picture,
    map_picture,
    output_picture,
    sentence_line,
    vectors_picture,
)
from playground.ideas.attention.measure import Meeting
from playground.live.picture import Html, Part, Plot
from playground.runs.snapshot import Frame, layer_title
from playground.runs.spec import Spec, counted
from playground.runs.view import View
from playground.ui.components import Click, live_plot
from playground.ui.glossary import explain
from playground.ui.knob import Knob
from playground.ui.literal import literal
from playground.ui.page_head import Tall, projector

SENTENCES = {
    "mat": "the cat sat on the mat",
    "cup": "the cup broke because it fell",
    "again": "again and again and again",
    "twelve": "one word looks at all the others and takes what it needs",
}
SEEDS = 20
POSITIONS = range(1, measure.MOST_WORDS + 1)
MOST_PRODUCTS, MOST_TERMS = 8, 4  # in the picture, in the formula
PRICES = {"tea": 2, "bread": 5, "rice": 9, "cheese": 12}
KEYS = (30, 90, 180, 270)  # degrees
LENGTHS = (0, 0.25, 0.5, 1, 2, 4, 8, 16)

MODE = Knob(
    "lookup_mode",
    "Look it up",
    ("in a model", "by hand"),
    "in a model",
    "In the attention of a model, or in a small dictionary whose keys you set yourself.",
)
WIDTH = Knob(
    "lookup_d_model", "d_model", (4, 8, 16, 32, 64), 8, "How many numbers represent one word."
)
HEADS = Knob(
    "lookup_heads", "Heads", (1, 2, 4, 8), 2, "Each has d_k = d_model / heads columns of its own."
)
HEAD = Knob("lookup_head", "Shown head", tuple(range(1, 9)), 1, "Which head the pictures show.")
SCALED = Knob(
    "lookup_scale",
    "÷ √d_k",
    (False, True),
    True,
    "Divide the scores by √d_k, or leave them as they are.",
)
CAUSAL = Knob(
    "lookup_causal", "Causal mask", (False, True), False, "Hide from each word the words after it."
)
PLACED = Knob(
    "lookup_positions", "Positions", (False, True), True, "Add sinusoidal positions to the words."
)
NUMBERS = Knob("lookup_seed", "Seed", tuple(range(SEEDS)), 0, "The seed of the initial weights.")
ANGLE = Knob(
    "lookup_angle",
    "Query: angle",
    tuple(range(0, 360, 15)),
    60,
    "The direction of the query, in degrees.",
)
LENGTH = Knob(
    "lookup_length",
    "Query: length",
    LENGTHS,
    4,
    "The longer the query, the larger the scores and the sharper the answer.",
    "{:g}".format,
)
COUNT = Knob("lookup_entries", "Entries", (3, 4), 4, "How many keys the dictionary has.")


# --- choosing -------------------------------------------------------------------------------


def sentence() -> tuple[str, ...]:
    """The words: the visitor's text where it can be used, else a prepared sentence."""
    chosen = SENTENCE.draw(width=330)
    typed = st.text_input(
        "Or your text",
        key="lookup_words",
        bind="query-params",
        on_change=keep_positions,
        placeholder=f"{measure.FEWEST_WORDS} to {measure.MOST_WORDS} words",
        help="Words are separated by spaces; upper and lower case are the same. "
        "Leave it empty for the prepared sentence.",
    )
    words = measure.words_of(SENTENCES[chosen])
    if typed.strip():
        try:
            words = measure.words_of(typed)
        except ValueError as error:
            st.session_state["lookup problem"] = f"{error}. The prepared sentence is used."
    return words


def keep_positions() -> None:
    """In another sentence the positions have other names: keep the same ones chosen."""
    for key in ("lookup_query", "lookup_key"):
        if key in st.session_state:
            st.session_state[key] = int(str(st.session_state[key]).split()[0])


def clear_typed_words() -> None:
    st.session_state.lookup_words = ""
    keep_positions()


SENTENCE = Knob(
    "lookup_sentence",
    "Sentence",
    tuple(SENTENCES),
    "mat",
    "Prepared sentences; their words are the tokens here.",
    on_change=clear_typed_words,
)


# What each of them is: its key in the link, its title, the default, its help.
CLICK = "A click on a map chooses it too."
QUERY = ("lookup_query", "Query: who looks", 6, f"The word whose output is computed. {CLICK}")
KEY = ("lookup_key", "Key: what is looked at", 2, f"The word whose arithmetic is shown. {CLICK}")


def choose_word(key: str, title: str, default: int, help: str, words: Sequence[str]) -> int:
    """Choose one of the words; returns its position, counted from 0."""

    def show(i: int) -> str:
        return f"{i} {literal(words[i - 1])}" if 1 <= i <= len(words) else str(i)

    def number(text: str) -> int:
        return int(text.partition(" ")[0])

    most = measure.MOST_WORDS
    knob = Knob(key, title, tuple(POSITIONS), default, help, show, most=most, parse=number)
    return knob.draw(POSITIONS[: len(words)]) - 1


def go(step: int, stage: str) -> None:
    names = list(STAGES)
    st.session_state.lookup_stage = names[names.index(stage) + step]


def choose_cell(click: Click) -> None:
    if click.trace == 0:
        st.session_state.lookup_query = round(click.y)
        st.session_state.lookup_key = round(click.x)


def new_weights() -> None:
    st.session_state.lookup_seed = (st.session_state.get("lookup_seed", 0) + 1) % SEEDS


# --- numbers and words ----------------------------------------------------------------------


def short(value: float) -> str:
    """Two decimals, with a real minus sign."""
    return f"{value:.2f}".replace("-", "−")


def number(value: float) -> str:
    """A positive number of any size."""
    if 0.01 <= value < 1e6:
        return f"{value:.2f}" if value < 1000 else f"{value:.0f}"
    return f"{value:.2g}"


def sum_of(terms: np.ndarray) -> str:
    """A sum in TeX: the largest terms, and all others as one number."""
    shown = measure.largest(terms, MOST_TERMS)
    written = [f"{terms[i]:.2f}" for i in shown]
    if others := len(terms) - len(shown):
        rest = terms.sum() - terms[shown].sum()
        written.append(rf"\underbrace{{{rest:.2f}}}_{{\text{{the other {others}}}}}")
    return " + ".join(written).replace("+ -", "- ")


# --- the stages -----------------------------------------------------------------------------

Shown = tuple[str, Figure]  # a stage in one or two sentences with the numbers of its picture


def embedded(one: Meeting) -> Shown:
    found, width = one.found, one.found.x.shape[1]
    where = "plus one for its position" if found.position.any() else "and nothing for its position"
    panels = {
        f"its own vector (× √{width})": found.token,
        "its position": found.position,
        "x": found.x,
    }
    marks = dict.fromkeys(panels, one.query)
    return (
        f"“{one.asks}” becomes {width} numbers: its own vector, the same at every position, "
        f"{where}.",
        vectors_picture(panels, found.words, marks=marks, signs="+=", size=common.tall(345, 300)),
    )


def vectors(one: Meeting) -> Shown:
    found, head, query, key = one
    panels = {f"{name} = x·W_{name}": getattr(found, name)[head] for name in "qkv"}
    marks = dict(zip(panels, (query, key, key), strict=True))
    return (
        f"Three matrices turn each x into three vectors of {found.d_head} numbers: the query asks, "
        "the key is compared with it, the value is passed on.",
        vectors_picture(panels, found.words, marks=marks, size=common.tall(345, 300)),
    )


def on_map(one: Meeting, stage: str, bars: Bars) -> Figure:
    """Every query with every key, and bars for the chosen one."""
    found, head, query, key = one
    return map_picture(
        getattr(found, stage)[head],
        found.words,
        bars,
        stage=stage,
        hidden=found.hidden,
        query=query,
        key=key,
        size=common.tall(345, 300),
    )


def scores(one: Meeting) -> Shown:
    found, head, query, key = one
    q, k, cell, width = found.q[head, query], found.k[head, key], one.cell(), found.d_head
    shown = measure.largest(cell.products, MOST_PRODUCTS)
    labels = [f"{i + 1}:  {short(q[i])} × {short(k[i])}" for i in shown]
    values = cell.products[shown].tolist()
    if others := width - len(shown):
        labels.append(f"the other {others}")
        values.append(cell.score - sum(values))
    labels.append("sum")
    values.append(cell.score)
    heading = f"q(“{one.asks}”) · k(“{one.offers}”), d_k = {width}"
    return (
        f"The score of “{one.asks}” for “{one.offers}” is the sum of "
        f"{counted(width, 'product')}: {short(found.scores[head, query, key])}.",
        on_map(
            one, "scores", Bars(heading, labels, values, list(map(short, values)), len(values) - 1)
        ),
    )


def scaled(one: Meeting) -> Shown:
    found = one.found
    before, after = (stage[one.head, one.query] for stage in (found.scores, found.scaled))
    texts = [f"{short(b)} → {short(a)}" for b, a in zip(before, after, strict=True)]
    heading = f"each score of “{one.asks}” × {found.scale:.3g}"
    reach = f"the scores of “{one.asks}” span {np.ptp(after):.2f}"
    return (
        f"Nothing is divided here: {reach}."
        if found.scale == 1
        else f"Divided by √d_k = √{found.d_head}, {reach} instead of {np.ptp(before):.2f}. "
        "Their order stays the same.",
        on_map(
            one,
            "scaled",
            Bars(heading, found.words, after.tolist(), texts, one.key, before.tolist()),
        ),
    )


def masked(one: Meeting) -> Shown:
    found, seen = one.found, int(one.seen.sum())
    words = found.words
    labels = [word if s else f"{word}: hidden" for word, s in zip(words, one.seen, strict=True)]
    values = np.where(one.seen, found.scaled[one.head, one.query], np.nan).tolist()
    heading = f"“{one.asks}” may see {seen} of {len(words)} keys"
    return (
        f"Nothing is hidden from “{one.asks}”: it sees all {seen} keys."
        if seen == len(words)
        else f"The causal mask hides the {counted(len(words) - seen, 'key')} after "
        f"“{one.asks}”: a hugely negative number is added to the scores there.",
        on_map(one, "masked", Bars(heading, labels, values, list(map(short, values)), one.key)),
    )


def softmax(one: Meeting) -> Shown:
    words, weights, seen = one.found.words, one.weights, int(one.seen.sum())
    cells = [one._replace(key=j).cell() for j in range(len(words))]
    labels = [
        f"{word}: {'hidden' if c.hidden else f'exp({short(c.scaled)}) = {number(c.power)}'}"
        for word, c in zip(words, cells, strict=True)
    ]
    texts = ["0" if c.hidden else f"{c.weight:.3f}" for c in cells]
    values = np.where(one.seen, weights, np.nan).tolist()
    heading = f"each divided by their sum, {number(cells[one.key].total)}"
    uniform = f", where uniform attention would give {1 / seen:.0%}"
    best = int(weights.argmax())
    return (
        f"“{one.asks}” gives {weights[best]:.0%} of its weight to “{words[best]}”"
        f"{uniform if seen > 1 else ': it sees no other key'}. "
        f"The row sums to {weights.sum():.3f}.",
        on_map(one, "weights", Bars(heading, labels, values, texts, one.key)),
    )


def weighted_sum(one: Meeting) -> Shown:
    found, head, query, _ = one
    blend = measure.blend(found, head, query)
    figure = output_picture(
        found.v[head],
        one.weights,
        found.z[head, query],
        found.words,
        ~one.seen,
        flat=blend.points,
        at_z=blend.z,
        axes=blend.axes,
        outline=blend.outline,
        size=common.tall(345, 300),
    )
    return (
        f"z is a weighted mean of {counted(int(one.seen.sum()), 'value')}, so it lies "
        "inside their convex hull. Measured: it is between the smallest and the largest "
        f"of them in {blend.inside} of {counted(found.d_head, 'dimension')}.",
        figure,
    )


# stage -> what it is called on its button and in the link, and what it shows
STAGES: dict[str, tuple[str, Callable[[Meeting], Shown]]] = {
    "embed": ("embed", embedded),
    "vectors": ("q, k, v", vectors),
    "scores": ("scores", scores),
    "scaled": ("× scale", scaled),
    "masked": ("mask", masked),
    "weights": ("softmax", softmax),
    "z": ("weighted sum", weighted_sum),
}
STAGE = Knob(
    "lookup_stage",
    "Stage",
    tuple(STAGES),
    "weights",
    "Follow the query, one step of the formula at a time.",
    lambda name: STAGES[name][0],
    most=7,
)


# --- in a model -----------------------------------------------------------------------------


def in_a_model(words: Sequence[str], more: DeltaGenerator) -> None:
    with more:
        d_model = WIDTH.draw()
        n_heads = HEADS.draw([n for n in HEADS.choices if d_model % n == 0])
        head = HEAD.draw(range(1, n_heads + 1)) - 1
        switches = [knob.draw() for knob in (SCALED, CAUSAL, PLACED)]
        seed = NUMBERS.draw()
        st.button("New weights", key="lookup_new", icon=":material/casino:", on_click=new_weights)
    stage = choose_stage()
    pictures = st.container(gap="xsmall")
    with common.row():
        query, key = (choose_word(*about, words) for about in (QUERY, KEY))
    one = Meeting(measure.look(words, d_model, n_heads, *switches, seed), head, query, key)
    with pictures:
        says, figure = STAGES[stage][1](one)
        line = sentence_line(words, one.weights, ~one.seen, query)
        st.html(
            '<div style="display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; align-items: center">'
            f'{line}<div role="status" style="flex: 1 1 20rem">{explain(says)}</div></div>'
        )
        clicks = {"on_click": choose_cell} if stage in MAPS else {}
        live_plot(figure, key="lookup_picture", **clicks)
        arithmetic(one)
        if stage == "z":
            first = (one.weights.astype(float) * one.found.v[head, :, 0])[one.seen]
            z = one.found.z[head, query, 0]
            common.formula(rf"z_1 = \sum_j w_j v_{{j1}} = {sum_of(first)} = {z:.2f}")
    remarks(one)
    common.source(attention_spelled_out, SelfAttention.forward)


def choose_stage() -> str:
    """One step of the formula, and the way to the next."""
    with st.container(horizontal=True, vertical_alignment="center"):
        stage = STAGE.draw(label_visibility="collapsed")
        names = list(STAGES)
        for label, step, end, kind in (
            ("Back", -1, names[0], "secondary"),
            ("Next", 1, names[-1], "primary"),
        ):
            st.button(
                label,
                key=f"lookup_{label.lower()}",
                icon=f":material/arrow_{'back' if step < 0 else 'forward'}:",
                on_click=go,
                args=(step, stage),
                disabled=stage == end,
                shortcut=label[0],
                type=kind,
            )
    return stage


def arithmetic(one: Meeting) -> None:
    """The formula, and the chosen cell worked out."""
    cell, scale = one.cell(), one.found.scale
    root = r"\frac{q\,k^\top}{\sqrt{d_k}}" if scale != 1 else r"q\,k^\top"
    common.formula(
        rf"z = \mathrm{{softmax}}\left({root}\right) v",
        rf"q \cdot k = \sum_i q_i k_i = {sum_of(cell.products)} = {cell.score:.2f}",
    )
    above, below = (common.tex(number(value)) for value in (cell.power, cell.total))
    power = rf"e^{{{cell.score:.2f} \times {scale:.3g}}} = e^{{{cell.scaled:.2f}}} = {above}"
    common.formula(
        r"e^{-\infty} = 0" if cell.hidden else power,
        rf"\sum_{{\text{{keys}}}} e^{{…}} = {below}",
        rf"\text{{weight}} = \frac{{{above}}}{{{below}}} = {cell.weight:.3f}",
    )


def remarks(one: Meeting) -> None:
    """What is easily misunderstood, and what a repeated word shows."""
    found = one.found
    st.caption(
        "The model is untrained: who looks at whom is chance here, and a word is only a name for "
        "its random vector, so other words at the same positions give the same numbers. The "
        "arithmetic is that of every transformer."
    )
    if (repeated := measure.repeated_word(found.words)) is None:
        return
    first, second = repeated
    word = literal(found.words[first])
    same = f"“{word}” stands at {first + 1} and {second + 1}, with the same vector"
    difference = np.abs(found.k[one.head, first] - found.k[one.head, second]).max()
    if difference > measure.ROUNDING:
        st.caption(
            f"{same}. Only the positions make its two keys differ, by up to {difference:.2f}."
        )
        return
    weight = (
        f"; every query that sees both gives them the same weight, here {one.weights[first]:.3f}"
        if one.seen[first] and one.seen[second]
        else ""
    )
    st.caption(f"{same}. Without positions its two keys are equal too{weight}.")


# --- by hand --------------------------------------------------------------------------------


def preset(angle: float, length: float) -> None:
    st.session_state.lookup_angle, st.session_state.lookup_length = int(angle), length


def by_hand(more: DeltaGenerator) -> None:
    with more:
        count = COUNT.draw()
        names, prices = list(PRICES)[:count], tuple(map(float, list(PRICES.values())[:count]))
        angles = tuple(
            Knob(
                f"lookup_key_{i + 1}",
                f"Key of {name}",
                tuple(range(0, 360, 30)),
                KEYS[i],
                f"The direction of the key of {name}, in degrees.",
            ).draw()
            for i, name in enumerate(names)
        )
    with common.row():
        angle = ANGLE.draw(width=330)
        length = LENGTH.draw(width=330)
        for label, help, way in (
            ("Sharp lookup", f"A long query along the key of {names[0]}.", (angles[0], 16)),
            (
                "Blend",
                f"A long query between the keys of {names[0]} and {names[1]}.",
                (measure.between(*angles[:2]), 16),
            ),
            ("No match", "A query too short to match any key.", (angle, 0.25)),
        ):
            st.button(
                label,
                key=f"lookup_{label.split()[0].lower()}",
                help=help,
                on_click=preset,
                args=way,
            )
    answer = measure.ask(angles, prices, float(angle), float(length))
    common.say(answered(answer, names))
    figure = dictionary_picture(
        names,
        angles,
        prices,
        answer.weights,
        angle=angle,
        length=length,
        result=answer.result,
        mean=answer.mean,
        size=common.tall(345, 300),
    )
    live_plot(figure, key="lookup_picture")
    products = " + ".join(
        rf"{weight:.3f} \times {price:g}"
        for weight, price in zip(answer.weights, prices, strict=True)
    )
    common.formula(
        r"z = \mathrm{softmax}\left(\frac{q\,k^\top}{\sqrt{2}}\right) v"
        rf" = {products} = {answer.result:.2f}",
    )
    scores = ", ".join(
        f"{name} {short(score)}" for name, score in zip(names, answer.scores, strict=True)
    )
    st.caption(
        f"Scores, divided by √2: {scores}. A dictionary of Python answers with one value or says "
        "that the key is missing. Softmax never says “not found”: with no match at all it returns "
        f"the mean of all values, here {answer.mean:.2f}."
    )
    common.source(attention, attention_spelled_out)


def answered(answer: measure.Answer, names: Sequence[str]) -> str:
    """What the dictionary did, in one sentence."""
    order = sorted(range(len(names)), key=lambda i: -answer.weights[i])
    first, second = order[:2]
    top, uniform = answer.weights[first], 1 / len(names)
    result = f"The answer is {answer.result:.2f}"
    if top < 1.4 * uniform:
        return (
            f"{result}, the mean of all values {answer.mean:.2f}: no key stands out (the best gets "
            f"{top:.0%}, uniform attention gives {uniform:.0%}), yet there is an answer."
        )
    if answer.scores[first] <= 0:
        return (
            f"{result}: no key matches, all scores are 0 or below, yet {names[first]} gets "
            f"{top:.0%} of the weight as the least bad match."
        )
    if top > 0.9:
        return (
            f"{result}: {names[first]} gets {top:.1%} of the weight, almost like in a dictionary."
        )
    return (
        f"{result}: a blend, mostly of {names[first]} ({top:.0%}) and {names[second]} "
        f"({answer.weights[second]:.0%})."
    )


# --- learnt ---------------------------------------------------------------------------------


def found_keys(tall: Tall, views: dict[str, View]) -> dict[str, Part]:
    """Each run's attention on the task's example, and whether the query has found its key."""
    maps, titles, notes = [], [], []
    frames = frames_together([view.frames for view in views.values()]) or ()
    for label, frame in zip(views, frames, strict=False):
        for name, looked in frame.attention.items():
            maps.append(looked.stages["weights"][0])
            titles.append(f"{label}: {layer_title(name)}, step {frame.step}")
        notes.append(f"**{label}**: {learnt(frame)}")
    if not maps or not all(np.isfinite(one).all() for one in maps):
        return {}
    tokens = looked.key_tokens
    figure = found_picture(
        maps, titles, tokens, looked.hidden, value=measure.asked(tokens), size=tall(330, 520)
    )
    words = "".join(common.paragraph(note).html for note in notes)
    return {"lookup_found": Plot(figure, "lookup found"), "lookup_notes": Html(words)}


def learnt(frame: Frame) -> str:
    """Where the last query of a model looks, what it answers, and what its first block does."""
    looks = list(frame.attention.values())
    first, last = looks[0], looks[-1]
    tokens, row, answer = last.key_tokens, last.stages["weights"][0][-1], frame.predictions[-1]
    at = measure.asked(tokens)
    others = ", ".join(f"“{tokens[i]}” {row[i]:.0%}" for i in range(1, len(tokens) - 2, 2))
    said = (
        f"asked for “{tokens[-1]}”, its last block gives “{tokens[at]}” {row[at]:.0%} of the "
        f"weight (all values: {others}); it answers “{answer.tokens[0]}” with "
        f"probability {answer.probabilities[0]:.2f}, "
        f"{f'{RIGHT_MARK} right' if answer.right else f'{WRONG_MARK} wrong'}."
    )
    if first is not last:
        said += (
            " In its first block each value looks at the letter before it with "
            f"{measure.link(first.stages['weights'][0]):.0%} of its weight, on average."
        )
    return said


common.begin(
    "lookup",
    "Attention is a lookup: a query is compared with every key, and the answer is a blend of the "
    "values.",
)
with st.container(gap="xsmall"):
    with common.row():
        mode = MODE.draw(width="content")
        words = sentence() if mode == "in a model" else ()
        more = common.more()
    if problem := st.session_state.pop("lookup problem", None):
        st.error(literal(problem))
    if mode == "in a model":
        in_a_model(words, more)
    else:
        by_hand(more)

LEARNT = ("two blocks", "one block")
task = TASKS["recall"]()
base = Spec(ModelConfig.for_task(task, n_heads=1), task, TrainConfig(steps=400))
common.training(
    "lookup",
    "A lookup that is learnt: pairs of a letter and a value, then one letter; answer with its "
    "value. Letter and value are two tokens, so one block has to link them before another can "
    "look the value up. Is one block enough? Guessing among the four values shown has a loss of "
    f"{measure.loss_of_a_guess(task):.2f} at best.",
    make_setup(base, [(("n_layers", 1),)]),
    LEARNT,
    moving=partial(found_keys, Tall(projector())),
)
common.prev_next("lookup")
