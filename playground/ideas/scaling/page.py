"""√d_k: the spread of the scores, measured and in theory, and what it means for training."""

import streamlit as st

from core.attention import SCALES, attention_spelled_out
from core.config import ModelConfig, TrainConfig
from core.init import INITS
from core.tasks import TASKS
from playground.experiments.variants import make_setup
from playground.ideas import common
from playground.ideas.scaling import measure
from playground.ideas.scaling.figures import scale_sweep, score_picture
from playground.runs.spec import Spec
from playground.ui.components import live_plot
from playground.ui.knob import Knob

NAMES = {"sqrt_d_head": "√d_k", "none": "nothing", "d_head": "d_k", "sqrt_d_model": "√d_model"}
PANELS = {
    "spread": "spread",
    "entropy": "entropy",
    "largest": "largest weight",
    "gradient": "gradient",
}
SATURATED = 0.8  # a largest weight, on average
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
    measure.widths(1),
    64,
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
    "How large W_q and W_k are at first. The claim about √d_k holds for xavier.",
)
LENGTH = Knob(
    "scaling_length",
    "Keys",
    (2, 4, 8, 16, 32, 64, 128),
    16,
    "How many keys each query chooses from.",
)


def what_softmax_does(found: measure.Scores, usual: measure.Scores, uniform: float) -> str:
    """What the picture says, in one sentence; `usual` is the same under √d_k."""
    measured = (
        f"The {'scores' if found.scale == 1 else 'scaled scores'} have a spread of "
        f"{found.spread:.2f}: the softmax"
    )
    if found.largest > SATURATED:
        return (
            f"{measured} is saturated. On average one key gets {found.largest:.0%} of the weight; "
            f"the gradient through it is {found.gradient:.2f}; divided by √d_k it "
            f"would be {usual.gradient:.2f}."
        )
    flat = found.entropy > FLAT
    return (
        f"{measured} {'hardly tells the keys apart' if flat else 'chooses, and can still learn'}. "
        f"The largest weight is {found.largest:.2f} on average, where uniform attention "
        f"gives {uniform:.2f}."
    )


def does_the_claim_hold(init: str, d_head: int, length: int, n_heads: int) -> str:
    """Whether the famous claim holds for this choice, measured."""
    without = measure.scores(d_head, n_heads, "none", init, length)
    if without.largest > SATURATED:
        return (
            f"**The claim holds here.** Undivided, the spread is {without.unscaled:.1f} and the "
            "softmax is saturated from the first step."
        )
    reason = (
        f", not √{d_head} = {d_head**0.5:.1f}: under the `{init}` initialisation q and k are "
        "smaller than unit variance."
        if init != "xavier"
        else ": a head this narrow adds too few products."
    )
    return (
        "**The claim does not hold here.** Even undivided, the spread is only "
        f"{without.unscaled:.2g}{reason}"
    )


common.begin(
    "scaling",
    "Dividing the scores by √d_k is the difference between a model that trains and one that dies "
    "at initialisation.",
)
with common.row():
    scale = SCALE.draw(width=340)
    init = INIT.draw(width=270)
    n_heads = HEADS.draw(width=210)
with common.row():
    d_head = WIDTH.draw(measure.widths(n_heads))
    length = LENGTH.draw()

found, usual = (measure.scores(d_head, n_heads, s, init, length) for s in (scale, "sqrt_d_head"))
common.say(what_softmax_does(found, usual, 1 / length))
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
st.markdown(does_the_claim_hold(init, d_head, length, n_heads))

st.subheader("Every scale at every width", anchor=False)
swept = measure.sweep(n_heads, init, length)
lines = {
    panel: {s: [getattr(x, panel) for x in row] for s, row in swept.items()} for panel in PANELS
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
    + "Spread of the scaled scores; the other three are means over all queries. The entropy of the "
    "weights is a share of its maximum: 1 is uniform attention. The gradient is the length of the "
    "softmax's Jacobian: 0 when one key has all the weight."
)
common.source(attention_spelled_out)

task = TASKS["reverse"]()
base = Spec(
    ModelConfig.for_task(task, d_model=128, n_heads=1, init=init, norm="pre", position="learned"),
    task,
    TrainConfig(),
)
common.training(
    "scaling",
    f"The same model at d_k = 128 (one head, `{init}`, pre-norm), with and without dividing. Which "
    "one learns to reverse ten symbols? Then choose "
    f"{'`xavier`' if init == 'gpt2' else '`gpt2`'} above, and train again.",
    make_setup(base, [(("scale", "none"),)]),
    ["divided by √d_k", "not divided"],
)
common.prev_next("scaling")
