"""The machinery of the knobs, on a dataclass that is none of the configs."""

from dataclasses import dataclass

import pytest

from core.knobs import check_knobs, knob


def test_a_new_dataclass_gets_the_same_checks():
    @dataclass(frozen=True)
    class Mine:
        size: int = knob(3, low=2, high=5, help="A size.")
        free: str = ""

    check_knobs(Mine())
    with pytest.raises(ValueError, match="size=6: must be at most 5"):
        check_knobs(Mine(size=6))
