"""What the Playground page shows of a run: diagnosis, numbers, curves, maps and so on."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.tasks import Chance
from core.train import Change
from playground.figures import (
    Curve,
    entropy_chart,
    gradient_chart,
    loss_chart,
    prediction_cards,
    spread_chart,
)
from playground.figures.loss import NOT_BEGUN
from playground.figures.style import Figure
from playground.history.names import title
from playground.live.channel import Scene, is_live, state_of
from playground.live.picture import Html, Part, Plot, Shown, Slider, captioned
from playground.runs import estimate
from playground.runs.controller import Controller, Ghost
from playground.runs.diagnosis import diagnose
from playground.runs.snapshot import (
    SAMPLE_SEED,
    TEMPERATURE,
    Frame,
    layer_title,
    layer_word,
)
from playground.runs.spec import Spec, changes_by_step, in_nats, value_text
from playground.runs.view import LAST, View, waiting_for
from playground.ui import controls, data_panel, download_panel, model_panel, writing_panel
from playground.ui.choices import HEIGHT, NEWEST, PROJECTED, Choices
from playground.ui.components import live_html, live_slider, number_cells, show_plot, two_lines
from playground.ui.glossary import explain
from playground.ui.literal import literal
from playground.ui.maps_panel import chosen_layer, draw_maps, map_switches, maps
from playground.ui.session import channel

MOST_PREDICTIONS = 32
LOSS_WIDTH, HEALTH_WIDTH = 470, 320  # pixels in a window of usual width
COLOURS = {"info": "#0072b2", "good": "#009e73", "warn": "#e69f00", "bad": "#d55e00"}
MOST_SKIPPED = 10  # steps without an update that are listed
SIGNS = {"info": "●", "good": "✓", "warn": "▲", "bad": "✗"}


def references(*specs: Spec) -> dict[str, Any]:
    """The chance losses and the floor, as figures and the diagnosis take them.

    Of several specs what they share: a line across a chart says nothing of a run whose task or
    mask has another floor.
    """
    shared = {}
    for name, values in _levels(specs).items():
        if len(set(values)) == 1:
            shared[name] = values[0]
    return shared


def say_apart(specs: Mapping[str, Spec]) -> None:
    """Say which of the reference losses are not drawn, since these runs do not share them."""
    apart = []
    for name, values in _levels(list(specs.values())).items():
        if len(set(values)) > 1:
            losses = [value.blind if isinstance(value, Chance) else value for value in values]
            said = ["unknown" if loss is None else in_nats(loss) for loss in losses]
            each = ", ".join(f"{label} {text}" for label, text in zip(specs, said, strict=True))
            word = "best guess without reading the input" if name == "chance" else name
            apart.append(f"{word}: {each}")
    if apart:
        st.caption(literal(f"Not the same for all, so not drawn: {'; '.join(apart)}."))


def _levels(specs: Sequence[Spec]) -> dict[str, list[Any]]:
    return {
        "chance": [spec.chance for spec in specs],
        "floor": [spec.floor for spec in specs],
    }


def watch(controller: Controller) -> None:
    """Follow a new run, or a new length, wherever the last one was scrubbed to."""
    watched = (controller.begun, controller.run is None, controller.spec.training.steps)
    if st.session_state.get("watched") != watched:
        st.session_state.watched, st.session_state.shown_step = watched, NEWEST


@dataclass(frozen=True)
class Picture:
    """All that moves on the Playground, made of a view of its run."""

    controller: Controller
    spec: Spec
    ghosts: tuple[Ghost, ...]
    notice: str
    choices: Choices

    def __call__(self, view: View | None) -> dict[str, Part]:
        """The parts of the page by the keys of their elements, those of the open tab only."""
        choices = self.choices
        frames = self.controller.frames(view)
        frame = frame_shown(frames, choices.step)
        earlier = frame is not frames[-1]
        then = view.at(frame.step) if view is not None and earlier else view
        spec = self.spec if then is None else then.spec
        kind, text = verdict(spec, then, frame, earlier)
        tabs = {
            "Predictions": lambda: predictions(spec, frame),
            "Health": lambda: health(self.spec, view, frames, choices),
            "What changed": lambda: {"changed": changes(self.ghosts, view)},
        }
        parts = {
            "verdict": diagnosis(kind, text, frame),
            "numbers": numbers(self.spec, then, frame, self.controller.correction, earlier),
            "loss_chart": curves(
                self.spec, view, self.ghosts, choices, frame.step if earlier else None
            ),
            "notice": two_lines(html.escape(self.notice)),
            **maps(spec, frame, choices),
            "scrubber": scrubbed(
                [frame.step for frame in frames],
                frame.step,
                self.spec.training.steps,
                is_moving(view),
            ),
            **tabs.get(choices.tab, dict)(),
        }
        began = self.spec if view is None else view.began
        turned = () if then is None else then.changes
        return captioned(parts, text, configuration(began, turned, frame.step))


def show(controller: Controller, *drawn: View | None) -> dict[str, Shown]:
    """Say on the stream what the page shows from now on; its parts.

    Args:
        drawn: the run as the page draws its buttons; without it, they are those of before.
    """
    ghosts, notice = tuple(controller.ghosts), controller.notice or ""
    picture = Picture(controller, controller.spec, ghosts, notice, Choices.of_page())
    return channel().show(Scene(picture, lambda: controller.view, state_of, is_live), *drawn)


def foresee(controller: Controller) -> None:
    """Without a run, send the picture that the knobs ask for before any of them is drawn."""
    if controller.run is None and (spec := controls.foreseen()) is not None:
        controller.spec = spec
        show(controller, None)


def draw(controller: Controller) -> None:
    """The panels. The stream changes what moves in them; a switch among them redraws them alone."""
    chosen, parts = Choices.of_page(), show(controller)  # on its way before its widgets are
    spec, frame = controller.spec, controller.frames(controller.view)[-1]
    top = st.container(key="verdict_line")
    left, right = st.columns([1, 1.12], gap="medium")
    with left:
        loss_switches(controller)
    with right:
        map_switches(spec, frame)
    left_below, right_below = st.columns([2, 1], gap="medium", vertical_alignment="bottom")
    with right_below:
        controls.draw_example(spec)
    tabs = st.tabs(tabs_of(spec), key="details", on_change="rerun")
    if Choices.of_page() != chosen:  # a widget has settled on another value
        parts = show(controller)
    with top:
        said, measured = st.columns([3, 2], gap="medium")
    with said:
        live_html(parts["verdict"])
    with measured:
        live_html(parts["numbers"])
    with left:
        show_plot(parts["loss_chart"])
        live_html(parts["notice"])
    with right:
        draw_maps(spec, frame, parts)
    with left_below:
        live_slider(parts["scrubber"], _scrub)
    details(controller, tabs, parts)


def tabs_of(spec: Spec) -> list[str]:
    """What there is to open below the figures; a model that writes has a tab for it."""
    write = ["Write"] if writing_panel.writes(spec) else []
    return ["Predictions", *write, "Health", "What changed", "Data", "This model", "Download"]


def configuration(spec: Spec, changes: Iterable[Change] = (), step: int | None = None) -> str:
    """What a run trains, in a line.

    Args:
        spec: at its start.
        changes: turned on the way.
        step: at which it is seen.
    """
    training = spec.training
    when = f"{training.steps} steps" if step is None else f"step {step} of {training.steps}"
    return f"{spec.task.title}: {title(spec, changes)}; seed {training.seed}, {when}"


def verdict(spec: Spec, view: View | None, frame: Frame, earlier: bool = False) -> tuple[str, str]:
    """Of which kind the one sentence is that matters most, and that sentence.

    While the run waits, its position in the queue.

    Args:
        view: the run as it was at the frame's step.
        earlier: the visitor has gone back to it.
    """
    found = diagnose(view, frame, **references(spec))
    kind, text = found.kind, found.text
    if earlier:
        text = f"At step {frame.step}: {text}"
    if view is not None and (reason := waits(view)):
        kind, text = "info", f"{reason[0].upper()}{reason[1:]}."
    return kind, text


def diagnosis(kind: str, text: str, frame: Frame) -> Html:
    """The verdict on the page."""
    return Html(
        f'<div data-verdict="{kind}" data-step="{frame.step}" role="status" class="verdict" '
        f'style="border-color: {COLOURS[kind]}">'
        f"<b>{SIGNS[kind]}</b> {explain(text)}</div>"
    )


def waits(view: View | None) -> str:
    """What a run that is to train waits for, in words; empty where there is none, or it trains."""
    if view is None or not view.status.moving:
        return ""
    if view.queue_position:
        return f"waiting: place {view.queue_position} in the queue"
    return waiting_for([view]).removesuffix(" …")


def numbers(
    spec: Spec, view: View | None, frame: Frame, correction: float, earlier: bool = False
) -> Html:
    """Step, losses and accuracy; unless the visitor has gone back, speed and time left."""
    done = len(view.loss) if view else 0
    recent = view.recent_loss() if view else math.nan
    running = view is not None and view.steps_per_second and not earlier
    measured = f", step {frame.measured_at}" if earlier and frame.measured_at != frame.step else ""
    left = (
        view.seconds_left
        if running and view.seconds_left is not None
        else (spec.training.steps - done) * estimate.seconds_per_step(spec, correction)
    )
    cells = {
        "Step": (f"{done} / {spec.training.steps}", "Optimiser steps done, of all."),
        "Training loss": (
            "–" if math.isnan(recent) else in_nats(recent),
            f"Nats per scored token: the mean of the last {LAST} steps, or of those since a knob "
            "was turned.",
        ),
        f"Val. loss{measured}": (
            in_nats(frame.loss),
            f"On examples that training never draws; measured at step {frame.measured_at}.",
        ),
        f"Accuracy{measured}": (
            f"{frame.accuracy:.1%}",
            f"Share of the scored validation tokens that are right, at step {frame.measured_at}.",
        ),
        "Tokens/s": (
            f"{view.tokens_per_second:,.0f}" if running else "–",
            "Tokens trained on per second.",
        ),
        "Time left" if done else "Takes about": (
            "–"
            if left <= 0 or earlier or (view is not None and view.status.over)
            else estimate.in_words(left),
            "At the current speed.",
        ),
        "Parameters": (f"{spec.model.n_parameters:,}", "Numbers that are learnt."),
    }
    return number_cells(cells)


def curve(label: str, view: View, colour: int, ghost: bool = False) -> Curve:
    arrays = view.steps, view.loss, view.val_steps, view.val_loss, view.lr
    return Curve(label, *(array.tolist() for array in arrays), colour, ghost, marks(view))


def marks(view: View) -> list[tuple[int, str]]:
    """(step, what was turned there), as the curves of a run show it."""
    return [
        (step, ", ".join(f"{name} → {value_text(name, value)}" for name, value in turned.items()))
        for step, turned in changes_by_step(view.changes).items()
    ]


def loss_switches(controller: Controller) -> None:
    """The switches of the loss chart."""
    with st.container(horizontal=True, key="loss_switches", vertical_alignment="center"):
        log_switch()
        st.toggle(
            "Learning rate",
            key="show_lr",
            bind="query-params",
            help="The learning rate on a second axis.",
        )
        if controller.ghosts:
            st.button(
                "Hide earlier curves",
                key="hide_ghosts",
                type="tertiary",
                icon=":material/layers_clear:",
                on_click=controller.show,
                args=([],),
                help="Take the faint curves out of the chart.",
            )


def log_switch() -> bool:
    return st.toggle("Log axis", key="log", bind="query-params", help="Loss on a logarithmic axis.")


def curves(
    spec: Spec,
    view: View | None,
    ghosts: Sequence[Ghost],
    choices: Choices,
    shown: int | None = None,
) -> Plot:
    """The loss chart.

    Args:
        shown: the step to which the visitor has gone back.
    """
    lines = [curve(ghost.label, ghost.view, i + 1, True) for i, ghost in enumerate(ghosts)]
    if view is not None:
        lines.append(curve("this run", view, 0))
    figure = loss_chart(
        lines,
        shown=shown,
        log=choices.log,
        show_lr=choices.show_lr,
        total_steps=spec.training.steps,
        empty=waits(view) or NOT_BEGUN,
        width=LOSS_WIDTH,
        size=choices.tall(HEIGHT, PROJECTED),
        earlier_floors=earlier_floors(view),
        **references(spec),
    )
    return Plot(figure, "loss")


def earlier_floors(view: View | None) -> list[tuple[int, int, float | None]]:
    """(first step, last step, floor) of a run, before each change that has moved its floor."""
    if view is None or view.began is None:
        return []
    pieces, spec, begin = [], view.began, 0
    for step, values in changes_by_step(view.changes).items():
        changed = spec.turned(values)
        if changed.floor != spec.floor:
            pieces.append((begin, step, spec.floor))
            begin = step
        spec = changed
    return pieces


def frame_shown(frames: tuple[Frame, ...], step: int) -> Frame:
    """The frame that a scrubber is at: the newest one, unless the visitor has gone back."""
    return next((frame for frame in frames[:-1] if frame.step == step), frames[-1])


def is_moving(view: View | None) -> bool:
    """Whether the newest picture will be followed by newer ones."""
    return view is not None and view.status.moving


def scrubbed(kept: Sequence[int], step: int, total: int, moving: bool) -> Slider:
    """A slider over the steps of which there are pictures; its right end is the newest one.

    Args:
        kept: these steps, in order.
        step: the one that is shown.
        moving: whether there will be newer ones.
    """
    at_end = step == kept[-1]
    return Slider(
        f"Shown: step {step} of {total}{', live' if moving and at_end else ''}",
        (*kept[:-1], NEWEST),
        NEWEST if at_end else step,
        (*(f"step {step}" for step in kept[:-1]), "live" if moving else f"step {kept[-1]}"),
    )


def _scrub(step: int) -> None:
    st.session_state.shown_step = step


def details(controller: Controller, tabs: Sequence[Any], parts: dict[str, Shown]) -> None:
    """Predictions, health, what changed, what is learnt, what this model is: the open one."""
    drawers = {
        "Predictions": lambda: [live_html(parts["predictions"]), live_html(parts["sample"])],
        "Write": lambda: writing_panel.draw(controller),
        "Health": lambda: health_panel(parts),
        "What changed": lambda: live_html(parts["changed"]),
        "Data": lambda: data_panel.draw(controller.spec, **references(controller.spec)),
        "This model": lambda: model_panel.draw(controller.spec),
        "Download": lambda: download_panel.draw(controller),
    }
    for name, tab in zip(tabs_of(controller.spec), tabs, strict=True):
        if tab.open:
            with tab:
                drawers[name]()


def how_it_wrote(spec: Spec, step: int) -> str:
    """Where a sample begins, and how its characters are drawn."""
    (first,) = spec.task.decode(spec.task.prompt(spec.model.form).inputs[-1][0])
    return (
        f"What the model of step {step} writes after “{first}” and nothing else: each character is "
        f"drawn at temperature {TEMPERATURE:g}, seed {SAMPLE_SEED}, and read as the next input. "
        "The more orange it is, the less the model expected it; point at it to see what it did."
    )


def predictions(spec: Spec, frame: Frame) -> dict[str, Part]:
    found = frame.predictions[-MOST_PREDICTIONS:]
    cards = prediction_cards(
        [prediction.position + 1 for prediction in found],
        [prediction.shown for prediction in found],
        [prediction.tokens for prediction in found],
        [prediction.probabilities for prediction in found],
        [prediction.target for prediction in found],
    )
    sample = ""
    if frame.sample is not None:
        sample = f"<small>{html.escape(how_it_wrote(spec, frame.written_at))}</small>"
        sample += writing_panel.sample_html(spec.task, frame.sample)
    return {"predictions": Html(cards), "sample": Html(sample)}


def health(
    spec: Spec, view: View | None, frames: tuple[Frame, ...], choices: Choices
) -> dict[str, Part]:
    shared = {
        "size": choices.tall(None),
        "width": HEALTH_WIDTH,
        "total_steps": spec.training.steps,
    }
    trained = [] if view is None else view.steps.tolist()
    norms = {} if view is None else {layer_word(n): v for n, v in view.layer_norms.items()}
    turned = [] if view is None else marks(view)
    figures = {"gradients": gradient_chart(trained, norms, marks=turned, **shared)}
    if frames[-1].attention:
        figures |= attention_health(frames, chosen_layer(frames[-1], choices), turned, shared)
    return {key: Plot(figure, key) for key, figure in figures.items()}


def attention_health(
    frames: tuple[Frame, ...],
    name: str,
    turned: Sequence[tuple[int, str]],
    shared: Mapping[str, Any],
) -> dict[str, Figure]:
    """How sharp the attention of one layer is, and how far the scores of each are spread."""
    steps = [frame.step for frame in frames]
    shown = [frame.attention[name] for frame in frames]
    # A frame at a mark is of what came after it.
    changed = [(step - 0.5, what) for step, what in turned] + examples(frames, name)
    entropy = [attention.entropy for attention in shown]
    largest = [attention.largest for attention in shown]
    spread = {layer_title(n): [f.attention[n].spread for f in frames] for n in frames[-1].attention}
    theory = shown[-1].theory
    return {
        "entropy": entropy_chart(steps, entropy, largest, marks=changed, **shared),
        "spread": spread_chart(steps, spread, theory, marks=changed, **shared),
    }


def examples(frames: tuple[Frame, ...], name: str) -> list[tuple[float, str]]:
    """Where the visitor looked at another example: its attention is another one, too."""
    read = [(f.attention[name].query_tokens, f.attention[name].key_tokens) for f in frames]
    return [
        (frames[i].step - 0.5, "another example")
        for i in range(1, len(frames))
        if read[i] != read[i - 1]
    ]


def health_panel(parts: dict[str, Shown]) -> None:
    shown = [parts[key] for key in ("gradients", "entropy", "spread") if key in parts]
    for column, plot in zip(st.columns(3, gap="medium"), shown, strict=False):
        with column:
            show_plot(plot)


def changes(ghosts: Sequence[Ghost], view: View | None) -> Html:
    """What was turned during the run, and which runs there were before it."""
    found = [] if view is None else marks(view)
    lines = [f"after step <b>{step}</b>: {html.escape(turned)}" for step, turned in found] + [
        f"an earlier run, with {html.escape(ghost.label)}: {max(ghost.view.steps, default=0)} steps"
        for ghost in ghosts
    ]
    if view is not None and (n := len(view.skipped)):
        steps = ", ".join(map(str, view.skipped[:MOST_SKIPPED])) + ", …" * (n > MOST_SKIPPED)
        lines.append(f"{n} updates were not made, for a gradient overflowed: at step {steps}")
    if not lines:
        return Html("<small>Nothing yet. Turn a knob during a run, or after it.</small>")
    return Html("<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>")
