"""The lookup: every number on the page against the formula in loops, and its figures."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import orjson
import plotly.graph_objects as go
import pytest

from core.config import ModelConfig, TrainConfig
from core.model import build_model
from core.tasks import TASKS
from core.train import Trainer
from helpers import find, fine, opened, plain, texts
from playground.figures import style
from playground.figures.style import LAPTOP, Sizes, alt_text, sizes
from playground.ideas.attention.figures import (
    Bars,
    dictionary_picture,
    found_picture,
    map_picture,
    output_picture,
    sentence_line,
    vectors_picture,
)
from playground.ideas.attention.measure import (
    LONGEST_WORD,
    MOST_WORDS,
    Meeting,
    ask,
    asked,
    between,
    blend,
    flatten,
    hull,
    largest,
    link,
    look,
    loss_of_a_guess,
    repeated_word,
    words_of,
)

WORDS = ("the", "cat", "sat", "on", "the", "mat")


# --- one query through a model --------------------------------------------------------------


def spelled_out(words, d_model, n_heads, scaled, causal, positions, seed):
    """Equation 1 in float64 and in loops, from the parameters of the same model."""
    vocabulary = list(dict.fromkeys(words))
    config = ModelConfig(
        vocab_size=1 + len(vocabulary),
        max_len=MOST_WORDS,
        d_model=d_model,
        n_heads=n_heads,
        n_layers=1,
    )
    parts = {
        name: p.detach().double().numpy()
        for name, p in build_model(config, seed).named_parameters()
    }
    table, packed = parts["embed.tokens.weight"], parts["blocks.0.attention.qkv.weight"]
    x = np.array([table[1 + vocabulary.index(word)] * math.sqrt(d_model) for word in words])
    if positions:
        for t in range(len(words)):
            for i in range(0, d_model, 2):
                angle = t / 10_000 ** (i / d_model)
                x[t, i] += math.sin(angle)
                x[t, i + 1] += math.cos(angle)
    d_head = d_model // n_heads
    found = {"x": x, "q": [], "k": [], "v": [], "weights": [], "z": []}
    for head in range(n_heads):
        q, k, v = (
            x @ packed[i * d_model + head * d_head : i * d_model + (head + 1) * d_head].T
            for i in range(3)
        )
        weights = np.zeros((len(words), len(words)))
        for i in range(len(words)):
            seen = range(i + 1) if causal else range(len(words))
            powers = {
                j: math.exp(sum(q[i] * k[j]) / (math.sqrt(d_head) if scaled else 1)) for j in seen
            }
            for j in seen:
                weights[i, j] = powers[j] / sum(powers.values())
        for name, value in zip("qkv", (q, k, v), strict=True):
            found[name].append(value)
        found["weights"].append(weights)
        found["z"].append(weights @ v)
    return found


CHOICES = [
    (8, 2, True, False, True, 0),
    (4, 4, False, True, False, 3),
    (64, 1, True, True, True, 1),
    (16, 8, False, False, False, 2),
]


@pytest.mark.parametrize("choice", CHOICES)
def test_every_number_is_that_of_the_formula(choice):
    found, expected = look(WORDS, *choice), spelled_out(WORDS, *choice)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), np.array(value), rtol=1e-4, atol=1e-5)
    assert found.d_head == choice[0] // choice[1]
    assert found.scale == pytest.approx(found.d_head**-0.5 if choice[2] else 1)
    np.testing.assert_allclose(found.token + found.position, found.x, atol=1e-6)
    np.testing.assert_allclose(found.scores * found.scale, found.scaled, rtol=1e-5)
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-6)
    after = np.triu(np.ones((len(WORDS), len(WORDS)), dtype=bool), 1)
    assert (found.hidden == (after if choice[3] else False)).all()
    assert (found.weights[:, found.hidden] == 0).all()


def test_a_word_that_repeats_has_one_vector_and_positions_tell_it_apart():
    with_, without = (look(WORDS, 8, 2, True, False, positions, 0) for positions in (True, False))
    assert repeated_word(WORDS) == (0, 4)
    assert repeated_word(("a", "b")) is None
    assert repeated_word("abcb") == (1, 3)
    for found in (with_, without):
        assert (found.token[0] == found.token[4]).all()
        assert (found.token[0] != found.token[1]).all()
    assert np.abs(with_.k[:, 0] - with_.k[:, 4]).max() > 0.1
    np.testing.assert_allclose(without.k[:, 0], without.k[:, 4], atol=1e-6)
    np.testing.assert_allclose(without.weights[:, :, 0], without.weights[:, :, 4], atol=1e-6)
    assert not without.position.any() and with_.position.any()


@pytest.mark.parametrize("choice", CHOICES)
def test_a_cell_is_worked_out_from_its_query_and_its_key(choice):
    found = look(WORDS, *choice)
    for head, query, key in itertools.product(range(choice[1]), range(6), range(6)):
        cell = Meeting(found, head, query, key).cell()
        assert len(cell.products) == found.d_head
        for i, product in enumerate(cell.products):
            assert product == pytest.approx(found.q[head, query, i] * found.k[head, key, i])
        assert cell.score == pytest.approx(found.scores[head, query, key], abs=1e-4)
        assert cell.scaled == pytest.approx(cell.score * found.scale)
        assert cell.hidden == (choice[3] and key > query)
        assert cell.power == (0 if cell.hidden else pytest.approx(math.exp(cell.scaled)))
        assert cell.weight == pytest.approx(cell.power / cell.total)
        assert cell.weight == pytest.approx(found.weights[head, query, key], abs=1e-5)


def test_of_many_products_the_largest_are_shown_in_their_order():
    products = np.array([0.1, -5.0, 0.3, 2.0, -0.2])
    assert largest(products, 5) == largest(products, 9) == [0, 1, 2, 3, 4]
    assert largest(products, 3) == [1, 2, 3]
    assert largest(products, 1) == [1]


def test_words_are_parted_by_spaces_and_written_small():
    assert words_of("  The cat,\tthe\nMAT ") == ("the", "cat,", "the", "mat")
    assert words_of("Ünïcode 😀") == ("ünïcode", "😀")
    assert len(words_of("a " * MOST_WORDS)) == MOST_WORDS


@pytest.mark.parametrize(
    "text, said",
    [
        ("one", "1 word; 2 to 12"),
        ("   ", "0 words; 2 to 12"),
        ("a " * 13, "13 words; 2 to 12"),
        ("x" * 400 + " y", "400 characters; a word may have 14"),
        ("a b\u0007c", "can be seen"),
    ],
)
def test_words_that_cannot_be_used_are_refused_with_the_rule(text, said):
    with pytest.raises(ValueError, match="words “") as refused:
        words_of(text)
    assert said in str(refused.value) and len(str(refused.value)) < 150
    assert "\u0007" not in str(refused.value)


def test_the_longest_sentence_of_the_longest_words_is_looked_at():
    words = words_of(" ".join("abcdefghijkl"[i] * LONGEST_WORD for i in range(MOST_WORDS)))
    assert look(words, 4, 1, True, True, True, 0).weights.shape == (1, MOST_WORDS, MOST_WORDS)


# --- where the output lies ------------------------------------------------------------------


def turn(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def in_a_triangle(point, corners):
    turns = [turn(corners[i], corners[(i + 1) % 3], point) for i in range(3)]
    return all(t >= 0 for t in turns) or all(t <= 0 for t in turns)


@pytest.mark.parametrize("seed", range(6))
def test_the_hull_has_the_points_that_lie_in_no_triangle_of_others(seed):
    points = np.random.default_rng(seed).normal(size=(9, 2))
    corners = {
        i
        for i in range(9)
        if not any(
            in_a_triangle(points[i], points[list(three)])
            for three in itertools.combinations([j for j in range(9) if j != i], 3)
        )
    }
    found = hull(points)
    assert set(found) == corners and len(found) == len(corners)
    ring = [*found, found[0], found[1]]
    assert all(turn(*points[ring[i : i + 3]]) > 0 for i in range(len(found))), "anticlockwise"


@pytest.mark.parametrize(
    "points, corners",
    [
        ([[0, 0], [1, 1], [2, 2], [1, 1]], {0, 2}),
        ([[3, 3], [3, 3]], {0}),
        ([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5], [1, 0]], {0, 2, 3}),
        ([[2, 1]], {0}),
    ],
)
def test_the_hull_of_points_on_a_line_or_on_one_spot(points, corners):
    found = hull(np.array(points, dtype=float))
    assert corners <= set(found) and len(found) == len({tuple(points[i]) for i in found})
    assert 4 not in found


def test_a_flat_picture_keeps_distances_of_a_flat_cloud_and_blends_the_same_way():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(7, 2)) @ rng.normal(size=(2, 5)) + rng.normal(size=5)
    weights = rng.dirichlet(np.ones(7))
    points, z, axes = flatten(plane, weights @ plane)
    far = lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1)  # noqa: E731
    np.testing.assert_allclose(far(points), far(plane), atol=1e-9)
    np.testing.assert_allclose(weights @ points, z, atol=1e-9)
    assert np.var(points[:, 0]) > np.var(points[:, 1])
    shares = [int(axis.split("(")[1].split("%")[0]) for axis in axes]
    assert sum(shares) in (99, 100, 101) and shares[0] > shares[1]


@pytest.mark.parametrize("width", [1, 2])
def test_narrow_values_are_shown_in_their_own_dimensions(width):
    values = np.arange(4.0 * width).reshape(4, width)
    points, z, _ = flatten(values, values.mean(0))
    assert points.shape == (4, 2) and (points[:, :width] == values).all()
    assert z[:width].tolist() == values.mean(0).tolist()


def test_two_equal_values_have_a_flat_picture_too():
    points, _, _ = flatten(np.ones((2, 4)), np.ones(4))
    assert np.isfinite(points).all()


@pytest.mark.parametrize("choice", CHOICES)
def test_the_output_lies_inside_the_hull_and_the_box_of_the_values_it_sees(choice):
    found = look(WORDS, *choice)
    for head, query in itertools.product(range(choice[1]), range(6)):
        at = blend(found, head, query)
        assert at.inside == found.d_head
        assert not found.hidden[query][at.outline].any()
        if len(at.outline) > 2:
            ring = [*at.outline, at.outline[0]]
            edges = itertools.pairwise(ring)
            assert all(turn(at.points[a], at.points[b], at.z) > -1e-4 for a, b in edges)


def test_an_output_that_is_no_blend_is_found_outside():
    found = look(WORDS, 8, 2, True, True, True, 0)
    far = replace(found, z=found.z + np.array([0, 100, 0, -100], dtype=np.float32))
    at = blend(far, 0, 5)
    assert at.inside == 2
    # The first query of a causal mask sees itself only; the value of another word is outside.
    swapped = replace(found, z=found.v[:, ::-1])
    assert blend(found, 1, 0).inside == 4 > blend(swapped, 1, 0).inside


# --- a dictionary by hand -------------------------------------------------------------------


@pytest.mark.parametrize("angle, length", [(60, 4), (200, 0.5), (0, 16)])
def test_a_dictionary_answers_by_the_formula(angle, length):
    angles, values = (30.0, 90.0, 180.0), (2.0, 5.0, 9.0)
    scores = [length * math.cos(math.radians(angle - a)) / math.sqrt(2) for a in angles]
    total = sum(map(math.exp, scores))
    answer = ask(angles, values, float(angle), float(length))
    assert answer.scores == pytest.approx(scores)
    assert answer.weights == pytest.approx([math.exp(s) / total for s in scores])
    assert answer.result == pytest.approx(
        sum(w * v for w, v in zip(answer.weights, values, strict=True))
    )
    assert answer.mean == pytest.approx(16 / 3)


def test_a_long_query_looks_up_one_between_two_blends_and_one_of_no_length_finds_the_mean():
    angles, values = (30.0, 90.0, 180.0, 270.0), (2.0, 5.0, 9.0, 12.0)
    assert ask(angles, values, 90.0, 16.0).result == pytest.approx(5, abs=0.05)
    assert ask(angles, values, between(30, 90), 16.0).result == pytest.approx(3.5, abs=0.01)
    assert ask(angles, values, 77.0, 0.0).result == pytest.approx(7)


@pytest.mark.parametrize(
    "one, other, middle", [(30, 90, 60), (90, 30, 60), (330, 30, 0), (270, 30, 330)]
)
def test_between_two_angles_is_the_short_way_round(one, other, middle):
    assert between(one, other) == middle


# --- a lookup that is learnt ----------------------------------------------------------------


def test_the_value_asked_for_is_the_one_behind_its_letter():
    assert asked(list("a3b7c5→b")) == 3
    task = TASKS["recall"]()
    batch = task.probe("decoder")
    tokens = task.decode(batch.inputs[0][0])
    answer = task.decode(batch.targets[0][-1:])
    assert tokens[asked(tokens)] == answer[0]


def test_a_guess_among_the_values_loses_what_counting_all_rows_gives():
    task = TASKS["recall"](symbols=3, length=4)
    losses = [
        -math.log(row.count(row[at]) / 4)
        for row in itertools.product(range(3), repeat=4)
        for at in range(4)
    ]
    assert loss_of_a_guess(task) == pytest.approx(sum(losses) / len(losses))
    assert loss_of_a_guess(TASKS["recall"]()) < math.log(4) < TASKS["recall"]().blind()


def test_the_link_is_the_mean_weight_of_a_value_for_its_letter():
    weights = np.zeros((6, 6))  # a3b7→a
    weights[1, 0], weights[3, 2], weights[2, 1], weights[5, 4] = 0.8, 0.4, 1, 1
    assert link(weights) == pytest.approx(0.6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_two_blocks_learn_the_lookup_that_one_cannot(seed):
    task = TASKS["recall"]()
    losses, shares = [], []
    for n_layers in (2, 1):
        config = ModelConfig.for_task(task, n_heads=1, n_layers=n_layers)
        trainer = Trainer(config, task, TrainConfig(steps=400, seed=seed))
        for _ in trainer:
            pass
        losses.append(trainer.evaluate().loss)
        probe = task.probe("decoder").inputs
        row = trainer.look(*probe)[f"blocks.{n_layers - 1}.attention.weights"][0, 0, -1]
        shares.append(row[asked(task.decode(probe[0][0]))].item())
    assert losses[0] < 0.05 < loss_of_a_guess(task) < losses[1]
    assert shares[0] > 0.9 > 0.6 > shares[1]


# --- figures --------------------------------------------------------------------------------

HIDDEN = np.triu(np.ones((3, 3), dtype=bool), 1)
WEIGHTS = np.array([[1, 0, 0], [0.4, 0.6, 0], [0.2, 0.5, 0.3]])
SCORES = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0], [-1.0, 0.2, 0.3]])
NAMES = ("<b>", "b", "&c")
BARS = Bars("heading", NAMES, [0.2, math.nan, 0.3], ["1", "2", "3"], 1)


def pictures(size: Sizes = LAPTOP) -> dict[str, dict]:
    shared = {"size": size}
    matrix = np.arange(12.0).reshape(3, 4)
    return {
        "vectors": vectors_picture(
            {"q": matrix, "k": -matrix}, NAMES, marks={"k": 1}, signs="+", **shared
        ),
        "weights": map_picture(
            WEIGHTS, NAMES, BARS, stage="weights", hidden=HIDDEN, query=2, key=1, **shared
        ),
        "scores": map_picture(
            SCORES, NAMES, BARS, stage="scores", hidden=HIDDEN, query=0, key=2, **shared
        ),
        "output": output_picture(
            matrix,
            WEIGHTS[1],
            WEIGHTS[1] @ matrix,
            NAMES,
            HIDDEN[1],
            flat=[[0, 0], [1, 1], [2, 0]],
            at_z=[0.6, 0.6],
            axes=("one", "two"),
            outline=[0, 1],
            **shared,
        ),
        "dictionary": dictionary_picture(
            NAMES,
            [0, 90, 180],
            [2, 5, 9],
            [0.7, 0.2, 0.1],
            angle=45,
            length=8,
            result=3.3,
            mean=5.3,
            **shared,
        ),
        "found": found_picture(
            [WEIGHTS, WEIGHTS], ["one", "two"], NAMES, HIDDEN, value=1, **shared
        ),
    }


@pytest.mark.parametrize("name", pictures())
def test_figures_are_plotlys_speak_grow_on_a_projector_and_keep_to_the_styles_colours(name):
    figure, large = pictures()[name], pictures(sizes(340, projector=True))[name]
    go.Figure(figure)
    assert len(alt_text(figure)) > 40
    assert large["layout"]["font"]["size"] > figure["layout"]["font"]["size"]
    text = orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    used = {part[:7] for part in text.split('"') if part.startswith("#") and len(part) == 7}
    own = {*style.RUN_COLOURS, style.TEXT, style.MUTED, style.GRID, style.HIDDEN}
    assert used <= own
    assert "<b></b>" not in text and '"<b>"' not in json.dumps(json.loads(text)["data"]), "escaped"


def frames(figure):
    return [
        (s["x0"], s["x1"], s["y0"], s["y1"])
        for s in figure["layout"]["shapes"]
        if s["type"] == "rect"
    ]


def test_a_map_frames_the_row_and_the_cell_and_shows_that_rows_sum_to_one():
    figure = pictures()["weights"]
    drawn = np.asarray(figure["data"][0]["z"])
    assert np.isnan(drawn[HIDDEN]).all()
    np.testing.assert_allclose(drawn[~HIDDEN], WEIGHTS[~HIDDEN])
    assert frames(figure) == [(0.5, 3.5, 2.5, 3.5), (1.5, 2.5, 2.5, 3.5)]
    sums = [note["text"] for note in figure["layout"]["annotations"] if note["text"][0] == "Σ"]
    assert sums == ["Σ 1.00"] * 3
    scale = figure["layout"]["coloraxis"]
    assert (scale["cmin"], scale["cmax"], scale["colorscale"]) == (0, 1, style.WEIGHTS_SCALE)


def test_scores_exist_before_the_mask_and_are_coloured_around_zero():
    figure = pictures()["scores"]
    np.testing.assert_allclose(np.asarray(figure["data"][0]["z"]), SCORES)
    scale = figure["layout"]["coloraxis"]
    assert scale["cmin"] == -scale["cmax"] == -5 and scale["colorscale"] == style.SCORES_SCALE
    assert not any(note["text"].startswith("Σ") for note in figure["layout"]["annotations"])


def test_the_bars_stand_beside_the_map_with_their_texts_and_what_they_were():
    bars = pictures()["weights"]["data"][1]
    np.testing.assert_allclose(np.asarray(bars["x"]), [0.2, np.nan, 0.3], rtol=1e-6)
    assert bars["text"] == ["1", "2", "3"] and bars["xaxis"] == "x2"
    axis = pictures()["weights"]["layout"]["yaxis2"]
    assert list(axis["labelalias"].values()) == ["&lt;b>", "<b>b</b>", "&amp;c"]
    before = Bars("h", NAMES, [1.0, 2.0, 3.0], ["", "", ""], None, [2.0, 4.0, -6.0])
    figure = map_picture(SCORES, NAMES, before, stage="scaled", hidden=HIDDEN, query=0, key=0)
    assert np.asarray(figure["data"][1]["x"]).tolist() == [2, 4, -6]
    assert figure["layout"]["xaxis2"]["range"][1] > 6


def test_vectors_share_a_scale_and_print_numbers_where_there_is_room():
    figure = vectors_picture(
        {"narrow": np.ones((3, 4)), "wide": np.full((3, 9), -3.0)}, NAMES, marks={"narrow": 2}
    )
    narrow, wide = figure["data"]
    assert plain(narrow)[0][0] == "1.00" and "texttemplate" not in wide
    assert figure["layout"]["coloraxis"]["cmin"] == -5
    assert frames(figure) == [(-0.5, 3.5, 1.5, 2.5)]


def test_the_output_is_the_sum_of_the_rows_above_it():
    figure = pictures()["output"]
    parts, z = (np.asarray(figure["data"][i]["z"]) for i in (0, 1))
    np.testing.assert_allclose(np.nansum(parts, 0), z[0], atol=1e-3)
    assert np.isnan(parts[2]).all() and not np.isnan(parts[:2]).any()
    outline = next(t for t in figure["data"] if t["name"] == "hull")
    assert outline["x"][0] == outline["x"][-1] and len(outline["x"]) == 3
    seen = next(t for t in figure["data"] if t["name"] == "values")
    small, large = seen["marker"]["size"]
    assert (large / small) ** 2 == pytest.approx(0.6 / 0.4), "the area is the weight"
    assert list(next(t for t in figure["data"] if t["name"] == "hidden")["x"]) == [2]
    assert figure["layout"]["yaxis"]["ticktext"] == [
        "0.40 × v(&lt;b>)",
        "0.60 × v(b)",
        "v(&amp;c): hidden",
        "<b>sum = z</b>",
    ]


def test_values_on_one_spot_share_a_label():
    values = np.ones((3, 2))
    figure = output_picture(
        values,
        [0.2, 0.3, 0.5],
        [1, 1],
        ("a", "b", "a"),
        [False] * 3,
        flat=[[0, 0], [1, 1], [0, 0]],
        at_z=[0.3, 0.3],
        axes=("x", "y"),
        outline=[0, 1],
    )
    assert next(t for t in figure["data"] if t["name"] == "values")["text"] == ["a + a", "b", ""]


def test_a_dictionary_shows_its_keys_as_arrows_and_cuts_a_long_query():
    figure = pictures()["dictionary"]
    arrows = [note for note in figure["layout"]["annotations"] if note.get("showarrow")]
    query, *keys = arrows
    assert [(round(a["x"], 6), round(a["y"], 6)) for a in keys] == [(1, 0), (0, 1), (-1, 0)]
    assert query["x"] == pytest.approx(query["y"]) and math.hypot(query["x"], query["y"]) < 1.5
    assert any(
        "length of the query 8, drawn shorter" in n["text"] for n in figure["layout"]["annotations"]
    )
    weights, values, result = figure["data"]
    assert np.asarray(weights["y"]).tolist() == pytest.approx([0.7, 0.2, 0.1])
    assert weights["marker"]["color"] == values["marker"]["color"], "one colour a key"
    assert result["y"] == [3.3, 3.3] and "3.30" in alt_text(figure)
    short = dictionary_picture(
        NAMES, [0, 90, 180], [2, 5, 9], [0.4, 0.3, 0.3], angle=0, length=0.5, result=1, mean=1
    )
    query = next(note for note in short["layout"]["annotations"] if note.get("showarrow"))
    assert (query["x"], query["y"]) == (0.5, 0)
    assert not any("drawn shorter" in note["text"] for note in short["layout"]["annotations"])


def test_after_training_the_asking_row_and_the_value_are_framed_in_each_map():
    figure = pictures()["found"]
    assert len(figure["data"]) == 2
    assert frames(figure) == [(0.5, 3.5, 2.5, 3.5), (1.5, 2.5, 2.5, 3.5)] * 2
    assert {s["xref"] for s in figure["layout"]["shapes"]} == {"x", "x2"}


# --- the sentence ---------------------------------------------------------------------------


def test_the_sentence_shows_each_word_its_weight_and_what_is_hidden():
    line = sentence_line(["<i>", "b", "c"], [0.25, 0.75, 0.0], [False, False, True], query=1)
    assert "&lt;i&gt;" in line and "<i>" not in line
    assert line.count("underline #") == 1 and line.index("underline") > line.index("&lt;i&gt;")
    assert ">0.25<" in line and ">0.75<" in line and ">hidden<" in line and "0.00" not in line
    assert f"background: {style.as_hex(style.colours_at(style.WEIGHTS_SCALE, 0.75))}" in line


# --- the page -------------------------------------------------------------------------------


def test_next_and_back_walk_through_the_stages_of_the_link():
    test = opened("lookup", lookup_stage="embed")
    assert test.button(key="lookup_back").disabled
    stages = []
    while not test.button(key="lookup_next").disabled:
        stages.append(find(test, "button_group", "lookup_stage").value)
        fine(test.button(key="lookup_next").click().run())
    assert stages == ["embed", "vectors", "scores", "scaled", "masked", "weights"]
    assert find(test, "button_group", "lookup_stage").value == "z"
    fine(test.button(key="lookup_back").click().run())
    assert find(test, "button_group", "lookup_stage").value == "weights"


def test_own_words_are_looked_at_or_refused_with_the_rule():
    test = opened("lookup", lookup_words="To be or not to be", lookup_query="6 be")
    assert not test.error and not test.warning
    assert "“be” stands at" not in texts(test.caption) and "“to” stands at 1 and 5" in texts(
        test.caption
    )
    assert "“be” gives" in texts(test.html)
    fine(find(test, "text_input", "lookup_words").set_value("word " * 13).run())
    assert "13 words; 2 to 12 are possible" in texts(test.error)
    assert "“mat” gives" in texts(test.html), "the prepared sentence"
    fine(find(test, "button_group", "lookup_sentence").set_value("again").run())
    assert not test.error and find(test, "text_input", "lookup_words").value == ""


def test_the_buttons_of_the_dictionary_look_up_blend_and_find_nothing():
    test = opened("lookup", lookup_mode="by hand")
    said = {}
    for name in ("sharp", "blend", "no"):
        fine(test.button(key=f"lookup_{name}").click().run())
        said[name] = texts(test.markdown)
    assert "tea gets 99.7% of the weight" in said["sharp"]
    assert "a blend, mostly of tea (50%) and bread (50%)" in said["blend"]
    assert "stands out (the best gets" in said["no"]
    assert "never says “not found”" in texts(test.caption)


def test_new_numbers_come_from_the_next_seed():
    test = opened("lookup", lookup_seed="19")
    fine(test.button(key="lookup_new").click().run())
    assert find(test, "select_slider", "lookup_seed").value == 0
