"""The run history outlives the app, keeps visitors apart, and loses nothing without a word."""

import json
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import platformdirs
import pytest
from platformdirs import windows
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Change, Trainer
from playground.history import database as module
from playground.history import file
from playground.history.database import History
from playground.history.file import FileUnavailable, data_folder
from playground.runs.snapshot import take_frame
from playground.runs.spec import Spec
from playground.runs.view import Record, Status

ROOT = Path(__file__).parents[2]


def spec_for(task="copy", **model) -> Spec:
    task = TASKS[task](length=3) if isinstance(task, str) else task
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": 1} | model
    return Spec(ModelConfig.for_task(task, **sizes), task, TrainConfig(batch_size=4, steps=5))


SPEC = spec_for()


def view_of(spec=SPEC, steps=3, status=Status.STOPPED, frame=False, message="", **rest):
    """A run with losses 1, 1/2, 1/3 …"""
    record = Record()
    for step in range(1, steps + 1):
        record._steps.append(1 / step, 1e-3, 1.0)
    if frame:
        trainer = Trainer(spec.model, spec.task, spec.training)
        record.add_frame(take_frame(trainer, spec.task.probe(spec.model.architecture)))
    record.seconds, record.changes = 1.5, rest.get("changes", ())
    return record.view(status=status, spec=spec, message=message, queue_position=None, busy=False)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "history.sqlite3"


@pytest.fixture
def history(path):
    return History(path)


def add(history, owner="anna", label="scale=none", spec=SPEC, **view):
    return history.add(owner, label, spec, view_of(spec, **view))


def labels(history, owner="anna") -> list[str]:
    return [entry.label for entry in history.list(owner)]


def loaded(history, owner, id, text=None) -> Spec:
    return Spec.from_dict(history.get(owner, id).spec, text)


def damage(path):
    path.write_bytes(b"no database at all" * 500)


# --- what is kept ---------------------------------------------------------------------------


def test_a_run_comes_back_as_it_was(history):
    changes = (Change(2, "scale", "none"), Change(2, "clip", None))
    view = view_of(replace(SPEC, probe="012"), changes=changes, frame=True, status=Status.DONE)
    entry = history.get("anna", history.add("anna", "my run", SPEC, view, created=123.0))
    assert entry.label == "my run" and entry.created == 123.0
    assert entry.view.changes == changes
    assert entry.view.steps.tolist() == [1, 2, 3]
    assert np.array_equal(entry.view.loss, view.loss)
    assert entry.view.val_steps.tolist() == [0]
    assert np.array_equal(entry.view.val_accuracy, view.val_accuracy)
    assert entry.result.status == "done" and entry.result.steps == 3
    assert entry.result.final_loss == pytest.approx(1 / 3), "the one step since the change"
    assert entry.result.accuracy == pytest.approx(view.val_accuracy[-1])
    assert entry.result.seconds == 1.5
    assert loaded(history, "anna", entry.id) == replace(SPEC, probe="012")


def test_a_run_that_was_never_measured_has_no_numbers(history):
    entry = history.get("anna", add(history, steps=0, status=Status.FAILED, message="too large"))
    assert entry.result.final_loss is entry.result.accuracy is entry.result.val_loss is None
    assert entry.result.message == "too large"
    assert len(entry.view.loss) == len(entry.view.val_loss) == 0
    assert not entry.has_picture and history.picture("anna", entry.id) is None


@pytest.mark.parametrize("steps", [299, 300, 301, 10_000])
def test_a_long_curve_is_thinned_and_keeps_its_ends(history, steps):
    entry = history.get("anna", add(history, steps=steps))
    assert len(entry.view.steps) == min(steps, 300)
    assert entry.view.steps[0] == 1 and entry.view.steps[-1] == steps
    assert (np.diff(entry.view.steps) >= 1).all()
    assert np.array_equal(entry.view.loss, np.float32(1 / entry.view.steps))


def test_the_picture_is_that_of_the_last_frame(history):
    spec = spec_for("reverse", architecture="encoder-decoder")
    view = view_of(spec, frame=True)
    picture = history.picture("anna", history.add("anna", "x", spec, view))
    (frame,) = view.frames
    assert picture.step == frame.step
    assert list(picture.attention) == list(frame.attention)
    for name, kept in picture.attention.items():
        seen = frame.attention[name]
        assert np.allclose(kept.stages["weights"], seen.stages["weights"], atol=1e-3)
        assert np.array_equal(kept.hidden, seen.hidden)
        assert (kept.stages["weights"][:, kept.hidden] == 0).all()
        words = ("query_tokens", "key_tokens", "entropy", "largest", "spread", "theory")
        assert all(getattr(kept, word) == getattr(seen, word) for word in words)


def test_a_large_picture_keeps_the_first_layers(history, monkeypatch):
    spec = spec_for(n_layers=8)
    view = view_of(spec, frame=True)
    whole = len(module._pack_picture(view.frames[-1]))
    monkeypatch.setattr(module, "MAX_PICTURE", whole // 2)
    picture = history.picture("anna", history.add("anna", "x", spec, view))
    assert 0 < len(picture.attention) < 8
    assert list(picture.attention) == list(view.frames[-1].attention)[: len(picture.attention)]
    monkeypatch.setattr(module, "MAX_PICTURE", 10)
    assert history.picture("anna", history.add("anna", "x", spec, view)) is None


def test_a_text_of_ones_own_is_kept_by_its_hash(history, path):
    """The text is asked for again, and only the very same one is taken."""
    text = "a private letter, written with care. " * 20
    spec = spec_for(TASKS["text"](source="own", length=8, text=text))
    number = add(history, spec=spec)
    for kept in path.parent.iterdir():
        assert b"private letter" not in kept.read_bytes()
    with pytest.raises(ValueError, match="hand in the text"):
        loaded(history, "anna", number)
    with pytest.raises(ValueError, match="SHA-256 differs"):
        loaded(history, "anna", number, text=text.upper())
    assert loaded(history, "anna", number, text=text) == spec


@pytest.mark.parametrize("task", TASKS)
def test_every_task_can_be_loaded_back(history, task):
    spec = Spec(ModelConfig.for_task(TASKS[task]()), TASKS[task](), TrainConfig(clip=None))
    assert loaded(history, "anna", history.add("anna", "x", spec, view_of(spec))) == spec


def test_a_knob_that_this_version_lacks_is_named(history, path):
    number = add(history)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE runs SET spec = replace(spec, '\"scale\"', '\"temper\"')")
    db.close()
    assert len(history.list("anna")) == 1
    with pytest.raises(ValueError, match="temper"):
        loaded(history, "anna", number)


# What a program or a bad disk may have left in a row: a column, and what stands in it.
DAMAGE = [
    ("spec", ""),
    ("spec", "[]"),
    ("spec", "{}"),
    ("spec", '{"task": {}, "model": {}, "training": {}}'),
    ("spec", '{"task": {"task": ["x"]}, "model": {}, "training": {}}'),
    ("spec", "null"),
    ("changes", "{}"),
    ("changes", '[[1, "lr", "x"]]'),
    ("changes", '[[9, "lr", 0.1]]'),
    ("result", "{}"),
    ("result", '{"status": "done"}'),
    ("result", "null"),
    ("curve", b"abc"),
    ("curve", b"\xff" * 24),
    ("curve", 3),
    ("validation", b"\0" * 5),
    ("created", "yesterday"),
    ("created", 1e300),
    ("created", -5.0),
]


@pytest.mark.parametrize(("column", "value"), DAMAGE)
def test_one_damaged_row_is_left_out_and_named(history, path, column, value):
    good, bad = add(history), add(history, label="mine")
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (value, bad))
    db.close()
    entries, damaged = history.read("anna")
    assert [entry.id for entry in entries] == [good] == [e.id for e in history.list("anna")]
    (said,) = damaged
    assert f"run {bad} cannot be read" in said and len(said) < 120
    with pytest.raises(ValueError, match=f"run {bad} cannot be read"):
        history.get("anna", bad)
    history.delete("anna", bad)
    assert not history.read("anna")[1] and len(history.list("anna")) == 1


def test_what_cannot_be_read_is_deleted_at_once_and_nothing_else(history, path):
    good, bad, worse, of_bert = add(history), add(history), add(history), add(history, "bert")
    with sqlite3.connect(path) as db:
        db.executemany("UPDATE runs SET spec = '' WHERE id = ?", [(bad,), (worse,), (of_bert,)])
    db.close()
    assert history.delete_damaged("anna") == 2 and history.delete_damaged("anna") == 0
    assert [entry.id for entry in history.list("anna")] == [good]
    assert history.read("anna")[1] == () and len(history.read("bert")[1]) == 1


@pytest.mark.parametrize(
    "result",
    [{"steps": -1}, {"steps": 2.5}, {"status": "running"}, {"final_loss": "x"}, {"seconds": True}],
)
def test_an_impossible_number_in_a_result_is_damage(history, path, result):
    number = add(history)
    with sqlite3.connect(path) as db:
        (stored,) = db.execute("SELECT result FROM runs").fetchone()
        db.execute("UPDATE runs SET result = ?", (json.dumps(json.loads(stored) | result),))
    db.close()
    assert history.read("anna")[0] == () and f"run {number}" in history.read("anna")[1][0]


def test_a_picture_that_would_fill_the_memory_is_refused(history, monkeypatch):
    number = history.add("anna", "x", SPEC, view_of(frame=True))
    assert history.picture("anna", number)
    monkeypatch.setattr(module, "MAX_UNPACKED", 100)
    with pytest.raises(ValueError, match="bytes unpacked, at most 100"):
        history.picture("anna", number)


def test_a_locked_file_is_said_after_a_page_s_patience_and_not_a_run_s(history, path, monkeypatch):
    add(history)
    waited = []
    connect = sqlite3.connect
    monkeypatch.setattr(file, "PATIENCE", 0.01)
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *args, timeout=5.0, **rest: (
            waited.append(timeout) or connect(*args, timeout=timeout, **rest)
        ),
    )
    other = connect(path)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    for call in (
        lambda: history.list("anna"),
        lambda: history.delete("anna", 1),
        lambda: history.rename("anna", 1, "x"),
    ):
        with pytest.raises(FileUnavailable, match="locked"):
            call()
    other.close()
    assert set(waited) == {0.01}
    add(history)
    assert waited[-1] == file.WAIT


def test_a_longer_version_replaces_an_entry_and_never_loses_it(history, monkeypatch):
    def full(*rest):
        raise sqlite3.OperationalError("database or disk is full")

    number = add(history)
    with monkeypatch.context() as broken:
        broken.setattr(module, "_drop_oldest", full)
        with pytest.raises(FileUnavailable):
            history.add("anna", "longer", SPEC, view_of(), instead=(number, "scale=none"))
    assert labels(history) == ["scale=none"]
    longer = history.add("anna", "longer", SPEC, view_of(), instead=(number, "scale=none"))
    assert labels(history) == ["longer"]
    history.rename("anna", longer, "mine")
    history.add("anna", "longest", SPEC, view_of(), instead=(longer, "longer"))
    assert labels(history) == ["mine"]
    history.add("bert", "his", SPEC, view_of(), instead=(longer + 1, "longest"))
    assert labels(history) == ["mine"], "only one's own"


# --- whose ----------------------------------------------------------------------------------


def test_each_visitor_sees_and_touches_only_their_own(history):
    annas, berts = add(history), add(history, "bert", "norm=pre")
    assert labels(history) == ["scale=none"] and labels(history, "bert") == ["norm=pre"]
    for forbidden in (
        lambda: history.get("anna", berts),
        lambda: history.picture("anna", berts),
        lambda: history.rename("anna", berts, "mine"),
        lambda: history.delete("anna", berts),
    ):
        with pytest.raises(ValueError, match=f"run {berts} is not in your history"):
            forbidden()
    history.delete("anna", annas)
    assert labels(history) == [] and labels(history, "bert") == ["norm=pre"]
    assert annas != berts


def test_a_single_user_sees_all(history):
    add(history), add(history, "bert", "norm=pre"), add(history, "", "mine")
    assert labels(history, "") == ["mine", "norm=pre", "scale=none"]


def test_a_run_can_be_renamed_and_deleted(history):
    first, second = add(history), add(history)
    history.rename("anna", first, "  the\none  that died ")
    assert labels(history) == ["scale=none", "the one that died"]
    with pytest.raises(ValueError, match="needs a name"):
        history.rename("anna", first, "  ")
    history.rename("anna", first, "x" * 1000)
    assert len(history.get("anna", first).label) == 120
    history.delete("anna", first)
    with pytest.raises(ValueError, match=f"run {first} is not in your history"):
        history.delete("anna", first)
    assert [entry.id for entry in history.list("anna")] == [second]
    history.delete("anna", second)
    assert add(history) > second, "an id is never given to another run"


def test_hostile_names_are_only_names(history):
    name = "'); DROP TABLE runs; --"
    add(history, name, name)
    assert labels(history, name) == [name]


# --- how much -------------------------------------------------------------------------------


def test_the_oldest_runs_make_room(history, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    add(history, "bert", "his")
    for number in range(5):
        add(history, label=f"run {number}")
    assert labels(history) == ["run 4", "run 3", "run 2"]
    assert labels(history, "bert") == ["his"]


def test_bytes_are_bounded_too(history, monkeypatch):
    add(history, label="run 0")
    size = sum(len(part) for part in _stored(history.path) if isinstance(part, str | bytes))
    monkeypatch.setattr(module, "MAX_BYTES", int(size * 2.5))
    for number in range(1, 5):
        add(history, label=f"run {number}")
    assert labels(history) == ["run 4", "run 3"]
    monkeypatch.setattr(module, "MAX_TOTAL_BYTES", int(size * 2.5))
    add(history, "bert", "his")
    assert labels(history, "") == ["his", "run 4"]


def _stored(path) -> tuple:
    db = sqlite3.connect(path)
    row = db.execute("SELECT * FROM runs").fetchone()
    db.close()
    return row


# --- the file -------------------------------------------------------------------------------


def test_it_survives_a_restart(history, path):
    number = add(history)
    again = History(path)
    assert again.get("anna", number).label == "scale=none" and again.notice is None


def test_a_damaged_file_is_set_aside_and_said(history, path):
    add(history)
    damage(path)
    assert history.list("anna") == ()
    (aside,) = path.parent.glob("*.damaged-*")
    assert aside.read_bytes().startswith(b"no database")
    assert str(aside) in history.notice and "a new run history" in history.notice
    add(history)
    damage(path)
    assert add(history), "a second time, and while writing"
    assert len(list(path.parent.glob("*.damaged-*"))) == 2
    assert len(labels(history)) == 1


def test_damage_in_the_middle_of_a_file_is_noticed(history, path):
    for _ in range(20):
        add(history, steps=300)
    data = bytearray(path.read_bytes())
    data[4096:-4096] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)
    assert history.list("anna") == () and "set aside" in history.notice
    assert add(history)


def test_a_file_without_its_table_is_set_aside(history, path):
    add(history)
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE runs")
    db.close()
    assert history.list("anna") == () and "set aside" in history.notice


def test_threads_that_find_the_damage_at_once_set_it_aside_once(history, path):
    add(history)
    damage(path)
    both = [threading.Thread(target=add, args=(History(path),)) for _ in range(4)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(list(path.parent.glob("*.damaged-*"))) == 1
    assert len(labels(history)) == 4


def test_a_file_of_a_newer_version_is_left_alone(history, path):
    add(history)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(FileUnavailable, match="format 99"):
        history.list("anna")
    assert history.notice is None and not list(path.parent.glob("*.damaged-*"))


def test_a_place_that_cannot_be_written_is_a_message(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileUnavailable, match="run history cannot be used"):
        add(History(tmp_path / "file" / "history.sqlite3"))
    (tmp_path / "history.sqlite3").mkdir()
    with pytest.raises(FileUnavailable, match="unable to open"):
        add(History(tmp_path / "history.sqlite3"))


def test_many_threads_write_and_read_at_once(history):
    failures = []

    def work(number):
        try:
            for i in range(5):
                add(history, f"visitor {number}", f"run {i}")
                assert labels(history, f"visitor {number}")[0] == f"run {i}"
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and len(history.list("")) == 30


def test_two_servers_share_the_file(history, path):
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.history.test_database import History, add\n"
        "for _ in range(10): add(History(Path(sys.argv[1])), sys.argv[2])"
    )
    servers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name], cwd=ROOT)
        for name in ("anna", "bert")
    ]
    for _ in range(10):
        add(history, "carl")
    assert [server.wait(120) for server in servers] == [0, 0]
    assert [len(history.list(name)) for name in ("anna", "bert", "carl")] == [10, 10, 10]


# --- where ----------------------------------------------------------------------------------


def without_settings(monkeypatch, **environment: str) -> None:
    for name in ("PLAYGROUND_DATA", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("system", "environment", "expected"),
    [
        (Unix, {"PLAYGROUND_DATA": "/data/here"}, "/data/here"),
        (windows.Windows, {"PLAYGROUND_DATA": "/data/here"}, "/data/here"),
        (Unix, {"XDG_DATA_HOME": "/xdg"}, "/xdg/transformer-playground"),
        (Unix, {"XDG_DATA_HOME": "relative"}, "/home/a/.local/share/transformer-playground"),
        (Unix, {}, "/home/a/.local/share/transformer-playground"),
        (MacOS, {}, "/home/a/Library/Application Support/transformer-playground"),
        (windows.Windows, {"LOCALAPPDATA": "/local"}, "/local/transformer-playground"),
    ],
)
def test_the_folder_is_where_the_system_keeps_such_data(monkeypatch, system, environment, expected):
    without_settings(monkeypatch, HOME="/home/a", **environment)
    monkeypatch.setattr(platformdirs, "PlatformDirs", system)
    monkeypatch.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)
    assert data_folder() == Path(expected)


def test_without_a_home_folder_the_message_says_what_to_set(monkeypatch):
    without_settings(monkeypatch)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(FileUnavailable, match="PLAYGROUND_DATA"):
        History().list("anna")


# --- a full disk ----------------------------------------------------------------------------


class OnFullDisk(sqlite3.Connection):
    """Has no room for anything beside the file itself, nor for the file to grow."""

    def execute(self, statement, *values):
        beside = super().execute("PRAGMA journal_mode").fetchone()[0] != "memory"
        word = statement.split()[0]
        if word in ("SELECT", "DELETE") and beside:
            raise failed("disk I/O error", sqlite3.SQLITE_IOERR_SHMOPEN)
        if word == "INSERT":
            raise failed("database or disk is full", sqlite3.SQLITE_FULL)
        return super().execute(statement, *values)


def failed(message: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


def fill_disk(monkeypatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=OnFullDisk))
    nothing = file.shutil.disk_usage("/")._replace(free=0)
    monkeypatch.setattr(file.shutil, "disk_usage", lambda path: nothing)


def test_on_a_full_disk_runs_are_read_and_deleted_and_what_needs_room_is_refused(
    history, monkeypatch
):
    first, second = add(history), add(history)
    fill_disk(monkeypatch)
    assert [entry.id for entry in history.list("anna")] == [second, first]
    with pytest.raises(FileUnavailable, match="the disk is full"):
        add(history)
    history.delete("anna", first)
    monkeypatch.undo()
    assert [entry.id for entry in history.list("anna")] == [second]
    assert add(history) > second, "and the file is whole"
