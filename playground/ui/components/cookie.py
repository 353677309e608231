"""What a browser keeps in cookies: a visitor's lasting id, and the secrets of a teacher's classes.

With the id the history of today is theirs tomorrow, and a vote is one a browser.
"""

import re
from uuid import uuid4

import streamlit as st

NAME = "transformer_playground"
YEAR = 365 * 24 * 3600  # seconds
DAY = 24 * 3600
ID, SECRET = "[0-9a-f]{32}", "[0-9a-zA-Z_-]{32}"

_component = st.components.v2.component(
    "cookie",
    html="",
    js="""
export default function ({ data: { name, mine, seconds, form }, setStateValue }) {
  const read = () => document.cookie.match(new RegExp(`(?:^|; )${name}=(${form})(?:;|$)`))?.[1]
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
        kept = str(st.context.cookies.get(NAME, ""))
        st.session_state.visitor_id = kept if _is_id(kept) else uuid4().hex
    return st.session_state.visitor_id


def remember_visitor() -> None:
    """Let the browser keep the id. Draws nothing that is seen."""
    data = {"name": NAME, "mine": visitor_id(), "seconds": YEAR, "form": ID}
    found = _component(key="cookie", data=data, height=0, on_found_change=lambda: None).get("found")
    st.session_state.forgetful = found == ""
    if found and _is_id(found):
        st.session_state.visitor_id = found


def remember_secret(code: str, secret: str) -> None:
    """Let the browser keep the secret of a class for the day that it lasts. Draws nothing."""
    data = {"name": f"{NAME}_{code}", "mine": secret, "seconds": DAY, "form": SECRET}
    _component(key="cookie_of_class", data=data, height=0, on_found_change=lambda: None)


def kept_secret(code: str) -> str:
    """The secret of a class that this browser keeps; empty: it keeps none."""
    return kept_secrets().get(code, "")


def kept_secrets() -> dict[str, str]:
    """Code -> secret, of all classes of which this browser keeps one."""
    start = f"{NAME}_"
    cookies = st.context.cookies.to_dict()
    return {name[len(start) :]: cookies[name] for name in cookies if name.startswith(start)}


def forgetful() -> bool:
    """Whether the browser has refused to keep the id."""
    return st.session_state.get("forgetful", False)


def _is_id(text: str) -> bool:
    return re.fullmatch(ID, text) is not None
