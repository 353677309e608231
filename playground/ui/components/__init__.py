"""Streamlit components of the playground."""

from playground.ui.components.live_plot import Click, live_plot

__all__ = ["Click", "live_plot"]
