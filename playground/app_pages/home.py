"""Home: what a transformer does, in a sentence, and where to begin."""

import streamlit as st

from playground import scenarios
from playground.glossary import explain
from playground.ideas import IDEAS
from playground.visitor import bench as my_bench

IN_A_SENTENCE = (
    "A transformer lets every token ask all others a question: its query is compared with every key, "
    "the softmax turns the scores into weights, and the answer is the mean of the values under these "
    "weights. All of it is learnt."
)
COLUMNS = 4
TO_START_WITH = ("scaling-saves", "order-blind", "leak")
PAGES = {
    "playground": ("Playground", "play_circle", "Turn a knob, press Play, watch attention and loss."),
    "scenarios": ("Scenarios", "science", "Prepared questions: predict first, then run."),
    "compare": ("Compare", "compare_arrows", "Change one thing, the same seeds, side by side."),
    "history": ("History", "history", "Your earlier runs, laid over each other."),
    "code": ("The code", "code", "The very files that run, in the order to read them."),
}  # fmt: skip


def card(page: str, title: str, icon: str, says: str, **link) -> None:
    """One page: its name, which is the way there, and what it says."""
    with st.container(border=True, height="stretch"):
        st.page_link(
            f"app_pages/{page}.py", label=f"**{title}**", icon=f":material/{icon}:", **link
        )
        st.caption(says)


def grid(cards: list[tuple], columns: int) -> None:
    for start in range(0, len(cards), columns):
        row = cards[start : start + columns]
        for column, found in zip(st.columns(columns), row, strict=False):
            with column:
                card(*found)


st.session_state.head.header(
    "Change one thing in a transformer, and see what happens", anchor=False
)
st.html(f'<p style="font-size: 1.2rem; line-height: 1.5">{explain(IN_A_SENTENCE)}</p>')
with st.container(horizontal=True, vertical_alignment="center"):
    if st.button(
        "Open the Playground", key="home_play", type="primary", icon=":material/play_circle:",
        help="A small model is ready; Play trains it before your eyes.",
    ):  # fmt: skip
        st.switch_page("app_pages/playground.py", query_params={})
    st.caption(f"Computed on: {my_bench().device.words}.")

st.subheader("Three questions to start with", anchor=False)
found = scenarios.load()
for column, name in zip(st.columns(3), TO_START_WITH, strict=True):
    with column:
        card(
            "scenarios", found[name].title, "science", found[name].question,
            query_params={"scenario": name},
        )  # fmt: skip

st.subheader("One idea at a time", anchor=False)
grid([(name, idea.title, idea.icon, idea.says) for name, idea in IDEAS.items()], COLUMNS)

st.subheader("The instruments", anchor=False)
grid([(name, *about) for name, about in PAGES.items()], len(PAGES))
