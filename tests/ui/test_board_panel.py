"""The picture of the board: each dot has the place and the colour of its own values."""

import json

from helpers import spec_for
from playground.classroom.board import spots
from playground.classroom.database import Point
from playground.ui.board_panel import MOST_COLOURS, ONE_COLOUR, Picture
from playground.ui.components.live_plot import Click


def tried(rates: list[float]) -> tuple:
    written = [json.dumps(spec_for(lr=lr).to_dict()) for lr in rates]
    return spots(
        Point(i, 1, "Ada", spec, "[]", 30, float(i), 0.5, False) for i, spec in enumerate(written)
    )


def test_every_dot_is_at_its_own_values_and_a_click_finds_it(monkeypatch):
    found = tried([0.1, 0.001, 0.01])
    picture = Picture.of(found, None, "lr", "loss", ONE_COLOUR)
    assert [picture.x_values[dot.x] for dot in picture.dots] == ["0.1", "0.001", "0.01"]
    assert picture.x_values == ["0.001", "0.01", "0.1"]  # in the order of the numbers
    clicked = []
    monkeypatch.setattr("playground.ui.board_panel.choose", clicked.append)
    for spot, dot in zip(found, picture.dots, strict=True):
        picture.clicked(Click(0, "", dot.x, dot.y, None))
        assert clicked.pop() is spot


def test_more_values_than_colours_share_one_that_says_so():
    found = tried([0.001 * n for n in range(1, MOST_COLOURS + 3)])
    picture = Picture.of(found, None, "norm", "loss", "lr")
    assert len(picture.colours) == MOST_COLOURS and picture.colours[-1] == "other values"
    for spot, dot in zip(found, picture.dots, strict=True):
        own = spot.value("lr") in picture.colours
        assert picture.colours[dot.colour] == (spot.value("lr") if own else "other values")
