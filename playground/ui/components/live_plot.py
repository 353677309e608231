"""A Plotly figure that changes without being built again.

`st.plotly_chart` takes a figure down and builds it again on every change of its data: the screen
is blank for a frame and the visitor's zoom is lost. This component hands the figure's JSON to
`Plotly.react` instead, with the plotly.js of the installed package, which `playground/app.py`
serves. Colours and fonts follow the visitor's theme (see `playground/figures/style.py`).
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import streamlit as st

from playground.figures.style import alt_text
from playground.live.picture import Plot, Shown, shown
from playground.ui.components.live import component
from playground.ui.knob import KEYS, Knob
from playground.ui.page_list import IDEAS

_component = component(
    "live_plot",
    "mountPlot",
    """
<div class="live-figure">
  <div class="live-plot" role="img"></div>
  <details class="save-plot">
    <summary>Save</summary>
    <button type="button">PNG</button><button type="button">SVG</button
    ><button type="button">HTML</button>
  </details>
</div>""",
    """
.live-figure { position: relative; }
.live-plot {
  width: calc(100% / var(--scale, 1)); overflow: auto hidden; transform-origin: 0 0;
}
.save-plot { position: absolute; top: 0; right: 0; z-index: 1; font-size: 0.8rem; opacity: 0; }
.live-figure:hover .save-plot, .save-plot:focus-within, .save-plot[open] { opacity: 1; }
@media (hover: none) { .save-plot { opacity: 1; } }
.save-plot > * {
  display: block; font: inherit; width: 100%; padding: 0 0.4rem; line-height: 1.35rem;
  list-style: none; text-align: center; cursor: pointer; color: var(--st-text-color);
  background: var(--st-background-color); border: 1px solid var(--st-border-color);
}
.save-plot > :is(:hover, :focus-visible) { color: var(--st-link-color); }
""",
)


class Click(NamedTuple):
    """A clicked point: number and name of its trace, and its position (of a map: key, query)."""

    trace: int
    name: str
    x: float
    y: float
    z: float | None


def live_plot(
    figure: Any,
    *,
    key: str,
    height: int | None = None,
    alt: str | None = None,
    on_click: Callable[[Click], None] | None = None,
    name: str | None = None,
) -> None:
    """Show a figure; call it again with the same key to change it in place.

    Args:
        figure: Plotly JSON as `playground.figures` returns it, or a `go.Figure`.
        key: identity of the picture on the page. Two equal figures need two keys.
        height: pixels; by default what the figure's layout says.
        alt: text alternative; by default the figure's own.
        on_click: called with the clicked point, before the fragment that the picture is in, or the
            page, is run again.
        name: file name of a saved picture; by default the key.
    """
    if not isinstance(figure, dict):
        figure = json.loads(figure.to_json())
    said = alt or alt_text(figure)
    title, caption = about_idea(key, said)
    plot = Plot(figure, name or key, on_click is not None, height, alt, title, caption)
    show_plot(shown(key, plot), on_click)


def about_idea(key: str, alt: str) -> tuple[str, tuple[str, ...]]:
    """Title and caption of a picture on the page of an idea, which its key begins with."""
    page = key.split("_")[0]
    if page not in IDEAS:
        return "", ()
    knobs = [knob for name, knob in KEYS.items() if name.startswith(f"{page}_")]
    chosen = [f"{k.name} {_in_words(k)}" for k in knobs if _is_there(k.key)]
    return IDEAS[page].title, (alt, "; ".join(chosen))


def _in_words(knob: Knob) -> str:
    value = st.session_state[knob.key]
    if isinstance(value, bool):
        return "on" if value else "off"
    return knob.show(value)


def _is_there(key: str) -> bool:
    return st.session_state.get(key) is not None


def show_plot(part: Shown, on_click: Callable[[Click], None] | None = None) -> None:
    """The same for a part of what a page shows, which the stream changes in its place."""

    def clicked() -> None:
        point = st.session_state[part.key].get("click")
        if on_click is not None and point is not None:
            on_click(Click(**point))

    _component(key=part.key, data=part.message, height=part.part.size, on_click_change=clicked)
