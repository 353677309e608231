"""What all figures share: colours, sizes, labels.

A figure is a plain dict in Plotly's form (`{"data": [...], "layout": {...}}`), and
`go.Figure(figure)` accepts every one of them. Building `go.Figure` objects costs 9 ms for eight
heat maps, writing them 5 ms more; the dict costs a few tenths of that, and a page draws up to
five times a second.

Figures know nothing of light and dark. They use the colours named here, and the live component
exchanges each for its counterpart in the visitor's theme (`RUN_COLOURS` for the theme's
categorical palette, `TEXT`, `MUTED`, `GRID`, `HIDDEN` and `PAPER` for its neutrals). By
themselves they are readable on either background. What most figures need of an axis, a note or a
bar is said once in `TEMPLATE`; a figure says only what differs.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Figure = dict[str, Any]

# Okabe and Ito's colour-blind safe set, blue first; violet and grey replace yellow and black.
RUN_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#8878c8",
    "#888f98",
)
# Six, beside eight colours: the first 24 runs differ in one or the other, the first six in both.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
RIGHT_MARK, WRONG_MARK = "✓", "✗"

# Neutrals: placeholders that the component exchanges for the theme's own.
TEXT, MUTED, GRID, HIDDEN = "#7c7c7d", "#7d7d7e", "#7e7e7f", "#7f7f80"
PAPER = "#7b7b7c"  # the page's background: what is printed on a run's colour

# Viridis, as Plotly for Python has it.
WEIGHTS_SCALE = [
    [0.0, "rgb(68,1,84)"],
    [1 / 9, "rgb(72,40,120)"],
    [2 / 9, "rgb(62,73,137)"],
    [3 / 9, "rgb(49,104,142)"],
    [4 / 9, "rgb(38,130,142)"],
    [5 / 9, "rgb(31,158,137)"],
    [6 / 9, "rgb(53,183,121)"],
    [7 / 9, "rgb(110,206,88)"],
    [8 / 9, "rgb(181,222,43)"],
    [1.0, "rgb(253,231,37)"],
]
# ColorBrewer's RdBu, blue below 0 and red above: safe for the colour-blind, white at 0.
SCORES_SCALE = [
    [0.0, "rgb(5,48,97)"],
    [0.125, "rgb(33,102,172)"],
    [0.25, "rgb(67,147,195)"],
    [0.375, "rgb(146,197,222)"],
    [0.5, "rgb(247,247,247)"],
    [0.625, "rgb(244,165,130)"],
    [0.75, "rgb(214,96,77)"],
    [0.875, "rgb(178,24,43)"],
    [1.0, "rgb(103,0,31)"],
]

CLEAR, BLACK, WHITE = "rgba(0,0,0,0)", "black", "white"

# Labels that reach over the edge are left as they are: to look for them takes a third of the time
# in which Plotly draws a page.
_AXIS = {
    "gridcolor": GRID,
    "zeroline": False,
    "zerolinecolor": MUTED,
    "ticks": "",
    "ticklabeloverflow": "allow",
}
# A colour bar lies below the maps; `BAR_LENGTH` is in pixels.
BAR_LENGTH = 300
_COLOUR_BAR = {
    "orientation": "h",
    "x": 0.5,
    "y": 0,
    "yref": "container",
    "yanchor": "bottom",
    "xpad": 0,
    "ypad": 2,
    "lenmode": "pixels",
    "len": BAR_LENGTH,
    "thickness": 10,
    "outlinewidth": 0,
    "ticklabeloverflow": "allow",
    # Above the bar, the title would lie on it.
    "title": {"side": "bottom"},
}
# Plotly's template: what holds for every figure that does not say otherwise. Text is `TEXT` in the
# size of the figure's font; only figures with `legend_below` have a legend.
TEMPLATE = {
    "layout": {
        "font": {"color": TEXT},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "showlegend": False,
        "xaxis": _AXIS | {"title": {"standoff": 4}},
        "yaxis": _AXIS,
        "annotationdefaults": {"showarrow": False},
        "coloraxis": {"colorbar": _COLOUR_BAR},
    },
    "data": {
        "heatmap": [{"showscale": False}],
        "bar": [{"textposition": "outside", "textangle": 0, "cliponaxis": False}],
    },
}


class Sizes(NamedTuple):
    """Sizes in pixels: `font` of text, `small` of tick labels, `line` and `thin` of lines."""

    height: int | None  # of the figure; None: what its parts need
    projector: bool
    font: int
    small: int
    line: float
    thin: float
    marker: int


def sizes(height: int | None, projector: bool = False) -> Sizes:
    """Sizes of a figure on a laptop, or on a projector read from the back row."""
    letters_and_lines = (20, 17, 5, 2.5, 11) if projector else (14, 12, 2.5, 1.25, 7)
    return Sizes(height, projector, *letters_and_lines)


LAPTOP = sizes(340)
AS_NEEDED = sizes(None)


def run_colour(index: int) -> str:
    """Colour of the run (head, layer) with this index; the palette repeats after eight."""
    return RUN_COLOURS[index % len(RUN_COLOURS)]


# The parts of a model, wherever its parameters, operations or memory are counted.
PART_COLOURS = {
    "embedding": run_colour(2),
    "projections": run_colour(0),
    "products": run_colour(5),
    "feed-forward": run_colour(1),
    "norms": run_colour(7),
    "unembedding": run_colour(4),
}
PART_NAMES = {
    "embedding": "embeddings",
    "projections": "attention: W_q, W_k, W_v, W_o",
    "products": "attention: q·k and weights·v",
    "feed-forward": "feed-forward",
    "norms": "LayerNorms",
    "unembedding": "output layer",
}


def dash(index: int) -> str:
    """Dash of the run with this index: it tells the lines apart where the colours do not."""
    return DASHES[index % len(DASHES)]


def colours_at(scale: Sequence[tuple[float, str]], shares: ArrayLike) -> np.ndarray:
    """Red, green and blue, [..., 3] from 0 to 255, of a colour scale at shares of its length.

    Args:
        scale: (share, "rgb(red,green,blue)") from 0 to 1.
    """
    stops = [stop for stop, _ in scale]
    parts = np.array([[int(part) for part in rgb[4:-1].split(",")] for _, rgb in scale])
    return np.stack([np.interp(shares, stops, part) for part in parts.T], axis=-1)


def luminance(colours: ArrayLike) -> np.ndarray:
    """Relative luminance of colours, [..., 3] from 0 to 255 (WCAG 2.1)."""
    parts = np.asarray(colours) / 255
    linear = np.where(parts > 0.04045, ((parts + 0.055) / 1.055) ** 2.4, parts / 12.92)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def ink_on(colours: ArrayLike) -> np.ndarray:
    """Black or white, whichever is easier to read on each colour: a contrast of 4.5 or more."""
    ground = luminance(colours) + 0.05
    return np.where(ground / 0.05 > 1.05 / ground, BLACK, WHITE)


def as_hex(colour: ArrayLike) -> str:
    """A colour as CSS writes it."""
    red, green, blue = np.rint(colour).astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def finite(values: ArrayLike) -> np.ndarray:
    """Values with NaN (a gap in the line) where a number is infinite or not a number.

    float32, for short JSON: seven digits are more than a chart shows.
    """
    numbers = np.array(values, dtype=np.float32)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def positive(values: ArrayLike) -> np.ndarray:
    """Values with NaN (a gap) where a log axis cannot show them."""
    numbers = finite(values)
    numbers[~(numbers > 0)] = np.nan
    return numbers


def nice_limit(largest: float) -> float:
    """Smallest of 1, 2, 5 × a power of ten that reaches `largest`: a scale that seldom jumps."""
    if not math.isfinite(largest) or largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 5, 10) if largest <= step * power * (1 + 1e-9))


def margin(left: float, right: float, top: float, bottom: float) -> dict[str, int]:
    """Pixels around the axes."""
    return {"l": round(left), "r": round(right), "t": round(top), "b": round(bottom)}


LEGEND_ROWS = 2  # kept free where the lines come and go
SCROLLED = 12  # pixels around the rows of a legend that can be scrolled


EDGE = 8  # pixels around the rows of a legend


def legend_below(
    names: Iterable[str | Sequence[str]], width: int, size: Sizes, *, rows: int | None = None
) -> dict[str, Any]:
    """Legend under the horizontal axis, with the bottom margin that makes room for it.

    Plotly sets the names of a group below each other and the groups side by side, as many as fit;
    the estimate here does the same. Where the figure turns out narrower than `width`, the live
    component makes it as much taller as the legend then needs.

    Args:
        names: of the lines; those of a group together.
        width: pixels the figure will about have.
        rows: so many, whatever the names: the plot does not move when lines come and go, and a
            legend that needs more can be scrolled.
    """
    groups = [[name] if isinstance(name, str) else name for name in names]
    font = size.small + (0 if size.projector else 1)
    row, below = 1.85 * font, axis_room(size)
    fixed = {} if rows is None else {"maxheight": round(rows * row) + SCROLLED}
    if rows is None:
        rows = _legend_rows(groups, width - 6 * font - 16, font)
    return {
        "margin": margin(
            5 * font,
            24 if size.projector else 16,
            12,
            below + row * rows + (SCROLLED if fixed else 0) + EDGE,
        ),
        # One line needs no legend.
        "showlegend": sum(map(len, groups)) > 1,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "font": {"size": font},
            **fixed,
        },
    }


def axis_room(size: Sizes) -> int:
    """Pixels below a panel for the labels and the title of its horizontal axis."""
    return round(3.3 * size.small + 6)


def _legend_rows(groups: Sequence[Sequence[str]], room: float, font: int) -> int:
    used, rows, tallest = 0.0, 0, 0
    for group in groups:
        needed = max(map(len, group)) * 0.52 * font + 45
        if used and used + needed > room:
            rows, used, tallest = rows + tallest, 0.0, 0
        used, tallest = used + needed, max(tallest, len(group))
    return rows + tallest


def step_axis(end: float) -> dict[str, Any]:
    """Axis of the training steps, from 0 to `end`."""
    return {"title": {"text": "step"}, "range": [0, max(end, 1)]}


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def scientific(value: float) -> str:
    """Two digits and a power of ten: 1.8·10⁻¹⁵."""
    digits, power = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(power)).translate(_RAISED)}".replace("-", "−")


def short_count(n: float) -> str:
    """A large number in three digits: 33.3 k, 4.19 M, 175 B."""
    for size, sign in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if n >= 0.9995 * size:
            return f"{n / size:.3g} {sign}" if n < 999.5 * size else f"{n / size:.0f} {sign}"
    return f"{n:.0f}"


def escape(text: str) -> str:
    """Text that Plotly shows as it is: it reads a few HTML tags."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;")


def alt_text(figure: Figure) -> str:
    """Text alternative of a figure."""
    return figure["layout"]["meta"]["alt"]
