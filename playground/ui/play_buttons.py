"""What every page with runs has: Play or Pause, Reset, and pictures that move while the runs do."""

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from playground.ui.literal import literal

Seen = TypeVar("Seen")


def press(action: Callable[..., None], *args) -> None:
    """Do what a button says; if it cannot be done, the page says why."""
    try:
        action(*args)
    except ValueError as error:
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


def live(
    draw: Callable[[Seen], None],
    look: Callable[[], Seen],
    seen: Seen,
    moving: Callable[[Seen], bool],
    every: float,
) -> None:
    """Draw what moves, again and again while it does.

    Args:
        draw: draws the runs as they were seen.
        look: sees them as they are now.
        seen: how the page saw them when it drew its buttons. The first picture is of the same
            moment, so that what ends in between is looked at once more.
        moving: whether to look again.
        every: seconds between two looks.
    """
    first = [seen]

    def pictures() -> None:
        now = first.pop() if first else look()
        draw(now)
        if moving(seen) and not moving(now):
            st.rerun()  # the end has been seen: stop the clock, offer Play again

    st.fragment(pictures, run_every=every if moving(seen) else None)()
