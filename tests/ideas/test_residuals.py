"""The page about residuals and norms: what it measures, what it draws, and what it says."""

import copy
import math
import re

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from torch import nn

from core.config import TrainConfig
from core.init import INITS
from core.model import build_model
from core.trace import Recorder
from core.train import Trainer, cross_entropy
from helpers import fine, opened, texts
from playground.figures.style import alt_text
from playground.ideas.residuals import measure
from playground.ideas.residuals.figures import (
    FLOOR,
    ROWS,
    WITH,
    WITHOUT,
    depth_picture,
    depth_sweep,
    norm_picture,
    short,
    skip_bars,
    wiring_picture,
)

NORMS = ("post", "pre", "none")


# --- measures ---------------------------------------------------------------------------------


def test_the_length_is_the_norm_also_where_squares_cannot_be_written():
    x = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert measure.length(x) == pytest.approx(x.norm().item())
    assert measure.length(x * 1e-200) == pytest.approx(x.norm().item() * 1e-200)
    assert measure.length(x * 1e200) == pytest.approx(x.norm().item() * 1e200)
    assert measure.length(torch.zeros(2, 2)) == 0


def test_places_are_apart_by_what_is_left_of_them_without_their_mean():
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    left = total = 0.0
    for row in x.tolist():
        for column in range(4):
            values = [position[column] for position in row]
            mean = sum(values) / 3
            left += sum((value - mean) ** 2 for value in values)
            total += sum(value**2 for value in values)
    assert measure.variation(x) == pytest.approx(math.sqrt(left / total))
    same = x[:, :1].expand(-1, 3, -1)
    assert measure.variation(same) < 1e-12
    assert measure.variation(torch.tensor([[[1.0, 2.0], [-1.0, -2.0]]])) == pytest.approx(1)
    assert measure.variation(torch.zeros(1, 2, 2)) == 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("residual", [True, False])
def test_the_flow_is_what_a_model_of_that_wiring_does(residual, norm):
    """Each gradient once more, from a forward that begins there."""
    found = measure.flow(3, residual, norm, "xavier")
    model = build_model(measure.config(3, residual, norm, "xavier")).double()
    batch = measure.TASK.validation("decoder", measure.ROWS)
    for level, name in enumerate(
        ("embed", "blocks.0.resid_post", "blocks.1.resid_post", "blocks.2.resid_post")
    ):
        trace = Recorder({name: lambda x: x.detach().requires_grad_()})
        loss = cross_entropy(model(*batch.inputs, trace), batch.targets)
        (gradient,) = torch.autograd.grad(loss, trace.seen[name])
        x = trace.seen[name].detach()
        assert found.loss == pytest.approx(loss.item())
        assert found.stream[level] == pytest.approx(x.square().mean().sqrt().item())
        assert found.gradient[level] == pytest.approx(gradient.norm().item())
        assert found.variation[level] == pytest.approx(
            ((x - x.mean(1, keepdim=True)).norm() / x.norm()).item()
        )
    cross_entropy(model(*batch.inputs), batch.targets).backward()
    for block, value in zip(model.blocks, found.values, strict=True):
        _, _, of_values = block.attention.qkv.weight.grad.chunk(3)
        assert value == pytest.approx(of_values.norm().item())
    assert found.factor == pytest.approx(found.gradient[1] / found.gradient[3])
    assert found.steps == 2


def test_with_one_block_the_gradient_is_followed_to_the_input():
    found = measure.flow(1, True, "pre", "gpt2")
    assert found.steps == 1
    assert found.factor == pytest.approx(found.gradient[0] / found.gradient[1])


def test_without_norm_the_gradient_dies_without_residual_connections():
    """MEASURED: 8 layers, gpt2, no norm: some 1e-3 with, some 1e-20 and less without."""
    on, off = (measure.flow(8, kind, "none", "gpt2") for kind in (True, False))
    assert off.factor < 1e-15 < 0.5 < on.factor < 2
    assert off.values[0] < 1e-15 * on.values[0]
    deep = measure.flow(32, False, "none", "gpt2")
    assert 0 < deep.gradient[0] < 1e-100, "and still it is written down"


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_with_a_norm_it_is_not_the_gradient_that_is_lost_but_what_tells_places_apart(norm):
    on, off = (measure.flow(8, kind, norm, "gpt2") for kind in (True, False))
    assert 0.01 < off.factor < 100
    assert off.variation[-1] < 0.05 and on.variation[-1] > 0.5
    shallow = measure.flow(2, False, norm, "gpt2")
    assert shallow.variation[-1] > 0.2, "two blocks hardly matter"


def test_the_sweep_holds_every_depth_of_every_wiring():
    swept = measure.sweep("gpt2", ("pre", "none"))
    assert set(swept) == {(kind, norm) for kind in (True, False) for norm in ("pre", "none")}
    for (residual, norm), row in swept.items():
        assert [len(flow.values) for flow in row] == list(measure.DEPTHS)
        assert row[1] is measure.flow(2, residual, norm, "gpt2")


def test_measuring_leaves_the_random_state_of_the_process_alone(global_random_state_untouched):
    measure.flow.__wrapped__(1, True, "post", "torch")


# --- LayerNorm --------------------------------------------------------------------------------


def test_the_arithmetic_of_layer_norm_by_hand():
    done = measure.layer_norm([2, 4, 4, 4, 5, 5, 7, 9], gain=2, shift=-1)
    assert (done.mean, done.variance, done.eps) == (5, 4, 1e-5)
    assert done.centred == (-3, -1, -1, -1, 0, 0, 2, 4)
    np.testing.assert_allclose(done.scaled, np.array(done.centred) / 2, rtol=2e-6)
    np.testing.assert_allclose(done.out, 2 * np.array(done.scaled) - 1)
    assert done.off < 1e-12


@pytest.mark.parametrize("times", [1e-3, 1.0, 1e6])
def test_it_agrees_with_pytorch_whatever_the_size(times):
    values = [times * v for v in (0.3, -1.2, 4.0, 0.0, 2.2, -0.7, 9.1, 1.0)]
    theirs = nn.functional.layer_norm(torch.tensor(values, dtype=torch.float64), (8,)) * 2 + 1
    np.testing.assert_allclose(measure.layer_norm(values, 2, 1).out, theirs.numpy(), atol=1e-9)
    assert measure.layer_norm(values, 2, 1).off < 1e-9


def test_equal_numbers_become_the_shift():
    done = measure.layer_norm([3.0] * 8, gain=2, shift=-1)
    assert done.variance == 0 and done.out == (-1,) * 8


@pytest.mark.parametrize("text", ["1 2 3 4 5 6 7 8", "1,2,3,4,5,6,7,8", " 1, 2 3\t4  5 6 7 8 "])
def test_numbers_are_read_with_spaces_or_commas(text):
    assert measure.numbers(text) == (1, 2, 3, 4, 5, 6, 7, 8)


def test_a_minus_sign_may_be_a_real_one():
    assert measure.numbers("−1 -2 0 0 0 0 0 0.5")[:2] == (-1, -2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has 0 numbers"),
        ("1 2 3", "has 3 numbers: it takes exactly 8"),
        ("1 2 3 4 5 6 7 8 9", "has 9 numbers"),
        ("1 2 3 4 5 6 7 eight", "'eight' is not a number"),
        ("1 2 3 4 5 6 7 1e7", "'1e7': each has to lie between"),
        ("1 2 3 4 5 6 7 nan", "'nan': each has to lie between"),
        ("1 2 3 4 5 6 7 -inf", "'-inf': each has to lie between"),
        ("x" * 400, "…' is not a number"),
    ],
)
def test_what_is_no_token_is_explained(text, said):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        measure.numbers(text)
    assert len(str(caught.value)) < 150


# --- without a block --------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_a_model_without_a_block_is_the_model_that_never_had_it(norm):
    trainer = Trainer(measure.config(3, True, norm, "xavier"), measure.TASK, TrainConfig())
    model, batch = trainer.model, measure.TASK.validation("decoder", 8)
    whole = trainer.evaluate(batch).loss
    for left_out in range(3):
        shorter = copy.copy(model)
        shorter._modules = dict(model._modules)
        shorter.blocks = nn.ModuleList(b for i, b in enumerate(model.blocks) if i != left_out)
        found, trainer.model = measure.loss_without(trainer, batch, left_out), shorter
        expected, trainer.model = trainer.evaluate(batch).loss, model
        assert found == pytest.approx(expected)
        assert expected != pytest.approx(whole)


def test_each_block_of_a_checkpoint_is_left_out_in_turn():
    trainer = Trainer(measure.config(2, True, "pre", "xavier"), measure.TASK, TrainConfig(steps=5))
    trainer.step()
    skipped = measure.skip_each(trainer)
    assert skipped.whole == pytest.approx(trainer.evaluate().loss, rel=1e-5)
    batch = measure.TASK.validation("decoder")
    expected = [measure.loss_without(trainer, batch, block) for block in range(2)]
    assert skipped.without == pytest.approx(expected, rel=1e-5)


# --- figures ----------------------------------------------------------------------------------


def pieces(figure) -> dict[str, list[float]]:
    """What stands in the wiring, and how high."""
    found: dict[str, list[float]] = {}
    for note in figure["layout"]["annotations"]:
        if note["text"]:
            found.setdefault(note["text"], []).append(note["y"])
    return found


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_the_wiring_shows_what_the_switches_say(residual, norm):
    figure = wiring_picture(residual, norm)
    go.Figure(figure)
    found, shapes = pieces(figure), figure["layout"]["shapes"]
    attention, feed_forward = found["attention"][0], found["feed-forward"][0]
    assert found["x"][0] < attention < feed_forward < found["x'"][0]
    ways = [shape for shape in shapes if shape["type"] == "path"]
    assert len(ways) == (2 if residual else 0)
    assert ("+" in found) is residual
    norms = found.get("LayerNorm", [])
    if norm == "none":
        assert norms == []
    elif norm == "pre":
        assert norms[0] < attention < norms[1] < feed_forward
    else:
        assert attention < norms[0] < feed_forward < norms[1]
        if residual:
            assert ROWS["add"] < norms[0] and ROWS["add2"] < norms[1], "after the addition"
    words = "each with a residual" if residual else "without a residual"
    assert words in alt_text(figure)


@pytest.mark.parametrize("residual", [True, False])
def test_every_arrow_of_the_wiring_leads_upwards_or_into_an_addition(residual):
    for norm in NORMS:
        notes = wiring_picture(residual, norm)["layout"]["annotations"]
        arrows = [note for note in notes if note.get("showarrow")]
        upwards = [arrow for arrow in arrows if arrow["x"] == arrow["ax"]]
        assert all(arrow["y"] > arrow["ay"] for arrow in upwards)
        assert len(arrows) - len(upwards) == (2 if residual else 0)


def flows(norm: str = "none", n_layers: int = 8):
    return {kind: measure.flow(n_layers, kind, norm, "gpt2").gradient for kind in (True, False)}


@pytest.mark.parametrize("residual", [True, False])
def test_the_chosen_wiring_stands_in_front_and_the_other_one_behind(residual):
    lines = flows()
    figure = depth_picture({"gradient": lines}, residual=residual, smallest=measure.SMALLEST)
    go.Figure(figure)
    behind, front = [trace for trace in figure["data"] if trace.get("name")]
    assert front["mode"] == "lines+markers" and behind["mode"] == "lines"
    assert front["line"]["color"] == (WITH if residual else WITHOUT)
    np.testing.assert_allclose(front["y"], lines[residual])
    np.testing.assert_allclose(behind["y"], lines[not residual])
    assert figure["layout"]["yaxis"]["type"] == "log"
    low, high = figure["layout"]["yaxis"]["range"]
    everything = [value for values in lines.values() for value in values]
    assert 10**low < min(everything) and 10**high > max(everything)


def test_the_end_of_float32_is_drawn_where_numbers_get_there():
    marked = depth_picture({"g": flows("none", 16)}, residual=True, smallest=measure.SMALLEST)
    plain = depth_picture({"g": flows("pre")}, residual=True, smallest=measure.SMALLEST)
    said = [note["text"] for note in marked["layout"]["annotations"]]
    assert "below: 0 in float32" in said and len(marked["data"]) == 3
    assert len(plain["data"]) == 2


def test_a_number_that_no_logarithm_has_is_a_gap():
    lines = {True: (1.0, 1.0), False: (0.0, 1.0)}
    figure = depth_picture({"g": lines}, residual=False, smallest=measure.SMALLEST)
    assert np.isnan(figure["data"][-1]["y"][0]) and figure["data"][-1]["y"][1] == 1


def test_the_sweep_draws_a_line_for_each_wiring_and_rings_the_chosen_one():
    swept = measure.sweep("gpt2", NORMS)
    lines = {key: [flow.values[0] for flow in row] for key, row in swept.items()}
    figure = depth_sweep(
        measure.DEPTHS,
        {"W_v": lines, "again": lines},
        chosen=(4, False, "pre"),
        smallest=measure.SMALLEST,
    )
    go.Figure(figure)
    drawn = [t for t in figure["data"] if t.get("name") == "without, pre norm"]
    np.testing.assert_allclose(drawn[0]["y"], lines[False, "pre"])
    rings = [t for t in figure["data"] if t.get("marker", {}).get("symbol") == "circle-open"]
    assert [ring["x"] for ring in rings] == [[4], [4]]
    assert rings[0]["y"][0] == pytest.approx(lines[False, "pre"][2])
    assert 10 ** figure["layout"]["yaxis"]["range"][0] > FLOOR / 10, "tiny ones press no line flat"


def test_the_bars_of_layer_norm_carry_their_numbers_and_all_of_them_fit():
    done = measure.layer_norm([2, 4, 4, 4, 5, 5, 7, 9], gain=2, shift=-1)
    steps = [("x", done.values), ("c", done.centred), ("s", done.scaled), ("o", done.out)]
    figure = norm_picture(steps)
    go.Figure(figure)
    assert figure["data"][0]["text"] == ["2", "4", "4", "4", "5", "5", "7", "9"]
    assert figure["data"][1]["text"][0] == "−3"
    for i, (_, values) in enumerate(steps):
        low, high = figure["layout"]["yaxis" + ("" if i == 0 else str(i + 1))]["range"]
        assert low <= min(0, *values) and high > max(values)
    assert figure["layout"]["yaxis3"]["range"] == figure["layout"]["yaxis4"]["range"]
    go.Figure(norm_picture([("x", [0.0] * 8), ("c", [0.0] * 8)]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (2.0, "2"),
        (-1.5, "−1.5"),
        (0.005, "0.005"),
        (0.2673, "0.27"),
        (1.069, "1.07"),
        (2000, "2000"),
        (123456, "1e5"),
        (4e-6, "4e−6"),
        (-0.0001, "−1e−4"),
        (-0.0, "0"),
    ],
)
def test_numbers_on_bars_are_short(value, text):
    assert short(value) == text


def test_the_bars_of_a_model_without_its_blocks():
    figure = skip_bars(0.01, [5.0, 0.02], chance=2.3)
    go.Figure(figure)
    (bars,) = figure["data"]
    assert list(bars["x"]) == ["none", "block 1", "block 2"]
    np.testing.assert_allclose(bars["y"], [0.01, 5, 0.02], rtol=1e-6)
    assert "block 1: 5" in alt_text(figure)


# --- the page ---------------------------------------------------------------------------------


def page(**query: str):
    test = opened()
    for key, value in query.items():
        test.query_params[key] = value
    return fine(test.switch_page("ideas/residuals/page.py").run())


def test_the_page_says_what_is_lost_and_the_formula_follows_the_wiring():
    test = page(depth_layers="8", depth_norm="pre")
    assert "not the gradient's size" in texts(test.markdown)
    assert "x + f(" in texts(test.latex)
    test.toggle(key="depth_residual").set_value(False)
    test.button_group(key="depth_norm").set_value("none")
    fine(test.run())
    assert "The usual claim holds here" in texts(test.markdown)
    assert "x + f(" not in texts(test.latex)


@pytest.mark.parametrize("init", INITS)
def test_every_wiring_at_every_depth_is_put_into_words(init):
    """No sentence fails, whatever was measured."""
    test = page(depth_init=init)
    for norm in NORMS:
        for n_layers in (1, 32):
            test.button_group(key="depth_norm").set_value(norm)
            test.button_group(key="depth_layers").set_value(n_layers)
            fine(test.run())
            assert "nan" not in texts(test.markdown) + texts(test.latex)


def test_numbers_that_are_none_are_explained_and_the_picture_stays():
    test = page()
    fine(test.text_input(key="depth_numbers").set_value("1 2 x").run())
    assert "Eight numbers: 'x' is not a number" in texts(test.error)
    fine(test.text_input(key="depth_numbers").set_value("1 1 1 1 1 1 1 1").run())
    assert not test.error and "nothing is left but the shift" in texts(test.markdown)
