"""Residuals and norms: what depth does to the stream, to the gradient, and to training."""

import streamlit as st

from core.blocks import NORMS, Wiring, keep_second
from core.config import TrainConfig
from core.init import INITS
from playground import lesson
from playground.comparison import Series, line_up
from playground.components import live_plot
from playground.figures.depth import (
    depth_picture,
    depth_sweep,
    norm_picture,
    short,
    skip_bars,
    wiring_picture,
)
from playground.figures.style import scientific
from playground.glossary import explain
from playground.ideas import depth
from playground.lesson import Knob, choose
from playground.spec import Spec

PANELS = {
    "stream": "size of the stream",
    "apart": "how much the places differ",
    "gradient": "gradient of the loss",
}
FADED, SWOLLEN = 0.1, 100  # a gradient that is so many times another one
ALIKE = 0.05  # places that differ by less say next to nothing
LOST, TIMES_LESS = 0.2, 3  # places differ less than this, and so many times less than others
GROWS = "each block adds in proportion to the stream, and nothing keeps the stream small. That is what LayerNorm is for."
IDLE = 0.05  # a loss that a block may be worth and still count for little
TOKEN = "2 4 4 4 5 5 7 9"

LAYERS = Knob(
    "depth_layers", "Blocks", depth.DEPTHS, 8, "How many blocks are stacked: the knob to turn."
)
RESIDUAL = Knob(
    "depth_residual",
    "Residual connections",
    (True, False),
    True,
    "Add each sub-layer's output to its input, or let it take its place.",
)
NORM = Knob(
    "depth_norm",
    "LayerNorm",
    tuple(NORMS),
    "pre",
    "After the addition (the paper), before each sub-layer, or nowhere.",
)
INIT = Knob(
    "depth_init",
    "Initialisation",
    tuple(INITS),
    "gpt2",
    "The numbers the weights start from: small ones (gpt2) make every step of the way smaller.",
)
TIMES = Knob(
    "depth_times",
    "All of them ×",
    (0.001, 0.1, 1, 10, 1000),
    1,
    "Make the whole token larger or smaller, before LayerNorm.",
)
GAIN = Knob(
    "depth_gain",
    "Gain",
    (0.5, 1, 2),
    1,
    "The learnt factor, one for each column; here the same for all.",
)
SHIFT = Knob(
    "depth_shift",
    "Shift",
    (-1, 0, 1),
    0,
    "The learnt number that is added, one for each column; here the same for all.",
)
TRAINED = Knob(
    "depth_trained",
    "Blocks of the models to train",
    (2, 4, 8),
    4,
    "How deep the two models are that learn to reverse ten symbols.",
)


# --- sentences --------------------------------------------------------------------------------


def latex(number: float) -> str:
    """2.35·10⁻⁷ rather than 2.35e-07."""
    return lesson.tex(f"{number:.3g}")


def signed(number: float) -> str:
    return f"({latex(number)})" if number < 0 else latex(number)


def words(number: float) -> str:
    """The same for a sentence."""
    if number and not 1e-2 <= abs(number) < 1e4:
        return scientific(number)
    return f"{number:.2g}" if abs(number) < 100 else f"{number:,.0f}"


def share(number: float) -> str:
    return (
        f"{number:.0%}" if number >= 0.1 else f"{number:.1%}" if number >= 1e-3 else words(number)
    )


def times_its_size(factor: float) -> str:
    return "its full size" if 0.95 <= factor < 1.05 else f"{words(factor)} times its size"


def verdict(found: depth.Flow, residual: bool, norm: str) -> str:
    """What the chosen wiring does to an untrained model."""
    blocks = len(found.stream) - 1
    said = f"{blocks} block{'s' * (blocks > 1)} {'with' if residual else 'without'} residual connections, {'without LayerNorm' if norm == 'none' else f'{norm}-norm'}: "
    if found.factor < FADED:
        said += f"the gradient fades on its way back, to {words(found.factor)} of its size."
    elif found.factor > SWOLLEN:
        said += f"the gradient grows on its way back, {words(found.factor)} times."
    else:
        said += f"the gradient comes back at {times_its_size(found.factor)}."
    last = found.apart[-1]
    if last < ALIKE:
        return f"{said} The places of a row have become alike: only {share(last)} of the stream tells them apart."
    return f"{said} {share(last)} of the stream tells the places of a row apart."


def what_it_does(on: depth.Flow, off: depth.Flow, norm: str) -> str:
    """The usual claim, held against what was measured."""
    fades, swells = off.factor < FADED, on.factor > SWOLLEN
    without = f"Without residual connections {words(off.factor)} of the gradient is left in the first block"
    both = f"Without residual connections the gradient comes back at {times_its_size(off.factor)}, with them at {times_its_size(on.factor)}"
    apart = f"what tells the places of a row apart is {share(off.apart[-1])} of the stream without, {share(on.apart[-1])} with them"
    lost = off.apart[-1] < LOST and off.apart[-1] * TIMES_LESS < on.apart[-1]
    if fades and swells:
        return f"**Half of the usual claim holds here.** {without}. With them it grows {words(on.factor)} times: {GROWS}"
    if fades:
        return (
            f"**The usual claim holds here.** {without}; with them it comes back at {times_its_size(on.factor)}."
            + (f" And it is not all that is lost: {apart}." if lost else "")
        )
    if swells:
        return f"**Here residual connections alone do harm.** {both}: {GROWS}"
    if lost:
        reason = "" if norm == "none" else ": LayerNorm restores sizes, on the way back too"
        return (
            f"**Here it is not the gradient's size.** {both}{reason}. But {apart}, and no norm brings back what is lost. "
            "Each attention takes weighted means over the places. Added to the stream, they leave it what it knew; in its place, block after block, only the mean survives."
        )
    return f"**Here little is lost so far.** {both}; {apart}. Depth is the knob to turn."


def over_depth(two: depth.Flow, deep: depth.Flow, norm: str, init: str) -> str:
    """The honest half: how much of it is a matter of depth."""
    said = (
        f"Without residual connections, {'no norm' if norm == 'none' else f'{norm}-norm'}: with two blocks the gradient comes back at "
        f"{times_its_size(two.factor)}, and {share(two.apart[-1])} of the stream tells the places apart; "
        f"with {len(deep.stream) - 1} it is {words(deep.factor)} and {share(deep.apart[-1])}. Depth is the knob to turn."
    )
    if norm == "pre" and init == "gpt2":
        said += " Two blocks with pre-norm learn without residual connections as well, only later: train them below, and see."
    return said


def about_norm(done: depth.Normalised) -> str:
    """What became of the token's size."""
    size = (sum(value**2 for value in done.scaled) / len(done.scaled)) ** 0.5
    agrees = (
        f"PyTorch's own LayerNorm gives the same, to {words(done.off)}."
        if done.off
        else "PyTorch's own LayerNorm gives the very same numbers."
    )
    if done.variance == 0:
        return f"All numbers are the same, so nothing is left but the shift: a variance of 0, and ε keeps it from being a division by 0. {agrees}"
    if size < 0.99:
        return f"The variance, {words(done.variance)}, is not large beside ε = {words(done.eps)}: afterwards the size is {size:.2g} instead of 1. LayerNorm does not blow up what is next to nothing. {agrees}"
    return f"Whatever the size before, divided by the root of the variance it is {size:.3f}: multiply all numbers by 10, and only the first two pictures would say so. Gain and shift may then undo that. {agrees}"


def worth(skipped: depth.Skipped) -> str:
    """Which blocks of a trained model count."""
    losses = skipped.without
    worst = max(range(len(losses)), key=losses.__getitem__)
    idle = [str(i + 1) for i, loss in enumerate(losses) if loss < skipped.whole + IDLE]
    said = f"All blocks: {short(skipped.whole)}. Without block {worst + 1}: {short(losses[worst])}."
    if not idle:
        return f"{said} None of them can be spared."
    which = f"Blocks {', '.join(idle)} cost" if len(idle) > 1 else f"Block {idle[0]} costs"
    return f"{said} {which} less than {IDLE:g} to leave out: what passes by a block on the residual connection need not pass through it."


WIRED = {
    (True, "post"): r"x' = \mathrm{LayerNorm}(x + f(x))",
    (True, "pre"): r"x' = x + f(\mathrm{LayerNorm}(x))",
    (True, "none"): r"x' = x + f(x)",
    (False, "post"): r"x' = \mathrm{LayerNorm}(f(x))",
    (False, "pre"): r"x' = f(\mathrm{LayerNorm}(x))",
    (False, "none"): r"x' = f(x)",
}
SLOPE = {
    True: r"\frac{\partial (x + f)}{\partial x} = 1 + \frac{\partial f}{\partial x}",
    False: r"\frac{\partial f}{\partial x}\ \text{alone}",
}


# --- the page ---------------------------------------------------------------------------------

lesson.begin(
    "depth",
    "Residual connections keep the gradient alive through many layers, and LayerNorm keeps the numbers in shape.",
)
n_layers, residual, norm, init = choose(LAYERS, RESIDUAL, NORM, INIT)

flows = {kind: depth.flow(n_layers, kind, norm, init) for kind in (True, False)}
found = flows[residual]
st.markdown(explain(verdict(found, residual, norm)), unsafe_allow_html=True)
height = 450
left, right = st.columns([1, 3.4], gap="small")
with left:
    live_plot(
        wiring_picture(residual, norm, height=height, projector=lesson.projector()),
        key="depth_wiring",
    )
with right:
    panels = {
        title: {kind: getattr(flows[kind], name) for kind in flows}
        for name, title in PANELS.items()
    }
    live_plot(
        depth_picture(
            panels,
            residual=residual,
            smallest=depth.SMALLEST,
            height=height,
            projector=lesson.projector(),
        ),
        key="depth_picture",
    )
start = 1 if n_layers > 1 else 0
lesson.formula(
    WIRED[residual, norm] + r",\qquad " + SLOPE[residual],
    rf"\frac{{\lVert \partial L / \partial x_{{{start}}} \rVert}}{{\lVert \partial L / \partial x_{{{n_layers}}} \rVert}} = {latex(found.factor)}"
    + (
        rf" = \left({latex(found.factor ** (1 / found.steps))}\right)^{{{found.steps}}}"
        if found.steps > 1 and found.factor
        else ""
    ),
)
st.markdown(what_it_does(flows[True], flows[False], norm))
st.caption(
    f"An untrained model, d_model {depth.D_MODEL}, {depth.ROWS} rows of reverse, in float64. Size: root of the mean square. "
    "How much the places differ: the size of what is left of the stream once its mean over the places of a row is taken away, as a share. "
    "Gradient: with respect to the stream, its length."
)

st.subheader("At every depth", anchor=False)
sweep_place = st.container()

st.subheader("LayerNorm, number by number", anchor=False)
with lesson.row():
    text = st.text_input(
        "Eight numbers of one token",
        TOKEN,
        key="depth_numbers",
        bind="query-params",
        max_chars=200,
        width=340,
        help=f"Exactly {depth.COUNT} numbers, with spaces between, none beyond ±{depth.LARGEST:,.0f}.",
    )
    times = TIMES.draw()
    gain = GAIN.draw()
    shift = SHIFT.draw()
try:
    values = depth.numbers(text)
except ValueError as error:
    st.error(f"Eight numbers: {error}. The picture shows {TOKEN}.")
    values = depth.numbers(TOKEN)
done = depth.layer_norm([times * value for value in values], gain, shift)
live_plot(
    norm_picture(
        [
            ("x", done.values),
            (f"− mean {short(done.mean)}", done.centred),
            (f"÷ √(variance {short(done.variance)} + ε)", done.scaled),
            (f"× gain {gain} + shift {shift}", done.out),
        ],
        **lesson.tall(290, 360),
    ),
    key="depth_norm_steps",
)
lesson.formula(
    r"\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta",
    rf"{gain} \cdot \frac{{{latex(done.values[0])} - {signed(done.mean)}}}{{\sqrt{{{latex(done.variance)} + 10^{{-5}}}}}} + {signed(shift)} = {done.out[0]:.2f}",
)


st.markdown(about_norm(done))
lesson.source(Wiring, NORMS[norm], *(() if residual else (keep_second,)))

# --- training ---------------------------------------------------------------------------------

LINES = ("with residual connections", "without")


def after(series: tuple[Series, ...]) -> None:
    """What each block of the trained model is worth: leave it out."""
    skipped = lesson.at_rest("depth", series[0].views[0], depth.skip_each)
    if skipped is None:
        return
    st.markdown(
        "**The first model without one of its blocks.** The block's output is exchanged for its input, and nothing is trained again."
    )
    live_plot(
        skip_bars(
            skipped.whole,
            skipped.without,
            chance=task.chance("decoder").blind,
            **lesson.tall(300, 380),
        ),
        key="depth_skipped",
    )
    st.markdown(worth(skipped))


trained = TRAINED.draw()
task = depth.TASK
base = Spec(depth.config(trained, True, norm, init), task, TrainConfig(steps=250))
lesson.training(
    "depth",
    f"The same model with {trained} blocks, {'no norm' if norm == 'none' else f'{norm}-norm'} and `{init}` (as above), with and "
    f"without residual connections. {'Then try 2 blocks' if trained > 2 else 'Then try 4 blocks'}: does it still matter? "
    "Afterwards each block of the first model is left out in turn.",
    line_up(base, [(("residual", False),)]),
    LINES,
    after=after,
)
lesson.onwards("depth")

with sweep_place:
    with st.spinner("Measuring every depth …"):
        swept = depth.sweep(init, tuple(NORMS))
    live_plot(
        depth_sweep(
            depth.DEPTHS,
            {
                "gradient of W_v in the first block": {
                    key: [flow.values[0] for flow in row] for key, row in swept.items()
                },
                "how much the places differ, after the last block": {
                    key: [flow.apart[-1] for flow in row] for key, row in swept.items()
                },
            },
            chosen=(n_layers, residual, norm),
            smallest=depth.SMALLEST,
            **lesson.tall(390, 480),
        ),
        key="depth_sweep",
    )
    two, deep = (swept[False, norm][depth.DEPTHS.index(n)] for n in (2, depth.DEPTHS[-1]))
    st.markdown(over_depth(two, deep, norm, init))
