"""√d_k: what is measured of an untrained head, against theory and against autograd."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.attention import SCALES
from core.init import INITS
from core.measure import SHUT, softmax_gradient
from core.train import Trainer
from helpers import fine, opened
from playground.experiments.scenarios import load
from playground.figures.style import alt_text
from playground.ideas.scaling.figures import BINS, MOST_BARS, scale_sweep, score_picture
from playground.ideas.scaling.measure import (
    TOKENS,
    WIDEST,
    base,
    scores,
    sweep,
    widths,
)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_the_gradient_of_the_softmax_is_the_norm_of_its_jacobian(n):
    row = 3 * torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), row)
    assert softmax_gradient(row.softmax(-1)).item() == pytest.approx(jacobian.norm().item())


def test_even_weights_let_most_through_and_a_single_one_nothing():
    n = 10
    even, one = torch.full((n,), 1 / n), torch.eye(n)[0]
    assert softmax_gradient(even).item() == pytest.approx(math.sqrt(n - 1) / n)
    assert softmax_gradient(one).item() == 0


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("d_head", [64, 256])
def test_without_scaling_the_spread_is_what_theory_says_of_this_model(d_head, init):
    found = [scores(d_head, 1, "none", init, 20, seed) for seed in range(4)]
    assert np.mean([x.spread for x in found]) == pytest.approx(found[0].theory, rel=0.15)
    if init == "xavier":
        assert found[0].theory == pytest.approx(math.sqrt(d_head))
    assert all(x.spread == x.unscaled for x in found)


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_divides_the_same_scores_by_its_own_number(scale):
    found = scores(16, 4, scale, "xavier", 8)
    divisor = {"sqrt_d_head": 4, "none": 1, "d_head": 16, "sqrt_d_model": 8}[scale]
    assert found.scale == pytest.approx(1 / divisor)
    assert found.spread == pytest.approx(found.unscaled / divisor, rel=1e-5)
    assert found.unscaled == scores(16, 4, "none", "xavier", 8).unscaled


def test_what_is_shown_is_the_untrained_model_that_the_page_trains():
    """The same attention, seen by the trainer of the run, in numpy and query by query."""
    spec = base(8, 2, "sqrt_d_head", "torch", 6)
    trainer = Trainer(spec.model, spec.task, spec.training)
    seen = trainer.look(*spec.task.validation("decoder", TOKENS // 6).inputs)
    scaled, weights = (
        seen[f"blocks.0.attention.{name}"].double().numpy() for name in ("scaled", "weights")
    )
    batch, heads, length, _ = weights.shape
    assert length == 6
    visible, largest, entropy, gradient, uniform = [], [], [], [], []
    for b, h, query in np.ndindex(batch, heads, length):
        visible += scaled[b, h, query, : query + 1].tolist()
        row = weights[b, h, query, : query + 1]
        if query:
            largest.append(row.max())
            entropy.append(-(row * np.log(row)).sum() / math.log(query + 1))
            gradient.append(np.linalg.norm(np.diag(row) - np.outer(row, row)))
            uniform.append(1 / (query + 1))
    found = scores(8, 2, "sqrt_d_head", "torch", 6)
    assert found.values == pytest.approx(np.array(visible), abs=1e-5)
    assert found.spread == pytest.approx(np.std(visible), rel=1e-5)
    assert found.largest == pytest.approx(np.mean(largest), rel=1e-5)
    assert found.entropy == pytest.approx(np.mean(entropy), rel=1e-5)
    assert found.uniform == pytest.approx(np.mean(uniform), rel=1e-5)
    assert found.shut == pytest.approx(np.mean(np.array(gradient) < SHUT))
    # The query that is shown sees all keys, and no other such is closer to their mean.
    rows = weights[:, :, -1].reshape(-1, length)
    away = np.abs(rows.max(-1) - rows.max(-1).mean())
    assert found.weights == pytest.approx(np.sort(rows[away.argmin()])[::-1], rel=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_where_the_reason_is_and_where_it_is_not(seed):
    """A wide head is shut undivided under xavier; GPT-2's small numbers leave it open."""
    with_, without = (scores(128, 1, s, "xavier", 20, seed) for s in ("sqrt_d_head", "none"))
    assert without.shut > 0.35 and with_.shut < 0.01
    assert without.largest > 0.7 > 0.4 > with_.largest
    small = scores(128, 1, "none", "gpt2", 20, seed)
    assert small.spread < 1 and small.largest < 0.3 and small.shut == 0


def test_the_scenario_trains_the_model_that_the_page_shows():
    first, second = (load()[name] for name in ("scaling-saves", "scaling-idle"))
    assert first.base == base(128, 1, "sqrt_d_head", "xavier", 20)
    assert second.base == base(128, 1, "sqrt_d_head", "gpt2", 20)
    assert [variant.changes for _, variant in first.variants] == [(("scale", "none"),)]


def test_the_page_opens_on_that_model_and_trains_it():
    test = opened("scaling")
    assert test.session_state.scaling_width == 128 and test.session_state.scaling_length == 20
    fine(test.button(key="play").click().run())
    setup = test.session_state.idea_runs["scaling"].setup
    fine(test.button(key="reset").click().run())
    assert setup.specs == load()["scaling-saves"].setup.specs


def test_a_sweep_covers_every_scale_up_to_the_widest_model():
    found = sweep(4, "gpt2", 4)
    assert list(found) == list(SCALES)
    assert widths(1) == [8, 16, 32, 64, 128, 256] and widths(8) == [1, 2, 4, 8, 16, 32]
    assert max(widths(4)) * 4 == WIDEST
    assert all(len(row) == len(widths(4)) for row in found.values())


# --- figures --------------------------------------------------------------------------------


def test_the_picture_shows_the_scores_their_theory_and_one_row_of_weights():
    values = np.random.default_rng(0).normal(0, 3.0, 50_000)
    figure = score_picture(values, [0.7, 0.2, 0.1], spread=3.01, theory=3.0)
    measured, theory, weights = figure["data"]
    step = measured["x"][1] - measured["x"][0]
    assert len(measured["x"]) == BINS
    assert float(np.sum(measured["y"]) * step) == pytest.approx(1, abs=0.01)
    assert np.abs(np.asarray(measured["y"]) - np.asarray(theory["y"])).max() < 0.01
    assert list(weights["y"]) == pytest.approx([0.7, 0.2, 0.1])
    assert "3.01" in alt_text(figure) and "0.70" in alt_text(figure)
    go.Figure(figure)


def test_of_a_long_row_only_the_largest_weights_are_drawn():
    figure = score_picture([0.0, 1.0], [1 / 128] * 128, spread=0.5, theory=1.0)
    assert len(figure["data"][2]["y"]) == MOST_BARS


def test_the_sweep_draws_one_line_for_each_scale_in_each_panel_and_names_it_once():
    lines = {"spread": {"a": [1, 2], "b": [3, 4]}, "largest": {"a": [5, 6], "b": [7, 8]}}
    figure = scale_sweep(
        [1, 2],
        lines,
        {"spread": "S", "largest": "L"},
        {"a": "A", "b": "<B>"},
        chosen=2,
        references={"spread": 1.0},
        log=("spread",),
    )
    drawn = [t for t in figure["data"] if t.get("name")]
    assert [list(t["y"]) for t in drawn] == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert [t["name"] for t in drawn if t["showlegend"]] == ["A", "&lt;B>"]
    assert drawn[0]["line"] == drawn[2]["line"] != drawn[1]["line"]
    assert figure["layout"]["yaxis"]["type"] == "log" and "type" not in figure["layout"]["yaxis2"]
    assert [shape["x0"] for shape in figure["layout"]["shapes"]] == [2, 2]
    go.Figure(figure)
