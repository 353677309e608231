"""An address as a QR code: the picture is the code, dark on light, with the margin it needs."""

import re

import pytest
import segno

from playground.ui.qr import qr_svg

MARGIN = 4  # modules of quiet zone that the standard asks for


def pixels(svg: str) -> list[list[int]]:
    """What the picture shows: its line is a row of strokes of height 1, moved to from the last."""
    size = int(re.search(r'viewBox="0 0 (\d+) ', svg).group(1))
    grid = [[0] * size for _ in range(size)]
    x = y = 0.0
    (line,) = re.findall(r'stroke="#000" d="([^"]*)"', svg)
    for move, first, second in re.findall(r"([Mmh])(-?[\d.]+)(?: (-?[\d.]+))?", line):
        if move == "h":
            for column in range(int(x), int(x) + int(first)):
                grid[int(y)][column] = 1
            x += float(first)
        elif move == "M":
            x, y = float(first), float(second)
        else:
            x, y = x + float(first), y + float(second)
    return grid


@pytest.mark.parametrize("address", ["http://localhost:8501", f"http://10.0.0.7/?x={'a' * 900}"])
def test_the_picture_is_the_code_with_its_margin(address):
    found = pixels(qr_svg(address))
    inner = [row[MARGIN:-MARGIN] for row in found[MARGIN:-MARGIN]]
    assert inner == [list(row) for row in segno.make(address, micro=False).matrix]
    assert sum(map(sum, found)) == sum(map(sum, inner)) > 0


def test_a_code_is_a_white_square_that_scales_and_fetches_nothing():
    svg = qr_svg("http://localhost:8501")
    assert 'fill="#fff"' in svg and "viewBox" in svg and " width=" not in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_an_address_that_is_too_long_is_refused_in_words():
    with pytest.raises(ValueError, match="5,000 characters"):
        qr_svg("x" * 5000)
