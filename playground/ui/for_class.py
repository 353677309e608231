"""For my class: a link to this page that shows only some of its knobs, as text and as a QR code."""

from collections.abc import Iterable
from urllib.parse import urlencode, urlsplit

import streamlit as st

from playground.ui import allowed
from playground.ui.components.copy_link import copy_text
from playground.ui.controls import FIRST, MORE_MODEL, MORE_TRAINING
from playground.ui.knob import KEYS
from playground.ui.link import EVERY, OF_TASK, OTHERS, TASK, present
from playground.ui.literal import literal
from playground.ui.page_list import IDEAS
from playground.ui.qr import show_qr
from playground.ui.session import LOCAL_NAMES

# What is in the address of who makes the link, and no concern of who opens it.
OF_TEACHER = {"projector", "more_task", "more_model", "more_training", *allowed.Allowed._fields}
A_HELP = (
    "Choose what your students may turn. Everything else keeps the value it has now and is out "
    "of sight. This is a help for learners, not a lock: the button “All knobs” ends it, and the "
    "address is theirs to change."
)
ONLY_HERE = (
    "This address leads to this machine alone. For the phones of a class, start the server with "
    "`--server.address=0.0.0.0` and open this page under the machine's address in the network."
)


def button() -> None:
    """The way in, beside the switch for the back row."""
    st.button(
        "For my class",
        key="for_class",
        icon=":material/school:",
        type="tertiary",
        on_click=_open,
    )


def _open() -> None:
    st.session_state.class_dialog = True


def _close() -> None:
    st.session_state.class_dialog = False


def draw(page: str) -> None:
    """The dialog, while it is open; once the page has drawn its knobs."""
    if st.session_state.get("class_dialog"):
        _dialog(page)


@st.dialog("For my class", width="large", icon=":material/school:", on_dismiss=_close)
def _dialog(page: str) -> None:
    titles = controls_of(page)
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(A_HELP)
        turn = _choose("Students may turn", f"class_turn_{page}", titles)
        others = {key: title for key, title in titles.items() if key not in turn}
        show = _choose("They see besides, but cannot turn", f"class_show_{page}", others)
        if not turn and not show:
            return
        url = urlsplit(st.context.url or "")
        address = url._replace(path=url.path or "/", query=query(page, turn, show)).geturl()
        st.code(address, language=None, wrap_lines=True)
        copy_text(address, key="class_copy")
        if url.hostname in LOCAL_NAMES:
            st.caption(ONLY_HERE)
    with right:
        try:
            show_qr(address)
        except ValueError as error:
            st.warning(literal(f"{error}: send the link as text."))


def _choose(label: str, key: str, titles: dict[str, str]) -> list[str]:
    return st.multiselect(
        label,
        list(titles),
        key=key,
        format_func=titles.get,
        max_selections=allowed.MOST // 2,
        placeholder="none",
    )


def controls_of(page: str) -> dict[str, str]:
    """Key -> title, of all controls of a page that can be in sight or out of it."""
    if page in IDEAS:
        return {key: k.title for key, k in KEYS.items() if allowed.family(key) == page}
    more = (*OF_TASK[present(TASK.key)], *MORE_MODEL, *MORE_TRAINING)
    keys = (TASK.key, *FIRST, "window", *more, "seed")
    return {key: EVERY[key].title for key in keys} | (
        allowed.OF_COMPARE if page == "compare" else {}
    )


def query(page: str, turn: Iterable[str], show: Iterable[str]) -> str:
    """What the link says: the limits, and every value of the page that is not a default."""
    knobs = [KEYS[key] for key in controls_of(page) if key in KEYS]
    values = {
        knob.key: knob.in_link(knob.present()) for knob in knobs if knob.present() != knob.default
    }
    others = {
        key: st.query_params[key]
        for key in st.query_params
        if key in OTHERS and key not in OF_TEACHER
    }
    limits = {"turn": allowed.write(turn), "show": allowed.write(show)}
    return urlencode(
        {key: text for key, text in (limits | values | others).items() if text}, safe=","
    )
