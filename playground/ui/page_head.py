"""What is at the top of every page: its title, the switch for the back row, and the styles."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from playground.figures.style import Sizes, sizes


def draw(knobs: bool, more: Callable[[], None] | None = None) -> None:
    """Draw the head; on a page with knobs in the sidebar, the switch is there.

    Args:
        more: draws what else belongs beside the switch.
    """
    if knobs:
        place = st.sidebar
    else:
        left, place = st.columns([3, 2], vertical_alignment="center")
        st.session_state.page_head = left
    side = "left" if knobs else "right"
    with place.container(
        horizontal=True, horizontal_alignment=side, vertical_alignment="center", key="switches"
    ):
        st.toggle(
            "Projector",
            key="projector",
            bind="query-params",
            help="Larger text and thicker lines, for the back row.",
        )
        if more is not None:
            more()


def draw_styles() -> None:
    """What pages look like, besides the theme; for the back row larger."""
    styles = ["pages.css", "stage.css"] if projector() else ["pages.css"]
    for name in styles:
        st.html(Path(__file__).with_name(name))


def head() -> DeltaGenerator:
    """Where a page without knobs puts its title."""
    return st.session_state.page_head


def projector() -> bool:
    """Whether the page is drawn for the back row."""
    return st.session_state.get("projector", False)


@dataclass(frozen=True)
class Tall:
    """How high a figure is, for the back row perhaps another height, and how large its text.

    What is drawn in another thread takes it along: `tall` asks the page.
    """

    projector: bool

    def __call__(self, usual: int | None, projected: int | None = None) -> Sizes:
        return sizes(projected or usual if self.projector else usual, self.projector)


def tall(usual: int | None, projected: int | None = None) -> Sizes:
    """The same as the page is now."""
    return Tall(projector())(usual, projected)
