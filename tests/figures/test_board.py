"""The board's dots are where their numbers say, and what diverged is above all of them."""

import plotly.graph_objects as go

from playground.figures.board import Dot, board_chart, place
from playground.figures.votes import tally, vote_bars


def dots() -> list[Dot]:
    return [
        Dot(0, 0, 1.0, 0.5, 2.0, "one"),
        Dot(1, 0, 3.0, 3.0, 3.0, "two"),
        Dot(1, 1, None, 0.0, 0.0, "<b>gone"),
    ]


def test_dots_have_their_mean_and_their_spread_and_the_diverged_are_on_top():
    chart = board_chart(
        dots(), ["a", "b"], ["x", "<y>"], x_title="lr", y_title="loss", colour_title="norm"
    )
    assert go.Figure(chart)
    first, second = chart["data"]
    assert first["y"] == [1.0, 3.0] and first["x"] == [place(dot, 2) for dot in dots()[:2]]
    assert first["error_y"]["array"] == [1.0, 0.0]
    assert first["error_y"]["arrayminus"] == [0.5, 0.0]
    assert second["y"][0] > 3.0 and second["marker"]["symbol"] == ["x"]
    assert second["name"] == "norm = &lt;y>"
    assert "3 configurations" in chart["layout"]["meta"]["alt"]


def test_dots_of_one_value_stand_beside_each_other_and_nearer_to_it_than_to_the_next():
    for colours in range(1, 9):
        at = [place(Dot(3, colour, 1, 1, 1, ""), colours) for colour in range(colours)]
        assert at == sorted(set(at)) and all(abs(x - 3) < 0.5 for x in at)


def test_the_bars_are_the_shares_and_what_is_typed_is_shown_as_it_is():
    bars = vote_bars(["<b>", "no"], (3, 1), happened=1, mine=0)
    assert "width: 75.0%" in bars and "width: 25.0%" in bars
    assert "&lt;b&gt;" in bars and 'data-answer="1" data-happened' in bars
    assert "width" not in vote_bars(["yes", "no"], None)


def test_the_tally_counts_who_was_right():
    assert tally((3, 1), 1).startswith("1 of 4 votes was")
    assert tally((3, 1), 0).startswith("3 of 4 votes were")
    assert tally((0, 0), 0) == "Nobody voted."
