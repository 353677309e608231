"""Writing: one token after another, what each is chosen from, and what need not be read twice."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.cache import Cache
from core.generate import generate, ranked
from playground.experiments.variants import make_setup
from playground.figures.written import shown
from playground.ideas import common
from playground.ideas.writing import measure
from playground.ideas.writing.figures import cache_picture
from playground.live.picture import Html, Part
from playground.runs.pool import RUNS
from playground.runs.snapshot import SAMPLE_SEED
from playground.runs.snapshot import TEMPERATURE as TRIED
from playground.runs.view import View
from playground.ui.components import live_html, live_plot
from playground.ui.knob import Knob
from playground.ui.writing_panel import TEXTS, WritingPanel, sample_html

FAST, SLOW = f"lr {measure.RATE:g}", f"lr {measure.SLOW_RATE:g}"
SOURCE = Knob("writing_source", "Text", tuple(TEXTS), "docs", "What the model learns to write.")
PANEL = WritingPanel("writing")


# --- while it trains ------------------------------------------------------------------------


def samples(views: dict[str, View]) -> dict[str, Part]:
    """What both models write at their newest look."""
    parts: dict[str, Part] = {}
    for i, name in enumerate((FAST, SLOW)):
        frames = views[name].frames if name in views else ()
        frame = frames[-1] if frames else None
        if frame is None or frame.sample is None:
            waiting = f"<b>{name}</b>: nothing yet" if name in views else ""
            parts[f"writing_sample_{i}"] = Html(waiting)
            continue
        text = sample_html(views[name].spec.task, frame.sample)
        parts[f"writing_sample_{i}"] = Html(f"<b>{name}</b>, step {frame.written_at}{text}")
    return parts


# --- the page -------------------------------------------------------------------------------

common.begin(
    "writing",
    "A language model does not write. It says how likely each next token is; how one draws from "
    "that makes the text, and changes none of the model's numbers.",
)
with common.row():
    source = SOURCE.draw()
    rules = PANEL.draw_rules()
    spec = measure.spec(source)
    common.already_trained("writing", spec)
task = spec.task
found, view = common.copied("writing", spec)
sheet = PANEL.draw_text(spec, rules, found, view, "Press Play under “Train it”, and read again.")
if sheet is not None:
    st.subheader("What it was chosen from", anchor=False)
    PANEL.draw_choice(sheet)
    place, written = PANEL.place, sheet.written
    first = shown(task.vocabulary[written.alternatives[place][0]])
    common.formula(
        r"p_i = \frac{e^{z_i / T}}{\sum_j e^{z_j / T}}",
        rf"T = {rules.temperature:g}:\; {written.before[place, 0]:.3f} \rightarrow "
        rf"{written.after[place, 0]:.3f}",
    )
    st.caption(
        f"With numbers: the likeliest character here, “{first}”, before and after the rules."
    )
    common.source(ranked, generate)

    st.subheader("How surprised is it by your text?", anchor=False)
    PANEL.draw_surprise(sheet)
st.markdown(
    "**Where this does not hold.** A text that surprises little is not a good one: at temperature "
    "0 the model takes what it expects most at every step, and often goes round in circles. And no "
    "rule of drawing repairs what the model has not learnt: at every temperature it draws from the "
    "same wrong probabilities."
)

st.subheader("What need not be read twice", anchor=False)
common.say(
    "Each new token asks all tokens before it. Under a causal mask their keys and values do not "
    "change any more, so they are kept: the **key–value cache**. Then only the new token is "
    "computed, and its query meets the kept keys. The texts above were written so."
)
asked_for = st.button(
    "Measure",
    key="writing_measure",
    type="primary",
    icon=":material/timer:",
    help=f"Time the next token at each length, with and without a cache, on {RUNS.device.words}.",
)
if asked_for:
    with st.spinner("Writing with and without a cache in turn …"):
        st.session_state["writing speed"] = (measure.speed(spec.model), RUNS.active())
lengths = measure.LENGTHS
work = {
    "with cache": [measure.operations(spec.model, n, 1) for n in lengths],
    "without": [measure.operations(spec.model, n, n) for n in lengths],
}
timed: tuple[measure.Speed, int] | None = st.session_state.get("writing speed")
rates = None
if timed is not None:
    rates = {"with cache": timed[0].cached, "without": timed[0].whole}
live_plot(
    cache_picture(lengths, work, rates, size=common.tall(330, 400)),
    key="writing_cache",
)
saved = work["without"][-1] / work["with cache"][-1]
said = (
    f"**Computed**: at {lengths[-1]} tokens the next one takes {saved:,.0f} times the operations "
    f"without a cache. The price is memory: {measure.kept_bytes(spec.model, lengths[-1]):,} bytes "
    "for one text of that length."
)
if timed is not None:
    quick, busy = timed
    gain = quick.cached[-1] / quick.whole[-1]
    said += (
        f" **Measured** on {RUNS.device.words}: {quick.cached[-1]:,.0f} against "
        f"{quick.whole[-1]:,.0f} tokens per second at that length, {gain:.1f} times as many."
    )
    if gain < saved:
        said += " Less than computed: to call each small operation takes its time, too."
    if busy:
        said += f" {busy} runs were training meanwhile, so only the ratio counts."
st.markdown(said)
st.markdown(
    "**Where it cannot be used.** Under a mask that sees ahead, a new token changes what all "
    "earlier ones have read. And once a text is longer than the model's "
    f"{task.length} positions, the oldest token drops out and every other one moves: then the text "
    "is read from the beginning for each token."
)
common.source(Cache)

base = spec


def below(views: dict[str, View], parts: Mapping[str, Any]) -> None:
    """What both write, side by side."""
    if views:
        st.markdown(
            f"**What they write** after a newline, at temperature {TRIED:g} and seed {SAMPLE_SEED}:"
        )
    for column, part in zip(st.columns(2, gap="medium"), parts.values(), strict=True):
        with column:
            live_html(part)


common.training(
    "writing",
    f"The same model learns for {measure.STEPS} steps at two learning rates: {measure.RATE:g}, and "
    f"{measure.SLOW_RATE:g}, which does well on the small tasks of the Playground. Which is the "
    "better one for a text, and can you see the difference in the loss in what they write? The "
    "first of them then writes the texts above.",
    make_setup(base, [(("lr", measure.SLOW_RATE),)]),
    [FAST, SLOW],
    samples,
    below,
)
common.prev_next("writing")
