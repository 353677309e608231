"""What the visitor of the Playground has chosen to look at."""

from dataclasses import dataclass, fields

import streamlit as st

from playground.ui.page_head import Tall

NEWEST = -1  # the right end of a scrubber: whatever step that is
HEIGHT, PROJECTED = 430, 500  # pixels of the two main figures


@dataclass(frozen=True)
class Choices:
    """What the visitor has chosen to look at."""

    stage: str = "weights"
    layer: str | None = None  # its title; None: the first one
    head: str | None = None  # None: the first one
    map_end: int | None = None  # the last position of the map that is shown; None: of them all
    step: int = NEWEST  # scrubbed back to
    tab: str = "Predictions"
    log: bool = False
    show_lr: bool = False
    projector: bool = False

    @classmethod
    def of_page(cls) -> "Choices":
        """What the page's widgets say, those that are there."""
        state, keys = st.session_state, {"step": "shown_step", "tab": "details"}
        names = [field.name for field in fields(cls)]
        found = {name: state.get(keys.get(name, name)) for name in names}
        return cls(**{name: value for name, value in found.items() if value is not None})

    @property
    def tall(self) -> Tall:
        return Tall(self.projector)
