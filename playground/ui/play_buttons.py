"""What every page with runs has: Play or Pause, and Reset."""

from collections.abc import Callable

import streamlit as st

from playground.history.file import FileUnavailable
from playground.ui.literal import literal


def press(action: Callable[..., None], *args) -> None:
    """Do what a button says; if it cannot be done, the page says why."""
    try:
        action(*args)
    except (ValueError, FileUnavailable) as error:
        st.session_state.refused = str(error)


def say_refusal() -> None:
    """Say why the last button did nothing."""
    if refused := st.session_state.pop("refused", None):
        st.error(literal(refused))


def play_or_pause(
    moving: bool,
    play: Callable[[], None],
    pause: Callable[[], None],
    *,
    label: str = "Play",
    why_not: str | None = None,
) -> None:
    """The button that trains, or where something is `moving` the one that pauses it.

    Args:
        why_not: why it cannot be pressed now.
    """
    common = {"type": "primary", "shortcut": "P", "on_click": press}
    if moving:
        st.button(
            "Pause",
            key="pause",
            icon=":material/pause:",
            args=(pause,),
            **common,
        )
    else:
        st.button(
            label,
            key="play",
            icon=":material/play_arrow:",
            args=(play,),
            disabled=why_not is not None,
            help=why_not,
            **common,
        )


def reset_button(reset: Callable[[], None]) -> None:
    st.button("Reset", key="reset", icon=":material/restart_alt:", on_click=reset)
