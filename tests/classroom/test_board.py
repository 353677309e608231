"""The board: seeds fall together, and what it calls best or surprising is so."""

import json

import pytest

from helpers import spec_for
from playground.classroom import board
from playground.classroom.database import NAMELESS, Point


def point(id, loss, changes=(), name="Ada", **knobs) -> Point:
    spec = json.dumps(spec_for(**knobs).to_dict())
    accuracy = None if loss is None else 0.5
    written = json.dumps([list(change) for change in changes])
    return Point(id, id, name, spec, written, 30, loss, accuracy, loss is None)


def test_seeds_of_one_configuration_are_one_spot_with_their_spread():
    found = board.spots(
        [
            point(1, 1.0, seed=0),
            point(2, 3.0, seed=1, name="Bob"),
            point(3, None, seed=2, name=NAMELESS),
            point(4, 2.0, lr=0.01),
        ]
    )
    first, second = found
    assert (first.losses, first.loss, first.diverged) == ([1.0, 3.0], 2.0, 1)
    assert first.names == f"Ada, Bob, {NAMELESS}"
    assert (second.loss, second.value("lr")) == (2.0, "0.01")


def test_what_was_turned_on_the_way_is_another_configuration_and_says_so():
    plain, turned = board.spots([point(1, 1.0), point(2, 2.0, [(5, "lr", 0.01)])])
    assert (plain.value("lr"), turned.value("lr")) == ("0.001", "0.01")
    assert "after step 5" in turned.difference(spec_for())
    assert board.surprising([plain, turned]) == []


def test_the_difference_from_a_setup_leaves_out_the_seed_and_leads_back():
    (spot,) = board.spots([point(1, 1.0, lr=0.01, seed=7)])
    assert spot.difference(spec_for()) == "lr 0.001 → 0.01"
    assert spot.difference(spec_for(lr=0.01)) == "the set-up itself"
    assert "lr=0.01" in spot.difference(None)


def test_losses_of_different_tasks_stand_on_different_ground():
    found = board.spots([point(1, 1.0), point(2, 1.0, task="reverse"), point(3, 1.0, length=4)])
    assert len({board.ground(spot) for spot in found}) == 3
    assert len({board.ground_text(spot) for spot in found}) == 3


def test_the_best_have_the_lowest_mean_and_never_diverged():
    found = board.spots(
        [
            point(1, 2.0),
            point(2, 0.1, lr=0.01),
            point(3, None, lr=0.01, seed=1),
            point(4, 1.0, lr=1),
        ]
    )
    assert [spot.loss for spot in board.best(found)] == [1.0, 2.0]
    assert [spot.value("lr") for spot in board.diverged(found)] == ["0.01"]


def test_the_most_surprising_is_farthest_from_the_mean_of_those_on_its_line():
    """Of 1, 1 and 4 nats the last lies 3 above the mean of the others, which lie 1.5 below."""
    rates = {0.001: 1.0, 0.003: 1.0, 0.01: 4.0}
    line = [point(i, loss, lr=lr) for i, (lr, loss) in enumerate(rates.items())]
    apart = point(9, 99.0, lr=0.1, d_model=16)  # differs in two knobs: on no line with them
    found = board.surprising(board.spots([*line, apart]))
    assert [one.gap for one in found] == pytest.approx([3.0, -1.5, -1.5])
    assert (found[0].knob, found[0].others, found[0].expected) == ("lr", 2, 1.0)
    assert board.surprising(board.spots(line[:2])) == []  # of two, each would surprise


def test_a_row_of_the_table_has_every_knob():
    (row,) = board.rows([point(1, 1.0, [(5, "lr", 0.01)], seed=7, lr=0.003)])
    assert (row["lr"], row["seed"], row["task"], row["loss"]) == ("0.003", "7", "copy", 1.0)
    assert row["changed"] == "lr=0.01 after step 5"


@pytest.mark.parametrize("spec", ["{}", "[]", "no json", '{"task": 1}'])
def test_a_point_that_cannot_be_read_is_left_out(spec):
    damaged = Point(1, 1, "Ada", spec, "[]", 1, 1.0, None, False)
    assert board.spots([damaged, point(2, 1.0)])[0].points[0].id == 2
    assert len(board.rows([damaged])) == 0
