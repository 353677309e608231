"""What is at the top of every page: its title, and the switch for the back row."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from playground.figures.style import Sizes, sizes


def draw(knobs: bool) -> None:
    """Draw the head; on a page with knobs in the sidebar, the switch is there."""
    if knobs:
        switches = st.sidebar
    else:
        left, switches = st.columns([5, 1], vertical_alignment="center")
        st.session_state.page_head = left
    switches.toggle(
        "Projector",
        key="projector",
        bind="query-params",
        help="Larger text and thicker lines, for the back row.",
    )


def head() -> DeltaGenerator:
    """Where a page without knobs puts its title."""
    return st.session_state.page_head


def projector() -> bool:
    """Whether the page is drawn for the back row."""
    return st.session_state.get("projector", False)


def tall(usual: int | None, projected: int | None = None) -> Sizes:
    """How high a figure is, for the back row perhaps another height, and how large its text."""
    return sizes(projected or usual if projector() else usual, projector())
