"""The run as one Python file: it computes the run's own losses, and reads as if written for it."""

import ast
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import fields
from functools import cache
from io import StringIO
from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.tasks import TASKS
from core.tasks.text import SOURCES
from core.train import Change, Trainer
from helpers import spec_for
from playground.export.single_file import TEMPLATE, _literal, script
from playground.runs.spec import Spec

OWN_TEXT = (
    'He said "no\\thing".\n"""Quoted""" \'too\' \\ {braces} é → 🙂\t\n\n\n\n    LR = 3  # in\n' * 8
    + 'LR = 3\nend"'
)
STEPS = 20


@cache
def file_of(i: int) -> str:
    """The file of the i-th run of the grid."""
    return script(*drawn(i), STEPS)


def run(text: str) -> list[str]:
    """What a file prints."""
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(text, "file", "exec"), {"__name__": "__main__"})
    return out.getvalue().splitlines()


def losses(spec: Spec, changes: tuple[Change, ...]) -> Iterator[float]:
    """The oracle: the trainer itself, its knobs turned one by one."""
    trainer = Trainer(spec.model, spec.task, spec.training, choose_device("cpu"))
    while True:
        for change in changes:
            if change.step == trainer.step_count:
                trainer.change(**{change.field: change.value})
        yield trainer.step().loss


def expected(spec: Spec, changes: tuple[Change, ...] = ()) -> list[str]:
    first = enumerate(islice(losses(spec, changes), STEPS), start=1)
    return [f"step {step} loss {loss!r}" for step, loss in first]


# --- the grid of switches -------------------------------------------------------------------

# Pictures are not written into a file, and so no vision transformer is.
TOKENS = {name: task for name, task in TASKS.items() if name != "images"}
# Every task in every form that it has.
FORMS = [
    (name, knobs, architecture)
    for name, task in TOKENS.items()
    for architecture in task.architectures
    for knobs in (
        [{"source": source, "length": 12} for source in SOURCES]
        if name == "text"
        else [{"source": "grammar", "length": 12, "share": 0.5}, {"source": "docs", "length": 12}]
        if name == "gaps"
        else [{"length": 3, "vary": vary} for vary in (False, True)]
        if "vary" in task.__dataclass_fields__
        else [{"length": 3}]
        if "length" in task.__dataclass_fields__
        else [{}]
    )
] + [("reverse", {"length": 3}, "gru"), ("distance", {"mixed": True}, "lstm")]
# What each hot knob is turned to.
TURNS = {
    "scale": ("none", "d_head"),
    "mask": ("none", "window", "causal", "auto"),
    "window": (1, 3),
    "pad_mask": (False, True),
    "residual": (False, True),
    "activation": ("gelu", "relu", "silu"),
    "steps": (30,),
    "batch_size": (3,),
    "lr": (0.02,),
    "weight_decay": (0.1,),
    "schedule": ("cosine", "constant", "paper"),
    "warmup": (0, 3),
    "clip": (None, 0.5),
    "label_smoothing": (0.0, 0.2),
}


def drawn(i: int) -> tuple[Spec, tuple[Change, ...]]:
    """The i-th run of the grid: a form of a task, all switches as the dice have it."""
    dice = random.Random(11 + i)  # dice that meet everything within few runs

    def switches(config: type) -> dict:
        return {
            item.name: dice.choice(choices)
            for item in fields(config)
            if (choices := (False, True) if item.type is bool else item.metadata["choices"])
        }

    task, knobs, architecture = FORMS[i % len(FORMS)]
    if knobs.get("source") == "own":
        knobs = knobs | {"text": OWN_TEXT}
    sizes = {"window": dice.choice((1, 3)), "d_ff": dice.choice((None, 8))}
    heads = {"n_heads": dice.choice((1, 2, 4)), "n_layers": dice.choice((1, 2))}
    model = switches(ModelConfig) | sizes | heads | {"architecture": architecture}
    numbers = {"warmup": dice.choice((0, 4)), "clip": dice.choice((None, 1.0, 0.1)), "seed": i}
    numbers |= {"label_smoothing": dice.choice((0.0, 0.1))}
    sizes |= {"d_model": 16, "steps": STEPS}
    spec = spec_for(TASKS[task](**knobs), **model | sizes | switches(TrainConfig) | numbers)
    turned = dice.sample(sorted(TURNS), dice.choice((0, 0, 2, 4)))
    changes = [Change(dice.choice((1, 3, 8)), name, dice.choice(TURNS[name])) for name in turned]
    return spec, tuple(sorted(changes, key=lambda change: change.step))


GRID = range(len(FORMS) + 6)


def test_the_grid_meets_every_choice_that_there_is():
    assert set(TURNS) == set(ModelConfig.hot() + TrainConfig.hot())
    runs = [drawn(i) for i in GRID]
    assert {change.field for _, changes in runs for change in changes} == set(TURNS)
    for config, specs in (
        (ModelConfig, [spec.model for spec, _ in runs]),
        (TrainConfig, [spec.training for spec, _ in runs]),
    ):
        for item in fields(config):
            if item.name == "d_patch":
                continue
            choices = (False, True) if item.type is bool else item.metadata["choices"]
            met = {getattr(spec, item.name) for spec in specs}
            assert {*(choices or ())} - {"vit"} <= met, f"{item.name}: make GRID longer"
            assert item.name in TURNS or met != {item.default}, f"{item.name}: no run turns it"


def test_every_knob_is_a_constant_of_the_template():
    tree = ast.parse(TEMPLATE.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for config in (ModelConfig, TrainConfig, *TOKENS.values()):
        knobs = {item.name.upper() for item in fields(config)} - {"D_PATCH"}
        assert knobs <= names, config.__name__


def test_a_run_on_pictures_is_no_single_file_and_says_why():
    with pytest.raises(ValueError, match="pictures are a file of their own"):
        script(Spec.of(TASKS["images"]()))


@pytest.mark.parametrize("i", GRID)
def test_the_file_computes_the_losses_of_the_trainer_digit_for_digit(i):
    """Whoever adds an entry to a registry of the core is told here that the file lacks it."""
    spec, changes = drawn(i)
    assert run(file_of(i))[:STEPS] == expected(spec, changes)


def test_the_template_itself_is_the_default_run():
    text = TEMPLATE.read_text(encoding="utf-8").replace("\nSTEPS = 300\n", f"\nSTEPS = {STEPS}\n")
    assert run(text)[:STEPS] == expected(Spec.of(TASKS["reverse"]()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All files of the grid."""
    place = tmp_path_factory.mktemp("files")
    for i in GRID:
        (place / f"run_{i}.py").write_text(file_of(i), encoding="utf-8")
    return place


def test_the_files_pass_ruff(folder):
    ruff = [sys.executable, "-m", "ruff"]
    rules = ["--isolated", "--line-length", "100"]
    more = ["--extend-select", "E501,I,UP,B", "--no-cache"]
    check = subprocess.run([*ruff, "check", *rules, *more, folder], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout
    form = [*ruff, "format", "--diff", "--no-cache", *rules]
    form = subprocess.run([*form, folder], capture_output=True, text=True)
    assert form.returncode == 0, form.stdout


@pytest.mark.parametrize("i", GRID)
def test_a_file_holds_nothing_that_its_run_does_not_use(i):
    tree = ast.parse(file_of(i))
    own_words = drawn(i)[0].task.name in ("dates", "numbers")  # how they are written comes with it
    assert len(file_of(i).splitlines()) < (500 if own_words else 460)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    read = {name.id for name in names if isinstance(name.ctx, ast.Load)}
    definitions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    defined = {node.name for node in definitions} - {"__init__", "forward"}
    constants = {name.id for name in names if name.id.isupper()}
    assert defined <= read and constants <= read
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {"config", "trace"} & (read | attributes)
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in ast.walk(tree):
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    assert {name.split(".")[0] for name in modules} - sys.stdlib_module_names == {"torch"}


# --- alone, in an empty folder --------------------------------------------------------------

ALONE = {
    "plain": (spec_for("reverse"), ()),
    "own": (spec_for(TASKS["text"](source="own", text=OWN_TEXT, length=16)), ()),
    "more": (spec_for("recall", steps=9), (Change(9, "steps", 30), Change(99, "scale", "d_head"))),
}

# Runs files one by one where nothing but Python and PyTorch can be imported.
RUNNER = """
import runpy, sys
sys.modules.update(dict.fromkeys(["core", "playground", "jaxtyping", "streamlit", "pandas"]))
for path in sys.argv[1:]:
    print("file", path)
    runpy.run_path(path, run_name="__main__")
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, list[str]]:
    """What each file prints, in a Python that cannot see the project."""
    folder = tmp_path_factory.mktemp("alone")
    for name in ALONE:
        (folder / f"{name}.py").write_text(script(*ALONE[name], STEPS), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUNNER, *(f"{name}.py" for name in ALONE)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    _, *parts = done.stdout.split("file ")
    return {part.partition(".py")[0]: part.splitlines()[1:] for part in parts}


@pytest.mark.parametrize("name", list(ALONE))
def test_the_file_needs_nothing_but_pytorch(name, printed):
    assert printed[name][:STEPS] == expected(*ALONE[name])


def test_in_the_end_the_model_answers(printed):
    answers = printed["plain"][STEPS:]
    assert len(answers) == 4 and all("right" in line or "wrong" in line for line in answers)


def test_a_run_that_diverges_says_so():
    text = script(spec_for("reverse", lr=1e30, clip=None, optimizer="sgd"))
    with pytest.raises(SystemExit, match="diverged at step"):
        run(text)


# --- how it reads ---------------------------------------------------------------------------


def default_file() -> str:
    return script(Spec.of(TASKS["reverse"]()))


def test_the_file_of_the_default_run_is_short():
    assert len(default_file().splitlines()) <= 300


def test_plain_constants_come_first_and_the_loop_last():
    text = default_file()
    parts = (
        "D_MODEL = 64",
        "def attention(",
        "def attention_bias(",
        "def sinusoids",
        "class Block",
    )
    rest = ("class Transformer", "def initialise", "def draw", "for step in range(STEPS)")
    places = [text.index(part) for part in (*parts, *rest)]
    assert places == sorted(places)
    loop = text[places[-1] :]
    for line in ("batch(BATCH_SIZE)", "zero_grad()", "backward()", "CLIP", "optimizer.step()"):
        assert line in loop


def test_a_hot_change_is_a_line_of_the_loop():
    changes = (
        Change(3, "scale", "none"),
        Change(3, "lr", 0.02),
        Change(3, "lr", 0.03),
        Change(8, "steps", 30),
        Change(99, "scale", "d_head"),
    )
    text = script(spec_for("reverse"), changes)
    assert '    if step == 3:\n        SCALE = "none"\n        LR = 0.03\n' in text
    assert "step == 8" not in text  # only a schedule would ask for the number of steps
    assert '"d_head"' not in text  # a change after the last step
    assert '    if SCALE == "sqrt_d_head":\n' in text


@pytest.mark.parametrize(
    "change",
    [
        Change(1, "lr", "a\" if __import__('builtins').print('X') else \""),
        Change(1, "mask", "causal'; print('X'); '"),
        Change(1, "d_model", 8),
        Change(1, "lr = print('X') #", 0.1),
    ],
)
def test_a_change_that_no_run_can_make_never_becomes_code(change):
    with pytest.raises(ValueError):
        script(spec_for("reverse"), (change,))


def test_the_number_of_threads_is_set_before_anything_is_computed():
    text = script(spec_for("copy"), threads=3)
    assert "THREADS = 3  #" in text
    first = next(node for node in ast.parse(text).body[1:] if isinstance(node, ast.Expr))
    assert ast.unparse(first) == "torch.set_num_threads(THREADS)"
    assert f"THREADS = {torch.get_num_threads()}  #" in script(spec_for("copy"))


def test_the_knobs_that_are_not_at_their_defaults_are_named():
    text = script(spec_for("reverse", residual=False, position="rotary", d_model=8, clip=None))
    for line in ("    residual = off\n", "    position = rotary\n", "    clip = "):
        assert line in text
    assert "at its default" in default_file()


@given(st.text() | st.text('\n\r\0\\"#{}a ') | st.integers() | st.booleans() | st.none())
def test_a_value_as_code_is_that_value_and_nothing_else(value):
    assert ast.literal_eval(_literal(value)) == value
