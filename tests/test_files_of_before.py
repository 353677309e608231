"""Files and links of an earlier version still say what they said: see `tests/data/README.md`."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core import checkpoint, optimize
from core.train import Trainer
from helpers import opened
from playground.experiments.scenarios import load, plain
from playground.experiments.variants import read_link
from playground.export.files import config_from_json, config_json, metrics_csv
from playground.history.database import EVERYONE, History
from playground.runs import saved_run
from playground.runs.spec import Spec
from playground.runs.view import Record, Status, View

DATA = Path(__file__).parent / "data"
EXPECTED = json.loads((DATA / "expected.json").read_text())
LINKS = EXPECTED["links"]
OWN_TEXT = (DATA / "own-text.txt").read_text()
# Knobs that have come since, and what each says of a run that had none: it is as it was then.
SINCE = {
    "model": {"norm_type": "layer", "gated": False, "d_patch": 16},
    "training": {"label_smoothing": 0.0},
}
CLOSE = 1e-4  # relative: other processors and versions of PyTorch differ in the last digits


def held(spec: Spec) -> dict:
    """What a spec holds, as `expected.json` has it."""
    parts = {"model": spec.model, "training": spec.training, "task": spec.task}
    found = {name: part.to_dict() for name, part in parts.items()}
    found["model"]["mask"] = spec.model.mask_rule  # there was no "auto" then
    for part, knobs in SINCE.items():
        assert knobs == {name: found[part].pop(name) for name in knobs}
    return json.loads(json.dumps(found | {"probe": spec.probe, "label": spec.label}))


def numbers(row) -> np.ndarray:
    """With NaN where there is none."""
    return np.array(row, dtype=np.float64)


def text_of(name: str) -> str | None:
    return OWN_TEXT if "own-text" in name else None


# --- files ------------------------------------------------------------------------------------


@pytest.fixture
def decay_of_everything(monkeypatch):
    """Weight decay spared nothing then."""

    def groups(model, config):
        everything = {"params": list(model.parameters()), "weight_decay": config.weight_decay}
        return [everything, {"params": []}]

    monkeypatch.setattr(optimize, "parameter_groups", groups)


@pytest.mark.parametrize("name", EXPECTED["checkpoints"])
def test_a_checkpoint_goes_on_as_it_did(name, decay_of_everything):
    was = EXPECTED["checkpoints"][name]
    saved = saved_run.load((DATA / name).read_bytes(), text=text_of(name))
    assert (held(saved.spec), held(saved.began)) == (was["spec"], was["began"])
    assert saved.trainer.step_count == was["step"]
    assert [list(change) for change in saved.record.changes] == was["changes"]
    curve, validation = saved.record.saved()
    np.testing.assert_array_equal(curve[:, 0], numbers(was["loss"]).astype(np.float32))
    np.testing.assert_array_equal(validation[:, 1], np.float32(was["validation_loss"]))
    assert [saved.trainer.step().loss for _ in was["next"]] == pytest.approx(was["next"], rel=CLOSE)


@pytest.mark.parametrize("name", [name for name in EXPECTED["checkpoints"] if "cli" in name])
def test_the_core_reads_a_checkpoint_of_the_command_line_without_the_app(name, decay_of_everything):
    trainer = checkpoint.load(DATA / name)
    was = EXPECTED["checkpoints"][name]
    assert trainer.step().loss == pytest.approx(was["next"][0], rel=CLOSE)


def test_a_checkpoint_of_a_text_of_ones_own_still_asks_for_it():
    with pytest.raises(ValueError, match="text"):
        saved_run.load((DATA / "app-own-text.zip").read_bytes())


@pytest.mark.parametrize("name", EXPECTED["configs"])
def test_an_exported_configuration_is_read_and_written_as_it_was(name):
    was, written = EXPECTED["configs"][name], (DATA / name).read_text()
    spec, changes = config_from_json(written, text_of(name))
    assert (held(spec), [list(change) for change in changes]) == (was["spec"], was["changes"])
    expected = json.loads(written)
    for part, knobs in SINCE.items():
        expected[part] |= knobs
    assert json.loads(config_json(spec, changes)) == expected


def test_the_exported_numbers_are_those_of_the_same_run_today(decay_of_everything):
    spec, changes = config_from_json((DATA / "config.json").read_text())
    table = pd.read_csv(DATA / "metrics.csv")
    table = table.rename(columns={"grad_norm.head": "grad_norm.unembed"})
    trainer = Trainer(spec.model, spec.task, spec.training)
    record = Record(trainer.layers)
    while trainer.step_count < table.step.max():
        for change in changes:
            if change.step == trainer.step_count:
                trainer.change(**{change.field: change.value})
        record.add_step(trainer.step())
    now = pd.read_csv(io.StringIO(metrics_csv(viewed(record, spec))))
    assert {"step", "loss", "lr", "grad_norm", "validation_loss", "validation_accuracy"} <= {*now}
    assert list(now) == list(table)
    trained = table[table.step > 0].reset_index(drop=True)
    for name in [name for name in table if not name.startswith("validation")]:
        np.testing.assert_allclose(now[name], trained[name], rtol=10 * CLOSE)


def test_the_run_history_is_found_again(tmp_path):
    shutil.copy(DATA / "history.sqlite3", tmp_path)
    history = History(tmp_path / "history.sqlite3")
    entries = history.list(EVERYONE)[::-1]
    assert len(entries) == len(EXPECTED["history"])
    for entry in entries:
        was = EXPECTED["history"][str(entry.id)]
        assert (entry.created, entry.label) == (was["created"], was["label"])
        assert vars(entry.result) == was["result"]
        assert [list(change) for change in entry.view.changes] == was["changes"]
        np.testing.assert_array_equal(entry.view.loss, np.float32(was["loss"]))
        np.testing.assert_array_equal(entry.view.val_loss, np.float32(was["val_loss"]))
        own = was["spec"]["task"].get("source") == "own"
        spec = Spec.from_dict(entry.spec, OWN_TEXT if own else None)
        assert held(spec) == was["spec"]
        shown = history.picture(EVERYONE, entry.id).attention
        sums = {name: float(attention.stages["weights"].sum()) for name, attention in shown.items()}
        assert sums == pytest.approx(was["picture"])
    assert [entry.id for entry in history.list("bert")] == [5]
    history.delete("anna", 1)
    history.add("anna", "goes on", plain(), viewed(Record(), plain()))
    assert [entry.id for entry in history.list("anna")] == [6, 4, 3, 2]


def viewed(record: Record, spec: Spec) -> View:
    state = {"message": "", "queue_position": None, "busy": False}
    return record.view(status=Status.STOPPED, spec=spec, **state)


# --- links ------------------------------------------------------------------------------------


def taken(query: dict[str, str], page: str = "playground") -> AppTest:
    """A page, opened with this in its link; nothing of it is found fault with."""
    test = opened(page, **query)
    assert not test.warning and not test.error
    return test


@pytest.mark.parametrize("link", LINKS["playground"], ids=lambda link: " ".join(link["query"]))
def test_a_link_to_the_playground_turns_the_same_knobs(link):
    test = taken(link["query"])
    assert held(test.session_state.choice.spec) == link["spec"]
    assert {key: test.session_state[key] for key in link["widgets"]} == link["widgets"]


@pytest.mark.parametrize("link", LINKS["compare"], ids=lambda link: link["query"]["variants"])
def test_a_link_to_a_comparison_lines_up_the_same_runs(link):
    base = plain().changed((("d_ff", 32), ("n_layers", 1)))
    setup = read_link(link["query"]["variants"], base)
    assert not setup.left_out
    assert list(setup.labels) == link["labels"]
    assert [held(spec) for spec in setup.specs] == link["specs"]


def test_every_scenario_of_a_link_is_there():
    for link in LINKS["scenarios"]:
        assert list(load()[link["query"]["scenario"]].names) == link["names"]
    assert not taken(LINKS["scenarios"][0]["query"], "scenarios").dataframe


@pytest.mark.parametrize("link", LINKS["ideas"], ids=lambda link: " ".join(link["query"].values()))
def test_a_link_to_an_idea_turns_the_same_knobs(link):
    test = taken(link["query"], link["page"])
    assert {key: test.session_state[key] for key in link["widgets"]} == link["widgets"]
