"""What can be taken home: metrics, configuration, and the run as one Python file."""

import ast
import builtins
import csv
import io
import json
import py_compile
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import islice

import numpy as np
import pytest
import torch

from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.tasks import TASKS
from core.train import Change, Step, Trainer
from playground import bundle as bundling
from playground.bundle import bundle
from playground.export import MAX_CONFIG_BYTES, config_from_json, config_json, metrics_csv, script
from playground.frames import take_frame
from playground.spec import Spec
from playground.view import Record, Status

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
    rest = {"message": "", "queue_place": None, "busy": False, "version": 1}
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
    rest = {"message": "", "queue_place": None, "busy": False, "version": 1}
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
            "is JSON, but no configuration: expected an object {…} with the fields format, task",
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
            "changes: step=4 stands after step 5",
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


# --- the run as one file --------------------------------------------------------------------

RUNS = {
    "hot changes": (
        spec_of("reverse", {"symbols": 5, "length": 4}, {"n_layers": 2}, lr=0.01),
        (
            Change(3, "scale", "none"),
            Change(3, "lr", 0.02),
            Change(3, "lr", 0.03),
            Change(8, "mask", "window"),
            Change(8, "activation", "gelu"),
            Change(12, "residual", False),
            Change(12, "batch_size", 3),
            Change(99, "scale", "d_head"),
        ),
    ),
    "encoder, pre-norm, sgd": (
        spec_of(
            "sort",
            {"length": 5, "vary": True},
            {"architecture": "encoder", "norm": "pre", "position": "learned", "init": "gpt2"},
            optimizer="sgd",
            clip=None,
        ),
        (Change(5, "pad_mask", False),),
    ),
    "encoder-decoder, tied, cosine": (
        spec_of(
            "add",
            {"symbols": 4},
            {"architecture": "encoder-decoder", "position": "rotary", "tie_embeddings": True},
            schedule="cosine",
            warmup=4,
            seed=7,
        ),
        (),
    ),
    "grammar": (
        spec_of(
            "text",
            {"source": "grammar", "length": 12},
            {"position": "alibi", "mask": "window", "norm": "none", "residual": False},
        ),
        (Change(4, "schedule", "cosine"),),
    ),
    "documentation": (
        spec_of("text", {"length": 12}, {"position": "none", "init": "torch"}, precision="bf16"),
        (),
    ),
    "recall": (
        spec_of("recall", model={"ffn": False, "mask": "none", "scale": "sqrt_d_model"}, steps=9),
        (Change(9, "steps", 30),),
    ),
    "own text": (
        spec_of("text", OWN, {"architecture": "encoder-decoder"}),
        (),
    ),
}

DIVERGES = spec_of("reverse", lr=1e30, clip=None, optimizer="sgd")

# Runs files one by one where nothing but Python and PyTorch can be imported.
ALONE = """
import runpy, sys
sys.modules.update(dict.fromkeys(["core", "playground", "jaxtyping", "streamlit", "pandas"]))
for path in sys.argv[1:]:
    print("file", path)
    runpy.run_path(path, run_name="__main__")
"""


@cache
def file_of(name: str) -> str:
    return script(*RUNS[name], 20)


def losses(spec: Spec, changes: tuple[Change, ...]) -> Iterator[float]:
    """The oracle: the trainer itself, its knobs turned one by one."""
    trainer = Trainer(spec.model, spec.task, spec.training, choose_device("cpu"))
    while True:
        for change in changes:
            if change.step == trainer.step_count:
                trainer.change(**{change.field: change.value})
        yield trainer.step().loss


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, list[str]]:
    """What each file prints, in a Python that cannot see the project."""
    folder = tmp_path_factory.mktemp("files")
    texts = {name: file_of(name) for name in RUNS} | {"diverges": script(DIVERGES)}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, *(f"{name}.py" for name in texts)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    _, *parts = done.stdout.split("file ")
    return {part.partition(".py")[0]: part.splitlines()[1:] for part in parts}


@pytest.mark.parametrize("name", list(RUNS))
def test_the_file_alone_computes_the_same_losses(name, printed):
    expected = enumerate(islice(losses(*RUNS[name]), 20), start=1)
    assert printed[name] == [f"step {step} loss {loss!r}" for step, loss in expected]


def test_a_run_that_diverges_says_so(printed):
    assert printed["diverges"][-1].startswith("diverged at step")


@pytest.mark.parametrize("name", list(RUNS))
def test_the_file_compiles_and_speaks_of_nothing_that_is_not_there(name, tmp_path):
    text = file_of(name)
    path = tmp_path / "run.py"
    path.write_text(text, encoding="utf-8")
    py_compile.compile(str(path), cfile=str(tmp_path / "run.pyc"), doraise=True)
    for word in ("jaxtyping", "core.", "streamlit", "Float[", "Int[", "Bool["):
        assert word not in text
    imported = {
        alias.name.split(".")[0] if isinstance(node, ast.Import) else node.module.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported - sys.stdlib_module_names == {"torch"}


def variant(i: int) -> Spec:
    """A spec that takes the i-th choice of every knob: in a few of them each choice is met."""
    chosen = {}
    for config in (ModelConfig, TrainConfig):
        knobs = [item for item in fields(config) if item.metadata["choices"]]
        chosen[config] = {
            item.name: item.metadata["choices"][i % len(item.metadata["choices"])] for item in knobs
        }
    task = list(TASKS)[i % len(TASKS)]
    chosen[ModelConfig]["architecture"] = TASKS[task].architectures[
        i % len(TASKS[task].architectures)
    ]
    return spec_of(task, {}, chosen[ModelConfig], **chosen[TrainConfig])


@pytest.mark.parametrize("i", range(6))
def test_every_name_in_the_file_is_defined_once_and_all_definitions_are_used(i):
    tree = ast.parse(script(variant(i)))
    defined = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            defined += [alias.asname or alias.name for alias in node.names]
        else:
            defined += bundling._bindings([node])
    used = {
        name.id
        for node in tree.body
        for name in bundling._module_names(node)
        if not isinstance(name.ctx, ast.Store)
    }
    assert len(defined) == len(set(defined))
    assert used - set(defined) <= set(dir(builtins)) | {"__name__"}
    assert set(defined) <= used


def test_only_what_the_run_uses_is_in_the_file():
    text = file_of("hot changes")
    for there in ("class Sinusoidal", "def sliding_window", "nn.GELU", "nn.ReLU", "class Reverse"):
        assert there in text
    for absent in ("Rotary", "class Sort", "CrossAttention", "def sgd", "def cosine", "grammar"):
        assert absent not in text
    assert "        99: " not in text  # a change after the last step


def test_comments_docstrings_and_shapes_stay_readable():
    text = file_of("hot changes")
    assert "# bool is a subclass of int: True heads is a slip, not a number." in text
    assert "# Which keys a query may see: predicates of two indices" in text
    assert "    q: Tensor,  # [batch heads query d_head]\n" in text
    assert "    x = x.unflatten(-1, (n_heads, -1))  # [batch, length, heads, d_head]\n" in text


def test_the_number_of_threads_is_set_before_anything_else():
    tree = ast.parse(script(spec_of(), threads=3))
    first = next(
        node for node in tree.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom)
    )
    assert ast.unparse(first) == "torch.set_num_threads(3)"
    assert f"torch.set_num_threads({torch.get_num_threads()})" in script(spec_of())


# --- modules into one file ------------------------------------------------------------------

FIRST = '''"""The first module.

See small.first for more.
"""

from jaxtyping import Float
from torch import Tensor

KINDS = ("a", "b", "c")
Rows = Float[Tensor, "rows columns"]


class Unused:
    """Nobody asks for it."""


def knob(default, choices):
    return default


# What helps.
def helper(x: Rows, y: Unused | None = None) -> Rows:
    return x


class Config:
    kind: str = knob("a", choices=KINDS)
'''
SECOND = '''"""The second module."""

import math as mathematics
from functools import cache

from small.first import Config, KINDS as NAMES, helper as first_helper


@cache
def helper(number):
    """Not the other helper: äöü → helper."""
    KIND = [helper for helper in NAMES]  # a local helper
    return first_helper(mathematics.floor(number)), KIND


class Sum:
    helper = float

    def filter(self, values, helper=helper):
        return [helper(value) for value in filter(None, values)]


KINDS = {
    "a": lambda: Sum(),
    # About b.
    "b": Unheard,
    "c": lambda: 3, **{},
}


def build(config):
    return KINDS[config.kind]()
'''
SMALL_MAIN = '''"""What it is."""

from small.first import Config
from small.second import build, helper

print("first")


def main():
    print(build(Config).filter([0, 1.5, 2.5]), helper(4.5))


if __name__ == "__main__":
    main()
'''


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A package of two modules that use the same names for different things."""
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "__init__.py").write_text("")
    (tmp_path / "small" / "first.py").write_text(FIRST)
    (tmp_path / "small" / "second.py").write_text(SECOND.replace("Unheard", "lambda: None"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(bundling, "PACKAGE", "small")
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "small"]:
        del sys.modules[name]


def test_names_that_clash_are_told_apart(small, capsys):
    text = bundle(SMALL_MAIN, {"kind": {"'a'"}})
    assert 'FIRST_KINDS = ("a",)' in text
    assert "def first_helper(x: Tensor, y = None) -> Tensor:  # [rows columns]" in text
    assert "# What helps.\ndef first_helper" in text
    assert '"""Not the other helper: äöü → helper."""' in text
    assert "[helper for helper in FIRST_KINDS]  # a local helper" in text
    assert "def filter(self, values, helper=helper):" in text
    assert "import math as mathematics" in text
    assert "Unused" not in text and "About b" not in text and "small." not in text
    exec(compile(text, "small", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "first\n[1.5, 2.5] (4, ['a'])\n"


def test_a_registry_keeps_the_entries_that_are_asked_for(small):
    text = bundle(SMALL_MAIN, {"kind": {"'b'"}})
    assert 'FIRST_KINDS = ("b",)' in text
    assert 'KINDS = {\n    # About b.\n    "b": lambda: None, **{},\n}' in text
    assert "class Sum" not in text
    whole = bundle(SMALL_MAIN, {})
    assert 'FIRST_KINDS = ("a", "b", "c")' in whole and "# About b." in whole


def test_what_an_import_promises_must_be_there(small):
    with pytest.raises(ValueError, match=r"imports 'nobody', no part of small\.first"):
        bundle("from small.first import nobody\n\nnobody()\n", {})
