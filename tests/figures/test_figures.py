"""Figures: what goes in is what is drawn, and Plotly accepts every one of them."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import orjson
import plotly.colors
import plotly.graph_objects as go
import pytest

from playground.figures import (
    STAGES,
    Curve,
    Layer,
    alt_text,
    attention_map,
    attention_maps,
    empty_figure,
    entropy_chart,
    gradient_chart,
    loss_chart,
    prediction_cards,
    spread_chart,
    thumbnails,
)
from playground.figures.attention import _grid, colour_limit
from playground.figures.loss import MAX_POINTS, kept, smooth
from playground.figures.panels import with_gaps
from playground.figures.style import (
    RIGHT_MARK,
    RUN_COLOURS,
    SCORES_SCALE,
    TEXT,
    WEIGHTS_SCALE,
    WRONG_MARK,
    colours_at,
    ink_on,
    nice_limit,
    sizes,
)
from playground.figures.thumbnails import CELLS_IN_ALL, CHOSEN, head_at

TOKENS = ["a", "b", "a", "␣"]
CAUSAL = np.triu(np.ones((4, 4), dtype=bool), 1)
SCORES = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(np.float32)


def weights(scores=SCORES, hidden=CAUSAL):
    shown = np.where(hidden, -np.inf, scores)
    grown = np.exp(shown - shown.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


def written(figure):
    """The figure as the browser reads it."""
    return json.loads(orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY))


def run(label="run", steps=5, **more):
    losses = [2.0 / step for step in range(1, steps + 1)]
    return Curve(label, range(1, steps + 1), losses, [1, steps], [2.1, 0.5], [1e-3] * steps, **more)


MARKS = [(2, "scale → none")]
FIGURES = {
    "loss": loss_chart([run(marks=MARKS)], chance=(2.4, 2.3), floor=0.1),
    "loss, log, lr": loss_chart([run(), run("old", ghost=True)], log=True, show_lr=True),
    "loss, nothing yet": loss_chart([], chance=(2.4, 2.3), total_steps=300),
    "loss, empty curve": loss_chart([Curve("run")]),
    "maps": attention_maps(weights(), TOKENS, TOKENS, hidden=CAUSAL, selected=1),
    "maps of scores": attention_maps(
        SCORES, TOKENS, TOKENS, stage="scores", columns=2, size=sizes(300)
    ),
    "map": attention_map(weights()[0], TOKENS, TOKENS, hidden=CAUSAL, title="head 1"),
    "no maps": attention_maps(np.zeros((0, 4, 4)), TOKENS, TOKENS),
    "empty map": attention_map(np.zeros((0, 4)), [], TOKENS),
    "gradients": gradient_chart([1, 2], {"block 1": [1e-3, 2e-3], "head": [0.0, 1.0]}),
    "gradients, nothing yet": gradient_chart([], {}),
    "entropy": entropy_chart([0, 10], [[1.0, 0.9], [0.5, 0.1]], [[0.1, 0.2], [0.6, 0.9]]),
    "entropy, nothing yet": entropy_chart([], [], []),
    "spread": spread_chart([0, 10], {"block 1": [4.0, 5.0]}, 4.0),
    "thumbnails": thumbnails(
        {"block 1": Layer(weights(), CAUSAL), "block 2": Layer(weights(), CAUSAL)}, chosen=(1, 2)
    ),
    "no thumbnails": thumbnails({}),
    "message": empty_figure("nothing here"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_plotly_accepts_the_figure(name):
    go.Figure(FIGURES[name])
    go.Figure(written(FIGURES[name]))


@pytest.mark.parametrize("name", FIGURES)
def test_figure_says_in_words_what_it_shows(name):
    assert len(alt_text(FIGURES[name])) > 10


@pytest.mark.parametrize("name", FIGURES)
def test_zoom_is_kept_from_frame_to_frame(name):
    assert FIGURES[name]["layout"]["uirevision"]


@pytest.mark.parametrize("name", FIGURES)
def test_every_colour_is_one_that_the_component_can_exchange(name):
    """A colour outside the palettes would be the same on light and on dark."""
    neutral = {"#7c7c7d", "#7d7d7e", "#7e7e7f", "#7f7f80"}
    found = {
        text
        for text in json.dumps(written(FIGURES[name])).split('"')
        if text.startswith("#") and len(text) == 7
    }
    assert found <= neutral | set(RUN_COLOURS)


@pytest.mark.parametrize("name", FIGURES)
def test_figure_brings_what_it_leaves_to_the_template(name):
    """Outside the app too, as `go.Figure(figure)`: no arrows, no zero lines, its own colours."""
    layout = go.Figure(written(FIGURES[name])).layout
    assert layout.template.layout.annotationdefaults.showarrow is False
    assert layout.template.layout.xaxis.zeroline is layout.template.layout.yaxis.zeroline is False
    assert layout.template.layout.font.color == TEXT


def test_one_line_needs_no_legend():
    assert not gradient_chart([1, 2], {"head": [1.0, 2.0]})["layout"]["showlegend"]
    assert FIGURES["gradients"]["layout"]["showlegend"] and FIGURES["loss"]["layout"]["showlegend"]


def test_projector_has_larger_text_and_lines():
    far, near = loss_chart([run()], size=sizes(340, projector=True)), loss_chart([run()])
    assert far["layout"]["font"]["size"] > near["layout"]["font"]["size"]
    assert far["data"][1]["line"]["width"] > near["data"][1]["line"]["width"]


# --- loss ---------------------------------------------------------------------------------------


def named(figure, name):
    return next(trace for trace in figure["data"] if trace.get("name") == name)


def test_loss_chart_draws_the_very_values():
    figure = written(loss_chart([run(steps=3)], show_lr=True))
    assert named(figure, "each step")["x"] == [1, 2, 3]
    assert named(figure, "each step")["y"] == pytest.approx([2.0, 1.0, 2 / 3])
    assert named(figure, "validation")["y"] == pytest.approx([2.1, 0.5])
    assert named(figure, "learning rate")["y"] == pytest.approx([1e-3] * 3)
    assert named(figure, "learning rate")["yaxis"] == "y2"


def test_smoothing_is_the_mean_of_as_many_before_as_after():
    values = np.random.default_rng(0).normal(size=200)
    smoothed = smooth(values)
    for i in range(10, 190):
        assert smoothed[i] == pytest.approx(values[i - 10 : i + 11].mean())
    assert smoothed[5] == pytest.approx(values[:11].mean())
    assert smoothed[-1] == pytest.approx(values[-3:].mean())
    assert smooth([3.0, 3.0, 3.0]).tolist() == pytest.approx([3.0, 3.0, 3.0])
    assert smooth([2.0]).tolist() == [2.0] and smooth([]).size == 0
    assert np.isnan(smooth([math.nan])).all()


def test_a_smoothed_curve_stands_where_the_falling_one_is():
    falling = 3 * np.exp(-np.arange(300) / 60)
    moving = np.abs(np.diff(falling)).max()  # per step
    assert np.abs(smooth(falling) - falling).max() < 1.01 * moving
    assert np.abs(smooth(falling) - falling)[2:-2].max() < 0.3 * moving


def test_nothing_is_smoothed_or_joined_across_a_change():
    losses = [1.0] * 30 + [5.0] * 30
    marked = Curve(
        "run", range(1, 61), losses, [10, 30, 30, 32], [1, 2, 6, 4], marks=[(30, "lr → 1")]
    )
    raw, bold, validation = written(loss_chart([marked]))["data"]
    assert raw["y"] == losses, "what was measured is drawn"
    assert bold["y"] == [1.0] * 30 + [None] + [5.0] * 30
    assert (validation["x"], validation["y"]) == ([10, 30, 30, 32], [1, 2, 6, 4])
    assert validation["mode"] == "markers", "what is measured now and then is not joined"


def test_a_line_through_few_points_has_a_gap_at_each_mark():
    x, y = with_gaps([10, 30, 32], [1, 2, 4], [30, 31])
    assert written({"x": x, "y": y}) == {"x": [10, 30, 30, 32], "y": [1, 2, None, 4]}


def test_the_health_of_a_run_is_not_joined_across_a_change():
    marks = [(9.5, "mask → none")]
    entropy = written(
        entropy_chart([0, 5, 10, 15], [[1.0], [1], [0], [0]], [[0.0]] * 4, marks=marks)
    )
    assert entropy["data"][0]["y"] == [1, 1, None, 0, 0]
    assert {shape["x0"] for shape in entropy["layout"]["shapes"]} == {9.5}
    assert "mask → none at step 10" in alt_text(entropy)
    norms = written(gradient_chart([1, 2, 3], {"block 1": [1.0, 1, 2]}, marks=[(2, "lr → 1")]))
    assert norms["data"][0]["y"] == [1, 1, None, 2]
    spread = written(spread_chart([0, 5, 10], {"block 1": [1.0, 1, 4]}, 1.0, marks=marks))
    assert spread["data"][0]["y"] == [1, 1, None, 4]


def test_raw_loss_is_fainter_than_smoothed_and_one_run_has_one_colour():
    raw, bold, validation = loss_chart([run(colour_index=3)])["data"]
    assert raw["opacity"] < 0.5 < bold["opacity"]
    assert raw["line"]["width"] < bold["line"]["width"]
    assert {t["line"]["color"] for t in (raw, bold, validation)} == {RUN_COLOURS[3]}


def test_ghost_is_dimmed_and_has_no_learning_rate():
    figure = loss_chart([run("old", ghost=True)], show_lr=True)
    assert max(trace["opacity"] for trace in figure["data"]) < 0.5
    assert len(figure["data"]) == 3


def test_loss_that_is_no_number_is_a_gap_and_the_finite_curve_stays():
    """UI-03"""
    figure = written(
        loss_chart([Curve("run", [1, 2, 3], [2.0, math.inf, math.nan], [3], [math.nan])])
    )
    raw, bold, validation = figure["data"]
    assert raw["y"] == [2.0, None, None]
    assert bold["y"] == [2.0, 2.0, 2.0]
    assert validation["y"] == [None]


def test_chance_lines_and_floor_are_level_and_labelled():
    figure = loss_chart([run()], chance=(math.log(12), math.log(10)), floor=0.5, total_steps=300)
    levels = [trace["y"][0] for trace in figure["data"][-3:]]
    assert levels == pytest.approx([math.log(12), math.log(10), 0.5])
    assert all(trace["x"] == [0, 300] for trace in figure["data"][-3:])
    labels = [note["text"].replace("<br>", " ") for note in figure["layout"]["annotations"]]
    assert labels == ["uniform guess 2.485", "guess without reading 2.303", "floor 0.500"]


def test_a_floor_that_a_change_has_moved_begins_where_it_was_moved():
    moved = loss_chart(
        [run()], floor=0.5, total_steps=100, earlier_floors=[(0, 40, 2.9), (40, 90, None)]
    )
    lines = [(t["x"], t["y"]) for t in moved["data"] if t["line"].get("dash") == "longdash"]
    assert lines == [([0, 40], [2.9, 2.9]), ([90, 100], [0.5, 0.5])]
    assert moved["layout"]["yaxis"]["range"][1] > 2.9


def beside(figure, share=1.0):
    """(its foot and its head in pixels above the axis, its line) of each label beside a plot.

    Args:
        share: of the height that the figure asks for, where a page makes it smaller.
    """
    layout = figure["layout"]
    low, high = layout["yaxis"]["range"]
    margin = layout["margin"]
    plot = share * (layout["height"] - margin["t"] - margin["b"])
    found = []
    for note in layout["annotations"]:
        if note["xanchor"] == "left" and note["x"] == 1:
            tall = 1.3 * note["font"]["size"] * (note["text"].count("<br>") + 1)
            value = float(note["text"].replace("<br>", " ").split()[-1])
            at = math.log10(value) if layout["yaxis"].get("type") == "log" else value
            level = (at - low) / (high - low) * plot
            middle = note["y"] * plot + note["yshift"]
            found.append((middle - tall / 2, middle + tall / 2, level))
            wide = 0.6 * note["font"]["size"] * max(map(len, note["text"].split("<br>")))
            assert note["xshift"] + wide <= margin["r"] + 12, "it reaches over the edge"
    return found, plot


@pytest.mark.parametrize("size", [sizes(340), sizes(430), sizes(500, projector=True)])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("highest", [2.6, 4.0, 40.0, 1e6])
@pytest.mark.parametrize("floor", [None, 0.0, 1.2, 2.2])
def test_labels_of_the_levels_stand_beside_the_plot_apart_and_at_their_lines(
    floor, highest, log, size
):
    wild = Curve("run", [1, 2, 3], [2.0, math.inf, highest])
    figure = loss_chart(
        [wild], chance=(math.log(12), math.log(10)), floor=floor, log=log, size=size
    )
    n_guesses = 1 if size.projector else 2
    lower = beside(figure, 0.6)[0]
    for (foot, _, _), (_, head, _) in pairwise(lower[:n_guesses]):
        assert head <= foot + 1.5, "they overlap where the page makes it smaller"
    assert lower[-1][0] >= -1.5, "it lies on the labels of the steps"
    labels, plot = beside(figure)
    assert len(labels) == n_guesses + (floor is not None and not (log and not floor))
    for (foot, _, _), (_, head, _) in pairwise(labels):
        assert head <= foot + 1.5, "they overlap"
    assert all(foot >= -1.5 and head <= plot + 36 for foot, head, _ in labels)
    shifts = [abs((foot + head) / 2 - level) for foot, head, level in labels]
    assert max(shifts) <= (head := labels[0][1] - labels[0][0]) * (len(labels) - 0.4)
    if log and highest < 10:
        assert shifts[0] < head, "at its line"


def test_the_plot_stays_where_it_is_whatever_comes_and_goes():
    ghosts = [run(f"an earlier run with a long name {i}", ghost=True) for i in range(3)]
    charts = [
        loss_chart([], chance=(2.4, 2.3)),
        loss_chart([run()], chance=(2.4, 2.3)),
        loss_chart([*ghosts, run(marks=MARKS)], chance=(2.4, 2.3)),
    ]
    assert len({json.dumps([c["layout"]["margin"], c["layout"]["height"]]) for c in charts}) == 1
    health = [
        [
            gradient_chart(steps, dict.fromkeys(names, [1.0] * len(steps)))["layout"]["margin"]
            for steps, names in (([], []), ([1], ["block 1"]), ([1, 2], list("abcdefgh")))
        ],
        [
            entropy_chart(steps, [[1.0] * 8] * len(steps), [[1.0] * 8] * len(steps))["layout"][
                "margin"
            ]
            for steps in ([], [0], [0, 1])
        ],
    ]
    for margins in health:
        assert margins[0] == margins[1] == margins[2]


@pytest.mark.parametrize("name", FIGURES)
def test_every_axis_with_numbers_is_named_in_the_same_small_letters(name):
    layout, letters = FIGURES[name]["layout"], set()
    for key, axis in layout.items():
        numbers = key[1:5] == "axis" and "labelalias" not in axis and "ticktext" not in axis
        if numbers and axis.get("visible", True) and axis.get("showticklabels", True):
            assert axis["title"]["text"], key
            letters |= {axis["title"]["font"]["size"], axis["tickfont"]["size"]}
    assert len(letters) <= 1


def test_equal_chances_are_one_line():
    figure = loss_chart([], chance=(2.0, 2.0))
    assert [trace["y"] for trace in figure["data"]] == [[2.0, 2.0]]


def test_step_axis_reaches_the_planned_end_and_grows_beyond_it():
    assert loss_chart([run(steps=5)], total_steps=300)["layout"]["xaxis"]["range"] == [0, 300]
    assert loss_chart([run(steps=5)], total_steps=2)["layout"]["xaxis"]["range"] == [0, 5]


def test_marks_say_what_changed_at_which_step():
    layout = loss_chart([run(marks=[(2, "scale → <none>")])])["layout"]
    assert layout["shapes"][0]["x0"] == layout["shapes"][0]["x1"] == 2
    assert layout["annotations"][-1]["text"] == "scale → &lt;none>"


def test_labels_of_marks_do_not_overlap_and_the_newest_change_is_said():
    steps = run(steps=300)
    crowded = [(100 + i, f"scale → {i}") for i in range(9)]
    spread = [(30 + 120 * i, f"lr → {i}") for i in range(3)]
    layout = loss_chart([replace(steps, marks=crowded)])["layout"]
    said = {a["text"]: a["yshift"] for a in layout["annotations"] if "→" in a["text"]}
    assert len(set(said.values())) == len(said) < 9 and "scale → 8" in said
    assert all(what in layout["meta"]["alt"] for _, what in crowded)
    layout = loss_chart([replace(steps, marks=spread)])["layout"]
    assert [a["text"] for a in layout["annotations"] if "→" in a["text"]] == [w for _, w in spread]


def test_long_curves_are_thinned_without_losing_an_extreme():
    losses = np.random.default_rng(0).normal(size=20_000)
    losses[777], losses[12_345] = 50.0, -50.0
    indices = kept(list(losses))
    assert len(indices) <= MAX_POINTS + 3
    assert {0, 777, 12_345, 19_999} <= set(indices)
    assert indices == sorted(set(indices))


def test_hidden_lines_are_remembered_by_run_not_by_place():
    alone, later = loss_chart([run("b")]), loss_chart([run("a", ghost=True), run("b")])
    assert [t["uid"] for t in alone["data"]] == [t["uid"] for t in later["data"][3:]]
    assert all(trace["uid"].isalnum() for trace in later["data"])


# --- attention ----------------------------------------------------------------------------------


def test_weights_are_coloured_from_0_to_1_whatever_they_are():
    """XAT-02"""
    for values in (weights(), weights() * 0.01, np.zeros((1, 4, 4))):
        axis = attention_maps(values, TOKENS, TOKENS)["layout"]["coloraxis"]
        assert (axis["cmin"], axis["cmax"]) == (0, 1)
        assert axis["colorbar"]["title"]["text"] == "weights (softmax)"


@pytest.mark.parametrize("stage", ["scores", "scaled", "masked"])
def test_scores_are_coloured_symmetrically_and_labelled_as_scores(stage):
    """XAT-02"""
    axis = attention_maps(SCORES, TOKENS, TOKENS, stage=stage)["layout"]["coloraxis"]
    assert axis["cmin"] == -axis["cmax"]
    assert axis["cmax"] >= np.abs(SCORES).max()
    assert "scores" in axis["colorbar"]["title"]["text"]


def test_huge_negative_fill_does_not_stretch_the_scale():
    """XAT-02"""
    for fill in (-1e9, -np.inf, np.finfo(np.float32).min, np.finfo(np.float16).min):
        figure = attention_maps(np.where(CAUSAL, fill, SCORES), TOKENS, TOKENS, stage="masked")
        assert figure["layout"]["coloraxis"]["cmax"] <= nice_limit(float(np.abs(SCORES).max()))
        assert np.array_equal(np.isnan(figure["data"][0]["z"]), CAUSAL)


@pytest.mark.parametrize("shape", ["query key", "heads query key"])
def test_masked_cells_are_told_apart_from_weight_0(shape):
    """XAT-02"""
    hidden = CAUSAL if shape == "query key" else np.stack([CAUSAL] * 3)
    values = weights()
    values[:, 3, 0] = 0.0
    figure = attention_maps(values, TOKENS, TOKENS, hidden=hidden)
    for head in written(figure)["data"]:
        assert head["z"][0] == [1.0, None, None, None]
        assert head["z"][3][0] == 0.0
        assert head["hovertemplatefallback"] == "hidden by the mask"
    assert len(figure["layout"]["images"]) == 3


def test_before_the_mask_nothing_is_hidden():
    for stage in ("scores", "scaled"):
        figure = attention_maps(SCORES, TOKENS, TOKENS, stage=stage, hidden=CAUSAL)
        assert np.isfinite(figure["data"][0]["z"]).all()
        assert "images" not in figure["layout"]


def test_repeated_tokens_keep_their_places():
    figure = attention_maps(weights(), TOKENS, TOKENS)
    for axis in ("xaxis", "yaxis", "xaxis3", "yaxis3"):
        assert figure["layout"][axis]["labelalias"] == {"1": "a", "2": "b", "3": "a", "4": "␣"}


def test_query_1_is_on_top_and_key_1_on_the_left():
    layout = attention_map(weights()[0], TOKENS, TOKENS)["layout"]
    assert layout["yaxis"]["range"] == [4.5, 0.5]
    assert layout["xaxis"]["range"] == [0.5, 4.5]
    assert layout["yaxis"]["scaleanchor"] == "x"


def test_trace_i_is_head_i_with_its_own_values():
    figure = attention_maps(weights(), TOKENS, TOKENS)
    for head, trace in enumerate(figure["data"]):
        assert np.allclose(trace["z"], weights()[head], atol=1e-4)
        assert trace["name"] == f"head {head + 1}"


def test_chosen_head_is_framed():
    figure = attention_maps(weights(), TOKENS, TOKENS, selected=2)
    assert [shape["xref"] for shape in figure["layout"]["shapes"]] == ["x3 domain"]


def test_values_are_printed_where_there_are_few_cells():
    assert "texttemplate" in attention_map(weights()[0], TOKENS, TOKENS)["data"][0]
    wide = attention_map(np.zeros((30, 30)), ["a"] * 30, ["a"] * 30)
    assert "texttemplate" not in wide["data"][0]


def contrast(one, other):
    """WCAG 2.1, from two colours [red, green, blue]."""
    light = []
    for colour in (one, other):
        channels = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


INKS = {"black": (0, 0, 0), "white": (255, 255, 255)}


@pytest.mark.parametrize("scale", [WEIGHTS_SCALE, SCORES_SCALE])
def test_what_is_printed_in_a_cell_can_be_read_on_each_colour_of_the_scale(scale):
    grounds = colours_at(scale, np.linspace(0, 1, 501))
    for ground, ink in zip(grounds, ink_on(grounds), strict=True):
        assert contrast(ground, INKS[ink]) > 4.5


@pytest.mark.parametrize("stage", ["weights", "scores"])
def test_the_numbers_in_a_map_have_the_ink_of_their_own_cell(stage):
    values = weights()[0] if stage == "weights" else SCORES[0]
    figure = attention_map(values, TOKENS, TOKENS, stage=stage)
    axis, trace = figure["layout"]["coloraxis"], figure["data"][0]
    for row, of_row in zip(trace["text"], values, strict=True):
        for text, value in zip(row, of_row, strict=True):
            share = (value - axis["cmin"]) / (axis["cmax"] - axis["cmin"])
            scale = plotly.colors.sample_colorscale(axis["colorscale"], [float(share)])
            ground = plotly.colors.unlabel_rgb(scale[0])
            ink = "black" if text.startswith('<span style="color:black">') else "white"
            assert contrast(ground, INKS[ink]) > 4.5
            digits = 2 if stage == "weights" else 1
            assert f"{value:.{digits}f}".replace("-", "−") in text
    assert trace["textfont"]["color"] == "white"


def test_the_scale_of_weights_is_viridis():
    for (share, ours), (at, theirs) in zip(
        WEIGHTS_SCALE, plotly.colors.get_colorscale("Viridis"), strict=True
    ):
        assert share == pytest.approx(at)
        assert plotly.colors.unlabel_rgb(ours) == plotly.colors.hex_to_rgb(theirs)


def test_a_part_of_a_map_keeps_the_positions_of_the_whole():
    long = [chr(65 + i % 26) for i in range(64)]
    figure = attention_map(
        np.eye(64)[40:, 40:],
        long[40:],
        long[40:],
        hidden=np.triu(np.ones((24, 24), bool), 1),
        first=(41, 41),
    )
    trace, layout = figure["data"][0], figure["layout"]
    assert (trace["x0"], trace["y0"]) == (41, 41)
    assert layout["xaxis"]["range"] == [40.5, 64.5]
    assert layout["xaxis"]["labelalias"]["41"] == long[40]
    assert (layout["images"][0]["x"], layout["images"][0]["y"]) == (40.5, 40.5)
    assert "(position 41)" in alt_text(figure)


@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize("length", [4, 21, 32, 64])
@pytest.mark.parametrize("kind", ["large", "grid"])
def test_labels_of_tokens_are_never_small_and_do_not_touch(kind, length, projector):
    size = sizes(500 if projector else 430, projector)
    values, tokens, width = np.zeros((4, length, length)), ["x"] * length, 500
    if kind == "large":
        layout = attention_map(values[0], tokens, tokens, width=width, size=size)["layout"]
    else:
        layout = attention_maps(values, tokens, tokens, width=width, size=size)["layout"]
    across, down = layout["xaxis"], layout["yaxis"]
    around = layout["margin"]
    share = [axis.get("domain", [0, 1]) for axis in (across, down)]
    pixels = min(
        (share[0][1] - share[0][0]) * (width - around["l"] - around["r"]),
        (share[1][1] - share[1][0]) * (layout["height"] - around["t"] - around["b"]),
    )
    for axis, needed in ((across, 0.6), (down, 0.9)):
        font = axis["tickfont"]["size"]
        assert font >= (16 if projector else 11)
        assert axis["dtick"] * pixels / length >= needed * font


def test_tokens_stand_at_the_outer_edges_alone():
    figure = attention_maps(np.zeros((5, 4, 4)), TOKENS, TOKENS, columns=3)
    layout = figure["layout"]
    shown = {
        axis: [
            layout[f"{axis}axis{suffix}"]["showticklabels"] for suffix in ("", "2", "3", "4", "5")
        ]
        for axis in "xy"
    }
    # Three maps above, two below: the third has none under it.
    assert shown["x"] == [False, False, True, True, True]
    assert shown["y"] == [True, False, False, True, False]


# --- thumbnails ---------------------------------------------------------------------------------


def cell_under(figure, layer, x, y):
    """The number that a thumbnail shows at a place."""
    trace = figure["data"][layer]
    column, row = (np.searchsorted(trace[axis], at) - 1 for axis, at in (("x", x), ("y", y)))
    return trace["z"][row][column]


def test_every_head_of_every_layer_has_a_place_of_its_own():
    maps = [weights(SCORES * (i + 1)) for i in range(2)]
    figure = thumbnails({f"block {i + 1}": Layer(m, CAUSAL) for i, m in enumerate(maps)})
    for layer, heads in enumerate(maps):
        for head in range(3):
            for query in range(4):
                for key in range(query + 1):
                    x = layer + 1 + (key + 0.5) / 4 - 0.5
                    y = head + 1 + (query + 0.5) / 4 - 0.5
                    shown = cell_under(figure, layer, x, y)
                    assert shown == pytest.approx(heads[head, query, key], abs=0.006)
                    assert head_at(x, y, 2, 3) == head
            assert np.isnan(cell_under(figure, layer, layer + 1.4, head + 0.6))


def test_a_score_that_a_mask_has_overwritten_is_a_gap_in_a_thumbnail_as_in_the_large_map():
    masked = np.where(CAUSAL, -1e9, SCORES)
    (trace,) = thumbnails({"block 1": Layer(masked)}, stage="masked")["data"]
    assert np.nanmin(trace["z"]) == pytest.approx(SCORES[:, ~CAUSAL].min(), abs=0.05)


def test_the_chosen_thumbnail_has_a_frame():
    shapes = FIGURES["thumbnails"]["layout"]["shapes"]
    (frame,) = (shape for shape in shapes if shape["type"] == "rect")
    assert [frame[end] for end in ("x0", "x1", "y0", "y1")] == [1.5, 2.5, 2.5, 3.5]
    assert frame["line"]["color"] == CHOSEN
    assert "block 2, head 3" in alt_text(FIGURES["thumbnails"])


def test_many_layers_of_few_heads_stand_below_each_other():
    figure = thumbnails({f"block {i + 1}": Layer(weights() * (i + 1) / 5) for i in range(5)})
    for layer in range(5):
        for head in range(3):
            x, y = head + 1 - 0.4, layer + 1 - 0.4  # query 1 sees key 1 alone
            assert cell_under(figure, layer, x, y) == pytest.approx((layer + 1) / 5, abs=0.006)
            assert head_at(x, y, 5, 3) == head
    layout = figure["layout"]
    assert layout["yaxis"]["title"]["text"] == "block"
    assert len(layout["yaxis"]["labelalias"]) == 5 and len(layout["xaxis"]["labelalias"]) == 3


def test_layers_of_an_encoder_and_a_decoder_are_named_and_may_have_other_sizes():
    shapes = {"encoder 1": (4, 4), "decoder 1": (5, 5), "cross 1": (5, 4)}
    figure = thumbnails({name: Layer(np.zeros((2, *shape))) for name, shape in shapes.items()})
    assert list(figure["layout"]["yaxis"]["labelalias"].values()) == list(shapes)
    assert [trace["name"] for trace in figure["data"]] == list(shapes)
    for trace, (queries, keys) in zip(figure["data"], shapes.values(), strict=True):
        assert (len(trace["x"]), len(trace["y"])) == (2 * (keys + 1), queries + 1)
    blocks = thumbnails({f"block {i}": Layer(np.zeros((2, 4, 4))) for i in (1, 2)})["layout"]
    assert list(blocks["xaxis"]["labelalias"].values()) == ["1", "2"]
    assert blocks["xaxis"]["title"]["text"] == "block"


def test_a_long_text_is_drawn_in_few_cells_none_of_which_loses_its_largest_weight():
    long = np.zeros((16, 128, 128), dtype=np.float32)
    long[3, 100, 7] = 0.75
    figure = thumbnails({f"block {i + 1}": Layer(long) for i in range(12)})
    cells = sum(np.isfinite(trace["z"]).sum() for trace in figure["data"])
    assert cells <= CELLS_IN_ALL
    assert all(np.nanmax(trace["z"]) == 0.75 for trace in figure["data"])


@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 4), (6, 8), (12, 16)])
def test_thumbnails_take_no_more_height_than_there_is(layers, heads, projector):
    size = sizes(430, projector)
    maps = {f"block {i + 1}": Layer(np.zeros((heads, 21, 21))) for i in range(layers)}
    layout = thumbnails(maps, width=200, size=size)["layout"]
    assert layout["height"] <= 430
    assert layout["xaxis"]["tickfont"]["size"] >= (16 if projector else 11)


def test_scores_that_cannot_be_seen_do_not_stretch_what_all_heads_share():
    for fill in (-1e9, -np.inf, np.nan, np.finfo(np.float16).min):
        maps = [np.where(CAUSAL, fill, SCORES), SCORES * 2]
        assert colour_limit("masked", maps) == nice_limit(2 * float(np.abs(SCORES).max()))


def test_query_and_key_lengths_may_differ():
    figure = attention_maps(np.zeros((2, 3, 5)), list("abc"), list("vwxyz"))
    assert len(figure["layout"]["yaxis"]["labelalias"]) == 3
    assert len(figure["layout"]["xaxis2"]["labelalias"]) == 5


def test_tokens_that_look_like_tags_are_shown_as_they_are():
    figure = attention_maps(np.ones((1, 1, 1)), ["<b>"], ["&"])
    assert figure["layout"]["yaxis"]["labelalias"] == {"1": "&lt;b>"}
    assert figure["layout"]["xaxis"]["labelalias"] == {"1": "&amp;"}


def test_the_maps_handed_in_stay_as_they_are():
    values = weights()
    before = values.copy()
    attention_maps(values, TOKENS, TOKENS, hidden=CAUSAL)
    assert np.array_equal(values, before)


def test_unknown_stage_and_wrong_shape_are_named():
    with pytest.raises(ValueError, match="stage='logits' is none of scores, scaled, masked"):
        attention_maps(SCORES, TOKENS, TOKENS, stage="logits")
    with pytest.raises(ValueError, match="maps has 2 axes"):
        attention_maps(SCORES[0], TOKENS, TOKENS)
    assert list(STAGES) == ["scores", "scaled", "masked", "weights"]


@pytest.mark.parametrize("columns", [None, 2, 4])
@pytest.mark.parametrize("projector", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8, 16])
@pytest.mark.parametrize("height", [None, 200, 430, 900])
def test_maps_stay_inside_the_figure_and_apart(heads, height, projector, columns):
    grid = _grid((heads, 21, 21), columns, 600, sizes(height, projector))
    assert len(grid.domains) == heads
    boxes = []
    for (x0, x1), (y0, y1) in grid.domains:
        assert 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
        boxes.append((round(x0, 9), round(x1, 9), round(y0, 9), round(y1, 9)))
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]


def test_equal_figures_may_be_drawn_twice():
    """XUI-03: two layers before training may be alike; nothing in a figure says which one it is."""
    first, second = (attention_maps(weights(), TOKENS, TOKENS) for _ in range(2))
    assert written(first) == written(second)


def test_scale_limit_is_the_next_round_number():
    assert [nice_limit(x) for x in (0.03, 0.2, 1, 4.4, 7, 51, 0, math.nan)] == pytest.approx(
        [0.05, 0.2, 1, 5, 10, 100, 1, 1]
    )


# --- health and predictions ---------------------------------------------------------------------


def test_gradients_are_on_a_log_axis_where_zero_is_a_gap():
    figure = written(gradient_chart([1, 2, 3], {"embed": [1e-3, 0.0, math.inf], "head": [1, 2, 3]}))
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert figure["data"][0]["y"] == [pytest.approx(1e-3), None, None]
    assert [trace["name"] for trace in figure["data"]] == ["embed", "head"]


def test_entropy_and_largest_weight_have_a_line_for_each_head():
    figure = entropy_chart([0, 10], [[1.0, 0.9], [0.5, 0.1]], [[0.1, 0.2], [0.6, 0.9]])
    assert [np.round(t["y"], 6).tolist() for t in figure["data"]] == [
        [1.0, 0.5],
        pytest.approx([0.9, 0.1]),
        pytest.approx([0.1, 0.6]),
        pytest.approx([0.2, 0.9]),
    ]
    assert [t["yaxis"] for t in figure["data"]] == ["y", "y", "y2", "y2"]
    assert figure["data"][1]["line"]["color"] == figure["data"][3]["line"]["color"]
    assert figure["layout"]["yaxis"]["range"] == figure["layout"]["yaxis2"]["range"]


def test_spread_stands_beside_what_theory_says():
    figure = spread_chart([0, 10], {"block 1": [4.0, 5.0]}, 4.0)
    assert figure["data"][-1]["y"] == [4.0, 4.0]
    assert figure["data"][-1]["name"] == "theory at the start 4.00"
    assert figure["layout"]["showlegend"]


def cards(**changed):
    given = {
        "positions": [11, 12],
        "inputs": ["→", "<i>"],
        "candidates": [["3", "1"], ["2", "4"]],
        "probabilities": [[0.9, 0.1], [0.6, 0.4]],
        "targets": ["3", "4"],
    }
    return prediction_cards(**given | changed)


def test_a_card_says_which_position_is_read_and_whether_the_best_guess_is_right():
    html = cards()
    found = re.findall(r'data-prediction="(\d+)" data-right="(\w+)"', html)
    assert found == [("11", "true"), ("12", "false")]
    assert re.findall(r"</small><b>(.*?)</b>", html) == [f"3 {RIGHT_MARK}", f"4 {WRONG_MARK}"]
    assert "1 of 2 right" in html
    assert "&lt;i&gt;" in html and "<i>" not in html


def test_the_wanted_token_is_framed_among_the_guesses():
    spans = re.findall(r"<span( class=.wanted.)? style=[^>]*>(.*?)</span>", cards())
    said = [re.sub("(<[^>]*>)+", " ", text).strip() for _, text in spans]
    assert said == ["3 90%", "1 10%", "2 60%", "4 40%"]
    assert [bool(framed) for framed, _ in spans] == [True, False, False, True]


def test_every_guess_can_be_read_on_its_colour():
    shares = np.linspace(0, 1, 101)
    html = cards(
        positions=range(1, 102),
        inputs=["a"] * 101,
        candidates=[["b"]] * 101,
        probabilities=shares[:, None],
        targets=["b"] * 101,
    )
    colours = re.findall(r"background: (#\w{6}); color: (\w+)", html)
    assert len(colours) == 101 and len({ground for ground, _ in colours}) > 90
    for ground, ink in colours:
        assert contrast(plotly.colors.hex_to_rgb(ground), INKS[ink]) > 4.5


def test_predictions_that_are_no_numbers_and_examples_without_any_are_said():
    assert "<small>–</small>" in cards(probabilities=[[math.nan, 0.1], [0.6, 0.4]])
    nothing = {"positions": [], "inputs": [], "candidates": [], "targets": []}
    assert "No position" in cards(**nothing, probabilities=[])


def test_figures_need_neither_streamlit_nor_torch():
    code = "import sys, playground.figures; print({'streamlit', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
