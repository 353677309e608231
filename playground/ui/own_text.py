"""The visitor's own text: pasted or uploaded, kept while it can be learnt.

A text does not fit into a link. The link holds the beginning of its SHA-256 instead, and a page
opened from such a link asks for the text.
"""

import hashlib
from collections.abc import Callable

import streamlit as st

from core.knobs import cut
from core.tasks.sources import MAX_TEXT_BYTES, clean, decode_upload
from playground.ui.literal import literal

LIMITS = f"UTF-8, or UTF-16 with a byte order mark; at most {MAX_TEXT_BYTES / 1e6:g} MB."
MISSING = "The source is your text, and there is none yet: choose a file or paste a text."


def fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def in_use() -> str | None:
    """The text that the visitor has added; None while there is none."""
    return st.session_state.get("own_text")


def draw(build: Callable[..., object]) -> str:
    """Ask for a text; the one in use, or an empty string while there is none.

    Args:
        build: makes the task of a `text`; raises ValueError where it cannot learn it.
    """
    if waiting := st.session_state.get("own_waiting"):
        _take(*waiting, build)
    if not in_use():
        st.info(MISSING)
    st.file_uploader(
        "A text file",
        key="own_file",
        on_change=_take_file,
        args=(build,),
        help=LIMITS,
        max_upload_size=5,
    )
    st.text_area(
        "… or paste a text",
        key="own_paste",
        on_change=_take_paste,
        args=(build,),
        height=120,
        help="The newer of the two is used.",
        persist_state="session",
    )
    if problem := st.session_state.get("own_problem"):
        st.error(literal(problem))
    wanted = st.text_input(
        "Fingerprint of the text",
        key="fingerprint",
        bind="query-params",
        disabled=True,
        help="The link holds this instead of the text.",
    )
    text = in_use() or ""
    if text:
        st.caption(f"In use: {len(text):,} characters, {len(set(text))} different ones.")
    elif wanted:
        st.warning(
            "This link was made with a text that it does not contain "
            f"({literal(cut(wanted))}): add it here."
        )
    return text


def _take_file(build: Callable[..., object]) -> None:
    if (file := st.session_state.own_file) is not None:
        data = file.getvalue()
        _take(lambda: decode_upload(data), file.name, build)


def _take_paste(build: Callable[..., object]) -> None:
    if pasted := st.session_state.own_paste:
        _take(lambda: clean(pasted), "The pasted text", build)


def _take(read: Callable[[], str], name: str, build: Callable[..., object]) -> None:
    """Use a new text, or say why not and keep the old one."""
    st.session_state.own_waiting = None
    try:
        text = read()
        st.session_state.own_waiting = (lambda: text), name  # other knobs may fit it
        build(text=text)
    except ValueError as error:
        kept = " The earlier text stays in use." if in_use() else ""
        st.session_state.own_problem = f"{name}: {error}.{kept}"
        return
    st.session_state.own_waiting = None
    wanted, got = st.session_state.get("fingerprint"), fingerprint(text)
    st.session_state.own_problem = None
    if wanted and wanted != got and not in_use():
        st.session_state.own_problem = (
            f"{name} has fingerprint {got}, the link was made with {cut(wanted)}: "
            "the curve will differ."
        )
    st.session_state.own_text, st.session_state.fingerprint = text, got
