"""The feed-forward and the block: costs against the real model, sub-layers against loops."""

import math
import re

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from core.blocks import FeedForward
from core.config import ModelConfig
from core.model import build_model
from core.tasks import TASKS
from core.trace import Recorder
from helpers import opened
from playground.figures.style import PART_COLOURS, PART_NAMES, alt_text, short_count
from playground.ideas.feed_forward import measure
from playground.ideas.feed_forward.figures import (
    activation_picture,
    cost_picture,
    influence_maps,
    length_picture,
    share_text,
)
from playground.runs.spec import Spec

SIZES = [(16, 1, 1, 12, 16), (64, 4, 2, 12, 32), (32, 8, 4, 100, 20)]


@pytest.mark.parametrize("sizes", SIZES)
def test_the_parameters_are_those_of_the_real_model(sizes):
    config = measure.model_config(*sizes)
    found = measure.costs(config, 16)
    model = build_model(config)
    assert sum(cost.parameters for cost in found.values()) == sum(
        p.numel() for p in model.parameters()
    )
    ffn = sum(p.numel() for b in model.blocks for p in b.ffn.parameters())
    assert found["feed-forward"].parameters == ffn
    attention = sum(p.numel() for b in model.blocks for p in b.attention.parameters())
    assert found["projections"].parameters == attention
    assert found["products"].parameters == 0
    assert found["unembedding"].parameters == model.unembed.weight.numel()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("length", [1, 7, 16])
def test_the_operations_are_those_that_pytorch_counts_in_the_real_model(sizes, length):
    config = measure.model_config(*sizes)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        build_model(config)(torch.ones(1, length, dtype=torch.long), trace=Recorder())
    found = measure.costs(config, length)
    assert sum(cost.flops for cost in found.values()) == counter.get_total_flops()


@pytest.mark.parametrize("sizes", SIZES)
def test_every_part_is_counted_as_the_formula_says(sizes):
    config = measure.model_config(*sizes)
    by_formula = {
        part: cost.flops for part, cost in measure.costs(config, 20).items() if cost.flops
    }
    assert measure.counted(config, 20) == by_formula


def test_how_many_heads_there_are_changes_no_cost():
    one = measure.model_config(64, 4, 2, 12, 32)
    four = ModelConfig(**one.to_dict() | {"n_heads": 4})
    assert measure.costs(one, 32) == measure.costs(four, 32)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        build_model(four)(torch.ones(1, 32, dtype=torch.long), trace=Recorder())
    assert counter.get_total_flops() == sum(c.flops for c in measure.costs(one, 32).values())


@pytest.mark.parametrize("sizes", [(16, 4, 2, 12, 16), (64, 1, 1, 100, 16), (768, 4, 12, 48, 16)])
def test_at_the_crossing_the_products_are_half_of_all(sizes):
    config = measure.model_config(*sizes)
    at = measure.crossing(config)
    assert at == int(at)

    def share(length):
        found = measure.costs(config, length)
        return found["products"].flops / sum(cost.flops for cost in found.values())

    assert share(int(at)) == 0.5
    assert share(int(at) - 1) < 0.5 < share(int(at) + 1)


def test_the_curve_passes_every_length_that_can_be_chosen():
    assert set(measure.LENGTHS) <= set(measure.FINE)
    assert measure.FINE[8] == 64


def test_shares_sum_to_one_and_attention_gains_with_the_length():
    shares = measure.flop_shares(measure.model_config(64, 4, 2, 12, 16))
    assert set(shares) == {"projections", "products", "feed-forward", "unembedding"}
    assert np.sum(list(shares.values()), axis=0) == pytest.approx(np.ones(len(measure.FINE)))
    assert (np.diff(shares["products"]) > 0).all()
    assert (np.diff(shares["feed-forward"]) < 0).all()


# --- position by position -------------------------------------------------------------------


@pytest.mark.parametrize("order", measure.ORDERS)
@pytest.mark.parametrize("length", [1, 4, 9, 16])
def test_the_feed_forward_works_on_each_position_alone(order, length):
    found = measure.mixing(length, order)["feed-forward"]
    assert (found.moved == np.eye(length, dtype=bool)).all(), "a token moves its own output only"
    assert found.permuted <= 1e-6


def test_the_feed_forward_of_a_row_is_that_of_each_token_by_itself():
    ffn = dict(measure.sublayers(6))["feed-forward"]
    assert isinstance(ffn, FeedForward)
    x = torch.randn(1, 6, measure.WIDTH, generator=torch.Generator().manual_seed(3))
    alone = torch.cat([ffn(x[:, i : i + 1]) for i in range(6)], dim=1)
    assert torch.allclose(ffn(x), alone, atol=1e-6)


def test_attention_moves_other_outputs_but_those_that_a_mask_hides():
    found = measure.mixing(8, "reversed")
    assert found["attention, no mask"].moved.all()
    assert (found["attention, causal mask"].moved == np.tril(np.ones((8, 8), dtype=bool))).all()


def test_without_a_mask_attention_does_not_know_the_order_either():
    found = measure.mixing(8, "shuffled")
    assert found["attention, no mask"].permuted < 1e-5
    assert found["attention, causal mask"].permuted > 0.1


def test_influence_is_the_distance_of_two_outputs():
    drawn = torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 1, 5, measure.WIDTH, generator=drawn)
    f = dict(measure.sublayers(5))["attention, causal mask"]
    changed = x.clone()
    changed[0, 2] = other[0, 2]
    with torch.no_grad():
        moved = [(f(changed)[0, i] - f(x)[0, i]).pow(2).sum().sqrt().item() for i in range(5)]
    found = measure.mixing(5, "reversed")["attention, causal mask"].influence[:, 2]
    assert found == pytest.approx(moved, rel=1e-4)


@pytest.mark.parametrize("name", measure.ORDERS)
@pytest.mark.parametrize("length", [4, 9])
def test_another_order_is_one_of_the_same_tokens(name, length):
    order = measure.ORDERS[name](length)
    assert sorted(order) == list(range(length)) and order != sorted(order)


# --- the activation -------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["xavier", "gpt2"])
def test_hidden_activations_are_zero_where_what_goes_in_is_not_positive(init):
    task = TASKS["reverse"]()
    model = build_model(ModelConfig.for_task(task, init=init))
    entered = []
    for layer in model.blocks:
        layer.ffn.inner.register_forward_hook(lambda _, __, out: entered.append(out.flatten(0, 1)))
    with torch.no_grad():
        model(*task.validation("decoder", measure.ROWS).inputs)
    before = torch.cat(entered, dim=1)
    found = measure.hidden("relu", init)
    assert len(found.values) == before.numel()
    assert found.zero == pytest.approx((before <= 0).float().mean().item(), abs=1e-4)
    assert found.dead == pytest.approx((before <= 0).all(0).float().mean().item(), abs=2e-3)
    assert found.negative == 0 == found.least


def test_gelu_leaves_small_negative_numbers_instead_of_zeros():
    relu, gelu = measure.hidden("relu", "xavier"), measure.hidden("gelu", "xavier")
    assert gelu.zero < 0.01 and 0.4 < relu.zero < 0.6
    assert gelu.negative > 0.4
    assert -0.1701 < gelu.least < -0.16


def test_the_curves_are_the_formulas():
    x = np.linspace(-5, 5, 41)
    assert measure.curve("relu", x) == pytest.approx(np.maximum(0, x))
    gelu = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x]
    assert measure.curve("gelu", x) == pytest.approx(gelu, abs=1e-12)


# --- figures --------------------------------------------------------------------------------


def counts(length=32):
    found = measure.costs(measure.model_config(64, 4, 2, 12, 32), length)
    return {p: c.parameters for p, c in found.items()}, {p: c.flops for p, c in found.items()}


def test_the_cost_picture_has_a_bar_for_each_part_on_both_sides():
    parameters, flops = counts()
    figure = cost_picture(parameters, flops)
    for trace, found in zip(figure["data"], (parameters, flops), strict=True):
        drawn = dict(zip(trace["y"], trace["x"], strict=True))
        assert sum(drawn.values()) == pytest.approx(1)
        for part, count in found.items():
            assert drawn[PART_NAMES[part]] == pytest.approx(count / sum(found.values()))
        words = dict(zip(trace["y"], trace["text"], strict=True))
        assert (words[PART_NAMES["products"]] == "none") == (found is parameters)
        assert trace["marker"]["color"] == [PART_COLOURS[part] for part in list(found)[::-1]]
    assert "101,504" in alt_text(figure) and "feed-forward" in alt_text(figure)
    left, right = figure["layout"]["xaxis"]["range"], figure["layout"]["xaxis2"]["range"]
    assert left == right[::-1], "both sides have one scale"
    go.Figure(figure)


def test_the_length_picture_stacks_the_parts_and_marks_the_crossing():
    config = measure.model_config(64, 4, 2, 12, 16)
    shares = measure.flop_shares(config)
    figure = length_picture(
        measure.FINE, shares, length=64, crossing=387.0, counted=shares["products"][8]
    )
    areas = [trace for trace in figure["data"] if "stackgroup" in trace]
    assert areas[0]["name"] == "attention: q·k and weights·v", "its edge is its share"
    assert np.sum([trace["y"] for trace in areas], axis=0) == pytest.approx(1)
    points = [(t["x"][0], t["y"][0]) for t in figure["data"] if t["mode"] == "markers"]
    assert points == [(387.0, 0.5), (64, shares["products"][8])]
    assert figure["layout"]["shapes"][0]["x0"] == 64
    assert "387" in alt_text(figure)
    go.Figure(figure)


@pytest.mark.parametrize(
    "crossing, said", [(61_440.0, "beyond this axis"), (5.0, "shorter than shown")]
)
def test_a_crossing_that_is_not_on_the_axis_is_said_and_not_drawn(crossing, said):
    shares = measure.flop_shares(measure.model_config(64, 4, 2, 12, 16))
    figure = length_picture(measure.FINE, shares, length=64, crossing=crossing)
    assert not [trace for trace in figure["data"] if trace["mode"] == "markers"]
    assert said in alt_text(figure)


def test_outputs_that_do_not_move_are_left_empty_in_the_maps():
    maps = {"<a>": np.eye(3), "b": np.full((3, 3), 2.0)}
    figure = influence_maps(maps)
    first, second = (np.asarray(trace["z"]) for trace in figure["data"])
    assert (np.isnan(first) == (np.eye(3) == 0)).all()
    assert (second == 1).all(), "each map as a share of its largest"
    assert len(figure["layout"]["images"]) == 1, "hatched where nothing moves"
    assert "3 of 9 cells move" in alt_text(figure) and "9 of 9" in alt_text(figure)
    assert figure["layout"]["xaxis"]["title"]["text"] == "changed token"
    go.Figure(figure)


def test_the_activation_picture_shows_curves_and_what_is_behind_them():
    x = np.linspace(-1, 1, 5)
    hidden = {"relu": np.array([0.0, 0.0, 0.0, 2.0]), "gelu": np.array([-0.1, 0.5, 1.0, 2.0])}
    zero = {"relu": 0.75, "gelu": 0.0}
    figure = activation_picture(x, {"relu": np.maximum(x, 0), "gelu": x}, hidden, zero)
    curves, histograms = (
        [trace for trace in figure["data"] if trace["xaxis"] == axis] for axis in ("x", "x2")
    )
    for traces in (curves, histograms):
        assert [trace["name"] for trace in traces] == ["relu", "gelu"]
    histogram = histograms[0]
    assert float(np.nanmax(histogram["y"])) == pytest.approx(0.75)
    assert "relu 75%, gelu 0" in alt_text(figure)
    go.Figure(figure)


@pytest.mark.parametrize(
    "n, said",
    [
        (0, "0"),
        (768, "768"),
        (999.7, "1 k"),
        (33_280, "33.3 k"),
        (2_097_152, "2.1 M"),
        (999_800, "1 M"),
        (175_196_626_944, "175 B"),
        (4.5e12, "4.5 T"),
    ],
)
def test_large_numbers_in_three_digits(n, said):
    assert short_count(n) == said


@pytest.mark.parametrize("share, said", [(0, "0"), (0.001, "< 1%"), (0.006, "1%"), (0.65, "65%")])
def test_a_small_share_is_not_called_nothing(share, said):
    assert share_text(share) == said


# --- the page -------------------------------------------------------------------------------


# As published, where all are counted: GPT-2 small and GPT-3 share one table and learn positions.
PUBLISHED = {"GPT-2 small": 124_439_808, "GPT-3": 174.6e9}


def parameters_said(test) -> int:
    (said,) = re.findall(r"of all ([\d,]+)\.", " ".join(e.value for e in test.markdown))
    return int(said.replace(",", ""))


@pytest.mark.parametrize("name", ["GPT-2 small", "GPT-3", "Playground"])
def test_a_preset_has_the_parameters_of_the_model_that_it_names(name):
    test = opened("block", block_ff="1")
    test.button(key=f"block_as_{name}").click().run()
    default = Spec.of(TASKS["reverse"]()).model.n_parameters
    assert parameters_said(test) == pytest.approx(PUBLISHED.get(name, default), rel=2e-4)
    if name != "GPT-3":
        assert parameters_said(test) == PUBLISHED.get(name, default)


def test_a_preset_sets_all_sizes_and_the_model_of_that_size_is_counted():
    test = opened("block", block_ff="1")
    test.button(key="block_as_GPT-2 small").click().run()
    state = test.session_state
    assert (state["block_width"], state["block_ff"], state["block_layers"]) == (768, 4, 12)
    assert (state["block_length"], state["block_vocabulary"]) == (1024, 50_257)
    test.button(key="block_count").click().run()
    assert not test.exception
    said = " ".join(element.value for element in test.markdown)
    assert "PyTorch counts 291,648,307,200 operations" in said and "the same in every part" in said
