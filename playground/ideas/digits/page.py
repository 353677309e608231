"""Pictures as sequences: cut into patches, which are tokens like any others."""

import math
from dataclasses import dataclass

import numpy as np
import streamlit as st

from core.embedding import PatchEmbedding
from core.model import VisionTransformer
from core.tasks.images import patches_of
from playground.experiments.variants import make_setup
from playground.figures.style import RIGHT_MARK, WRONG_MARK
from playground.ideas import common
from playground.ideas.digits import measure
from playground.ideas.digits.figures import (
    Map,
    deletion_bars,
    name_of,
    neighbours,
    over_picture,
    position_tiles,
)
from playground.ideas.digits.measure import Found, Look
from playground.live.picture import Html, Part, Plot
from playground.runs.snapshot import validation_rows
from playground.runs.spec import Spec, in_nats
from playground.runs.view import View
from playground.ui.components import live_plot
from playground.ui.knob import Knob
from playground.ui.model_copy import about_shipped
from playground.ui.page_head import Tall, projector

KIND = Knob(
    "patches_kind",
    "Pictures",
    ("digits", "shapes"),
    "digits",
    "1,797 handwritten digits, or circles, squares, triangles and crosses that are drawn here.",
    {"digits": "handwritten digits", "shapes": "shapes"}.__getitem__,
)
PATCH = Knob(
    "patches_size",
    "Patch",
    (1, 2, 4, 8),
    2,
    "Pixels along the side of a patch: the smaller, the more tokens.",
    lambda side: f"{side}×{side}",
)
POSITION = Knob(
    "patches_position",
    "Positions",
    ("learned", "none"),
    "learned",
    "Whether a patch comes with a learnt vector that says where it lies.",
)
LAYER = Knob("patches_layer", "Layer", (1, 2), 2, "Whose attention is shown.")
HEAD = Knob(
    "patches_head",
    "Head",
    (0, 1, 2, 3, 4),
    0,
    "One head of the layer, or the mean of all.",
    lambda head: str(head) if head else "mean",
)
NUMBER = Knob(
    "patches_number",
    "Picture",
    range(measure.HELD_OUT),
    7,
    "Which of the held-out pictures, that training never meets.",
)
FORMED = 0.1  # so much more alike, and neighbours are told from others
# Ranking -> what is blanked first, in words.
BLANKED = {
    "rollout": "of most rollout",
    "ink": "of most ink",
    "random": "at random",
    "least": "of least rollout",
}
# Positions -> the other choice, and what to call the two.
OTHER = {
    "learned": ("none", "learned positions", "no positions"),
    "none": ("learned", "no positions", "learned positions"),
}


# --- words ----------------------------------------------------------------------------------


def patches_text(k: int) -> str:
    return "1 patch" if k == 1 else f"{k} patches"


def signed(value: float) -> str:
    """Two decimals, with a real minus sign."""
    return f"{value:.2f}".replace("-", "−")


TELLING = 0.5  # right answers: below that, what a model does without something says little


def about_model(found: common.Copied, view: View | None, spec: Spec) -> str:
    """Which model answers here."""
    if found.shipped:
        return about_shipped(spec, "answers")
    if found.run is None:
        return (
            "**The untrained model answers**: where it looks and what it says mean nothing yet. "
            f"Press Play under “Train it”{common.or_trained(spec)}, and come back."
        )
    loss = in_nats(view.reached(found.step))
    return (
        f"**The model of step {found.step} of {spec.training.steps} answers**; its training loss "
        f"was {loss}."
    )


def about_answer(look: Look) -> str:
    """What it says of the picture, and whether that is right."""
    (best, chance), (second, other) = look.chances[:2]
    mark = f"{RIGHT_MARK} right" if look.right else f"{WRONG_MARK} wrong, it shows {look.shows}"
    return f"It says **{best}** ({chance:.0%}; next best {second}, {other:.0%}): {mark}."


def about_looks(look: Look, weights: np.ndarray, itself: float, n: int) -> str:
    """Where the class token looks, by itself and over all layers, and where the ink is."""
    places = [name_of(int(np.argmax(m)), n) for m in (weights, look.rollout, look.ink)]
    return (
        f"The class token keeps {itself:.0%} of its weight for itself; of the patches it looks "
        f"most at {places[0]} ({weights.max():.0%}). Followed through all layers (rollout) it is "
        f"{places[1]} ({look.rollout.max():.0%}); most ink lies in {places[2]} "
        f"({look.ink.max():.0%})."
    )


def about_deletion(found: Found) -> str:
    """What the rankings are worth, and how far rollout is only a map of the ink."""
    if not found.k:
        return "One patch is the whole picture: nothing can be left out."
    agrees = (
        ""
        if math.isnan(found.agreement)
        else f" Rollout and ink of a picture correlate by {signed(found.agreement)} on average."
    )
    by_rollout, by_ink, by_chance = (found.without[name] for name in measure.RANKINGS[:3])
    if found.right < TELLING:
        verdict = "a model that is right so seldom does not tell which patches matter"
    elif found.without["least"] < by_chance < by_rollout:
        verdict = "rollout has it backwards here: what it ranks lowest matters more than what it "
        verdict += "ranks highest" + "; the ink, which takes no model to see, does better" * (
            by_ink < by_chance
        )
    elif by_rollout < by_ink:
        verdict = "rollout finds the patches that matter better than the ink does"
    elif by_rollout < by_chance:
        verdict = "rollout does better than a random choice, but not better than the ink, which "
        verdict += "takes no model to see"
    else:
        verdict = "rollout finds the patches that matter no better than a random choice does"
        verdict += "; the ink, which takes no model to see, does" * (by_ink < by_chance)
    return (
        f"**Measured here**, on {measure.HELD_OUT} held-out pictures: {found.right:.1%} are named "
        f"rightly. With {patches_text(found.k)} of each turned to paper, it is "
        f"{found.without['rollout']:.1%} where rollout was largest, {found.without['ink']:.1%} "
        f"where most ink was, {found.without['random']:.1%} at random and "
        f"{found.without['least']:.1%} where rollout was least: {verdict}.{agrees}"
    )


def about_shuffling(found: Found, position: str) -> str:
    """What order is worth to this very model."""
    said = f"With the patches of each picture shuffled, the same model names {found.mixed:.1%}"
    if position == "none":
        return (
            f"{said}, exactly as many as in order: without positions a picture is a bag of patches."
        )
    if found.right < TELLING:
        verdict = "a model that is right so seldom does not tell what order is worth"
    elif found.mixed < found.right / 2:
        verdict = "where a patch lies says a lot"
    else:
        verdict = "most of what it knows, it knows without the order"
    return f"{said} rightly, and in order {found.right:.1%}: {verdict}."


def about_positions(cosines: np.ndarray) -> str:
    near, far = neighbours(cosines, True), neighbours(cosines, False)
    verdict = (
        "so it has found out which patches lie next to each other"
        if near - far > FORMED
        else "so these positions do not show which patches lie next to each other"
    )
    return (
        "Nobody tells the model that a picture has rows and columns. Each small map compares the "
        "position of one patch with those of all others. For patches that share a side the cosine "
        f"is {signed(near)} on average, for others {signed(far)}: {verdict}."
    )


def about_simple(simple: measure.Simple, found: Found) -> str:
    """What older methods reach on the same pictures."""
    ahead = {"The neighbour": simple.nearest, "The linear classifier": simple.linear}
    better = [name for name, right in ahead.items() if right > found.right]
    if found.right < TELLING:
        verdict = "The transformer has not learnt enough yet to be held against them"
    elif len(better) == 2:
        verdict = "Both are ahead of the transformer"
    else:
        verdict = f"{better[0]} is ahead of the transformer" if better else "Neither is ahead of it"
    return (
        f"Two methods without any attention, on the same {measure.HELD_OUT} pictures and learnt "
        f"from {simple.n_learnt:,}: a **linear classifier** names {simple.linear:.1%} rightly, and "
        f"the **nearest neighbour**, the learnt picture whose pixels differ least, "
        f"{simple.nearest:.1%}. {verdict} ({found.right:.1%})."
    )


# --- pictures -------------------------------------------------------------------------------


def maps_of(look: Look, layer: int, head: int) -> tuple[list[Map], np.ndarray, float]:
    """The three maps, the weights of the first, and what the class token keeps for itself."""
    chosen = slice(None) if head == 0 else slice(head - 1, head)
    weights = look.class_token[layer - 1, chosen].mean(0)
    itself = float(look.on_itself[layer - 1, chosen].mean())
    who = "mean of heads" if head == 0 else f"head {head}"
    return (
        [
            Map(f"class token, layer {layer}, {who}", weights),
            Map("rollout through all layers", look.rollout),
            Map("ink", look.ink),
        ],
        weights,
        itself,
    )


@dataclass(frozen=True)
class Learning:
    """How many held-out pictures each run names rightly, and where the first one looks."""

    tall: Tall
    spec: Spec

    def __call__(self, views: dict[str, View]) -> dict[str, Part]:
        frames = {name: view.frames[-1] for name, view in views.items() if view.frames}
        if not frames:
            return {"patches_said": Html("<p>Held-out accuracy, as it is learnt.</p>")}
        said = "; ".join(
            f"{name} **{frame.accuracy:.0%}** at step {frame.measured_at}"
            for name, frame in frames.items()
        )
        rows = validation_rows(self.spec.model.max_len)
        first = next(iter(frames.values()))
        attention = list(first.attention.values())[-1]
        weights = attention.stages["weights"].mean(0)[0, 1:]
        patches = self.spec.task.probe("vit").inputs[0]
        ink = measure.ink(patches)[0].numpy()
        figure = over_picture(
            measure.held_out(self.spec.task.kind).pictures[0].numpy(),
            [Map(f"class token, last layer, step {first.step}", weights), Map("ink", ink)],
            size=self.tall(300, 400),
        )
        return {
            "patches_said": common.paragraph(f"Of {rows} held-out pictures named rightly: {said}."),
            "patches_maps": Plot(figure, "attention of the class token"),
        }


def after(views: dict[str, View], parts: dict) -> None:
    """What moves, and once nothing trains what each run is worth on all held-out pictures."""
    found = {
        name: common.measured_when_idle("patches", view, measure.right_answers)
        for name, view in views.items()
    }
    if said := "; ".join(f"{name} **{r:.1%}**" for name, r in found.items() if r is not None):
        common.say(f"Of all {measure.HELD_OUT} held-out pictures named rightly: {said}.")
    common.draw_parts(parts)


# --- the page -------------------------------------------------------------------------------

common.begin(
    "patches",
    "Cut a picture into patches, and the transformer reads it as it reads a sentence: patches are "
    "tokens.",
)
with common.row():
    kind = KIND.draw(width="content")
    patch = PATCH.draw(width="content")
    position = POSITION.draw(width="content")
with common.row():
    number = NUMBER.draw(width=330)
    layer = LAYER.draw(width="content")
    head = HEAD.draw(width="content")
    spec = measure.spec(kind, patch, position)
    common.already_trained("patches", spec)
model, view = common.copied("patches", spec)
look = measure.look(model.model, spec.task, number)
n = len(look.picture) // patch
maps, weights, itself = maps_of(look, layer, head)
common.say(f"{about_answer(look)} {about_looks(look, weights, itself, n)}")
live_plot(
    over_picture(look.picture, maps, size=common.tall(360, 430)),
    key="patches_picture",
)
common.say(about_model(model, view, spec))
if model.run is not None and view.live:
    st.button(
        "The model as it is now",
        key="patches_newer",
        icon=":material/refresh:",
        on_click=common.forget_copy,
        args=("patches",),
        help="The picture stays the work of one model until you ask for a newer one.",
    )
best = int(look.rollout.argmax())
common.formula(
    rf"x = [\,c;\; p_1 E + b;\; \dots;\; p_{{{n * n}}} E + b\,] + P",
    rf"\quad p_i \in [0, 1]^{{{patch * patch}}}",
    r"\quad R = \prod_l \tfrac{1}{2}(\bar A_l + I)",
    rf"\quad R_{{\mathrm{{class}},\,\mathrm{{{name_of(best, n)}}}}} = {look.rollout[best]:.2f}",
)

found = measure.measured(model.model, spec.task)
left, right = common.beside(1.2)
with left:
    st.subheader("Which patches decide?", anchor=False)
    names = ["whole pictures", *(f"without {patches_text(found.k)} {w}" for w in BLANKED.values())]
    if found.k:
        live_plot(
            deletion_bars(
                names, [found.right, *found.without.values()], size=common.tall(240, 300)
            ),
            key="patches_deletion",
        )
    common.say(f"{about_deletion(found)} {about_shuffling(found, position)}")
with right:
    st.subheader("What the positions have learnt", anchor=False)
    cosines = measure.alike(model.model)
    if cosines is None or n == 1:
        st.markdown(
            "There is only one patch." if n == 1 else "There are none: no patch says where it lies."
        )
    else:
        live_plot(position_tiles(cosines, size=common.tall(300, 380)), key="patches_tiles")
        common.say(about_positions(cosines))

st.markdown("**Where it does not hold.** " + about_simple(measure.simple(kind), found))
common.say(
    "A vision transformer is told nothing of pictures: not that neighbouring pixels belong "
    "together, not that a digit moved by a pixel is the same digit. It has to learn that from "
    "pictures, and here are few; the original needed hundreds of millions to pull ahead of "
    "convolutional networks (Dosovitskiy et al. 2021, figure 3). And rollout is no explanation: "
    "it follows weights, not what the values carry, which is why the ink and a test that blanks "
    "patches stand beside it. The digits held out were written by the same people as the others."
)
common.source(patches_of, PatchEmbedding, VisionTransformer)

other, *names = OTHER[position]
common.training(
    "patches",
    "How much does it help to know where a patch lies? And if the patches of all pictures are put "
    "in one other order, so that nobody could read them, does that cost anything?",
    make_setup(spec, [(("position", other),), (("shuffle", "fixed"),)]),
    (*names, f"{names[0]}, one other order for all"),
    Learning(Tall(projector()), spec),
    after,
)
common.prev_next("patches")
