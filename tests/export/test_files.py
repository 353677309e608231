"""What can be downloaded: metrics and configuration."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.tasks import TASKS
from core.train import Change, Step, Trainer
from playground.export.files import (
    MAX_CONFIG_BYTES,
    cell,
    config_from_json,
    config_json,
    metrics_csv,
    table_csv,
)
from playground.runs.snapshot import take_frame
from playground.runs.spec import Spec
from playground.runs.view import Record, Status

OWN_TEXT = 'He said "no\\thing".\n"""Quoted""" \'too\' \\ {braces} é → 🙂\t\n' * 8 + 'end"'


def spec_of(task: str = "copy", knobs: dict | None = None, model=None, **training) -> Spec:
    built = TASKS[task](**(knobs or {}))
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 1} | (model or {})
    training = {"batch_size": 4, "steps": 20} | training
    return Spec(ModelConfig.for_task(built, **sizes), built, TrainConfig(**training))


# --- metrics --------------------------------------------------------------------------------


def some_view():
    record = Record(["embed", "blocks.0"])
    model = {"d_model": 8, "n_heads": 1}
    spec = spec_of("copy", {"length": 2}, model)
    trainer = Trainer(spec.model, spec.task, spec.training)
    record.add_frame(take_frame(trainer, spec.task.probe("decoder")))
    for n in range(1, 4):
        norms = {"embed": 0.1 * n, "blocks.0": 0.2}
        record.add_step(Step(n, 1 / 3 / n, 0.001, 2.0 * n, norms, 20, 0.5))
    rest = {"message": "", "queue_position": None, "busy": False}
    return record.view(status=Status.PAUSED, spec=spec, **rest)


def test_metrics_have_a_row_per_step_and_validation_where_it_was_measured():
    view = some_view()
    rows = list(csv.DictReader(io.StringIO(metrics_csv(view))))
    assert list(rows[0]) == [
        "step",
        "loss",
        "lr",
        "grad_norm",
        "grad_norm.embed",
        "grad_norm.blocks.0",
        "validation_loss",
        "validation_accuracy",
    ]
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"]
    assert rows[0]["loss"] == "" and np.float32(rows[0]["validation_loss"]) == view.val_loss[0]
    assert {row["validation_loss"] for row in rows[1:]} == {""}
    assert [row["lr"] for row in rows[1:]] == ["0.001"] * 3


def test_metrics_lose_no_digit():
    view = some_view()
    rows = list(csv.DictReader(io.StringIO(metrics_csv(view))))[1:]
    for name, column in {"loss": view.loss, "grad_norm.embed": view.layer_norms["embed"]}.items():
        assert [np.float32(row[name]) for row in rows] == column.tolist()


def test_of_two_evaluations_of_one_step_the_last_counts():
    view = some_view()
    object.__setattr__(view, "val_steps", np.array([2, 2]))
    object.__setattr__(view, "val_loss", np.array([1.0, 0.5], np.float32))
    object.__setattr__(view, "val_accuracy", np.array([0.0, 1.0], np.float32))
    rows = list(csv.DictReader(io.StringIO(metrics_csv(view))))
    assert [(row["step"], row["validation_loss"]) for row in rows] == [
        ("1", ""),
        ("2", "0.5"),
        ("3", ""),
    ]


def test_metrics_of_a_run_without_a_step():
    rest = {"message": "", "queue_position": None, "busy": False}
    view = Record().view(status=Status.QUEUED, spec=spec_of(), **rest)
    assert (
        metrics_csv(view).startswith("step,loss,lr,grad_norm")
        and metrics_csv(view).count("\n") == 1
    )


# --- configuration --------------------------------------------------------------------------

CHANGES = (Change(3, "scale", "none"), Change(3, "lr", 0.01), Change(7, "clip", None))
OWN = {"source": "own", "text": OWN_TEXT, "length": 16}


@pytest.mark.parametrize("task", list(TASKS))
def test_a_configuration_comes_back(task):
    spec = spec_of(task, model={"position": "rotary"}, lr=0.1 + 0.2, clip=None)
    assert config_from_json(config_json(spec, CHANGES)) == (spec, CHANGES)


def test_probe_and_label_come_back():
    spec = Spec(**(vars(spec_of("reverse")) | {"probe": "0123456789", "label": "mine → 🙂"}))
    assert config_from_json(config_json(spec).encode()) == (spec, ())


def test_a_text_of_ones_own_travels_by_its_hash():
    spec = spec_of("text", OWN)
    text = config_json(spec)
    assert "said" not in text and "🙂" not in text
    assert config_from_json(text, OWN_TEXT) == (spec, ())
    with pytest.raises(ValueError, match=r"task: source='own': hand in the text .*SHA-256"):
        config_from_json(text)
    with pytest.raises(ValueError, match="task: this text is not the one that was learnt"):
        config_from_json(text, OWN_TEXT + "!")


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@x", " =1", "\t=1"])
def test_a_name_is_no_formula_in_a_spreadsheet(text):
    assert cell(text) == "'" + text
    assert cell(f"run {text}") == f"run {text}"


def edited(section: str | None = None, **values) -> str:
    whole = json.loads(config_json(spec_of(), CHANGES))
    (whole if section is None else whole[section]).update(values)
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 50_000, "not JSON"),
        ('{"format": 1, "format": 1}', "field format is given more than once"),
        ('{"label": "\\ud800"}', "not JSON as the playground writes it"),
        (
            "[]",
            "is JSON, but not a configuration: expected an object {…} with the fields format, task",
        ),
        (" " * (MAX_CONFIG_BYTES + 1), "100,001 bytes, at most 100,000"),
        (b"\xff\xff{}", "byte 0xFF at offset 0 is not UTF-8"),
        ("{}", "field format, task, model, training is missing"),
        (edited(format=2), "format=2: this version reads format 1"),
        (edited(weights=[]), "unknown field weights; there is format, task"),
        (edited(model=3), "model=3: expected an object"),
        (edited(changes={}), "changes={}: expected a list"),
        (edited("model", heads=2), "model: unknown field heads: ModelConfig has"),
        (edited("model", n_heads="2"), "model: n_heads='2': expected int"),
        (edited("model", n_heads=True), "model: n_heads=True: expected int"),
        (edited("model", n_heads=3), "model: n_heads=3 does not divide d_model=16"),
        (edited("model", scale=["none"]), r"model: scale=\['none'\]: expected str"),
        (edited("model", scale="sqrt"), "model: scale='sqrt': choose one of"),
        (edited("model", vocab_size=99), "model: vocab_size=99: task copy has 12 tokens"),
        (edited("model", max_len=3), "model: max_len=3: task copy needs"),
        (edited("training", lr=float("nan")), "training: lr=nan: must be a finite number"),
        (edited("training", steps=0), "training: steps=0: must be at least 1"),
        (edited("task", task="sums"), "task: task='sums': choose one of reverse"),
        (edited("task", task=["copy"]), r"task: task=\['copy'\]: expected a string"),
        (edited("task", length=1), "task: length=1: must be at least 2"),
        (edited("task", wide=1), "task: unknown knob wide: task copy has"),
        (edited("task", text=""), "task: unknown field text"),
        (edited("task", text_sha256=5), "task: text_sha256=5: expected a string"),
        (edited(probe=5), "probe=5: expected a string or null"),
        (edited(probe="xyz"), "probe: unknown characters 'x', 'y', 'z'"),
        (edited(label=None), "label=None: expected a string"),
        (edited(changes=[3]), "changes: 3: expected an object"),
        (edited(changes=[{"step": 1}]), "changes: field field, value is missing"),
        (
            edited(changes=[{"step": -1, "field": "lr", "value": 1.0}]),
            "changes: step=-1: expected a whole number, at least 0",
        ),
        (
            edited(changes=[{"step": 1, "field": [], "value": 1.0}]),
            r"changes: field=\[\]: expected a string",
        ),
        (
            edited(changes=[{"step": 1, "field": "d_model", "value": 8}]),
            "changes: step 1: d_model cannot change while a run goes on",
        ),
        (
            edited(changes=[{"step": 1, "field": "lr", "value": -1}]),
            "changes: step 1: lr=-1: must be at least 0",
        ),
        (
            edited(changes=[{"step": n, "field": "lr", "value": 1.0} for n in (5, 4)]),
            "changes: step=4 comes after step 5",
        ),
    ],
)
def test_a_bad_file_is_refused_in_words(text, message):
    with pytest.raises(ValueError, match=message):
        config_from_json(text)


def test_a_text_of_ones_own_without_its_hash_is_refused():
    text = json.loads(config_json(spec_of("text", OWN)))
    del text["task"]["text_sha256"]
    with pytest.raises(ValueError, match="task: field text_sha256 is missing"):
        config_from_json(json.dumps(text), OWN_TEXT)


def test_what_is_missing_takes_its_default():
    text = json.loads(config_json(spec_of()))
    del text["training"]["lr"], text["label"], text["changes"]
    spec, changes = config_from_json(json.dumps(text))
    assert spec.training.lr == TrainConfig().lr and changes == ()


WRONG = st.sampled_from(
    [None, True, -1, 0, 10**30, 0.5, 1e300, float("nan"), float("inf"), "", "x" * 999, [], {}, [[]]]
)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_configuration_with_any_value_replaced_is_read_or_refused_in_words(data):
    values = json.loads(config_json(spec_of(), CHANGES))
    part = data.draw(st.sampled_from([values, *(v for v in values.values() if type(v) is dict)]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(WRONG)
    try:
        spec, changes = config_from_json(json.dumps(values))
    except ValueError as error:
        assert len(str(error)) < 1000
    else:
        assert config_from_json(config_json(spec, changes)) == (spec, changes)


def test_steps_without_an_update_are_named():
    """A gradient that overflows in fp16 costs one update."""
    task = TASKS["reverse"](symbols=4, length=3)
    config = ModelConfig.for_task(task, d_model=8, n_heads=2, n_layers=1)
    trainer = Trainer(config, task, TrainConfig(precision="fp16"), choose_device("cpu"))
    trainer.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    record = Record(trainer.layers)
    steps = [trainer.step() for _ in range(30)]
    for step in steps:
        record.add_step(step)
    spec = Spec(config, task, trainer.config)
    view = record.view(status=Status.PAUSED, spec=spec)
    expected = [step.step for step in steps if step.skipped]
    assert 0 < len(expected) < 30 and view.skipped.tolist() == expected
    rows = list(csv.DictReader(io.StringIO(metrics_csv(view))))
    assert [int(row["step"]) for row in rows if row["skipped"] == "1"] == expected
    unhurt = replace(view, grad_norm=np.ones(30))
    assert not len(unhurt.skipped) and "skipped" not in metrics_csv(unhurt)


def test_a_table_has_a_row_each_and_no_text_of_it_is_a_formula():
    rows = [{"name": '=1+1, "x"', "loss": 0.5}, {"name": "Ada", "loss": None}]
    read = list(csv.DictReader(io.StringIO(table_csv(rows))))
    assert read == [{"name": '\'=1+1, "x"', "loss": "0.5"}, {"name": "Ada", "loss": ""}]
    assert table_csv([]) == ""
