"""What a link holds in vain: said on the page that it led to, until it is dismissed."""

import streamlit as st


def begin(page: str) -> None:
    """Say at the top of each run which page it is of."""
    st.session_state.notes_page = page


def note(key: str, text: str) -> None:
    """Say that something in the link could not be used; the page has to run again to show it."""
    _notes()[key] = st.session_state.get("notes_page", ""), text


def forget(key: str | None = None) -> None:
    """Say no longer what is said of one key, or of any."""
    if key is None:
        _notes().clear()
    _notes().pop(key, None)


def draw() -> None:
    """Draw the notes that belong to this page, with a button to dismiss them."""
    page = st.session_state.get("notes_page", "")
    if texts := [f"{text}." for where, text in _notes().values() if where == page]:
        with st.container(horizontal=True, vertical_alignment="center", key="link_warning"):
            st.warning(f"Not everything in this link could be used. {' '.join(texts)}")
            st.button(
                "×", key="dismiss_notes", type="tertiary", on_click=forget, help="Dismiss this."
            )


def _notes() -> dict[str, tuple[str, str]]:
    return st.session_state.setdefault("link_notes", {})
