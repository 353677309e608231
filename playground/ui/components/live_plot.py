"""A Plotly figure that changes without being built again.

`st.plotly_chart` takes a figure down and builds it again on every change of its data: the screen
is blank for a frame and the visitor's zoom is lost. This component hands the figure's JSON to
`Plotly.react` instead, with the plotly.js of the installed package, which `playground/app.py`
serves. Colours and fonts follow the visitor's theme (see `playground/figures/style.py`).
"""

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import streamlit as st

from playground.figures.style import GRID, HIDDEN, MUTED, RUN_COLOURS, TEMPLATE, TEXT, alt_text

PLOTLY_FILE = f"plotly-{importlib.metadata.version('plotly')}.min.js"
PLOTLY_PATH = f"assets/{PLOTLY_FILE}"

_CONSTANTS = {
    "SCRIPT": PLOTLY_PATH,
    "PALETTE": RUN_COLOURS,
    "NEUTRALS": {"text": TEXT, "muted": MUTED, "grid": GRID, "hidden": HIDDEN},
    "TEMPLATE": TEMPLATE,
}
_JS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")

# Without a shadow root: plotly.js keeps its style rules in the document.
_component = st.components.v2.component(
    "live_plot",
    html='<div class="live-plot" role="img"></div>',
    css="""
.live-plot { width: 100%; overflow: hidden; }
.live-plot .modebar-container { opacity: 0; transition: opacity 0.2s; }
.live-plot:hover .modebar-container, .live-plot:focus-within .modebar-container { opacity: 1; }
""",
    js=_JS.replace('"CONSTANTS"', json.dumps(_CONSTANTS)),
    isolate_styles=False,
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
    layout = figure["layout"]
    height = height or layout.get("height") or 400
    payload = {
        "height": height,
        "alt": alt or alt_text(figure),
        "name": name or key,
        "clickable": clickable or on_click is not None,
        # The browser has the template, in the visitor's colours.
        "figure": {**figure, "layout": {**layout, "height": height, "template": None}},
    }

    def clicked() -> None:
        point = st.session_state[key].get("click")
        if on_click is not None and point is not None:
            on_click(Click(**point))

    result = _component(
        key=key,
        data=orjson.dumps(payload, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY),
        height=height,
        on_click_change=clicked,
    )
    point = result.get("click")
    return Click(**point) if point else None


def _plain(value: Any) -> Any:
    """Sequences that orjson does not know: a transposed array, a range, a deque."""
    return value.tolist() if hasattr(value, "tolist") else list(value)
