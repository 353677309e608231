"""√d_k: the spread of the scores, measured and in theory, and what it means for training."""

import math
from dataclasses import replace
from statistics import fmean

import streamlit as st

from core.attention import SCALES, attention_spelled_out
from core.config import ModelConfig
from core.init import INITS
from core.measure import SHUT, spread_at_start
from playground.experiments.variants import make_setup
from playground.ideas import common
from playground.ideas.scaling import measure
from playground.ideas.scaling.figures import scale_sweep, score_picture
from playground.runs.spec import counted
from playground.ui.components import live_plot
from playground.ui.knob import Knob

NAMES = {"sqrt_d_head": "√d_k", "none": "nothing", "d_head": "d_k", "sqrt_d_model": "√d_model"}
PANELS = {
    "spread": "spread",
    "entropy": "entropy",
    "largest": "largest weight",
    "shut": "queries shut",
}
SATURATED = 0.2  # a share of the queries that hardly any gradient passes
FLAT = 0.97  # an entropy of the weights, as a share of its maximum

HEADS = Knob(
    "scaling_heads",
    "Heads",
    (1, 2, 4, 8),
    1,
    "With several heads d_model is wider than d_k, and dividing by √d_model is too much.",
)
WIDTH = Knob(
    "scaling_width",
    "d_k: width of a head",
    measure.WIDTHS,
    128,
    "How many products each score is the sum of.",
)
SCALE = Knob(
    "scaling_by",
    "Scores divided by",
    tuple(SCALES),
    "none",
    "√d_k is what the paper does; the others are classic mistakes.",
    NAMES.__getitem__,
)
INIT = Knob(
    "scaling_init",
    "Initialisation",
    tuple(INITS),
    "xavier",
    "How large W_q and W_k are at first. The claim about √d_k needs xavier.",
)
KEYS = Knob(
    "scaling_length",
    "Keys",
    (4, 8, 16, 20, 32, 64, 128),
    20,
    "How many keys the last query chooses from: twice the symbols to reverse.",
)


def what_softmax_does(found: measure.Scores, usual: measure.Scores) -> str:
    """What the picture says, in one sentence; `usual` is the same under √d_k."""
    measured = (
        f"The {'scores' if found.scale == 1 else 'scaled scores'} have a spread of "
        f"{found.spread:.2f}: the softmax"
    )
    weight = (
        f"The largest weight is {found.largest:.2f} on average, where uniform attention gives "
        f"{found.uniform:.2f}."
    )
    if found.shut >= SATURATED:
        return (
            f"{measured} is saturated. {weight} {hardly_any(found)}; divided by √d_k it would be "
            f"{usual.shut:.0%}."
        )
    flat = found.entropy > FLAT
    return (
        f"{measured} {'hardly tells the keys apart' if flat else 'chooses, and can still learn'}. "
        f"{weight}"
    )


def hardly_any(found: measure.Scores) -> str:
    """How much of the softmax is shut. A mean would hide it: the open rows make up for the rest."""
    return f"Hardly any gradient passes through it for {found.shut:.0%} of the queries"


def does_the_claim_hold(without: measure.Scores, init: str, d_head: int) -> str:
    """Whether the reason behind the famous claim is there for this choice, measured undivided."""
    if without.shut >= SATURATED:
        return (
            "**The reason behind the claim is there.** Undivided, the spread is "
            f"{without.unscaled:.1f}. {hardly_any(without)}, from the first step. Whether that is "
            "the end of the model, the training below shows."
        )
    reason = (
        f", not √{d_head} = {d_head**0.5:.1f}: under the `{init}` initialisation queries and keys "
        "are smaller than unit variance."
        if without.theory < 0.9 * d_head**0.5
        else ": a head this narrow adds too few products."
    )
    return (
        "**The reason behind the claim is missing here.** Even undivided, the spread is only "
        f"{without.unscaled:.2g}{reason}"
    )


def elsewhere(model: ModelConfig, scale: str, theory: float) -> str:
    """What theory says where the Playground's defaults are added to these knobs, if not this."""
    usual = {name: getattr(ModelConfig(), name) for name in ("norm", "position")}
    there = spread_at_start(replace(model, scale=scale, **usual))
    if math.isclose(there, theory, rel_tol=0.01):
        return ""
    return (
        f"With the Playground's defaults, {usual['norm']}-norm and {usual['position']} positions, "
        f"theory says {there:.2f} instead of {theory:.2f}: there the first attention reads tokens "
        "and positions just as they are, not brought to unit variance."
    )


common.begin(
    "scaling",
    "Dividing the scores by √d_k is the difference between a model that trains and one that dies "
    "at initialisation.",
)
with common.row():
    scale, init = SCALE.draw(), INIT.draw()
    widths = st.container(width="content")
    with common.more():
        n_heads, keys = HEADS.draw(), KEYS.draw()
    with widths:
        d_head = WIDTH.draw(measure.widths(n_heads))

found, usual, without = (
    measure.scores(d_head, n_heads, s, init, keys) for s in (scale, "sqrt_d_head", "none")
)
common.say(what_softmax_does(found, usual))
live_plot(
    score_picture(found.values, found.weights, found.spread, found.theory, size=common.tall(330)),
    key="scaling_picture",
)
common.formula(
    r"\mathrm{Var}(q_i) = \mathrm{Var}(k_i) = 1 \;\Rightarrow\; \mathrm{Var}(q \cdot k) = "
    r"\sum_{i=1}^{d_k} \mathrm{Var}(q_i k_i) = d_k,",
    rf"\sqrt{{d_k}} = {d_head**0.5:.2f},\quad \text{{measured spread of }} q\cdot k = "
    rf"{found.unscaled:.2f},\quad \times\,{found.scale:.3g} = {found.spread:.2f}",
)
st.markdown(does_the_claim_hold(without, init, d_head))
divided = measure.base(d_head, n_heads, "sqrt_d_head", init, keys)
st.caption(
    f"The first attention of an untrained model, on rows that training never draws: d_model "
    f"{d_head * n_heads}, {counted(n_heads, 'head')}, pre-norm, learned positions. It is "
    f"the model that is trained below. {elsewhere(divided.model, scale, found.theory)}"
)

st.subheader("Every scale at every width", anchor=False)
swept = measure.sweep(n_heads, init, keys)
lines = {
    panel: {
        s: [fmean(getattr(x, panel) for x in models) for models in row] for s, row in swept.items()
    }
    for panel in PANELS
}
figure = scale_sweep(
    measure.widths(n_heads),
    lines,
    PANELS,
    NAMES,
    chosen=d_head,
    references={"spread": 1.0},
    log=("spread",),
    size=common.tall(340),
)
live_plot(figure, key="scaling_sweep")
st.caption(
    ("With one head √d_model is √d_k: their lines coincide. " if n_heads == 1 else "")
    + f"Each point is the mean of {measure.SEEDS} untrained models. Spread of the scaled scores; "
    "the largest weight is a mean over all queries, and so is the entropy of the weights, as a "
    "share of its maximum: 1 is uniform attention. Queries shut: the share of them for which the "
    f"length of the softmax's Jacobian is below {SHUT:g}; it is 0 when one key has all "
    "the weight."
)
common.source(attention_spelled_out)

other = "none" if scale == "sqrt_d_head" else scale
common.training(
    "scaling",
    f"The model of the picture (`{init}`), divided by √d_k and "
    f"{'not divided' if other == 'none' else f'by {NAMES[other]}'}. Which one learns to reverse "
    f"{divided.task.length} symbols? Then choose {'`xavier`' if init == 'gpt2' else '`gpt2`'} "
    "above, and train again.",
    make_setup(divided, [(("scale", other),)]),
    ["divided by √d_k", "not divided" if other == "none" else f"divided by {NAMES[other]}"],
)
common.prev_next("scaling")
