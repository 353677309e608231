"""A class keeps what it is told, shows it to whom it may, and is gone when it ends."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from helpers import spec_for
from playground.classroom import database as module
from playground.classroom.database import (
    Classes,
    NoSuchClass,
    NotTheTeacher,
    Stage,
    code_of,
)
from playground.runs.view import Record, Status

ROOT = Path(__file__).parents[2]
ANSWERS = ("yes", "no")


@pytest.fixture
def classes(tmp_path) -> Classes:
    return Classes(tmp_path / "classes.sqlite3")


@pytest.fixture
def taught(classes) -> tuple[str, str]:
    return classes.open()


def view_of(spec, losses=(2.0, 1.0), status=Status.DONE):
    record = Record()
    for loss in losses:
        record._steps.append(loss, 1e-3, 1.0)
    return record.view(status=status, spec=spec, message="", queue_position=None, busy=False)


def add(classes, browser, run="r", losses=(2.0, 1.0), status=Status.DONE, **knobs) -> bool:
    spec = spec_for(**knobs)
    return classes.add_point(browser, run, spec, view_of(spec, losses, status))


def rows(classes) -> dict[str, int]:
    with closing(sqlite3.connect(classes.path)) as db:
        return {t: db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in module._TABLES}


def test_a_vote_is_one_a_browser_and_can_be_changed_until_it_is_closed(classes, taught):
    code, secret = taught
    for browser in ("ada", "bob", "eve"):
        classes.join(code, browser, browser)
    poll = classes.put(code, secret, "Does it?", ANSWERS)
    for browser, answer in (("ada", 0), ("bob", 0), ("ada", 1), ("ada", 1)):
        classes.vote(code, browser, poll, answer)
    assert classes.for_teacher(code, secret).poll.counts == (1, 1)
    assert classes.for_student(code, "ada").poll.mine == 1
    assert classes.for_student(code, "eve").poll.mine is None
    classes.move(code, secret, poll, Stage.CLOSED)
    with pytest.raises(ValueError, match="closed"):
        classes.vote(code, "bob", poll, 1)
    assert classes.for_teacher(code, secret).poll.counts == (1, 1)


def test_students_see_the_counts_only_beside_what_happened(classes, taught):
    code, secret = taught
    classes.join(code, "ada")
    poll = classes.put(code, secret, "Does it?", ANSWERS)
    classes.vote(code, "ada", poll, 0)
    for stage in (Stage.OPEN, Stage.CLOSED, Stage.RUNNING):
        classes.move(code, secret, poll, stage)
        seen = classes.for_student(code, "ada").poll
        assert (seen.stage, seen.counts, seen.happened) == (stage, None, None)
    classes.move(code, secret, poll, Stage.OVER, 1)
    seen = classes.for_student(code, "ada").poll
    assert (seen.counts, seen.happened, seen.mine) == ((1, 0), 1, 0)
    classes.move(code, secret, poll, Stage.AWAY)
    assert classes.for_student(code, "ada").poll is None


@pytest.mark.parametrize(
    "answer, browser", [(2, "ada"), (-1, "ada"), ("0", "ada"), (True, "ada"), (0, "nobody")]
)
def test_what_is_no_vote_is_refused(classes, taught, answer, browser):
    code, secret = taught
    classes.join(code, "ada")
    poll = classes.put(code, secret, "Does it?", ANSWERS)
    with pytest.raises(ValueError):
        classes.vote(code, browser, poll, answer)
    assert classes.for_teacher(code, secret).poll.counts == (0, 0)


def test_a_vote_of_another_class_is_none_of_this_one(classes, taught):
    code, secret = taught
    other, secret_of_other = classes.open()
    poll = classes.put(other, secret_of_other, "Does it?", ANSWERS)
    classes.join(code, "ada")
    with pytest.raises(ValueError, match="none of that number"):
        classes.vote(code, "ada", poll, 0)
    with pytest.raises(ValueError, match="none of that number"):
        classes.move(code, secret, poll, Stage.CLOSED)


# Every action of a teacher, with what it takes besides code and secret.
ACTIONS = {
    "for_teacher": (),
    "put": ("Does it?", ANSWERS),
    "move": (1, Stage.CLOSED),
    "hide": ((1,),),
    "show_board": (True,),
    "set_up": (spec_for(),),
    "board": (),
    "end": (),
}


@pytest.mark.parametrize("action, given", ACTIONS.items())
def test_without_the_secret_nothing_of_the_teacher_s_can_be_done(classes, taught, action, given):
    code, secret = taught
    other = classes.open()[1]
    classes.join(code, "ada", "Ada")
    classes.put(code, secret, "Does it?", ANSWERS)
    add(classes, "ada")
    hashed = module._hashed(secret)
    before = dump(classes)
    for forged in ("", " ", code, other, secret[:-1], f"{secret} ", hashed, "ada", None, 0):
        with pytest.raises(NotTheTeacher):
            getattr(classes, action)(code, forged, *given)
    assert dump(classes) == before
    getattr(classes, action)(code, secret, *given)  # and with it, it can


def test_every_method_that_takes_a_secret_is_tried_above():
    taking = {
        name
        for name, method in vars(Classes).items()
        if "secret" in getattr(getattr(method, "__code__", None), "co_varnames", ())[:3]
    }
    assert taking - {"_as_teacher", "is_teacher"} == set(ACTIONS)


def dump(classes) -> list[str]:
    with closing(sqlite3.connect(classes.path)) as db:
        return list(db.iterdump())


def test_neither_the_secret_nor_a_browser_is_in_the_file(classes, taught):
    code, secret = taught
    browser = "0123456789abcdef" * 2
    classes.join(code, browser, "Ada")
    for file in classes.path.parent.iterdir():
        for hidden in (secret, browser):
            assert hidden.encode() not in file.read_bytes()


def test_what_was_collected_goes_with_the_class_and_no_other(classes, taught):
    code, secret = taught
    other, secret_of_other = classes.open()
    for one, its, name in ((code, secret, "zacharias"), (other, secret_of_other, "bob")):
        classes.join(one, name, name)
        poll = classes.put(one, its, f"Of {name}?", ANSWERS)
        classes.vote(one, name, poll, 0)
        add(classes, name, run=name)
    assert set(rows(classes).values()) == {2}
    classes.end(code, secret)
    assert set(rows(classes).values()) == {1}
    assert b"zacharias" not in b"".join(f.read_bytes() for f in classes.path.parent.iterdir())
    with pytest.raises(NoSuchClass):
        classes.check(code)
    assert classes.for_teacher(other, secret_of_other).poll.counts == (1, 0)


def test_after_a_day_it_is_gone_by_itself(classes, taught, monkeypatch):
    code, secret = taught
    classes.join(code, "ada", "Ada")
    now = module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + module.DAY - 60)
    assert classes.is_teacher(code, secret) and classes.of("ada") == code
    monkeypatch.setattr(module.time, "time", lambda: now + module.DAY + 60)
    classes.expire()  # as the server does when it starts
    assert set(rows(classes).values()) == {0}
    assert not classes.is_teacher(code, secret) and classes.of("ada") is None


def test_whoever_leaves_takes_votes_and_runs_along(classes, taught):
    code, secret = taught
    classes.join(code, "ada")
    poll = classes.put(code, secret, "Does it?", ANSWERS)
    classes.vote(code, "ada", poll, 0)
    assert add(classes, "ada")
    classes.leave(code, "ada")
    assert not add(classes, "ada", run="later")
    found = rows(classes)
    assert (found["members"], found["votes"], found["points"]) == (0, 0, 0)


def test_a_run_that_is_trained_further_replaces_its_point(classes, taught):
    code, secret = taught
    classes.join(code, "ada", "Ada")
    add(classes, "ada", losses=(2.0,))
    add(classes, "ada", losses=(2.0, 1.0))
    add(classes, "ada", run="another", losses=(2.0, float("inf")), status=Status.DIVERGED)
    first, second = classes.board(code, secret)[1]
    assert (first.steps, first.loss, first.diverged) == (2, pytest.approx(1.5), False)
    assert (second.loss, second.accuracy, second.diverged) == (None, None, True)


def test_a_hidden_name_is_shown_to_nobody(classes, taught):
    code, secret = taught
    classes.join(code, "ada", "Ada")
    add(classes, "ada")
    (member,) = classes.for_teacher(code, secret).members
    classes.show_board(code, secret, True)
    classes.hide(code, secret, [member.id])
    assert classes.board(code, secret)[1][0].name == module.NAMELESS
    assert classes.board_for_student(code, "ada")[1][0].name == module.NAMELESS
    classes.hide(code, secret, [])
    assert classes.board_for_student(code, "ada")[1][0].name == "Ada"


def test_students_see_the_board_only_while_it_is_shown(classes, taught):
    code, secret = taught
    classes.join(code, "ada")
    add(classes, "ada")
    classes.set_up(code, secret, spec_for(scale="none"))
    assert classes.board_for_student(code, "ada") == (None, ())
    classes.show_board(code, secret, True)
    setup, points = classes.board_for_student(code, "ada")
    assert setup.model.scale == "none" and len(points) == 1
    assert classes.board_for_student(code, "stranger") == (None, ())


def test_all_is_limited_and_says_so(classes, monkeypatch):
    for name in ("MAX_CLASSES", "MAX_MEMBERS", "MAX_POLLS", "MAX_POINTS_EACH"):
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(module, "MAX_POINTS", 3)
    (code, secret), _ = classes.open(), classes.open()
    with pytest.raises(ValueError, match="2 classes"):
        classes.open()
    classes.join(code, "ada")
    classes.join(code, "bob")
    classes.join(code, "bob", "Bob")  # again is no other
    with pytest.raises(ValueError, match="full"):
        classes.join(code, "eve")
    for _ in range(2):
        classes.put(code, secret, "Does it?", ANSWERS)
    with pytest.raises(ValueError, match="2 votes"):
        classes.put(code, secret, "Does it?", ANSWERS)
    kept = [add(classes, who, run=f"{who}{i}") for who in ("ada", "bob") for i in range(3)]
    assert kept == [True, True, False, True, False, False]


@pytest.mark.parametrize(
    "question, answers",
    [
        (" ", ANSWERS),
        ("x" * 301, ANSWERS),
        ("Does it?", ("yes",)),
        ("Does it?", tuple("abcde")),
        ("Does it?", ("yes", " ")),
        ("Does it?", ("yes", "y" * 121)),
        ("Does it?", ("yes", "yes ")),
    ],
)
def test_what_cannot_be_voted_on_is_refused(classes, taught, question, answers):
    with pytest.raises(ValueError):
        classes.put(*taught, question, answers)


@pytest.mark.parametrize(
    "to, happened", [(Stage.OVER, 0), (Stage.RUNNING, None), (Stage.CLOSED, 1)]
)
def test_a_vote_goes_its_way_step_by_step(classes, taught, to, happened):
    poll = classes.put(*taught, "Does it?", ANSWERS)
    with pytest.raises(ValueError):
        classes.move(*taught, poll, to, happened)
    classes.move(*taught, poll, Stage.CLOSED)
    for what in (None, -1, 2):
        with pytest.raises(ValueError, match="happened"):
            classes.move(*taught, poll, Stage.OVER, what)
    assert classes.for_teacher(*taught).poll.stage is Stage.CLOSED


@pytest.mark.parametrize(
    "given, kept",
    [
        ("  Ada \n Lovelace ", "Ada Lovelace"),
        ("x" * 99, "x" * module.MAX_NAME),
        ("a\u202eb\x00c", "a b c"),
        ("<b>Bob</b>", "<b>Bob</b>"),  # whoever shows it, shows it as it is
    ],
)
def test_a_nickname_is_cut_and_in_one_line(classes, taught, given, kept):
    code, secret = taught
    classes.join(code, "ada", given)
    assert classes.for_teacher(code, secret).members[0].name == kept


def test_a_code_is_read_however_it_is_typed_and_has_no_letters_that_look_alike():
    assert code_of(" kt rwd\n") == "KTRWD"
    assert not set("AEIOUYL0123456789") & set(module.LETTERS)


def test_thirty_browsers_vote_at_once_and_none_is_lost(classes, taught):
    code, secret = taught
    poll = classes.put(code, secret, "Does it?", ANSWERS)

    def student(i: int) -> None:
        classes.join(code, str(i))
        classes.vote(code, str(i), poll, i % 2)

    threads = [threading.Thread(target=student, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert classes.for_teacher(code, secret).poll.counts == (15, 15)


def test_what_is_in_a_class_is_there_after_a_kill(classes):
    """Of the process that wrote it, without a chance to close anything."""
    script = """
import os, signal, sys
from pathlib import Path
from playground.classroom.database import Classes
sys.path.insert(0, "tests")
from classroom.test_database import add
classes = Classes(Path(sys.argv[1]))
code, secret = classes.open()
classes.join(code, "ada", "Ada")
poll = classes.put(code, secret, "Does it?", ("yes", "no"))
classes.vote(code, "ada", poll, 1)
add(classes, "ada")
print(code, secret, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, classes.path], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == -9, done.stderr
    code, secret = done.stdout.split()
    assert classes.for_teacher(code, secret).poll.counts == (0, 1)
    assert len(classes.board(code, secret)[1]) == 1 and classes.of("ada") == code
