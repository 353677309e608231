"""A knob: what a link may hold of it, what is said, and what another choice does to it."""

import pytest
from streamlit.testing.v1 import AppTest

from playground.ui.knob import Knob, nearest

WORDS = Knob("words", "Words", ("pre", "Post"), "pre", "Which.", on_change=lambda: None)
NUMBERS = Knob("numbers", "Numbers", (1, 2, 4), 2, "How many.", parse=int, between=True)
LOWER = Knob("lower", "Lower", (1, 4), 1, "How low.", parse=int, between=True, lowest=-3)
WHOLE = Knob("whole", "Whole", range(3, 9), 3, "How many.", parse=int)


def test_words_are_read_in_any_case_and_others_refused_with_what_there_is():
    assert WORDS.read("POST") == "Post"
    with pytest.raises(ValueError, match="choose one of pre, Post"):
        WORDS.read("none")


def test_numbers_between_the_offered_ones_do_where_the_knob_says_so():
    assert NUMBERS.read("3") == 3 and WHOLE.read("8") == 8
    with pytest.raises(ValueError, match="choose one of 1, 2, 4, or a number from 1 to 4"):
        NUMBERS.read("5")
    assert LOWER.read("-3") == -3
    with pytest.raises(ValueError, match="or a number from -3 to 4"):
        LOWER.read("-4")
    with pytest.raises(ValueError, match="choose a whole number from 3 to 8"):
        WHOLE.read("9")


def test_the_nearest_of_words_is_the_first():
    assert nearest(["a", "b"], "c") == "a" and nearest([1, 4, 8], 5) == 4


def page() -> None:
    import streamlit as st

    from playground.ui import notes
    from playground.ui.knob import Knob

    notes.begin(st.session_state.get("address", ""))
    notes.draw()
    width = Knob("width", "Width: of all", (1, 2, 4, 8), 4, "How wide.").draw()
    Knob("heads", "Heads: of each", (1, 2, 4, 8), 2, "How many.").draw(
        [n for n in (1, 2, 4, 8) if n <= width], "not more than the width"
    )


def opened(**query: str) -> AppTest:
    test = AppTest.from_function(page)
    for key, value in query.items():
        test.query_params[key] = value
    return turned(test)


def turned(test: AppTest) -> AppTest:
    test.run()
    assert not test.exception
    return test


def said(elements) -> str:
    return " ".join(element.value for element in elements)


def test_what_a_link_says_in_vain_stands_in_one_warning_until_its_knob_is_turned():
    test = opened(width="3", heads="8")
    (warning,) = test.warning
    assert "width=3: choose one of 1, 2, 4, 8; the default 4 is used." in warning.value
    assert "heads=8: not more than the width; 4 is used." in warning.value
    assert [group.value for group in test.button_group] == [4, 4]
    assert turned(test).warning, "a clock that runs the page again leaves it there"
    test.button_group(key="width").set_value(8)
    (warning,) = turned(test).warning
    assert "heads=8" in warning.value and "width=3" not in warning.value
    test.button_group(key="heads").set_value(1)
    assert not turned(test).warning


def test_a_warning_about_a_link_can_be_dismissed():
    test = opened(width="3", heads="8")
    test.button(key="dismiss_notes").click()
    assert not turned(test).warning and not turned(test).warning


def test_a_warning_about_a_link_stays_on_the_page_that_the_link_led_to():
    test = opened(width="3")
    assert test.warning
    test.session_state.address = "history"
    assert not turned(test).warning
    test.session_state.address = ""
    assert turned(test).warning


@pytest.mark.parametrize(
    ("text", "left"),
    [("2", "2"), ("4", None), ("3", None), (["2", "8"], None), ("", None), ("nan", None)],
)
def test_the_address_holds_afterwards_what_is_used(text, left):
    test = opened(width=text)
    assert test.query_params.get("width") == left
    assert test.button_group(key="width").value == int(left or 4)


def test_a_knob_that_another_one_limits_takes_the_nearest_value_and_says_why():
    test = opened(heads="4")
    assert not test.warning
    test.button_group(key="width").set_value(2)
    turned(test)
    assert test.button_group(key="heads").value == 2
    assert said(test.toast) == "Heads 4 → 2: not more than the width"
    test.button_group(key="width").set_value(1)
    assert "Heads: of each: 1, the only choice here" in said(turned(test).caption)


@pytest.mark.parametrize("text", ["on", "ON", "true", "off", "false"])
def test_a_switch_is_on_or_off_in_a_link(text):
    knob = Knob("demo_switch", "Switch", (False, True), False, "A switch.")
    assert knob.read(text) is (text.lower() in ("on", "true"))
    with pytest.raises(ValueError, match="choose on or off"):
        knob.read("maybe")
