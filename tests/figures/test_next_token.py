"""What a token is chosen from, and a look inside, as figures."""

import numpy as np
import plotly.graph_objects as go

from playground.figures.next_token import alternatives_picture, inside_picture
from playground.figures.style import alt_text


def test_the_bars_are_the_probabilities_before_and_after_the_rules():
    figure = alternatives_picture(["e", " ", "<"], [0.5, 0.3, 0.1], [1.0, 0.0, 0.0], chosen=0)
    before, after = figure["data"]
    assert (before["x"], after["x"]) == ([0.5, 0.3, 0.1], [1.0, 0.0, 0.0])
    aliases = figure["layout"]["yaxis"]["labelalias"]
    assert aliases == {"0": "<b>e</b>", "1": "␣", "2": "&lt;"}
    assert "e 50% → 100%" in alt_text(figure)
    go.Figure(figure)


def test_a_look_inside_has_a_row_for_each_head_and_each_stage():
    weights, chances = np.full((2, 4, 5), 0.2), np.full((3, 2), 0.5)
    figure = inside_picture(weights, list("a b c"), [["a", "b"]] * 3, chances)
    maps = figure["data"]
    assert np.shape(maps[0]["z"]) == (8, 5) and np.shape(maps[1]["z"]) == (3, 2)
    assert list(figure["layout"]["yaxis"]["labelalias"].values())[4] == "2.1"
    go.Figure(figure)
