"""Figures of the page about residuals and norms: the wiring, and what depth does to what flows."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from playground.figures.panels import (
    domains,
    heading,
    reference_label,
    suffix_of,
)
from playground.figures.style import (
    GRID,
    HIDDEN,
    MUTED,
    RUN_COLOURS,
    TEXT,
    Figure,
    Sizes,
    base_layout,
    escape,
    finite,
    legend_below,
    run_colour,
    sizes,
)

WITH, WITHOUT = run_colour(0), run_colour(1)  # residual connections, wherever they are compared
NORM = RUN_COLOURS[2]
NORM_DASHES = {"post": "solid", "pre": "dash", "none": "dot"}
FLOOR = 1e-48  # over all depths: the lines go on below, and would press the others flat
AXIS = (1e-3, 1e1)  # a panel shows at least these sizes, so that little things look little

# Rows of the wiring, from below: where each piece stands. Absent ones leave their place empty.
ROWS = {
    "in": 0,
    "before": 1,
    "attention": 2,
    "add": 3,
    "after": 4,
    "before2": 5,
    "ffn": 6,
    "add2": 7,
    "after2": 8,
    "out": 9,
}


# --- the wiring ------------------------------------------------------------------------------


def wiring_picture(
    residual: bool, norm: str, *, height: int = 450, projector: bool = False
) -> Figure:
    """One block, from below to above: its two sub-layers and what surrounds them.

    Args:
        norm: `post`, `pre` or `none`.
    """
    size = sizes(projector)
    around = {
        "post": "after the addition" if residual else "after it",
        "pre": "before it",
        "none": "nowhere",
    }[norm]
    layout = base_layout(
        f"One block: attention, then feed-forward, {'each with a way around it' if residual else 'without a way around them'}. "
        f"LayerNorm stands {around}.",
        height,
        projector,
        "wiring",
    )
    layout |= {
        "margin": {"l": 4, "r": 4, "t": 4, "b": 4},
        "xaxis": {"range": [-1.75, 1.25], "visible": False, "fixedrange": True},
        "yaxis": {"range": [-0.6, 9.6], "visible": False, "fixedrange": True},
        "showlegend": False,
    }
    shapes, notes = [], [_text("x", 0, ROWS["in"], size), _text("x'", 0, ROWS["out"], size)]
    stops = [ROWS["in"]]
    for before, inside, add, after, name in (
        ("before", "attention", "add", "after", "attention"),
        ("before2", "ffn", "add2", "after2", "feed-forward"),
    ):
        way_in = stops[-1]
        if norm == "pre":
            stops.append(_box("LayerNorm", before, NORM, shapes, notes, size))
        stops.append(_box(name, inside, MUTED, shapes, notes, size))
        if residual:
            stops.append(ROWS[add])
            shapes += _plus(ROWS[add], size)
            shapes.append(_around(way_in, ROWS[add], size))
            notes.append(_arrow((-1.2, ROWS[add]), (-0.15, ROWS[add]), WITH, size.line))
        if norm == "post":
            stops.append(_box("LayerNorm", after, NORM, shapes, notes, size))
    stops.append(ROWS["out"])
    for low, high in pairwise(stops):
        notes.append(_arrow((0, low + 0.34), (0, high - 0.34), TEXT, size.thin))
    if residual:
        notes.append(
            _text("+", 0, ROWS["add"], size) | {"font": {"size": size.font, "color": WITH}}
        )
        notes.append(
            _text("+", 0, ROWS["add2"], size) | {"font": {"size": size.font, "color": WITH}}
        )
    layout |= {"shapes": shapes, "annotations": notes}
    corners = {
        "type": "scatter",
        "x": [-1.75, 1.25],
        "y": [0, 9],
        "mode": "markers",
        "marker": {"opacity": 0},
        "hoverinfo": "skip",
    }
    return {"data": [corners], "layout": layout}


def _box(text: str, row: str, colour: str, shapes: list, notes: list, size: Sizes) -> float:
    y = ROWS[row]
    shapes.append(
        {
            "type": "rect",
            "x0": -0.9,
            "x1": 0.9,
            "y0": y - 0.34,
            "y1": y + 0.34,
            "fillcolor": HIDDEN,
            "line": {"color": colour, "width": size.line},
            "layer": "below",
        }
    )
    notes.append(_text(text, 0, y, size))
    return y


def _plus(y: float, size: Sizes) -> list[dict[str, Any]]:
    return [
        {
            "type": "circle",
            "x0": -0.15,
            "x1": 0.15,
            "y0": y - 0.34,
            "y1": y + 0.34,
            "line": {"color": WITH, "width": size.line},
        },
    ]


def _around(low: float, high: float, size: Sizes) -> dict[str, Any]:
    """The way around a sub-layer: out of the stream above `low`, up, and back at `high`."""
    start = low + 0.45
    return {
        "type": "path",
        "path": f"M 0 {start} L -1.2 {start} L -1.2 {high}",
        "line": {"color": WITH, "width": size.line},
        "layer": "below",
    }


def _text(text: str, x: float, y: float, size: Sizes) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "y": y,
        "showarrow": False,
        "font": {"size": size.font, "color": TEXT},
    }


def _arrow(tail: tuple[float, float], head: tuple[float, float], colour: str, width: float):
    return {
        "text": "",
        "x": head[0],
        "y": head[1],
        "ax": tail[0],
        "ay": tail[1],
        "xref": "x",
        "yref": "y",
        "axref": "x",
        "ayref": "y",
        "showarrow": True,
        "arrowhead": 2,
        "arrowsize": 1,
        "arrowwidth": max(width, 1.5),
        "arrowcolor": colour,
    }


# --- through the layers ------------------------------------------------------------------------


def depth_picture(
    panels: Mapping[str, Mapping[bool, Sequence[float]]],
    *,
    residual: bool,
    smallest: float | None = None,
    width: int = 960,
    height: int = 450,
    projector: bool = False,
) -> Figure:
    """What flows through an untrained model, block by block, on logarithmic axes.

    Args:
        panels: title -> with residual connections or without -> a number for the input and for
            the stream after each block.
        residual: which of the two is chosen; the other one stands behind it, thin.
        smallest: the smallest number of float32, drawn where a panel gets that far.
    """
    size, data = sizes(projector), []
    names = {True: "with residual connections", False: "without"}
    layout = base_layout(_flow_alt(panels, residual), height, projector, "flow")
    layout |= legend_below([[name] for name in names.values()], width, projector)
    layout["margin"] |= {"t": 2 * size.font + 6, "b": layout["margin"]["b"] + size.font}
    layout["annotations"] = []
    across = domains(len(panels), gap=0.09)
    for i, (title, lines) in enumerate(panels.items()):
        suffix = suffix_of(i)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        blocks = len(next(iter(lines.values()))) - 1
        layout[f"xaxis{suffix}"] = {
            "domain": across[i],
            "anchor": f"y{suffix}",
            "range": [-0.04 * blocks, 1.04 * blocks],
            "zeroline": False,
            "gridcolor": GRID,
            "tickvals": _ticks(blocks),
            "ticktext": ["input", *map(str, _ticks(blocks)[1:])],
            "title": {"text": "after block", "standoff": 4, "font": {"size": size.small}},
            "tickfont": {"size": size.small},
        }
        everything = [value for values in lines.values() for value in values]
        layout[f"yaxis{suffix}"] = _log_axis(everything, size) | {"anchor": f"x{suffix}"}
        layout["annotations"].append(heading(title, suffix, size))
        if smallest is not None and min(v for v in everything) < smallest:
            data.append(_level(smallest, blocks, size) | axes)
            layout["annotations"].append(_too_small(smallest, suffix, projector))
        for kind in (not residual, residual):
            chosen = kind is residual
            data.append(
                {
                    "type": "scatter",
                    "x": list(range(blocks + 1)),
                    "y": _positive(lines[kind]),
                    "name": names[kind],
                    "legendgroup": str(kind),
                    "showlegend": i == 0,
                    "mode": "lines+markers" if chosen else "lines",
                    "line": {
                        "color": WITH if kind else WITHOUT,
                        "width": size.line if chosen else size.thin,
                        "dash": "solid" if chosen else "dash",
                    },
                    "marker": {"size": size.marker},
                    "opacity": 1 if chosen else 0.8,
                    "hovertemplate": "after block %{x}: %{y:.3g}<extra>" + names[kind] + "</extra>",
                }
                | axes
            )
    return {"data": data, "layout": layout}


def _ticks(blocks: int) -> list[int]:
    step = max(blocks // 4, 1)
    return list(range(0, blocks + 1, step))


def _log_axis(values: Sequence[float], size: Sizes, floor: float = 0.0) -> dict[str, Any]:
    """Logarithmic, down to `floor` at most."""
    some = [max(value, floor) for value in values if value > 0 and math.isfinite(value)]
    low, high = min([AXIS[0], *some]), max([AXIS[1], *some])
    ends = [math.log10(low) - 0.2, math.log10(high) + 0.2]
    return {
        "type": "log",
        "range": ends,
        "dtick": max(round((ends[1] - ends[0]) / 6), 1),
        "exponentformat": "power",
        "gridcolor": GRID,
        "zeroline": False,
        "tickfont": {"size": size.small},
    }


def _positive(values: Sequence[float]) -> np.ndarray:
    """A gap where a number is 0: no logarithmic axis has a place for it. float64, for 1e-150."""
    numbers = np.array(values, dtype=np.float64)
    numbers[~(np.isfinite(numbers) & (numbers > 0))] = np.nan
    return numbers


def _level(value: float, end: float, size: Sizes) -> dict[str, Any]:
    return {
        "type": "scatter",
        "x": [0, end],
        "y": [value, value],
        "mode": "lines",
        "showlegend": False,
        "hoverinfo": "skip",
        "line": {"color": MUTED, "width": size.thin, "dash": "longdash"},
    }


def _too_small(value: float, suffix: str, projector: bool) -> dict[str, Any]:
    label = reference_label("below: 0 in float32", value, projector, side="top", log=True)
    return label | {
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix}",
        "y": math.log10(value),
        "x": 0.02,
        "xanchor": "left",
    }


def _flow_alt(panels: Mapping[str, Mapping[bool, Sequence[float]]], residual: bool) -> str:
    said = f"An untrained model {'with' if residual else 'without'} residual connections."
    for title, lines in panels.items():
        values = lines[residual]
        said += f" {title}: {values[0]:.2g} at the input, {values[-1]:.2g} after block {len(values) - 1}."
    return said


# --- over depth ----------------------------------------------------------------------------------


def depth_sweep(
    depths: Sequence[int],
    panels: Mapping[str, Mapping[tuple[bool, str], Sequence[float]]],
    *,
    chosen: tuple[int, bool, str] | None = None,
    smallest: float | None = None,
    width: int = 1300,
    height: int = 390,
    projector: bool = False,
) -> Figure:
    """One number for each depth: a line for each norm, with and without residual connections.

    Args:
        panels: title -> (residual, norm) -> a number for each depth.
        chosen: depth, residual and norm to ring.
    """
    size, data = sizes(projector), []
    names = {
        key: f"{'with' if key[0] else 'without'}, {'no' if key[1] == 'none' else key[1]} norm"
        for key in next(iter(panels.values()))
    }
    ends = "; ".join(
        f"{title}: " + ", ".join(f"{names[key]} {values[-1]:.2g}" for key, values in lines.items())
        for title, lines in panels.items()
    )
    layout = base_layout(f"At {depths[-1]} blocks. {ends}.", height, projector, "depths")
    layout |= legend_below([[name] for name in names.values()], width, projector)
    layout["margin"] |= {"t": 2 * size.font + 6, "b": layout["margin"]["b"] + size.font}
    layout["annotations"] = []
    across = domains(len(panels), gap=0.07)
    for i, (title, lines) in enumerate(panels.items()):
        suffix = suffix_of(i)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        layout[f"xaxis{suffix}"] = {
            "type": "log",
            "domain": across[i],
            "anchor": f"y{suffix}",
            "tickvals": list(depths),
            "ticktext": list(map(str, depths)),
            "title": {"text": "blocks", "standoff": 4, "font": {"size": size.small}},
            "gridcolor": GRID,
            "zeroline": False,
        }
        everything = [value for values in lines.values() for value in values]
        layout[f"yaxis{suffix}"] = _log_axis(everything, size, FLOOR) | {"anchor": f"x{suffix}"}
        layout["annotations"].append(heading(title, suffix, size))
        if smallest is not None and min(everything) < smallest:
            data.append(_level(smallest, depths[-1], size) | {"x": [depths[0], depths[-1]]} | axes)
            layout["annotations"].append(_too_small(smallest, suffix, projector))
        for (residual, norm), values in lines.items():
            data.append(
                {
                    "type": "scatter",
                    "x": list(depths),
                    "y": _positive(values),
                    "mode": "lines+markers",
                    "name": names[residual, norm],
                    "legendgroup": names[residual, norm],
                    "showlegend": i == 0,
                    "marker": {"size": size.marker},
                    "line": {
                        "color": WITH if residual else WITHOUT,
                        "width": size.line,
                        "dash": NORM_DASHES[norm],
                    },
                    "hovertemplate": "%{x} blocks: %{y:.3g}<extra>"
                    + names[residual, norm]
                    + "</extra>",
                }
                | axes
            )
        if chosen is not None and chosen[1:] in lines:
            at = lines[chosen[1:]][list(depths).index(chosen[0])]
            data.append(
                {
                    "type": "scatter",
                    "x": [chosen[0]],
                    "y": _positive([at]),
                    "mode": "markers",
                    "showlegend": False,
                    "hoverinfo": "skip",
                    "name": "chosen",
                    "marker": {
                        "symbol": "circle-open",
                        "size": 2 * size.marker + 4,
                        "color": TEXT,
                        "line": {"width": size.line},
                    },
                }
                | axes
            )
    return {"data": data, "layout": layout}


# --- LayerNorm, number by number -------------------------------------------------------------------


def norm_picture(
    steps: Sequence[tuple[str, Sequence[float]]],
    *,
    height: int = 290,
    projector: bool = False,
) -> Figure:
    """A token's numbers after each step of LayerNorm: bars, with the numbers on them.

    Each panel has an axis of its own, except that the last two share theirs.

    Args:
        steps: (title, numbers) from left to right.
    """
    size, data = sizes(projector), []
    said = "; ".join(f"{title}: {', '.join(map(short, values))}" for title, values in steps)
    layout = base_layout(f"{said}.", height, projector, "norm")
    layout |= {
        "margin": {"l": 8, "r": 8, "t": 2 * size.font + 6, "b": 8},
        "showlegend": False,
        "bargap": 0.15,
        "annotations": [],
    }
    across = domains(len(steps), gap=0.03)
    last_two = [value for _, values in steps[-2:] for value in values]
    for i, (title, values) in enumerate(steps):
        suffix = suffix_of(i)
        ends = _around_bars(last_two if i >= len(steps) - 2 else values)
        layout[f"xaxis{suffix}"] = {"domain": across[i], "anchor": f"y{suffix}", "visible": False}
        layout[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}",
            "range": ends,
            "showticklabels": False,
            "showgrid": False,
            "ticks": "",
            "zeroline": True,
            "zerolinecolor": MUTED,
            "zerolinewidth": size.thin,
            "fixedrange": True,
        }
        layout["annotations"].append(heading(title, suffix, size))
        data.append(
            {
                "type": "bar",
                "x": list(range(len(values))),
                "y": finite(values),
                "text": [short(value) for value in values],
                "textposition": "outside",
                "textangle": 0,
                "cliponaxis": False,
                "textfont": {"size": size.small if projector else size.small - 1},
                "marker": {"color": NORM if i else run_colour(7)},
                "xaxis": f"x{suffix}",
                "yaxis": f"y{suffix}",
                "name": escape(title),
                "hovertemplate": "number %{x}: %{y:.6g}<extra></extra>",
            }
        )
    return {"data": data, "layout": layout}


def _around_bars(values: Sequence[float]) -> list[float]:
    """An axis with 0 in it, and room for a number beyond each bar."""
    low, high = min(0.0, *values), max(0.0, *values)
    room = 0.2 * (high - low) or 1.0
    return [low - room * (low < 0), high + room]


def short(value: float) -> str:
    """A number in few characters, as a class would write it."""
    size = abs(value)
    if value == 0:
        return "0"
    if size < 1e-3 or size >= 1e5:
        mantissa, _, power = f"{value:.0e}".partition("e")
        text = f"{mantissa}e{int(power)}"
    else:
        text = f"{value:.0f}" if size >= 1000 else f"{value:.3g}" if size >= 1 else f"{value:.2g}"
    return text.replace("-", "−")


# --- a block left out ------------------------------------------------------------------------------


def skip_bars(
    whole: float,
    without: Sequence[float],
    *,
    chance: float,
    width: int = 900,
    height: int = 300,
    projector: bool = False,
) -> Figure:
    """Loss of a trained model with all its blocks, and without each of them."""
    size = sizes(projector)
    worst = int(np.argmax(without))
    layout = base_layout(
        f"Validation loss {whole:.3g} with all blocks. The worst to leave out is block {worst + 1}: {without[worst]:.3g}.",
        height,
        projector,
        "skipped",
    )
    names = ["none", *(f"block {i + 1}" for i in range(len(without)))]
    layout |= {
        "margin": {"l": 5 * size.font, "r": 8, "t": size.font, "b": 3 * size.font},
        "showlegend": False,
        "bargap": 0.35,
        "xaxis": {"title": {"text": "left out", "standoff": 4}, "type": "category"},
        "yaxis": {
            "title": {"text": "loss (nats)"},
            "range": [0, 1.15 * max(chance, whole, *without)],
            "gridcolor": GRID,
            "zeroline": False,
            "fixedrange": True,
        },
        "shapes": [
            {
                "type": "line",
                "xref": "x domain",
                "x0": 0,
                "x1": 1,
                "y0": chance,
                "y1": chance,
                "line": {"color": MUTED, "width": size.thin, "dash": "longdash"},
            }
        ],
        "annotations": [reference_label(f"blind guess {chance:.2f}", chance, projector)],
    }
    values = [whole, *without]
    bars = {
        "type": "bar",
        "x": names,
        "y": finite(values),
        "text": [short(value) for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": [run_colour(7), *[WITH] * len(without)]},
        "hovertemplate": "%{x} left out: %{y:.4g}<extra></extra>",
    }
    return {"data": [bars], "layout": layout}
