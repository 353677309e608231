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

from playground.live.picture import Plot, Shown, shown
from playground.ui.components.live import component

_component = component(
    "live_plot",
    "mountPlot",
    '<div class="live-plot" role="img"></div>',
    """
.live-plot { width: 100%; overflow: hidden; }
.live-plot .modebar-container { opacity: 0; transition: opacity 0.2s; }
.live-plot:hover .modebar-container, .live-plot:focus-within .modebar-container { opacity: 1; }
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
    clickable: bool = False,
    name: str | None = None,
) -> Click | None:
    """Show a figure; call it again with the same key to change it in place.

    Args:
        figure: Plotly JSON as `playground.figures` returns it, or a `go.Figure`.
        key: identity of the picture on the page. Two equal figures need two keys.
        height: pixels; by default what the figure's layout says.
        alt: text alternative; by default the figure's own.
        on_click: called with the clicked point before the rerun.
        clickable: report clicks as this function's result, without a callback.
        name: file name of a saved picture; by default the key.

    Returns:
        The point clicked since the last run, else None. A click reruns the fragment that the
        picture is in, or the page.
    """
    if not isinstance(figure, dict):
        figure = json.loads(figure.to_json())
    clickable = clickable or on_click is not None
    return show_plot(shown(key, Plot(figure, name or key, clickable, height, alt)), on_click)


def show_plot(part: Shown, on_click: Callable[[Click], None] | None = None) -> Click | None:
    """The same for a part of what a page shows, which the stream changes in its place."""

    def clicked() -> None:
        point = st.session_state[part.key].get("click")
        if on_click is not None and point is not None:
            on_click(Click(**point))

    result = _component(
        key=part.key, data=part.message, height=part.part.size, on_click_change=clicked
    )
    point = result.get("click")
    return Click(**point) if point else None
