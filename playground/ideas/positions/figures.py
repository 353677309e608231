"""Figures of the page about positions: what a scheme does, a shuffle, and longer texts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

LEAST = 1e-17  # the left end of the bars: less than the rounding errors of float64
NARROW, WIDE = 400, 800  # pixels, roughly, of the bars and the losses on a laptop


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
    size: Sizes = style.LAPTOP,
) -> Figure:
    """A scheme as a table, as waves, and as a function of the distance.

    Args:
        matrix: [row, column]; coloured symmetrically around 0.
        waves: lines over the positions.
        fits: lines over the distances.
        titles: of the three panels.
        axes: what the columns and the rows of the matrix are.
        fit_axis: what the third panel measures.
        columns: the first and the last column to frame.
    """
    values = np.asarray(matrix, dtype=np.float64)
    rows, count = values.shape
    limit = style.nice_limit(float(np.abs(values).max()))
    figure = panels.new_figure(
        alt,
        size,
        "order",
        margin=style.margin(4 * size.font, 12, 2 * size.font + 4, 3.6 * size.font),
    )
    hover = f"{axes[1]} %{{y}}, {axes[0]} %{{x}}: <b>%{{z:.3f}}</b><extra></extra>"
    cells = {"showgrid": False, "nticks": 6}
    panels.add_panel(
        figure,
        0,
        _titled(axes[0], size, domain=[0, 0.29], range=[-0.5, count - 0.5], **cells),
        _titled(axes[1], size, range=[rows - 0.5, -0.5], **cells),
        [
            panels.heatmap(
                np.round(values, 4), colours=(style.SCORES_SCALE, -limit, limit), gap=0, hover=hover
            )
        ],
        title=titles[0],
    )
    if columns is not None:
        edges, ink = (columns[0] - 0.5, columns[1] + 0.5), {"color": style.TEXT, "width": size.line}
        figure["layout"]["shapes"].append(panels.rectangle(*edges, 0, 1, ink, yref="y domain"))
    level = {"zeroline": True, "zerolinecolor": style.GRID, "nticks": 5, "fixedrange": True}
    for panel, domain, lines, along, up in (
        (1, [0.38, 0.66], waves, "position", panels.axis(**level)),
        (2, [0.74, 1], fits, "distance", _titled(fit_axis, size, range=_range(fits), **level)),
    ):
        last = max(len(each.y) for each in lines) - 1
        panels.add_panel(
            figure,
            panel,
            _titled(along, size, domain=domain, range=[0, last]),
            up,
            [trace for each in lines for trace in _drawn(each, size)],
            title=titles[panel],
        )
    if not values.any():
        figure["layout"]["yaxis2"]["range"] = [-1, 1]
    return figure


def _titled(title: str, size: Sizes, **more: Any) -> dict[str, Any]:
    """Axis with a small title, and numbers in the size of the figure's text."""
    small = {"text": title, "font": {"size": size.small}, "standoff": 6}
    return panels.axis(**more) | {"title": small}


def _range(lines: Sequence[Line]) -> list[float]:
    lowest = min(float(np.min([*each.y, *each.low])) for each in lines)
    return [min(-0.05, lowest * 1.1), 1.05]


def _drawn(curve: Line, size: Sizes) -> list[dict[str, Any]]:
    """The line, with its band behind it."""
    behind = curve.colour is None
    colour = style.MUTED if behind else style.run_colour(curve.colour)
    along = list(range(len(curve.y)))
    drawn = panels.line(
        along,
        style.finite(curve.y),
        colour,
        size.thin if behind else size.line,
        dash="dash" if curve.dashed else "solid",
        name=curve.name,
        hover=f"{style.escape(curve.name)}<br>%{{x}}: <b>%{{y:.3f}}</b><extra></extra>",
        opacity=0.55 if behind else 1,
    )
    if not len(curve.low):
        return [drawn]
    around = style.finite([*curve.high, *reversed(curve.low)])
    filled = {"fill": "toself", "fillcolor": colour, "opacity": 0.2}
    return [panels.line([*along, *reversed(along)], around, colour, 0, **filled), drawn]


def number(value: float) -> str:
    """Two digits, and powers of ten for tiny numbers: 0.98, −0.02, 1.8·10⁻¹⁵."""
    if value == 0 or abs(value) >= 1e-3:
        text = f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"
        return text.replace("-", "−")
    return style.scientific(value)


# --- a shuffle ------------------------------------------------------------------------------


def shuffle_picture(
    before: ArrayLike,
    after: ArrayLike,
    words: Sequence[str],
    shuffled: Sequence[str],
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """The output of each word, the same after a shuffle, moved back, and the difference.

    Args:
        before, after: [word, column], in the order of `words`.
        words, shuffled: the text, and the order in which it was read the second time.
    """
    before, after = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    difference = after - before
    limit = style.nice_limit(float(np.abs(before).max()))
    largest = float(np.abs(difference).max())
    titles = (
        f"“{' '.join(words)}”",
        f"“{' '.join(shuffled)}”",
        f"difference, at most {number(largest)}",
    )
    figure = panels.new_figure(
        f"The outputs of {len(words)} words, read as {titles[0]} and as {titles[1]}: "
        f"they differ by {number(largest)} at most.",
        size,
        "shuffle",
        margin=style.margin(5 * size.font, 8, 2 * size.font + 4, 2 * size.font + 8),
    )
    hover, colours = (
        "column %{x}: <b>%{z:.3f}</b><extra></extra>",
        (style.SCORES_SCALE, -limit, limit),
    )
    bare = {"showticklabels": False, "showgrid": False}
    for i, values in enumerate((before, after, difference)):
        start = i * 0.345
        shown = panels.heatmap(np.round(values, 4), colours=colours, gap=0, hover=hover, ygap=3)
        panels.add_panel(
            figure,
            i,
            _titled("output, column by column", size, domain=[start, start + 0.31], **bare),
            panels.axis(matches="y", **bare)
            if i
            else panels.cell_axis(words, size.font, downwards=True),
            [shown],
            title=titles[i],
        )
    return figure


def difference_chart(
    differences: Mapping[str, Mapping[str, float]],
    *,
    chosen: tuple[str, str],
    size: Sizes = style.LAPTOP,
) -> Figure:
    """How far a shuffle moves the outputs: positions by mask, on a logarithmic axis.

    Args:
        differences: mask -> positions -> the largest difference.
        chosen: the mask and the positions to mark.
    """
    kinds = list(next(iter(differences.values())))
    said = [
        f"{kind}, {mask}: {number(value)}"
        for mask, row in differences.items()
        for kind, value in row.items()
    ]
    below = style.legend_below(differences, NARROW, size)
    below["margin"] |= {"l": 7 * size.small, "r": 5 * size.small, "t": 2 * size.font + 4}
    figure = panels.new_figure(
        "Largest difference. " + "; ".join(said) + ".",
        size,
        "blind",
        **below,
        barmode="group",
        bargap=0.25,
    )
    powers = {"tickvals": [1e-16, 1e-11, 1e-6, 1e-1], "ticktext": ["10⁻¹⁶", "10⁻¹¹", "10⁻⁶", "0.1"]}
    panels.add_panel(
        figure,
        0,
        panels.axis(type="log", range=[math.log10(LEAST), 1], **powers),
        panels.cell_axis(kinds, size.font, downwards=True, marked=kinds.index(chosen[1])),
        title="largest difference",
    )
    for i, (mask, row) in enumerate(differences.items()):
        edge = [2 * size.thin if chosen == (mask, kind) else 0 for kind in kinds]
        figure["data"].append(
            panels.bars(
                range(len(kinds)),
                [max(row[kind], LEAST) for kind in kinds],
                style.run_colour(i),
                across=True,
                name=mask,
                hover="%{text}<extra></extra>",
                text=[number(row[kind]) for kind in kinds],
                textfont={"size": size.small},
                marker={"color": style.run_colour(i), "line": {"color": style.TEXT, "width": edge}},
            )
        )
    return figure


# --- longer texts ---------------------------------------------------------------------------


def beyond_chart(
    lines: Mapping[str, tuple[int, ArrayLike]],
    trained: int,
    tested: int,
    *,
    bins: int,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Loss at each position, within and beyond the trained length.

    Args:
        lines: name -> (index of its colour, one number for each position that it has).
        trained, tested: positions.
        bins: how many positions each point is the mean of.
    """
    if not lines:
        return panels.empty_figure(
            f"once the runs are finished or paused, they are tested here on {tested} characters",
            size=size,
        )
    below = style.legend_below([name + "     " for name in lines], WIDE, size)
    below["margin"] |= {"t": 2 * size.font, "b": below["margin"]["b"] + size.font}
    figure = panels.new_figure("", size, "beyond", **below)
    layout, said, drawn = figure["layout"], [], []
    for name, (colour, values) in lines.items():
        values = np.asarray(values, dtype=np.float64)
        means = values[: len(values) // bins * bins].reshape(-1, bins).mean(1)
        drawn.append(means)
        within, beyond = values[:trained].mean(), values[trained:]
        said.append(
            f"{name} {within:.2f} within, "
            + (f"{beyond.mean():.2f} beyond" if len(beyond) else "nothing beyond")
        )
        figure["data"].append(
            panels.line(
                np.arange(len(means)) * bins + (bins + 1) / 2,
                style.finite(means),
                style.run_colour(colour),
                size.line,
                dash=style.dash(colour),
                name=name,
                hover="position %{x:.0f}: <b>%{y:.2f}</b>",
            )
        )
        if len(values) < tested:
            end = (len(values) + 0.5, float(means[-1]))
            layout["annotations"].append(_end(name, *end, style.run_colour(colour), size))
    layout["meta"]["alt"] = (
        f"Loss, trained on {trained} positions, tested on {tested}: " + "; ".join(said) + "."
    )
    low, high = (float(end(np.concatenate(drawn))) for end in (np.min, np.max))
    room = 0.12 * max(high - low, 0.1)
    panels.add_panel(
        figure,
        0,
        _titled("position in the text", size, range=[0, tested]),
        _titled("loss (nats)", size, range=[low - room, high + room]),
    )
    layout["shapes"].append(panels.upright(trained + 0.5, size.thin))
    layout["annotations"] += [
        panels.panel_title(text)
        | {"xref": "x", "x": trained + 0.5, "xanchor": side, "xshift": shift}
        | {"font": {"color": style.MUTED}}
        for text, side, shift in (("trained", "right", -6), ("never seen", "left", 6))
    ]
    return figure


def _end(name: str, x: float, y: float, colour: str, size: Sizes) -> dict[str, Any]:
    """A note in the empty corner that points to where a line has to stop."""
    return panels.annotation(
        f"{style.escape(name)}:<br>no such position",
        x,
        y,
        ax=-5 * size.font,
        ay=-7 * size.font,
        showarrow=True,
        arrowcolor=colour,
        arrowwidth=size.line,
        arrowhead=2,
    )
