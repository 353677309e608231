"""Who is looking: one workbench per browser tab, whose runs end when the tab does."""

from uuid import uuid4

import streamlit as st

from playground.comparison import Comparison
from playground.runs import RUNS
from playground.workbench import Workbench


@st.cache_resource(scope="session", on_release=RUNS.leave, show_spinner=False)
def _presence(owner: str) -> str:
    """Made anew when a tab comes back; released when it goes: runs pause, and end after a grace."""
    RUNS.come_back(owner)
    return owner


def bench() -> Workbench:
    """This visitor's workbench."""
    if "bench" not in st.session_state:
        st.session_state.bench = Workbench(uuid4().hex)
    _presence(st.session_state.bench.owner)
    return st.session_state.bench


def comparison() -> Comparison:
    """This visitor's comparison; its runs end with the tab as well."""
    if "compared" not in st.session_state:
        st.session_state.compared = Comparison(bench().owner)
    return st.session_state.compared
