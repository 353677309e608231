"""Against a recurrent net: what a GRU and an LSTM can do as well, and what they cannot."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import streamlit as st

from core.recurrent import Recurrent
from playground.experiments.variants import make_setup
from playground.ideas import common
from playground.ideas.recurrent import measure
from playground.ideas.recurrent.figures import Panel, models_picture
from playground.runs.pool import RUNS
from playground.ui.components import live_plot
from playground.ui.knob import Knob

NAMES = measure.NAMES
ASKS = {
    "one distance": "One of eight digits, 32 letters that mean nothing, then the question "
    "which digit it was.",
    "mixed distances": "The same, but the digit stands anywhere: from next to the question up to "
    "32 letters before it.",
    "look-up": "Six pairs of a letter and a value, then one of the letters: answer with its "
    "value. All pairs have to be kept until it is known which one is asked for.",
    "reversal": "Ten symbols, to be written backwards: the first one is asked for last.",
}

BLOCKS = Knob(
    "recurrent_blocks",
    "Blocks",
    (1, 2, 3),
    measure.BLOCKS,
    "Blocks of the transformer, layers of the recurrent nets. Their width follows: all three have "
    "about the same number of parameters.",
)
TASK = Knob(
    "recurrent_task",
    "Task to train",
    tuple(measure.TASKS_HERE),
    "one distance",
    "What all three learn at the end of the page.",
)


@lru_cache(maxsize=4)
def clock(n_layers: int) -> measure.Timed:
    """Measured once for all visitors."""
    return measure.timed(measure.TASKS_HERE["reversal"], RUNS.device.name, n_layers)


def by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {NAMES[name]: value for name, value in values.items()}


def quickest(values: Mapping[str, list[float]], most: bool = False) -> str:
    """The model with the least (or the most) at the greatest length, and all their numbers."""
    last = {name: each[-1] for name, each in values.items()}
    best = (max if most else min)(last, key=last.__getitem__)
    shown = {
        name: f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for name, value in last.items()
    }
    every = ", ".join(f"{NAMES[name]} {text}" for name, text in shown.items())
    first = " and ".join(NAMES[name] for name in last if shown[name] == shown[best])
    return f"**{first}** ({every})"


common.begin(
    "recurrent",
    "A transformer processes all positions in parallel and reaches any distance in one step; a "
    "recurrent net does neither.",
)
n_layers, chosen = common.choose(BLOCKS, TASK)
task = measure.TASKS_HERE[chosen]
specs = measure.specs(task, n_layers)
sizes = "; ".join(
    f"{NAMES[name]}: d_model {spec.model.d_model}, {spec.model.n_parameters:,} parameters"
    for name, spec in specs.items()
)
st.caption(f"Of about the same size, whatever is compared here: {sizes}.")

# --- how far a gradient reaches

pulls = measure.gradients(n_layers)
st.subheader("How far does the answer's loss reach back?", anchor=False)
picture = models_picture(
    [Panel("gradient at the value", "distance", measure.DISTANCES, by_name(pulls))],
    "gradient against distance",
    size=common.tall(320, 400),
)
live_plot(picture, key="recurrent_picture")
shares = {name: each[-1] / each[0] for name, each in pulls.items()}
far, near = measure.DISTANCES[-1], measure.DISTANCES[0]
common.say(
    "Before training, a value is shown and asked for some letters later. How strongly does the "
    f"loss pull at the value? At distance {far}, compared with distance {near}: "
    + ", ".join(f"{NAMES[name]} {share:.2g}" for name, share in shares.items())
    + ". A transformer looks at the value directly, whatever the distance. In a recurrent net the "
    "gradient goes back through every step in between, and each one makes it smaller."
)
per_step = common.tex(f"{shares['lstm'] ** (1 / (far - near)):.3f}")
whole = common.tex(f"{shares['lstm']:.1e}")
common.formula(
    r"\frac{\partial h_t}{\partial h_{t-k}} = \prod_{i=t-k+1}^{t} \frac{\partial h_i}{\partial "
    r"h_{i-1}}",
    rf"\quad \text{{LSTM, on average each step: }} {per_step}",
    rf"\quad {per_step}^{{{far - near}}} = {whole}",
)

# --- time

st.subheader("Time against length", anchor=False)
pressed = st.button(
    "Measure",
    key="recurrent_measure",
    icon=":material/timer:",
    help=f"Time all three on {RUNS.device.words}.",
)
if pressed:
    st.session_state["recurrent timed"] = n_layers
if st.session_state.get("recurrent timed") == n_layers:
    found = clock(n_layers)
    shown = [
        Panel("forward, ms", "length", found.lengths, by_name(found.forward)),
        Panel("forward and backward, ms", "length", found.lengths, by_name(found.both)),
        Panel("written, tokens per second", "length", found.lengths, by_name(found.written)),
    ]
    live_plot(
        models_picture(shown, "time against length", size=common.tall(320, 400)),
        key="recurrent_time",
    )
    st.markdown(
        f"Measured on {RUNS.device.words}, {measure.ROWS} rows at a time, once for all visitors. "
        f"The fastest at length {found.lengths[-1]}: forward, {quickest(found.forward)} ms; "
        f"forward and backward, {quickest(found.both)} ms; writing one text token by token, each "
        f"with what it keeps (a cache, or a state), {quickest(found.written, most=True)} tokens "
        "per second. What a transformer loses without its cache is on the page about writing."
    )
common.say(
    "“In parallel” is a claim about parallel hardware. A processor core does one thing after the "
    "other anyway, and there attention's work grows with the square of the length. A GPU has "
    "thousands of units: it computes all positions of a transformer at once, while a recurrent net "
    "waits for each token before the next. When writing, both go token by token; the state of a "
    "recurrent net has the same size after any length, and a cache grows."
)
st.markdown(
    "**Where the claim does not hold.** On a CPU a recurrent net need not be slower. And a "
    "gradient that is small before training need not stay small: where short distances show what "
    "is wanted, GRU and LSTM learn to keep the value over longer ones. Train “mixed distances” "
    "below to see it; afterwards all three are tried at distances that they have never met."
)
common.source(Recurrent)

# --- training

setup = make_setup(
    specs["decoder"],
    [
        (
            ("architecture", name),
            ("d_model", specs[name].model.d_model),
            ("n_heads", 1),
        )
        for name in ("gru", "lstm")
    ],
)


def below(views: common.Views, parts: Mapping[str, Any]) -> None:
    """Rows longer than those of the training."""
    common.draw_parts(parts)
    found = {
        name: common.measured_when_idle("recurrent", view, measure.further)
        for name, view in views.items()
    }
    if task.name != "distance" or not found or None in found.values():
        return
    panel = Panel("right answers", "distance", measure.FURTHER, found, log=False)
    live_plot(models_picture([panel], "right answers at each distance"), key="recurrent_further")
    far = ", ".join(f"{name} {each[-1]:.0%}" for name, each in found.items())
    common.say(
        f"Trained up to distance {task.distance}, tried at others. At distance "
        f"{measure.FURTHER[-1]} right: {far}; guessing, {math.exp(-task.blind()):.0%}."
    )


common.training("recurrent", ASKS[chosen], setup, list(NAMES.values()), after=below)
common.prev_next("recurrent")
