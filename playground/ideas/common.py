"""What the pages of the ideas share: a claim, live source, a training at the end."""

import html
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import streamlit as st

from core.train import Trainer
from playground.experiments.comparison import Comparison
from playground.experiments.series import Series, any_live, averaged, common_step, waiting
from playground.experiments.variants import Setup, encode
from playground.experiments.verdict import verdicts
from playground.export.sources import source_of
from playground.figures import comparison_chart
from playground.figures.loss import NOT_BEGUN
from playground.ideas.shipped import model_of
from playground.live.channel import scene_of_runs
from playground.live.picture import Html, Part, Plot, Shown, captioned
from playground.runs.spec import Spec, in_nats
from playground.runs.view import View
from playground.ui import compare_panels, model_copy, play_buttons
from playground.ui.components import live_html, number_cells, show_plot
from playground.ui.glossary import explain
from playground.ui.knob import Knob
from playground.ui.layout import beside as beside
from playground.ui.layout import more as more
from playground.ui.layout import row as row
from playground.ui.model_copy import PATIENCE, Copied
from playground.ui.model_copy import forget_copy as forget_copy
from playground.ui.page_head import Tall, head, projector
from playground.ui.page_head import tall as tall
from playground.ui.page_list import IDEAS
from playground.ui.run_panels import references, say_apart
from playground.ui.session import channel, start_runs
from playground.ui.session import controller as my_controller

SEEDS = 3  # of a contrast that is taken to the Compare page

Found = TypeVar("Found")
Views = dict[str, View]  # the runs of a page, by name


def begin(name: str, claim: str) -> None:
    """The title and the claim; the page below measures whether it is true."""
    head().header(IDEAS[name].title, anchor=False)
    st.html(
        '<p data-claim style="font-size: 1.1rem; padding-left: 0.7rem; margin: 0; '
        'border-left: 0.3rem solid var(--st-primary-color, #0072b2)">'
        f"<b>Claim:</b> {html.escape(claim)}</p>"
    )


def tex(number: str) -> str:
    """A written number in TeX: 2.35e-07 becomes 2.35·10⁻⁷, and no space follows a comma."""
    mantissa, _, power = number.replace(",", "{,}").partition("e")
    return mantissa + (rf" \cdot 10^{{{int(power)}}}" if power else "")


# --- knobs ----------------------------------------------------------------------------------


def choose(*knobs: Knob) -> list[Any]:
    """Draw knobs side by side, and read them off in this order."""
    with row():
        return [knob.draw() for knob in knobs]


# --- text, formula, code, links -------------------------------------------------------------


def say(text: str) -> None:
    """A text whose technical terms are explained on hover."""
    st.markdown(explain(text), unsafe_allow_html=True)


def paragraph(text: str) -> Html:
    """The same as a part that moves; of Markdown it knows **bold** and `code`."""
    marked = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", explain(text))
    marked = re.sub(r"`(.+?)`", r"<code>\1</code>", marked)
    return Html(f"<p>{marked}</p>")


def formula(*parts: str) -> None:
    r"""The formula, and the same with the numbers of the picture: equations side by side.

    In a narrow window they stand below each other, and a long one goes on in the next line.

    Args:
        parts: in TeX; a \quad in them separates two equations as well.
    """
    where = {"horizontal_alignment": "center", "vertical_alignment": "center"}
    with st.container(horizontal=True, **where):
        for equation in re.split(r",?\s*\\q?quad\s*", r"\quad".join(parts)):
            st.latex(equation.rstrip(","), width="content")


def source(*objects: Any) -> None:
    """The very functions of the core that made the picture."""
    with st.expander("The code that just ran", icon=":material/code:"):
        for item in objects:
            path, line, text = source_of(item)
            st.caption(f"{path}, line {line}")
            st.code(text, language="python")


def prev_next(name: str) -> None:
    """Links to the idea before this one and the idea after it."""
    names = list(IDEAS)
    at = names.index(name)
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        for other, sign in ((at - 1, "arrow_back"), (at + 1, "arrow_forward")):
            if 0 <= other < len(names):
                page = IDEAS[names[other]]
                st.page_link(page.file, label=page.title, icon=f":material/{sign}:")


# --- a small training at the end ------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """What moves while the runs of a page train: what they show, their curves, and more.

    A page makes its functions again whenever it runs, so they do not tell two pictures apart.
    """

    name: str
    names: tuple[str, ...]
    setup: Setup
    tall: Tall
    chosen: Hashable
    moving: Callable[[Views], Mapping[str, Part]] | None = field(compare=False)

    def __call__(self, series: tuple[Series, ...]) -> dict[str, Part]:
        names = self.names
        named = [replace(line, label=label) for line, label in zip(series, names, strict=False)]
        found, empty = verdicts(named) if named else None, "What the runs show will stand here."
        said = compare_panels.outcome(named, found, len(names) - 1, empty)
        more = {} if self.moving is None else self.moving(views_of(names, series))
        parts = {
            f"{self.name}_outcome": Html(said),
            f"{self.name}_loss": _curves(self.name, named, self.setup, self.tall),
            f"{self.name}_numbers": _numbers(named, names),
            **more,
        }
        ready = f"Compared: {', '.join(names)}. {compare_panels.configuration(self.setup.base)}."
        lines = compare_panels.in_short(named, found) if named else (ready,)
        return captioned(parts, *lines, title=IDEAS[self.name.split("_")[0]].title)


def training(
    name: str,
    question: str,
    setup: Setup,
    names: Sequence[str],
    moving: Callable[[Views], Mapping[str, Part]] | None = None,
    after: Callable[[Views, Mapping[str, Shown]], None] | None = None,
    chosen: Hashable = None,
) -> None:
    """Train a base and its variants, one seed each, and watch what happens.

    Args:
        names: what to call the base and each variant.
        moving: more that moves, made from the runs by name (none: they have not begun) in a
            thread that knows no visitor.
        after: draws more below the curves: `moving`'s parts, and what holds until a run begins,
            rests or ends. Without it the parts stand one below the other.
        chosen: what `moving` depends on besides the runs, the other arguments and the projector:
            it is made again where that has changed.
    """
    compared = idea_runs(name)
    st.subheader("Train it", anchor=False)
    st.markdown(question)
    look = partial(compared.series_of, setup)
    series = look()
    _buttons(name, compared, setup, any_live(series))
    if compared.setup is not None and not series:
        st.caption("The choice above has changed: press Play to train with it.")
    picture = Picture(name, tuple(names), setup, Tall(projector()), chosen, moving)
    parts = channel().show(scene_of_runs(picture, look, each_live), series)
    outcome = parts.pop(f"{name}_outcome")
    left, right = st.columns([3, 1], gap="medium", vertical_alignment="center")
    with left:
        show_plot(parts.pop(f"{name}_loss"))
    with right:
        live_html(parts.pop(f"{name}_numbers"))
    live_html(outcome)
    say_apart(dict(zip(names, setup.specs, strict=True)))
    if after is not None:
        after(views_of(names, series), parts)
    else:
        draw_parts(parts)


def draw_parts(parts: Mapping[str, Shown]) -> None:
    """Figures and words, one below the other."""
    for part in parts.values():
        show_plot(part) if isinstance(part.part, Plot) else live_html(part)


def views_of(names: Sequence[str], series: Sequence[Series]) -> Views:
    """The runs of a page by name; none if they have not begun."""
    return {name: line.views[0] for name, line in zip(names, series, strict=False)}


def each_live(series: Sequence[Series]) -> tuple[tuple[bool, bool], ...]:
    """What the rest of the page depends on: which runs still move, and which can be looked into."""
    return tuple((view.live, bool(view.frames)) for line in series for view in line.views)


def all_idea_runs() -> dict[str, Comparison]:
    """Page -> its runs; they end when the visitor closes the tab."""
    return st.session_state.setdefault("idea_runs", {})


def idea_runs(name: str) -> Comparison:
    """The runs of a page."""
    if name not in all_idea_runs():
        all_idea_runs()[name] = Comparison(my_controller().owner)
    return all_idea_runs()[name]


def measured_when_idle(
    name: str, view: View | None, measure: Callable[[Trainer], Found]
) -> Found | None:
    """What `measure` finds in one of the page's runs while it is not training.

    None while it trains, before its first step, and once it is no longer in memory.
    """
    if view is None or view.live or not len(view.loss):
        return None
    kept = st.session_state.setdefault(f"{name} measured", {})
    now = (view.spec, len(view.loss))
    if now not in kept:
        run = idea_runs(name).run_of(view.spec)
        if run is None:
            return None
        kept[now] = run.ask(measure)
    try:
        return kept[now].result(PATIENCE)
    except TimeoutError:  # its worker is still busy
        return None
    except ValueError:
        del kept[now]
        return None


def copied(name: str, spec: Spec) -> tuple[Copied, View | None]:
    """A copy of the page's trained model, and its run: see `playground.ui.model_copy`.

    Before anything is trained it may be the one that came with the app: see `already_trained`.
    """
    found, view = model_copy.copied(name, idea_runs(name.split()[0]).run_of(spec), spec)
    if view is None and _trained(name.split()[0]).present():
        model = model_of(spec)
        if model is not None:
            found = Copied(None, spec.training.steps, 0, model, shipped=True)
    return found, view


def already_trained(name: str, spec: Spec) -> None:
    """A switch to look at the model that came with the app; none where there is none."""
    if model_of(spec) is not None and idea_runs(name).run_of(spec) is None:
        _trained(name).draw()


def or_trained(spec: Spec) -> str:
    """What else one can do than train, where there is a model that came with the app."""
    return ", or switch on “Already trained”" if model_of(spec) is not None else ""


def _trained(name: str) -> Knob:
    return Knob(
        f"{name}_trained",
        "Already trained",
        (False, True),
        False,
        "Look at a model that came with the app, before you train one. As soon as you press Play, "
        "yours is shown.",
    )


def _start(name: str, setup: Setup) -> None:
    """Start training, and discard the runs of other pages: a class shares one machine.

    Their curves stay in History.
    """
    for other, compared in all_idea_runs().items():
        if other != name:
            compared.discard()
    start_runs(idea_runs(name), setup)


def _buttons(name: str, compared: Comparison, setup: Setup, moving: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key=f"{name}_transport"):
        play_buttons.play_or_pause(moving, lambda: _start(name, setup), compared.pause)
        play_buttons.reset_button(compared.discard)
        st.button(
            "Over several seeds",
            key=f"{name}_compare",
            type="tertiary",
            icon=":material/compare_arrows:",
            on_click=compare_panels.take_to_compare,
            args=(setup.base, encode(setup.variants), SEEDS),
            help="One seed proves nothing: take this contrast to the Compare page.",
        )
    play_buttons.say_refusal()


def _curves(name: str, named: Sequence[Series], setup: Setup, tall: Tall) -> Plot:
    base = setup.base
    figure = comparison_chart(
        compare_panels.bands(named),
        total_steps=base.training.steps,
        empty=waiting(named) if named else NOT_BEGUN,
        width=760,
        size=tall(340, 430),
        **references(*setup.specs),
    )
    return Plot(figure, f"{name} loss")


def _numbers(named: Sequence[Series], names: Sequence[str]) -> Html:
    """The loss that each run has reached, all at the same step."""
    at = common_step(named)
    when = f" at step {at}" if at is not None else " at the end" if named else ""
    says = f"Training loss{when}, {averaged(named)}"
    views = (line.views[0] for line in named)
    cells = {label: (_reached(view, at), says) for label, view in zip_longest(names, views)}
    return Html(f"{number_cells(cells).html}<small>{says}</small>")


def _reached(view: View | None, at: int | None) -> str:
    """The loss after `at` steps, or at the end."""
    if view is not None and view.diverged:
        return f"diverged at {len(view.loss)}"
    if view is None or not view.has_come(at):
        return "–"
    return in_nats(view.reached(at))
