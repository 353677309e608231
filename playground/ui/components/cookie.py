"""A visitor's lasting id: a cookie, so that the history of today is theirs tomorrow."""

import re
from uuid import uuid4

import streamlit as st

NAME = "transformer_playground"
YEAR = 365 * 24 * 3600  # seconds

_component = st.components.v2.component(
    "cookie",
    html="",
    js="""
export default function ({ data: { name, mine, seconds }, setStateValue }) {
  const read = () => document.cookie.match(new RegExp(`(?:^|; )${name}=([0-9a-f]{32})(?:;|$)`))?.[1]
  // Another tab may have been here first: both are one visitor.
  document.cookie = `${name}=${read() ?? mine}; path=/; max-age=${seconds}; samesite=lax`
  const found = read() ?? ""
  if (found !== mine) setStateValue("found", found)
}
""",
)


def visitor_id() -> str:
    """The id that this browser keeps; a new one where it keeps none yet."""
    if "visitor_id" not in st.session_state:
        kept = st.context.cookies.get(NAME, "")
        st.session_state.visitor_id = kept if _is_id(kept) else uuid4().hex
    return st.session_state.visitor_id


def remember_visitor() -> None:
    """Let the browser keep the id. Draws nothing that is seen."""
    data = {"name": NAME, "mine": visitor_id(), "seconds": YEAR}
    found = _component(key="cookie", data=data, height=0, on_found_change=lambda: None).get("found")
    st.session_state.forgetful = found == ""
    if found and _is_id(found):
        st.session_state.visitor_id = found


def forgetful() -> bool:
    """Whether the browser has refused to keep the id."""
    return st.session_state.get("forgetful", False)


def _is_id(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{32}", text) is not None
