"""What everybody in a class tried: a dot for each configuration, over the values of one knob."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from playground.figures.panels import add_panel, annotation, axis, new_figure
from playground.figures.style import (
    LAPTOP,
    MUTED,
    Figure,
    Sizes,
    escape,
    legend_below,
    run_colour,
)

ROOM = 0.7  # of the distance between two values, for the dots of all colours


@dataclass(frozen=True)
class Dot:
    """One configuration: its mean, and from the lowest to the highest of its seeds."""

    x: int  # number of the value
    colour: int  # number of the colour's value
    y: float | None  # None: it diverged
    low: float
    high: float
    text: str  # what is said of it on hover


def board_chart(
    dots: Sequence[Dot],
    x_values: Sequence[str],
    colours: Sequence[str],
    *,
    x_title: str,
    y_title: str,
    colour_title: str = "",
    log: bool = False,
    chosen: int | None = None,
    width: int = 1000,
    size: Sizes = LAPTOP,
) -> Figure:
    """Dots over the values of a knob; what diverged is in a row of its own above all of them.

    Args:
        x_values, colours: what the numbers of the dots mean; one colour: there is no legend.
        chosen: number of the dot that has a ring.
        log: whether the axis of the measure is logarithmic; a value of 0 is not drawn there.
    """
    top, level = _top([dot.high for dot in dots if dot.y is not None], log)
    gone = sum(dot.y is None for dot in dots)
    alt = (
        f"{len(dots)} configurations: {y_title} over {x_title}"
        f"{f', coloured by {colour_title}' if colour_title else ''}; {gone} diverged."
    )
    names = [f"{colour_title} = {escape(name)}" for name in colours] if colour_title else [""]
    figure = new_figure(
        alt, size, f"{x_title} {y_title} {colour_title} {log}", **legend_below(names, width, size)
    )
    ticks = {"tickvals": list(range(len(x_values))), "ticktext": [escape(x) for x in x_values]}
    add_panel(
        figure,
        0,
        axis(x_title, range=[-0.6, len(x_values) - 0.4], showgrid=False, **ticks),
        axis(y_title, **({"type": "log"} if log else {"rangemode": "tozero"})),
        [
            _trace(dots, colour, name, len(colours), level, chosen, size)
            for colour, name in enumerate(names)
        ],
    )
    if gone:
        line = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": level, "y1": level}
        figure["layout"]["shapes"].append(
            line | {"line": {"color": MUTED, "width": 1, "dash": "dot"}}
        )
        figure["layout"]["annotations"].append(
            annotation(
                "diverged",
                0.005,
                top,
                size=size.small,
                colour=MUTED,
                xref="x domain",
                xanchor="left",
                yanchor="bottom",
            )
        )
    return figure


def place(dot: Dot, colours: int) -> float:
    """Where a dot is on the horizontal axis: those of one value stand beside each other."""
    return round(dot.x + (dot.colour - (colours - 1) / 2) * ROOM / max(colours, 1), 4)


def _top(values: Sequence[float], log: bool) -> tuple[float, float]:
    """Where the row of what diverged is written, on this axis, and where its dots are."""
    highest = max(values, default=1.0) or 1.0
    level = highest * (2.0 if log else 1.15)
    return (math.log10(level) if log else level), level


def _trace(
    dots: Sequence[Dot],
    colour: int,
    name: str,
    colours: int,
    level: float,
    chosen: int | None,
    size: Sizes,
) -> dict:
    mine = [(i, dot) for i, dot in enumerate(dots) if dot.colour == colour]
    drawn = [level if dot.y is None else dot.y for _, dot in mine]
    ends = [
        (y, y) if dot.y is None else (dot.low, dot.high)
        for y, (_, dot) in zip(drawn, mine, strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "cliponaxis": False,
        "name": name,
        "x": [place(dot, colours) for _, dot in mine],
        "y": drawn,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high - y for y, (_, high) in zip(drawn, ends, strict=True)],
            "arrayminus": [y - low for y, (low, _) in zip(drawn, ends, strict=True)],
            "thickness": size.thin,
            "width": 5,
        },
        "marker": {
            "color": run_colour(colour),
            "size": [2 * size.marker + 6 * (i == chosen) for i, _ in mine],
            "symbol": ["x" if dot.y is None else "circle" for _, dot in mine],
            "line": {"width": [3 * (i == chosen) for i, _ in mine], "color": MUTED},
        },
        "text": [dot.text for _, dot in mine],
        "hovertemplate": "%{text}<extra></extra>",
    }
