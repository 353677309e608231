"""What a teacher sees of a class: how to join it, the vote, and who is there.

Every action hands the secret to the database, which checks it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from html import escape
from typing import Any

import streamlit as st

from playground.classroom import board
from playground.classroom.database import CLASSES, ForTeacher, NoSuchClass, Point, Poll, Stage
from playground.experiments import scenarios
from playground.experiments.comparison import Comparison
from playground.experiments.scenarios import Scenario
from playground.experiments.series import any_live
from playground.export.files import table_csv
from playground.figures.votes import tally, vote_bars
from playground.history.file import FileUnavailable
from playground.runs.spec import Spec, counted
from playground.ui import (
    board_panel,
    class_session,
    compare_panels,
    controls,
    play_buttons,
    scenario_panels,
)
from playground.ui.literal import literal
from playground.ui.play_buttons import press, say_refusal
from playground.ui.qr import show_qr
from playground.ui.session import controller as my_controller
from playground.ui.session import start_runs

LOOK = 1.0  # seconds between two looks
PARTS = ("Join", "Vote", "Board", "Students")


class Teacher:
    """A class and its secret: what its teacher does there."""

    def __init__(self, code: str, secret: str) -> None:
        self.code, self.secret = code, secret

    def seen(self) -> ForTeacher:
        return CLASSES.for_teacher(self.code, self.secret)

    def do(self, action: Callable[..., Any], *args: Any) -> None:
        """One of the actions of `Classes`, as a button does it."""
        press(action, self.code, self.secret, *args)


def open_class() -> None:
    code, secret = CLASSES.open()
    class_session.remember(code, secret)
    st.query_params["class"] = code


def offer_to_open() -> None:
    with st.container(border=True, key="open_class_box"):
        st.markdown(
            "**You teach?** Open a class: your students join it with their phones, predict "
            "together, and see on one board what everybody tried. No accounts; after a day, or by "
            "your click, everything is deleted."
        )
        st.button(
            "Open a class",
            key="open_class",
            icon=":material/co_present:",
            on_click=press,
            args=(open_class,),
        )


# --- how to join ----------------------------------------------------------------------------


def join_part(teacher: Teacher) -> None:
    address = class_session.link_to(teacher.code)
    left, right = st.columns([3, 2], gap="large", vertical_alignment="center")
    with left:
        st.html(f'<div class="class-code">{escape(teacher.code)}</div>')
        present(teacher)
        st.code(address, language=None, wrap_lines=True)
        if class_session.only_here():
            st.caption(
                "This server listens on this machine only, so phones cannot come: start it with "
                "`--server.address=0.0.0.0`."
            )
    with right:
        show_qr(address)
    with st.container(horizontal=True, key="class_care"):
        with st.popover("Your own link", icon=":material/key:"):
            st.write(
                "This browser finds its way back to the class by itself, also after a restart of "
                "the server. On another machine this link makes you the teacher. Whoever has it "
                "can do all that you can: do not project it."
            )
            st.code(class_session.link_to(teacher.code, teacher.secret), language=None)
        with st.popover("End the class", icon=":material/delete:"):
            st.write("Everything is deleted: who was there, the votes, the board.")
            st.button(
                "End the class and delete everything",
                key="end_class",
                type="primary",
                on_click=teacher.do,
                args=(CLASSES.end,),
            )
    say_refusal()


@st.fragment(run_every=LOOK)
def present(teacher: Teacher) -> None:
    """How many are here."""
    seen = look(teacher)
    students = counted(len(seen.members), "student")
    ends = datetime.fromtimestamp(seen.ends, UTC).astimezone()
    st.subheader(students, anchor=False)
    st.caption(f"The class ends by itself {ends:%A, %H:%M} (the server's time).")


def look(teacher: Teacher) -> ForTeacher:
    """The class as it is now; where it has ended, the page says so."""
    try:
        return teacher.seen()
    except NoSuchClass:
        st.rerun()
    except (ValueError, FileUnavailable) as error:
        st.warning(literal(error))
        st.stop()


# --- the vote -------------------------------------------------------------------------------


def vote_part(teacher: Teacher) -> None:
    poll = look(teacher).poll
    if poll is None:
        say_refusal()
        ask(teacher)
        return
    scenario = scenarios.load().get(poll.scenario)
    st.html(f'<div class="class-question">{escape(poll.question)}</div>')
    compared = runs()
    seen = scenario_panels.look(scenario, compared) if scenario else ()
    if scenario and poll.stage is Stage.RUNNING and scenario_panels.finished(seen):
        results = scenarios.measure(scenario, seen)
        happened = scenario.outcomes.index(scenario.outcome(results))
        teacher.do(CLASSES.move, poll.id, Stage.OVER, happened)
        poll = look(teacher).poll
    bars(teacher, poll.id, poll.stage)
    buttons(teacher, poll, scenario, compared)
    say_refusal()
    if scenario and seen and poll.stage in (Stage.RUNNING, Stage.OVER):
        show_runs(scenario, compared, seen)


def ask(teacher: Teacher) -> None:
    """What can be put to the class: a scenario, or a claim."""
    left, right = st.columns(2, gap="large")
    found = scenarios.load()
    with left.container(border=True, height="stretch"):
        st.markdown("#### A scenario, which then runs here")
        name = st.selectbox(
            "Scenario",
            list(found),
            key="class_scenario",
            format_func=lambda name: found[name].title,
            label_visibility="collapsed",
        )
        scenario = found[name]
        answers = [outcome.say for outcome in scenario.outcomes]
        st.markdown(f"**{scenario.question}**")
        st.markdown("\n".join(f"- {answer}" for answer in answers))
        st.button(
            "Ask the class",
            key="ask_scenario",
            type="primary",
            on_click=teacher.do,
            args=(CLASSES.put, scenario.question, answers, name),
        )
    with right.container(border=True, height="stretch"):
        st.markdown("#### A claim of your own")
        claim = st.text_area("The claim", key="class_claim", height=80)
        written = st.text_area(
            "The answers, one a line (2 to 4)", "True\nFalse", key="class_answers", height=122
        )
        st.button(
            "Ask the class",
            key="ask_claim",
            on_click=teacher.do,
            args=(CLASSES.put, claim or "", [a for a in (written or "").splitlines() if a.strip()]),
        )
        st.caption("Nothing runs: you say in the end what happened.")


@st.fragment(run_every=LOOK)
def bars(teacher: Teacher, poll_id: int, stage: Stage) -> None:
    """The votes as they come in."""
    seen = look(teacher)
    poll = seen.poll
    if poll is None or (poll.id, poll.stage) != (poll_id, stage):
        st.rerun()  # another tab of the teacher's
    voted, students = sum(poll.counts), counted(len(seen.members), "student")
    st.html(vote_bars(poll.answers, poll.counts, poll.happened))
    if poll.stage is Stage.OVER:
        st.subheader(tally(poll.counts, poll.happened), anchor=False)
    else:
        st.markdown(f"**{voted} of {students}** {'has' if voted == 1 else 'have'} voted.")


def buttons(teacher: Teacher, poll: Poll, scenario: Scenario | None, compared: Comparison) -> None:
    move = partial(teacher.do, CLASSES.move, poll.id)
    with st.container(horizontal=True, vertical_alignment="bottom", key="scenario_transport"):
        if poll.stage is Stage.OPEN:
            st.button(
                "Close the vote",
                key="close_vote",
                type="primary",
                on_click=move,
                args=(Stage.CLOSED,),
            )
        elif poll.stage is not Stage.OVER and scenario:
            live = any_live(compared.series_of(scenario.setup))
            play_buttons.play_or_pause(
                live,
                partial(run_it, teacher, poll, scenario, compared),
                compared.pause,
                label="Train, and see",
            )
            scenario_panels.what_runs(scenario)
            began = poll.stage is Stage.RUNNING
            st.caption(scenario_panels.how_much(scenario, began, my_controller()), width="content")
        elif poll.stage is Stage.CLOSED:
            for i, answer in enumerate(poll.answers):
                st.button(literal(answer), key=f"happened_{i}", on_click=move, args=(Stage.OVER, i))
            st.caption("Which one happened?", width="content")
        if poll.stage is Stage.CLOSED:
            st.button("Open it again", key="reopen", on_click=move, args=(Stage.OPEN,))
        st.button(
            "Next question" if poll.stage is Stage.OVER else "Put it away",
            key="put_away",
            type="primary" if poll.stage is Stage.OVER else "tertiary",
            on_click=put_away,
            args=(teacher, poll, compared),
        )


def run_it(teacher: Teacher, poll: Poll, scenario: Scenario, compared: Comparison) -> None:
    if poll.stage is not Stage.RUNNING:
        CLASSES.move(teacher.code, teacher.secret, poll.id, Stage.RUNNING)
    if compared.series_of(scenario.setup):
        compared.play()
    else:
        start_runs(compared, scenario.setup, scenario.seeds)


def put_away(teacher: Teacher, poll: Poll, compared: Comparison) -> None:
    teacher.do(CLASSES.move, poll.id, Stage.AWAY)
    compared.discard()


def show_runs(scenario: Scenario, compared: Comparison, seen: compare_panels.Seen) -> None:
    done = scenario_panels.finished(seen)
    if scenario_panels.over(seen) and not done:
        why = {view.message for line in seen for view in line.views if view.message}
        st.error(f"Not all runs finished, so there is no conclusion. {literal(' '.join(why))}")
    compare_panels.draw_runs(partial(scenario_panels.look, scenario, compared), seen)
    if done:
        results = scenarios.measure(scenario, seen)
        scenario_panels.reveal(scenario, seen, results, scenario.outcome(results))


def runs() -> Comparison:
    """The runs that the class sees; they end with the tab."""
    return st.session_state.setdefault("class_runs", Comparison(my_controller().owner))


# --- the board ------------------------------------------------------------------------------


def board_part(teacher: Teacher) -> None:
    st.session_state.setdefault("board_shown", look(teacher).board)
    with st.container(horizontal=True, vertical_alignment="center", key="board_actions"):
        st.toggle(
            "Students see it",
            key="board_shown",
            on_change=lambda: teacher.do(CLASSES.show_board, st.session_state.board_shown),
        )
        st.button(
            "Hold against my knobs",
            key="board_setup",
            icon=":material/tune:",
            on_click=press,
            args=(use_my_knobs, teacher),
            help="Your Playground's knobs, as they are now, become the set-up from which the board "
            "tells the differences; without one it is the defaults.",
        )
        st.download_button(
            "CSV",
            lambda: table_csv(board.rows(CLASSES.board(teacher.code, teacher.secret)[1])),
            f"board-{teacher.code}.csv",
            "text/csv",
            key="board_csv",
            icon=":material/download:",
            on_click="ignore",
        )
    say_refusal()
    board_panel.draw(lambda: seen_board(teacher))


def seen_board(teacher: Teacher) -> tuple[Spec | None, tuple[Point, ...]]:
    look(teacher)  # where the class has ended, the page says so
    return CLASSES.board(teacher.code, teacher.secret)


def use_my_knobs(teacher: Teacher) -> None:
    choice = controls.choice()
    if choice.spec is None:
        raise ValueError(choice.problem or "the knobs do not fit together")
    CLASSES.set_up(teacher.code, teacher.secret, choice.spec)


# --- who is there ---------------------------------------------------------------------------


def students_part(teacher: Teacher) -> None:
    members = look(teacher).members
    if not members:
        st.info("Nobody has joined yet.")
        return
    named = [member for member in members if member.name]
    nameless = len(members) - len(named)
    st.markdown(f"**{counted(len(members), 'student')}**, {nameless} without a name.")
    names = {member.id: member.name for member in named}
    st.session_state.setdefault("hidden_names", [m.id for m in named if m.hidden])
    st.multiselect(
        "Names that nobody sees",
        list(names),
        key="hidden_names",
        format_func=lambda id: literal(names.get(id, "")),
        on_change=lambda: teacher.do(CLASSES.hide, st.session_state.hidden_names),
        help="On the board their runs are those of “a student”.",
    )
    st.markdown("\n".join(f"- {literal(m.name)}{' (hidden)' if m.hidden else ''}" for m in named))
    say_refusal()
