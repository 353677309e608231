"""The Compare page where there is nothing to compare."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import playground

MAIN = Path(playground.__file__).with_name("main.py")


def opened(variants: str) -> AppTest:
    test = AppTest.from_file(MAIN, default_timeout=120)
    test.query_params["variants"] = variants
    test.run()
    test.switch_page("app_pages/compare.py").run()
    assert not test.exception, [element.message for element in test.exception]
    return test


def texts(elements) -> str:
    return " ".join(element.value for element in elements)


@pytest.mark.parametrize("variants", ["", "scale=wide; hats=3"])
def test_with_no_variant_the_page_says_what_to_do(variants):
    test = opened(variants)
    assert "Nothing to compare with yet" in texts(test.info)
    assert "stand ready" not in texts(test.info)
    assert test.button(key="play").disabled


def test_why_variants_are_left_out_stands_in_one_warning():
    (warning,) = opened("scale=wide; hats=3; norm=pre").warning
    assert "scale" in warning.value and "hats" in warning.value


def test_with_a_variant_it_stands_ready():
    test = opened("norm=pre")
    assert "stand ready" in texts(test.info) and "Nothing to compare" not in texts(test.info)
    assert not test.warning
