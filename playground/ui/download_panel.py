"""Download: what can be saved of the run on the page, and how it is loaded again.

Nothing is made before somebody asks for it: a download's bytes come from a function that is
called when its button is pressed.
"""

import mimetypes
import re
from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from core.tasks.sources import MAX_TEXT_BYTES
from playground.export.files import MAX_CONFIG_BYTES, config_from_json, config_json, metrics_csv
from playground.export.single_file import script, why_no_file
from playground.history.names import title
from playground.runs import saved_run
from playground.runs.controller import Controller
from playground.runs.limits import check_limits
from playground.runs.spec import Spec, hot_changes_text
from playground.ui import allowed, controls, own_text
from playground.ui.literal import literal

CHECKPOINT_MB = 300
CONFIG_MB = -(-MAX_CONFIG_BYTES // 2**20)
PATIENCE = 120  # seconds that a checkpoint may wait for the worker of its run
ADD_TEXT = (
    "No file contains your text: add it first (Task: text, More: the task, Source: own), "
    f"at most {MAX_TEXT_BYTES / 1e6:g} MB, then try again"
)


def draw(controller: Controller) -> None:
    """The tab: downloads on the left, uploads on the right."""
    if st.session_state.pop("loaded", False):
        st.rerun()  # the knobs are outside of this fragment
    left, right = st.columns(2, gap="large")
    with left:
        downloads(controller)
    if not allowed.limited():  # what is loaded would turn the knobs that a link has fixed
        with right:
            uploads(controller)


# --- to a file ------------------------------------------------------------------------------------


def downloads(controller: Controller) -> None:
    view = controller.view
    steps = len(view.loss) if view is not None else 0
    name = file_stem(began(controller))
    with st.container(key="downloads", gap="small"):
        offer(
            "Numbers (CSV)",
            "csv",
            f"{name}.csv",
            lambda: metrics_csv(controller.view),
            "A row for each step: loss, learning rate, gradient norms, validation.",
            icon="table_chart",
            missing="" if steps else "Nothing has been measured yet: press Play.",
        )
        offer(
            "Configuration (JSON)",
            "json",
            f"{name}.json",
            lambda: config(controller),
            "Every knob, and those turned during the run. Load it again on the right.",
            icon="tune",
        )
        offer(
            "Checkpoint (zip)",
            "checkpoint",
            f"{name}-step{steps}.zip",
            lambda: checkpoint(controller),
            "Weights (safetensors), optimiser and curve: the run resumes from here, bit for bit.",
            icon="save",
            missing="" if controller.run else "There is no model yet: press Play or Step.",
        )
        offer(
            "The run as one Python file",
            "script",
            f"{name}.py",
            lambda: python_file(controller),
            "Needs only PyTorch, is read from top to bottom, and prints the same losses.",
            icon="code",
            missing=why_no_file(controller.spec),
        )
    st.caption(
        "To save a figure, move the pointer over it and press Save at its upper right. You get it "
        "as PNG, SVG or a page of its own (HTML), with a line on what it shows and of which "
        "configuration."
    )


def offer(
    label: str,
    key: str,
    file_name: str,
    make: Callable[[], str | bytes],
    help: str,
    *,
    icon: str,
    missing: str = "",
) -> None:
    """One download; `missing` says why there is nothing to download yet."""
    st.download_button(
        label,
        make,
        file_name,
        mimetypes.guess_type(file_name)[0],
        key=f"download_{key}",
        help=missing or help,
        icon=f":material/{icon}:",
        on_click="ignore",
        disabled=bool(missing),
        width="stretch",
    )


def began(controller: Controller) -> Spec:
    """The run's spec before its knobs were turned, with the example that is shown now.

    Without a run, what the knobs say.
    """
    if controller.run is None:
        return controller.spec
    return replace(controller.run.started, probe=controller.spec.probe)


def config(controller: Controller) -> str:
    view = controller.view
    return config_json(began(controller), view.changes if view is not None else ())


def checkpoint(controller: Controller) -> bytes:
    """The live run, as it is between two steps.

    Raises:
        ValueError: there is nothing to save.
        TimeoutError: its worker is too busy.
    """
    return controller.run.checkpoint().result(PATIENCE)


def python_file(controller: Controller) -> str:
    view, device = controller.view, controller.device.kind
    if view is None:
        return script(controller.spec, device=device)
    return script(began(controller), view.changes, view.spec.training.steps, device=device)


def file_stem(spec: Spec) -> str:
    """A file name that says what is in it: `reverse-scale=none-lr=0.01`."""
    words = re.sub(r"[^\w.=-]+", "-", f"{spec.task.name} {title(spec)}", flags=re.ASCII)
    return words.strip("-")[:80]


# --- from a file -------------------------------------------------------------------------------


def uploads(controller: Controller) -> None:
    with st.container(key="uploads", gap="small"):
        st.file_uploader(
            "Load a configuration",
            "json",
            key="config_file",
            max_upload_size=CONFIG_MB,
            on_change=_load,
            args=("config_file", load_config, controller),
            help="Turns every knob to what the file says.",
        )
        st.file_uploader(
            "Resume from a checkpoint",
            "zip",
            key="checkpoint_file",
            max_upload_size=CHECKPOINT_MB,
            on_change=_load,
            args=("checkpoint_file", load_checkpoint, controller),
            help="Replaces the run on the page; it is paused until you press Play.",
        )
    if problem := st.session_state.get("upload_problem"):
        st.error(literal(problem))
    if note := st.session_state.get("upload_note"):
        st.info(literal(note))


def _load(key: str, load: Callable[[Controller, bytes], str], controller: Controller) -> None:
    """Use an uploaded file, or say what is wrong with it and leave everything as it is."""
    file = st.session_state[key]
    st.session_state.upload_problem = st.session_state.upload_note = None
    if file is None:
        return
    try:
        st.session_state.upload_note = load(controller, file.getvalue())
        st.session_state.loaded = True
    except ValueError as error:
        st.session_state.upload_problem = f"{file.name}: {with_hint(error)}. Nothing has changed."


def with_hint(error: ValueError) -> str:
    """An error message; where the visitor's own text is missing, with what to do about it."""
    asks_for_text = "source='own'" in str(error) or "this text is not the one" in str(error)
    return f"{error}. {ADD_TEXT}" if asks_for_text else str(error).rstrip(".")


def load_config(controller: Controller, data: bytes) -> str:
    """Turn the knobs to a configuration file; what to say of it.

    Raises:
        ValueError: names what is wrong with the file.
    """
    spec, changes = config_from_json(data, own_text.in_use())
    into_knobs(controller, spec)
    return "The knobs are set as in the file." + not_replayed(changes)


def into_knobs(controller: Controller, spec: Spec) -> None:
    """Turn the knobs to a spec that this server can run.

    Raises:
        ValueError: too large, a precision that this device lacks, or no knob says it.
    """
    check_limits(spec)
    controller.device.check(spec.training.precision)
    controls.turn_to(spec)


def not_replayed(changes) -> str:
    """What to say of knobs that were turned during the run: they are not turned again."""
    if not changes:
        return ""
    return (
        " That is how the run began; turned during it: "
        f"{hot_changes_text(changes)}. The run as one Python file turns them at the same steps."
    )


def load_checkpoint(controller: Controller, data: bytes) -> str:
    """Replace the current run by that of a checkpoint; what to say of it.

    Raises:
        ValueError: names what is wrong with the file; the current run continues.
    """
    saved = saved_run.load(data, controller.device, own_text.in_use())
    controls.knobs_of(saved.spec)
    controller.resume(saved)
    controls.turn_to(saved.spec)
    done = saved.trainer.step_count
    if done >= saved.spec.training.steps:
        return f"The run had finished at step {done}: raise Steps to train it further."
    return f"The run resumes from step {done}: press Play."
