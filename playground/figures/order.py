"""Figures of the page about positions: what a scheme tells, a shuffle, and longer texts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.compare import dash
from playground.figures.panels import (
    empty_figure,
    heading,
    suffix_of,
)
from playground.figures.style import (
    GRID,
    MUTED,
    SCORES_SCALE,
    TEXT,
    Figure,
    base_layout,
    escape,
    finite,
    legend_below,
    nice_limit,
    run_colour,
    scientific,
    sizes,
)

LEAST = 1e-17  # the left end of the bars: below what float64 can round away


@dataclass(frozen=True)
class Line:
    """One line of a panel; `low` and `high` are a band around it."""

    name: str
    y: ArrayLike
    colour: int | None = 0  # None: in the background
    dashed: bool = False
    low: ArrayLike = ()
    high: ArrayLike = ()


def order_picture(
    matrix: ArrayLike,
    waves: Sequence[Line],
    fits: Sequence[Line],
    *,
    titles: tuple[str, str, str],
    axes: tuple[str, str],
    fit_axis: str,
    columns: tuple[int, int] | None = None,
    alt: str = "",
    height: int = 340,
    projector: bool = False,
) -> Figure:
    """A scheme as a table, as waves, and as what it makes of a distance.

    Args:
        matrix: [row, column]; coloured symmetrically around 0.
        waves: lines over the positions.
        fits: lines over the distances.
        titles: of the three panels.
        axes: what the columns and the rows of the matrix are.
        fit_axis: what the third panel measures.
        columns: the first and the last column to frame.
    """
    values, size = np.asarray(matrix, dtype=np.float64), sizes(projector)
    rows, count = values.shape
    limit = nice_limit(float(np.abs(values).max()))
    layout = base_layout(alt, height, projector, "order")
    layout |= {
        "margin": {
            "l": 4 * size.font,
            "r": 12,
            "t": 2 * size.font + 4,
            "b": round(3.6 * size.font),
        },
        "showlegend": False,
        "xaxis": {
            "domain": [0, 0.29],
            "range": [-0.5, count - 0.5],
            "title": _title(axes[0], size),
            "showgrid": False,
            "zeroline": False,
            "nticks": 6,
        },
        "yaxis": {
            "range": [rows - 0.5, -0.5],
            "title": _title(axes[1], size),
            "showgrid": False,
            "zeroline": False,
            "nticks": 6,
        },
        "xaxis2": {
            "domain": [0.38, 0.66],
            "anchor": "y2",
            "range": [0, max(len(line.y) for line in waves) - 1],
            "title": _title("position", size),
            "gridcolor": GRID,
            "zeroline": False,
        },
        "yaxis2": {
            "anchor": "x2",
            "gridcolor": GRID,
            "zeroline": True,
            "zerolinecolor": GRID,
            "nticks": 5,
            "fixedrange": True,
        },
        "xaxis3": {
            "domain": [0.74, 1],
            "anchor": "y3",
            "range": [0, max(len(line.y) for line in fits) - 1],
            "title": _title("distance", size),
            "gridcolor": GRID,
            "zeroline": False,
        },
        "yaxis3": {
            "anchor": "x3",
            "range": _range(fits),
            "title": _title(fit_axis, size),
            "gridcolor": GRID,
            "zeroline": True,
            "zerolinecolor": GRID,
            "nticks": 5,
            "fixedrange": True,
        },
        "annotations": [heading(title, suffix_of(i), size) for i, title in enumerate(titles)],
        "shapes": [],
    }
    if not np.abs(values).max():
        layout["yaxis2"]["range"] = [-1, 1]
    if columns is not None:
        layout["shapes"].append(
            {
                "type": "rect",
                "xref": "x",
                "yref": "y domain",
                "x0": columns[0] - 0.5,
                "x1": columns[1] + 0.5,
                "y0": 0,
                "y1": 1,
                "line": {"color": TEXT, "width": size.line},
            }
        )
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap",
            "z": np.round(values, 4),
            "colorscale": SCORES_SCALE,
            "zmin": -limit,
            "zmax": limit,
            "showscale": False,
            "hovertemplate": f"{axes[1]} %{{y}}, {axes[0]} %{{x}}: <b>%{{z:.3f}}</b><extra></extra>",
        }
    ]
    for axis, lines in (("2", waves), ("3", fits)):
        data += [trace for line in lines for trace in _drawn(line, axis, size)]
    return {"data": data, "layout": layout}


def _title(text: str, size: Any) -> dict[str, Any]:
    return {"text": escape(text), "font": {"size": size.small}, "standoff": 6}


def _range(lines: Sequence[Line]) -> list[float]:
    lowest = min(float(np.min([*line.y, *line.low])) for line in lines)
    return [min(-0.05, lowest * 1.1), 1.05]


def _drawn(line: Line, axis: str, size: Any) -> list[dict[str, Any]]:
    """The line, and below it its band."""
    behind = line.colour is None
    colour = MUTED if behind else run_colour(line.colour)
    on = {"xaxis": f"x{axis}", "yaxis": f"y{axis}", "name": escape(line.name)}
    x = list(range(len(line.y)))
    traces = []
    if len(line.low):
        traces.append(
            on
            | {
                "type": "scatter",
                "x": [*x, *reversed(x)],
                "y": finite([*line.high, *reversed(line.low)]),
                "mode": "lines",
                "line": {"width": 0, "color": colour},
                "fill": "toself",
                "fillcolor": colour,
                "opacity": 0.2,
                "hoverinfo": "skip",
            }
        )
    traces.append(
        on
        | {
            "type": "scatter",
            "x": x,
            "y": finite(line.y),
            "mode": "lines",
            "opacity": 0.55 if behind else 1,
            "line": {
                "color": colour,
                "width": size.thin if behind else size.line,
                "dash": "dash" if line.dashed else "solid",
            },
            "hovertemplate": f"{escape(line.name)}<br>%{{x}}: <b>%{{y:.3f}}</b><extra></extra>",
        }
    )
    return traces


def number(value: float) -> str:
    """Two digits, and powers of ten for what is nearly nothing: 0.98, −0.02, 1.8·10⁻¹⁵."""
    if value == 0 or abs(value) >= 1e-3:
        text = f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"
        return text.replace("-", "−")
    return scientific(value)


# --- a shuffle ------------------------------------------------------------------------------


def shuffle_picture(
    before: ArrayLike,
    after: ArrayLike,
    words: Sequence[str],
    shuffled: Sequence[str],
    *,
    height: int = 300,
    projector: bool = False,
) -> Figure:
    """The output of each word, the same after a shuffle, back at its word, and the difference.

    Args:
        before, after: [word, column], in the order of `words`.
        words, shuffled: the text, and the order in which it was read the second time.
    """
    before, after = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    size, difference = sizes(projector), after - before
    limit = nice_limit(float(np.abs(before).max()))
    largest = float(np.abs(difference).max())
    titles = (
        f"“{' '.join(words)}”",
        f"“{' '.join(shuffled)}”",
        f"difference, at most {number(largest)}",
    )
    layout = base_layout(
        f"The outputs of {len(words)} words, read as {titles[0]} and as {titles[1]}: they differ by {number(largest)} at most.",
        height,
        projector,
        "shuffle",
    )
    layout |= {
        "margin": {"l": 5 * size.font, "r": 8, "t": 2 * size.font + 4, "b": 2 * size.font + 8},
        "annotations": [heading(title, suffix_of(i), size) for i, title in enumerate(titles)],
        "yaxis": {
            "range": [len(words) - 0.5, -0.5],
            "tickvals": list(range(len(words))),
            "ticktext": [escape(word) for word in words],
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
        },
    }
    data = []
    for i, values in enumerate((before, after, difference)):
        suffix = suffix_of(i)
        layout[f"xaxis{suffix}"] = {
            "domain": [i * 0.345, i * 0.345 + 0.31],
            "anchor": f"y{suffix}",
            "showticklabels": False,
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
            "title": _title("output, column by column", size),
        }
        if i:
            layout[f"yaxis{suffix}"] = {
                "matches": "y",
                "anchor": f"x{suffix}",
                "showticklabels": False,
                "ticks": "",
                "showgrid": False,
                "zeroline": False,
            }
        data.append(
            {
                "type": "heatmap",
                "z": np.round(values, 4),
                "xaxis": f"x{suffix}",
                "yaxis": f"y{suffix}",
                "colorscale": SCORES_SCALE,
                "zmin": -limit,
                "zmax": limit,
                "showscale": False,
                "ygap": 3,
                "hovertemplate": "column %{x}: <b>%{z:.3f}</b><extra></extra>",
            }
        )
    return {"data": data, "layout": layout}


def blind_chart(
    differences: Mapping[str, Mapping[str, float]],
    *,
    chosen: tuple[str, str] | None = None,
    width: int = 400,
    height: int = 300,
    projector: bool = False,
) -> Figure:
    """How far a shuffle moves the outputs: positions by mask, on a logarithmic axis.

    Args:
        differences: mask -> positions -> the largest difference.
        chosen: the mask and the positions to mark.
    """
    size = sizes(projector)
    kinds = list(next(iter(differences.values())))
    said = [
        f"{kind}, {mask}: {number(value)}"
        for mask, row in differences.items()
        for kind, value in row.items()
    ]
    layout = base_layout("Largest difference. " + "; ".join(said) + ".", height, projector, "blind")
    layout |= legend_below([[mask] for mask in differences], width, projector)
    layout["margin"] |= {"l": 7 * size.small, "r": 5 * size.small, "t": 2 * size.font + 4}
    layout |= {
        "barmode": "group",
        "bargap": 0.25,
        "xaxis": {
            "type": "log",
            "range": [math.log10(LEAST), 1],
            "tickvals": [1e-16, 1e-11, 1e-6, 1e-1],
            "ticktext": ["10⁻¹⁶", "10⁻¹¹", "10⁻⁶", "0.1"],
            "gridcolor": GRID,
            "zeroline": False,
        },
        "yaxis": {
            "range": [len(kinds) - 0.5, -0.5],
            "tickvals": list(range(len(kinds))),
            "ticktext": [f"<b>{k}</b>" if chosen and k == chosen[1] else k for k in kinds],
            "ticks": "",
            "showgrid": False,
        },
        "annotations": [heading("largest difference", "", size)],
    }
    data = []
    for i, (mask, row) in enumerate(differences.items()):
        values = [max(row[kind], LEAST) for kind in kinds]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": escape(mask),
                "y": list(range(len(kinds))),
                "x": values,
                "marker": {
                    "color": run_colour(i),
                    "line": {
                        "color": TEXT,
                        "width": [size.thin * 2 if chosen == (mask, kind) else 0 for kind in kinds],
                    },
                },
                "text": [number(row[kind]) for kind in kinds],
                "textposition": "outside",
                "cliponaxis": False,
                "textfont": {"size": size.small},
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    return {"data": data, "layout": layout}


# --- longer texts ---------------------------------------------------------------------------


def beyond_chart(
    lines: Mapping[str, tuple[int, ArrayLike]],
    trained: int,
    tested: int,
    *,
    bins: int = 1,
    width: int = 800,
    height: int = 360,
    projector: bool = False,
) -> Figure:
    """Loss at each position; beyond the trained length nobody has been before.

    Args:
        lines: name -> (index of its colour, one number for each position that it can do).
        trained, tested: positions.
        bins: so many positions are drawn as their mean.
    """
    if not lines:
        return empty_figure(
            f"once the runs rest, they are tested here on {tested} characters",
            height=height,
            projector=projector,
        )
    size, data, said, ends = sizes(projector), [], [], []
    layout = base_layout("", height, projector, "beyond")
    layout |= legend_below([[name + "     "] for name in lines], width, projector)
    layout["margin"]["t"] = 2 * size.font
    lows, highs = [], []
    for name, (colour, values) in lines.items():
        values = np.asarray(values, dtype=np.float64)
        means = values[: len(values) // bins * bins].reshape(-1, bins).mean(1)
        lows.append(float(means.min()))
        highs.append(float(means.max()))
        said.append(
            f"{name} {values[:trained].mean():.2f} within"
            + (
                f", {values[trained:].mean():.2f} beyond"
                if len(values) > trained
                else ", nothing beyond"
            )
        )
        data.append(
            {
                "type": "scatter",
                "x": np.arange(len(means)) * bins + (bins + 1) / 2,
                "y": finite(means),
                "mode": "lines",
                "name": escape(name),
                "line": {"color": run_colour(colour), "width": size.line, "dash": dash(colour)},
                "hovertemplate": "position %{x:.0f}: <b>%{y:.2f}</b><extra>"
                + escape(name)
                + "</extra>",
            }
        )
        if len(values) < tested:
            ends.append(_ends(name, len(values) + 0.5, float(means[-1]), run_colour(colour), size))
    room = 0.12 * max(max(highs) - min(lows), 0.1)
    layout["meta"]["alt"] = (
        f"Loss, trained on {trained} positions, tested on {tested}: " + "; ".join(said) + "."
    )
    layout |= {
        "xaxis": {
            "range": [0, tested],
            "title": _title("position in the text", size),
            "zeroline": False,
            "gridcolor": GRID,
        },
        "yaxis": {
            "range": [min(lows) - room, max(highs) + room],
            "title": _title("loss (nats)", size),
            "gridcolor": GRID,
            "zeroline": False,
        },
        "shapes": [
            {
                "type": "line",
                "xref": "x",
                "yref": "y domain",
                "x0": trained + 0.5,
                "x1": trained + 0.5,
                "y0": 0,
                "y1": 1,
                "line": {"color": MUTED, "width": size.thin, "dash": "dot"},
            }
        ],
        "annotations": [
            _beside("trained", trained, "right", size),
            _beside("never seen", trained, "left", size),
            *ends,
        ],
    }
    layout["margin"]["b"] += size.font
    return {"data": data, "layout": layout}


def _ends(name: str, x: float, y: float, colour: str, size: Any) -> dict[str, Any]:
    """Where a line has to stop: a note in the empty corner, pointing there."""
    return {
        "text": f"{escape(name)}:<br>no such position",
        "xref": "x",
        "yref": "y",
        "x": x,
        "y": y,
        "ax": -5 * size.font,
        "ay": -7 * size.font,
        "arrowcolor": colour,
        "arrowwidth": size.line,
        "arrowhead": 2,
        "font": {"size": size.font, "color": TEXT},
    }


def _beside(text: str, x: float, side: str, size: Any) -> dict[str, Any]:
    return {
        "text": text,
        "xref": "x",
        "yref": "y domain",
        "x": x + 0.5,
        "y": 1,
        "xanchor": side,
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": size.font, "color": MUTED},
        "xshift": 6 if side == "left" else -6,
    }
