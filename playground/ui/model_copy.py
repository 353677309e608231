"""A copy of a run's model, which a page looks into while the run goes on."""

from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache

import streamlit as st

from core.config import ModelConfig
from core.model import Transformer, build_model
from core.train import Trainer
from playground.runs.run import Run
from playground.runs.spec import Spec
from playground.runs.view import View

PATIENCE = 5.0  # seconds to wait for what a run is asked


@dataclass(frozen=True)
class Copied:
    """The model that a page looks into: a copy, as it was at one step of a run."""

    run: Run | None  # None: untrained
    step: int
    turned: int  # knobs that had been turned by then
    model: Transformer
    shipped: bool = False  # it came with the app


def about_shipped(spec: Spec, does: str) -> str:
    """Which model it is that came with the app, and what it does here."""
    return (
        f"**A model that came with the app {does}**: trained as below, to step "
        f"{spec.training.steps}. Press Play under “Train it” to train one of your own."
    )


def copied(name: str, run: Run | None, spec: Spec) -> tuple[Copied, View | None]:
    """The run's model, at the step at which a page asked for it; else the untrained one of a spec.

    While the run trains, the copy stays as it is, until its reader asks for a newer one
    (`forget_copy`): what changed under one's eyes could not be looked into.

    Args:
        name: of the page.
    """
    view = None if run is None else run.view()
    if view is None or not len(view.loss):
        return Copied(None, 0, 0, untrained(spec.model, spec.training.seed)), view
    kept: Copied | None = st.session_state.get(f"{name} model")
    mine = kept if kept is not None and kept.run is run else None
    if mine is not None:
        now = len(view.loss), len(view.changes)
        if view.live or (mine.step, mine.turned) == now:
            return mine, view
    try:
        mine = Copied(run, *run.ask(_taken).result(PATIENCE))
        st.session_state[f"{name} model"] = mine
    except (TimeoutError, ValueError):  # its worker is busy, or it is no longer in memory
        mine = mine or Copied(None, 0, 0, untrained(spec.model, spec.training.seed))
    return mine, view


def forget_copy(name: str) -> None:
    """Ask for the model as it is now, at the next look."""
    st.session_state.pop(f"{name} model", None)


@lru_cache(maxsize=8)
def untrained(config: ModelConfig, seed: int) -> Transformer:
    """A model before its first step."""
    return build_model(config, seed)


def _taken(trainer: Trainer) -> tuple[int, int, Transformer]:
    return trainer.step_count, len(trainer.changes), deepcopy(trainer.model).cpu()
