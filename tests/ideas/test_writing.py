"""Writing: what is measured against the model itself, and the page with a model that is trained."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from core.cache import Cache
from core.model import build_model
from core.trace import Recorder
from core.train import Trainer
from helpers import find, fine, opened, texts, until
from playground.ideas.writing import measure
from playground.ideas.writing.figures import cache_picture

SPEC = measure.spec("grammar")


@pytest.fixture(scope="module")
def model():
    return build_model(SPEC.model)


# --- the cache --------------------------------------------------------------------------------


@pytest.mark.parametrize("switches", [{}, {"gated": True}, {"ffn": False}], ids=str)
@pytest.mark.parametrize("length", [1, 7, 40])
def test_operations_are_those_that_pytorch_counts(length, switches):
    config = replace(SPEC.model, **switches)
    model = build_model(config)
    text = torch.ones(1, length, dtype=torch.int64)

    def counted(text, cache) -> int:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(text, Recorder(), cache)  # spelled out, so that every product is counted
        return counter.get_total_flops()

    assert counted(text, Cache()) == measure.operations(config, length, length)
    cache = Cache()
    model(text, cache=cache)
    expected = measure.operations(config, length + 1, 1)
    assert counted(text[:, :1], cache) == expected


def test_the_cache_holds_a_key_and_a_value_for_each_token_and_block(model):
    cache = Cache()
    model(torch.ones(1, 9, dtype=torch.int64), cache=cache)
    parts = [cache.scope(f"blocks.{i}").scope("attention") for i in range(SPEC.model.n_layers)]
    held = sum(kept.nbytes for part in parts for kept in part._kept)
    assert held == measure.kept_bytes(SPEC.model, 9)


def test_each_length_is_timed_with_and_without_a_cache():
    ticks = iter(range(10**6))
    found = measure.speed(SPEC.model, (4, 9), seconds=0, clock=lambda: next(ticks) / 10)
    assert found.lengths == (4, 9)
    assert [*found.cached, *found.whole] == pytest.approx([10] * 4)


# --- the recipe -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_text_is_learnt_faster_at_the_rate_of_this_page():
    spec = measure.spec("docs")
    ends = []
    for lr in (measure.RATE, measure.SLOW_RATE):
        training = replace(spec.training, lr=lr, steps=60)
        losses = [step.loss for step in Trainer(spec.model, spec.task, training)]
        ends.append(np.mean(losses[-20:]))
    chance = spec.task.chance("decoder").blind
    assert ends[0] < ends[1] - 0.15 and ends[0] < 0.9 * chance


@pytest.mark.slow
def test_the_training_of_the_page_gets_more_than_half_of_the_characters_right_in_every_seed():
    spec = measure.spec("docs")
    for seed in range(3):
        trainer = Trainer(spec.model, spec.task, replace(spec.training, seed=seed))
        for _ in trainer:
            pass
        assert trainer.evaluate().accuracy > 0.55


# --- figures ----------------------------------------------------------------------------------


def test_what_is_not_measured_yet_is_said_to_be_so():
    work = {"with cache": [1, 2], "without": [4, 9]}
    unknown = cache_picture((1, 2), work, None)
    assert "press Measure" in [note["text"] for note in unknown["layout"]["annotations"]]
    assert np.isnan([line["y"] for line in unknown["data"][2:]]).all()
    figure = cache_picture((1, 2), work, {"with cache": [5, 5], "without": [3, 1]})
    assert [line["y"] for line in figure["data"]] == [[1, 2], [4, 9], [5, 5], [3, 1]]
    go.Figure(figure)


# --- the page ---------------------------------------------------------------------------------


def said(test) -> str:
    return texts([*test.markdown, *test.error, *test.caption])


def test_another_character_is_put_there_and_the_text_before_it_stays():
    test = opened("writing", writing_source="grammar", writing_at="5")
    assert "untrained model writes on" in said(test) and "writing given" not in test.session_state
    find(test, "selectbox", "put_instead").set_value(3)
    fine(test.run())
    fine(test.button(key="writing_go").click().run())
    _, kept = test.session_state["writing given"]
    assert len(kept) == 5
    fine(test.button(key="writing_restart").click().run())
    assert test.session_state["writing given"][1] == ()


def test_a_prompt_that_the_model_cannot_read_is_named_and_nothing_is_lost():
    test = opened(
        "writing", writing_source="grammar", writing_prompt="the Zebra", writing_text="é!"
    )
    errors = texts(test.error)
    assert "Prompt" in errors and "'Z'" in errors and "Your text" in errors and "'é'" in errors
    assert find(test, "text_input", "writing_prompt").value == "the Zebra"


def test_again_takes_the_next_seed():
    test = opened("writing", writing_seed="9999")
    fine(test.button(key="writing_again").click().run())
    assert find(test, "number_input", "writing_seed").value == 0


def test_the_trained_model_writes_and_stays_the_same_while_it_goes_on_training():
    test = opened("writing", writing_source="grammar")
    fine(test.button(key="play").click().run())
    (runs,) = test.session_state.idea_runs.values()
    until(test, lambda test: "writing model" in test.session_state)
    step = test.session_state["writing model"].step
    until(test, lambda test: all(len(run.view().loss) > step + 3 for run in runs.all_runs()))
    assert test.session_state["writing model"].step == step
    assert f"model of step {step} of" in said(test)
    fine(test.button(key="writing_newer").click().run())
    assert test.session_state["writing model"].step > step
    fine(test.button(key="pause").click().run())
    until(test, lambda test: not runs.live)
    fine(test.run())
    done = len(runs.run_of(SPEC).view().loss)
    assert test.session_state["writing model"].step == done
    fine(test.button(key="reset").click().run())
    assert "untrained model writes on" in said(test)
