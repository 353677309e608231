"""The lesson that is walked through: which step, the bar that accompanies its pages, and the ways.

The link holds both: `lesson=sqrt-dk&at=3`.
"""

from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from core.knobs import cut
from playground.classroom import lessons
from playground.classroom.lessons import Lesson, Step
from playground.classroom.worksheet import to_html
from playground.experiments import scenarios
from playground.history.file import FileUnavailable, data_folder
from playground.ui import allowed, controls
from playground.ui.knob import KEYS
from playground.ui.link import EVERY
from playground.ui.literal import literal
from playground.ui.notes import note
from playground.ui.page_list import PAGES
from playground.ui.session import controller
from playground.ui.turned import hold, turn

FIELDS = ("lesson", "at")  # the keys of the link
MINE = "lessons"  # the folder in the user's data folder


# --- which there are --------------------------------------------------------------------------


def known() -> dict[str, Lesson]:
    """The playground's own, those of the data folder, and those that this visitor has added."""
    return lessons.shipped(frozenset(PAGES)) | _of_folder()[0] | added()


def problems() -> tuple[str, ...]:
    """What is wrong with the files of the data folder that cannot be read."""
    return _of_folder()[1]


def added() -> dict[str, Lesson]:
    return st.session_state.setdefault("added_lessons", {})


def add(name: str, data: bytes) -> Lesson:
    """Take a file of the visitor's own.

    Raises:
        ValueError: names the file, the step, the field and the rule.
    """
    lesson = lessons.read(name, data, PAGES)
    added()[lesson.id] = lesson
    return lesson


def folder() -> Path:
    """Where lessons are kept that are there for everybody.

    Raises:
        FileUnavailable: there is no home folder.
    """
    return data_folder() / MINE


def _of_folder() -> tuple[dict[str, Lesson], tuple[str, ...]]:
    with suppress(FileUnavailable, OSError):
        return lessons.in_folder(folder(), PAGES)
    return {}, ()


# --- which one, and where in it ---------------------------------------------------------------


def begin() -> None:
    """Read from the link which lesson is walked through. Draws nothing that is seen."""
    if (corrected := st.session_state.pop("lesson_corrected", None)) is not None:
        turn(corrected)
    with st.container(key="unseen_lesson"):
        name, at = (
            st.text_input(key, key=key, bind="query-params", label_visibility="collapsed")
            for key in FIELDS
        )
    st.session_state.lesson_now = None
    if not name:
        return
    if (lesson := known().get(name)) is None:
        note("lesson", f"{literal(f'lesson={cut(name)}')}: there is no such lesson here")
        _correct("", "")
    number = int(at) if at.isdecimal() else 1
    if number > len(lesson.steps):
        given = literal(f"at={number}")
        note("at", f"{given}: the lesson has {len(lesson.steps)} steps; the last one is shown")
        _correct(name, str(len(lesson.steps)))
    st.session_state.lesson_now = lesson, max(number, 1) - 1


def _correct(*values: str) -> None:
    """Say so in the link, which is drawn already."""
    st.session_state.lesson_corrected = dict(zip(FIELDS, values, strict=True))
    st.rerun()


def now() -> tuple[Lesson, int] | None:
    """The lesson, and which of its steps, from 0; None: none is walked through."""
    return st.session_state.get("lesson_now")


# --- the ways ---------------------------------------------------------------------------------


def read_step(lesson: Lesson, number: int) -> None:
    """Show a step on the page of the lessons."""
    hold()
    turn(_marks(lesson, number) | allowed.free())
    _go("lessons")


def open_step(lesson: Lesson, number: int) -> None:
    """Open the page of a step as it is to be set up; one without a page is read."""
    step = lesson.steps[number]
    if not step.page:
        return read_step(lesson, number)
    hold()
    limits = {"turn": allowed.write(step.turn), "show": allowed.write(step.show)}
    also = _marks(lesson, number) | limits
    if step.spec is not None:
        if step.page == "playground" and not _is_set(step):
            controller().put_away()
        controls.turn_to(step.spec, **also, **_of_page(step))
    else:
        values = {key: knob.default for key, knob in _knobs_of(step.page).items()}
        turn(values | _of_page(step) | also)
    _go(step.page, **_own_keys(step))


def leave() -> None:
    """The lesson is over, or put aside; the page stays as it is."""
    hold()
    turn(dict.fromkeys(FIELDS, "") | allowed.free())


def _marks(lesson: Lesson, number: int) -> dict[str, str]:
    return {"lesson": lesson.id, "at": str(number + 1)}


def _is_set(step: Step) -> bool:
    """Whether the Playground has the knobs of a step already."""
    spec = controller().spec
    return spec is not None and not spec.diff(step.spec)


def _go(page: str, **link: str) -> None:
    if page != (allowed.page() or "playground"):
        controls.go_to(page, **link)


def _knobs_of(page: str) -> dict[str, Any]:
    """The knobs of an idea's page that have been drawn for somebody; none: a link sets them."""
    return {key: knob for key, knob in KEYS.items() if allowed.family(key) == page}


def _of_page(step: Step) -> dict[str, Any]:
    """Values of widgets besides the knobs of a run, which the session may hold otherwise."""
    if step.scenario:
        return {"scenario": step.scenario}
    if step.page == "compare":
        return {"variants": step.link, "seeds": step.seeds}
    values = {}
    for key, text in step.knobs:
        if knob := KEYS.get(key):
            with suppress(ValueError):  # the link says so
                values[key] = knob.read(text)
        elif key in st.session_state:
            values[key] = text
    return values


def link_of(step: Step) -> dict[str, str]:
    """What the address of a step's page says, the limits on its knobs included."""
    said = {"turn": allowed.write(step.turn), "show": allowed.write(step.show)}
    if step.spec is not None:
        values = controls.knobs_of(step.spec)
        said |= {
            key: EVERY[key].in_link(value)
            for key, value in values.items()
            if value != EVERY[key].default
        }
    return {key: text for key, text in (said | _own_keys(step)).items() if text}


def _own_keys(step: Step) -> dict[str, str]:
    """What the address of a step's page holds, and that of no other page."""
    if step.page == "compare":
        return {"variants": step.link, "seeds": str(step.seeds)}
    if step.scenario:
        return {"scenario": scenarios.load()[step.scenario].title}
    return dict(step.knobs)


def address_of(lesson: Lesson, number: int, base: str) -> str:
    """What a step opens, on this server; empty: nothing."""
    step = lesson.steps[number]
    if not step.page:
        return ""
    page = "" if step.page == "playground" else step.page
    query = urlencode(link_of(step) | _marks(lesson, number), safe=",;=")
    return f"{base.rstrip('/')}/{page}?{query}"


# --- the bar ----------------------------------------------------------------------------------


def draw_bar() -> None:
    """At the top of a page that a lesson has opened: its question, and the ways on."""
    if (found := now()) is None:
        return
    lesson, number = found
    step = lesson.steps[number]
    with st.container(horizontal=True, vertical_alignment="center", key="lesson_bar"):
        with st.popover(f"Step {number + 1} of {len(lesson.steps)}", icon=":material/menu_book:"):
            st.html(step_html(step))
        said = step.question or step.text
        st.html(f'<div class="lesson-says"><b>{escape(step.title)}.</b>{to_html(said)}</div>')
        ways(lesson, number, open_pages=True)
        st.button("The lesson", key="lesson_read", on_click=read_step, args=(lesson, number))
        st.button("×", key="lesson_leave", type="tertiary", on_click=leave)


def ways(lesson: Lesson, number: int, open_pages: bool) -> None:
    """Back and Next: to what there is to read, or to its page as it is set up."""
    go = open_step if open_pages else read_step
    for word, other in (("Back", number - 1), ("Next", number + 1)):
        st.button(
            word,
            key=f"step_{word.lower()}",
            icon=f":material/arrow_{'back' if word == 'Back' else 'forward'}:",
            icon_position="left" if word == "Back" else "right",
            disabled=not 0 <= other < len(lesson.steps),
            on_click=go,
            args=(lesson, other),
        )


def step_html(step: Step) -> str:
    """What there is to read of a step."""
    parts = [to_html(step.text)]
    for word, text in (("Question", step.question), ("Look for", step.look_for)):
        if text:
            parts.append(f'<div data-part="{word}"><b>{word}</b>{to_html(text)}</div>')
    return f'<div class="lesson-step">{"".join(parts)}</div>'


def where(step: Step) -> str:
    """What the button of a step is called."""
    if step.scenario:
        return f"Open the scenario “{scenarios.load()[step.scenario].title}”"
    title = PAGES[step.page].title
    return f"Open in the {title}" if step.page == "playground" else f"Open {title}"
