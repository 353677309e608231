"""Checkpoints: go on bit for bit, and refuse everything that is not a whole one."""

import copy
import io
import json
import pickle
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import checkpoint, checkpoint_file
from core.checkpoint import Snapshot, from_bytes, restore, snapshot, to_bytes
from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.tasks import TASKS
from core.train import Change, Trainer

TASK = TASKS["reverse"](symbols=4, length=4)
TEXT = "the cat sat on the mat.\n" * 20

RUNS = {
    "adamw": {"warmup": 5, "schedule": "cosine", "clip": 0.5},
    "sgd": {"optimizer": "sgd", "warmup": 5, "lr": 0.05},
    "fp16": {"precision": "fp16", "warmup": 5},
}


def trainer(task=TASK, device="cpu", model=None, **training) -> Trainer:
    config = ModelConfig.for_task(task, **({"d_model": 16, "n_heads": 2} | (model or {})))
    return Trainer(config, task, TrainConfig(**({"steps": 20} | training)), choose_device(device))


def curve(t: Trainer, n: int) -> list[tuple[str, str]]:
    """Losses and learning rates, every bit of them."""
    return [(step.loss.hex(), step.lr.hex()) for step in (t.step() for _ in range(n))]


@pytest.fixture
def saved() -> Snapshot:
    t = trainer()
    curve(t, 3)
    return snapshot(t)


# --- going on -----------------------------------------------------------------------------

GO_ON = """
import json, sys, torch
from core import checkpoint, checkpoint_file
from core.device import choose_device
torch.set_num_threads(1)
torch.manual_seed(987)
runs = {}
for path in sys.argv[1:]:
    trainer = checkpoint.load(path, choose_device("cpu"))
    steps = [trainer.step() for _ in range(10)]
    runs[path] = [(step.loss.hex(), step.lr.hex()) for step in steps]
print(json.dumps(runs))
"""


def test_a_run_goes_on_bit_for_bit_in_a_new_process(tmp_path):
    """CKP-01: 20 steps in one go against 10, save, load elsewhere, 10 more."""
    expected = {}
    for name, knobs in RUNS.items():
        model = {"tie_embeddings": True, "position": "learned"}
        expected[str(tmp_path / name)] = curve(trainer(model=model, **knobs), 20)[10:]
        t = trainer(model=model, **knobs)
        curve(t, 10)
        checkpoint.save(t, tmp_path / name)
    found = subprocess.run(
        [sys.executable, "-c", GO_ON, *expected],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    runs = {path: [tuple(step) for step in run] for path, run in json.loads(found.stdout).items()}
    assert runs == expected


def test_a_checkpoint_goes_on_on_every_device(device, tmp_path):
    t = trainer(device=device)
    curve(t, 5)
    checkpoint.save(t, tmp_path / "run")
    expected = [step.loss for step in t]
    back = checkpoint.load(tmp_path / "run", choose_device(device))
    assert {p.device.type for p in back.parameters} == {device}
    assert [step.loss for step in back] == pytest.approx(expected, rel=1e-5)
    elsewhere = checkpoint.load(tmp_path / "run", choose_device("cpu"))
    assert [step.loss for step in elsewhere] == pytest.approx(expected, rel=1e-2)


def test_hot_changes_come_back_with_the_run(saved):
    t = trainer()
    curve(t, 2)
    t.change(scale="none", lr=0.01)
    curve(t, 2)
    back = restore(from_bytes(to_bytes(snapshot(t))))
    assert back.changes == [Change(2, "scale", "none"), Change(2, "lr", 0.01)]
    assert (back.model_config, back.config, back.task) == (t.model_config, t.config, t.task)
    assert back.step_count == 4
    assert curve(back, 3) == curve(t, 3)


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        (name, architecture)
        for name, task in TASKS.items()
        for architecture in task.architectures
        if architecture != "encoder"
    ],
)
def test_every_task_comes_back(name, architecture):
    t = trainer(TASKS[name](), model={"architecture": architecture, "n_layers": 1}, batch_size=2)
    curve(t, 1)
    back = restore(from_bytes(to_bytes(snapshot(t))))
    assert back.task == t.task
    assert curve(back, 2) == curve(t, 2)


def test_before_the_first_step_there_is_something_to_save():
    back = restore(from_bytes(to_bytes(snapshot(trainer()))))
    assert curve(back, 3) == curve(trainer(), 3)


def test_a_snapshot_is_a_copy():
    t = trainer()
    curve(t, 2)
    taken = snapshot(t)
    before = to_bytes(taken)
    expected = curve(t, 3)
    assert to_bytes(taken) == before
    assert curve(restore(taken), 3) == expected


def test_saving_does_not_disturb_the_run(tmp_path, global_random_state_untouched):
    expected = curve(trainer(), 4)
    t, found = trainer(), []
    for _ in range(4):
        found += curve(t, 1)
        checkpoint.save(t, tmp_path / "run")
    assert found == expected


def test_tied_embeddings_are_one_tensor_after_loading():
    """XCK-01"""
    t = trainer(model={"tie_embeddings": True})
    curve(t, 2)
    back = restore(from_bytes(to_bytes(snapshot(t))))
    for one in (back, restore(snapshot(back)), copy.deepcopy(back)):
        assert one.model.unembed.weight is one.model.embed.tokens.weight
        assert sum(p.numel() for p in one.model.parameters()) == one.model_config.n_parameters
    held = [p for group in back.optimizer.param_groups for p in group["params"]]
    assert sum(p is back.model.unembed.weight for p in held) == 1
    assert "model.unembed.weight" not in snapshot(back).tensors
    back.step()
    assert back.model.unembed.weight is back.model.embed.tokens.weight


# --- writing ------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_checkpoint_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "run"
    t = trainer()
    checkpoint.save(t, path)
    before = path.read_bytes()
    t.step()

    def full(*args):
        raise OSError("no space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{function}", full)
            with pytest.raises(OSError, match="no space left"):
                checkpoint.save(t, path)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["run"]

    checkpoint.save(t, path)
    assert checkpoint.load(path).step_count == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_replace_no_checkpoint(value, tmp_path):
    """UI-03"""
    path = tmp_path / "run"
    t = trainer()
    checkpoint.save(t, path)
    with torch.no_grad():
        t.model.unembed.weight[0, 0] = value
    with pytest.raises(ValueError, match=r"unembed\.weight holds values that are not finite"):
        checkpoint.save(t, path)
    assert checkpoint.load(path).step_count == 0


# --- reading what is no checkpoint --------------------------------------------------------


class Bomb:
    """Unpickled, it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def refused(data: bytes) -> str:
    with pytest.raises(ValueError, match=r"\w") as error:
        restore(from_bytes(data))
    return str(error.value)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    """CKP-03"""
    marker = tmp_path / "marker"
    buffer = io.BytesIO()
    torch.save({"weights": Bomb(marker)}, buffer)
    assert "not a usable checkpoint" in refused(pickle.dumps(Bomb(marker)))
    assert "not a usable checkpoint" in refused(buffer.getvalue())
    inside = io.BytesIO()
    with zipfile.ZipFile(inside, "w") as archive:
        archive.writestr("run.json", "{}")
        archive.writestr("tensors.safetensors", pickle.dumps(Bomb(marker)))
    assert "not a usable checkpoint" in refused(inside.getvalue())
    assert not marker.exists()


@pytest.mark.parametrize("data", [b"", b"hello, I am a text file\n" * 100, b"PK\x03\x04" * 50])
def test_a_file_of_another_kind_is_refused(data):
    """CKP-03"""
    assert "not a usable checkpoint" in refused(data)


def test_a_file_cut_anywhere_is_refused(saved):
    """CKP-03"""
    data = to_bytes(saved)
    assert len(data) > 20_000
    for length in (1, 20, 2_000, *range(3_000, len(data), len(data) // 40), len(data) - 1):
        assert "not a usable checkpoint" in refused(data[:length]), length


def test_a_damaged_file_is_refused_or_harmless(saved):
    """Whatever is flipped: a message, or the very same content."""
    data, draw = to_bytes(saved), random.Random(0)
    places = [draw.randrange(len(data)) for _ in range(150)]
    places += [len(data) - 1 - draw.randrange(250) for _ in range(150)]  # the zip's directory
    places += range(60)
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << draw.randrange(8)
        try:
            found = from_bytes(bytes(damaged))
        except ValueError as error:
            assert "not a usable checkpoint" in str(error)
        else:
            assert found.run == saved.run
            assert all(torch.equal(found.tensors[name], t) for name, t in saved.tensors.items())


def test_a_zip_that_claims_to_be_huge_is_refused_before_it_is_unpacked(monkeypatch, saved):
    data = to_bytes(saved)
    monkeypatch.setattr(checkpoint_file, "MAX_BYTES", 1000)
    assert "bytes, at most 1,000 are taken" in refused(data)
    monkeypatch.setattr(checkpoint_file, "MAX_RUN_BYTES", 100)
    assert "run.json has" in refused(data)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(saved, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tensors.safetensors", safetensors.torch.save(saved.tensors))
        archive.writestr("run.json", " " * 10_000_000)
    assert len(buffer.getvalue()) < 100_000
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    assert "run.json is compressed" in refused(buffer.getvalue())


def test_a_member_that_is_there_twice_is_refused(saved):
    buffer = io.BytesIO()
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(buffer, "w") as archive:
        for run in ({}, saved.run):
            archive.writestr("run.json", json.dumps(run))
        archive.writestr("tensors.safetensors", safetensors.torch.save(saved.tensors))
    assert "run.json is in it more than once" in refused(buffer.getvalue())


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[1]], {"x": "y"}, -1, 1e300])
def test_run_data_of_the_wrong_kind_is_refused(saved, value):
    legal = {
        "threads": [value],
        "changes": [[], {}],
        "scaler": [{}],
        "step": [7],
        "skipped": [],
        "training": [{}],
    }
    for name in saved.run:
        if value not in legal.get(name, []):
            said = refused(to_bytes(saved._replace(run=saved.run | {name: value})))
            assert "object" not in said and "NoneType" not in said
    if not isinstance(value, dict):
        assert "holds no object" in refused(zipped(saved.tensors, value))


def test_run_data_that_lacks_something_is_refused(saved):
    for name in saved.run:
        if name not in ("threads", "skipped"):  # which older files lack
            run = {key: value for key, value in saved.run.items() if key != name}
            said = refused(to_bytes(saved._replace(run=run)))
            assert f"{name} is missing" in said or name == "format"


def test_a_zip_of_another_kind_is_refused_in_words():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("holiday.txt", "sun")
    said = "not a usable checkpoint: this zip file holds no run.json and no tensors.safetensors"
    assert refused(buffer.getvalue()) == said


def zipped(tensors: dict, run: object) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("run.json", json.dumps(run))
        archive.writestr("tensors.safetensors", safetensors.torch.save(tensors))
    return buffer.getvalue()


def test_an_unknown_format_is_refused_with_the_known_ones(saved):
    assert "format 3: this version reads formats 1 and 2" in refused(
        to_bytes(saved._replace(run=saved.run | {"format": 3}))
    )


def test_a_checkpoint_that_calls_the_output_layer_head_still_loads(saved):
    tensors = {name.replace("unembed", "head"): tensor for name, tensor in saved.tensors.items()}
    assert {"model.head.weight", "optimizer.head.weight.exp_avg"} <= {*tensors}
    old = from_bytes(to_bytes(Snapshot(tensors, saved.run | {"format": 1})))
    assert curve(restore(old), 3) == curve(restore(saved), 3)


def test_another_vocabulary_is_refused(saved):
    other = saved.run | {"vocabulary": [*saved.run["vocabulary"][:-1], "!"]}
    assert "vocabulary" in refused(to_bytes(saved._replace(run=other)))


def test_tensors_that_do_not_fit_are_refused_by_name(saved):
    every = list(saved.tensors.items())
    for name, tensor in [every[0], *every[1:30:3], every[-1]]:
        left = {key: value for key, value in saved.tensors.items() if key != name}
        missing = refused(to_bytes(saved._replace(tensors=left)))
        kind = "model." if name.startswith("model.") else name.removesuffix(".step")
        assert kind in missing
        for wrong in (tensor[None].repeat(2, *(1 for _ in tensor.shape)), tensor.short()):
            message = refused(to_bytes(saved._replace(tensors=saved.tensors | {name: wrong})))
            assert kind in message or name == "generator.batches"
    more = saved.tensors | {"optimizer.extra": torch.zeros(1)}
    assert "optimizer.extra" in refused(to_bytes(saved._replace(tensors=more)))


def test_a_configuration_far_larger_than_the_file_is_refused_before_it_is_built(saved):
    most = {"n_layers": 2**10, "d_model": 2**16, "vocab_size": 2**20}
    for name, size in most.items():
        run = saved.run | {"model": saved.run["model"] | {name: size}}
        assert "weights" in refused(to_bytes(saved._replace(run=run)))
        run["model"][name] = 10**12
        said = refused(to_bytes(saved._replace(run=run)))
        assert f"{name}=1000000000000: must be at most {size}" in said


# Each is one field that a file may say wrongly: what it says, and a word of the refusal.
WRONG = [
    ({"step": 10**6 + 1}, "step=1000001"),
    ({"step": 10**12}, "step=1000000000000"),
    ({"step": -1}, "step=-1"),
    ({"step": True}, "step=True"),
    ({"step": 3.0}, "step=3.0"),
    ({"changes": [[1, "lr", 'a" if __import__("os").abort() else "']]}, "lr='a"),
    ({"changes": [[1, "lr", float("nan")]]}, "lr=nan"),
    ({"changes": [[1, "lr", 1e300]]}, "lr=1e+300"),
    ({"changes": [[1, 'x"', 1]]}, "cannot change"),
    ({"changes": [[1, "d_model", 8]]}, "cannot change"),
    ({"changes": [[1, ["lr"], 8]]}, "field=['lr']"),
    ({"changes": [["1", "lr", 0.1]]}, "step='1'"),
    ({"changes": [[4, "lr", 0.1]]}, "step=4: must be from 0 to 3"),
    ({"changes": [[2, "lr", 0.1], [1, "lr", 0.2]]}, "step=1: must be from 2 to 3"),
    ({"changes": [[1, "lr"]]}, "expected [step, field, value]"),
    ({"changes": [[1, "lr", 0.1]] * 10_001}, "10,001"),
    ({"scaler": {"scale": 0}}, "expected _growth_tracker"),
    ({"scaler": dict.fromkeys(checkpoint_file.SCALER, 1e300)}, "1e+300"),
    ({"scaler": dict.fromkeys(checkpoint_file.SCALER, "1")}, "'1'"),
    ({"scaler": dict.fromkeys(checkpoint_file.SCALER, 0)}, "=0: expected a number from 1e-30"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[str(said) for _, said in WRONG])
def test_every_field_is_checked_before_anything_is_built(saved, wrong, said, monkeypatch):
    monkeypatch.setattr(checkpoint, "Trainer", None)
    assert said in refused(to_bytes(saved._replace(run=saved.run | wrong)))


NASTY = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 10**6 + 1, 10**30, -(10**30), 0.5, 1e300, -1e-300]),
    st.sampled_from([float("nan"), float("inf"), -float("inf")]),
    st.sampled_from(["", "x" * 5000, "\0", "‮", '"; import os', "lr", "none", "1"]),
    st.sampled_from([[], {}, [[]], {"": None}, [[1, "lr", 0.1]], {"task": "reverse"}]),
    st.text(max_size=5),
)


def places(values: object, at: tuple = ()) -> list[tuple]:
    """The way to every value in a tree of lists and dicts."""
    found = [at] if at else []
    pairs = values.items() if isinstance(values, dict) else enumerate(values)
    if isinstance(values, dict | list):
        for key, value in pairs:
            found += places(value, (*at, key)) if isinstance(value, dict | list) else [(*at, key)]
    return found


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_checkpoint_with_any_field_replaced_loads_or_is_refused_in_words(data):
    run = copy.deepcopy(VALID.run)
    *way, last = data.draw(st.sampled_from(places(VALID.run)))
    part = run
    for key in way:
        part = part[key]
    part[last] = data.draw(NASTY)
    try:
        found = restore(from_bytes(to_bytes(VALID._replace(run=run))))
    except ValueError as error:
        assert len(str(error)) < 1000
    else:
        assert found.step_count <= 10**6
        found.step()


def snapshot_with_changes() -> Snapshot:
    t = trainer()
    curve(t, 2)
    t.change(lr=0.01, scale="none", clip=None)
    curve(t, 1)
    return snapshot(t)


VALID = snapshot_with_changes()


def test_optimiser_state_that_no_optimiser_has_is_refused(saved):
    for key in ("step", "exp_avg_sq"):
        name = f"optimizer.unembed.weight.{key}"
        wrong = saved.tensors | {name: -saved.tensors[name] - 1}
        assert "holds negative values" in refused(to_bytes(saved._replace(tensors=wrong)))


def test_values_that_are_not_finite_are_not_loaded(saved):
    for name in ("model.unembed.weight", "optimizer.unembed.weight.exp_avg"):
        bad = saved.tensors | {name: saved.tensors[name] * float("nan")}
        message = refused(to_bytes(saved._replace(tensors=bad)))
        assert message == f"{name} holds values that are not finite"


# --- a text of one's own ------------------------------------------------------------------


def test_a_text_of_ones_own_must_be_handed_in_again():
    t = trainer(TASKS["text"](source="own", text=TEXT, length=16))
    curve(t, 2)
    data = to_bytes(snapshot(t))
    assert TEXT.encode()[:100] not in data
    with pytest.raises(ValueError, match="hand in the text that was learnt"):
        restore(from_bytes(data))
    with pytest.raises(ValueError, match="not the one that was learnt"):
        restore(from_bytes(data), text=TEXT + "the end")
    assert curve(restore(from_bytes(data), text=TEXT), 3) == curve(t, 3)
