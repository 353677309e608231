"""Streamlit components of the playground."""

from playground.ui.components.live import (
    live_html,
    live_slider,
    live_stream,
    number_cells,
    table,
    two_lines,
)
from playground.ui.components.live_plot import Click, live_plot, show_plot

__all__ = [
    "Click",
    "live_html",
    "live_plot",
    "live_slider",
    "live_stream",
    "number_cells",
    "show_plot",
    "table",
    "two_lines",
]
