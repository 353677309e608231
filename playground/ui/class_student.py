"""What a student sees of a class: a vote, what came of it, and what else the teacher shows."""

from contextlib import suppress
from html import escape

import streamlit as st

from playground.classroom.database import (
    CLASSES,
    MAX_NAME,
    ForStudent,
    NoSuchClass,
    Poll,
    Stage,
    code_of,
)
from playground.figures.votes import tally, vote_bars
from playground.history.file import FileUnavailable
from playground.runs.spec import counted
from playground.ui import board_panel, class_session
from playground.ui.components.cookie import forgetful, visitor_id
from playground.ui.literal import literal
from playground.ui.page_list import INSTRUMENTS
from playground.ui.play_buttons import press, say_refusal

LOOK = 1.5  # seconds between two looks
WHAT_IS_KEPT = (
    "While you are in the class, your finished runs in the Playground go on its board. The class "
    "ends by itself after a day, and everything that it has collected is then deleted."
)


def join(code: str) -> None:
    CLASSES.join(code, visitor_id(), st.session_state.get("nickname") or "")
    class_session.has_joined(code)


def leave(code: str) -> None:
    CLASSES.leave(code, visitor_id())
    class_session.has_joined(None)


def ask_to_join(code: str) -> None:
    """A nickname or none, and one button."""
    st.markdown(f"## Class {literal(code)}")
    with st.form("joining", border=True):
        st.text_input(
            "Nickname",
            key="nickname",
            max_chars=MAX_NAME,
            placeholder="none",
            help="Your teacher, and whoever sees the board, can read it. You may leave it empty.",
        )
        st.form_submit_button(
            "Join", type="primary", width="stretch", on_click=press, args=(join, code)
        )
    say_refusal()
    st.caption(WHAT_IS_KEPT)
    if forgetful():
        st.warning(
            "Your browser keeps no cookie of this page, so you are in the class only as long as "
            "this tab is open."
        )


@st.fragment(run_every=LOOK)
def screen(code: str) -> None:
    """What the teacher shows now, looked at again and again."""
    try:
        seen = CLASSES.for_student(code, visitor_id())
    except NoSuchClass:
        st.rerun()  # the page says that it has ended
    except FileUnavailable as error:
        st.warning(literal(error))
        return
    if seen is None:
        st.rerun()
    with st.container(key="class_screen"):
        if seen.poll is None:
            st.info("There is no question now: it appears here when your teacher asks one.")
        else:
            question(code, seen.poll)
        say_refusal()
    if seen.board != st.session_state.get("board_seen", False):
        st.session_state.board_seen = seen.board
        st.rerun()
    about(code, seen)


def question(code: str, poll: Poll) -> None:
    """One question, in whichever stage it is."""
    st.html(f'<div class="class-question">{escape(poll.question)}</div>')
    if poll.stage is Stage.OPEN:
        for i, answer in enumerate(poll.answers):
            st.button(
                literal(answer),
                key=f"answer_{i}",
                type="primary" if i == poll.mine else "secondary",
                width="stretch",
                on_click=press,
                args=(CLASSES.vote, code, visitor_id(), poll.id, i),
            )
        st.caption(
            "Choose one." if poll.mine is None else "You can change it until the vote is closed."
        )
        return
    st.html(vote_bars(poll.answers, poll.counts, poll.happened, poll.mine))
    if poll.stage is Stage.OVER:
        st.markdown(f"**{verdict(poll)}** {tally(poll.counts, poll.happened)}")
    elif poll.stage is Stage.RUNNING:
        st.caption("The vote is closed, and the run is on your teacher's screen.")
    else:
        st.caption("The vote is closed.")


def verdict(poll: Poll) -> str:
    """Whether this student was right."""
    if poll.mine is None:
        return "You did not vote."
    return "You were right." if poll.mine == poll.happened else "You were not right."


def about(code: str, seen: ForStudent) -> None:
    """Who one is here, and the ways on."""
    with st.container(horizontal=True, vertical_alignment="center", key="class_about"):
        st.page_link(
            INSTRUMENTS["playground"].file,
            label="Open the Playground",
            icon=":material/play_circle:",
        )
        with st.popover("Leave", type="tertiary"):
            st.write("Your votes and your runs leave the class with you.")
            st.button("Leave this class", key="leave_class", on_click=press, args=(leave, code))
    who = f"as **{literal(seen.name)}**" if seen.name else "without a name"
    st.caption(
        f"You are in class {literal(code)} {who}, with {counted(seen.runs, 'run')} on its board."
    )


def ask_for_code() -> None:
    """Where somebody comes without a code."""
    with st.form("by_code", border=True):
        st.text_input("Code of the class", key="typed_code", placeholder="five letters")
        st.form_submit_button("Go to the class", type="primary", on_click=press, args=(open_typed,))
    say_refusal()


def open_typed() -> None:
    code = code_of(st.session_state.typed_code or "")
    CLASSES.check(code)
    st.query_params["class"] = code


def board(code: str) -> None:
    """The board, where the teacher shows it."""
    with suppress(NoSuchClass):
        if CLASSES.for_student(code, visitor_id()).board:
            st.divider()
            board_panel.draw(lambda: CLASSES.board_for_student(code, visitor_id()))
