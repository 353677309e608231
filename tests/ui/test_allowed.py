"""A teacher's link: what is in sight, what may be turned, and the way out; and where it is made."""

from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from helpers import SMALL, as_seen, find, fine, opened, texts, widgets
from playground.ui import allowed, for_class
from playground.ui.allowed import Allowed
from playground.ui.knob import KEYS
from playground.ui.link import EVERY
from playground.ui.page_list import IDEAS, PAGES

LIMITS = {"turn": "scale", "show": "lr"}


def in_sight(test: AppTest) -> set[str]:
    """The knobs of a run that are not drawn out of sight."""

    def walk(block, hidden: bool) -> set[str]:
        found = set()
        for child in block.children.values():
            key = getattr(child, "key", None) or ""
            proto = getattr(child, "proto", None)
            below = hidden or "unseen_" in getattr(proto, "id", "")
            if hasattr(child, "children"):
                found |= walk(child, below)
            elif key in EVERY and not below:
                found.add(key)
        return found

    return walk(test.sidebar, False)


def test_only_what_the_link_names_is_in_sight_and_only_some_of_it_can_be_turned():
    test = opened(**SMALL, **LIMITS)
    assert in_sight(test) == {"scale", "lr"}
    drawn = widgets(test)
    assert (drawn["scale"].disabled, drawn["lr"].disabled) == (False, True)


def test_without_such_a_link_every_knob_is_in_sight():
    assert {"scale", "lr", "d_model", "seed", "reverse_length"} <= in_sight(opened(**SMALL))


def test_what_is_out_of_sight_keeps_the_value_of_the_link_and_so_it_does_without_limits():
    test = opened(**SMALL, **LIMITS)
    there = test.session_state.choice.spec
    assert (there.model.d_model, there.training.batch_size) == (16, 4)
    fine(widgets(test)["scale"].set_value("none").run())
    assert test.session_state.choice.spec.model.d_model == 16
    fine(test.button(key="all_knobs").click().run())
    assert {"scale", "lr", "d_model", "seed"} <= in_sight(test)
    assert not widgets(test)["lr"].disabled
    assert test.session_state.choice.spec == there.changed([("scale", "none")])


def test_what_turns_many_knobs_at_once_is_not_offered_beside_a_few():
    many = ("defaults", "new_seed")
    assert all(find(opened(**SMALL), "button", key) for key in many)
    assert not any(find(opened(**SMALL, **LIMITS), "button", key) for key in many)
    assert find(opened(**SMALL, turn="seed"), "button", "new_seed")


def test_the_limits_hold_on_the_pages_whose_controls_the_link_names():
    test = opened("compare", turn="variants", show="seeds")
    assert not in_sight(test) and find(test, "select_slider", "seeds").disabled
    test = opened("scaling", turn="scaling_width")
    assert find(test, "button", "all_knobs") and "d_model" in in_sight(test)
    fine(test.switch_page(PAGES["masks"].file).run())
    assert not find(test, "button", "all_knobs")
    fine(test.switch_page(PAGES["scaling"].file).run())
    assert find(test, "button", "all_knobs")


def turned_elsewhere() -> None:
    import streamlit as st

    from playground.experiments.scenarios import plain
    from playground.ui import controls

    if "turn" not in st.session_state:
        st.session_state.turn, st.session_state.show = "scale", "lr"
    st.button("Open", key="open", on_click=controls.turn_to, args=(plain(),))


def test_other_settings_end_the_limits_since_they_were_about_the_values_of_the_link():
    test = AppTest.from_function(turned_elsewhere).run()
    assert (test.session_state["turn"], test.session_state["show"]) == ("scale", "lr")
    fine(test.button(key="open").click().run())
    assert (test.session_state["turn"], test.session_state["show"]) == ("", "")


@pytest.mark.parametrize(
    "text, rule",
    [
        ("scale,d-model", "give names of knobs"),
        ("scale,,lr", "give names of knobs"),
        ("![i](http://h.invalid/z.png)", "give names of knobs"),
        ("a\0b", "give names of knobs"),
        ("colour", "colour is not a knob"),
        ("scenario", "scenario is not a knob"),
        (",".join(list(EVERY)[: allowed.MOST + 1]), "knobs: give 12 at most"),
    ],
)
@pytest.mark.parametrize("key", Allowed._fields)
def test_what_names_no_knobs_is_said_and_ignored(key, text, rule):
    test = opened(**SMALL, **{key: text})
    said = as_seen(texts(test.warning))
    assert f"{key}=" in said and rule in said
    assert key not in test.query_params and "![i]" not in texts(test.warning)
    assert len(in_sight(test)) > 10


def test_a_name_that_begins_like_those_of_a_page_and_is_none_is_said_and_forgotten():
    test = opened("scaling", turn="scaling_width,scaling_nothing")
    assert "scaling_nothing is not a knob of this page" in as_seen(texts(test.warning))
    assert test.session_state.allowed == Allowed(("scaling_width",))


def test_what_is_named_twice_is_named_once():
    assert allowed.read("scale,lr,scale") == ("scale", "lr")
    both = Allowed(turn=("scale",), show=("scale", "lr"))
    assert both.turns("scale") and not both.turns("lr") and not both.sees("d_model")


# --- where it is made -------------------------------------------------------------------------


def with_dialog(page: str, **query: str) -> AppTest:
    test = opened(page, **query)
    return fine(test.button(key="for_class").click().run())


def key_of(title: str, address: str) -> str:
    """The control of a page that has this title."""
    titles = {key: knob.title for key, knob in KEYS.items()} | allowed.OF_COMPARE
    page = address if address in IDEAS else ""
    return next(k for k, t in titles.items() if t == title and allowed.family(k) == page)


@pytest.mark.parametrize("page", ["playground", "compare", *IDEAS])
def test_the_link_that_a_page_makes_shows_what_was_chosen_and_holds_its_values(page):
    knobs = SMALL if page in ("playground", "compare") else {}
    test = with_dialog(page, **knobs)
    address = "" if page == "playground" else page
    chosen = find(test, "multiselect", f"class_turn_{address}")
    fine(chosen.set_value([key_of(chosen.options[0], address)]).run())
    chosen = find(test, "multiselect", f"class_show_{address}")
    fine(chosen.set_value([key_of(chosen.options[-1], address)]).run())
    (link,) = [element.value for element in test.code if element.value.startswith(("/?", "?"))]
    said = {key: value for key, (value,) in parse_qs(link.partition("?")[2]).items()}
    assert {key: said.get(key) for key in knobs} == knobs
    limited = opened(page, **said)
    assert not limited.warning
    assert limited.session_state.allowed == Allowed((said["turn"],), (said["show"],))
    assert find(limited, "button", "all_knobs")


def test_no_other_page_offers_it():
    for page in ("home", "scenarios", "history", "code"):
        assert not find(opened(page), "button", "for_class")


def test_a_link_leaves_out_what_is_the_teachers_own():
    assert {"projector", "turn", "show"} <= for_class.OF_TEACHER
