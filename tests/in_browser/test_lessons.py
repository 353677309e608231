"""A lesson in a browser, and a teacher's link on a phone."""

import pytest

pytestmark = pytest.mark.browser

PHONE = {"is_mobile": True, "has_touch": True}


def test_a_lesson_goes_along_to_the_page_that_it_opens_as_it_is_set_up(visit):
    tab = visit(settle=False, lesson="sqrt-dk", at="4")
    tab.settle()
    tab.press("lesson_read")
    tab.key("lesson_step").wait_for()
    tab.press("step_back")
    tab.until(lambda: tab.link().get("at") == "3", "the link does not say the step")
    tab.press("step_next")
    tab.until(lambda: tab.link().get("at") == "4", "the link does not say the step")
    tab.rest()
    tab.press("lesson_open")
    tab.settle()
    tab.key("lesson_bar").wait_for()
    assert tab.knob("scale") == "none" and tab.link()["d_model"] == "128"
    assert not tab.key("seed").is_visible()
    tab.press("lesson_leave")
    tab.key("lesson_bar").wait_for(state="hidden")
    assert "lesson" not in tab.link() and tab.knob("scale") == "none"


def test_a_teachers_link_on_a_phone_shows_two_knobs_until_all_are_asked_for(visit):
    tab = visit(context=PHONE, turn="scale", show="n_heads", d_model="16", n_layers="1", seed="7")
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.page.reload()
    tab.settle()
    tab.until(tab.key("few_knobs").is_visible)
    assert tab.key("scale").is_visible() and tab.key("n_heads").is_visible()
    assert tab.key("n_heads").locator("input").is_disabled()
    assert not tab.key("position").is_visible() and not tab.key("residual").is_visible()
    tab.press("all_knobs")
    tab.until(tab.key("position").is_visible, "the others do not come")
    tab.until(lambda: "turn" not in tab.link(), "the link still limits")
    assert tab.link() == {"d_model": "16", "n_layers": "1", "seed": "7"}
