"""Positions: tables and likeness against formulas, shuffles and longer texts against loops."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.config import ModelConfig, TrainConfig
from core.positions import POSITIONS, alibi_slopes
from core.tasks import Batch
from core.train import Trainer
from playground.figures.style import SCORES_SCALE, alt_text, run_colour
from playground.ideas.positions import measure
from playground.ideas.positions.figures import (
    LEAST,
    Line,
    beyond_chart,
    difference_chart,
    number,
    order_picture,
    shuffle_picture,
)

KINDS = list(POSITIONS)
SWAP, BACKWARDS = measure.ORDERS["dog ↔ man"], measure.ORDERS["backwards"]


# --- what a scheme tells ------------------------------------------------------------------------


def test_the_sinusoidal_table_is_the_papers():
    table = measure.effect("sinusoidal", 16, 4, 32).table
    assert table.shape == (32, 16)
    for p in (0, 1, 31):
        for i in range(8):
            angle = p / 10_000 ** (2 * i / 16)
            assert table[p, 2 * i : 2 * i + 2] == pytest.approx(
                [math.sin(angle), math.cos(angle)], abs=1e-5
            )


def test_rotary_turns_the_vector_1_0_of_each_pair_by_its_own_angle():
    table = measure.effect("rotary", 32, 4, 16).table
    assert table.shape == (16, 8)
    for p in (0, 1, 15):
        for i in range(4):
            angle = p / 10_000 ** (2 * i / 8)
            assert table[p, 2 * i : 2 * i + 2] == pytest.approx(
                [math.cos(angle), math.sin(angle)], abs=1e-5
            )


def test_the_learned_table_is_the_models_own_and_nothing_is_nothing():
    table = measure.effect("learned", 64, 4, 128).table
    assert table.std() == pytest.approx(0.02, rel=0.05)
    assert not measure.effect("none", 64, 4, 128).table.any()


@pytest.mark.parametrize("n_heads", [1, 4, 8])
def test_alibi_takes_a_slope_for_each_step_and_the_others_leave_the_scores(n_heads):
    bias = measure.effect("alibi", 16, n_heads, 8).bias
    for head, slope in enumerate(alibi_slopes(n_heads)):
        expected = [[-slope * abs(i - j) for j in range(8)] for i in range(8)]
        assert bias[head].tolist() == expected
    for kind in set(KINDS) - {"alibi"}:
        assert not measure.effect(kind, 16, n_heads, 8).bias.any()


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_a_wavelength_is_where_its_pair_is_back_again(kind):
    """Read off the first step of the real table."""
    table = measure.effect(kind, 16, 1, 16).table
    sines, cosines = (0, 1) if kind == "sinusoidal" else (1, 0)
    for i, wave in enumerate(measure.wavelengths(16)):
        angle = math.atan2(table[1, 2 * i + sines], table[1, 2 * i + cosines])
        assert wave == pytest.approx(2 * math.pi / angle, rel=1e-5)
    assert measure.wavelengths(16)[0] == pytest.approx(2 * math.pi)
    assert len(measure.wavelengths(5)) == 3


def test_the_likeness_of_sinusoids_is_the_mean_cosine_wherever_they_stand():
    found = measure.similarity("sinusoidal", 32, 4, 24)
    for distance in range(24):
        expected = np.mean([math.cos(distance / 10_000 ** (2 * i / 32)) for i in range(16)])
        assert found.mean[distance] == pytest.approx(expected, abs=1e-5)
        assert found.low[distance] == pytest.approx(found.high[distance], abs=1e-5)
    assert found.drift < 1e-5


def test_turned_queries_and_keys_feel_their_distance_only():
    found = measure.similarity("rotary", 32, 4, 24)
    assert found.mean[0] == pytest.approx(1)
    assert found.drift < 1e-5
    # The same random queries, each pair turned by hand: a pair's share times cos of its angle.
    q = torch.randn(
        measure.QUERIES, 1, 1, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    shares = q.view(-1, 4, 2).square().sum(-1)
    shares = shares / shares.sum(-1, keepdim=True)
    for distance in (1, 7, 23):
        cosines = torch.tensor([math.cos(distance / 10_000 ** (2 * i / 8)) for i in range(4)])
        each = np.repeat(
            (shares * cosines).sum(-1).numpy(), 24 - distance
        )  # for every pair of positions
        assert found.mean[distance] == pytest.approx(each.mean().item(), abs=1e-5)
        assert found.low[distance] == pytest.approx(np.quantile(each, 0.1), abs=1e-4)
        assert found.high[distance] == pytest.approx(np.quantile(each, 0.9), abs=1e-4)


def test_an_untrained_learned_table_knows_no_distance():
    found = measure.similarity("learned", 128, 4, 64)
    assert found.mean[0] == pytest.approx(1)
    assert np.abs(found.mean[1:32]).max() < 0.1 < found.drift


# --- a shuffle ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", measure.ORDERS)
def test_without_positions_and_mask_the_outputs_move_along_with_the_words(wish):
    found = measure.shuffled("none", "none", measure.ORDERS[wish])
    assert found.difference < 1e-12 and found.of_mean < 1e-12
    assert found.in_place > 0.1, "equivariant, not invariant"
    assert found.before[0] == pytest.approx(found.before[3], abs=1e-12), "both are `the`"


@pytest.mark.parametrize("kind", KINDS)
def test_the_causal_mask_alone_leaks_the_order(kind):
    assert measure.shuffled(kind, "causal", SWAP).difference > 0.01


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary", "alibi"])
def test_positions_tell_the_orders_apart_without_a_mask(kind):
    assert measure.shuffled(kind, "none", SWAP).difference > 0.01


def test_alibi_without_a_mask_cannot_tell_a_text_from_the_same_backwards():
    assert measure.shuffled("alibi", "none", BACKWARDS).difference < 1e-12
    assert measure.shuffled("rotary", "none", BACKWARDS).difference > 0.01


def test_each_output_goes_back_to_its_own_word():
    """Under a causal mask the first word sees itself alone: its output is its own."""
    found = measure.shuffled("none", "causal", SWAP)
    assert found.after[0] == pytest.approx(found.before[0], abs=1e-12)
    assert found.difference == np.abs(found.after - found.before).max()
    assert all(
        sorted(order) == list(range(len(measure.WORDS))) for order in measure.ORDERS.values()
    )


# --- longer texts -------------------------------------------------------------------------------


def trainer(kind: str, length: int = 8, steps: int = 0) -> Trainer:
    task = measure.task(length)
    config = ModelConfig.for_task(task, position=kind, d_model=16, n_heads=2, n_layers=1)
    trainer = Trainer(config, task, TrainConfig(steps=max(steps, 1), batch_size=4))
    for _ in range(steps):
        trainer.step()
    return trainer


@pytest.mark.parametrize("kind", KINDS)
def test_each_position_is_scored_alone_as_far_as_the_model_has_positions(kind):
    model = trainer(kind)
    found = measure.beyond(model)
    assert (found.trained, found.tested) == (8, 32)
    batch = measure.long_texts(32)
    reach = 8 if kind == "learned" else 32
    assert found.loss.shape == found.right.shape == (reach,)
    with torch.no_grad():
        chances = model.model(batch.inputs[0][:, :reach]).softmax(-1)
    for position in (0, 5, reach - 1):
        ids = batch.targets[:, position].tolist()
        losses = [-math.log(chances[row, position, i]) for row, i in enumerate(ids)]
        assert found.loss[position] == pytest.approx(np.mean(losses), rel=1e-4)
        right = [chances[row, position].argmax().item() == i for row, i in enumerate(ids)]
        assert found.right[position] == pytest.approx(np.mean(right))
    assert found.within(found.loss) == pytest.approx(sum(found.loss[:8]) / 8)
    if kind != "learned":
        assert found.beyond(found.right) == pytest.approx(sum(found.right[8:]) / 24)


def test_within_the_trained_length_the_test_is_the_runs_own_task():
    model, batch = trainer("rotary"), measure.long_texts(32)
    same = Batch((batch.inputs[0][:, :8],), batch.targets[:, :8])
    found = measure.beyond(model)
    assert found.within(found.loss) == pytest.approx(model.evaluate(same).loss, rel=1e-5)


def test_learned_positions_refuse_in_words_and_the_others_go_on():
    refusals = {kind: measure.beyond(trainer(kind)).refused for kind in KINDS}
    assert "length 32 is longer than max_len=8" in refusals.pop("learned")
    assert set(refusals.values()) == {""}
    found = measure.beyond(trainer("learned"))
    assert math.isnan(found.beyond(found.loss)) and math.isfinite(found.within(found.loss))


# --- figures ------------------------------------------------------------------------------------


def test_the_picture_frames_the_pair_and_draws_waves_and_likeness():
    matrix = np.array([[0.0, -0.4], [0.3, 0.1], [0.2, 0.1]])
    figure = order_picture(
        matrix,
        [Line("behind", [0, 1, 0], None), Line("a<b", [1, 0, 1], 1, dashed=True)],
        [Line("p·p", [1, 0.5, -0.6], 2, low=[1, 0.4, -0.8], high=[1, 0.6, -0.4])],
        titles=("A", "B", "C"),
        axes=("column", "position"),
        fit_axis="share",
        columns=(0, 1),
        alt="said",
    )
    table, behind, wave, band, likeness = figure["data"]
    assert np.asarray(table["z"]).tolist() == matrix.tolist()
    assert (table["zmin"], table["zmax"], table["colorscale"]) == (-0.5, 0.5, SCORES_SCALE)
    assert behind["opacity"] < 1 and wave["line"]["dash"] == "dash"
    assert wave["line"]["color"] == run_colour(1) and wave["name"] == "a&lt;b"
    assert list(band["y"]) == pytest.approx([1, 0.6, -0.4, -0.8, 0.4, 1])
    assert list(likeness["y"]) == pytest.approx([1, 0.5, -0.6])
    assert figure["layout"]["yaxis3"]["range"][0] < -0.8
    (frame,) = figure["layout"]["shapes"]
    assert (frame["x0"], frame["x1"]) == (-0.5, 1.5)
    assert alt_text(figure) == "said"
    go.Figure(figure)


def test_a_shuffle_shows_both_outputs_and_their_difference_on_one_scale():
    before, after = np.array([[1.5, 0], [0, -1]]), np.array([[1, 0], [0, -1]])
    figure = shuffle_picture(before, after, ["a", "b"], ["b", "a"])
    shown = [np.asarray(trace["z"]).tolist() for trace in figure["data"]]
    assert shown == [before.tolist(), after.tolist(), (after - before).tolist()]
    assert {(trace["zmin"], trace["zmax"]) for trace in figure["data"]} == {(-2, 2)}
    assert "“b a”" in alt_text(figure) and "0.5" in alt_text(figure)
    go.Figure(figure)


def test_the_bars_hold_the_differences_even_of_nothing():
    figure = difference_chart(
        {"none": {"a": 0.0, "b": 0.5}, "causal": {"a": 2.0, "b": 1e-15}}, chosen=("causal", "b")
    )
    first, second = figure["data"]
    assert list(first["x"]) == [LEAST, 0.5] and list(second["x"]) == [2.0, 1e-15]
    assert second["text"] == ["2", "1.0·10⁻¹⁵"]
    assert first["marker"]["line"]["width"] == [0, 0] and second["marker"]["line"]["width"][1] > 0
    assert figure["layout"]["xaxis"]["type"] == "log"
    go.Figure(figure)


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"),
        (0.984, "0.98"),
        (-0.02, "−0.02"),
        (47_117.2, "47117"),
        (1.84e-15, "1.8·10⁻¹⁵"),
        (-3e-4, "−3.0·10⁻⁴"),
    ],
)
def test_numbers_are_written_as_a_class_writes_them(value, text):
    assert number(value) == text


def test_the_lines_are_means_over_a_few_positions_and_end_where_a_model_has_none():
    figure = beyond_chart(
        {"long": (3, [0, 1, 2, 3, 4, 5, 6, 7]), "short": (1, [1, 1])}, 2, 8, bins=2
    )
    long, short = figure["data"]
    assert list(long["x"]) == [1.5, 3.5, 5.5, 7.5] and list(long["y"]) == [0.5, 2.5, 4.5, 6.5]
    assert long["line"]["color"] == run_colour(3)
    assert list(short["x"]) == [1.5]
    notes = [note for note in figure["layout"]["annotations"] if "no such position" in note["text"]]
    assert [(note["x"], note["y"]) for note in notes] == [(2.5, 1.0)]
    assert "long 0.50 within, 4.50 beyond" in alt_text(figure)
    assert "short 1.00 within, nothing beyond" in alt_text(figure)
    go.Figure(figure)
    assert "tested here on 8" in alt_text(beyond_chart({}, 2, 8, bins=2))
