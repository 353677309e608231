"""What moves on a page: words and figures, drawn by one script that their components share.

The script is served by `playground/app.py`, so that it travels once and not with every message.
Streamlit draws each part once; from then on the stream of the tab (`playground/live/`) changes it.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from playground.live.channel import Channel
from playground.live.picture import Html, Shown
from playground.ui.scripts import LIVE_PATH

# `MOUNT` is a function of live.js. Streamlit's own scripts tell where the app is mounted.
# A connection may fail for a moment; what failed once is not asked for again under its name.
_STUB = """
export default function (component) {
  const own = document.querySelector('script[src*="static/js/"]')
  const base = own ? own.src.split("static/js/")[0] : new URL("./", location.href).href
  const load = (n) => import(base + "PATH?" + n).catch((error) => {
    if (n > 4) throw error
    return new Promise((go) => setTimeout(go, 1000)).then(() => load(n + 1))
  })
  window.playgroundLive ??= load(0)
  const mounted = window.playgroundLive.then((live) => live.MOUNT(component))
  return () => mounted.then((unmount) => unmount())
}
"""


def component(name: str, mount: str, html: str, css: str = "") -> Any:
    """A Streamlit component that a function of live.js draws."""
    # Without a shadow root: plotly.js keeps its style rules in the document.
    return st.components.v2.component(
        name,
        html=html,
        css=css or None,
        js=_STUB.replace("PATH", LIVE_PATH).replace("MOUNT", mount),
        isolate_styles=False,
    )


_stream = component("live_stream", "mountStream", '<div class="live-stream"></div>')


def live_stream(channel: Channel) -> bool:
    """Let the tab watch its channel. Draws nothing that is seen; a new turn reruns the page.

    Returns:
        Whether the window is as narrow as a phone. Of a new one that is known at the second run.
    """
    data = {"token": channel.token}
    again = {"on_turn_change": lambda: None, "on_narrow_change": lambda: None}
    return bool(_stream(key="live_stream", data=data, height=0, **again).get("narrow"))


def live_html(part: Shown) -> None:
    """A piece of HTML that the stream changes in its place."""
    st.html(f'<div data-live="{part.key}" data-newest="{part.number}">{part.part.html}</div>')


_slider = component(
    "live_slider",
    "mountSlider",
    '<label class="live-slider"><span></span><input type="range" min="0"><output></output></label>',
    """
.live-slider { display: grid; grid-template-columns: 1fr auto; column-gap: 0.6rem; }
.live-slider span { grid-column: 1 / -1; font-size: 0.875rem; }
.live-slider input { width: 100%; accent-color: var(--st-primary-color); }
.live-slider output { min-width: 5rem; font-size: 0.875rem; }
""",
)


def live_slider(part: Shown, on_move: Callable[[int], None]) -> None:
    """A slider to which the stream adds stops; `on_move` is called with the chosen value."""

    def moved() -> None:
        value = st.session_state[part.key].get("value")
        if isinstance(value, int):
            on_move(value)

    _slider(key=part.key, data=part.message, height=56, on_value_change=moved)


def number_cells(cells: Mapping[str, tuple[str, str]]) -> Html:
    """Numbers side by side, as many as fit: title -> (value, what it means)."""
    return Html(
        '<div class="numbers">'
        + "".join(
            f'<div title="{escape(help)}"><small>{escape(title)}</small>'
            f'<b data-number="{escape(title)}">{escape(value)}</b></div>'
            for title, (value, help) in cells.items()
        )
        + "</div>"
    )


def two_lines(text: str, about: str = "") -> Html:
    """A remark of fixed height, so that nothing moves when it comes or goes."""
    return Html(f'<small class="two-lines" {about}>{text}</small>')


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """HTML of a table: a row for each mapping, title of the column -> what stands there."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in rows[0])
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row.values()) for row in rows)
    return (
        f'<div class="numbers-table"><table><thead><tr>{titles}</tr></thead><tbody>'
        + "".join(f"<tr>{line}</tr>" for line in lines)
        + "</tbody></table></div>"
    )
