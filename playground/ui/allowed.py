"""What a teacher's link lets students see and turn: `turn=scale,lr`, and `show=seed` to see only.

On a page of which such a link names a control, the others are out of sight and keep the values of
the link. It is a help for learners, not a lock: one click ends it.
"""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import streamlit as st

from playground.ui.page_list import IDEAS
from playground.ui.turned import hold, turn

MOST = 12  # controls that a link may name: more are no help
# Controls of the Compare page that are no knobs: key -> what they are called.
OF_COMPARE = {"variants": "What to compare", "seeds": "Seeds"}
FIXED = "The link keeps it as it is."


class Allowed(NamedTuple):
    """What the link says of this page."""

    turn: tuple[str, ...] = ()  # keys of controls that may be turned
    show: tuple[str, ...] = ()  # those that are seen besides, and stay as they are

    def sees(self, key: str) -> bool:
        """Whether a control is in sight: those of another page are none of its business."""
        return key in self.named or all(family(key) != family(one) for one in self.named)

    def turns(self, key: str) -> bool:
        """Whether it may be turned as well."""
        return self.sees(key) and (key in self.turn or key not in self.show)

    @property
    def named(self) -> tuple[str, ...]:
        return (*self.turn, *self.show)


def family(key: str) -> str:
    """The page of the idea whose control this is; empty: one of a run, on all other pages."""
    return next((address for address in IDEAS if key.startswith(f"{address}_")), "")


def read(text: str) -> tuple[str, ...]:
    """The controls that a link names; whether there are such the caller knows.

    Raises:
        ValueError: they are not written as names, or too many.
    """
    names = tuple(dict.fromkeys(text.split(",")))
    if not all(re.fullmatch(r"[a-z]\w*", name, re.ASCII) for name in names):
        raise ValueError("give names of knobs, with commas between them")
    if len(names) > MOST:
        raise ValueError(f"{len(names)} knobs: give {MOST} at most")
    return names


def write(names: Iterable[str]) -> str:
    return ",".join(names)


def begin(address: str) -> None:
    """Read what the link says, before any knob is drawn. Draws nothing that is seen.

    Args:
        address: of the page.
    """
    st.session_state.allowed_page = address
    if (corrected := st.session_state.pop("allowed_next", None)) is not None:
        turn(corrected)
    said = []
    with st.container(key="unseen_allowed"):
        for key in Allowed._fields:
            text = st.text_input(key, key=key, bind="query-params", label_visibility="collapsed")
            try:
                said.append(read(text) if text else ())
            except ValueError:  # a link is settled before; a browser can send anything
                said.append(())
    st.session_state.allowed = Allowed(*said)


def allowed() -> Allowed:
    """What may be seen and turned here."""
    return st.session_state.get("allowed", Allowed())


def limited(idea: str = "") -> bool:
    """Whether a link limits the knobs of a run, or those of an idea's page."""
    return any(family(key) == idea for key in allowed().named)


def page() -> str:
    """The address of the page that is drawn."""
    return st.session_state.get("allowed_page", "")


def limited_here() -> bool:
    """Whether a link limits what is on this page."""
    return limited(page() if page() in IDEAS else "")


def place(key: str) -> AbstractContextManager:
    """Where a control is drawn: out of sight, it is still what its link says."""
    return nullcontext() if allowed().sees(key) else st.container(key=f"unseen_{key}")


def style(key: str, style: dict[str, Any]) -> dict[str, Any]:
    """How a control is drawn: as it would be, or fixed."""
    if allowed().turns(key):
        return style
    return style | {"disabled": True, "help": f"{style.get('help') or ''} {FIXED}".strip()}


def end() -> None:
    """Every control again, at the values that they have now."""
    hold()
    turn(free())


def drop(names: Iterable[str]) -> None:
    """Forget some of the names, from the next run of the page on."""
    if names := set(names):
        st.session_state.allowed_next = {
            key: write(name for name in said if name not in names)
            for key, said in allowed()._asdict().items()
        }


def free() -> dict[str, str]:
    """The keys of the link, and what they hold when there are no limits."""
    return dict.fromkeys(Allowed._fields, "")


def draw_way_out() -> None:
    """What the link has done, and the button that ends it."""
    with st.container(horizontal=True, vertical_alignment="center", key="way_out"):
        st.caption("Only the knobs that matter here are shown.", width="content")
        st.button("All knobs", key="all_knobs", icon=":material/tune:", on_click=end)
