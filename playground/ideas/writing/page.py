"""Writing: one token after another, what each is chosen from, and what need not be read twice."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from core.cache import Cache
from core.generate import generate, ranked
from core.model import Transformer
from core.tasks.text import Text
from core.train import Trainer
from playground.experiments.variants import make_setup
from playground.figures.written import percent, shown, surprise_of, text_picture, written_html
from playground.ideas import common
from playground.ideas.writing import measure
from playground.ideas.writing.figures import alternatives_picture, cache_picture, inside_picture
from playground.live.picture import Html, Part
from playground.runs.pool import RUNS
from playground.runs.snapshot import SAMPLE_SEED
from playground.runs.snapshot import TEMPERATURE as TRIED
from playground.runs.spec import Spec, in_nats
from playground.runs.view import View
from playground.runs.writing import Rules, Written, chances_of, write
from playground.ui.components import Click, live_html, live_plot
from playground.ui.knob import Knob
from playground.ui.literal import literal

N_NEW = 64  # characters that are written
MOST_TYPED = 400  # characters of a text of one's own
FAST, SLOW = f"lr {measure.RATE:g}", f"lr {measure.SLOW_RATE:g}"
MODEL, GIVEN = "writing model", "writing given"  # in the session state
TEXTS = {
    "docs": ("The ", "The value of the expression is the object itself. Xylophone?\n"),
    "grammar": ("", "the cats (who see the dog) sleep.\nthe cats (who see the dog) sleeps.\n"),
}


def off_or(value: Any) -> str:
    return "off" if value is None else f"{value:g}"


SOURCE = Knob("writing_source", "Text", tuple(TEXTS), "docs", "What the model learns to write.")
TEMPERATURE = Knob(
    "writing_temperature",
    "Temperature",
    (0.0, 0.3, 0.5, 0.8, 1.0, 1.5, 3.0),
    0.8,
    "The model's logits are divided by it: 0 always takes the likeliest character, 1 draws as the "
    "model says, more makes all alike.",
    "{:g}".format,
)
TOP_K = Knob(
    "writing_top_k",
    "Top-k",
    (None, 1, 2, 3, 5, 10, 20),
    None,
    "Only the k likeliest characters are drawn from.",
    off_or,
)
TOP_P = Knob(
    "writing_top_p",
    "Top-p",
    (None, 0.5, 0.8, 0.9, 0.95, 0.99),
    None,
    "Only the likeliest characters that together reach this probability are drawn from.",
    off_or,
)
SEED = Knob(
    "writing_seed",
    "Seed",
    range(10_000),
    0,
    "The random numbers of the draw: the same seed, the same text.",
)
AT = Knob(
    "writing_at",
    "Look at character",
    range(1, N_NEW + 1),
    1,
    "The one that is looked at below; a click on it does the same.",
)


# --- which model writes ---------------------------------------------------------------------


@dataclass(frozen=True)
class Writer:
    """The model that writes on this page: a copy, as it was at one step of a run."""

    run: Any  # None: untrained
    step: int
    model: Transformer


def writer(spec: Spec) -> tuple[Writer, View | None]:
    """The trained model, at the step at which it was asked for; without a run the untrained one.

    While the run trains, the copy stays as it is, until its reader asks for a newer one: a text
    that changed under one's eyes could not be looked into.
    """
    run = common.idea_runs("writing").run_of(spec)
    view = None if run is None else run.view()
    untrained = Writer(None, 0, measure.untrained(spec.model, spec.training.seed))
    if view is None or not len(view.loss):
        return untrained, view
    kept: Writer | None = st.session_state.get(MODEL)
    if kept is not None and kept.run is run and (view.live or kept.step == len(view.loss)):
        return kept, view

    def copied(trainer: Trainer) -> tuple[int, Transformer]:
        return trainer.step_count, copy.deepcopy(trainer.model).cpu()

    try:
        step, model = run.ask(copied).result(common.PATIENCE)
    except (TimeoutError, ValueError):  # its worker is busy, or it is no longer in memory
        return (kept if kept is not None and kept.run is run else untrained), view
    st.session_state[MODEL] = Writer(run, step, model)
    return st.session_state[MODEL], view


def forget_writer() -> None:
    """Ask for the model as it is now, at the next look."""
    st.session_state.pop(MODEL, None)


def about_writer(found: Writer, view: View | None, spec: Spec) -> str:
    """Who writes, and how well it knows the text."""
    if found.run is None:
        then = (
            "The one that is training below can take its place."
            if view is not None and view.live
            else "Press Play under “Train it”, and read again."
        )
        return (
            "**The untrained model writes on from the prompt** (bold): it has seen no text yet, "
            f"and what it gives each character is random. {then}"
        )
    reached = in_nats(view.reached(found.step))
    moving = ", and is still training" if view.live else ""
    return (
        f"**The model of step {found.step} of {spec.training.steps} writes on from the prompt** "
        f"(bold): its training loss is {reached} nats a character{moving}."
    )


# --- the text that is written ---------------------------------------------------------------


def given(context: Any) -> tuple[int, ...]:
    """The first tokens of the text, as they were put there by hand in this context."""
    kept = st.session_state.get(GIVEN)
    return kept[1] if kept is not None and kept[0] == context else ()


def go_on_with(context: Any, ids: tuple[int, ...]) -> None:
    """Keep these tokens, and let the model write on from there."""
    st.session_state[GIVEN] = context, ids


def again() -> None:
    st.session_state[SEED.key] = (st.session_state[SEED.key] + 1) % len(SEED.choices)


def typed(task: Text, text: str, otherwise: str, what: str) -> str:
    """The visitor's text, or, where the model has no such characters, another one: and says so."""
    try:
        task.encode(text)
    except ValueError as error:
        st.error(literal(f"{what}: {error}. “{otherwise.strip() or shown(chr(10))}” is used."))
        return otherwise
    return text


def hover_of(written: Written, place: int, vocabulary: tuple[str, ...]) -> str:
    """What pointing at a written character says."""
    letter, chance = shown(written.letters[place]), float(written.chances[place])
    others = ", ".join(
        f"{shown(vocabulary[i])} {percent(float(p))}"
        for i, p in zip(written.alternatives[place][:5], written.before[place], strict=False)
    )
    return (
        f"character {place + 1}: {escaped(letter)} {percent(chance)}<br>"
        f"the likeliest: {escaped(others)}"
    )


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def about_choice(written: Written, place: int, rules: Rules, vocabulary: tuple[str, ...]) -> str:
    """How this character came to be chosen."""
    chance = float(written.chances[place])
    n = int(written.in_draw[place])
    ids = written.alternatives[place]
    rank = ids.index(written.ids[place]) + 1 if written.ids[place] in ids else None
    place_said = f"number {rank} in its order" if rank else f"not among its first {len(ids)}"
    drawn = "one character can be drawn" if n == 1 else f"{n} characters can be drawn"
    return (
        f"Character {place + 1} is “{shown(written.letters[place])}”: the model gave it "
        f"{percent(chance)} ({place_said}), a surprise of {in_nats(-math.log(chance))} nats. "
        f"Under these rules {drawn} here, of {len(vocabulary) - 1}."
    )


def about_inside(found: measure.Inside, vocabulary: tuple[str, ...]) -> str:
    """From where on the best guess stays."""
    best = shown(vocabulary[int(found.tokens[-1, 0])])
    last = len(found.tokens) - 1
    where = "from the input on" if found.settled == 0 else f"from block {found.settled} on"
    changed = "" if found.settled < last else ": it is the last block that decides"
    return f"The best guess is “{best}” {where}{changed}."


def about_surprise(letters: str, chances: np.ndarray) -> str:
    """How surprising a text is on the whole, and where most."""
    surprise = surprise_of(chances)
    mean = float(surprise.mean())
    most = int(surprise.argmax())
    alike = math.exp(min(mean, 700.0))
    return (
        f"On average {in_nats(mean)} nats a character: as unsure as between {alike:.1f} equally "
        f"likely ones (that is its perplexity). Most surprising is character {most + 2}, "
        f"“{shown(letters[most + 1])}”, which it gave {percent(float(chances[most]))}."
    )


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
        vocabulary, sample = views[name].spec.task.vocabulary, frame.sample
        alternatives = [[vocabulary[j] for j in ids] for ids in sample.alternatives]
        text = written_html(sample.letters, sample.chances, alternatives, sample.before)
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
    temperature = TEMPERATURE.draw()
    with common.more():
        top_k, top_p, seed = TOP_K.draw(), TOP_P.draw(), SEED.draw()
    st.button(
        "Again",
        key="writing_again",
        icon=":material/casino:",
        on_click=again,
        help="The same model, the same rules, other random numbers.",
    )
spec = measure.spec(source)
task = spec.task
usual_prompt, usual_text = TEXTS[source]
asked = st.text_input(
    "Prompt",
    key="writing_prompt",
    bind="query-params",
    max_chars=task.length,
    placeholder=usual_prompt or "nothing: it begins after a newline",
    help="The model writes on from here. Without a prompt of yours it begins with the one shown.",
)
prompt_text = typed(task, asked, usual_prompt, "Prompt") if asked else usual_prompt
prompt = task.prompt("decoder", prompt_text or None)._replace(n_new=N_NEW)
rules = Rules(temperature, top_k, top_p, seed)
found, view = writer(spec)
context = (source, prompt_text)
by_hand = given(context)
written = write(found.model, task, prompt, rules, by_hand)
vocabulary = task.vocabulary
prompt_ids = prompt.inputs[0][0].tolist()

with common.row():
    st.markdown(about_writer(found, view, spec))
    if view is not None and view.live:
        st.button(
            "Use the model as it is now",
            key="writing_newer",
            icon=":material/refresh:",
            on_click=forget_writer,
            help="The text stays the work of one model until you ask for a newer one.",
        )
    if by_hand:
        st.button(
            "From the prompt again",
            key="writing_restart",
            icon=":material/undo:",
            on_click=go_on_with,
            args=(context, ()),
            help=f"The first {len(by_hand)} characters stay as they are until then.",
        )
place = AT.present() - 1
letters = [vocabulary[i] for i in prompt_ids] + list(written.letters)
start = len(prompt_ids)


def clicked(point: Click) -> None:
    """Look at the character that was clicked."""
    chosen = int(point.y) * 32 + int(point.x) - start
    if 0 <= chosen < N_NEW:
        st.session_state[AT.key] = chosen + 1


live_plot(
    text_picture(
        letters,
        [np.nan] * start + written.chances.tolist(),
        ["the prompt"] * start + [hover_of(written, i, vocabulary) for i in range(N_NEW)],
        chosen=start + place,
        alt=f"Written: {written.text}",
        size=common.tall(None),
    ),
    key="writing_picture",
    on_click=clicked,
)

st.subheader("What it was chosen from", anchor=False)
alternatives = written.alternatives[place]
options = [shown(vocabulary[i]) for i in alternatives]
kept = (*written.ids[:place],)


def take(rank: int) -> None:
    """Put another character there, and let the model go on from it."""
    go_on_with(context, (*kept, alternatives[rank]))


with common.row():
    place = AT.draw(width=170) - 1
    rank = st.selectbox(
        "Put here instead",
        range(len(options)),
        format_func=lambda i: f"{options[i]}  {percent(float(written.before[place, i]))}",
        key="put_instead",
        width=190,
        help="Any of the likeliest characters, whatever the rules say; a click on its bar is "
        "quicker.",
    )
    st.button(
        "Go on from it",
        key="writing_go",
        icon=":material/edit:",
        on_click=take,
        args=(rank or 0,),
        help="What was written before it stays; the model writes on from there.",
    )
st.markdown(about_choice(written, place, rules, vocabulary))
read = prompt_ids + list(kept)
seen = measure.inside(found.model, read)
guesses = [[vocabulary[i] for i in row] for row in seen.tokens.tolist()]
left, right = st.columns([1, 1.6], gap="medium")
with left:
    chosen = alternatives.index(written.ids[place]) if written.ids[place] in alternatives else None
    live_plot(
        alternatives_picture(
            [vocabulary[i] for i in alternatives],
            written.before[place],
            written.after[place],
            chosen,
            size=common.tall(380, 440),
        ),
        key="writing_alternatives",
        on_click=lambda point: take(int(point.y)),
    )
with right:
    live_plot(
        inside_picture(
            seen.weights,
            [vocabulary[i] for i in read[-task.length :]],
            guesses,
            seen.chances,
            size=common.tall(380, 440),
        ),
        key="writing_inside",
    )
st.markdown(
    f"{about_inside(seen, vocabulary)} Reading off an inner layer is a guess about it: only the "
    "last one is trained to be read."
)
first = shown(vocabulary[alternatives[0]])
common.formula(
    r"p_i = \frac{e^{z_i / T}}{\sum_j e^{z_j / T}}",
    rf"T = {temperature:g}:\; {written.before[place, 0]:.3f} \rightarrow "
    rf"{written.after[place, 0]:.3f}",
)
st.caption(f"With numbers: the likeliest character here, “{first}”, before and after the rules.")
common.source(ranked, generate)

st.subheader("How surprised is it by your text?", anchor=False)
own = st.text_input(
    "Your text",
    key="writing_text",
    bind="query-params",
    max_chars=MOST_TYPED,
    placeholder=usual_text.strip().split("\n")[0],
    help=f"Up to {MOST_TYPED} characters; each is coloured by how little the model expected it.",
)
text = typed(task, own, usual_text, "Your text") if len(own) > 1 else usual_text
chances = chances_of(found.model, task.encode(text))
st.markdown(about_surprise(text, chances))
live_plot(
    text_picture(
        list(text),
        [np.nan, *chances.tolist()],
        [
            "the first character: nothing was asked",
            *(
                f"{escaped(shown(a))} {percent(float(p))}"
                for a, p in zip(text[1:], chances, strict=True)
            ),
        ],
        alt=about_surprise(text, chances),
        size=common.tall(None),
    ),
    key="writing_surprise",
)
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
