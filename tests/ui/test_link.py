"""Whatever stands in an address: every page opens, says what it could not use, and drops it."""

import re
from pathlib import Path

import pytest

import playground
from helpers import as_seen, fine, opened, texts
from playground.ui.link import EVERY, OTHERS
from playground.ui.page_list import IDEAS, PAGES

ROOT = Path(playground.__file__).parent
BOUND = re.compile(r"key=\"(\w+)\",\s*(?:bind|value=[^,]*,\s*bind)=\"query-params\"")
BAD = [
    "",
    "nan",
    "inf",
    "-1",
    "1e309",
    "9" * 5000,
    "x" * 3000,
    "![i](http://h.invalid/z.png)",
    "<b>x</b>",
    "a\0b",
    "[]",
    "1.5.2",
]
FREE = {"probe", "variants", "lookup_words", "depth_numbers", "fingerprint"}  # texts of their own


KINDS = ("toggle", "selectbox", "select_slider", "button_group", "number_input")


def keys_of(page: str) -> list[str]:
    """The keys, besides the knobs of a run, that a page draws at once and binds to its address."""
    test = opened(page)
    drawn = {w.key for kind in KINDS for w in test.get(kind) if w.key}
    where = "" if page == "playground" else page
    others = {key for key, other in OTHERS.items() if where in other.pages} - FREE
    return sorted(key for key in drawn if key in others or key.startswith(f"{page}_"))


@pytest.mark.parametrize("bad", BAD, ids=[f"{text[:12]!r}" for text in BAD])
def test_every_knob_of_a_run_with_the_same_bad_value_is_named_and_at_its_default(bad):
    test = opened(**dict.fromkeys(EVERY, bad))
    said = as_seen(texts(test.warning))
    for key in EVERY:
        assert f"{key}={bad[:10] if bad.isprintable() else 'a'}" in said, key
    assert not set(test.query_params)
    assert test.session_state.choice == opened().session_state.choice


def test_every_knob_of_a_run_given_twice_is_named_and_at_its_default():
    given = {key: [knob.show(knob.default)] * 2 for key, knob in EVERY.items()}
    test = opened(**given)
    said = as_seen(texts(test.warning))
    assert all(f"{key} is given 2 times" in said for key in EVERY)
    assert test.session_state.choice == opened().session_state.choice


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_with_bad_values_for_all_that_it_binds(page):
    keys = keys_of(page)
    assert keys or page in ("home", "code", "history", "scenarios", "compare", "class", "lessons")
    for bad in ("", "inf", "![i](http://h.invalid/z.png)", "a\0b"):
        test = opened(page, **dict.fromkeys([*keys, "colour"], bad))
        said = as_seen(texts(test.warning))
        assert "colour is not a knob of this page" in said
        named = f"={bad}" if bad.isprintable() else "=a"
        assert all(f"{key}{named}" in said for key in keys), said
        assert not {*keys, "colour"} & set(test.query_params)
        assert "![i]" not in texts([*test.warning, *test.error, *test.caption, *test.markdown])


@pytest.mark.parametrize("page", IDEAS)
def test_a_key_that_begins_like_those_of_a_page_and_is_none_is_named_and_dropped(page):
    test = opened(
        page, **{f"{page}_nothing": "1", f"{'heads' if page != 'heads' else 'masks'}_x": "1"}
    )
    assert f"{page}_nothing is not a knob of this page" in texts(test.warning)
    assert "_x is not a knob of this page" in texts(test.warning)
    assert not set(test.query_params)


def test_a_warning_about_a_link_is_not_repeated_on_other_pages_and_waits_where_it_belongs():
    test = opened(d_model="abc")
    for page in ("history", "code", "home"):
        assert "d_model" not in texts(fine(test.switch_page(PAGES[page].file).run()).warning)
    assert "d_model=abc" in texts(fine(test.switch_page(PAGES["playground"].file).run()).warning)


def test_every_key_that_is_bound_to_the_address_is_known():
    bound = set()
    for path in ROOT.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if 'bind="query-params"' in source or '"bind": "query-params"' in source:
            bound |= {key for key in BOUND.findall(source)}
    assert bound <= {*OTHERS, *EVERY}, bound - {*OTHERS, *EVERY}
