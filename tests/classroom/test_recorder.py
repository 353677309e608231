"""Which runs go on a board: those of a member that came to an end of their own."""

from dataclasses import replace

import pytest

from core.tasks import TASKS
from helpers import spec_for, wait
from playground.classroom.database import Classes
from playground.classroom.recorder import BoardRecorder
from playground.runs.pool import Runs


@pytest.fixture
def classes(tmp_path) -> Classes:
    return Classes(tmp_path / "classes.sqlite3")


@pytest.fixture
def recorder(classes):
    return BoardRecorder(classes)


@pytest.fixture
def runs(recorder):
    pool = Runs(workers=1)
    pool.on_end = [recorder.keep]
    yield pool
    pool.close()


def points(classes, taught, recorder):
    assert recorder.flush(30)
    return classes.board(*taught)[1]


def test_a_finished_run_of_a_member_is_on_the_board_once(classes, recorder, runs):
    taught = classes.open()
    classes.join(taught[0], "ada", "Ada")
    recorder.set_browser("tab", "ada")
    run = runs.start("tab", spec_for(steps=3))
    wait(lambda: run.view().status.over)
    (kept,) = wait(lambda: points(classes, taught, recorder))
    assert (kept.name, kept.steps, kept.loss) == ("Ada", 3, pytest.approx(run.view().reached()))
    runs.discard(run)
    assert len(points(classes, taught, recorder)) == 1


def test_what_is_no_finished_run_of_a_member_s_playground_is_not(classes, recorder, runs):
    taught = classes.open()
    classes.join(taught[0], "ada")
    for tab, browser in (("tab", "ada"), ("other", "stranger")):
        recorder.set_browser(tab, browser)
    own = TASKS["text"](source="own", length=8, text="a private letter " * 20)
    ended = [
        runs.start("other", spec_for(steps=3)),  # of who is in no class
        runs.start("unknown", spec_for(steps=3)),
        runs.start("tab", replace(spec_for(steps=3), label="base; scale=none")),  # compared
        runs.start("tab", spec_for(own, steps=3)),
    ]
    stopped = runs.start("tab", spec_for(steps=10_000))
    wait(lambda: all(run.view().status.over for run in ended) and len(stopped.view().loss))
    runs.discard(stopped)
    assert points(classes, taught, recorder) == ()
