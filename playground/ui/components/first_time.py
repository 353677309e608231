"""Whether this browser has met the tour before; it remembers that by itself."""

import streamlit as st

_component = st.components.v2.component(
    "first_time",
    html="",
    js="""
export default function ({ data, setStateValue }) {
  try {
    if (data.met) localStorage.setItem("tour", "met")
    else if (localStorage.getItem("tour") === null) setStateValue("first", true)
  } catch {} // a browser that keeps nothing is not asked again and again
}
""",
)


def first_time(met: bool, *, key: str) -> bool:
    """Whether nobody in this browser has met the tour. Draws nothing that is seen.

    Args:
        met: remember that it has been met now.
    """
    found = _component(key=key, data={"met": met}, height=0, on_first_change=lambda: None)
    return bool(found.get("first")) and not met
