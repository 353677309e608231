"""What goes into the history and when, and the page on which it is found again."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Change
from helpers import SMALL, fine, opened, spec_for, texts, wait
from playground.experiments.comparison import Comparison
from playground.experiments.variants import make_setup
from playground.history.database import History
from playground.history.file import FileUnavailable
from playground.history.names import specs_of, tell_apart, title
from playground.history.recorder import RECORDER, WORTH_KEEPING, Recorder
from playground.runs.pool import Runs
from playground.runs.spec import Spec
from playground.runs.view import Status
from playground.ui import session

FOREVER = 1_000_000


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PLAYGROUND_DATA", str(tmp_path / "data"))
    yield tmp_path / "data"
    RECORDER.flush(30)
    RECORDER.problem = None


@pytest.fixture
def memory(tmp_path):
    memory = Recorder(History(tmp_path / "history.sqlite3"))
    memory.set_owner("tab", "anna")
    return memory


@pytest.fixture
def runs(memory):
    runs = Runs(workers=1, grace=3600)
    runs.on_end = [memory.keep]
    yield runs
    runs.close()


def kept(memory: Recorder, owner: str = "anna"):
    assert memory.flush(30)
    return memory.history.list(owner)


# --- what an entry is called --------------------------------------------------------------------


def test_a_run_is_called_by_what_it_changed_from_the_defaults():
    task = TASKS["copy"]()
    usual = Spec(ModelConfig.for_task(task), task, TrainConfig())
    assert title(usual) == "the defaults"
    model = replace(usual.model, scale="none")
    other = replace(usual, model=model, training=TrainConfig(lr=0.01))
    assert title(other) == "scale=none, lr=0.01"
    changes = [Change(120, "residual", False), Change(120, "lr", 0.1), Change(150, "mask", "none")]
    assert title(usual, changes) == (
        "the defaults; residual=off, lr=0.1 after step 120; mask=none after step 150"
    )


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_defaults_to_differ_from(name):
    task = TASKS[name]()
    assert title(Spec(ModelConfig.for_task(task), task, TrainConfig())) == "the defaults"


def test_a_text_of_ones_own_is_called_so():
    task = TASKS["text"](source="own", text="abcd efgh " * 50, length=8)
    spec = Spec(ModelConfig.for_task(task), task, TrainConfig())
    assert title(spec) == "source=own, length=8"


# --- what is kept, and when ---------------------------------------------------------------------


def test_a_run_that_ends_is_kept_once_without_a_page_that_looks(runs, memory):
    run = runs.start("tab", spec_for())
    wait(lambda: run.view().status is Status.DONE)
    wait(lambda: kept(memory))
    run.show("123")
    runs.discard(run)
    (entry,) = kept(memory)
    assert (entry.result.status, entry.result.steps) == ("done", 30)
    assert entry.has_picture and memory.history.picture("anna", entry.id).step == 30
    np.testing.assert_array_equal(entry.view.loss, run.view().loss)


def test_a_run_that_is_replaced_is_kept_as_far_as_it_got(runs, memory):
    run = runs.start("tab", spec_for(steps=FOREVER))
    wait(lambda: len(run.view().loss) > WORTH_KEEPING)
    runs.discard(run)
    (entry,) = kept(memory)
    assert entry.result.status == "stopped" and entry.result.steps > WORTH_KEEPING


def test_a_run_that_diverged_is_kept_with_its_reason(runs, memory):
    run = runs.start("tab", spec_for(steps=FOREVER))
    wait(lambda: len(run.view().loss) > WORTH_KEEPING)
    run.change(run.started.turned({"lr": 1e30, "clip": None}))
    wait(lambda: run.view().status is Status.DIVERGED and kept(memory))
    (entry,) = kept(memory)
    assert entry.result.status == "diverged" and "diverged at step" in entry.result.message
    assert "lr=1e30" in entry.label


def test_a_short_run_is_not_kept(runs, memory):
    run = runs.start("tab", spec_for(steps=WORTH_KEEPING - 1))
    wait(lambda: run.view().status is Status.DONE)
    runs.discard(run)
    assert kept(memory) == ()


def test_a_run_that_goes_on_after_its_end_takes_the_place_of_its_first_part(runs, memory):
    run = runs.start("tab", spec_for())
    wait(lambda: kept(memory))
    memory.history.rename("anna", kept(memory)[0].id, "mine")
    run.change(run.started.turned({"steps": 40}))
    run.play()
    wait(lambda: run.view().status is Status.DONE and len(run.view().loss) == 40)
    wait(lambda: [entry.result.steps for entry in kept(memory)] == [40])
    assert kept(memory)[0].label == "mine"


def test_runs_of_a_visitor_who_left_are_kept(memory):
    runs = Runs(workers=1, grace=0.01)
    runs.on_end = [memory.keep]
    run = runs.start("tab", spec_for(steps=FOREVER))
    wait(lambda: len(run.view().loss) > WORTH_KEEPING)
    runs.leave("tab")
    wait(lambda: kept(memory))
    runs.close()
    assert len(kept(memory)) == 1


def test_runs_that_go_on_when_the_server_ends_are_kept(runs, memory):
    run = runs.start("tab", spec_for(steps=FOREVER))
    wait(lambda: len(run.view().loss) > WORTH_KEEPING)
    runs.close()
    assert len(kept(memory)) == 1


def test_runs_of_nobody_known_are_not_kept(runs, memory):
    memory.set_owner("tab", None)
    run = runs.start("tab", spec_for())
    other = runs.start("somebody", spec_for())
    for each in (run, other):
        wait(lambda each=each: each.view().status is Status.DONE)
    assert kept(memory) == () and kept(memory, "") == ()


def test_each_visitor_has_runs_of_their_own(runs, memory):
    memory.set_owner("other tab", "ben")
    for tab in ("tab", "other tab"):
        runs.start(tab, spec_for())
    wait(lambda: len(kept(memory, "")) == 2)
    assert len(kept(memory)) == len(kept(memory, "ben")) == 1


def test_a_history_that_cannot_be_used_stops_no_run(runs, memory, monkeypatch):
    def refuse(*_, **__):
        raise FileUnavailable("the disk is full")

    monkeypatch.setattr(memory.history, "add", refuse)
    run = runs.start("tab", spec_for())
    wait(lambda: run.view().status is Status.DONE)
    wait(lambda: memory.flush(30) and memory.problem == "the disk is full")


# --- whose history ------------------------------------------------------------------------------


class Context:
    def __init__(self, ip=None, **headers):
        self.ip_address = ip
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    "context, local",
    [
        (Context(), True),
        (Context(Host="localhost:8501"), True),
        (Context(Host="127.0.0.1:8501"), True),
        (Context(Host="[::1]:8501"), True),
        (Context(ip="192.168.0.7", Host="192.168.0.2:8501"), False),
        (Context(Host="playground.example.org"), False),
        (Context(Host="localhost:8501", X_Forwarded_For="203.0.113.9"), False),
        (Context(Host="localhost:8501", Forwarded="for=203.0.113.9"), False),
        (Context(Host="localhost:8501", Origin="http://localhost:8501"), True),
        # Through a forwarded port: its other end has another number, name or origin.
        (Context(Host="localhost:9000"), False),
        (Context(Host="localhost"), False),
        (Context(Host="localhost:8501", Origin="https://abc.tunnel.example"), False),
        (Context(Host="localhost:8501", Origin="null"), False),
        (Context(Host="localhost:x"), False),
    ],
)
def test_who_sits_at_the_machine_is_told_from_who_comes_over_the_net(context, local, monkeypatch):
    monkeypatch.setattr(session.st, "context", context)
    monkeypatch.delenv("PLAYGROUND_HISTORY")
    assert session.is_local() is local
    assert session.history_mode() == ("single" if local else "visitor")


@pytest.mark.parametrize(
    "address, mode",
    [("localhost", "single"), ("127.0.0.1", "single"), ("0.0.0.0", "visitor"), (None, "visitor")],
)
def test_a_server_that_listens_to_others_keeps_no_history_for_all(address, mode, monkeypatch):
    monkeypatch.setattr(session.st, "context", Context(Host="localhost:8501"))
    monkeypatch.delenv("PLAYGROUND_HISTORY")
    options = {"server.address": address, "server.port": 8501}
    monkeypatch.setattr(session.st, "get_option", options.__getitem__)
    assert session.history_mode() == mode


def test_an_unknown_mode_is_named(monkeypatch):
    monkeypatch.setenv("PLAYGROUND_HISTORY", "shared")
    with pytest.raises(ValueError, match="PLAYGROUND_HISTORY='shared': choose one of single"):
        session.history_mode()


# --- the page -----------------------------------------------------------------------------------


def add(label: str, spec: Spec | None = None, owner: str = "", steps: int = 50) -> int:
    """A run that was made earlier."""
    runs, spec = Runs(workers=1, grace=3600), spec or spec_for()
    spec = replace(spec, training=replace(spec.training, steps=steps))
    try:
        run = runs.start("tab", spec)
        wait(lambda: run.view().status is Status.DONE)
        return History().add(owner, label, spec, run.view())
    finally:
        runs.close()


def choose(test: AppTest, *rows: int) -> AppTest:
    test.session_state[test.dataframe[0].key] = {"selection": {"rows": list(rows), "columns": []}}
    return fine(test.run())


def labels(test: AppTest) -> list[str]:
    return list(test.dataframe[0].value["what changed"]) if test.dataframe else []


def test_an_empty_history_says_how_it_fills():
    assert "at least 20 steps" in texts(opened("history").info)


def test_runs_stand_in_the_table_newest_first():
    add("the first", spec_for(scale="none"))
    add("the second", steps=60)
    test = opened("history")
    table = test.dataframe[0].value
    assert labels(test) == ["the second", "the first"]
    assert list(table["task"]) == ["copy", "copy"] and list(table["steps"]) == [60, 50]
    assert list(table["ended"]) == ["finished", "finished"]
    assert (table["final loss"] > 0).all() and (table["loss"].map(len) > 20).all()


def test_a_run_of_the_playground_comes_into_the_history():
    test = opened(**SMALL | {"scale": "none"})
    fine(test.button(key="play").click().run())
    wait(lambda: not test.session_state.controller.view.live)
    wait(lambda: RECORDER.flush(30) and History().list(""))
    fine(test.switch_page("app_pages/history.py").run())
    (label,) = labels(test)
    assert "scale=none" in label and "steps=50" in label


def test_one_run_is_loaded_back_into_the_knobs():
    add("mine", replace(spec_for(scale="none", seed=7, lr=0.0123), probe="321"))
    test = choose(opened("history"), 0)
    fine(test.button(key="to_knobs").click().run())
    spec = test.session_state.choice.spec
    assert (spec.model.scale, spec.task.name, spec.task.length) == ("none", "copy", 3)
    assert (spec.training.seed, spec.training.lr) == (7, 0.0123)
    assert test.session_state.probe == "321"
    assert [b.key for b in test.button if b.key == "play"], "the Playground is shown"


def test_several_runs_lie_over_each_other_and_under_the_playgrounds():
    for label in ("a", "b", "b"):
        add(label)
    test = choose(opened("history"), 0, 1, 2)
    assert test.button(key="to_knobs").disabled
    fine(test.button(key="show_in_playground").click().run())
    ghosts = test.session_state.controller.ghosts
    assert [ghost.label for ghost in ghosts] == ["b", "b", "a"]
    assert all(len(ghost.view.loss) == 50 for ghost in ghosts)
    fine(test.button(key="hide_ghosts").click().run())
    assert test.session_state.controller.ghosts == []


def test_beside_others_a_run_is_called_by_what_differs():
    for knobs in ({"scale": "none"}, {"lr": 0.01}, {}):
        add(title(spec_for(**knobs, steps=50)), spec_for(**knobs))
    add("my name", spec_for(scale="none", lr=0.01))
    entries = History().list("")
    names, shared = tell_apart(entries, specs_of(entries))
    expected = ["my name"]
    expected += [
        f"scale={s}, lr={lr}" for s, lr in (("√d_k", 0.001), ("√d_k", 0.01), ("none", 0.001))
    ]
    assert list(names.values()) == expected
    assert "steps=50" in shared and "scale" not in shared and "lr=" not in shared
    assert list(tell_apart(entries[1:2], specs_of(entries))[0].values()) == [entries[1].label], (
        "alone: all of it"
    )
    twins = [entries[1], replace(entries[1], id=0)]
    same, _ = tell_apart(twins, specs_of(twins))
    assert list(same.values()) == [f"{entries[1].label} (1)", f"{entries[1].label} (2)"]
    test = choose(opened("history"), 1, 2)
    assert "steps=50" in texts(test.caption), "what all of them share is said once"


def test_runs_of_one_comparison_say_so(runs, memory):
    compared = Comparison("tab", runs)
    compared.start(make_setup(spec_for(), [(("scale", "none"),)]))
    wait(lambda: not compared.live)
    wait(lambda: len(kept(memory)) == 2)
    assert {entry.spec["label"] for entry in kept(memory)} == {"base; scale=none"}


def test_runs_of_different_tasks_are_drawn_with_a_warning():
    add("a")
    add("b", spec_for("sort"))
    test = choose(opened("history"), 0, 1)
    assert "different tasks" in texts(test.caption)


def test_a_run_gets_another_name():
    id = add("a")
    test = choose(opened("history"), 0)
    fine(test.text_input(key=f"name_{id}").set_value("the good one").run())
    assert labels(test) == ["the good one"]
    fine(test.text_input(key=f"name_{id}").set_value("  ").run())
    assert "a run needs a name" in texts(test.error)


def test_chosen_runs_are_forgotten_and_no_other_one_is_chosen_instead():
    for label in ("a", "b", "c"):
        add(label)
    test = choose(opened("history"), 0, 2)
    fine(test.button(key="delete_runs").click().run())
    assert labels(test) == ["b"]
    assert test.session_state.chosen_runs == ()


def test_runs_that_cannot_be_read_are_deleted_from_the_page():
    add("whole")
    bad = add("damaged")
    with sqlite3.connect(History().path) as db:
        db.execute("UPDATE runs SET spec = '' WHERE id = ?", (bad,))
    db.close()
    test = opened("history")
    assert f"run {bad} cannot be read" in texts(test.warning) and labels(test) == ["whole"]
    fine(test.button(key="delete_damaged").click().run())
    assert not test.warning and labels(test) == ["whole"]
    assert len(History().read("")[0]) == 1 and not History().read("")[1]


def test_why_a_run_cannot_be_deleted_is_said_and_it_stays_chosen(monkeypatch):
    add("a")
    test = choose(opened("history"), 0)

    def refuse(self, owner, id):
        raise FileUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(History, "delete", refuse)
        test.button(key="delete_runs").click().run()
    assert "the disk is full" in texts(test.error) and labels(test) == ["a"]
    fine(test.button(key="delete_runs").click().run())
    assert not test.error and not labels(test)


def test_a_new_run_does_not_move_the_choice():
    add("a")
    test = choose(opened("history"), 0)
    add("b")
    fine(test.run())
    assert labels(test) == ["b", "a"]
    chosen = {
        entry.label for entry in History().list("") if entry.id in test.session_state.chosen_runs
    }
    assert chosen == {"a"}


def test_a_text_of_ones_own_must_be_added_again():
    text = TASKS["text"](source="own", text="abab cdcd efef " * 40, length=8)
    add("mine", spec_for(text))
    test = choose(opened("history"), 0)
    fine(test.button(key="to_knobs").click().run())
    assert "No file contains your text: add it first" in texts(test.error)
    assert test.session_state.choice.spec.task.name == "reverse"
    test.session_state.own_text = text.text
    fine(test.button(key="to_knobs").click().run())
    assert test.session_state.choice.spec.task == text


def test_switched_off_it_keeps_and_shows_nothing(monkeypatch):
    add("a")
    monkeypatch.setenv("PLAYGROUND_HISTORY", "off")
    test = opened("history")
    assert "switched off" in texts(test.info) and not test.dataframe


def test_visitors_see_their_own_runs_only(monkeypatch):
    add("mine", owner="a" * 32)
    add("theirs", owner="b" * 32)
    monkeypatch.setenv("PLAYGROUND_HISTORY", "visitor")
    test = opened("history", {"visitor_id": "a" * 32})
    assert labels(test) == ["mine"] and "for this browser only" in texts(test.markdown)
    test.session_state.visitor_id = "c" * 32
    assert labels(fine(test.run())) == []


def test_a_browser_that_keeps_no_cookie_is_told_that_its_history_ends_with_the_tab(monkeypatch):
    monkeypatch.setattr(session, "forgetful", lambda: True)
    monkeypatch.setenv("PLAYGROUND_HISTORY", "visitor")
    assert "as long as this tab is open" in session.how_long()


def test_a_folder_that_cannot_be_written_is_said_and_the_rest_goes_on(folder):
    folder.write_text("a file, no folder")
    test = opened("history")
    assert "the run history cannot be used" in texts(test.warning)
    fine(test.switch_page("app_pages/train.py").run())
    assert test.button(key="play")
