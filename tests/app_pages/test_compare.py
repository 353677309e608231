"""The Compare page where there is nothing to compare."""

import pytest

from helpers import opened


@pytest.mark.parametrize("variants", ["", "scale=wide; hats=3"])
def test_with_no_variant_the_page_says_what_to_do(variants):
    test = opened("compare", variants=variants)
    assert len(test.info) == 1 and test.button(key="play").disabled


def test_why_variants_are_left_out_stands_in_one_warning():
    (warning,) = opened("compare", variants="scale=wide; hats=3; norm=pre").warning
    assert "scale" in warning.value and "hats" in warning.value


def test_with_a_variant_it_stands_ready():
    test = opened("compare", variants="norm=pre")
    assert len(test.info) == 1 and not test.button(key="play").disabled
    assert not test.warning
