"""The entry script: what all pages share. Run it through the server: `streamlit run playground/app.py`."""

import streamlit as st

from playground import controls
from playground.visitor import bench

PAGES = [
    st.Page(
        "app_pages/playground.py", title="Playground", icon=":material/play_circle:", default=True,
        help="Train a small transformer and watch its attention and its loss.",
    ),
    st.Page(
        "app_pages/code.py", title="The code", icon=":material/code:",
        help="Every line of the model that runs here, in the order to read it.",
    ),
]  # fmt: skip

st.set_page_config("Transformer playground", page_icon=":material/neurology:", layout="wide")
replaced = controls.check_link()
page = st.navigation(PAGES, position="top")
with st.sidebar:
    st.session_state.choice = controls.draw(bench().device)
if replaced:
    st.warning(
        "This link asked for something impossible. " + " ".join(f"{note}." for note in replaced)
    )
if st.session_state.get("projector"):
    st.html(
        "<style>html { font-size: 21px; } section[data-testid=stSidebar] { min-width: 22rem; }</style>"
    )
page.run()
