"""Which device is chosen, and what it says about itself."""

import pytest
import torch

from core.config import PRECISIONS, ModelConfig, TrainConfig
from core.device import DTYPES, OVERRIDE, Device, choose_device, compute_dtype
from core.tasks import TASKS
from core.train import Trainer


def machine(monkeypatch, cuda: bool = False, mps: bool = False, bf16: bool = True) -> None:
    """Pretend to have these."""
    monkeypatch.delenv(OVERRIDE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: "Test 3000")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "chosen"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_cuda_comes_first_then_apples_gpu_then_the_cpu(cuda, mps, chosen, monkeypatch):
    machine(monkeypatch, cuda, mps)
    device = choose_device()
    assert device.name == device.kind == chosen


def test_the_environment_overrides_the_choice_and_the_caller_overrides_both(monkeypatch):
    machine(monkeypatch, cuda=True, mps=True)
    monkeypatch.setenv(OVERRIDE, "cpu")
    assert choose_device().name == "cpu"
    assert OVERRIDE in choose_device().words
    assert choose_device("cuda:1").name == "cuda:1"
    monkeypatch.setenv(OVERRIDE, "")
    assert choose_device().name == "cuda"


@pytest.mark.parametrize("asked", ["cuda", "mps", "cuda:3"])
def test_a_device_that_is_not_there_is_refused_by_name(asked, monkeypatch):
    machine(monkeypatch)
    with pytest.raises(ValueError, match=rf"device='{asked}': this machine has none"):
        choose_device(asked)


@pytest.mark.parametrize("asked", ["gpu", "tpu:0", "cpu:x", "meta"])
def test_a_device_that_nobody_has_is_refused_by_name(asked, monkeypatch):
    machine(monkeypatch)
    with pytest.raises(ValueError, match=f"device='{asked}'"):
        choose_device(asked)


def test_the_device_says_in_words_what_was_chosen(monkeypatch):
    machine(monkeypatch)
    assert "CPU" in choose_device().words and "thread" in choose_device().words
    machine(monkeypatch, cuda=True)
    assert "Test 3000" in choose_device().words


def test_precisions_of_a_gpu_without_bfloat16(monkeypatch):
    """DEV-01: what cannot run is refused with the reason, never switched off in silence."""
    machine(monkeypatch, cuda=True, bf16=False)
    device = choose_device()
    assert device.precisions == ["fp32", "fp16"]
    with pytest.raises(ValueError, match=r"precision=bf16 is not available: .*bfloat16"):
        device.check("bf16")
    task = TASKS["reverse"]()
    with pytest.raises(ValueError, match="precision=bf16"):
        Trainer(ModelConfig.for_task(task), task, TrainConfig(precision="bf16"), device)


def test_every_precision_has_an_answer(device):
    described: Device = choose_device(device)
    assert [precision for precision, _ in described.refusals] == list(PRECISIONS) == list(DTYPES)
    assert "fp32" in described.precisions


def test_the_precision_in_use_is_the_one_asked_for(device):
    """DEV-01: fp32 uses no autocast, bf16 no scaler, fp16 both."""
    task = TASKS["reverse"]()
    described = choose_device(device)
    for precision in described.precisions:
        config = ModelConfig.for_task(task, d_model=8, n_heads=2, n_layers=1)
        trainer = Trainer(config, task, TrainConfig(precision=precision), described)
        assert trainer.scaler.is_enabled() == (precision == "fp16")
        seen = []
        handle = trainer.model.blocks[0].attention.qkv.register_forward_hook(
            lambda module, inputs, output, seen=seen: seen.append(output.dtype)
        )
        trainer.step()
        trainer.evaluate()
        handle.remove()
        assert seen == [DTYPES[precision] or torch.float32] * 2
        assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def test_a_model_computes_in_the_type_of_its_input_or_of_autocast(device):
    x = torch.zeros(1, device=device)
    assert compute_dtype(x) == torch.float32
    with torch.autocast(device, torch.bfloat16):
        assert compute_dtype(x) == torch.bfloat16
    assert compute_dtype(torch.zeros(1, dtype=torch.float64)) == torch.float64
