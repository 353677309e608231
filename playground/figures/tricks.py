"""Figures of the page about the tricks of training, one or two for each trick."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.block import PART_COLOURS, PART_NAMES, short
from playground.figures.compare import dash
from playground.figures.panels import (
    reference_line,
    step_label,
)
from playground.figures.style import (
    GRID,
    MUTED,
    TEXT,
    Figure,
    base_layout,
    escape,
    finite,
    legend_below,
    run_colour,
    sizes,
    step_axis,
)

NORMS = (0.03, 300.0)  # the axis of the norms, both ways
PARTS = ("embedding", "positions", "attention", "feed-forward", "norms", "head")
COLOURS = PART_COLOURS | {"attention": PART_COLOURS["projections"], "positions": run_colour(3)}
NAMES = PART_NAMES | {"attention": "attention", "positions": "positions"}
REACH = (-46, 40)  # powers of ten on the axis of the number types
BINS_PER_POWER = 2
GRADIENTS = run_colour(6)  # of an untrained model; the runs have the first colours


# --- warmup ---------------------------------------------------------------------------------


def schedule_picture(
    lines: Mapping[str, Sequence[float]],
    *,
    total_steps: int,
    width: int = 1100,
    height: int = 320,
    projector: bool = False,
) -> Figure:
    """The learning rate over the steps, one line for each run, in the colours of the runs."""
    size = sizes(projector)
    said = [
        f"{name}: {values[0]:.2g} at first, {max(values):.2g} at most, {values[-1]:.2g} at the end"
        for name, values in lines.items()
        if len(values)
    ]
    layout = base_layout(f"Learning rate. {'; '.join(said)}.", height, projector, "schedule")
    layout |= legend_below([[name] for name in lines], width, projector)
    layout |= {
        "hovermode": "x unified",
        "xaxis": step_axis(total_steps),
        "yaxis": {
            "title": {"text": "learning rate", "standoff": 6},
            "rangemode": "tozero",
            "zeroline": False,
            "tickformat": "~g",
            "nticks": 5,
        },
        "annotations": [step_label(projector)],
    }
    data = [
        _line(i, name, list(range(1, len(values) + 1)), values, size, "%{y:.3g}")
        for i, (name, values) in enumerate(lines.items())
    ]
    return {"data": data, "layout": layout}


# --- clipping -------------------------------------------------------------------------------


def clip_picture(
    clip: float,
    before: Sequence[float],
    after: Sequence[float],
    *,
    width: int = 1100,
    height: int = 340,
    projector: bool = False,
) -> Figure:
    """How long a gradient is after clipping: the rule as a line, measured gradients as points."""
    size = sizes(projector)
    x = np.geomspace(*NORMS, 121)
    longest = max(before)
    names = ["not clipped", f"clipped at {clip:g}", "gradients of the untrained model"]
    layout = base_layout(
        f"Length of a gradient before and after clipping at {clip:g}. The measured ones are "
        f"{min(before):.2g} to {longest:.2g} long before, {min(after):.2g} to {max(after):.2g} after.",
        height,
        projector,
        "clipping",
    )
    layout |= legend_below([[name] for name in names], width, projector)
    layout["margin"] |= {"l": 5 * size.font, "t": 12}
    layout["margin"]["b"] += size.font
    log = {
        "type": "log",
        "gridcolor": GRID,
        "zeroline": False,
        "range": [math.log10(n) for n in NORMS],
        "tickvals": [0.1, 1, 10, 100],
        "ticktext": ["0.1", "1", "10", "100"],
    }
    layout |= {
        "xaxis": log | {"title": {"text": "‖g‖: length of the gradient", "standoff": 6}},
        "yaxis": log | {"title": {"text": "length after clipping"}},
        "annotations": [],
    }
    if longest > clip:
        layout["annotations"].append(
            {
                "text": f"× {clip / longest:.2g}",
                "xref": "x",
                "yref": "y",
                "ax": math.log10(longest),
                "ay": math.log10(longest),
                "axref": "x",
                "ayref": "y",
                "x": math.log10(longest),
                "y": math.log10(clip),
                "showarrow": True,
                "arrowhead": 2,
                "arrowwidth": size.line,
                "arrowcolor": MUTED,
                "standoff": size.marker,
                "font": {"size": size.font, "color": TEXT},
                "xanchor": "center",
                "yanchor": "bottom",
            }
        )
    data = [
        _line(0, names[0], x.tolist(), x, size, "%{y:.3g}"),
        _line(1, names[1], x.tolist(), np.minimum(x, clip), size, "%{y:.3g}"),
        {
            "type": "scatter",
            "mode": "markers",
            "name": names[2],
            "x": list(before),
            "y": finite(after),
            "marker": {"size": 1.8 * size.marker, "color": GRADIENTS, "opacity": 0.7},
            "hovertemplate": "%{x:.3g} → %{y:.3g}<extra></extra>",
        },
    ]
    return {"data": data, "layout": layout}


def norm_history(
    norms: Mapping[str, Sequence[float]],
    clip: float,
    shares: Mapping[str, float],
    *,
    total_steps: int,
    width: int = 900,
    height: int = 340,
    projector: bool = False,
) -> Figure:
    """The gradient norm of each step before clipping, with the threshold laid over it.

    Args:
        norms: run -> norm at each step.
        shares: run -> share of its steps above the threshold.
    """
    size = sizes(projector)
    said = [f"{name}: {shares[name]:.0%} of the steps above {clip:g}" for name in norms]
    layout = base_layout("Gradient norm. " + "; ".join(said) + ".", height, projector, "norms")
    layout |= legend_below([[name] for name in [*said, "threshold"]], width, projector)
    layout |= {
        "hovermode": "x unified",
        "xaxis": step_axis(total_steps),
        "yaxis": {
            "type": "log",
            "title": {"text": "gradient norm"},
            "dtick": 1,
            "exponentformat": "power",
            "zeroline": False,
        },
        "annotations": [step_label(projector)],
    }
    data = []
    for i, (values, label) in enumerate(zip(norms.values(), said, strict=True)):
        shown = finite(values)
        shown[~(shown > 0)] = np.nan
        data.append(_line(i, label, list(range(1, len(shown) + 1)), shown, size, "%{y:.3g}"))
    threshold = reference_line(clip, total_steps, projector) | {
        "name": f"threshold {clip:g}",
        "showlegend": True,
    }
    threshold["line"] = {"color": TEXT, "width": size.line, "dash": "longdash"}
    return {"data": [*data, threshold], "layout": layout}


# --- tying ----------------------------------------------------------------------------------


def tying_picture(
    two: Mapping[str, int],
    one: Mapping[str, int],
    *,
    width: int = 1100,
    height: int = 300,
    projector: bool = False,
) -> Figure:
    """The parameters by part, with two tables and with one, on one scale."""
    size = sizes(projector)
    rows = {"two tables": two, "one table": one}
    totals = {name: sum(parts.values()) for name, parts in rows.items()}
    saved = totals["two tables"] - totals["one table"]
    layout = base_layout(
        f"{totals['two tables']:,} parameters with two tables, {totals['one table']:,} with one: "
        f"{saved / totals['two tables']:.1%} less.",
        height,
        projector,
        "tying",
    )
    shown = [part for part in PARTS if two[part]]
    layout |= legend_below([[NAMES[part]] for part in shown], width, projector)
    layout["legend"] |= {"traceorder": "normal"}
    layout["margin"] |= {"l": 6 * size.font, "t": 12}
    layout |= {
        "barmode": "stack",
        "bargap": 0.35,
        "xaxis": {"range": [0, 1.2 * totals["two tables"]], "visible": False, "fixedrange": True},
        "yaxis": {
            "categoryorder": "array",
            "categoryarray": list(rows)[::-1],
            "fixedrange": True,
            "tickfont": {"size": size.font},
        },
        "annotations": [
            {
                "text": f"<b>{short(totals[name])}</b>",
                "x": totals[name],
                "y": name,
                "xanchor": "left",
                "xshift": 8,
                "showarrow": False,
                "font": {"size": size.font + 2, "color": TEXT},
            }
            for name in rows
        ],
    }
    data: list[dict[str, Any]] = []
    for part in shown:
        counts = [parts[part] for parts in rows.values()]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": list(rows),
                "x": counts,
                "name": NAMES[part],
                "marker": {"color": COLOURS[part]},
                "text": [short(n) if n > 0.04 * totals["two tables"] else "" for n in counts],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "textfont": {"size": size.font},
                "customdata": [f"{n:,}" for n in counts],
                "hovertemplate": f"{NAMES[part]}: <b>%{{customdata}}</b><extra></extra>",
            }
        )
    return {"data": data, "layout": layout}


# --- precision ------------------------------------------------------------------------------


class NumberType(NamedTuple):
    """What a number type can write down."""

    name: str
    largest: float
    normal: float  # the smallest with all its digits
    smallest: float  # the smallest above 0
    eps: float  # from 1 to the next number


def precision_picture(
    types: Sequence[NumberType],
    exponents: ArrayLike,
    *,
    height: int = 360,
    projector: bool = False,
) -> Figure:
    """Below what each number type can hold, above the gradients that have to fit into it.

    Args:
        exponents: log10 of the sizes of the gradients.
    """
    size = sizes(projector)
    exponents = np.asarray(exponents)
    edges = np.linspace(*REACH, (REACH[1] - REACH[0]) * BINS_PER_POWER + 1)
    counts, _ = np.histogram(exponents, edges)
    share = counts / max(len(exponents), 1)
    middle = float(np.median(exponents)) if len(exponents) else 0.0
    said = [
        f"{t.name} from {t.smallest:.1g} to {t.largest:.1g}, digits to {t.eps:.2g}" for t in types
    ]
    layout = base_layout(
        f"Half of the gradients are below 1e{middle:.0f}. " + "; ".join(said) + ".",
        height,
        projector,
        "precision",
    )
    names = [t.name for t in types][::-1]
    ticks = list(range(-40, 40, 20 if projector else 10))
    axis = {
        "range": list(REACH),
        "gridcolor": GRID,
        "zeroline": False,
        "fixedrange": True,
        "tickvals": ticks,
        "ticktext": [f"10<sup>{n}</sup>" for n in ticks],
    }
    layout |= {
        "margin": {"l": 4 * size.font, "r": 11 * size.font, "t": 12, "b": round(3.4 * size.font)},
        "showlegend": False,
        "bargap": 0.35,
        "barmode": "overlay",
        "xaxis": axis | {"anchor": "y", "title": {"text": "size of a number", "standoff": 6}},
        "yaxis": {
            "domain": [0, 0.5],
            "anchor": "x",
            "categoryorder": "array",
            "categoryarray": names,
            "fixedrange": True,
            "tickfont": {"size": size.font},
        },
        "xaxis2": axis | {"anchor": "y2", "matches": "x", "showticklabels": False},
        "yaxis2": {
            "domain": [0.58, 1],
            "anchor": "x2",
            "showticklabels": False,
            "fixedrange": True,
            "showgrid": False,
            "rangemode": "tozero",
            "zeroline": False,
        },
        "annotations": [
            {
                "text": f"1 + {t.eps:.2g}",
                "xref": "paper",
                "yref": "y",
                "x": 1.0,
                "xshift": 10,
                "xanchor": "left",
                "y": t.name,
                "showarrow": False,
                "font": {"size": size.font, "color": TEXT},
            }
            for t in types
        ]
        + [
            {
                "text": "next number after 1",
                "xref": "paper",
                "yref": "paper",
                "x": 1.0,
                "xshift": 10,
                "xanchor": "left",
                "y": 0.54,
                "showarrow": False,
                "font": {"size": size.small, "color": MUTED},
            },
            {
                "text": "gradients of<br>the untrained model",
                "xref": "paper",
                "yref": "paper",
                "x": 1.0,
                "xshift": 10,
                "xanchor": "left",
                "y": 0.8,
                "align": "left",
                "showarrow": False,
                "font": {"size": size.small, "color": GRADIENTS},
            },
        ],
        "shapes": [],
    }
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": finite((edges[1:] + edges[:-1]) / 2),
            "y": finite(share),
            "xaxis": "x2",
            "yaxis": "y2",
            "width": 1 / BINS_PER_POWER,
            "marker": {"color": GRADIENTS},
            "name": "gradients",
            "hovertemplate": "about 10<sup>%{x:.0f}</sup>: %{y:.1%}<extra></extra>",
        }
    ]
    for i, t in enumerate(types):
        for low, high, opacity, word in (
            (t.smallest, t.normal, 0.35, "fewer digits"),
            (t.normal, t.largest, 1.0, "all digits"),
        ):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "y": [t.name],
                    "x": [math.log10(high) - math.log10(low)],
                    "base": [math.log10(low)],
                    "marker": {"color": run_colour(i), "opacity": opacity},
                    "name": t.name,
                    "hovertemplate": f"{t.name}, {word}: {low:.2g} to {high:.2g}<extra></extra>",
                }
            )
    narrow = min(types, key=lambda t: math.log10(t.largest) - math.log10(t.smallest))
    for edge in (narrow.smallest, narrow.largest):
        layout["shapes"].append(
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": math.log10(edge),
                "x1": math.log10(edge),
                "y0": 0,
                "y1": 1,
                "line": {"color": TEXT, "width": size.thin, "dash": "dot"},
            }
        )
    return {"data": data, "layout": layout}


def time_picture(
    milliseconds: Mapping[str, float], *, height: int = 190, projector: bool = False
) -> Figure:
    """How long a step takes in each precision, and how that compares with the first."""
    size = sizes(projector)
    first = next(iter(milliseconds.values()))
    words = {
        name: f"{ms:.3g} ms" + ("" if ms == first else f"  = {ms / first:.2f} ×")
        for name, ms in milliseconds.items()
    }
    layout = base_layout(
        "Time of a training step: " + ", ".join(f"{n} {w}" for n, w in words.items()) + ".",
        height,
        projector,
        "times",
    )
    names = list(milliseconds)
    layout |= {
        "margin": {"l": 4 * size.font, "r": 12, "t": 8, "b": 8},
        "bargap": 0.35,
        "showlegend": False,
        "xaxis": {
            "visible": False,
            "range": [0, 1.3 * max(milliseconds.values())],
            "fixedrange": True,
        },
        "yaxis": {
            "categoryorder": "array",
            "categoryarray": names[::-1],
            "fixedrange": True,
            "tickfont": {"size": size.font},
        },
    }
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "x": list(milliseconds.values()),
            "y": names,
            "marker": {"color": [run_colour(i) for i in range(len(names))]},
            "text": [words[name] for name in names],
            "textposition": "outside",
            "cliponaxis": False,
            "textfont": {"size": size.font, "color": TEXT},
            "hovertemplate": "%{y}: %{x:.2f} ms<extra></extra>",
        }
    ]
    return {"data": data, "layout": layout}


def _line(
    index: int, name: str, x: Sequence[float], y: ArrayLike, size: Any, hover: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape(name),
        "x": x,
        "y": finite(y),
        "line": {"color": run_colour(index), "width": size.line, "dash": dash(index)},
        "hovertemplate": hover,
    }
