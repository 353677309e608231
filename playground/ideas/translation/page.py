"""Encoder and decoder: a question is read once, its answer written token by token."""

from dataclasses import dataclass

import numpy as np
import streamlit as st

from core.attention import CrossAttention
from core.generate import generate
from core.measure import Accuracy
from core.model import EncoderDecoder
from playground.experiments.variants import make_setup
from playground.figures import attention_maps
from playground.figures.style import RIGHT_MARK, WRONG_MARK
from playground.ideas import common
from playground.ideas.translation import measure
from playground.ideas.translation.figures import Panel, three_maps
from playground.ideas.translation.measure import Decoded
from playground.live.picture import Html, Part, Plot
from playground.runs.spec import Spec, in_nats
from playground.runs.view import View
from playground.ui.components import live_plot
from playground.ui.knob import Knob
from playground.ui.literal import literal
from playground.ui.model_copy import about_shipped
from playground.ui.page_head import Tall, projector

MOST_STEPS = 11  # of the longest answer


def another_task() -> None:
    """A question of the old one means nothing."""
    st.session_state.translation_text = ""


RECIPES = {"quick": "quick", "paper": "the paper’s (2017)"}
CONTRAST = {"quick": ("rotary", "no positions"), "paper": ("sinusoidal", "no positions")}

TASK = Knob(
    "translation_task",
    "Task",
    ("dates", "numbers"),
    "dates",
    "Dates in ten written forms, to be written as year-month-day; or numbers in words, in digits.",
    on_change=another_task,
)
RECIPE = Knob(
    "translation_recipe",
    "Recipe",
    tuple(RECIPES),
    "quick",
    "How the model is made and trained: quickly, or as in the paper of 2017, with sinusoidal "
    "positions, norms after the addition, its schedule and label smoothing.",
    RECIPES.__getitem__,
)
HEAD = Knob(
    "translation_head",
    "Head",
    (0, 1, 2, 3, 4),
    0,
    "One head of each attention, or the mean of all.",
    lambda head: str(head) if head else "mean",
)
SHOW = Knob(
    "translation_show",
    "Show",
    ("weights", "masks"),
    "weights",
    "Where each token looks; or where it may look, with the padding behind the question.",
)
STEP = Knob(
    "translation_step",
    "Step",
    range(1, MOST_STEPS + 1),
    1,
    "Which token of the answer is being written.",
)


# --- choosing -------------------------------------------------------------------------------


def go(step: int) -> None:
    st.session_state[STEP.key] = step


def question(spec: Spec) -> str:
    """The visitor's own question where the task knows it, else a held-out one."""
    task = spec.task
    example = task.example(measure.ARCHITECTURE)
    typed = st.text_input(
        "Your own",
        key="translation_text",
        bind="query-params",
        max_chars=100,
        width=420,
        placeholder=example,
        help="A date in one of the ten forms, or a number in words. Leave it empty for a question "
        "that training never meets.",
    )
    if not typed.strip():
        return example
    try:
        return task.understand(typed.strip())
    except ValueError as error:
        st.error(literal(f"{error}. “{example}” is used."))
        return example


# --- words ----------------------------------------------------------------------------------


def about_model(found: common.Copied, view: View | None, spec: Spec) -> str:
    """Which model answers here."""
    if found.shipped:
        return about_shipped(spec, "answers")
    if found.run is None:
        return (
            "**The untrained model answers**: what it writes is random, and where it looks means "
            "nothing yet. Press Play under “Train it”, and come back."
        )
    loss = in_nats(view.reached(found.step))
    return (
        f"**The model of step {found.step} of {spec.training.steps} answers**; its training loss "
        f"was {loss}."
    )


def about_step(found: Decoded, step: int, cross: np.ndarray) -> str:
    """What happens at a step, counted from 0."""
    token, chance = found.guesses[step][0]
    others = ", ".join(f"“{t}” {p:.0%}" for t, p in found.guesses[step][1:])
    row = cross[step, : found.length]
    best = int(row.argmax())
    before = "".join(found.read[1 : step + 1]) or "nothing"
    ends = " That ends the answer." if token == "■" else ""
    return (
        f"Step {step + 1} of {len(found.written)}: written so far is **{before}**. The decoder "
        f"looks most at “{found.source[best]}”, token {best + 1} of the question, with "
        f"{row[best]:.0%} of its weight, and writes **“{token}”** ({chance:.0%}; next best "
        f"{others}).{ends}"
    )


def about_answer(found: Decoded) -> str:
    """Whether the answer is right."""
    right = found.written == found.right
    said = f"It writes **{measure.visible(found.written)}**: "
    if right:
        return f"{said}{RIGHT_MARK} right."
    return f"{said}{WRONG_MARK} wrong, it is {measure.visible(found.right)}."


def about_looks(found: Decoded, text: str, name: str) -> str:
    """Whether the part that is written is the part that is looked at: for dates."""
    looks = measure.looks(found, text) if name == "dates" else []
    if not looks:
        return ""
    said = "; ".join(
        f"the {look.part}: head {look.head + 1}, {look.weight:.0%} (uniform attention: "
        f"{look.uniform:.0%})"
        for look in looks
    )
    held = sum(look.weight > 0.5 for look in looks)
    return (
        "**Measured here.** While each part is written, the head that looks at this very part of "
        f"the question most: {said}. That is more than half of its weight for {held} of "
        f"{len(looks)} parts."
    )


def about_accuracies(taught: Accuracy, alone: Accuracy, name: str) -> str:
    """Two ways to ask, two ways to count."""
    same = "the same" if taught.exact == alone.exact else "nearly the same"
    return (
        f"On {measure.ROWS} held-out {name}, wholly right answers: **{alone.exact:.1%}** on its "
        f"own, **{taught.exact:.1%}** with the right answer so far given to it (teacher forcing): "
        f"{same}, because up to its first error both read the same. Single tokens flatter: "
        f"{alone.tokens:.1%} and {taught.tokens:.1%} of them are right."
    )


# --- pictures -------------------------------------------------------------------------------


def panels_of(found: Decoded, head: int, step: int, show: str) -> list[Panel]:
    """The three attentions, as far as the answer is written; or their masks, with the padding."""
    masks = show == "masks"
    n = len(found.source) if masks else found.length
    source, written = found.source[:n], found.written

    def drawn(maps: measure.Maps, keys: int, queries: int) -> tuple[np.ndarray, np.ndarray]:
        hidden = np.broadcast_to(maps.hidden, maps.weights.shape[1:])[:queries, :keys]
        if masks:
            return 1.0 - hidden, hidden
        return measure.heads_shown(maps.weights, head)[:queries, :keys].astype(float), hidden

    cross, encoder = drawn(found.cross, n, len(written)), drawn(found.encoder, n, n)
    decoder = drawn(found.decoder, len(found.read), len(written))
    if not masks:
        for weights, _ in (cross, decoder):
            weights[step + 1 :] = np.nan
    shown = [t if i <= step or masks else "" for i, t in enumerate(written)]
    keys = [t if i <= step or masks else "" for i, t in enumerate(found.read)]
    now = None if masks else step
    source_is, answer_is = "source: the question", "target: written so far"
    return [
        Panel("cross-attention", *cross, shown, source, "writes", source_is, now),
        Panel("encoder: self-attention", *encoder, source, source, "", source_is),
        Panel("decoder: masked", *decoder, shown, keys, "writes", answer_is, now),
    ]


@dataclass(frozen=True)
class Learning:
    """The cross-attention of the first run on its example, as it is learnt."""

    tall: Tall

    def __call__(self, views: dict[str, View]) -> dict[str, Part]:
        view = next(iter(views.values()), None)
        frames = view.frames if view is not None else ()
        if not frames:
            return {"translation_said": Html("<p>Cross-attention, as it is learnt.</p>")}
        frame = frames[-1]
        (cross,) = (a for name, a in frame.attention.items() if name.endswith("cross"))
        maps = attention_maps(
            cross.stages["weights"],
            cross.query_tokens,
            cross.key_tokens,
            hidden=np.broadcast_to(cross.hidden, cross.stages["weights"].shape[1:]),
            width=1150,
            size=self.tall(300, 400),
        )
        right = sum(found.right for found in frame.predictions)
        said = (
            f"Cross-attention of {next(iter(views))} at step {frame.step}, on an example that "
            f"training never meets: {right} of {len(frame.predictions)} tokens right with the "
            "right answer so far."
        )
        return {
            "translation_said": common.paragraph(said),
            "translation_maps": Plot(maps, "cross-attention"),
        }


# --- the page -------------------------------------------------------------------------------

common.begin(
    "translation",
    "A decoder writes an answer token by token, and at each step looks at the part of the "
    "question that it needs.",
)
with common.row():
    name = TASK.draw(width="content")
    recipe = RECIPE.draw(width="content")
    show = SHOW.draw(width="content")
    head = HEAD.draw(width="content")
    spec = measure.spec(name, recipe)
    common.already_trained("translation", spec)
model, view = common.copied("translation", spec)
text = question(spec)
found = measure.decode(model.model, spec.task, text)
steps = len(found.written)
step = min(STEP.present(), steps)
with st.container(horizontal=True, vertical_alignment="bottom"):
    for label, to, icon in (("Back", step - 1, "arrow_back"), ("Next", step + 1, "arrow_forward")):
        st.button(
            label,
            key=f"translation_{label.lower()}",
            icon=f":material/{icon}:",
            on_click=go,
            args=(min(max(to, 1), steps),),
        )
    step = STEP.draw(range(1, steps + 1), width=330) - 1
    if model.run is not None and view.live:
        st.button(
            "The model as it is now",
            key="translation_newer",
            icon=":material/refresh:",
            on_click=common.forget_copy,
            args=("translation",),
            help="The answer stays the work of one model until you ask for a newer one.",
        )
cross = measure.heads_shown(found.cross.weights, head)
st.markdown(f"“{literal(text)}” → {about_answer(found)} {about_step(found, step, cross)}")
live_plot(
    three_maps(panels_of(found, head, step, show), size=common.tall(430, 470)),
    key="translation_picture",
)
common.say(about_model(model, view, spec))
if show == "masks":
    common.say(
        "Yellow may be seen, striped is hidden. The encoder reads the whole question both ways, "
        "without its padding (·); the decoder sees no token that it has still to write; and "
        "cross-attention sees all of the question, without the padding."
    )
common.say(
    f"{about_looks(found, text, name)} "
    f"{about_accuracies(*measure.accuracies(model.model, spec.task), name)}"
)
best = int(cross[step, : found.length].argmax())
common.formula(
    r"w_{ij} = \mathrm{softmax}_j\!\left(\frac{q_i\, k_j^\top}{\sqrt{d_k}}\right),",
    r"q = W^Q x_\mathrm{decoder},\quad k, v = W^K m,\; W^V m \text{ of the encoder’s } m,",
    rf"w_{{{step + 1},{best + 1}}} = {cross[step, best]:.2f}",
)
st.markdown(
    "**Where it does not hold.** Attention is a weighted mean, not an explanation: the encoder has "
    "already mixed its tokens, so a weight on one character may fetch what another one said; and "
    "where two parts look alike (3/3/33), the picture cannot tell which one was read. What was "
    "never taught is not there either: a date in an eleventh form is refused here, because the "
    "model would answer it with just as much confidence."
)
common.source(CrossAttention, EncoderDecoder, generate)

names = CONTRAST[recipe]
common.training(
    "translation",
    "One block in each stack. How much does it help to know where a token stands? The same model "
    "without any positions reads the question as a bag of tokens: is that enough?",
    make_setup(spec, [(("position", "none"),)]),
    names,
    Learning(Tall(projector())),
)
common.prev_next("translation")
