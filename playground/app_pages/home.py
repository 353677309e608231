"""Home: what a transformer does, in a sentence, and where to begin."""

import streamlit as st

from playground.experiments import scenarios
from playground.ui.glossary import explain
from playground.ui.page_head import head
from playground.ui.page_list import IDEAS, INSTRUMENTS, About
from playground.ui.session import controller as my_controller

IN_A_SENTENCE = (
    "The heart of a transformer is attention: every token asks the tokens that it may see a "
    "question. Its query is compared with their keys, the softmax turns the scores into weights, "
    "and the answer is the mean of their values under these weights. What is learnt are the "
    "matrices that make queries, keys and values."
)
COLUMNS = 4
TO_START_WITH = ("scaling-saves", "order-blind", "leak")


def card(about: About, **link) -> None:
    """One page: its name, which is the way there, and what it says."""
    with st.container(border=True, height="stretch"):
        icon = f":material/{about.icon}:"
        st.page_link(about.file, label=f"**{about.title}**", icon=icon, **link)
        st.caption(about.says)


def grid(pages: dict[str, About], columns: int) -> None:
    cards = list(pages.values())
    for start in range(0, len(cards), columns):
        for column, about in zip(st.columns(columns), cards[start : start + columns], strict=False):
            with column:
                card(about)


head().header("Change one thing in a transformer, and see what happens", anchor=False)
st.html(f'<p style="font-size: 1.2rem; line-height: 1.5">{explain(IN_A_SENTENCE)}</p>')
with st.container(horizontal=True, vertical_alignment="center"):
    if st.button(
        "Open the Playground",
        key="home_play",
        type="primary",
        icon=":material/play_circle:",
    ):
        st.switch_page(INSTRUMENTS["playground"].file, query_params={})
    st.caption(f"Computed on: {my_controller().device.words}.")

st.subheader("Three questions to start with", anchor=False)
found = scenarios.load()
for column, name in zip(st.columns(3), TO_START_WITH, strict=True):
    with column:
        question = {"title": found[name].title, "says": found[name].question}
        card(INSTRUMENTS["scenarios"]._replace(**question), query_params={"scenario": name})

st.subheader("One idea at a time", anchor=False)
grid(IDEAS, COLUMNS)

st.subheader("The instruments", anchor=False)
grid(INSTRUMENTS, len(INSTRUMENTS))
