"""The server: what is set once for the process. Its route is tested with the component it feeds."""

import tomllib
from pathlib import Path

import pytest
import torch

import playground
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from playground.app import keep_large_blocks, warm_up

ROOT = Path(playground.__file__).parent.parent


def losses() -> list[float]:
    task = TASKS["copy"]()
    config = ModelConfig.for_task(task, d_model=16, n_heads=2, n_layers=1)
    return [step.loss for step in Trainer(config, task, TrainConfig(steps=3))]


def test_warming_up_and_keeping_memory_change_no_number():
    before = losses()
    warm_up()
    keep_large_blocks()
    assert losses() == before


def test_warming_up_leaves_the_global_random_state_alone(global_random_state_untouched):
    warm_up()


@pytest.mark.parametrize(
    "section, name, value",
    [
        ("browser", "gatherUsageStats", False),
        ("runner", "postScriptGC", False),
        ("server", "fileWatcherType", "none"),
        ("server", "address", "localhost"),
        ("runner", "magicEnabled", False),  # it parses every page, in any thread
    ],
)
def test_the_server_asks_nobody_and_is_for_this_machine(section, name, value):
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert config[section][name] == value


def test_number_of_threads_is_one_while_the_tests_run():
    assert torch.get_num_threads() == 1
