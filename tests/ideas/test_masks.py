"""The page about masks: what it measures, what it draws, and its edits."""

import re

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.masks import MASKS
from core.tokens import PAD
from core.trace import Recorder
from helpers import fine, opened, plain, texts
from playground.figures.style import alt_text
from playground.ideas.masks import measure
from playground.ideas.masks.figures import (
    largest,
    mask_picture,
    padded_picture,
    row_picture,
    window_chart,
)


def drawn(seed: int, length: int = 8, share: float = 0.3) -> measure.Cells:
    """A mask that no rule describes."""
    cells = np.random.default_rng(seed).random((length, length)) < share
    return tuple(map(tuple, cells.tolist()))


# --- the mask ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("padding", [0, 3])
def test_the_table_is_what_its_rule_says_cell_by_cell(kind, padding):
    window, length = 3, 8
    table = measure.table(kind, window, length, padding)
    for i in range(length):
        for j in range(length):
            allowed = {"causal": j <= i, "none": True, "window": i - window < j <= i}[kind]
            assert table[i][j] == (allowed and j < length - padding)


def test_edits_have_the_last_word_and_those_outside_are_passed_over():
    plain = measure.table("causal", 1, 8, 2)
    edits = {(0, 5): True, (0, 7): True, (3, 3): False, (11, 0): True, (0, 11): True}
    table = measure.table("causal", 1, 8, 2, edits)
    changed = {(i, j) for i in range(8) for j in range(8) if table[i][j] != plain[i][j]}
    assert changed == {(0, 5), (0, 7), (3, 3)}


@pytest.mark.parametrize("length", [8, 10, 11, 12])
def test_the_row_is_a_question_and_its_answer_backwards_with_padding_at_the_end(length):
    said = "".join(measure.TASK.decode(measure.tokens(length)))
    question, answer = said.split("→")
    assert len(said) == length and question[::-1].startswith(answer)
    padded = measure.tokens(length, 3)
    assert (padded[0, -3:] == PAD).all() and not (padded[0, :-3] == PAD).any()


def test_another_mask_on_a_model_leaves_the_model_as_it_was():
    model, row = measure.untrained(2), measure.tokens(8)
    before = model(row)
    other = measure.masked_by(model, measure.by_hand(measure.table("none", 1, 8)))
    assert not torch.equal(other(row), before)
    assert torch.equal(model(row), before)
    assert all(a is b for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("kind", MASKS)
def test_a_mask_drawn_by_hand_like_a_rule_gives_the_model_of_that_rule(kind):
    row = measure.tokens(10)
    by_hand = measure.masked_by(measure.untrained(2), measure.by_hand(measure.table(kind, 3, 10)))
    assert torch.equal(by_hand(row), measure.untrained(2, mask=kind, window=3)(row))


# --- what reaches what ------------------------------------------------------------------------

MADE = [measure.table(kind, 3, 8) for kind in MASKS] + [drawn(seed) for seed in range(3)]


@pytest.mark.parametrize("cells", MADE)
@pytest.mark.parametrize("n_layers", [1, 2, 4])
def test_what_has_a_gradient_is_what_n_steps_in_the_mask_can_reach(cells, n_layers):
    """Each step goes along a visible cell, or stays: the residual connection."""
    step = np.array(cells) | np.eye(len(cells), dtype=bool)
    found, ways = measure.reach(cells, n_layers), np.eye(len(cells), dtype=bool)
    for level in range(n_layers, -1, -1):
        assert np.array_equal(found.gradient[level] > 0, ways)
        ways = (ways.astype(int) @ step.astype(int)) > 0
    assert np.array_equal(found.reached, found.gradient[0] > 0)


def test_the_gradient_is_the_norm_of_the_jacobian_one_logit_after_another():
    cells, n_layers = drawn(1), 2
    found = measure.reach(cells, n_layers)
    model = measure.masked_by(measure.untrained(n_layers), measure.by_hand(cells))
    for level, name in enumerate(("embed", "blocks.0.resid_post", "blocks.1.resid_post")):
        trace = Recorder({name: lambda x: x.detach().requires_grad_()})
        logits = model(measure.tokens(len(cells)), trace)
        for i in range(len(cells)):
            rows = [
                torch.autograd.grad(logit, trace.seen[name], retain_graph=True)[0][0]
                for logit in logits[0, i]
            ]
            norms = torch.stack(rows).square().sum((0, 2)).sqrt()
            torch.testing.assert_close(torch.tensor(found.gradient[level, i]), norms)


@pytest.mark.parametrize("window", measure.WINDOWS)
def test_a_window_reaches_n_times_w_minus_1_plus_1_tokens(window):
    expected = [min(n * (window - 1) + 1, measure.MAX_LENGTH) for n in (1, 2, 3, 4)]
    assert list(measure.window_reach(window)) == expected


def test_the_row_of_the_formula_is_the_softmax_of_score_plus_mask():
    cells = measure.table("causal", 1, 8, 2)
    found, seen = measure.reach(cells, 1, 2), np.array(cells)
    scores = np.where(seen, found.scaled.astype(np.float64), -np.inf)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(found.weights, expected, atol=1e-6)
    assert (found.weights[:, ~seen] == 0).all()
    assert set(np.unique(found.added)) == {np.float32(0), np.float32(measure.HIDDEN_SCORE)}
    assert torch.finfo(torch.float32).min / 2 == measure.HIDDEN_SCORE


def test_a_row_that_sees_nothing_gets_zeros_and_no_nan():
    cells = measure.table("causal", 1, 8, 0, {(4, j): False for j in range(8)})
    found = measure.reach(cells, 2)
    assert (found.weights[:, 4] == 0).all() and found.handed_over[4] == 0
    assert (found.handed_over[[i for i in range(8) if i != 4]] > 0).all()
    np.testing.assert_allclose(found.softmax[:, 4], 1 / 8)
    assert np.flatnonzero(found.reached[4]).tolist() == [4]
    assert found.finite and np.isfinite(found.gradient).all()
    everywhere = measure.reach(((False,) * 8,) * 8, 2)
    assert everywhere.finite and np.array_equal(everywhere.reached, np.eye(8, dtype=bool))


def test_numbers_that_are_not_finite_are_noticed(monkeypatch):
    broken = measure.untrained.__wrapped__(1)
    with torch.no_grad():
        broken.unembed.weight[0, 0] = torch.inf
    monkeypatch.setattr(measure, "untrained", lambda n_layers: broken)
    assert not measure.reach.__wrapped__(measure.table("causal", 1, 8), 1).finite


@pytest.mark.parametrize("n_layers", [1, 4])
def test_only_without_a_mask_a_later_token_moves_a_logit(n_layers):
    assert measure.leak("causal", 3, n_layers, 8) == 0
    assert measure.leak("window", 3, n_layers, 8) == 0
    assert measure.leak("none", 3, n_layers, 8) > 0.1


# --- padding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("side", measure.SIDES)
def test_hidden_padding_changes_nothing_where_only_distances_count(kind, side):
    found = measure.padded(kind, 3, 2, "rotary", side)
    assert np.nanmax(found.hidden) < measure.ROUNDING
    lengths = [len(digits) for digits in measure.PADDED]
    assert found.real.sum(1).tolist() == lengths
    assert found.real[:, 0 if side == "end" else -1].all()
    for table in (found.hidden, found.visible):
        assert np.array_equal(np.isnan(table), ~found.real)
    for digits, row in zip(measure.PADDED, found.shown, strict=True):
        padding = ["·"] * (len(row) - len(digits))
        assert row == (list(digits) + padding if side == "end" else padding + list(digits))


def test_padding_that_is_not_hidden_matters_unless_it_lies_in_the_future():
    assert np.nanmax(measure.padded("none", 3, 2, "rotary", "end").visible) > 0.1
    assert np.nanmax(measure.padded("causal", 3, 2, "rotary", "end").visible) < measure.ROUNDING
    assert np.nanmax(measure.padded("causal", 3, 2, "rotary", "start").visible) > 0.1


def test_padding_at_the_start_moves_tokens_to_other_places_hidden_or_not():
    assert np.nanmax(measure.padded("causal", 3, 2, "sinusoidal", "start").hidden) > 0.1
    assert np.nanmax(measure.padded("causal", 3, 2, "sinusoidal", "end").hidden) < measure.ROUNDING


def test_the_difference_is_the_largest_over_the_logits_of_a_place():
    found = measure.padded("none", 3, 1, "sinusoidal", "end")
    model = measure.untrained(1, mask="none")
    alone, width = measure.TASK.encode(measure.PADDED[2]), len(measure.PADDED[0])
    together = model(torch.tensor([alone + [PAD] * (width - len(alone))]))[0]
    by_place = (together[: len(alone)] - model(torch.tensor([alone]))[0]).abs().max(-1).values
    np.testing.assert_allclose(found.visible[2, : len(alone)], by_place.detach().numpy(), atol=1e-5)


def test_measuring_leaves_the_random_state_of_the_process_alone(global_random_state_untouched):
    measure.untrained.cache_clear()
    measure.reach.__wrapped__(measure.table("none", 1, 8), 1)
    measure.window_reach.__wrapped__(2)


# --- figures ----------------------------------------------------------------------------------


def picture(cells: measure.Cells, n_layers: int = 2, **more):
    names = measure.TASK.decode(measure.tokens(len(cells)))
    found = measure.reach(cells, n_layers)
    return mask_picture(np.array(cells), found.gradient, names, output=3, **more), found


def test_hidden_cells_and_what_never_arrives_are_gaps():
    cells = drawn(0)
    figure, found = picture(cells)
    shown, reached = figure["data"][:2]
    assert np.array_equal(np.isnan(shown["z"]), ~np.array(cells))
    assert np.array_equal(np.isnan(reached["z"]), ~found.reached)
    assert reached["z"][found.reached].max() == 0, "the largest is one whole"
    assert len(figure["layout"]["images"]) == 2, "both are hatched"
    go.Figure(figure)


def test_a_ring_marks_each_output_that_can_see_what_it_is_to_predict():
    figure, _ = picture(measure.table("none", 1, 8))
    ring = figure["data"][2]
    assert list(zip(ring["y"], ring["x"], strict=True)) == [(i, i + 1) for i in range(7)]
    assert picture(measure.table("causal", 1, 8))[0]["data"][2]["x"] == []


def test_edited_cells_are_framed_and_said():
    plain, _ = picture(measure.table("causal", 1, 8))
    figure, _ = picture(measure.table("causal", 1, 8, 0, {(2, 6): True}), edited=[(2, 6)])
    more = [shape for shape in figure["layout"]["shapes"] if shape not in plain["layout"]["shapes"]]
    (frame,) = more
    assert (round((frame["x0"] + frame["x1"]) / 2), round((frame["y0"] + frame["y1"]) / 2)) == (
        6,
        2,
    )
    assert "by hand" in figure["data"][0]["text"][2][6]
    assert "1 changed by hand" in alt_text(figure)


def test_the_paths_to_an_output_follow_visible_cells_only():
    cells = drawn(2)
    figure, found = picture(cells, n_layers=3)
    named = {trace["name"]: trace for trace in figure["data"]}
    looks, stays = named["attention"], named["residual connection"]
    for k in range(0, len(looks["x"]), 3):
        assert cells[looks["x"][k + 1]][looks["x"][k]]
        assert looks["y"][k + 1] == looks["y"][k] + 1 and looks["x"][k + 2] is None
    assert all(stays["x"][k] == stays["x"][k + 1] for k in range(0, len(stays["x"]), 3))
    dots = set(zip(named["reached"]["y"], named["reached"]["x"], strict=True))
    assert dots == set(map(tuple, np.argwhere(found.gradient[:, 3] > 0).tolist()))
    assert len(dots) + len(named["nothing gets through"]["x"]) == 4 * 8


def test_a_row_prints_its_numbers_and_infinity_where_the_mask_hides():
    added = np.array([0, measure.HIDDEN_SCORE, 0], dtype=np.float32)
    figure = row_picture(
        [
            ("score", [1.5, -0.25, 0], "scores"),
            ("mask", added, "scores"),
            ("weight", [0.9, 0, 0.1], "weights"),
        ],
        ["a", "<", "c"],
        query=1,
    )
    score, mask, weight = figure["data"]
    assert plain(score) == [["1.50", "−0.25", "0"]] and plain(weight) == [["0.90", "0", "0.10"]]
    assert plain(mask) == [["0", "−∞", "0"]] and np.isnan(mask["z"][0][1])
    assert (weight["zmin"], weight["zmax"]) == (0, 1) and score["zmin"] == -score["zmax"]
    assert figure["layout"]["xaxis3"]["labelalias"]["1"] == "&lt;"
    go.Figure(figure)


def test_the_window_chart_holds_the_measurement_against_the_rule():
    measured = [measure.window_reach(w) for w in measure.WINDOWS]
    figure = window_chart(measure.WINDOWS, measured, measure.MAX_LENGTH, chosen=(3, 2))
    lines = {trace["name"]: trace for trace in figure["data"] if trace.get("name")}
    assert lines["2 blocks"]["y"] == [1, 3, 5, 7, 9, 11]
    assert figure["data"][-1]["x"] == [3] and figure["data"][-1]["y"] == [5]
    go.Figure(figure)


def test_a_padded_picture_says_in_words_how_much_differs():
    table = np.array([[0.0, 0.5], [0.25, np.nan]])
    figure = padded_picture([("one", [["a", "b"], ["c", "·"]], table)])
    assert figure["layout"]["annotations"][0]["text"] == "one: differs by 0.50"
    assert "one: differs by 0.50" in alt_text(figure)
    values, padding = figure["data"]
    assert np.isnan(values["z"][1][1]) and padding["z"][1][1] == 1 and np.isnan(padding["z"][0][0])
    go.Figure(figure)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "exactly the same"), (3e-7, "differs by 3e-07: rounding"), (0.5, "differs by 0.50")],
)
def test_exact_rounding_and_a_difference_are_three_things(value, said):
    assert largest([[value, np.nan]]) == said


# --- the page ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("position 4", 3), ("Position 1", 0)])
def test_a_link_of_before_still_means_the_position_it_meant(text, value):
    test = opened("masks", masks_query=text)
    assert test.session_state.masks_query == value and not test.warning


@pytest.mark.parametrize("text", ["position", "position x", "place 3", "13", "a b c", ""])
def test_a_position_in_a_link_that_is_none_is_said(text):
    test = opened("masks", masks_query=text)
    assert test.session_state.masks_query == 7 and len(test.warning) == 1


def test_a_cell_is_changed_and_taken_back_without_a_mouse():
    test = fine(opened().switch_page("ideas/masks/page.py").run())
    assert "Nothing leaks" in texts_of(test)
    test.select_slider(key="masks_query").set_value(2)
    test.select_slider(key="masks_key").set_value(6)
    fine(test.run())
    assert test.button(key="masks_toggle").label == "Show it"
    fine(test.button(key="masks_toggle").click().run())
    assert "The mask leaks" in texts_of(test)
    fine(test.button(key="masks_clear").click().run())
    assert "Nothing leaks" in texts_of(test) and "sees nothing" in texts_of(test)
    assert "all gradients are finite" in texts_of(test)
    fine(test.button(key="masks_undo").click().run())
    assert "The mask leaks" in texts_of(test)
    fine(test.button(key="masks_undo").click().run())
    assert "Nothing leaks" in texts_of(test) and test.button(key="masks_undo").disabled


def texts_of(test) -> str:
    """The page's sentences, without the marks on words that explain themselves."""
    return re.sub(r"</?abbr[^>]*>", "", texts(test.markdown))
