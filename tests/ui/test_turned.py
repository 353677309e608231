"""Knobs that the page turns: what the browser tells too late, or shows anew, does not undo it."""

import pytest
from streamlit.testing.v1 import AppTest

from playground.ui import turned


def page():
    import streamlit as st

    from playground.ui import turned

    turned.begin(st.session_state.get("page", "first"), ["width", "depth"])
    st.number_input("width", key="width", value=64)
    st.number_input("depth", key="depth", value=2)
    st.button("load", on_click=turned.turn, args=({"width": 16, "depth": 1},))
    turned.end(st.session_state.get("page", "first"))


@pytest.fixture
def app():
    return AppTest.from_function(page).run()


def shown(app):
    return [field.value for field in app.number_input]


def test_what_the_browser_tells_before_it_has_heard_of_a_turn_does_not_undo_it(app):
    app.button[0].click().run()
    assert shown(app) == [16, 1]
    app.number_input[0].set_value(64)
    app.number_input[1].set_value(2)
    app.run()
    assert shown(app) == [16, 1]


def test_the_visitor_may_turn_it_on_at_once_and_back_a_moment_later(app, monkeypatch):
    app.button[0].click().run()
    app.number_input[0].set_value(32).run()
    assert shown(app) == [32, 1]
    now = turned.monotonic()
    monkeypatch.setattr(turned, "monotonic", lambda: now + 2 * turned.IN_FLIGHT)
    app.number_input[0].set_value(64).run()
    assert shown(app) == [64, 1]


def test_a_page_tells_the_browser_what_each_of_its_knobs_holds_when_it_is_drawn_first(app):
    app.number_input[0].set_value(32).run()
    assert not any(field.proto.set_value for field in app.number_input)
    app.session_state["page"] = "second"
    app.run()
    assert [(field.proto.set_value, field.proto.value) for field in app.number_input] == [
        (True, 32),
        (True, 2),
    ]
    app.run()
    assert not any(field.proto.set_value for field in app.number_input)
