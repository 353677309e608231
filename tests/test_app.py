"""The server: what is set once for the process. Its route is tested with the component it feeds."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import playground
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from playground.app import keep_large_blocks
from playground.ready import warm_up

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


def test_the_limit_on_open_files_is_raised_as_far_as_it_goes():
    """In a process of its own: this one keeps its limit."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    code = (
        "import resource; from playground.app import allow_many_files\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))\n"
        "for _ in 'ab': allow_many_files()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= (10_240 if hard == resource.RLIM_INFINITY else min(hard, 65_536))


def test_the_server_answers_before_pytorch_is_there_and_the_first_page_waits_for_it():
    code = """
import asyncio, sys
from playground import ready
from playground.app import app, lifespan

def heavy():
    return {"torch", "pandas"} & set(sys.modules)

async def start():
    assert not heavy(), heavy()
    async with lifespan(app):
        await asyncio.to_thread(ready.wait)
        missing = {*ready.MODULES, "torch"} - set(sys.modules)
        assert not missing, missing
        assert "pandas" not in sys.modules, "no page needs it"
        import torch
        assert torch.get_num_threads() == 1
asyncio.run(start())
"""
    # A setting would be checked first.
    env = {k: v for k, v in os.environ.items() if not k.startswith("PLAYGROUND_")}
    del env["OMP_NUM_THREADS"]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PLAYGROUND_THREADS", "two"),
        ("PLAYGROUND_WORKERS", "-1"),
        ("PLAYGROUND_MAX_RUNS", "0"),
        ("PLAYGROUND_DEVICE", "tpu"),
        ("PLAYGROUND_HISTORY", "shared"),
    ],
)
def test_a_setting_that_cannot_be_ends_the_start_in_one_line(name, value):
    code = (
        "import asyncio; from playground.app import app, lifespan\n"
        "async def start():\n"
        "    async with lifespan(app): print('started')\n"
        "asyncio.run(start())"
    )
    env = os.environ | {name: value}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 2 and "started" not in done.stdout
    (said,) = (line for line in done.stderr.splitlines() if repr(value) in line)
    assert name in said and "Traceback" not in done.stderr


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
