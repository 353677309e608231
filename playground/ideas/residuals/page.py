"""Residuals and norms: what depth does to the stream, to the gradient and to training."""

from collections.abc import Mapping

import streamlit as st

from core.blocks import NORMS, SublayerConnection, keep_second
from core.config import TrainConfig
from core.init import INITS
from playground.experiments.variants import make_setup
from playground.figures.style import scientific
from playground.ideas import common
from playground.ideas.common import choose
from playground.ideas.residuals import measure
from playground.ideas.residuals.figures import (
    depth_picture,
    depth_sweep,
    norm_picture,
    short,
    skip_bars,
    wiring_picture,
)
from playground.live.picture import Shown
from playground.runs.spec import Spec, counted
from playground.runs.view import View
from playground.ui.components import live_plot
from playground.ui.knob import Knob
from playground.ui.literal import literal

PANELS = {
    "stream": "size of the stream",
    "variation": "variation between positions",
    "gradient": "gradient of the loss",
}
SWEPT = {
    "gradient of W_v in the first block": lambda flow: flow.values[0],
    "variation between positions, after the last block": lambda flow: flow.variation[-1],
}
FADED, SWOLLEN = 0.1, 100  # ratios of two gradients
SIMILAR = 0.05  # a variation below it: the positions carry almost the same
LOST, TIMES_LESS = 0.2, 3  # a variation below the first, and this many times below the other
GROWS = (
    "each block adds in proportion to the stream, and nothing keeps the stream small. That is what "
    "LayerNorm is for."
)
SPARE = 0.05  # nats: a block that costs less to leave out hardly counts
TOKEN = "2 4 4 4 5 5 7 9"

LAYERS = Knob(
    "depth_layers",
    "Blocks",
    measure.DEPTHS,
    8,
    "How many blocks are stacked: depth is what matters here.",
)
RESIDUAL = Knob(
    "depth_residual",
    "Residual connections",
    (True, False),
    True,
    "Add each sub-layer's output to its input, or replace the input by it.",
)
NORM = Knob(
    "depth_norm",
    "LayerNorm",
    tuple(NORMS),
    "none",
    "After the addition (the paper), before each sub-layer, or nowhere.",
)
INIT = Knob(
    "depth_init",
    "Initialisation",
    tuple(INITS),
    "torch",
    "The size of the initial weights: small ones (gpt2) shrink the stream at every step.",
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
    "A learnt factor for each column; here the same for all.",
)
SHIFT = Knob(
    "depth_shift",
    "Shift",
    (-1, 0, 1),
    0,
    "A learnt number added to each column; here the same for all.",
)


# --- sentences --------------------------------------------------------------------------------


def latex(number: float) -> str:
    """2.35·10⁻⁷ rather than 2.35e-07."""
    return common.tex(f"{number:.3g}")


def signed(number: float) -> str:
    return f"({latex(number)})" if number < 0 else latex(number)


def words(number: float) -> str:
    """The same for a sentence."""
    if number and not 1e-2 <= abs(number) < 1e4:
        return scientific(number)
    return f"{number:.2g}" if abs(number) < 100 else f"{number:,.0f}"


def share(number: float) -> str:
    if number >= 0.1:
        return f"{number:.0%}"
    return f"{number:.1%}" if number >= 1e-3 else words(number)


def times_its_size(factor: float) -> str:
    return "its full size" if 0.95 <= factor < 1.05 else f"{words(factor)} times its size"


def norm_name(norm: str, absent: str = "no norm") -> str:
    return absent if norm == "none" else f"{norm}-norm"


def about_flow(found: measure.Flow, residual: bool, norm: str) -> str:
    """What the chosen wiring does to an untrained model."""
    if found.factor < FADED:
        gradient = f"fades on its way back, to {words(found.factor)} of its size"
    elif found.factor > SWOLLEN:
        gradient = f"grows on its way back, {words(found.factor)} times"
    else:
        gradient = f"comes back at {times_its_size(found.factor)}"
    last = share(found.variation[-1])
    if found.variation[-1] < SIMILAR:
        variation = (
            f"All positions have become almost the same: what differs between them is only {last} "
            "of the stream."
        )
    else:
        variation = f"What differs between the positions is {last} of the stream."
    return (
        f"{counted(len(found.stream) - 1, 'block')} {'with' if residual else 'without'} residual "
        f"connections, {norm_name(norm, 'without LayerNorm')}: the gradient {gradient}. {variation}"
    )


def what_it_does(on: measure.Flow, off: measure.Flow, norm: str) -> str:
    """The usual claim, compared with what was measured."""
    fades, swells = off.factor < FADED, on.factor > SWOLLEN
    lost = off.variation[-1] < LOST and off.variation[-1] * TIMES_LESS < on.variation[-1]
    without = (
        f"Without residual connections {words(off.factor)} of the gradient is left in the first "
        "block"
    )
    both = (
        f"Without residual connections the gradient comes back at {times_its_size(off.factor)}, "
        f"with them at {times_its_size(on.factor)}"
    )
    lost_too = (
        f"what differs between the positions is {share(off.variation[-1])} of the stream without "
        f"them, and {share(on.variation[-1])} with them"
    )
    if fades and swells:
        return (
            f"**Half of the usual claim holds here.** {without}. With them it grows "
            f"{words(on.factor)} times: {GROWS}"
        )
    if fades:
        said = (
            f"**The usual claim holds here.** {without}; with them it comes back at "
            f"{times_its_size(on.factor)}."
        )
        return f"{said} And it is not all that is lost: {lost_too}." if lost else said
    if swells:
        return f"**Here residual connections alone do harm.** {both}: {GROWS}"
    if lost:
        reason = "" if norm == "none" else ": LayerNorm restores sizes, in the backward pass too"
        return (
            f"**Here it is not the gradient's size.** {both}{reason}. But {lost_too}, and no "
            "norm brings back what is lost. Each attention takes weighted means over the "
            "positions. Added to the stream, they leave what was there; replacing it, block after "
            "block, they leave only the mean."
        )
    return f"**Here little is lost so far.** {both}; {lost_too}. Add more blocks."


def over_depth(two: measure.Flow, deep: measure.Flow, norm: str, init: str) -> str:
    """How much of it is a matter of depth."""
    said = (
        f"Without residual connections, {norm_name(norm)}: with two blocks the gradient comes back "
        f"at {times_its_size(two.factor)}, and what differs between the positions is "
        f"{share(two.variation[-1])} of the stream; with {len(deep.stream) - 1} blocks it is "
        f"{words(deep.factor)} and {share(deep.variation[-1])}."
    )
    if norm == "pre" and init == "gpt2":
        said += (
            " Do two blocks with pre-norm learn without residual connections as well? Choose 2 "
            "above, train them below, and see."
        )
    return said


def and_then(n_layers: int, norm: str) -> str:
    """What to try next: first where the reason fails, then where it does not matter."""
    if norm == "none":
        return (
            "Then choose pre-norm above: without residual connections the gradient now keeps its "
            "size. Does that save the model?"
        )
    return f"Then try {counted(2 if n_layers > 2 else 8, 'block')}: does it still matter?"


def about_norm(done: measure.Normalised) -> str:
    """What LayerNorm did to the token's size."""
    size = (sum(value**2 for value in done.scaled) / len(done.scaled)) ** 0.5
    same = f"the same, to {words(done.off)}" if done.off else "the very same numbers"
    if done.variance == 0:
        said = (
            "All numbers are the same, so nothing is left but the shift: a variance of 0, and ε "
            "keeps it from being a division by 0."
        )
    elif size < 0.99:
        said = (
            f"The variance, {words(done.variance)}, is not large compared with "
            f"ε = {words(done.eps)}: afterwards the size is {size:.2g} instead of 1. LayerNorm "
            "does not blow up tiny numbers."
        )
    else:
        said = (
            "Whatever the size before, divided by the root of the variance it is "
            f"{size:.3f}: multiply all numbers by 10, and only the first two pictures would "
            "change. Gain and shift may then undo that."
        )
    return f"{said} PyTorch's own LayerNorm gives {same}."


def worth(skipped: measure.Skipped) -> str:
    """Which blocks of a trained model matter."""
    losses = skipped.without
    worst = max(range(len(losses)), key=losses.__getitem__)
    spare = [str(i + 1) for i, loss in enumerate(losses) if loss < skipped.whole + SPARE]
    said = f"All blocks: {short(skipped.whole)}. Without block {worst + 1}: {short(losses[worst])}."
    if not spare:
        return f"{said} None of them can be spared."
    which = f"Blocks {', '.join(spare)} cost" if len(spare) > 1 else f"Block {spare[0]} costs"
    return (
        f"{said} {which} less than {SPARE:g} to leave out: the residual connection carries the "
        "stream past them anyway."
    )


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

common.begin(
    "depth",
    "Residual connections keep the gradient alive through many blocks, and LayerNorm keeps the "
    "numbers in range.",
)
n_layers, residual, norm, init = choose(LAYERS, RESIDUAL, NORM, INIT)

flows = {kind: measure.flow(n_layers, kind, norm, init) for kind in (True, False)}
found = flows[residual]
common.say(about_flow(found, residual, norm))
size = common.tall(430, 390)
left, right = st.columns([1, 3.4], gap="small")
with left:
    live_plot(wiring_picture(residual, norm, size=size), key="depth_wiring")
with right:
    panels = {
        title: {kind: getattr(flow, name) for kind, flow in flows.items()}
        for name, title in PANELS.items()
    }
    figure = depth_picture(panels, residual=residual, smallest=measure.SMALLEST, size=size)
    live_plot(figure, key="depth_picture")
ratio = (
    rf"\frac{{\lVert \partial L / \partial x_{{{1 if n_layers > 1 else 0}}} \rVert}}"
    rf"{{\lVert \partial L / \partial x_{{{n_layers}}} \rVert}} = {latex(found.factor)}"
)
if found.steps > 1 and found.factor:
    each = latex(found.factor ** (1 / found.steps))
    ratio += rf" = \left({each}\right)^{{{found.steps}}}"
common.formula(WIRED[residual, norm] + r",\qquad " + SLOPE[residual], ratio)
st.markdown(what_it_does(flows[True], flows[False], norm))
st.caption(
    f"An untrained model, d_model {measure.D_MODEL}, {measure.ROWS} rows of reverse, in float64. "
    "Size: root of the mean square. Variation between positions: the size of what is left of "
    "the stream when its mean over the positions is subtracted, as a share. Gradient: the length "
    "of the gradient with respect to the stream."
)

st.subheader("At every depth", anchor=False)
sweep_above = st.container()

st.subheader("LayerNorm, number by number", anchor=False)
with common.row():
    text = st.text_input(
        "Eight numbers of one token",
        TOKEN,
        key="depth_numbers",
        bind="query-params",
        max_chars=200,
        width=340,
        help=f"Exactly {measure.COUNT} numbers, with spaces between, none beyond "
        f"±{measure.LARGEST:,.0f}.",
    )
    times, gain, shift = (knob.draw() for knob in (TIMES, GAIN, SHIFT))
try:
    values = measure.numbers(text)
except ValueError as error:
    st.error(literal(f"Eight numbers: {error}. The picture shows {TOKEN}."))
    values = measure.numbers(TOKEN)
done = measure.layer_norm([times * value for value in values], gain, shift)
live_plot(
    norm_picture(
        [
            ("x", done.values),
            (f"− mean {short(done.mean)}", done.centred),
            (f"÷ √(variance {short(done.variance)} + ε)", done.scaled),
            (f"× gain {gain} + shift {shift}", done.out),
        ],
        size=common.tall(290, 360),
    ),
    key="depth_norm_steps",
)
common.formula(
    r"\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta",
    rf"{gain} \cdot \frac{{{latex(done.values[0])} - {signed(done.mean)}}}"
    rf"{{\sqrt{{{latex(done.variance)} + 10^{{-5}}}}}} + {signed(shift)} = {done.out[0]:.2f}",
)
st.markdown(about_norm(done))
common.source(SublayerConnection, NORMS[norm], *(() if residual else (keep_second,)))

# --- training ---------------------------------------------------------------------------------

LINES = ("with residual connections", "without residual connections")


def after(views: dict[str, View], _: Mapping[str, Shown]) -> None:
    """What each block of the trained model is worth: the loss without it."""
    skipped = common.measured_when_idle("depth", views.get(LINES[0]), measure.skip_each)
    if skipped is None:
        return
    st.markdown(
        "**The first model without one of its blocks.** The block's output is replaced by its "
        "input, and nothing is trained again."
    )
    chance = task.chance("decoder").blind
    figure = skip_bars(skipped.whole, skipped.without, chance=chance, size=common.tall(300, 380))
    live_plot(figure, key="depth_skipped")
    st.markdown(worth(skipped))


task = measure.TASK
base = Spec(measure.config(n_layers, True, norm, init), task, TrainConfig(steps=measure.STEPS))
common.training(
    "depth",
    f"The model of the pictures above, {counted(n_layers, 'block')}, {norm_name(norm)} and "
    f"`{init}`, with and without residual connections: which one learns to reverse "
    f"{task.length} symbols? {and_then(n_layers, norm)} Afterwards each block of the first model "
    "is left out in turn.",
    make_setup(base, [(("residual", False),)]),
    LINES,
    after=after,
)
common.prev_next("depth")

with sweep_above:
    with st.spinner("Measuring every depth …"):
        swept = measure.sweep(init, tuple(NORMS))
    figure = depth_sweep(
        measure.DEPTHS,
        {
            title: {key: [number(flow) for flow in row] for key, row in swept.items()}
            for title, number in SWEPT.items()
        },
        chosen=(n_layers, residual, norm),
        smallest=measure.SMALLEST,
        size=common.tall(390, 480),
    )
    live_plot(figure, key="depth_sweep")
    two, deep = (swept[False, norm][measure.DEPTHS.index(n)] for n in (2, measure.DEPTHS[-1]))
    st.markdown(over_depth(two, deep, norm, init))
