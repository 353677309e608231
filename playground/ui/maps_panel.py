"""The attention maps of the Playground: every head as a thumbnail, one of them large."""

from typing import Any

import numpy as np
import streamlit as st

from playground.figures import Layer, attention_map, thumbnails
from playground.figures.attention import colour_limit
from playground.figures.thumbnails import head_at
from playground.live.picture import Html, Part, Plot, Shown
from playground.runs.diagnosis import NO_ATTENTION
from playground.runs.snapshot import Attention, Frame, layer_title
from playground.runs.spec import Spec
from playground.ui.choices import HEIGHT, PROJECTED, Choices
from playground.ui.components import Click, live_html, show_plot, two_lines
from playground.ui.glossary import explain
from playground.ui.knob import settle_choice
from playground.ui.link import STAGES
from playground.ui.page_head import projector

IN_WORDS = {
    "scores": "How well each query (row) fits each key (column), before scaling and masking.",
    "scaled": "The scores times the scale: with √d_k their spread does not grow with the width.",
    "masked": "Grey cells are hidden by the mask; the softmax will give them exactly 0.",
    "weights": "Where each query (row) looks: a softmax, so each row of weights sums to 1.",
}
WHOLE, PART = 32, 24  # positions: more of them are shown in parts
THUMBNAIL, MOST_THUMBNAILS = 62, 0.42  # pixels of one; the share of the maps' width for all
MAPS_WIDTH = 520  # pixels in a window of usual width


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


def map_switches(spec: Spec, frame: Frame) -> None:
    """Which of the attention maps are shown: at which stage, of which layer and head."""
    if not frame.attention:
        return
    with st.container(
        horizontal=True, key="map_switches", vertical_alignment="center", gap="xsmall"
    ):
        stage_switch(label_visibility="collapsed")
        settle_choice("layer", layers_offered(frame))
        settle_choice("head", heads(spec))
        st.selectbox(
            "Block",
            layers_offered(frame),
            key="layer",
            bind="query-params",
            width=150 if projector() else 110,
            label_visibility="collapsed",
            help="Whose attention is shown.",
        )
        st.selectbox(
            "Head",
            heads(spec),
            key="head",
            bind="query-params",
            width=160 if projector() else 115,
            label_visibility="collapsed",
            help="Which of its heads is shown large.",
        )


def heads(spec: Spec) -> list[str]:
    """What the page offers to see of a layer."""
    return [f"head {head + 1}" for head in range(spec.model.n_heads)]


def chosen_layer(frame: Frame, choices: Choices) -> str:
    """The name of the chosen layer, or of the first one that the mask acts on."""
    names = {layer_title(name): name for name in frame.attention}
    return names.get(choices.layer, names[layers_offered(frame)[0]])


def layers_offered(frame: Frame) -> list[str]:
    """Titles of the layers; an encoder, on which the mask does not act, is last."""
    names = sorted(frame.attention, key=lambda name: name.startswith("encoder."))
    return [layer_title(name) for name in names]


def chosen_head(spec: Spec, choices: Choices) -> int:
    """Index of the chosen head, or of the first one."""
    offered = heads(spec)
    return offered.index(choices.head) if choices.head in offered else 0


def maps(spec: Spec, frame: Frame, choices: Choices) -> dict[str, Part]:
    """Every head of a frame as a thumbnail at the chosen stage, one large, and what it shows.

    Of a model without attention only words.
    """
    if not frame.attention:
        return {"attention_words": Html(f"<p data-no-attention>{explain(NO_ATTENTION)}</p>")}
    name, head, stage = chosen_layer(frame, choices), chosen_head(spec, choices), choices.stage
    chosen: Attention = frame.attention[name]
    layers = {layer_title(n): Layer(a.stages[stage], a.hidden) for n, a in frame.attention.items()}
    limit = colour_limit(stage, (layer.values for layer in layers.values()))
    size = choices.tall(HEIGHT, PROJECTED)
    across = thumbnails_width(spec, frame)
    overview = thumbnails(
        layers,
        stage=stage,
        limit=limit,
        chosen=(list(frame.attention).index(name), head),
        width=across,
        size=size,
    )
    values, words = chosen.stages[stage][head], IN_WORDS[stage]
    if not np.isfinite(values).all():
        words = "The attention is no longer finite: scrub back to see it as it was before."
    down, right = (part_shown(n, choices.map_end) for n in values.shape)
    if max(values.shape) > WHOLE:
        parts = [f"positions {part.start + 1} to {part.stop}" for part in (down, right)]
        both = parts[0] if down == right else f"queries at {parts[0]}, keys at {parts[1]}"
        words = f"Shown large: {both} of {max(values.shape)}. {words}"
    figure = attention_map(
        values[down, right],
        chosen.query_tokens[down],
        chosen.key_tokens[right],
        stage=stage,
        hidden=chosen.hidden[down, right],
        title=f"{layer_title(name)}, head {head + 1}",
        first=(down.start + 1, right.start + 1),
        limit=limit,
        width=MAPS_WIDTH - across,
        size=size,
    )
    return {
        "attention": Plot(figure, "attention"),
        "thumbnails": Plot(overview, "thumbnails", clickable=True),
        "attention_words": two_lines(explain(words), f'data-stage="{stage}"'),
    }


def thumbnails_width(spec: Spec, frame: Frame) -> int:
    """Pixels that the thumbnails have beside the large map."""
    wanted = THUMBNAIL * min(len(frame.attention), spec.model.n_heads) + 40
    return round(min(max(wanted, 120), MOST_THUMBNAILS * MAPS_WIDTH))


def part_shown(length: int, end: int | None) -> slice:
    """The positions that the large map shows of so many: all, or some up to the chosen one."""
    if length <= WHOLE:
        return slice(0, length)
    stop = min(max(end or length, PART), length)
    return slice(stop - PART, stop)


def draw_maps(spec: Spec, frame: Frame, parts: dict[str, Shown]) -> None:
    """The large map and, beside it (on a phone below it), the thumbnails to choose from."""
    if not frame.attention:
        live_html(parts["attention_words"])
        return
    across = thumbnails_width(spec, frame)
    large, small = st.columns([MAPS_WIDTH - across, across], gap="small")
    with large:
        show_plot(parts["attention"])
        _part_slider(frame)
    with small:
        show_plot(
            parts["thumbnails"],
            lambda click: _choose_map(click, len(frame.attention), spec.model.n_heads),
        )
    live_html(parts["attention_words"])


def _part_slider(frame: Frame) -> None:
    """Which part of a long text is shown large."""
    longest = max(max(a.stages["weights"].shape[1:]) for a in frame.attention.values())
    if longest <= WHOLE:
        return
    if not PART <= st.session_state.get("map_end", longest) <= longest:
        del st.session_state["map_end"]
    st.slider(
        "Last position shown",
        PART,
        longest,
        longest,
        key="map_end",
        help=f"The large map shows {PART} positions, up to this one.",
    )


def _choose_map(click: Click, n_layers: int, n_heads: int) -> None:
    st.session_state.layer = click.name
    st.session_state.head = f"head {head_at(click.x, click.y, n_layers, n_heads) + 1}"
