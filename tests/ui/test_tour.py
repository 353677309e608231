"""The tour: offered where nothing else was asked for, skippable, and about what is on the page."""

import pytest

from helpers import find, fine, opened, texts
from playground.ui import tour
from playground.ui.tour import STOPS


@pytest.fixture
def new_here(monkeypatch) -> list[bool]:
    """A browser that has never met it: what it was told to remember."""
    told: list[bool] = []

    def first_time(met: bool, *, key: str) -> bool:
        told.append(met)
        return not any(told)

    monkeypatch.setattr(tour, "first_time", first_time)
    return told


def test_it_is_walked_through_in_at_most_six_stops_and_not_offered_again(new_here):
    test = opened()
    fine(test.button(key="tour_start").click().run())
    for at, stop in enumerate(STOPS, 1):
        assert f"{at}/{len(STOPS)} {stop.says}" in [element.value for element in test.markdown]
        assert f".st-key-{stop.key} {{ outline" in texts(test.html)
        fine(test.button(key="tour_next").click().run())
    assert not find(test, "button", "tour_next") and not find(test, "button", "tour_start")
    assert len(STOPS) <= 6 and new_here[-1]
    assert not find(opened(), "button", "tour_start")


@pytest.mark.parametrize("way", ["tour_never", "tour_skip"])
def test_it_can_be_refused_and_left(way, new_here):
    test = opened()
    if way == "tour_skip":
        fine(test.button(key="tour_start").click().run())
    fine(test.button(key=way).click().run())
    assert not find(test, "button", "tour_start") and not find(test, "button", "tour_next")
    assert new_here[-1]


def test_a_link_to_something_is_not_interrupted(new_here):
    assert not find(opened(d_model="16"), "button", "tour_start") and not new_here
    assert not find(opened("scaling"), "button", "tour_start")
