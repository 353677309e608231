"""`python -m core`: flags from the dataclasses, losses, and a last line to read."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from core import checkpoint
from core.__main__ import main
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer

ROOT = Path(__file__).parents[2]
FINAL = r"final loss \d+\.\d{3} \(training, mean of the last \d+ steps\)"
SMALL = ["--device", "cpu", "--d-model", "16", "--n-heads", "2", "--n-layers", "1"]


def test_a_run_in_a_process_of_its_own_prints_its_final_loss_and_saves(tmp_path):
    path = tmp_path / "run"
    command = "--task reverse --scale none --steps 25 --symbols 4 --length 4 --seed 3"
    found = subprocess.run(
        [sys.executable, "-m", "core", *command.split(), *SMALL, "--save", str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0].startswith("task reverse, ")
    progress = [line for line in lines if line.startswith("step ")]
    assert len(progress) == 13 and progress[-1].split()[1] == "25"  # the end is evaluated
    assert all(re.search(r"loss \d+\.\d{3}  validation \d+\.\d{3}", line) for line in progress)

    task = TASKS["reverse"](symbols=4, length=4)
    config = ModelConfig.for_task(task, d_model=16, n_heads=2, n_layers=1, scale="none")
    losses = [step.loss for step in Trainer(config, task, TrainConfig(steps=25, seed=3))]
    (final,) = [line for line in lines if line.startswith("final loss ")]
    assert re.fullmatch(FINAL, final) and "the last 20 steps" in final
    assert float(final.split()[2]) == pytest.approx(sum(losses[-20:]) / 20, abs=2e-3)

    back = checkpoint.load(path)
    assert (back.model_config, back.step_count) == (config, 25)


def run(capsys, *arguments: str) -> str:
    main([*arguments, *SMALL])
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "final loss" not in captured.out
    return captured.err


def test_the_last_line_is_the_final_loss(capsys):
    out = run(capsys, "--steps", "2")
    assert re.fullmatch(FINAL, out.strip().splitlines()[-1]) and "the last 2 steps" in out


@pytest.mark.parametrize("steps", [1, 7, 37])
def test_the_end_is_evaluated(capsys, steps):
    lines = run(capsys, "--steps", str(steps)).splitlines()
    assert lines[-2].split()[:2] == ["step", str(steps)] and "validation" in lines[-2]


def test_help_is_written_on_any_terminal():
    found = subprocess.run(
        [sys.executable, "-m", "core", "--help"],
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "cp437"},
        timeout=120,
    )
    assert found.returncode == 0 and b"--d-model" in found.stdout, found.stderr


def test_memory_that_runs_out_is_a_message(capsys, monkeypatch):
    def full(trainer):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory\nat somewhere")

    monkeypatch.setattr(Trainer, "step", full)
    with pytest.raises(SystemExit) as end:
        run(capsys, "--steps", "1")
    assert end.value.code == 1 and "allocate memory" in capsys.readouterr().out


@pytest.mark.parametrize("name", TASKS)
def test_every_knob_of_the_dataclasses_is_a_flag(name, capsys):
    with pytest.raises(SystemExit) as end:
        main(["--task", name, "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", out))
    knobs = {
        "--" + item.name.replace("_", "-")
        for config in (ModelConfig, TrainConfig, TASKS[name])
        for item in fields(config)
        if item.metadata
    } - {"--vocab-size", "--max-len", "--d-patch"}
    extra = {"--help", "--task", "--device", "--save"} | (
        {"--text-file"} if name == "text" else set()
    )
    assert {flag for flag in flags if not flag.startswith("--no-")} == knobs | extra
    assert {"--no-residual", "--no-ffn", "--no-tie-embeddings"} <= flags


def test_flags_reach_the_run(capsys, tmp_path):
    path = tmp_path / "run"
    command = (
        "--task sort --architecture encoder --no-residual --clip none --d-ff 24 --tie-embeddings "
        "--lr 0.5 --schedule cosine --warmup 2 --vary --steps 3 --precision bf16 --mask none"
    )
    run(capsys, *command.split(), "--save", str(path))
    back = checkpoint.load(path)
    model, training = back.model_config, back.config
    assert (model.architecture, model.residual, model.d_ff) == ("encoder", False, 24)
    assert (model.tie_embeddings, model.mask) == (True, "none")
    assert (training.clip, training.lr, training.schedule) == (None, 0.5, "cosine")
    assert (training.warmup, training.steps, training.precision) == (2, 3, "bf16")
    assert back.task == TASKS["sort"](vary=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--d-model 10 --n-heads 4", "n_heads=4 does not divide d_model=10"),
        ("--steps 0", "steps=0: must be at least 1"),
        ("--lr nan", "lr=nan: must be a finite number"),
        ("--steps 10 --warmup 10", "warmup=10 must be below steps=10"),
        ("--scale magic", "--scale: 'magic': choose one of √d_k, none"),
        ("--task magic", "--task: invalid choice: 'magic'"),
        ("--d-model abc", "--d-model: 'abc': expected a whole number"),
        ("--clip abc", "--clip: 'abc': expected a number, or off"),
        ("--residual maybe", "--residual: 'maybe': choose on or off"),
        ("--symbols 99", "symbols=99: must be at most 36"),
        ("--heads 4", "unrecognized arguments: --heads 4"),
        ("--device tpu", "device='tpu'"),
        ("--task text --architecture encoder", "architecture='encoder' does not fit task text"),
        ("--task text --text-file /no/such/file", "/no/such/file"),
        ("--save /no/such/folder/run", "/no/such/folder"),
        (f"--save {ROOT}", "this is a folder"),
        ("--save=", "save='': give the name of a file"),
        ("--d-model 1000000", "d_model=1000000: must be at most 65536"),
        ("--d-model 65536 --n-layers 1000", "parameters take"),
    ],
)
def test_bad_values_name_the_field_before_anything_is_trained(arguments, message, capsys):
    assert message in refused(capsys, *arguments.split())


def test_a_text_file_is_learnt(capsys, tmp_path):
    text = tmp_path / "mine.txt"
    text.write_text("the cat sat on the mat.\n" * 10)
    arguments = ["--task", "text", "--length", "8", "--steps", "2", "--text-file", str(text)]
    assert "final loss" in run(capsys, *arguments)

    text.write_bytes("café — naïve".encode("cp1252"))
    assert "byte 0xE9 at offset 3" in refused(capsys, *arguments)  # UPL-01


def test_a_run_that_diverges_says_so_and_fails(capsys, tmp_path):
    """UI-03"""
    path = tmp_path / "run"
    with pytest.raises(SystemExit) as end:
        run(capsys, "--lr", "1000", "--clip", "none", "--norm", "none", "--save", str(path))
    assert end.value.code == 1
    out = capsys.readouterr().out
    assert re.search(r"diverged at step \d+ \(learning rate 1000\): the \w+ is no longer", out)
    assert "final loss" not in out and not path.exists()
