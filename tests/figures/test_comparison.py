"""Figures of the Compare page: what goes in is what is drawn, and nothing is drawn twice as one."""

import json
import math

import numpy as np
import orjson
import plotly.graph_objects as go
import pytest

from playground.figures import (
    Band,
    alt_text,
    attention_side_by_side,
    comparison_chart,
    results_bars,
)
from playground.figures.comparison import BAND_POINTS, LEAST_DIFFERENCE, VIEW_LIMIT
from playground.figures.loss import loss_chart, smooth
from playground.figures.style import LAPTOP, RUN_COLOURS, sizes

TOKENS = ["a", "b", "a", "␣"]
CAUSAL = np.triu(np.ones((4, 4), dtype=bool), 1)
OPEN = np.zeros((4, 4), dtype=bool)
SCORES = np.random.default_rng(0).normal(size=(6, 4, 4)).astype(np.float32)
CHANCE = (math.log(12), math.log(10))
PROJECTED = sizes(430, projector=True)
NAMES = ["base", "scale=none", "norm=pre, lr=0.01", "n_heads=8", "<b>", "f"]


def softmax(scores, hidden=CAUSAL):
    grown = np.where(hidden, 0, np.exp(scores))
    return grown / grown.sum(-1, keepdims=True)


def written(figure):
    """The figure as the browser reads it."""
    return json.loads(orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY))


def band(label="base", steps=5, seeds=3, index=0):
    losses = np.random.default_rng(index).uniform(0.5, 2.0, size=(seeds, steps))
    return Band(
        label, range(1, steps + 1), losses.mean(0), losses.min(0), losses.max(0), seeds, index
    )


def six():
    return [band(name, index=i) for i, name in enumerate(NAMES)]


def beside(count=2, **more):
    return attention_side_by_side(
        softmax(SCORES[:count]), NAMES[:count], TOKENS, TOKENS, hidden=CAUSAL, **more
    )


FIGURES = {
    "bands": comparison_chart(six(), chance=CHANCE, floor=0.1, total_steps=300),
    "bands, log": comparison_chart(six()[:2], chance=CHANCE, log=True, size=PROJECTED),
    "bands, one seed": comparison_chart([band(seeds=1)]),
    "bands, one not begun": comparison_chart([band(), Band("later", colour_index=1)]),
    "bands, none": comparison_chart([], chance=CHANCE, total_steps=300),
    "bands, not begun": comparison_chart([Band("base")]),
    "two maps": beside(),
    "six maps": beside(6),
    "six maps, projector": beside(6, size=PROJECTED),
    "maps of scores": attention_side_by_side(SCORES[:2], NAMES[:2], TOKENS, TOKENS, stage="scores"),
    "no maps": attention_side_by_side(np.zeros((0, 4, 4)), [], TOKENS, TOKENS),
    "results": results_bars(
        NAMES[:4], [[0.1, 0.2], [math.nan, 0.3], [math.inf], []], chance=CHANCE, floor=0.05
    ),
    "results, projector": results_bars(["base"], [[0.1, 0.2]], chance=CHANCE, size=PROJECTED),
    "results, none": results_bars([], []),
}


@pytest.mark.parametrize("name", FIGURES)
def test_plotly_accepts_the_figure(name):
    go.Figure(FIGURES[name])
    go.Figure(written(FIGURES[name]))


@pytest.mark.parametrize("name", FIGURES)
def test_figure_says_in_words_what_it_shows(name):
    assert len(alt_text(FIGURES[name])) > 10
    assert "nan" not in alt_text(FIGURES[name])


@pytest.mark.parametrize("name", FIGURES)
def test_zoom_is_kept_from_frame_to_frame(name):
    assert FIGURES[name]["layout"]["uirevision"]


@pytest.mark.parametrize("name", FIGURES)
def test_every_colour_is_one_that_the_component_can_exchange(name):
    neutral = {"#7c7c7d", "#7d7d7e", "#7e7e7f", "#7f7f80"}
    found = {
        text
        for text in json.dumps(written(FIGURES[name])).split('"')
        if text.startswith("#") and len(text) == 7
    }
    assert found <= neutral | set(RUN_COLOURS)


@pytest.mark.parametrize(
    "draw",
    [
        lambda size: comparison_chart([band()], size=size),
        lambda size: beside(size=size),
        lambda size: results_bars(["base"], [[0.1]], size=size),
    ],
)
def test_projector_has_larger_text(draw):
    assert draw(PROJECTED)["layout"]["font"]["size"] > draw(LAPTOP)["layout"]["font"]["size"]


# --- bands --------------------------------------------------------------------------------------


def areas(figure):
    return [trace for trace in figure["data"] if trace.get("fill") == "toself"]


def lines(figure):
    return [trace for trace in figure["data"] if "customdata" in trace]


def test_each_variant_has_its_own_colour_and_its_own_dash():
    drawn = lines(comparison_chart(six()))
    assert len({trace["line"]["color"] for trace in drawn}) == 6
    assert len({trace["line"]["dash"] for trace in drawn}) == 6


def test_colour_and_dash_follow_the_index_not_the_place():
    first = lines(comparison_chart([band(index=2)]))[0]["line"]
    second = lines(comparison_chart([band("other", index=0), band(index=2)]))[1]["line"]
    assert first == second


def test_no_two_of_24_variants_look_alike():
    drawn = lines(comparison_chart([band(str(i), index=i) for i in range(24)]))
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in drawn}) == 24


def test_band_has_the_colour_of_its_line_and_lies_below_all_lines():
    figure = comparison_chart(six())
    filled, drawn = areas(figure), lines(figure)
    for area, line in zip(filled, drawn, strict=True):
        assert area["fillcolor"] == line["line"]["color"]
        assert area["opacity"] <= 0.25
        assert area["legendgroup"] == line["legendgroup"]
    assert figure["data"][:12] == filled + drawn


def test_band_goes_along_the_highest_and_back_along_the_lowest():
    given = band(steps=3)
    area = areas(written(comparison_chart([given])))[0]
    assert area["x"] == [1, 2, 3, 3, 2, 1, None]
    assert area["y"][:6] == pytest.approx([*smooth(given.high), *smooth(given.low)[::-1]], abs=1e-5)


def test_one_seed_has_no_band():
    figure = comparison_chart([band(seeds=1)])
    assert not areas(figure)
    assert "seeds" not in lines(figure)[0]["hovertemplate"]


def test_a_band_is_not_smoothed_across_a_change():
    losses = [1.0] * 30 + [5.0] * 30
    given = Band("run", range(1, 61), losses, losses, losses, marks=(30,))
    assert written(comparison_chart([given]))["data"][0]["y"] == losses


def test_hover_has_the_exact_values_of_each_step_and_the_number_of_seeds():
    given = band(seeds=4)
    line = lines(comparison_chart([given]))[0]
    expected = np.array([given.mean, given.low, given.high]).T
    assert np.allclose(line["customdata"], expected, atol=1e-4)
    assert "4 seeds" in line["hovertemplate"]


def test_every_seed_smoothed_by_itself_lies_within_the_band():
    losses = np.random.default_rng(1).exponential(size=(5, 200))
    given = Band("b", range(200), losses.mean(0), losses.min(0), losses.max(0), 5)
    figure = comparison_chart([given])
    outline = np.array(areas(figure)[0]["y"][:-1])
    high, low = outline[:200], outline[200:][::-1]
    for seed in losses:
        assert (low <= smooth(seed) + 1e-5).all() and (smooth(seed) <= high + 1e-5).all()
    assert np.allclose(lines(figure)[0]["y"], smooth(losses.mean(0)), atol=1e-5)


def test_what_is_not_finite_is_a_gap_in_line_and_band():
    """UI-03"""
    mean = [2.0, math.nan, 1.0, 1.0]
    given = Band("b", [1, 2, 3, 4], mean, [1.0] * 4, [3.0, 3.0, 3.0, math.inf], 2)
    figure = written(comparison_chart([given]))
    first, _, third, _ = smooth([2.0, math.nan, 1.0, math.nan])
    expected = [pytest.approx(first), None, pytest.approx(third), None]
    assert lines(figure)[0]["y"] == expected
    assert areas(figure)[0]["x"] == [1, 1, None, 3, 3, None]


def test_log_axis_has_no_place_for_zero():
    mean = [0.0, 0.0, 0.0, 0.5]  # the first three: smoothed, they stay nothing
    given = Band("b", [1, 2, 3, 4], mean, mean, [2.0] * 4, 2)
    figure = written(comparison_chart([given], log=True))
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert areas(figure)[0]["x"] == [2, 3, 4, 4, 3, 2, None]
    assert lines(figure)[0]["y"] == [None, *map(pytest.approx, smooth(mean)[1:])]


def test_long_curves_keep_points_at_common_steps_and_their_last():
    figure = comparison_chart([band(steps=5000), band("short", steps=777, index=1)])
    long, short = (trace["x"] for trace in lines(figure))
    assert len(long) <= BAND_POINTS + 1 and long[-1] == 5000 and short[-1] == 777
    assert set(short[:-1]) <= set(long)


def test_chance_lines_and_floor_are_those_of_the_loss_chart():
    figure = comparison_chart([band()], chance=CHANCE, floor=0.5, total_steps=300)
    assert [t["y"][0] for t in figure["data"][-3:]] == pytest.approx([*CHANCE, 0.5])
    levels = loss_chart([], chance=CHANCE, floor=0.5)["layout"]["annotations"][:-1]
    said = [note["text"] for note in figure["layout"]["annotations"]]
    assert said == [note["text"] for note in levels]
    assert figure["layout"]["xaxis"]["range"] == [0, 300]


def test_before_the_first_step_the_chart_says_what_to_do():
    assert "Play" in FIGURES["bands, none"]["layout"]["annotations"][-1]["text"]
    assert "Nothing has run yet" in alt_text(FIGURES["bands, not begun"])


def test_a_loss_far_above_chance_does_not_flatten_the_others():
    far = Band("lr=<3>", [1, 2], [2.0, 500.0], [2.0, 400.0], [2.0, 600.0], 2, 1)
    layout = comparison_chart([band(), far], chance=CHANCE)["layout"]
    assert layout["yaxis"]["range"] == [0, VIEW_LIMIT * CHANCE[0]]
    highest = smooth([2.0, 600.0])[1]
    assert layout["annotations"][-1]["text"] == f"↑ lr=&lt;3> goes up to {highest:.4g}"
    go.Figure({"data": [], "layout": layout})
    near = comparison_chart([band()], chance=CHANCE)["layout"]["yaxis"]["range"]
    assert max(CHANCE) <= near[1] < VIEW_LIMIT * CHANCE[0]
    logarithmic = comparison_chart([far], chance=CHANCE, log=True)["layout"]["yaxis"]
    assert 10 ** logarithmic["range"][1] >= highest


def test_hidden_lines_are_remembered_by_variant_not_by_place():
    alone = comparison_chart([band("b", index=1)])
    later = comparison_chart([band("a"), band("b", index=1)])
    ids = [[t["uid"] for t in f["data"] if t.get("name") == "b"] for f in (alone, later)]
    assert ids[0] == ids[1]
    every = [trace["uid"] for trace in comparison_chart(six())["data"]]
    assert len(set(every)) == 12 and all(uid.isalnum() for uid in every)


# --- maps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["weights", "scores", "scaled", "masked"])
@pytest.mark.parametrize("count", [2, 3, 6])
def test_all_variants_share_one_colour_scale(count, stage):
    """XAT-02"""
    values = SCORES[:count] * np.arange(1, count + 1)[:, None, None]
    figure = attention_side_by_side(
        softmax(values) if stage == "weights" else values,
        NAMES[:count],
        TOKENS,
        TOKENS,
        stage=stage,
    )
    assert [trace["coloraxis"] for trace in figure["data"][:count]] == ["coloraxis"] * count
    axis = figure["layout"]["coloraxis"]
    if stage == "weights":
        assert (axis["cmin"], axis["cmax"]) == (0, 1)
    else:
        assert axis["cmin"] == -axis["cmax"] <= -np.abs(values).max()


def test_trace_i_is_variant_i_and_the_difference_is_the_last():
    figure = beside()
    first, second = softmax(SCORES[:2])
    for trace, values in zip(figure["data"], (first, second, second - first), strict=True):
        assert np.allclose(trace["z"][~CAUSAL], values[~CAUSAL], atol=1e-4)
    assert [trace["name"] for trace in figure["data"]] == ["base", "scale=none", "difference"]


def test_difference_has_its_own_symmetric_scale_that_says_what_is_subtracted():
    axis = beside()["layout"]["coloraxis2"]
    assert axis["cmin"] == -axis["cmax"]
    assert axis["cmax"] >= np.abs(np.diff(softmax(SCORES[:2]), axis=0)).max()
    assert axis["colorbar"]["title"]["text"] == "scale=none − base"
    assert axis["colorbar"]["x"] != beside()["layout"]["coloraxis"]["colorbar"]["x"]


@pytest.mark.parametrize("count", [1, 3, 6])
def test_no_difference_unless_there_are_exactly_two(count):
    figure = beside(count)
    assert len(figure["data"]) == count
    assert "coloraxis2" not in figure["layout"]


def test_equal_maps_differ_by_nothing_and_noise_is_not_blown_up():
    noise = np.stack([softmax(SCORES[0]), softmax(SCORES[0]) + 1e-7])
    figure = attention_side_by_side(noise, NAMES[:2], TOKENS, TOKENS)
    assert figure["layout"]["coloraxis2"]["cmax"] == LEAST_DIFFERENCE
    assert np.allclose(figure["data"][-1]["z"], 0)


def test_cells_hidden_in_both_are_hidden_in_the_difference():
    """XAT-02"""
    figure = beside()
    last = written(figure)["data"][-1]
    assert last["z"][0][1:] == [None] * 3
    assert last["text"][0][1:] == [""] * 3
    assert last["hovertemplatefallback"] == "hidden by the mask"
    stripes = figure["layout"]["images"][-1]
    assert stripes["xref"] == "x3"
    assert stripes["source"].count("M1 0h3v1h-3zM2 1h2v1h-2zM3 2h1v1h-1z") == 2


def test_a_weight_hidden_in_one_counts_as_zero():
    values = np.stack([softmax(SCORES[0]), softmax(SCORES[1], OPEN)])
    figure = attention_side_by_side(
        values, NAMES[:2], TOKENS, TOKENS, hidden=np.stack([CAUSAL, OPEN])
    )
    first, second, apart = (trace["z"] for trace in figure["data"])
    assert np.array_equal(np.isnan(first), CAUSAL) and np.isfinite(second).all()
    assert np.allclose(apart[CAUSAL], values[1][CAUSAL], atol=1e-4)
    assert [image["xref"] for image in figure["layout"]["images"]] == ["x"]
    assert figure["data"][-1]["text"][0][1].endswith("− 0")


def test_a_score_hidden_in_one_has_no_difference():
    values = np.stack([np.where(CAUSAL, -1e9, SCORES[0]), SCORES[1]])
    figure = attention_side_by_side(values, NAMES[:2], TOKENS, TOKENS, stage="masked")
    assert np.array_equal(np.isnan(figure["data"][-1]["z"]), CAUSAL)
    assert figure["layout"]["coloraxis2"]["cmax"] < 100


def test_difference_hover_shows_both_values():
    values = np.full((2, 1, 1), 0.25)
    values[1] = 0.75
    trace = attention_side_by_side(values, NAMES[:2], ["q"], ["k"])["data"][-1]
    assert trace["text"] == [[" = 0.750 − 0.250"]]


def test_maps_handed_in_stay_as_they_are():
    values = softmax(SCORES[:2])
    before = values.copy()
    attention_side_by_side(values, NAMES[:2], TOKENS, TOKENS, hidden=CAUSAL)
    assert np.array_equal(values, before)


def test_long_titles_stay_within_their_maps():
    long = ["schedule=cosine, warmup=30, norm=pre, position=rotary, n_heads=<8>"] * 6
    figure = attention_side_by_side(softmax(SCORES), long, TOKENS, TOKENS, width=700)
    for title in figure["layout"]["annotations"]:
        parts = title["text"].split("<br>")
        assert len(parts) == 2
        assert all(len(part) * 0.55 * title["font"]["size"] < 240 for part in parts)
    assert figure["data"][0]["name"].endswith("n_heads=&lt;8>")


def test_alt_names_the_largest_difference():
    values = np.zeros((2, 4, 4))
    values[0, 2, 1], values[1, 3, 0] = 0.2, 0.9
    text = alt_text(attention_side_by_side(values, NAMES[:2], TOKENS, TOKENS))
    assert "Largest difference, scale=none minus base: 0.90, from “␣” (position 4)" in text


def test_what_does_not_fit_together_is_named():
    with pytest.raises(ValueError, match="maps has 2 axes; it needs three: variants, query, key"):
        attention_side_by_side(SCORES[0], ["base"], TOKENS, TOKENS)
    with pytest.raises(ValueError, match="1 titles for 2 maps"):
        attention_side_by_side(SCORES[:2], ["base"], TOKENS, TOKENS)
    with pytest.raises(ValueError, match="2 labels for 1 lists"):
        results_bars(["a", "b"], [[0.1]])


# --- results ------------------------------------------------------------------------------------


def dots(figure):
    return [
        t
        for t in figure["data"]
        if t["type"] == "scatter"
        and "symbol" in t.get("marker", {})
        and isinstance(t["marker"]["symbol"], list)
    ]


def texts(figure):
    return [note["text"] for note in figure["layout"]["annotations"]]


def test_one_dot_for_each_seed_and_a_bar_to_their_mean():
    finals = [[0.1, 0.3, 0.2], [1.0, 2.0]]
    figure = results_bars(["base", "scale=none"], finals)
    for trace, losses in zip(dots(figure), finals, strict=True):
        assert trace["x"].tolist() == pytest.approx(losses)
    bars = [trace for trace in figure["data"] if trace["type"] == "bar"]
    assert [bar["x"][0] for bar in bars] == pytest.approx([0.2, 1.5])
    assert "<b>0.200</b>" in texts(figure) and "<b>1.500</b>" in texts(figure)


def test_results_have_the_colours_of_their_curves():
    names, curves = ["a", "b", "c"], lines(comparison_chart([band(index=i) for i in range(3)]))
    colours = [t["marker"]["color"] for t in dots(results_bars(names, [[1.0], [2.0], [3.0]]))]
    assert colours == [line["line"]["color"] for line in curves] == list(RUN_COLOURS[:3])


def test_equal_losses_of_several_seeds_are_seen_to_be_several():
    assert len(set(dots(results_bars(["a"], [[0.5, 0.5, 0.5]]))[0]["y"])) == 3


def test_diverged_seeds_are_counted_and_left_out_of_the_mean():
    figure = results_bars(["a", "b", "c"], [[0.5, math.inf], [math.nan] * 2, []])
    assert {"<b>0.500</b>", "1 of 2 diverged", "2 of 2 diverged", "no result yet"} <= set(
        texts(figure)
    )
    assert "a: mean 0.500, 1 of 2 seeds diverged; b: 2 of 2 seeds diverged" in alt_text(figure)


def test_chance_and_floor_stand_above_the_plot_and_apart():
    """Close lines have their labels in two rows; a far one shares a row."""
    notes = results_bars(["a"], [[0.5]], chance=CHANCE, floor=0.01)["layout"]["annotations"]
    labels = {note["text"]: note["yshift"] for note in notes if "yshift" in note}
    assert list(labels) == [
        "floor 0.010",
        "guess without reading 2.303",
        "uniform guess 2.485",
    ]
    assert labels["floor 0.010"] == labels["guess without reading 2.303"] == 0
    assert labels["uniform guess 2.485"] > 0
    assert "chance 2.000" in texts(results_bars(["a"], [[0.5]], chance=(2.0, 2.0)))


def test_a_result_far_above_chance_is_an_arrow_with_its_number():
    figure = results_bars(["a"], [[0.5, 900.0]], chance=CHANCE)
    end = figure["layout"]["xaxis"]["range"][1]
    assert end == VIEW_LIMIT * CHANCE[0]
    assert dots(figure)[0]["x"].tolist() == pytest.approx([0.5, end])
    assert dots(figure)[0]["marker"]["symbol"] == ["circle", "triangle-right"]
    assert "900" in dots(figure)[0]["text"][1]


def test_labels_are_shown_as_they_are():
    assert "&lt;b>" in texts(results_bars(["<b>"], [[0.5]]))


def test_an_empty_chart_says_what_the_runs_wait_for():
    figure = comparison_chart([], empty="waiting: place 3 in the queue")
    assert [note["text"] for note in figure["layout"]["annotations"]][-1].startswith("waiting")
    begun = comparison_chart([band(seeds=1)], empty="waiting: place 3 in the queue")
    assert "waiting" not in str(begun["layout"]["annotations"])
