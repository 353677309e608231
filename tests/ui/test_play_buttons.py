"""Play, Pause, Reset, and pictures that move while the runs do."""

import pytest
from streamlit.testing.v1 import AppTest

from playground.ui import play_buttons as ui


class Clock:
    """Stands in for Streamlit: keeps what a fragment draws, and how often."""

    def __init__(self) -> None:
        self.pictures, self.every, self.reruns = None, None, 0

    def fragment(self, pictures, run_every):
        self.pictures, self.every = pictures, run_every
        return pictures

    def rerun(self) -> None:
        self.reruns += 1


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ui.st, "fragment", clock.fragment)
    monkeypatch.setattr(ui.st, "rerun", clock.rerun)
    return clock


def test_what_ends_while_the_page_is_drawn_is_looked_at_once_more(clock):
    drawn, states = [], ["ends", "ended"]
    ui.live(drawn.append, lambda: states.pop(), "moves", lambda seen: seen == "moves", 0.5)
    assert drawn == ["moves"] and clock.every == 0.5, "the picture is of what the buttons say"
    clock.pictures()
    assert drawn == ["moves", "ended"] and clock.reruns == 1, "the buttons are drawn again"


def test_pictures_go_on_while_anything_moves(clock):
    drawn, states = [], iter([True, True, False])
    ui.live(drawn.append, lambda: next(states), True, bool, 1.0)
    clock.pictures()
    clock.pictures()
    assert drawn == [True] * 3 and not clock.reruns
    clock.pictures()
    assert clock.reruns == 1


def test_what_does_not_move_has_no_clock(clock):
    drawn = []
    ui.live(drawn.append, lambda: False, False, bool, 1.0)
    assert drawn == [False] and clock.every is None
    clock.pictures()  # a widget among the pictures was turned
    assert drawn == [False, False] and not clock.reruns


def page() -> None:
    import streamlit as st

    from playground.ui import play_buttons as ui

    def refuse() -> None:
        raise ValueError("too many of them")

    moving = st.session_state.get("moving", False)
    ui.play_or_pause(moving, refuse, lambda: None)
    ui.say_refusal()


def test_what_stands_in_the_way_of_a_button_is_said_once():
    test = AppTest.from_function(page).run()
    test.button(key="play").click().run()
    assert [error.value for error in test.error] == ["too many of them"] and not test.exception
    assert not test.run().error


def test_where_something_moves_the_button_pauses_it():
    test = AppTest.from_function(page)
    test.session_state.moving = True
    assert [button.label for button in test.run().button] == ["Pause"]
