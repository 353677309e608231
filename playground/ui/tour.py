"""A tour of the Playground for who comes for the first time: offered in a line, never again.

It is offered only where no link has led to something else.
"""

from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from playground.ui.components.first_time import first_time


class Stop(NamedTuple):
    """What a stop is about: the key of what it names, and what there is to say."""

    key: str
    says: str


STOPS = (
    Stop("transport", "**Press Play.** The model begins to learn, from its very first step."),
    Stop(
        "loss_chart",
        "**The loss** is to fall below the dashed lines of guessing, down to the floor.",
    ),
    Stop(
        "attention", "**Attention.** Each row is a query: the brighter a cell, the more it looks."
    ),
    Stop(
        "first_knobs",
        "**The knobs.** Turn *scale* to none while it trains: ● live changes this very model, and "
        "leaves a mark in the curve.",
    ),
    Stop("verdict_line", "**The verdict** says in a sentence what has been measured."),
    Stop(
        "details",
        "**More below**: what it predicts, its gradients, its data. To go on: Scenarios and "
        "Lessons, in the menu.",
    ),
)


def draw(few: DeltaGenerator | None) -> None:
    """The offer, or the stop that the visitor is at.

    Args:
        few: where the knobs of a phone are, whose sidebar is closed.
    """
    state = st.session_state
    if not state.setdefault("tour_offered", not st.query_params):
        return
    at = state.get("tour_at")
    new = first_time(at is not None, key="tour_memory")
    if at is None and new:
        with few or st.sidebar:
            _offer()
    elif at is not None and at < len(STOPS):
        _draw_stop(at, STOPS[at] if few is None else _on_phone(STOPS[at]))


def _offer() -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="tour_offer"):
        label = "First time here? The tour (1 min)"
        st.button(label, key="tour_start", type="tertiary", on_click=_go, args=(0,))
        st.button("×", key="tour_never", type="tertiary", on_click=_go, args=(len(STOPS),))


def _on_phone(stop: Stop) -> Stop:
    return stop._replace(key="few_knobs") if stop.key == "first_knobs" else stop


def _go(at: int) -> None:
    st.session_state.tour_at = at


def _draw_stop(at: int, stop: Stop) -> None:
    """A card, and a frame around what it names."""
    last = at + 1 == len(STOPS)
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="tour_card"):
        st.markdown(f"{at + 1}/{len(STOPS)} {stop.says}")
        st.button("Done" if last else "Next", key="tour_next", on_click=_go, args=(at + 1,))
        if not last:
            st.button("Skip", key="tour_skip", type="tertiary", on_click=_go, args=(len(STOPS),))
    st.html(
        f"<style>.st-key-{stop.key} {{ outline: 0.2rem solid var(--st-primary-color, #0060a8); "
        "outline-offset: 0.3rem; border-radius: 0.5rem; }</style>"
    )
