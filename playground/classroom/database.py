"""Classes: who is in, what is voted on, and what the runs of its members came to, in SQLite.

A class has a code that everybody may know and a secret that its teacher alone holds; of the secret,
and of what tells browsers apart, only hashes are kept. What only a teacher may do goes through one
function, `Classes._as_teacher`, which checks the secret in the transaction that does it. A class
ends by its teacher's click or after a day, and everything that was collected goes with it.
"""

import hashlib
import hmac
import json
import math
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from core.train import Change
from playground.history.file import WAIT, Answer, SqliteFile
from playground.runs.spec import Spec
from playground.runs.view import View

DAY = 24 * 3600.0  # seconds that a class lasts
LETTERS = "BCDFGHJKMNPQRSTVWXZ"  # of a code: none that looks like another, no vowels, so no words
CODE_LENGTH = 5
MAX_CLASSES = 50
MAX_MEMBERS = 200  # of a class
MAX_POLLS = 100
MAX_POINTS = 3000
MAX_POINTS_EACH = 100  # of one member
MAX_NAME = 24  # characters of a nickname
MAX_QUESTION, MAX_ANSWER = 300, 120  # characters
NAMELESS = "a student"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS classes (
    code TEXT PRIMARY KEY,
    secret TEXT NOT NULL,      -- SHA-256
    opened REAL NOT NULL,
    ends REAL NOT NULL,
    setup TEXT NOT NULL,       -- JSON: the teacher's set-up; empty: every knob at its default
    board INTEGER NOT NULL     -- whether students see the board
);
CREATE TABLE IF NOT EXISTS members (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    code TEXT NOT NULL,
    browser TEXT NOT NULL,     -- SHA-256
    name TEXT NOT NULL,        -- empty: none was given
    hidden INTEGER NOT NULL,
    UNIQUE (code, browser)
);
CREATE TABLE IF NOT EXISTS polls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    code TEXT NOT NULL,
    scenario TEXT NOT NULL,    -- empty: a claim in the teacher's own words
    question TEXT NOT NULL,
    answers TEXT NOT NULL,     -- JSON: [text, ...]
    stage TEXT NOT NULL,
    happened INTEGER           -- number of the answer
);
CREATE TABLE IF NOT EXISTS votes (
    code TEXT NOT NULL,
    poll INTEGER NOT NULL,
    member INTEGER NOT NULL,
    answer INTEGER NOT NULL,
    PRIMARY KEY (poll, member)
);
CREATE TABLE IF NOT EXISTS points (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    code TEXT NOT NULL,
    member INTEGER NOT NULL,
    run TEXT NOT NULL,         -- a run that is trained further replaces its point
    spec TEXT NOT NULL,        -- JSON: as the run began
    changes TEXT NOT NULL,     -- JSON: [[step, field, value], ...]
    steps INTEGER NOT NULL,
    loss REAL,                 -- none where it diverged
    accuracy REAL,
    diverged INTEGER NOT NULL,
    UNIQUE (code, run)
);
CREATE INDEX IF NOT EXISTS members_by_browser ON members (browser);
CREATE INDEX IF NOT EXISTS polls_of_class ON polls (code);
CREATE INDEX IF NOT EXISTS points_of_class ON points (code);
"""
_TABLES = ("points", "votes", "polls", "members", "classes")


class NoSuchClass(ValueError):
    """There is no class of this code: it has ended, or there never was one."""


class NotTheTeacher(ValueError):
    """The secret is not that of the class."""


class Stage(StrEnum):
    """How far a vote has come."""

    OPEN = "open"
    CLOSED = "closed"
    RUNNING = "running"  # on the teacher's screen
    OVER = "over"  # what happened is known
    AWAY = "away"  # off the students' screens


# What a teacher may do with a vote in each stage.
_NEXT = {
    Stage.OPEN: (Stage.CLOSED, Stage.AWAY),
    Stage.CLOSED: (Stage.OPEN, Stage.RUNNING, Stage.OVER, Stage.AWAY),
    Stage.RUNNING: (Stage.CLOSED, Stage.OVER, Stage.AWAY),
    Stage.OVER: (Stage.AWAY,),
    Stage.AWAY: (),
}


@dataclass(frozen=True)
class Poll:
    """A question to the class, as somebody sees it."""

    id: int
    scenario: str  # its name; empty: a claim in the teacher's own words
    question: str
    answers: tuple[str, ...]
    stage: Stage
    happened: int | None  # number of the answer
    counts: tuple[int, ...] | None  # votes for each answer; None: not shown yet
    mine: int | None = None  # the answer that this browser has chosen


@dataclass(frozen=True)
class Member:
    id: int
    name: str  # empty: none was given
    hidden: bool


@dataclass(frozen=True)
class Point:
    """A finished run of a member. The loss is in nats per scored token."""

    id: int
    member: int
    name: str  # as it may be shown
    spec: str  # JSON: as the run began
    changes: str  # JSON: [[step, field, value], ...]
    steps: int
    loss: float | None  # None: diverged
    accuracy: float | None
    diverged: bool


@dataclass(frozen=True)
class ForStudent:
    """What a student may see of a class."""

    name: str
    students: int
    poll: Poll | None
    board: bool
    runs: int  # of this student, on the board


@dataclass(frozen=True)
class ForTeacher:
    """What the teacher sees of a class."""

    members: tuple[Member, ...]
    poll: Poll | None
    board: bool  # whether students see it
    runs: int
    ends: float  # seconds since 1970


class Classes(SqliteFile):
    """All classes of this server.

    Every method raises FileUnavailable where the file cannot be used, and NoSuchClass where it is
    given the code of a class that there is not. Those that take a secret raise NotTheTeacher where
    it is not the class's.
    """

    name, what, schema, version = "classes.sqlite3", "file of the classes", _SCHEMA, 1

    # --- anybody ----------------------------------------------------------------------------

    def open(self) -> tuple[str, str]:
        """A new class: its code and its secret, which is kept nowhere else.

        Raises:
            ValueError: there are as many classes as this server takes on.
        """
        secret = secrets.token_urlsafe(24)

        def write(db: sqlite3.Connection) -> str:
            taken = {code for (code,) in db.execute("SELECT code FROM classes")}
            if len(taken) >= MAX_CLASSES:
                raise ValueError(f"{MAX_CLASSES} classes are open on this server: end one first")
            code = next(code for code in iter(_new_code, None) if code not in taken)
            now = time.time()
            row = (code, _hashed(secret), now, now + DAY, "", 0)
            db.execute("INSERT INTO classes VALUES (?, ?, ?, ?, ?, ?)", row)
            return code

        return self._write(write), secret

    def check(self, code: str) -> None:
        """That there is such a class."""
        self._read(lambda db: _check_there(db, code))

    def join(self, code: str, browser: str, name: str = "") -> None:
        """Take a browser into a class, or give it another name there.

        Raises:
            ValueError: the class is full.
        """

        def write(db: sqlite3.Connection) -> None:
            _check_there(db, code)
            who = (code, _hashed(browser))
            there = "SELECT id FROM members WHERE code = ? AND browser = ?"
            if db.execute(there, who).fetchone():
                rename = "UPDATE members SET name = ? WHERE code = ? AND browser = ?"
                db.execute(rename, (clean(name, MAX_NAME), *who))
                return
            if _count(db, "members", code) >= MAX_MEMBERS:
                raise ValueError(f"this class is full: it has {MAX_MEMBERS} students")
            add = "INSERT INTO members (code, browser, name, hidden) VALUES (?, ?, ?, 0)"
            db.execute(add, (*who, clean(name, MAX_NAME)))

        self._write(write)

    def leave(self, code: str, browser: str) -> None:
        """Take a browser out of a class, with its votes and its runs."""

        def write(db: sqlite3.Connection) -> None:
            if (member := _member(db, code, browser)) is not None:
                for table in ("votes", "points"):
                    db.execute(f"DELETE FROM {table} WHERE member = ?", (member,))
                db.execute("DELETE FROM members WHERE id = ?", (member,))

        self._write(write)

    def of(self, browser: str) -> str | None:
        """The class that a browser is in: the one that it joined last."""
        if not self.path.exists():  # most servers never have a class
            return None
        last = "SELECT code FROM members WHERE browser = ? ORDER BY id DESC LIMIT 1"
        row = self._read(lambda db: db.execute(last, (_hashed(browser),)).fetchone())
        return row[0] if row else None

    def expire(self) -> None:
        """Delete the classes whose day is over, if there are any."""
        if self.path.exists():
            self._read(lambda db: None)

    # --- a student --------------------------------------------------------------------------

    def for_student(self, code: str, browser: str) -> ForStudent | None:
        """What a student may see; None: this browser is not in the class."""

        def read(db: sqlite3.Connection) -> ForStudent | None:
            board = _check_there(db, code)[1]
            if (member := _member(db, code, browser)) is None:
                return None
            (name,) = db.execute("SELECT name FROM members WHERE id = ?", (member,)).fetchone()
            mine = "SELECT count(*) FROM points WHERE member = ?"
            return ForStudent(
                name,
                _count(db, "members", code),
                _poll(db, code, member=member),
                board,
                db.execute(mine, (member,)).fetchone()[0],
            )

        return self._read(read)

    def vote(self, code: str, browser: str, poll: int, answer: int) -> None:
        """Choose an answer, instead of the one that was chosen before.

        Raises:
            ValueError: the vote is not open, there is no such answer, or this browser is not in
                the class.
        """

        def write(db: sqlite3.Connection) -> None:
            _check_there(db, code)
            if (member := _member(db, code, browser)) is None:
                raise ValueError("join the class first: then you can vote")
            row = _one_poll(db, code, poll)
            if row.stage is not Stage.OPEN:
                raise ValueError("the vote is closed: your last answer counts")
            if type(answer) is not int or not 0 <= answer < len(row.answers):
                raise ValueError(f"answer={answer!r}: there are {len(row.answers)}")
            add = "INSERT OR REPLACE INTO votes (code, poll, member, answer) VALUES (?, ?, ?, ?)"
            db.execute(add, (code, poll, member, answer))

        self._write(write)

    def add_point(self, browser: str, run: str, began: Spec, view: View) -> bool:
        """Put a run on the board of the class that its browser is in; whether it is there.

        Args:
            run: tells it from others; the same again replaces the point.
            began: as the run began, before hot changes.
            view: the run at its end.
        """
        if (code := self.of(browser)) is None:
            return False
        accuracy = float(view.val_accuracy[-1]) if len(view.val_accuracy) else math.nan
        row = (
            run,
            json.dumps(began.to_dict() | {"probe": None}),
            json.dumps([list(change) for change in view.changes]),
            len(view.loss),
            _finite(view.reached()),
            None if view.diverged else _finite(accuracy),
            int(view.diverged),
        )

        def write(db: sqlite3.Connection) -> bool:
            if (member := _member(db, code, browser)) is None:
                return False
            db.execute("DELETE FROM points WHERE code = ? AND run = ?", (code, run))
            each = "SELECT count(*) FROM points WHERE member = ?"
            mine = db.execute(each, (member,)).fetchone()[0]
            if mine >= MAX_POINTS_EACH or _count(db, "points", code) >= MAX_POINTS:
                return False
            columns = "code, member, run, spec, changes, steps, loss, accuracy, diverged"
            add = f"INSERT INTO points ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            db.execute(add, (code, member, *row))
            return True

        return self._write(write)

    def board_for_student(self, code: str, browser: str) -> tuple[Spec | None, tuple[Point, ...]]:
        """The teacher's set-up and all points, where students see the board; else nothing."""

        def read(db: sqlite3.Connection) -> tuple[Spec | None, tuple[Point, ...]]:
            setup, board = _check_there(db, code)
            if not board or _member(db, code, browser) is None:
                return None, ()
            return setup, _points(db, code)

        return self._read(read)

    # --- the teacher ------------------------------------------------------------------------

    def is_teacher(self, code: str, secret: str) -> bool:
        """Whether this is the secret of the class."""
        with suppress(NotTheTeacher, NoSuchClass):
            self._as_teacher(code, secret, lambda db: None)
            return True
        return False

    def for_teacher(self, code: str, secret: str) -> ForTeacher:
        """Who is in the class, and what it is voting on."""

        def read(db: sqlite3.Connection) -> ForTeacher:
            query = "SELECT id, name, hidden FROM members WHERE code = ? ORDER BY id"
            rows = db.execute(query, (code,)).fetchall()
            about = "SELECT board, ends FROM classes WHERE code = ?"
            board, ends = db.execute(about, (code,)).fetchone()
            return ForTeacher(
                tuple(Member(id, name, bool(hidden)) for id, name, hidden in rows),
                _poll(db, code, teacher=True),
                bool(board),
                _count(db, "points", code),
                ends,
            )

        return self._as_teacher(code, secret, read)

    def put(
        self, code: str, secret: str, question: str, answers: Sequence[str], scenario: str = ""
    ) -> int:
        """Ask the class, instead of what was asked before; the number of the vote.

        Raises:
            ValueError: names what the question or its answers lack.
        """
        question = " ".join(question.split())
        answers = [" ".join(answer.split()) for answer in answers]
        check_poll(question, answers)

        def write(db: sqlite3.Connection) -> int:
            if _count(db, "polls", code) >= MAX_POLLS:
                raise ValueError(f"this class has had {MAX_POLLS} votes: open another one")
            db.execute("UPDATE polls SET stage = ? WHERE code = ?", (Stage.AWAY, code))
            add = "INSERT INTO polls (code, scenario, question, answers, stage) VALUES (?,?,?,?,?)"
            row = (code, scenario, question, json.dumps(answers), Stage.OPEN)
            return db.execute(add, row).lastrowid

        return self._as_teacher(code, secret, write)

    def move(
        self, code: str, secret: str, poll: int, stage: Stage, happened: int | None = None
    ) -> None:
        """Bring a vote to another stage: close it, run it, tell what happened, put it away.

        Args:
            happened: number of the answer; with `Stage.OVER`, and only there.

        Raises:
            ValueError: not from where it is; or there is no such vote or answer.
        """

        def write(db: sqlite3.Connection) -> None:
            row = _one_poll(db, code, poll)
            if row.stage is stage:
                return
            if stage not in _NEXT[row.stage]:
                raise ValueError(f"the vote is {row.stage}: it cannot become {stage}")
            known = happened is not None and 0 <= happened < len(row.answers)
            if (stage is Stage.OVER) != known and stage is not Stage.AWAY:
                raise ValueError(f"happened={happened!r}: there are {len(row.answers)} answers")
            told = row.happened if stage is Stage.AWAY else happened
            change = "UPDATE polls SET stage = ?, happened = ? WHERE id = ?"
            db.execute(change, (stage, told, poll))

        self._as_teacher(code, secret, write)

    def hide(self, code: str, secret: str, members: Sequence[int]) -> None:
        """Hide the names of these members, and of no others."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE members SET hidden = 0 WHERE code = ?", (code,))
            rows = [(code, member) for member in members]
            db.executemany("UPDATE members SET hidden = 1 WHERE code = ? AND id = ?", rows)

        self._as_teacher(code, secret, write)

    def show_board(self, code: str, secret: str, shown: bool) -> None:
        """Let students see the board, or not."""
        change = "UPDATE classes SET board = ? WHERE code = ?"
        self._as_teacher(code, secret, lambda db: db.execute(change, (int(shown), code)))

    def set_up(self, code: str, secret: str, spec: Spec) -> None:
        """What the runs on the board are held against."""
        change = "UPDATE classes SET setup = ? WHERE code = ?"
        written = json.dumps(spec.to_dict() | {"probe": None, "label": ""})
        self._as_teacher(code, secret, lambda db: db.execute(change, (written, code)))

    def board(self, code: str, secret: str) -> tuple[Spec | None, tuple[Point, ...]]:
        """The teacher's set-up and all points."""
        return self._as_teacher(
            code, secret, lambda db: (_check_there(db, code)[0], _points(db, code))
        )

    def end(self, code: str, secret: str) -> None:
        """End a class: everything that was collected is deleted."""
        self._as_teacher(code, secret, lambda db: _delete(db, code))

    # --- transactions -----------------------------------------------------------------------

    def _as_teacher(
        self, code: str, secret: str, work: Callable[[sqlite3.Connection], Answer]
    ) -> Answer:
        """What only the teacher may do: everything that changes or shows a class goes here.

        Raises:
            NotTheTeacher: the secret is not that of the class.
        """

        def checked(db: sqlite3.Connection) -> Answer:
            _check_there(db, code)
            kept = db.execute("SELECT secret FROM classes WHERE code = ?", (code,)).fetchone()[0]
            if not hmac.compare_digest(_hashed(secret), kept):
                raise NotTheTeacher("only the teacher of this class can do that")
            return work(db)

        return self._write(checked)

    def _write(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        def alone(db: sqlite3.Connection) -> Answer:
            db.execute("BEGIN IMMEDIATE")
            _expire(db)
            return work(db)

        return self._do(alone, WAIT)

    def _read(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        def read(db: sqlite3.Connection) -> Answer:
            _expire(db)
            return work(db)

        return self._do(read)


CLASSES = Classes()


# --- what is checked ------------------------------------------------------------------------


def clean(text: str, most: int) -> str:
    """A text in one line, without what cannot be seen, cut to so many characters."""
    seen = "".join(c if c.isprintable() else " " for c in str(text))
    return " ".join(seen.split())[:most].strip()


def check_poll(question: str, answers: Sequence[str]) -> None:
    """That this can be voted on.

    Raises:
        ValueError: names what is missing or too much.
    """
    if not question:
        raise ValueError("the claim is empty: write what the class is to judge")
    if len(question) > MAX_QUESTION:
        raise ValueError(
            f"the claim has {len(question)} characters, at most {MAX_QUESTION} are taken"
        )
    if not 2 <= len(answers) <= 4:
        raise ValueError(f"{len(answers)} answers: give 2 to 4, one a line")
    for answer in answers:
        if not 0 < len(answer) <= MAX_ANSWER:
            raise ValueError(f"an answer has {len(answer)} characters: give each 1 to {MAX_ANSWER}")
    if len(set(answers)) < len(answers):
        raise ValueError("two answers are the same: each must differ")


def code_of(text: str) -> str:
    """The code that somebody has typed: in capitals, without spaces."""
    return "".join(str(text).split()).upper()[: CODE_LENGTH + 1]


def _new_code() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))


def _hashed(text: str) -> str:
    return hashlib.sha256(str(text).encode(errors="replace")).hexdigest()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# --- rows -----------------------------------------------------------------------------------


def _expire(db: sqlite3.Connection) -> None:
    over = db.execute("SELECT code FROM classes WHERE ends <= ?", (time.time(),)).fetchall()
    for (code,) in over:
        _delete(db, code)


def _delete(db: sqlite3.Connection, code: str) -> None:
    for table in _TABLES:
        db.execute(f"DELETE FROM {table} WHERE code = ?", (code,))


def _check_there(db: sqlite3.Connection, code: str) -> tuple[Spec | None, bool]:
    """The teacher's set-up, if one was chosen, and whether students see the board."""
    row = db.execute("SELECT setup, board FROM classes WHERE code = ?", (code,)).fetchone()
    if row is None:
        raise NoSuchClass(f"There is no class {clean(code, 12)}: it has ended, or never was")
    setup = None
    with suppress(ValueError):  # of an earlier version
        setup = Spec.from_dict(json.loads(row[0])) if row[0] else None
    return setup, bool(row[1])


def _count(db: sqlite3.Connection, table: str, code: str) -> int:
    return db.execute(f"SELECT count(*) FROM {table} WHERE code = ?", (code,)).fetchone()[0]


def _member(db: sqlite3.Connection, code: str, browser: str) -> int | None:
    query = "SELECT id FROM members WHERE code = ? AND browser = ?"
    row = db.execute(query, (code, _hashed(browser))).fetchone()
    return row[0] if row else None


_POLL = "SELECT id, scenario, question, answers, stage, happened FROM polls WHERE code = ?"


def _one_poll(db: sqlite3.Connection, code: str, id: int) -> Poll:
    row = db.execute(f"{_POLL} AND id = ?", (code, id)).fetchone()
    if row is None:
        raise ValueError(f"vote {id!r}: this class has none of that number")
    return _poll_of(row)


def _poll_of(row: tuple) -> Poll:
    id, scenario, question, answers, stage, happened = row
    return Poll(id, scenario, question, tuple(json.loads(answers)), Stage(stage), happened, None)


def _poll(
    db: sqlite3.Connection, code: str, member: int | None = None, teacher: bool = False
) -> Poll | None:
    """What is voted on now. Students see the counts only beside what happened."""
    query = f"{_POLL} AND stage != ? ORDER BY id DESC LIMIT 1"
    row = db.execute(query, (code, Stage.AWAY)).fetchone()
    if row is None:
        return None
    poll = _poll_of(row)
    votes = dict(db.execute("SELECT member, answer FROM votes WHERE poll = ?", (poll.id,)))
    counts = tuple(list(votes.values()).count(i) for i in range(len(poll.answers)))
    seen = counts if teacher or poll.stage is Stage.OVER else None
    return Poll(
        poll.id,
        poll.scenario,
        poll.question,
        poll.answers,
        poll.stage,
        poll.happened,
        seen,
        votes.get(member),
    )


def _points(db: sqlite3.Connection, code: str) -> tuple[Point, ...]:
    rows = db.execute(
        """SELECT points.id, member, name, hidden, spec, changes, steps, loss, accuracy, diverged
        FROM points JOIN members ON members.id = member WHERE points.code = ? ORDER BY points.id""",
        (code,),
    )
    return tuple(
        Point(
            id,
            member,
            name if name and not hidden else NAMELESS,
            spec,
            changes,
            steps,
            loss,
            accuracy,
            bool(diverged),
        )
        for id, member, name, hidden, spec, changes, steps, loss, accuracy, diverged in rows
    )


def changes_of(point: Point) -> tuple[Change, ...]:
    """What was turned while the run trained."""
    return tuple(Change(*change) for change in json.loads(point.changes))
