"""Who is looking: one controller per browser tab, whose runs end when the tab does.

The history lasts longer: it belongs to the machine's user where the app runs for one person, and
to the visitor's browser where it serves several.
"""

from contextlib import suppress
from urllib.parse import urlsplit
from uuid import uuid4

import streamlit as st

from playground.experiments.comparison import Comparison
from playground.experiments.variants import Setup
from playground.history.database import EVERYONE
from playground.history.recorder import RECORDER, chosen_mode
from playground.live.channel import Channel, close_all_of
from playground.runs.controller import Controller
from playground.runs.pool import RUNS
from playground.ui.components.cookie import forgetful, visitor_id
from playground.ui.literal import literal


def _leave(owner: str) -> None:
    RUNS.leave(owner)
    close_all_of(owner)


@st.cache_resource(scope="session", on_release=_leave, show_spinner=False)
def _presence(owner: str) -> str:
    """Made again when a tab comes back; released when it goes: runs pause, and end later."""
    RUNS.come_back(owner)
    return owner


def controller() -> Controller:
    """This visitor's controller."""
    if "controller" not in st.session_state:
        st.session_state.controller = Controller(uuid4().hex)
    owner = st.session_state.controller.owner
    _presence(owner)
    RECORDER.set_owner(owner, history_owner())
    return st.session_state.controller


def channel() -> Channel:
    """What this tab shows of its runs; nobody can watch it once the tab has gone."""
    if "channel" not in st.session_state:
        st.session_state.channel = Channel(controller().owner)
    st.session_state.channel.open = True
    return st.session_state.channel


def comparison() -> Comparison:
    """This visitor's comparison; its runs end with the tab as well."""
    if "compared" not in st.session_state:
        st.session_state.compared = Comparison(controller().owner)
    return st.session_state.compared


def start_runs(compared: Comparison, setup: Setup, seeds: int = 1) -> None:
    """Put a setup to work.

    Raises:
        ValueError: more than this server takes on; the message has the numbers.
    """
    compared.start(setup, seeds)
    controller().fresh = False


# --- whose history ----------------------------------------------------------------------------

LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}
PROXIES = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via")


def history_mode() -> str:
    """`single`: one history for all, `visitor`: one for each browser, `off`: none.

    Single is for who sits at the machine that serves the app, and nobody else; PLAYGROUND_HISTORY
    may say so for all.

    Raises:
        ValueError: PLAYGROUND_HISTORY is none of these.
    """
    return chosen_mode() or ("single" if is_local() else "visitor")


def is_local() -> bool:
    """Whether the visitor sits at this machine.

    The server listens on no other one, the page was asked for by this machine's name and the
    server's own port, and no proxy stands in between. Behind a forwarded port one of these differs.
    """
    headers = st.context.headers
    own = st.get_option("server.address") in LOCAL_NAMES and st.context.ip_address is None
    proxied = any(header in headers for header in PROXIES)
    asked = [f"//{headers['Host']}"] if "Host" in headers else []
    asked += [headers["Origin"]] if "Origin" in headers else []
    return own and not proxied and all(map(_is_own_address, asked))


def _is_own_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.hostname in LOCAL_NAMES and (parts.port or 80) == st.get_option("server.port")
    except ValueError:  # a port that is no number
        return False


def history_owner() -> str | None:
    """Whose runs this visitor's are in the history; None: none is kept."""
    mode = history_mode()
    if mode == "off":
        return None
    return EVERYONE if mode == "single" else visitor_id()


def how_long() -> str:
    """Where this visitor's history is, and how long it lasts."""
    if history_mode() == "single":
        with suppress(RuntimeError):  # no home folder: the list of runs says so
            return f"They are kept on this machine, in {RECORDER.history.path}."
        return "They would be kept on this machine."
    if forgetful():
        return (
            "Your browser keeps no cookie of this page, so they are yours only as long as this tab "
            "is open: download what you want to keep."
        )
    return (
        "They are kept on the server, for this browser only: in another one, or without its "
        "cookies, the history starts empty."
    )


def for_visitor(problem: str) -> str:
    """What is wrong with the history; where the file is concerns only who runs the server."""
    return problem if history_mode() == "single" else "the run history could not be used"


def say_history_problem() -> None:
    """Say once that runs are not kept, and why."""
    problem = RECORDER.problem
    if problem and history_owner() is not None and problem != st.session_state.get("history_said"):
        st.session_state.history_said = problem
        st.toast(literal(f"Your runs are not kept: {for_visitor(problem)}."), duration="long")
