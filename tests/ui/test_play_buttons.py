"""Play, Pause and Reset."""

from streamlit.testing.v1 import AppTest


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
