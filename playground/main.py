"""The entry script: what all pages share. Run it through the server: `streamlit run playground/app.py`."""

from pathlib import Path

import streamlit as st

from playground import controls
from playground.components.cookie import remember_visitor
from playground.ideas import IDEAS
from playground.visitor import bench, history_mode, say_history_problem

# A file of our own: Streamlit would fetch a named icon from the internet.
ICON = str(Path(__file__).with_name("icon.png"))

PAGES = [
    st.Page(
        "app_pages/home.py", title="Home", icon=":material/home:",
        help="What this is, and where to begin.",
    ),
    st.Page(
        "app_pages/playground.py", title="Playground", icon=":material/play_circle:", default=True,
        help="Train a small transformer and watch its attention and its loss.",
    ),
    st.Page(
        "app_pages/scenarios.py", title="Scenarios", icon=":material/science:",
        help="Prepared questions: predict, run, compare, and then the reason.",
    ),
    st.Page(
        "app_pages/compare.py", title="Compare", icon=":material/compare_arrows:",
        help="Change one thing, same seeds, side by side.",
    ),
    st.Page(
        "app_pages/history.py", title="History", icon=":material/history:",
        help="Your earlier runs: lay them over each other, load them back.",
    ),
    st.Page(
        "app_pages/code.py", title="The code", icon=":material/code:",
        help="Every line of the model that runs here, in the order to read it.",
    ),
]  # fmt: skip
LESSONS = [
    st.Page(
        f"app_pages/{name}.py", title=idea.title, icon=f":material/{idea.icon}:", help=idea.says
    )
    for name, idea in IDEAS.items()
]

# Pages that the knobs in the sidebar are for, by their addresses; the others have a head instead.
USE_KNOBS = ("", "compare")

# A width and a text size that the theme has no words for.
STYLE = "[data-testid=stMainBlockContainer] { padding-left: 2rem; padding-right: 2rem; }"
PROJECTOR = "html { font-size: clamp(17px, 1.4vw, 26px); }"

st.set_page_config("Transformer playground", page_icon=ICON, layout="wide")
replaced = controls.check_link()
page = st.navigation({"": PAGES, "Ideas": LESSONS}, position="top")
uses_knobs = page.url_path in USE_KNOBS
st.set_page_config(initial_sidebar_state="auto" if uses_knobs else "collapsed")
if uses_knobs:
    switches = st.sidebar
else:
    st.session_state.head, switches = st.columns([5, 1], vertical_alignment="center")
with switches:
    projector = st.toggle(
        "Projector", key="projector", bind="query-params",
        help="Larger text and thicker lines, for the back row.",
    )  # fmt: skip
with st.sidebar:
    st.session_state.choice = controls.draw(bench().device)
first = st.session_state.setdefault("first_choice", st.session_state.choice)
if replaced and st.session_state.choice == first:
    st.warning(
        "Not everything in this link could be used. " + " ".join(f"{note}." for note in replaced)
    )
if history_mode() == "visitor":
    remember_visitor()
say_history_problem()
st.html(f"<style>{STYLE}{PROJECTOR * projector}</style>")
page.run()
