"""What figures are put together from: panels with their axes, traces, notes and shapes.

Each function returns a part of Plotly's JSON as a plain dict. What they leave out is in the
template (see `playground/figures/style.py`); what they do not know of goes in by its Plotly name,
as `**more`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import style
from playground.figures.style import (
    LAPTOP,
    MUTED,
    TEMPLATE,
    TEXT,
    Figure,
    Sizes,
    axis_room,
    escape,
)

LEAST_PANEL = 220  # pixels: narrower ones go below each other, see `stack`
LOWER = 0.6  # of its height: so low a page may make a plot

# --- a figure and its panels ----------------------------------------------------------------------


def new_figure(alt: str, size: Sizes, revision: str, **layout: Any) -> Figure:
    """A figure without data, ready for panels.

    Args:
        alt: text alternative: one or two sentences with the main numbers.
        size: its height, and that of its letters.
        revision: stays the same from frame to frame, so the visitor's zoom and hidden lines stay.
        layout: goes into the layout as it is.
    """
    start = {
        "height": size.height,
        "font": {"size": size.font},
        "uirevision": revision,
        "meta": {
            "alt": alt,
            "small": size.small,
            "below": axis_room(size),
            "stack": LEAST_PANEL,
        },
        "template": TEMPLATE,
        "annotations": [],
        "shapes": [],
    }
    return {"data": [], "layout": start | layout}


def empty_figure(message: str, *, size: Sizes = LAPTOP) -> Figure:
    """Figure that says in words why there is nothing to draw yet."""
    hidden = {"visible": False}
    figure = new_figure(message, size, "empty", xaxis=hidden, yaxis=hidden)
    figure["layout"]["annotations"].append(note(message))
    return figure


def stack(figure: Figure, least: int) -> None:
    """Let as many panels be side by side as have `least` pixels each.

    For a figure that has less than 700: only the browser knows. The live component then sets the
    panels below each other and makes the figure taller. Each keeps its height; one with square
    cells becomes as high as it needs.
    """
    figure["layout"]["meta"]["stack"] = least


def wide(figure: Figure, least: int) -> None:
    """Keep what belongs side by side so: with less than `least` pixels the figure is scrolled."""
    figure["layout"]["meta"]["wide"] = least


def suffix_of(panel: int) -> str:
    """What the names of a panel's axes end in: nothing for the first, then "2", "3" …"""
    return "" if panel == 0 else str(panel + 1)


def at(panel: int) -> dict[str, str]:
    """Position of a shape, a note or an image in the data of a panel."""
    return {"xref": f"x{suffix_of(panel)}", "yref": f"y{suffix_of(panel)}"}


def over(panel: int) -> dict[str, str]:
    """Position of a shape, a note or an image from 0 to 1 across a panel."""
    return {name: f"{axis} domain" for name, axis in at(panel).items()}


def on(panel: int, trace: dict[str, Any]) -> dict[str, Any]:
    """The trace, in a panel."""
    return trace | {"xaxis": f"x{suffix_of(panel)}", "yaxis": f"y{suffix_of(panel)}"}


def add_panel(
    figure: Figure,
    panel: int,
    x: dict[str, Any],
    y: dict[str, Any],
    traces: Iterable[dict[str, Any]] = (),
    *,
    title: str = "",
) -> None:
    """Put a panel into a figure: its axes (see `axis`), its traces, its title above it.

    Titles and tick labels of all axes are of one size, unless an axis says otherwise.
    """
    layout, suffix = figure["layout"], suffix_of(panel)
    layout[f"xaxis{suffix}"] = {"anchor": f"y{suffix}"} | _lettered(x, layout)
    layout[f"yaxis{suffix}"] = {"anchor": f"x{suffix}"} | _lettered(y, layout)
    figure["data"] += [on(panel, trace) for trace in traces]
    if title:
        layout["annotations"].append(panel_title(title, panel))


def _lettered(axis: dict[str, Any], layout: dict[str, Any]) -> dict[str, Any]:
    """The axis with its letters in the figure's small size."""
    font = {"size": layout["meta"]["small"]}
    made = {"tickfont": font} | axis
    return made | {"title": {"font": font} | axis["title"]} if "title" in axis else made


def domains(count: int, gap: float) -> list[list[float]]:
    """Where panels of one size are that fill an axis from 0 to 1, with gaps between them."""
    each = (1 - gap * (count - 1)) / count
    return [[i * (each + gap), min(i * (each + gap) + each, 1.0)] for i in range(count)]


# --- axes -----------------------------------------------------------------------------------------


def axis(title: str = "", size: Sizes | None = None, **more: Any) -> dict[str, Any]:
    """Axis; with a size, its title and its tick labels are small."""
    made: dict[str, Any] = {}
    if title:
        made["title"] = {"text": escape(title)}
    if size is not None:
        made["tickfont"] = {"size": size.small}
        if title:
            made["title"]["font"] = {"size": size.small}
    return made | more


def cell_axis(
    labels: Sequence[str],
    font: int,
    *,
    downwards: bool = False,
    marked: int | None = None,
    first: int = 0,
    every: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """Axis of a map or of bars in rows: cell i at first + i, with label i beside it.

    Args:
        labels: they may repeat.
        font: pixels of the labels.
        downwards: from the top down, as rows are read.
        first: where the first cell is: 1 where cells are positions, which people count from 1.
        every: of so many cells one has a label; pointing at a cell tells its label all the same.
        marked: the cell whose label is bold.
    """
    start, end = first - 0.5, first + len(labels) - 0.5
    names = [f"<b>{escape(n)}</b>" if i == marked else escape(n) for i, n in enumerate(labels)]
    return {
        "range": [end, start] if downwards else [start, end],
        "labelalias": {str(i): name for i, name in enumerate(names, first)},
        "tick0": first,
        "dtick": every,
        "tickangle": 0,
        "tickfont": {"size": font},
        "showgrid": False,
    } | more


def log_axis(title: str = "", size: Sizes | None = None, **more: Any) -> dict[str, Any]:
    """Logarithmic axis, labelled at the powers of ten."""
    return axis(title, size, type="log", dtick=1, exponentformat="power") | more


def colour_axis(
    scale: Any, low: float, high: float, title: str, size: Sizes, **bar: Any
) -> dict[str, Any]:
    """What the maps of a figure share: their colours, and the bar below them that explains them."""
    small = {"size": size.small}
    bar = {"title": {"text": title, "font": small}, "tickfont": small} | bar
    return {"colorscale": scale, "cmin": low, "cmax": high, "colorbar": bar}


# --- traces ---------------------------------------------------------------------------------------


def _listed(values: ArrayLike) -> np.ndarray | list:
    """A sequence that Plotly takes: it takes no range."""
    return values if isinstance(values, np.ndarray) else list(values)


def _hover(template: str) -> dict[str, Any]:
    return {"hovertemplate": template} if template else {"hoverinfo": "skip"}


def _scatter(x: ArrayLike, y: ArrayLike, name: str, hover: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": escape(name),
        "showlegend": bool(name),
        "x": _listed(x),
        "y": _listed(y),
        **_hover(hover),
    }


def line(
    x: ArrayLike,
    y: ArrayLike,
    colour: str,
    width: float,
    *,
    dash: str = "solid",
    name: str = "",
    hover: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Line through points; without a name it is not in the legend, without `hover` not pointed at.

    Args:
        hover: Plotly's `hovertemplate`.
    """
    stroke = {"color": colour, "width": width, "dash": dash}
    return _scatter(x, y, name, hover) | {"mode": "lines", "line": stroke} | more


def with_gaps(x: ArrayLike, y: ArrayLike, marks: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Points of a line, with a gap wherever it would lead across a mark.

    A point at a mark belongs to what was before it; a second one at the same x, to what is after.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 2 or not len(marks):
        return x, y
    later = x + 0.5 * np.append(False, x[1:] == x[:-1])
    before = np.searchsorted(np.sort(marks), later)  # how many marks each point has before it
    gaps = np.flatnonzero(np.diff(before)) + 1
    return np.insert(x, gaps, x[gaps - 1]), np.insert(y, gaps, np.nan)


def points(
    x: ArrayLike,
    y: ArrayLike,
    marker: dict[str, Any],
    *,
    name: str = "",
    hover: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Markers; without a name they are not in the legend, without `hover` not pointed at."""
    return _scatter(x, y, name, hover) | {"mode": "markers", "marker": marker} | more


def ring(x: float, y: float, size: Sizes) -> dict[str, Any]:
    """What is chosen, on a line."""
    stroke = {"width": size.line}
    marker = {"symbol": "circle-open", "size": 2 * size.marker + 4, "color": TEXT, "line": stroke}
    return points([x], [y], marker)


def reference_line(
    value: float, end: float, size: Sizes, *, start: float = 0, name: str = ""
) -> dict[str, Any]:
    """Dashed level line from `start` to `end`; with a name it is in the legend.

    A trace, not a shape: the axis then makes room for it, on a linear and on a log scale.
    """
    ends = [start, max(end, 1)]
    return line(ends, [value, value], MUTED, size.thin, dash="longdash", name=name)


def heatmap(
    z: ArrayLike,
    *,
    colours: tuple[Any, float, float] | None = None,
    gap: float = 1,
    name: str = "",
    hover: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Map of a matrix, [row, column]; NaN is a gap.

    Args:
        colours: colour scale, the number at its start and at its end; else the figure's
            `coloraxis`, which several maps share.
        gap: pixels between cells.
    """
    scale = {"coloraxis": "coloraxis"}
    if colours:
        scale = dict(zip(("colorscale", "zmin", "zmax"), colours, strict=True))
    return {
        "type": "heatmap",
        "name": escape(name),
        "z": z,
        **scale,
        "xgap": gap,
        "ygap": gap,
        **_hover(hover),
    } | more


def texts(values: ArrayLike, written: Callable[[float], str]) -> list[list[str]]:
    """Each number as text, with a real minus sign; nothing where there is no number."""

    def text(value: float) -> str:
        return "" if math.isnan(value) else written(value).replace("-", "−")

    return [[text(value) for value in row] for row in np.asarray(values, dtype=float).tolist()]


def printed(
    texts: Sequence[Sequence[str]],
    values: ArrayLike,
    colours: tuple[Any, float, float],
    font: int,
) -> dict[str, Any]:
    """Text in the cells of a map: black or white, whichever is easier to read on its cell.

    Args:
        texts: [row][column]; may hold Plotly's tags.
        values, colours: of the map, see `heatmap`.
        font: pixels.
    """
    scale, low, high = colours
    shares = (np.asarray(values, dtype=float) - low) / (high - low)
    hidden = np.isnan(shares)
    inks = np.where(hidden, style.TEXT, style.ink_on(style.colours_at(scale, shares))).tolist()
    # What most texts have: most weights are small, and dark. The page's own only works so.
    usual = style.TEXT if hidden.any() else style.WHITE

    def inked(text: str, ink: str) -> str:
        return text if ink == usual else f'<span style="color:{ink}">{text}</span>'

    text = [list(map(inked, *row)) for row in zip(texts, inks, strict=True)]
    font = {"size": font, "color": usual}
    return {"text": text, "texttemplate": "%{text}", "textfont": font}


def bars(
    positions: ArrayLike,
    values: ArrayLike,
    colour: str | Sequence[str],
    *,
    across: bool = False,
    name: str = "",
    hover: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Bars from 0 to each value, upright or `across`; `text` in `more` is at their ends."""
    x, y = (values, positions) if across else (positions, values)
    return {
        "type": "bar",
        "orientation": "h" if across else "v",
        "name": escape(name),
        "x": _listed(x),
        "y": _listed(y),
        "marker": {"color": colour},
        **_hover(hover),
    } | more


# --- notes and shapes -----------------------------------------------------------------------------


def annotation(
    text: str,
    x: float | str,
    y: float | str,
    *,
    size: float | None = None,
    colour: str = TEXT,
    xref: str = "x",
    yref: str = "y",
    **more: Any,
) -> dict[str, Any]:
    """Text in a figure, by default at a point of the data; `text` may hold Plotly's tags.

    Args:
        size: pixels; by default those of the figure's font.
        xref, yref: what x and y count in: "x2", "x2 domain" (0 to 1) or "paper" (0 to 1).
    """
    font = {"color": colour} | ({"size": size} if size else {})
    return {"text": text, "x": x, "y": y, "xref": xref, "yref": yref, "font": font} | more


def arrow(
    tail: tuple[float, float],
    head: tuple[float, float],
    colour: str,
    width: float,
    text: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Arrow between two places in the data of the first panel; `text` stands at its head."""
    ends = {"ax": tail[0], "ay": tail[1], "axref": "x", "ayref": "y"}
    stroke = {"showarrow": True, "arrowhead": 2, "arrowwidth": width, "arrowcolor": colour}
    return annotation(text, *head) | ends | stroke | more


def panel_title(text: str, panel: int = 0) -> dict[str, Any]:
    """Title over the middle of a panel."""
    return annotation(escape(text), 0.5, 1, yanchor="bottom", **over(panel))


def note(message: str) -> dict[str, Any]:
    """Annotation in the middle of the figure."""
    return annotation(message, 0.5, 0.5, colour=MUTED, xref="paper", yref="paper")


def reference_label(text: str, value: float, size: Sizes, side: str = "bottom") -> dict[str, Any]:
    """Label of a level line, at its right end; `side` "bottom" is above it, "top" below."""
    return annotation(
        escape(text),
        0.995,
        value,
        size=size.small,
        colour=MUTED,
        xref="x domain",
        xanchor="right",
        yanchor=side,
        yshift=2 if side == "bottom" else -2,
    )


def labels_beside(
    levels: Sequence[tuple[str, float]],
    ends: tuple[float, float],
    height: float,
    size: Sizes,
    *,
    log: bool = False,
    xshift: int = 6,
) -> list[dict[str, Any]]:
    """Labels of level lines, to the right of the plot: no curve runs through them.

    Each stands at its line, or as near to it as leaves the labels apart and inside the plot. A page
    may make the plot lower: labels that are close together stay apart, and above the axis.

    Args:
        levels: (label, value), highest first; a label may be in lines, with <br>.
        ends: of the vertical axis; on a log axis powers of ten.
        height: pixels of the plot.
    """
    low, high = ends
    line = 1.3 * size.small
    places: list[tuple[float, float]] = []  # pixels above the axis: of a label's foot; its height
    above = math.inf
    for label, value in levels:
        at = math.log10(value) if log else value
        tall = line * (label.count("<br>") + 1)
        foot = min((at - low) / (high - low) * height - tall / 2, above - tall)
        above = foot
        places.append((foot, tall))
    for i in reversed(range(len(places))):
        foot, tall = places[i]
        below = sum(places[i + 1]) if i + 1 < len(places) else 0.0
        places[i] = max(foot, below), tall
    middles = [foot + tall / 2 for foot, tall in places]
    # In a lower plot a label stays at its line if it can, else where it is to the one below it, or
    # to the axis.
    anchors: list[float] = []
    anchor = head = 0.0
    for middle, (_, tall) in zip(reversed(middles), reversed(places), strict=True):
        if LOWER * middle - tall / 2 >= head:
            anchor = middle
        anchors.insert(0, anchor)
        head = LOWER * anchor + middle - anchor + tall / 2
    return [
        annotation(
            label,
            1,
            round(anchor / height, 4),
            size=size.small,
            colour=MUTED,
            **over(0),
            align="left",
            xanchor="left",
            yanchor="middle",
            xshift=xshift,
            yshift=round(middle - anchor, 1),
        )
        for (label, _), middle, anchor in zip(levels, middles, anchors, strict=True)
    ]


def rectangle(
    x0: float, x1: float, y0: float, y1: float, line: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Rectangle, by default in the data of the first panel, filled or with a `line` around it."""
    ends = {"x0": x0, "x1": x1, "y0": y0, "y1": y1}
    return {"type": "rect", **at(0), **ends, "line": line or {"width": 0}} | more


def frame(panel: int, colour: str, width: float) -> dict[str, Any]:
    """Line around a panel."""
    return rectangle(0, 1, 0, 1, {"color": colour, "width": width}, **over(panel))


def upright(x: float, width: float, *, panel: int = 0, colour: str = MUTED) -> dict[str, Any]:
    """Line from the bottom to the top of a panel."""
    suffix, line = suffix_of(panel), {"color": colour, "width": width, "dash": "dot"}
    refs = {"xref": f"x{suffix}", "yref": f"y{suffix} domain"}
    return rectangle(x, x, 0, 1, line, type="line", **refs)
