"""Knobs that the page turns by itself, and what a browser makes of them.

With each run of the page the browser tells what its knobs show. One that the page has turned it
shows only once that run has arrived: what it tells before would undo the turn. And where it draws
a page anew, it may show what a knob starts with instead of what it holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import streamlit as st

IN_FLIGHT = 1.0  # seconds from the end of a run of the page until the browser shows it


@dataclass
class Turned:
    """What was turned: key -> what the browser shows until it hears of it, and the new value."""

    values: dict[str, tuple[Any, Any]]
    drawn: float | None = None  # when a run of the page had drawn it


def turn(values: Mapping[str, Any]) -> None:
    """Turn knobs, by their keys. Call it in a callback, or before they are drawn."""
    state = st.session_state
    state.turned = Turned({key: (state.get(key), value) for key, value in values.items()})
    for key, value in values.items():
        state[key] = value


def hold() -> None:
    """Keep what the page has turned, though the browser tells what was there before."""
    state = st.session_state
    turned: Turned | None = state.get("turned")
    if turned is None:
        return
    if turned.drawn is not None and monotonic() - turned.drawn > IN_FLIGHT:
        del state["turned"]
        return
    for key, (old, new) in turned.values.items():
        if key in state and state[key] == old:
            state[key] = new


def begin(page: str, keys: Iterable[str]) -> None:
    """Before a page is drawn.

    Args:
        page: its address.
        keys: those of its widgets and of others.
    """
    hold()
    state = st.session_state
    if state.get("drawn_page") == page:
        return
    for key in keys:
        if key in state:
            state[key] = state[key]  # so that it is told to the browser


def end(page: str) -> None:
    """When all of a page is drawn."""
    st.session_state.drawn_page = page
    turned: Turned | None = st.session_state.get("turned")
    if turned is not None and turned.drawn is None:
        turned.drawn = monotonic()
