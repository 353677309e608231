"""Where things stand: side by side, behind a button, one below the other for the back row."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from playground.ui import allowed
from playground.ui.page_head import projector


def row() -> DeltaGenerator:
    """Room for knobs and buttons side by side."""
    return st.container(horizontal=True, vertical_alignment="bottom")


def more() -> DeltaGenerator:
    """Room for what is chosen less often: behind a button, unless a link leaves only a few."""
    if allowed.limited_here():
        return row()
    return st.popover("More", icon=":material/tune:")


def beside(share: float, **style: Any) -> Sequence[DeltaGenerator]:
    """Two columns, `share` to 1 in width; in projector mode one below the other."""
    if projector():
        return st.container(), st.container()
    return st.columns([share, 1], gap="medium", **style)
