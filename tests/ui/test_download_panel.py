"""What is downloaded can be loaded again: same knobs, same run; a bad file changes nothing."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core import checkpoint
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from helpers import SMALL, fine, numbers, opened, spec_for, wait
from playground.export.files import config_json
from playground.history.database import History
from playground.history.recorder import Recorder
from playground.runs import limits, saved_run
from playground.runs.controller import Controller
from playground.runs.pool import Runs
from playground.runs.spec import Spec
from playground.runs.view import Record, Status
from playground.ui import controls, download_panel


@pytest.fixture
def controller():
    runs = Runs(workers=1, grace=3600)
    yield Controller("visitor", runs)
    runs.close()


def stepped(controller: Controller, spec: Spec, steps: int) -> Controller:
    """A controller whose run has made so many steps and rests."""
    controller.follow(spec)
    for done in range(1, steps + 1):
        controller.step()
        wait(lambda done=done: controller.view.steps.size == done and not controller.view.live)
    return controller


def trained(spec: Spec, steps: int) -> tuple[Trainer, Record]:
    trainer = Trainer(spec.model, spec.task, spec.training)
    record = Record(trainer.layers)
    for _ in range(steps):
        record.add_step(trainer.step())
    return trainer, record


def edited(data: bytes, **added) -> bytes:
    """A run's file with something else in what the playground adds to it."""
    saved = checkpoint.from_bytes(data)
    saved.run[saved_run.ADDED] |= added
    return checkpoint.to_bytes(saved)


# --- a run as a file --------------------------------------------------------------------------


def test_a_saved_run_goes_on_bit_for_bit_with_its_curve():
    spec = spec_for()
    trainer, record = trained(spec, 7)
    saved = saved_run.load(saved_run.save(trainer, record, replace(spec, probe="123", label="x")))
    assert saved.began == saved.spec == replace(spec, probe="123", label="x")
    assert saved.trainer.step_count == len(saved.record) == 7
    np.testing.assert_array_equal(saved.record.saved()[0], record.saved()[0])
    assert [s.loss for s in saved.trainer] == [s.loss for s in trainer]


def test_a_saved_run_knows_how_it_began():
    spec = spec_for()
    trainer, record = trained(spec, 3)
    trainer.change(scale="none", lr=0.01)
    saved = saved_run.load(saved_run.save(trainer, record, spec))
    assert saved.began == spec
    assert (saved.spec.model.scale, saved.spec.training.lr) == ("none", 0.01)
    assert len(saved.record.changes) == 2


def test_a_checkpoint_of_the_command_line_goes_on_without_its_curve():
    trainer, _ = trained(spec_for(), 3)
    saved = saved_run.load(checkpoint.to_bytes(checkpoint.snapshot(trainer)))
    assert len(saved.record) == 3 and np.isnan(saved.record.saved()[0]).all()


def test_the_core_reads_a_saved_run_as_a_checkpoint():
    trainer, record = trained(spec_for(), 3)
    data = saved_run.save(trainer, record, spec_for())
    assert checkpoint.restore(checkpoint.from_bytes(data)).step_count == 3


@pytest.mark.parametrize(
    "added, said",
    [
        ({"curve": {"loss": [1.0], "lr": [1.0], "grad_norm": [1.0]}}, "1 steps, the checkpoint 3"),
        ({"curve": {"loss": [1.0, 2.0]}}, "lr is missing"),
        ({"curve": {"loss": ["a"], "lr": ["b"], "grad_norm": ["c"]}}, "not a table of numbers"),
        ({"curve": {"loss": [[1]], "lr": [[1]], "grad_norm": [[1]]}}, "3 dimensions"),
        ({"curve": [1, 2]}, "not as the playground writes it"),
        ({"began": {"model": {"d_model": 8}}}, "do not lead from how it began"),
        ({"began": 3}, "not as the playground writes it"),
        ({"began": {"probe": "hello"}}, "'h'"),
        ({"began": {"probe": 3}}, "probe=3"),
        ({"began": {"probe": "1" * 10_001}}, "probe has 10,001 characters"),
        ({"began": {"label": "x" * 10_001}}, "label has 10,001 characters"),
        ({"curve": {"loss": [1, -1, 1], "lr": [1] * 3, "grad_norm": [1] * 3}}, "below 0"),
        ({"curve": {"loss": [1, 1e99, 1], "lr": [1] * 3, "grad_norm": [1] * 3}}, "beyond all"),
        ({"validation": {"step": [4], "loss": [1], "accuracy": [1]}}, "at steps from 0 to 3"),
        ({"validation": {"step": [1e30], "loss": [1], "accuracy": [1]}}, "at steps from 0 to 3"),
        ({"validation": {"step": [0.5], "loss": [1], "accuracy": [1]}}, "at steps from 0 to 3"),
        ({"validation": {"step": [2, 1], "loss": [1] * 2, "accuracy": [1] * 2}}, "one after"),
        ({"validation": {"step": [1], "loss": [1], "accuracy": [2]}}, "an accuracy above 1"),
    ],
)
def test_what_the_playground_adds_is_checked(added, said):
    trainer, record = trained(spec_for(), 3)
    data = saved_run.save(trainer, record, spec_for())
    with pytest.raises(ValueError, match=said):
        saved_run.load(edited(data, **added))


def test_a_long_run_without_its_curve_takes_as_long_as_its_file():
    """A step count of a few characters must not cost minutes."""
    trainer, _ = trained(spec_for(), 1)
    saved = checkpoint.snapshot(trainer)
    found = saved_run.load(checkpoint.to_bytes(saved._replace(run=saved.run | {"step": 10**6})))
    assert len(found.record) == found.trainer.step_count == 10**6
    assert len(found.record._steps.columns()[0]) == 10**6


def test_changes_that_do_not_lead_to_the_present_knobs_are_refused():
    trainer, record = trained(spec_for(), 3)
    other = saved_run.save(trainer, record, spec_for(lr=0.5))
    with pytest.raises(ValueError, match="do not lead from how it began"):
        saved_run.load(other)


def test_a_checkpoint_too_large_for_this_server_is_refused_before_it_is_built(monkeypatch):
    trainer, record = trained(spec_for(), 1)
    data = saved_run.save(trainer, record, spec_for())
    monkeypatch.setattr(limits, "MAX_PARAMETERS", 10)
    monkeypatch.setattr(saved_run.checkpoint, "restore", None)
    with pytest.raises(ValueError, match="the limit here is 10"):
        saved_run.load(data)


@pytest.mark.parametrize("data", [b"", b"PK", b"\x80\x04.", b"{}"])
def test_a_file_of_another_kind_is_refused(data):
    """CKP-03"""
    with pytest.raises(ValueError, match="not a usable checkpoint"):
        saved_run.load(data)


def test_a_controller_goes_on_from_a_file_and_keeps_the_old_curve(controller):
    first = stepped(controller, spec_for(), 6)
    data = download_panel.checkpoint(first)
    wait(lambda: not controller.view.live)
    controller.play()
    wait(lambda: controller.view.status is Status.DONE)
    whole = controller.view.loss.copy()

    controller.resume(saved_run.load(data))
    wait(lambda: not controller.view.live)
    assert (controller.view.status, len(controller.view.loss)) == (Status.PAUSED, 6)
    np.testing.assert_array_equal(controller.view.loss, whole[:6])
    assert controller.view.frames[-1].step == 6
    assert len(controller.ghosts) == 1
    controller.follow(spec_for())
    assert "checkpoint of step 6" in controller.notice, (
        "the knobs say the same: nothing is restarted"
    )
    controller.play()
    wait(lambda: controller.view.status is Status.DONE)
    np.testing.assert_array_equal(controller.view.loss, whole)


def test_no_room_for_a_saved_run_leaves_the_present_one(controller, monkeypatch):
    spec = spec_for(d_model=64)
    saved = saved_run.load(saved_run.save(*trained(spec, 2), spec))
    stepped(controller, spec_for(), 2)
    run = controller.run
    monkeypatch.setattr(limits, "MAX_MEMORY", sum(limits.memory_of(spec)))
    others = controller.runs.start_all("others", [spec_for()] * 2, play=False)
    with pytest.raises(ValueError, match="all visitors' runs would need"):
        controller.resume(saved)
    assert others == controller.runs.of("others")
    assert controller.run is run and controller.ghosts == []


# --- what is offered --------------------------------------------------------------------------


def test_the_configuration_is_that_of_the_beginning_with_the_changes(controller):
    stepped(controller, spec_for(), 3)
    controller.follow(spec_for(lr=0.01))
    wait(lambda: controller.view.changes)
    values = json.loads(download_panel.config(controller))
    assert values["training"]["lr"] == 0.001
    assert values["changes"] == [{"step": 3, "field": "lr", "value": 0.01}]


def test_an_example_that_was_typed_after_the_start_is_in_every_file(controller):
    stepped(controller, spec_for(), 2)
    controller.follow(replace(spec_for(), probe="123"))
    wait(lambda: not controller.view.live)
    assert json.loads(download_panel.config(controller))["probe"] == "123"
    assert saved_run.load(download_panel.checkpoint(controller)).spec.probe == "123"


def test_the_python_file_makes_the_losses_of_the_run_on_the_page(controller, tmp_path):
    stepped(controller, spec_for(steps=6), 3)
    controller.follow(spec_for(steps=6, lr=0.01))
    controller.play()
    wait(lambda: controller.view.status is Status.DONE)
    file = tmp_path / "run.py"
    file.write_text(download_panel.python_file(controller))
    found = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    lines = [line for line in found.stdout.splitlines() if line.startswith("step ")]
    losses = [float(line.split()[-1]) for line in lines]
    np.testing.assert_array_equal(np.float32(losses), controller.view.loss)


def test_without_a_run_the_knobs_are_taken_home(controller):
    controller.follow(spec_for())
    assert json.loads(download_panel.config(controller))["model"]["d_model"] == 8
    assert "D_MODEL = 8" in download_panel.python_file(controller)


def test_a_file_name_says_what_changed_and_nothing_that_a_disk_refuses():
    assert download_panel.file_stem(spec_for(scale="none")).startswith("copy-")
    assert "scale=none" in download_panel.file_stem(spec_for(scale="none"))
    assert not set(download_panel.file_stem(spec_for(residual=False, steps=30))) & set(
        ' /\\:*?"<>|,;'
    )


# --- the tab ----------------------------------------------------------------------------------


def at_home(**query: str) -> AppTest:
    return opened("playground", {"details": "Download"}, **SMALL | query)


def rested(test: AppTest) -> AppTest:
    wait(lambda: not test.session_state.controller.view.live)
    return fine(test.run())


def texts(elements) -> str:
    return " ".join(element.value for element in elements)


def upload(test: AppTest, key: str, name: str, data: bytes) -> AppTest:
    test.file_uploader(key=key).set_value((name, data, "application/octet-stream"))
    return fine(test.run())


def config_of(test: AppTest, **changed) -> bytes:
    """The page's configuration with some knobs of the file set otherwise."""
    spec = test.session_state.choice.spec
    values = json.loads(config_json(spec))
    for name, value in changed.items():
        section = next(s for s in ("model", "training", "task") if name in values[s])
        values[section][name] = value
    return json.dumps(values).encode()


def test_downloads_say_what_is_missing_until_there_is_something():
    test = at_home()
    found = {button.key: button for button in test.download_button}
    assert found["download_csv"].disabled and found["download_checkpoint"].disabled
    assert not found["download_json"].disabled and not found["download_script"].disabled
    assert all(button.help for button in found.values())
    fine(test.button(key="step").click().run())
    assert not any(button.disabled for button in rested(test).download_button)


def test_a_configuration_turns_every_knob():
    test = at_home()
    task = TASKS["reverse"](symbols=5)
    model = ModelConfig.for_task(task, scale="none", n_heads=2, tie_embeddings=True)
    wanted = Spec(model, task, TrainConfig(clip=None), probe="1234012340")
    upload(test, "config_file", "mine.json", config_json(wanted).encode())
    assert not test.error, texts(test.error)
    assert "knobs are set as in the file" in texts(test.info)
    assert test.session_state.controller.spec == wanted


def test_numbers_between_those_offered_are_taken_from_a_file():
    test = at_home()
    data = config_of(test, d_model=40, lr=0.00123456789, steps=123, warmup=7, batch_size=5)
    upload(test, "config_file", "mine.json", data)
    assert not test.error
    spec = test.session_state.choice.spec
    assert (spec.model.d_model, spec.training.lr) == (40, 0.00123456789)
    assert (spec.training.steps, spec.training.warmup, spec.training.batch_size) == (123, 7, 5)
    fine(test.run())
    assert test.session_state.choice.spec == spec


def test_numbers_between_those_offered_are_taken_from_a_link_too():
    test = at_home(lr="0.00123456789", d_model="40")
    assert not test.warning
    assert test.session_state.choice.spec.training.lr == 0.00123456789
    assert test.session_state.choice.spec.model.d_model == 40


@pytest.mark.parametrize(
    "change, said",
    [
        ({"n_heads": 3}, "n_heads=3"),
        ({"scale": "wide"}, "scale='wide'"),
        ({"lr": 1e5}, "lr=100000 is not on the page"),
        ({"lr": 1e31}, "lr=1e+31: must be at most"),
        ({"steps": 10**30}, "must be at most 1000000"),
        ({"precision": "fp8"}, "fp8"),
        ({"batch_size": 10**6}, "the limit here is"),
    ],
)
def test_a_bad_configuration_is_named_and_nothing_changes(change, said):
    test = at_home()
    fine(test.button(key="step").click().run())
    run, spec = rested(test).session_state.controller.run, test.session_state.choice.spec
    upload(test, "config_file", "bad.json", config_of(test, **change))
    assert said in texts(test.error) and "bad.json" in texts(test.error)
    assert test.session_state.controller.run is run and test.session_state.choice.spec == spec


def test_a_file_that_is_no_configuration_is_named():
    test = at_home()
    upload(test, "config_file", "photo.json", b"\xff\xd8\xff\xe0")
    assert "photo.json" in texts(test.error) and "Nothing has changed" in texts(test.error)


def test_a_text_of_ones_own_must_be_added_before_its_configuration():
    test = at_home()
    text = TASKS["text"](source="own", text="abab cdcd efef " * 40, length=8)
    spec = Spec(ModelConfig.for_task(text, d_model=16, n_layers=1), text, TrainConfig(steps=50))
    upload(test, "config_file", "own.json", config_json(spec).encode())
    assert "No file contains your text: add it first" in texts(test.error)

    test.session_state.own_text = text.text
    upload(test, "config_file", "own2.json", config_json(spec).encode())
    assert not test.error
    assert test.session_state.choice.spec.task == text


def test_a_checkpoint_goes_on_as_a_resting_run():
    test = at_home()
    fine(test.button(key="play").click().run())
    rested(test)
    whole = test.session_state.controller.view.loss.copy()
    spec = test.session_state.choice.spec
    trainer, record = trained(spec, 10)
    trainer.change(lr=0.003)
    upload(test, "checkpoint_file", "run.zip", saved_run.save(trainer, record, spec))
    rested(test)
    view = test.session_state.controller.view
    assert (view.status, len(view.loss)) == (Status.PAUSED, 10)
    np.testing.assert_array_equal(view.loss, whole[:10])
    assert test.session_state.choice.spec.training.lr == 0.003
    assert len(test.session_state.controller.ghosts) == 1
    assert "resumes from step 10" in texts(test.info)

    fine(test.button(key="play").click().run())
    rested(test)
    expected = np.float32([*whole[:10], *(step.loss for step in trainer)])
    np.testing.assert_array_equal(test.session_state.controller.view.loss, expected)


def test_a_checkpoint_of_a_run_that_was_over_says_so_and_trains_on_when_steps_are_raised():
    test = at_home()
    spec = test.session_state.choice.spec
    trainer, record = trained(spec, 50)
    upload(test, "checkpoint_file", "run.zip", saved_run.save(trainer, record, spec))
    assert "The run had finished at step 50: raise Steps to train it further." in texts(test.info)
    rested(test)
    assert test.session_state.controller.view.status is Status.DONE
    fine(test.select_slider(key="steps").set_value(100).run())
    fine(test.button(key="play").click().run())
    rested(test)
    view = test.session_state.controller.view
    assert (view.status, len(view.loss)) == (Status.DONE, 100)
    np.testing.assert_array_equal(view.loss[:50], record.saved()[0][:, 0])


def test_what_was_loaded_is_a_new_run_only_once_it_has_trained_on(controller, tmp_path):
    memory = Recorder(History(tmp_path / "history.sqlite3"))
    memory.set_owner("visitor", "anna")
    controller.runs.on_end = [memory.keep]
    spec = spec_for(steps=30)
    for steps in (25, 30):
        controller.resume(saved_run.load(saved_run.save(*trained(spec, steps), spec)))
        wait(lambda: not controller.view.live)
    controller.reset()
    assert memory.flush(30) and not memory.history.list("anna")

    controller.resume(saved_run.load(saved_run.save(*trained(spec, 30), spec)))
    controller.follow(spec_for(steps=31))
    controller.play()
    wait(lambda: len(controller.view.loss) == 31 and not controller.view.live)
    controller.reset()
    assert memory.flush(30)
    assert [entry.result.steps for entry in memory.history.list("anna")] == [31]


def test_a_checkpoint_without_a_curve_is_told_by_its_validation_loss():
    test = at_home()
    trainer, _ = trained(test.session_state.choice.spec, 10)
    data = checkpoint.to_bytes(checkpoint.snapshot(trainer))
    upload(test, "checkpoint_file", "run.zip", data)
    rested(test)
    assert numbers(test)["Step"] == "10 / 50"
    verdict = texts(test.html)
    assert "nan" not in verdict
    assert 'data-verdict="info"' in verdict or 'data-verdict="good"' in verdict
    fine(test.button(key="step").click().run())
    assert numbers(rested(test))["Step"] == "11 / 50"


def test_a_bad_checkpoint_leaves_the_run_going():
    test = at_home(steps="50000")
    fine(test.button(key="play").click().run())
    run = test.session_state.controller.run
    upload(test, "checkpoint_file", "bad.zip", b"PK nothing")
    assert "bad.zip: not a usable checkpoint" in texts(test.error)
    assert (
        test.session_state.controller.run is run
        and test.session_state.controller.view.status.moving
    )
    fine(test.button(key="reset").click().run())


def test_every_spec_of_the_knobs_is_said_by_the_knobs():
    for name, task in TASKS.items():
        made = task()
        spec = Spec(ModelConfig.for_task(made), made, TrainConfig())
        assert controls.knobs_of(spec)["task"] == name
