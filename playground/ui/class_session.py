"""Which class this browser is in, and whether it is its teacher's.

A student's browser is known by the cookie that all visitors have. The teacher's keeps the secret of
the class in a cookie of its own, so that it comes back after a restart without a link.
"""

from urllib.parse import urlencode, urlsplit

import streamlit as st
from streamlit.net_util import get_internal_ip

from playground.classroom.database import CLASSES
from playground.classroom.recorder import BOARD
from playground.history.file import FileUnavailable
from playground.ui.components.cookie import kept_secret, kept_secrets, visitor_id
from playground.ui.literal import literal
from playground.ui.page_list import INSTRUMENTS
from playground.ui.session import LOCAL_NAMES


def hear_runs(tab: str) -> None:
    """Let this tab's finished runs find the class that its browser is in."""
    BOARD.set_browser(tab, visitor_id())


def joined() -> str | None:
    """The class whose student this browser is, as far as this tab knows."""
    if "joined_class" not in st.session_state:
        try:
            st.session_state.joined_class = CLASSES.of(visitor_id())
        except FileUnavailable:
            st.session_state.joined_class = None
    return st.session_state.joined_class


def say_class() -> None:
    """On the Playground of a student: that the class sees what comes out, and the way back."""
    if code := joined():
        st.page_link(
            INSTRUMENTS["class"].file,
            label=f"Class {literal(code)}: your finished runs go on its board",
            icon=":material/groups:",
        )


def has_joined(code: str | None) -> None:
    """Remember that this browser has joined a class, or None, that it has left."""
    st.session_state.joined_class = code


def taught() -> str | None:
    """A class whose teacher's browser this is; None: there is none that this tab knows of."""
    for code, secret in [*_secrets().items(), *kept_secrets().items()]:
        if CLASSES.is_teacher(code, secret):
            return code
    return None


def secret_of(code: str) -> str:
    """The teacher's secret, where this browser has it; else an empty text, which opens nothing."""
    return _secrets().get(code) or kept_secret(code)


def remember(code: str, secret: str) -> None:
    """Let this tab act as the teacher's; the page lets the browser keep the secret, too."""
    _secrets()[code] = secret


def forget(code: str) -> None:
    """A class that has ended has no secret."""
    _secrets().pop(code, None)


def _secrets() -> dict[str, str]:
    return st.session_state.setdefault("class_secrets", {})


def link_to(code: str, secret: str | None = None) -> str:
    """The address with which students join; with the secret, the teacher's own."""
    here = urlsplit(st.context.url or "http://localhost:8501/class")
    host = here.netloc
    if here.hostname in LOCAL_NAMES and not only_here():  # a phone cannot ask for "localhost"
        host = f"{get_internal_ip()}:{here.port or 80}"
    given = {"class": code} | ({"teacher": secret} if secret else {})
    return here._replace(netloc=host, query=urlencode(given), fragment="").geturl()


def only_here() -> bool:
    """Whether the server listens on this machine alone: no phone can come."""
    return st.get_option("server.address") in LOCAL_NAMES
