"""√d_k: what is measured of an untrained head, against theory and against autograd."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.attention import SCALES
from playground.figures.style import alt_text
from playground.ideas.scaling.figures import BINS, MOST_BARS, scale_sweep, score_picture
from playground.ideas.scaling.measure import (
    MAX_WIDTH,
    queries_and_keys,
    scores,
    softmax_gradient,
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


@pytest.mark.parametrize("d_head", [1, 4, 64, 1024])
def test_without_scaling_the_spread_is_the_root_of_the_width(d_head):
    found = scores(d_head, 1, "none", "xavier", 16)
    assert found.theory == pytest.approx(math.sqrt(d_head))
    assert found.spread == pytest.approx(found.theory, rel=0.15)
    assert found.spread == found.unscaled


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_divides_the_same_scores_by_its_own_number(scale):
    found = scores(16, 4, scale, "xavier", 8)
    divisor = {"sqrt_d_head": 4, "none": 1, "d_head": 16, "sqrt_d_model": 8}[scale]
    assert found.scale == pytest.approx(1 / divisor)
    assert found.spread == pytest.approx(found.unscaled / divisor, rel=1e-5)
    assert found.unscaled == scores(16, 4, "none", "xavier", 8).unscaled


def test_the_numbers_are_those_of_the_formula_spelled_out_in_numpy():
    q, k = (t.double().numpy() for t in queries_and_keys(8, 2, "torch", 5))
    scaled = q @ k.transpose(0, 1, 3, 2) / math.sqrt(8)
    weights = np.exp(scaled) / np.exp(scaled).sum(-1, keepdims=True)
    found = scores(8, 2, "sqrt_d_head", "torch", 5)
    assert found.spread == pytest.approx(scaled.std(), rel=1e-5)
    assert found.largest == pytest.approx(weights.max(-1).mean(), rel=1e-5)
    entropy = -(weights * np.log(weights)).sum(-1).mean() / math.log(5)
    assert found.entropy == pytest.approx(entropy, rel=1e-5)
    # The row that is shown is one of them, and no other is closer to the mean.
    rows = weights.reshape(-1, 5)
    away = np.abs(rows.max(-1) - rows.max(-1).mean())
    assert found.weights == pytest.approx(np.sort(rows[away.argmin()])[::-1], rel=1e-3)


def test_where_the_claim_holds_and_where_it_does_not():
    """A wide head dies undivided under xavier; GPT-2's small numbers leave the same head alone."""
    with_, without = (scores(128, 1, s, "xavier", 16) for s in ("sqrt_d_head", "none"))
    assert without.largest > 0.8 > 0.4 > with_.largest
    assert without.gradient < 0.6 * with_.gradient
    assert without.entropy < 0.2 < with_.entropy
    small = scores(128, 1, "none", "gpt2", 16)
    assert small.spread < 1 and small.largest < 0.25


def test_a_sweep_covers_every_scale_up_to_the_widest_model():
    found = sweep(4, "gpt2", 4)
    assert list(found) == list(SCALES)
    assert widths(1) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    assert max(widths(4)) * 4 == MAX_WIDTH
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
