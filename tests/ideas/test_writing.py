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
from playground.figures.style import alt_text
from playground.ideas.writing import measure
from playground.ideas.writing.figures import (
    alternatives_picture,
    cache_picture,
    inside_picture,
)

SPEC = measure.spec("grammar")
IDS = SPEC.task.encode("the cats sleep.\nthe ")


@pytest.fixture(scope="module")
def model():
    return build_model(SPEC.model)


# --- a look inside ----------------------------------------------------------------------------


def test_the_last_layer_of_the_lens_is_the_answer_and_the_first_reads_the_embedding(model):
    found = measure.inside(model, IDS)
    logits = model(torch.tensor([IDS]))[0, -1].detach()
    logits[0] = -torch.inf
    best = logits.softmax(-1).topk(measure.GUESSES)
    assert found.tokens[-1].tolist() == best.indices.tolist()
    np.testing.assert_allclose(found.chances[-1], best.values, atol=1e-6)
    alone = model.unembed(model.norm(model.embed(torch.tensor([IDS]))))[0, -1].detach()
    alone[0] = -torch.inf
    assert found.tokens[0, 0] == alone.argmax()
    assert len(found.tokens) == SPEC.model.n_layers + 1


def test_the_weights_are_those_of_the_last_token_read(model):
    trace = Recorder()
    model(torch.tensor([IDS]), trace)
    found = measure.inside(model, IDS)
    assert found.weights.shape == (2, SPEC.model.n_heads, len(IDS))
    expected = trace.seen["blocks.1.attention.weights"][0, :, -1].detach()
    np.testing.assert_allclose(found.weights[1], expected, atol=1e-6)
    assert measure.inside(model, IDS * 5).weights.shape[-1] == SPEC.task.length


@pytest.mark.parametrize(
    ("best", "settled"), [([3, 3, 3], 0), ([1, 3, 3], 1), ([3, 1, 3], 2), ([1, 2, 3], 2)]
)
def test_a_guess_is_settled_from_where_it_changes_no_more(best, settled):
    tokens = np.array(best)[:, None]
    assert measure.Inside(np.zeros(1), tokens, np.ones((3, 1))).settled == settled


# --- the cache --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 7, 40])
def test_operations_are_those_that_pytorch_counts(model, length):
    text = torch.ones(1, length, dtype=torch.int64)

    def counted(text, cache) -> int:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(text, Recorder(), cache)  # spelled out, so that every product is counted
        return counter.get_total_flops()

    assert counted(text, Cache()) == measure.operations(SPEC.model, length, length)
    cache = Cache()
    model(text, cache=cache)
    expected = measure.operations(SPEC.model, length + 1, 1)
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


# --- figures ----------------------------------------------------------------------------------


def test_the_bars_are_the_probabilities_before_and_after_the_rules():
    figure = alternatives_picture(["e", " ", "<"], [0.5, 0.3, 0.1], [1.0, 0.0, 0.0], chosen=0)
    before, after = figure["data"]
    assert (before["x"], after["x"]) == ([0.5, 0.3, 0.1], [1.0, 0.0, 0.0])
    aliases = figure["layout"]["yaxis"]["labelalias"]
    assert aliases == {"0": "<b>e</b>", "1": "␣", "2": "&lt;"}
    assert "e 50% → 100%" in alt_text(figure)
    go.Figure(figure)


def test_a_look_inside_has_a_row_for_each_head_and_each_stage(model):
    found = measure.inside(model, IDS)
    guesses = [[SPEC.task.vocabulary[i] for i in row] for row in found.tokens.tolist()]
    keys = [SPEC.task.vocabulary[i] for i in IDS]
    figure = inside_picture(found.weights, keys, guesses, found.chances)
    maps = figure["data"]
    assert np.shape(maps[0]["z"]) == (8, len(IDS)) and np.shape(maps[1]["z"]) == (
        3,
        measure.GUESSES,
    )
    assert list(figure["layout"]["yaxis"]["labelalias"].values())[4] == "2.1"
    go.Figure(figure)


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
    assert "untrained model writes on" in said(test)
    context, given = ("grammar", ""), ()
    assert (
        test.session_state["writing given"] == (context, given)
        if ("writing given" in test.session_state)
        else True
    )
    find(test, "selectbox", "put_instead").set_value(3)
    fine(test.run())
    fine(test.button(key="writing_go").click().run())
    kept_context, kept = test.session_state["writing given"]
    assert kept_context == context and len(kept) == 5
    fine(test.button(key="writing_restart").click().run())
    assert test.session_state["writing given"] == (context, ())


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
