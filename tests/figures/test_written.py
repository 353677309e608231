"""A text with the surprise of each character."""

import math
import re

import numpy as np
import plotly.graph_objects as go

from playground.figures.written import (
    COLUMNS,
    MOST_SURPRISE,
    percent,
    surprise_of,
    text_picture,
    written_html,
)


def test_surprise_is_minus_the_logarithm_and_has_no_end():
    assert surprise_of([1.0, math.exp(-2), 0.0]).tolist() == [0.0, 2.0, math.inf]


def test_a_probability_is_never_rounded_to_certainty():
    assert [percent(p) for p in (0.0, 1e-5, 0.05, 0.5, 0.9999, 1.0)] == [
        "0%",
        "< 0.1%",
        "5.0%",
        "50%",
        "> 99.9%",
        "100%",
    ]


def test_the_picture_has_a_cell_for_each_character_and_a_frame_around_the_chosen_one():
    letters = list("<b> & more" * 5)
    chances = np.array([np.nan] * 5 + [0.5] * 44 + [0.0])
    figure = text_picture(letters, chances, ["?"] * 50, chosen=40, alt="text")
    (cells,) = figure["data"]
    shown = np.array(cells["z"])
    assert shown.shape == (2, COLUMNS)
    assert shown[0, 5] == -math.log(0.5) and shown[1, 49 - COLUMNS] == MOST_SURPRISE
    assert np.isnan(shown[0, :5]).all() and np.isnan(shown[1, 50 - COLUMNS :]).all()
    bold = ["<b>&lt;</b>", "<b>b</b>", "<b>></b>", "<b>␣</b>", "<b>&amp;</b>"]
    assert cells["text"][0][:6] == [*bold, "␣"]
    (frame,) = figure["layout"]["shapes"]
    assert (frame["x0"], frame["y0"]) == (40 - COLUMNS - 0.5, 0.5)
    go.Figure(figure)


def test_what_a_model_writes_is_text_and_never_markup():
    html = written_html(["<", "x", "\n"], [0.5, 0.25, 0.1], [["<", '"']] * 3, [[0.5, 0.5]] * 3)
    assert re.sub("<[^>]*>", "", html) == "&lt;x\n"
    assert html.count("title=") == 3 and "&quot;" in html
