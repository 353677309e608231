"""What the Playground page shows of a run: diagnosis, numbers, curves, maps and so on."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import streamlit as st

from core.tasks import Chance, Task
from playground.figures import (
    Curve,
    attention_map,
    attention_maps,
    entropy_chart,
    gradient_chart,
    loss_chart,
    prediction_chart,
    spread_chart,
)
from playground.runs import estimate
from playground.runs.controller import Controller
from playground.runs.diagnosis import diagnose
from playground.runs.snapshot import Attention, Frame
from playground.runs.spec import Spec, changes_by_step, in_nats, value_text
from playground.runs.view import LAST, Status, View
from playground.ui import controls, download_panel
from playground.ui.components import Click, live_plot
from playground.ui.glossary import explain
from playground.ui.page_head import projector, tall

STAGES = {"scores": "q·k", "scaled": "·scale", "masked": "+mask", "weights": "softmax"}
IN_WORDS = {
    "scores": "How well each query (row) fits each key (column), before scaling and masking.",
    "scaled": "The scores times the scale: with √d_k their spread does not grow with the width.",
    "masked": "Grey cells are hidden by the mask; the softmax will give them exactly 0.",
    "weights": "Where each query (row) looks: a softmax, so each row of weights sums to 1.",
}
ALL_HEADS = "all heads"
NEWEST = -1  # the right end of a scrubber: whatever step that is
HEIGHT, PROJECTED = 430, 500  # pixels of the two main figures
MOST_PREDICTIONS = 32  # columns in the picture of the predictions
LOSS_WIDTH, MAPS_WIDTH, HEALTH_WIDTH = 470, 520, 320  # pixels in a window of usual width
COLOURS = {"info": "#0072b2", "good": "#009e73", "warn": "#e69f00", "bad": "#d55e00"}
SIGNS = {"info": "●", "good": "✓", "warn": "▲", "bad": "✗"}


def references(spec: Spec) -> dict[str, Any]:
    """The chance losses and the floor of a spec's task, as figures and the diagnosis take them."""
    return {"chance": _chance(spec.task, spec.model.architecture), "floor": spec.floor}


@lru_cache(maxsize=64)
def _chance(task: Task, architecture: str) -> Chance:
    return task.chance(architecture)


def watch(controller: Controller) -> None:
    """Follow a new run, or a new length, wherever the last one was scrubbed to."""
    watched = (controller.begun, controller.run is None, controller.spec.training.steps)
    if st.session_state.get("watched") != watched:
        st.session_state.watched, st.session_state.shown_step = watched, NEWEST


def draw(controller: Controller, view: View | None) -> None:
    """Everything that moves. Called again and again while a run is moving."""
    frames = controller.frames(view)
    if view is not None:
        controller.learn_speed(view)
    frame = frame_shown(frames, "shown_step")
    earlier = frame is not frames[-1]
    then = view.at(frame.step) if view is not None and earlier else view
    spec = controller.spec if then is None else then.spec
    diagnosis(spec, then, frame, earlier)
    numbers(controller, then, frame, earlier)
    left, right = st.columns([1, 1.12], gap="medium")
    with left:
        curves(controller, view, frame.step if earlier else None)
    with right:
        maps(spec, frame)
    scrub(controller.spec, frames, frame, view is not None and view.status.moving)
    details(controller, view, frames, frame)


def diagnosis(spec: Spec, view: View | None, frame: Frame, earlier: bool = False) -> None:
    """The one sentence that matters most; while the run waits, its position in the queue.

    Args:
        view: the run as it was at the frame's step.
        earlier: the visitor has gone back to it.
    """
    found = diagnose(spec, view, frame, **references(spec))
    kind, text = found.kind, found.text
    if earlier:
        text = f"At step {frame.step}: {text}"
    if view is not None and view.status is Status.QUEUED and view.queue_position:
        kind, text = "info", f"Waiting: number {view.queue_position} in the queue."
    st.html(
        f'<div data-verdict="{kind}" data-step="{frame.step}" role="status" '
        f'style="border-left: 0.4rem solid {COLOURS[kind]}; '
        f'padding: 0.35rem 0.8rem; font-size: 1.1rem; min-height: 3.6rem; line-height: 1.45">'
        f'<b style="color: {COLOURS[kind]}">{SIGNS[kind]}</b> {explain(text)}</div>'
    )


def numbers(controller: Controller, view: View | None, frame: Frame, earlier: bool = False) -> None:
    """Step, losses and accuracy; unless the visitor has gone back, speed and time left."""
    spec = controller.spec
    done = len(view.loss) if view else 0
    recent = view.recent_loss() if view else math.nan
    running = view is not None and view.steps_per_second and not earlier
    left = (
        view.seconds_left
        if running and view.seconds_left is not None
        else (spec.training.steps - done) * estimate.seconds_per_step(spec, controller.correction)
    )
    cells = {
        "Step": (f"{done} / {spec.training.steps}", "Optimiser steps done, of all."),
        "Training loss": (
            "–" if math.isnan(recent) else in_nats(recent),
            f"Nats per scored token: the mean of the last {LAST} steps, or of those since a knob "
            "was turned.",
        ),
        "Val. loss": (
            in_nats(frame.loss),
            f"On examples that training never draws; measured at step {frame.measured_at}.",
        ),
        "Accuracy": (
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
    for column, (label, (value, help)) in zip(st.columns(len(cells)), cells.items(), strict=True):
        column.metric(label, value, help=help)


def curve(label: str, view: View, colour: int, ghost: bool = False) -> Curve:
    arrays = view.steps, view.loss, view.val_steps, view.val_loss, view.lr
    return Curve(label, *(array.tolist() for array in arrays), colour, ghost, marks(view))


def marks(view: View) -> list[tuple[int, str]]:
    """(step, what was turned there), as the curves of a run show it."""
    return [
        (step, ", ".join(f"{name} → {value_text(name, value)}" for name, value in turned.items()))
        for step, turned in changes_by_step(view.changes).items()
    ]


def curves(controller: Controller, view: View | None, shown: int | None = None) -> None:
    """The loss chart and its two switches.

    Args:
        shown: the step to which the visitor has gone back.
    """
    with st.container(horizontal=True, key="loss_switches", vertical_alignment="center"):
        log = log_switch()
        show_lr = st.toggle(
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
    lines = [
        curve(ghost.label, ghost.view, i + 1, True) for i, ghost in enumerate(controller.ghosts)
    ]
    if view is not None:
        lines.append(curve("this run", view, 0))
    figure = loss_chart(
        lines,
        shown=shown,
        log=log,
        show_lr=show_lr,
        total_steps=controller.spec.training.steps,
        width=LOSS_WIDTH,
        size=tall(HEIGHT, PROJECTED),
        **references(controller.spec),
    )
    live_plot(figure, key="loss_chart", name="loss")
    if controller.notice:
        st.caption(controller.notice)


def log_switch() -> bool:
    return st.toggle("Log axis", key="log", bind="query-params", help="Loss on a logarithmic axis.")


def stage_switch(**style: Any) -> str:
    """Which of the four stages of attention is shown."""
    return st.segmented_control(
        "Stage",
        list(STAGES),
        default="weights",
        required=True,
        key="stage",
        format_func=STAGES.get,
        bind="query-params",
        help="Follow the formula: q·k, times scale, plus mask, softmax.",
        **style,
    )


def layer_title(name: str) -> str:
    """`blocks.0.attention` -> `block 1`, `encoder.blocks.0.attention` -> `encoder 1`."""
    *stack, _, index, kind = name.split(".")
    word = "cross" if kind == "cross" else stack[0] if stack else "block"
    return f"{word} {int(index) + 1}"


def layer_word(name: str) -> str:
    """`blocks.0` -> `block 1`; `embed` and `head` stay."""
    stack, _, index = name.rpartition("blocks.")
    return f"{stack.rstrip('.') or 'block'} {int(index) + 1}" if index.isdigit() else name


def maps(spec: Spec, frame: Frame) -> None:
    """The attention maps at the chosen layer, head and stage."""
    layers = {layer_title(name): attention for name, attention in frame.attention.items()}
    heads = [ALL_HEADS, *(f"head {head + 1}" for head in range(spec.model.n_heads))]
    with st.container(
        horizontal=True, key="map_switches", vertical_alignment="center", gap="xsmall"
    ):
        stage = stage_switch(label_visibility="collapsed")
        layer = st.selectbox(
            "Block",
            list(layers),
            key="layer",
            bind="query-params",
            width=150 if projector() else 110,
            label_visibility="collapsed",
            help="Whose attention is shown.",
        )
        head = st.selectbox(
            "Head",
            heads,
            key="head",
            bind="query-params",
            width=160 if projector() else 115,
            label_visibility="collapsed",
            help="One head, large, or all heads of the layer.",
        )
    attention: Attention = layers[layer]
    values = attention.stages[stage]
    hidden = attention.hidden if stage in ("masked", "weights") else None
    tokens = attention.query_tokens, attention.key_tokens
    shared = {"stage": stage, "hidden": hidden, "size": tall(HEIGHT, PROJECTED)}
    if not np.isfinite(values).all():
        st.warning("The attention is no longer finite: scrub back to see it as it was before.")
        return
    if head == ALL_HEADS:
        figure = attention_maps(values, *tokens, width=MAPS_WIDTH, **shared)
        live_plot(
            figure,
            key="attention",
            height=shared["size"].height,
            on_click=_choose_head,
            name="attention",
        )
    else:
        title = f"{layer}, {head}"
        figure = attention_map(
            values[heads.index(head) - 1], *tokens, title=title, width=MAPS_WIDTH, **shared
        )
        live_plot(figure, key="attention", height=shared["size"].height, name="attention")
    st.html(f'<small data-stage="{stage}">{explain(IN_WORDS[stage])}</small>')


def _choose_head(click: Click) -> None:
    st.session_state.head = f"head {click.trace + 1}"


def frame_shown(frames: tuple[Frame, ...], key: str) -> Frame:
    """The frame that a scrubber is at: the newest one, unless the visitor has gone back."""
    step = st.session_state.get(key)
    for frame in frames[:-1]:
        if frame.step == step:
            return frame
    st.session_state[key] = NEWEST
    return frames[-1]


def scrubber(frames: tuple[Frame, ...], moving: bool, key: str, label: str) -> None:
    """A slider over the steps of which there are pictures; its right end is the newest one."""
    newest = "live" if moving else f"step {frames[-1].step}"
    st.select_slider(
        label,
        [*(frame.step for frame in frames[:-1]), NEWEST],
        NEWEST,
        format_func=lambda step: newest if step == NEWEST else f"step {step}",
        key=key,
        disabled=len(frames) < 2,
        help="Back through training, along the steps whose pictures are kept. The right end "
        "follows the run.",
    )


def scrub(spec: Spec, frames: tuple[Frame, ...], frame: Frame, moving: bool) -> None:
    """Back through training, and the visitor's own example."""
    left, right = st.columns([2, 1], gap="medium", vertical_alignment="bottom")
    with left:
        live = ", live" if moving and frame is frames[-1] else ""
        label = f"Shown: step {frame.step} of {spec.training.steps}{live}"
        scrubber(frames, moving, "shown_step", label)
    with right:
        controls.draw_example(spec)


def details(controller, view: View | None, frames, frame: Frame) -> None:
    """Predictions, health, what changed, and what this model is made of."""
    tabs = st.tabs(
        ["Predictions", "Health", "What changed", "This model", "Download"],
        key="details",
        on_change="rerun",
    )
    drawers = (
        lambda: predictions(frame),
        lambda: health(controller, view, frames),
        lambda: changes(controller, view),
        lambda: parts(controller.spec),
        lambda: download_panel.draw(controller),
    )
    for tab, drawer in zip(tabs, drawers, strict=True):
        if tab.open:
            with tab:
                drawer()


def predictions(frame: Frame) -> None:
    if found := frame.predictions[-MOST_PREDICTIONS:]:
        figure = prediction_chart(
            [prediction.shown for prediction in found],
            [prediction.tokens for prediction in found],
            [prediction.probabilities for prediction in found],
            [prediction.target for prediction in found],
            size=tall(None),
        )
        live_plot(figure, key="predictions")
    if frame.sample is not None:
        st.caption("The model continues from its own output:")
        st.code(frame.sample, language=None, wrap_lines=True)


def health(controller, view: View | None, frames: tuple[Frame, ...]) -> None:
    steps = [frame.step for frame in frames]
    names = {layer_title(name): name for name in frames[-1].attention}
    layer = st.session_state.get("layer") or next(iter(names))
    name = names.get(layer, next(iter(names.values())))
    shown = [frame.attention[name] for frame in frames]
    shared = {
        "size": tall(None),
        "width": HEALTH_WIDTH,
        "total_steps": controller.spec.training.steps,
    }
    turned = [] if view is None else marks(view)
    # A frame at a mark is of what came after it.
    changed = [(step - 0.5, what) for step, what in turned] + examples(frames, name)
    columns = st.columns(3, gap="medium")
    with columns[0]:
        trained = [] if view is None else view.steps.tolist()
        norms = {} if view is None else {layer_word(n): v for n, v in view.layer_norms.items()}
        live_plot(gradient_chart(trained, norms, marks=turned, **shared), key="gradients")
    with columns[1]:
        entropy = [attention.entropy for attention in shown]
        largest = [attention.largest for attention in shown]
        live_plot(entropy_chart(steps, entropy, largest, marks=changed, **shared), key="entropy")
    with columns[2]:
        measured = {title: [f.attention[n].spread for f in frames] for title, n in names.items()}
        theory = shown[-1].theory
        live_plot(spread_chart(steps, measured, theory, marks=changed, **shared), key="spread")


def examples(frames: tuple[Frame, ...], name: str) -> list[tuple[float, str]]:
    """Where the visitor looked at another example: its attention is another one, too."""
    read = [(f.attention[name].query_tokens, f.attention[name].key_tokens) for f in frames]
    return [
        (frames[i].step - 0.5, "another example")
        for i in range(1, len(frames))
        if read[i] != read[i - 1]
    ]


def changes(controller: Controller, view: View | None) -> None:
    if view is not None and view.changes:
        for step, turned in marks(view):
            st.markdown(f"- after step **{step}**: {turned}")
    for ghost in controller.ghosts:
        st.markdown(
            f"- an earlier run, with {ghost.label}: {max(ghost.view.steps, default=0)} steps"
        )
    if not controller.ghosts and (view is None or not view.changes):
        st.caption("Nothing yet. Turn a knob during a run, or after it.")


def parts(spec: Spec) -> None:
    """Where the parameters are, and the configuration as the code has it."""
    left, right = st.columns(2)
    with left:
        table = spec.model.parameters_by_part()
        st.dataframe(
            {"part": list(table), "parameters": list(table.values())},
            hide_index=True,
            width="stretch",
        )
    with right:
        values = {**spec.task.to_dict(), **spec.model.to_dict(), **spec.training.to_dict()}
        values.pop("vocabulary", None)
        st.json(values, expanded=False)
