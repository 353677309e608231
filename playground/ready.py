"""What the first page and the first Play need: loaded beside the server, which answers meanwhile.

PyTorch and the pages take seconds to import, and a browser takes as long to read Streamlit's own
scripts. So the server answers at once, and the first page waits here for what is left.
"""

import gc
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module

MODULES = ("playground.ui.controls", "playground.ui.run_panels", "playground.runs.controller")

# Set from the start: who begins nothing, as a test of a page does, waits for nothing.
_loaded = threading.Event()
_loaded.set()


def begin() -> threading.Thread:
    """Begin to load, in a thread; `wait` returns when everything is there."""
    _loaded.clear()
    thread = threading.Thread(target=_load, name="make ready")
    thread.start()
    return thread


def wait() -> None:
    """Until what a page imports is loaded, and the process is set up."""
    _loaded.wait()


def _load() -> None:
    try:
        set_up()
        for module in MODULES:
            import_module(module)
    finally:
        _loaded.set()
    warm_up()
    delete_ended_classes()
    # What is imported by now lives as long as the server: no collection looks at it again.
    gc.collect()
    gc.freeze()


def set_up() -> None:
    """Read the settings in the environment; one that cannot be ends the process."""
    import torch

    try:
        from playground.history.recorder import chosen_mode
        from playground.runs.limits import setting
        from playground.runs.pool import RUNS

        RUNS.check_settings()
        chosen_mode()
        # Fixed for the process: one thread and two differ in the last digits.
        torch.set_num_threads(setting("THREADS", 1))
    except ValueError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(2)


def delete_ended_classes() -> None:
    """Those whose day was over while no server ran."""
    from playground.classroom.database import CLASSES
    from playground.history.file import FileUnavailable

    with suppress(FileUnavailable):  # whoever comes to a class is told
        CLASSES.expire()


def warm_up() -> None:
    """One step of a tiny model: PyTorch loads now what else the first Play would wait for."""
    from core.config import ModelConfig
    from core.tasks import TASKS
    from core.train import Trainer

    task = TASKS["copy"]()
    Trainer(ModelConfig.for_task(task, d_model=8, n_heads=1, n_layers=1), task).step()
