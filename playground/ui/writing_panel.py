"""A model writes: what each token is chosen from, another one put there, a look inside.

The same panel for every page on which a text is learnt. What it keeps begins with the page's
prefix: `{prefix}_temperature` and so on.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
import torch

from core.cache import looks_ahead
from core.model import Transformer
from core.tasks.text import Text
from playground.figures.next_token import alternatives_picture, inside_picture
from playground.figures.written import (
    COLUMNS,
    percent,
    shown,
    surprise_of,
    text_picture,
    written_html,
)
from playground.runs.controller import Controller
from playground.runs.inside import Inside, inside
from playground.runs.spec import Spec, in_nats
from playground.runs.view import View
from playground.runs.writing import Rules, Written, chances_of, write
from playground.ui import model_copy
from playground.ui.components import Click, live_plot
from playground.ui.knob import Knob
from playground.ui.layout import beside, more, row
from playground.ui.literal import literal
from playground.ui.model_copy import Copied
from playground.ui.page_head import tall

N_NEW = 64  # characters that are written
MOST_TYPED = 400  # characters of a text of one's own
MOST_SHOWN = 60  # of a text that nobody typed
TEXTS = {
    "docs": ("The ", "The value of the expression is the object itself. Xylophone?\n"),
    "grammar": ("", "the cats (who see the dog) sleep.\nthe cats (who see the dog) sleeps.\n"),
}


def writes(spec: Spec) -> bool:
    """Whether its model writes a text on from a prompt."""
    return isinstance(spec.task, Text) and spec.model.architecture == "decoder"


@dataclass(frozen=True)
class Sheet:
    """A text that a model has written, and all that the panel says of it."""

    task: Text
    model: Transformer
    rules: Rules
    prompt: tuple[int, ...]
    by_hand: tuple[int, ...]  # the first tokens of the text, as they were put there
    written: Written

    @property
    def context(self) -> tuple[Text, tuple[int, ...]]:
        """What tokens put there by hand belong to."""
        return self.task, self.prompt


def off_or(value: Any) -> str:
    return "off" if value is None else f"{value:g}"


class WritingPanel:
    """The knobs of one page and what is drawn with them, in this order.

    `draw_rules`, `draw_text`, `draw_choice`, `draw_surprise`.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.temperature = Knob(
            f"{prefix}_temperature",
            "Temperature",
            (0.0, 0.3, 0.5, 0.8, 1.0, 1.5, 3.0),
            0.8,
            "The model's logits are divided by it: 0 always takes the likeliest character, 1 draws "
            "as the model says, more makes all alike.",
            "{:g}".format,
        )
        self.top_k = Knob(
            f"{prefix}_top_k",
            "Top-k",
            (None, 1, 2, 3, 5, 10, 20),
            None,
            "Only the k likeliest characters are drawn from.",
            off_or,
        )
        self.top_p = Knob(
            f"{prefix}_top_p",
            "Top-p",
            (None, 0.5, 0.8, 0.9, 0.95, 0.99),
            None,
            "Only the likeliest characters that together reach this probability are drawn from.",
            off_or,
        )
        self.seed = Knob(
            f"{prefix}_seed",
            "Seed",
            range(10_000),
            0,
            "The random numbers of the draw: the same seed, the same text.",
        )
        self.at = Knob(
            f"{prefix}_at",
            "Look at character",
            range(1, N_NEW + 1),
            1,
            "The one that is looked at below; a click on it does the same.",
        )

    @property
    def place(self) -> int:
        """The character that is looked at, counted from 0."""
        return self.at.present() - 1

    # --- the rules ------------------------------------------------------------------------

    def draw_rules(self) -> Rules:
        """The knobs of the draw; they stand beside what the page puts there."""
        temperature = self.temperature.draw()
        with more():
            top_k, top_p, seed = (k.draw() for k in (self.top_k, self.top_p, self.seed))
        st.button(
            "Again",
            key=f"{self.prefix}_again",
            icon=":material/casino:",
            on_click=self._again,
            help="The same model, the same rules, other random numbers.",
        )
        return Rules(temperature, top_k, top_p, seed)

    def _again(self) -> None:
        key = self.seed.key
        st.session_state[key] = (st.session_state.get(key, 0) + 1) % len(self.seed.choices)

    # --- the text -------------------------------------------------------------------------

    def draw_text(
        self, spec: Spec, rules: Rules, found: Copied, view: View | None, untrained: str
    ) -> Sheet | None:
        """Prompt, who writes, and what it writes; None where it has no finite number to say.

        Args:
            found, view: the model and its run.
            untrained: how to have a trained one.
        """
        task = spec.task
        usual, _ = usual_texts(task)
        asked = st.text_input(
            "Prompt",
            key=f"{self.prefix}_prompt",
            bind="query-params",
            max_chars=task.length,
            placeholder=usual or "nothing: it begins after a newline",
            help="The model writes on from here. Without a prompt of yours it begins with the one "
            "shown.",
        )
        text = typed(task, asked, usual, "Prompt") if asked else usual
        prompt = task.prompt("decoder", text or None)._replace(n_new=N_NEW)
        if not _speaks(found.model, prompt.inputs[0]):
            st.info("The weights of this run have no finite answer any more: nothing is written.")
            return None
        ids = tuple(prompt.inputs[0][0].tolist())
        given = self._given((task, ids))
        # Kept: most redraws of a page are about something else.
        asked_for = found.run, found.step, found.turned, spec, ids, rules, given
        kept = st.session_state.get(f"{self.prefix} written")
        if kept is None or kept[0] != asked_for:
            kept = asked_for, write(found.model, task, prompt, rules, given)
            st.session_state[f"{self.prefix} written"] = kept
        sheet = Sheet(task, found.model, rules, ids, given, kept[1])
        self._draw_writer(sheet, spec, found, view, untrained)
        self._draw_written(sheet)
        return sheet

    def _draw_writer(
        self, sheet: Sheet, spec: Spec, found: Copied, view: View | None, untrained: str
    ) -> None:
        with row():
            st.markdown(about_writer(found, view, spec, untrained))
            if view is not None and view.live:
                st.button(
                    "Use the model as it is now",
                    key=f"{self.prefix}_newer",
                    icon=":material/refresh:",
                    on_click=model_copy.forget_copy,
                    args=(self.prefix,),
                    help="The text stays the work of one model until you ask for a newer one.",
                )
            if sheet.by_hand:
                st.button(
                    "From the prompt again",
                    key=f"{self.prefix}_restart",
                    icon=":material/undo:",
                    on_click=self._go_on_with,
                    args=(sheet.context, ()),
                    help=f"The first {len(sheet.by_hand)} characters stay as they are until then.",
                )

    def _draw_written(self, sheet: Sheet) -> None:
        written, vocabulary, start = sheet.written, sheet.task.vocabulary, len(sheet.prompt)

        def clicked(point: Click) -> None:
            """Look at the character that was clicked."""
            chosen = int(point.y) * COLUMNS + int(point.x) - start
            if 0 <= chosen < N_NEW:
                st.session_state[self.at.key] = chosen + 1

        hovers = [hover_of(written, i, vocabulary) for i in range(N_NEW)]
        live_plot(
            text_picture(
                [vocabulary[i] for i in sheet.prompt] + list(written.letters),
                [np.nan] * start + written.chances.tolist(),
                ["the prompt"] * start + hovers,
                chosen=start + self.place,
                alt=f"Written: {written.text}",
                size=tall(None),
            ),
            key=f"{self.prefix}_picture",
            on_click=clicked,
        )

    # --- one token of it ------------------------------------------------------------------

    def draw_choice(self, sheet: Sheet) -> None:
        """What one character was chosen from, another one to put there, and a look inside."""
        written, vocabulary = sheet.written, sheet.task.vocabulary
        place = self.place
        alternatives, before = written.alternatives[place], written.before[place]
        options = [shown(vocabulary[i]) for i in alternatives]
        kept = written.ids[:place]

        def take(rank: int) -> None:
            """Put another character there, and let the model go on from it."""
            self._go_on_with(sheet.context, (*kept, alternatives[rank]))

        with row():
            self.at.draw(width=170)
            rank = st.selectbox(
                "Put here instead",
                range(len(options)),
                format_func=lambda i: f"{options[i]}  {percent(float(before[i]))}",
                key="put_instead",
                width=190,
                help="Any of the likeliest characters, whatever the rules say; a click on its bar "
                "is quicker.",
            )
            st.button(
                "Go on from it",
                key=f"{self.prefix}_go",
                icon=":material/edit:",
                on_click=take,
                args=(rank or 0,),
                help="What was written before it stays; the model writes on from there.",
            )
        st.markdown(about_choice(written, place, vocabulary))
        read = [*sheet.prompt, *kept]
        seen = inside(sheet.model, read)
        chosen = written.ids[place]
        left, right = beside(0.62)
        with left:
            live_plot(
                alternatives_picture(
                    [vocabulary[i] for i in alternatives],
                    before,
                    written.after[place],
                    alternatives.index(chosen) if chosen in alternatives else None,
                    size=tall(380, 440),
                ),
                key=f"{self.prefix}_alternatives",
                on_click=lambda point: take(int(point.y)),
            )
        with right:
            live_plot(
                inside_picture(
                    seen.weights,
                    [vocabulary[i] for i in read[-sheet.task.length :]],
                    [[vocabulary[i] for i in guesses] for guesses in seen.tokens.tolist()],
                    seen.chances,
                    size=tall(380, 440),
                ),
                key=f"{self.prefix}_inside",
            )
        st.markdown(
            f"{about_inside(seen, vocabulary)} Reading off an inner layer is a guess about it: "
            "only the last one is trained to be read."
        )

    def _given(self, context: Any) -> tuple[int, ...]:
        """The first tokens of the text, as they were put there by hand in this context."""
        kept = st.session_state.get(f"{self.prefix} given")
        return kept[1] if kept is not None and kept[0] == context else ()

    def _go_on_with(self, context: Any, ids: tuple[int, ...]) -> None:
        """Keep these tokens, and let the model write on from there."""
        st.session_state[f"{self.prefix} given"] = context, ids

    # --- any text -------------------------------------------------------------------------

    def draw_surprise(self, sheet: Sheet) -> None:
        """How surprised the model is by each character of a text that one types."""
        task, model = sheet.task, sheet.model
        if looks_ahead(model.may_see):
            st.markdown(
                "**Under this mask there is no surprise to measure**: while it reads a text, each "
                "position sees the very character that it is asked for."
            )
            return
        _, usual = usual_texts(task)
        own = st.text_input(
            "Your text",
            key=f"{self.prefix}_text",
            bind="query-params",
            max_chars=MOST_TYPED,
            placeholder=usual.strip().split("\n")[0],
            help=f"Up to {MOST_TYPED} characters; each is coloured by how little the model "
            "expected it.",
        )
        text = typed(task, own, usual, "Your text") if len(own) > 1 else usual
        chances = chances_of(model, task.encode(text))
        said = about_surprise(text, chances)
        st.markdown(said)
        each = zip(text[1:], chances, strict=True)
        hovers = [f"{escaped(shown(letter))} {percent(float(p))}" for letter, p in each]
        live_plot(
            text_picture(
                list(text),
                [np.nan, *chances.tolist()],
                ["the first character: nothing was asked", *hovers],
                alt=said,
                size=tall(None),
            ),
            key=f"{self.prefix}_surprise",
        )


# --- the Playground's -------------------------------------------------------------------------

PLAYGROUND = WritingPanel("write")


def draw(controller: Controller) -> None:
    """What the model of the Playground's run writes."""
    spec, panel = controller.spec, PLAYGROUND
    found, view = model_copy.copied(panel.prefix, controller.run, spec)
    with row():
        rules = panel.draw_rules()
    sheet = panel.draw_text(spec, rules, found, view, "Press Play, and read again.")
    if sheet is None:
        return
    st.markdown("##### What it was chosen from")
    panel.draw_choice(sheet)
    st.markdown("##### How surprised is it by your text?")
    panel.draw_surprise(sheet)


# --- in words ---------------------------------------------------------------------------------


def about_writer(found: Copied, view: View | None, spec: Spec, untrained: str) -> str:
    """Who writes, and how well it knows the text."""
    if found.shipped:
        return model_copy.about_shipped(spec, "writes on from the prompt (bold)")
    if found.run is None:
        if view is not None and len(view.loss) and not view.live:
            untrained = "The model of the run is no longer in memory."
        elif view is not None and view.live:
            untrained = "The one that is training can take its place."
        return (
            "**The untrained model writes on from the prompt** (bold): it has seen no text yet, "
            f"and what it gives each character is random. {untrained}"
        )
    reached = view.at(found.step).recent_loss()
    known = "" if math.isnan(reached) else f": its training loss is {in_nats(reached)} nats a "
    known += "character" if known else ""
    moving = ", and is still training" if view.live else ""
    return (
        f"**The model of step {found.step} of {spec.training.steps} writes on from the prompt** "
        f"(bold){known}{moving}."
    )


def usual_texts(task: Text) -> tuple[str, str]:
    """A prompt, and a text to be surprised by, for who types none."""
    if task.source in TEXTS:
        return TEXTS[task.source]
    window = task.probe("decoder").inputs[0][0].tolist()
    return "", "".join(task.vocabulary[i] for i in window)[:MOST_SHOWN]


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


def about_choice(written: Written, place: int, vocabulary: tuple[str, ...]) -> str:
    """How this character came to be chosen."""
    chance = float(written.chances[place])
    n = int(written.in_draw[place])
    ids = written.alternatives[place]
    rank = ids.index(written.ids[place]) + 1 if written.ids[place] in ids else None
    place_said = f"number {rank} in its order" if rank else f"not among its first {len(ids)}"
    drawn = "one character can be drawn" if n == 1 else f"{n} characters can be drawn"
    return (
        f"Character {place + 1} is “{shown(written.letters[place])}”: the model gave it "
        f"{percent(chance)} ({place_said}), a surprise of {in_nats(float(surprise_of(chance)))} "
        f"nats. Under these rules {drawn} here, of {len(vocabulary) - 1}."
    )


def about_inside(found: Inside, vocabulary: tuple[str, ...]) -> str:
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


def sample_html(task: Text, sample: Written) -> str:
    """What a model wrote, as HTML."""
    alternatives = [[task.vocabulary[i] for i in ids] for ids in sample.alternatives]
    return written_html(sample.letters, sample.chances, alternatives, sample.before)


@torch.no_grad()
def _speaks(model: Transformer, tokens: torch.Tensor) -> bool:
    """Whether a model still answers with finite numbers."""
    return bool(model(tokens).isfinite().all())
