"""Filling gaps: what stands on both sides of a hidden character, and what it is worth."""

import numpy as np
import streamlit as st

from core.masks import reachable
from core.tasks.forward_backward import Smoother
from core.tasks.gaps import MASK, Gaps
from playground.experiments.variants import make_setup
from playground.figures.written import percent, shown
from playground.ideas import common
from playground.ideas.gaps import measure
from playground.ideas.gaps.figures import sentence_picture
from playground.ideas.gaps.measure import Answers, Filled
from playground.runs.spec import Spec, in_nats
from playground.ui import model_copy
from playground.ui.components import Click, live_plot, table
from playground.ui.knob import Knob
from playground.ui.literal import literal

BOTH, BEFORE = "both ways", "only before"
FROM = {BOTH: "both sides", BEFORE: "what comes before"}
READS = {BOTH: "both ways", BEFORE: "only what comes before"}
GAPS, SENTENCE, PLACE = "bert_hidden", "bert_text", "bert_place"  # in the session and the link
TITLES = {"grammar": "a small grammar", "docs": "Python’s documentation"}


def another_text() -> None:
    """A sentence of the old one, and its gaps, mean nothing."""
    st.session_state[SENTENCE] = ""
    forget_gaps()


def forget_gaps() -> None:
    for key in (GAPS, PLACE):
        st.session_state.pop(key, None)


SOURCE = Knob(
    "bert_source",
    "Text",
    tuple(TITLES),
    "grammar",
    "What is learnt: sentences of a small grammar, for which the best possible answer is known "
    "exactly, or Python’s own documentation.",
    TITLES.__getitem__,
    on_change=another_text,
)
BLOCK = Knob("bert_block", "Block", (1, 2), 2, "Whose attention is shown.")
HEAD = Knob(
    "bert_head",
    "Head",
    (0, 1, 2, 3, 4),
    0,
    "One head of the block, or the mean of all.",
    lambda head: str(head) if head else "mean",
)


# --- choosing -------------------------------------------------------------------------------


def sentence_of(task: Gaps, usual: str) -> str:
    """The visitor's own sentence where the task can read it, else one of ours."""
    typed = st.text_input(
        "Your own",
        key=SENTENCE,
        bind="query-params",
        max_chars=measure.MOST,
        width=420,
        placeholder=usual,
        on_change=forget_gaps,
        help="A sentence without gaps: a click on a character below hides it.",
    ).strip()
    try:
        if typed:
            task.probe("encoder", typed)
        return typed or usual
    except ValueError as error:
        st.error(literal(f"{error}. “{usual}” is used."))
        return usual


def gaps_of(sentence: str, usual: str, ours: tuple[int, ...]) -> tuple[int, ...]:
    """The places that are hidden, in order; at first some of ours, or the middle of a typed one."""
    first = ours if sentence == usual else (len(sentence) // 2,)
    hidden = st.session_state.get(GAPS, first)
    return tuple(sorted(place for place in hidden if place < len(sentence)))


def turn(place: int, hidden: tuple[int, ...]) -> None:
    """Hide a character, or show it again; what is hidden is looked at."""
    shut = set(hidden) ^ {place}
    st.session_state[GAPS] = tuple(sorted(shut))
    if place in shut:
        st.session_state[PLACE] = place
    else:
        st.session_state.pop(PLACE, None)


# --- words and tables -----------------------------------------------------------------------


def told(filled: Filled | None, gap: int) -> str:
    """The guesses at a gap: `s 98%, d 1.2%`."""
    if filled is None:
        return "–"
    guesses = filled.guesses[gap]
    return ", ".join(f"{shown(letter)} {percent(p)}" for letter, p in guesses if p >= 0.005)


def rows_of(
    sentence: str,
    gaps: tuple[int, ...],
    answers: dict[str, Answers],
    known: dict[str, Filled | None],
) -> list[dict[str, str]]:
    """A row for each gap: what stood there, and what is answered."""
    rows = []
    for i, place in enumerate(gaps):
        row = {"character": str(place + 1), "stood there": shown(sentence[place])}
        for name, found in answers.items():
            row[f"the model, {name}"] = told(found, i)
            row[f"best possible, {name}"] = told(known[name], i)
        rows.append(row)
    return rows


def about_gap(
    letter: str, place: int, gap: int, answers: dict[str, Answers], known: dict[str, Filled | None]
) -> str:
    """What one gap shows."""
    stood = f"Character {place + 1} is “{shown(letter)}”."
    given = [
        f"{percent(found.right[gap])} when it reads {READS[name]}"
        for name, found in answers.items()
    ]
    text = f"{stood} The model gives it {' and '.join(given)}."
    if all(known.values()):
        best = [f"{percent(found.right[gap])} from {FROM[name]}" for name, found in known.items()]
        text += f" By Bayes’ rule, all that can be known is {' and '.join(best)}."
    return text


def worth_rows(specs: dict[str, Spec], models: dict[str, common.Copied]) -> list[dict[str, str]]:
    """How good the models are on gaps that training never meets, and how good one can be."""
    rows = []
    for name, spec in specs.items():
        found = measure.worth(models[name].model, spec.task)
        best = measure.best_accuracy(spec.task, spec.model)
        floor = spec.floor
        rows.append(
            {
                "reads": name,
                "loss at the gaps": in_nats(found.loss),
                "loss, at best": "unknown" if floor is None else in_nats(floor),
                "right": f"{found.accuracy:.1%}",
                "right, at best": "unknown" if best is None else f"{best:.1%}",
                "other characters copied rightly": f"{found.read:.1%}",
            }
        )
    return rows


def about_models(specs: dict[str, Spec], models: dict[str, common.Copied]) -> str:
    """Which models answer here."""
    if all(found.shipped for found in models.values()):
        return model_copy.about_shipped(specs[BOTH], "answers in each row")
    if all(found.run is None for found in models.values()):
        return (
            "**Both models are untrained**: their answers are random, and where they look means "
            f"nothing yet. Press Play under “Train it”{common.or_trained(specs[BOTH])}, and come "
            "back."
        )
    steps = next(iter(specs.values())).training.steps
    said = [f"{name} at step {found.step} of {steps}" for name, found in models.items()]
    return f"**The models that answer**: {', '.join(said)}."


# --- the page -------------------------------------------------------------------------------

common.begin(
    "bert",
    "An encoder reads both ways: what comes after a gap helps to fill it, too. BERT learns by "
    "filling gaps.",
)
with common.row():
    source = SOURCE.draw(width="content")
    block = BLOCK.draw(width="content")
    head = HEAD.draw(width="content")
    specs = {BOTH: measure.spec(source), BEFORE: measure.spec(source, "causal")}
    common.already_trained("bert", specs[BOTH])
task = specs[BOTH].task
usual, ours = measure.SENTENCES[source]
sentence = sentence_of(task, usual)
gaps = gaps_of(sentence, usual, ours)

models, moving = {}, False
for name, spec in specs.items():
    models[name], view = common.copied(f"bert {name}", spec)
    moving = moving or (view is not None and view.live)
answers = {name: measure.answer(models[name].model, task, sentence, gaps) for name in specs}
known = {name: measure.known(task, sentence, gaps, spec.model) for name, spec in specs.items()}
place = st.session_state.get(PLACE, gaps[0] if gaps else 0)
place = min(place, len(sentence) - 1)

looks = {}
for name, spec in specs.items():
    weights = answers[name].weights[block - 1]
    row = (weights.mean(0) if head == 0 else weights[head - 1])[place]
    reach = reachable(spec.model, len(sentence))[place].numpy()
    looks[name] = np.where(reach, row, np.nan)


def clicked(point: Click) -> None:
    turn(int(point.x) - 1, gaps)


st.markdown(f"Click a character to hide it behind {MASK}, or to show it again.")
live_plot(
    sentence_picture(
        [MASK if i in gaps else letter for i, letter in enumerate(sentence)],
        looks,
        place,
        size=common.tall(None),
    ),
    key="bert_picture",
    on_click=clicked,
)
if gaps:
    st.html(table(rows_of(sentence, gaps, answers, known)))
    if place in gaps:
        common.say(about_gap(sentence[place], place, gaps.index(place), answers, known))
else:
    common.say("Nothing is hidden: the models are asked for nothing.")
with common.row():
    common.say(about_models(specs, models))
    if moving and any(found.run is not None for found in models.values()):
        st.button(
            "The models as they are now",
            key="bert_newer",
            icon=":material/refresh:",
            on_click=lambda: [model_copy.forget_copy(f"bert {name}") for name in specs],
            help="The answers stay the work of the same models until you ask for newer ones.",
        )
st.markdown("On text that training never meets:")
st.html(table(worth_rows(specs, models)))

shown_at = place + 1
chance = answers[BOTH].right[gaps.index(place)] if place in gaps else None
common.formula(
    r"\mathcal{L} = -\frac{1}{|M|} \sum_{i \in M} \ln p\,(x_i \mid \tilde{x}),",
    r"p\,(\cdot \mid \tilde{x}) = \mathrm{softmax}(W_U h_i)",
    *([] if chance is None else [rf"\quad p\,(x_{{{shown_at}}} \mid \tilde{{x}}) = {chance:.3f}"]),
)
common.say(
    "M are the places that are asked for, x̃ is the text with its gaps. Each character is chosen "
    f"with a probability of {task.share:.0%}; of the chosen ones {task.hidden:.0%} are hidden, "
    f"{task.swapped:.0%} become a random character, and the rest stay (Devlin et al. 2019, "
    "section 3.1)."
)
asked = task.share * task.length
st.markdown(
    "**Where it does not hold.** Only what is chosen teaches: a window of "
    f"{task.length} characters asks for {asked:.1f} of them on average, where predicting the next "
    f"character asks for all {task.length}. What it has learnt cannot write: it answers each gap "
    f"as if the others were not there. And {MASK} never comes in a text that somebody really "
    "reads, which is why some of the chosen characters are swapped or kept. Nor does reading both "
    "ways always pay: where the part before says it all, it changes nothing."
)
common.source(Gaps.corrupt, Smoother.beliefs)
common.training(
    "bert",
    "The same model twice: one reads both ways, the other only what came before, as one that "
    "writes must. How much of what can be known does each get to know?",
    make_setup(specs[BOTH], [(("mask", "causal"),)]),
    (BOTH, BEFORE),
)
common.prev_next("bert")
