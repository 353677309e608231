"""Lessons: choose one, walk through it, print its work sheet, or add one of your own."""

from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import streamlit as st

from playground.classroom import lessons, worksheet
from playground.classroom.lessons import FOLDER, MAX_BYTES, Lesson
from playground.experiments import scenarios
from playground.experiments.comparison import Comparison
from playground.experiments.scenarios import Results
from playground.history.file import FileUnavailable
from playground.runs.spec import counted
from playground.ui import compare_panels, lesson
from playground.ui.literal import literal
from playground.ui.page_head import head
from playground.ui.page_list import INSTRUMENTS
from playground.ui.session import controller, is_local

COLUMNS = 3  # of cards
EXAMPLE = FOLDER / "sqrt-dk.toml"
HOW_TO_WRITE = (
    "A lesson is one small text file, a TOML: no Python. Take this one as an example, change it, "
    "and add it below; it stays as long as this tab is open."
)


@dataclass
class Answers:
    """The runs that answer the questions of a lesson, one step after the other."""

    waiting: list[int]
    compared: Comparison
    results: dict[int, Results] = field(default_factory=dict)
    problem: str = ""

    @property
    def done(self) -> bool:
        return not self.waiting and not self.problem

    def go_on(self, lesson: Lesson) -> None:
        """Read off what has ended, and start what comes next."""
        found = lessons.experiments(lesson)
        if not self.waiting or self.compared.live:
            return
        one = found[self.waiting[0]]
        if series := self.compared.series_of(one.setup):
            self.results[self.waiting.pop(0)] = scenarios.measure(one, one.named(series))
            self.compared.discard()
            if not self.waiting:
                return
            one = found[self.waiting[0]]
        try:
            self.compared.start(one.setup, one.seeds)
        except ValueError as error:
            self.problem = str(error)


def answers_of(chosen: Lesson) -> Answers | None:
    """What has been measured of a lesson, or is being; None: nothing."""
    return st.session_state.setdefault("lesson_answers", {}).get((chosen.id, chosen))


def measure(chosen: Lesson) -> None:
    """Begin to train what the answers of a lesson are about."""
    compared = Comparison(controller().owner)
    new = Answers(list(lessons.experiments(chosen)), compared)
    st.session_state.lesson_answers[(chosen.id, chosen)] = new
    new.go_on(chosen)


def stop(chosen: Lesson) -> None:
    answers_of(chosen).compared.discard()
    del st.session_state.lesson_answers[(chosen.id, chosen)]


# --- which lesson -----------------------------------------------------------------------------


def gallery(found: dict[str, Lesson]) -> None:
    names = list(found)
    for start in range(0, len(names), COLUMNS):
        row = names[start : start + COLUMNS]
        for column, name in zip(st.columns(COLUMNS), row, strict=False):
            one = found[name]
            with column.container(border=True, height="stretch"):
                st.markdown(f"#### {literal(one.title)}")
                st.caption(literal(worksheet.about(one)))
                if one.about:
                    st.html(worksheet.to_html(one.about))
                st.space("stretch")
                st.button(
                    f"Open: {counted(len(one.steps), 'step')}",
                    key=f"open_lesson_{name}",
                    on_click=lesson.read_step,
                    args=(one, 0),
                )


def own() -> None:
    """What a teacher needs to add a lesson."""
    st.subheader("A lesson of your own", anchor=False)
    st.markdown(HOW_TO_WRITE)
    if is_local():
        with suppress(FileUnavailable):
            st.caption(literal(f"To keep it, put it into the folder {lesson.folder()}."))
    st.download_button(
        "An example to start from",
        lambda: EXAMPLE.read_bytes(),
        "my-lesson.toml",
        "application/toml",
        key="example_lesson",
        icon=":material/download:",
        on_click="ignore",
    )
    st.file_uploader(
        "Add a lesson",
        "toml",
        key="lesson_file",
        on_change=take,
        max_upload_size=1,
        help=f"UTF-8, at most {MAX_BYTES:,} bytes. What is wrong with it is said.",
    )
    if problem := st.session_state.get("lesson_problem"):
        st.error(literal(problem))


def take() -> None:
    """Use an uploaded file, or say what is wrong with it."""
    st.session_state.lesson_problem = None
    if (file := st.session_state.lesson_file) is None:
        return
    try:
        lesson.read_step(lesson.add(file.name, file.getvalue()), 0)
    except ValueError as error:
        st.session_state.lesson_problem = f"{error}. Nothing has been added."


# --- one lesson -------------------------------------------------------------------------------


def walk(chosen: Lesson, number: int) -> None:
    step = chosen.steps[number]
    st.progress((number + 1) / len(chosen.steps), f"Step {number + 1} of {len(chosen.steps)}")
    with st.container(border=True, key="lesson_step"):
        st.markdown(f"### {literal(step.title)}")
        st.html(lesson.step_html(step))
        if step.page:
            st.button(
                lesson.where(step),
                key="lesson_open",
                type="primary",
                icon=":material/open_in_new:",
                on_click=lesson.open_step,
                args=(chosen, number),
            )
        answered = answers_of(chosen)
        results = answered.results.get(number) if answered else None
        if (step.answer and step.measured is None) or results is not None:
            with st.expander("Answer", icon=":material/visibility:"):
                st.html(worksheet.to_html(step.answered(results)))
    with st.container(horizontal=True, vertical_alignment="center", key="lesson_ways"):
        lesson.ways(chosen, number, open_pages=False)
        st.button("All lessons", key="all_lessons", icon=":material/apps:", on_click=lesson.leave)


def sheets(chosen: Lesson) -> None:
    """The work sheet, and the same with measured answers."""
    st.subheader("Work sheet", anchor=False)
    url = urlsplit(st.context.url or "")
    base = url._replace(path=url.path.rpartition("/")[0], query="").geturl()
    links = [lesson.address_of(chosen, n, base) for n in range(len(chosen.steps))]
    with st.container(horizontal=True, vertical_alignment="center", key="sheets"):
        offer("Work sheet (HTML, to print)", chosen, "html", worksheet.as_html(chosen, links))
        offer("Work sheet (Markdown)", chosen, "md", worksheet.as_markdown(chosen, links))
    with_answers(chosen.id, links)


@st.fragment(run_every=1.0)
def measuring(chosen: Lesson) -> None:
    """How far it is; the page runs again at the end."""
    found = answers_of(chosen)
    if found is None:
        return
    found.go_on(chosen)
    if found.done or found.problem:
        st.rerun()
    total, done = len(lessons.experiments(chosen)), len(found.results)
    step = chosen.steps[found.waiting[0]]
    st.progress(done / total, literal(f"Training for step {found.waiting[0] + 1}: {step.title}"))


def with_answers(name: str, links: list[str]) -> None:
    chosen = lesson.known()[name]
    found = answers_of(chosen)
    experiments = lessons.experiments(chosen)
    if experiments and found is None:
        specs = [s for one in experiments.values() for s in one.setup.specs * one.seeds]
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Measure the answers",
                key="measure_answers",
                icon=":material/science:",
                on_click=measure,
                args=(chosen,),
            )
            st.caption(
                f"Trains what the questions are about: {counted(len(specs), 'run')}, "
                f"{compare_panels.estimated(specs, controller())}.",
                width="content",
            )
        return
    if found is not None and not found.done:
        if found.problem:
            st.error(literal(found.problem))
        else:
            measuring(chosen)
        st.button("Stop", key="stop_answers", on_click=stop, args=(chosen,))
        return
    said = list(lessons.answers(chosen, found.results if found else {}))
    with st.container(horizontal=True, vertical_alignment="center", key="answer_sheets"):
        offer("Answers (HTML, to print)", chosen, "html", worksheet.as_html(chosen, links, said))
        offer("Answers (Markdown)", chosen, "md", worksheet.as_markdown(chosen, links, said))


def offer(label: str, chosen: Lesson, form: str, text: str) -> None:
    kind = label.split()[0].lower()
    st.download_button(
        label,
        text,
        f"{chosen.id}-{'answers' if kind == 'answers' else 'work-sheet'}.{form}",
        "text/html" if form == "html" else "text/markdown",
        key=f"sheet_{kind}_{form}",
        icon=":material/print:" if form == "html" else ":material/description:",
        on_click="ignore",
    )


found = lesson.now()
title = INSTRUMENTS["lessons"].title if found is None else found[0].title
head().header(literal(title), anchor=False)
if found is None:
    for problem in lesson.problems():
        st.warning(literal(problem))
    gallery(lesson.known())
    own()
else:
    st.caption(literal(worksheet.about(found[0])))
    walk(*found)
    sheets(found[0])
