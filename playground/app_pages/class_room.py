"""Class: one teacher, many students, one question and one board."""

import streamlit as st

from playground.classroom.database import CLASSES, NoSuchClass, code_of
from playground.history.file import FileUnavailable
from playground.ui import class_session, class_student, class_teacher
from playground.ui.class_teacher import PARTS, Teacher
from playground.ui.components.cookie import remember_secret
from playground.ui.literal import literal
from playground.ui.page_head import head


def welcome() -> None:
    """Without a class: join one, or open one."""
    head().header("Class", anchor=False)
    left, right = st.columns(2, gap="large")
    with left:
        class_student.ask_for_code()
    with right:
        class_teacher.offer_to_open()


def here() -> str | None:
    """The class that the address means; without one, that which this browser teaches or is in."""
    if text := st.query_params.get("class"):
        return code_of(text)
    code = class_session.taught() or class_session.joined()
    if code is not None:
        st.query_params["class"] = code
    return code


def take_secret(code: str) -> None:
    """Take the teacher's secret out of the address, where others could read it."""
    if "teacher" in st.query_params:
        class_session.remember(code, st.query_params["teacher"])
        del st.query_params["teacher"]


def ended(code: str, error: NoSuchClass) -> None:
    """The address is of a class that there is not, or no longer."""
    class_session.forget(code)
    if class_session.joined() == code:
        class_session.has_joined(None)
    del st.query_params["class"]
    st.info(literal(f"{error}. What was collected in a class is deleted when it ends."))
    welcome()


def teach(code: str, secret: str) -> None:
    remember_secret(code, secret)
    teacher = Teacher(code, secret)
    with head().container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"### Class {literal(code)}", width="content")
        part = st.segmented_control(
            "Part",
            PARTS,
            default=PARTS[0],
            key="class_part",
            required=True,
            label_visibility="collapsed",
        )
    if part == "Join":
        class_teacher.join_part(teacher)
    elif part == "Vote":
        class_teacher.vote_part(teacher)
    elif part == "Board":
        class_teacher.board_part(teacher)
    else:
        class_teacher.students_part(teacher)


def study(code: str) -> None:
    if CLASSES.for_student(code, class_student.visitor_id()) is None:
        class_student.ask_to_join(code)
    else:
        class_session.has_joined(code)
        class_student.screen(code)
        class_student.board(code)


def page() -> None:
    code = here()
    if code is None:
        welcome()
        return
    take_secret(code)
    try:
        CLASSES.check(code)
        secret = class_session.secret_of(code)
        if secret and CLASSES.is_teacher(code, secret):
            teach(code, secret)
        else:
            study(code)
    except NoSuchClass as error:
        ended(code, error)
    except FileUnavailable as error:
        st.warning(literal(f"There can be no class now: {error}."))


page()
