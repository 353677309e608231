"""Figures of the page about the feed-forward: what each part costs, who moves whom, the activation."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.attention import attention_maps
from playground.figures.compare import dash
from playground.figures.style import (
    GRID,
    MUTED,
    TEXT,
    Figure,
    base_layout,
    escape,
    finite,
    run_colour,
    sizes,
)

# One colour for each part of the model, in every figure of the page.
PART_COLOURS = {
    "embedding": run_colour(2),
    "projections": run_colour(0),
    "products": run_colour(5),
    "feed-forward": run_colour(1),
    "norms": run_colour(7),
    "unembedding": run_colour(4),
}
PART_NAMES = {
    "embedding": "token embedding",
    "projections": "attention: W_q, W_k, W_v, W_o",
    "products": "attention: q·k and weights·v",
    "feed-forward": "feed-forward",
    "norms": "LayerNorms",
    "unembedding": "output layer",
}
ACTIVATION_COLOURS = (run_colour(3), run_colour(6))
ROOM = 1.5  # how much further than the longest bar the axis goes, for the numbers beside it
ROOM_FOR_NAME = 0.1  # an area this high has its name in it
SHADE = 0.5  # opacity of the areas: names in them are readable on light and on dark
LOW = 0.4  # a name stands below the middle of its area, out of the way of the 50% line
BINS = 60


def short(n: float) -> str:
    """A large number in three digits: 33.3 k, 4.19 M, 175 B."""
    for size, sign in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if n >= 0.9995 * size:
            return f"{n / size:.3g} {sign}" if n < 999.5 * size else f"{n / size:.0f} {sign}"
    return f"{n:.0f}"


def share_text(share: float) -> str:
    """A share in per cent, such that a small one is not called nothing."""
    return "0" if share == 0 else "< 1%" if share < 0.005 else f"{share:.0%}"


def cost_picture(
    parameters: Mapping[str, int],
    flops: Mapping[str, int],
    *,
    height: int = 340,
    projector: bool = False,
) -> Figure:
    """One row for each part: to the left its share of the parameters, to the right of the work.

    Args:
        parameters, flops: part -> count; the same parts, from input to output.
    """
    size = sizes(projector)
    parts = list(parameters)[::-1]  # plotly's first row is the lowest
    names = [PART_NAMES[part] for part in parts]
    sides = {"parameters": parameters, "operations": flops}
    alt = []
    layout: dict[str, Any] = {
        "margin": {"l": 12, "r": 12, "t": 2 * size.font + 8, "b": 12},
        "bargap": 0.28,
        "showlegend": False,
        "annotations": [],
    }
    middle = 0.36 if projector else 0.24  # of the width: the names of the parts
    furthest = ROOM * max(
        max(counts.values()) / max(sum(counts.values()), 1) for counts in sides.values()
    )
    data = []
    for i, (side, counts) in enumerate(sides.items()):
        suffix = "" if i == 0 else "2"
        total = max(sum(counts.values()), 1)
        shares = [counts[part] / total for part in parts]
        words = [
            f"{share_text(share)}  ({short(counts[part])})" if counts[part] else "none"
            for share, part in zip(shares, parts, strict=True)
        ]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": finite(shares),
                "y": names,
                "xaxis": f"x{suffix}",
                "yaxis": f"y{suffix}",
                "text": words,
                "textposition": "outside",
                "cliponaxis": False,
                "textfont": {"size": size.font, "color": TEXT},
                "marker": {"color": [PART_COLOURS[part] for part in parts]},
                "customdata": [f"{counts[part]:,}" for part in parts],
                "hovertemplate": f"%{{y}}<br><b>%{{customdata}}</b> {side}<extra></extra>",
                "name": side,
            }
        )
        domain = [0, 0.5 - middle / 2] if i == 0 else [0.5 + middle / 2, 1]
        layout[f"xaxis{suffix}"] = {
            "domain": domain,
            "anchor": f"y{suffix}",
            "visible": False,
            "fixedrange": True,
            "range": [furthest, 0] if i == 0 else [0, furthest],
        }
        layout[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}",
            "showticklabels": False,
            "fixedrange": True,
            "categoryorder": "array",
            "categoryarray": names,
            "side": "right" if i == 0 else "left",
            "showline": True,
            "linecolor": GRID,
            "ticks": "",
            "showgrid": False,
        }
        heading = "parameters" if i == 0 else "floating-point operations"
        layout["annotations"].append(
            {
                "text": f"<b>{short(total)}</b> {heading}",
                "xref": f"x{suffix} domain",
                "yref": "paper",
                "x": 1 - i,
                "y": 1,
                "xanchor": "right" if i == 0 else "left",
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": size.font, "color": TEXT},
            }
        )
        largest = max(counts, key=counts.get)
        alt.append(
            f"Of {total:,} {side}, {PART_NAMES[largest]} has most: {counts[largest] / total:.0%}."
        )
    layout["annotations"] += [
        {
            "text": name,
            "xref": "paper",
            "yref": "y",
            "x": 0.5,
            "y": name,
            "xanchor": "center",
            "showarrow": False,
            "font": {"size": size.font, "color": TEXT},
        }
        for name in names
    ]
    return {"data": data, "layout": base_layout(" ".join(alt), height, projector, "costs") | layout}


def length_picture(
    lengths: Sequence[int],
    shares: Mapping[str, Sequence[float]],
    *,
    length: int,
    crossing: float,
    counted: float | None = None,
    height: int = 340,
    projector: bool = False,
) -> Figure:
    """How the operations divide among the parts as the sequence grows.

    Args:
        lengths: along the (logarithmic) axis.
        shares: part -> its share at each length; the products first, as their edge is the point.
        length: the one to mark.
        crossing: the length at which the products are half of all, by the formula.
        counted: the share of the products at `length`, as counted.
    """
    size = sizes(projector)
    inside = lengths[0] <= crossing <= lengths[-1]
    at = f"at length {crossing:,.0f}"
    beyond = (
        ""
        if inside
        else (", shorter than shown" if crossing < lengths[0] else ", beyond this axis")
    )
    products = shares["products"]
    layout = base_layout(
        f"Share of the operations by part over the length. q·k and weights·v grow from "
        f"{products[0]:.1%} at {lengths[0]} tokens to {products[-1]:.0%} at {lengths[-1]:,}; "
        f"half {at}{beyond}.",
        height,
        projector,
        "lengths",
    )
    order = ["products", *(part for part in shares if part != "products")]
    powers = range(math.ceil(math.log2(lengths[0])), int(math.log2(lengths[-1])) + 1)
    ticks = [2**i for i in powers][:: 2 if projector else 1]
    layout |= {
        "margin": {
            "l": 4 * size.font,
            "r": 2 * size.font,
            "t": 2 * size.font,
            "b": round(3.2 * size.font),
        },
        "showlegend": False,
        "hovermode": "x unified",
        "xaxis": {
            "type": "log",
            "range": [math.log10(lengths[0]), math.log10(lengths[-1])],
            "tickvals": ticks,
            "ticktext": [f"{n:,}" for n in ticks],
            "title": {"text": "length of the sequence", "standoff": 8},
            "zeroline": False,
            "showgrid": False,
            "unifiedhovertitle": {"text": "%{x:,} tokens"},
        },
        "yaxis": {
            "range": [0, 1],
            "tickformat": ".0%",
            "dtick": 0.25,
            "title": {"text": "share of the operations"},
            "gridcolor": GRID,
            "zeroline": False,
            "fixedrange": True,
        },
        "annotations": [],
        "shapes": [],
    }
    data = []
    below = np.zeros(len(lengths))
    for part in order:
        values = np.asarray(shares[part], dtype=np.float64)
        data.append(
            {
                "type": "scatter",
                "x": list(lengths),
                "y": finite(values),
                "stackgroup": "all",
                "mode": "lines",
                "line": {
                    "width": size.line if part == "products" else 0,
                    "color": PART_COLOURS[part],
                },
                "fillcolor": _see_through(PART_COLOURS[part]),
                "name": escape(PART_NAMES[part]),
                "hovertemplate": "%{y:.1%}",
            }
        )
        widest = int(np.argmax(values))
        if values[widest] > ROOM_FOR_NAME:
            side = "left" if widest == 0 else "right" if widest == len(lengths) - 1 else "center"
            layout["annotations"].append(
                {
                    "text": escape(PART_NAMES[part]),
                    "xref": "x",
                    "yref": "y",
                    "x": math.log10(lengths[widest]),
                    "y": below[widest] + LOW * values[widest],
                    "xanchor": side,
                    "xshift": {"left": 8, "right": -8}.get(side, 0),
                    "showarrow": False,
                    "font": {"size": size.font, "color": TEXT},
                }
            )
        below = below + values
    layout["shapes"] += [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": length,
            "x1": length,
            "y0": 0,
            "y1": 1,
            "line": {"color": TEXT, "width": size.line, "dash": "dot"},
        },
        {
            "type": "line",
            "xref": "x domain",
            "yref": "y",
            "x0": 0,
            "x1": 1,
            "y0": 0.5,
            "y1": 0.5,
            "line": {"color": TEXT, "width": size.thin, "dash": "longdash"},
        },
    ]
    if inside:
        data.append(
            {
                "type": "scatter",
                "x": [crossing],
                "y": [0.5],
                "mode": "markers",
                "showlegend": False,
                "hoverinfo": "skip",
                "marker": {
                    "size": 2 * size.marker,
                    "symbol": "circle-open",
                    "color": TEXT,
                    "line": {"width": size.line},
                },
            }
        )
    layout["annotations"].append(
        {
            "text": f"q·k and weights·v are half {at}{beyond}",
            "xref": "paper",
            "yref": "paper",
            "x": 0,
            "y": 1,
            "xanchor": "left",
            "yanchor": "bottom",
            "showarrow": False,
            "font": {"size": size.font, "color": TEXT},
        }
    )
    if counted is not None:
        data.append(
            {
                "type": "scatter",
                "x": [length],
                "y": [counted],
                "mode": "markers",
                "showlegend": False,
                "name": "counted",
                "marker": {
                    "size": 2 * size.marker,
                    "symbol": "x-thin",
                    "color": TEXT,
                    "line": {"width": size.line, "color": TEXT},
                },
                "hovertemplate": "counted %{y:.1%}",
            }
        )
    return {"data": data, "layout": layout}


def _see_through(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{SHADE})"


def influence_maps(
    maps: Mapping[str, ArrayLike],
    *,
    width: int = 1000,
    height: int | None = None,
    projector: bool = False,
) -> Figure:
    """Who moves when one token changes: one map for each sub-layer, hatched where nothing moves.

    Args:
        maps: name -> [output, token], how far each output moves; drawn as a share of the largest.
    """
    values = np.array([np.asarray(m, dtype=np.float64) for m in maps.values()])
    largest = values.max(axis=(1, 2), keepdims=True)
    places = [str(i + 1) for i in range(values.shape[2])]
    figure = attention_maps(
        values / np.where(largest > 0, largest, 1),
        places,
        places,
        hidden=values == 0,
        titles=list(maps),
        columns=len(maps),
        width=width,
        height=height,
        projector=projector,
    )
    layout = figure["layout"]
    layout["uirevision"] = f"influence {values.shape}"
    layout["coloraxis"]["colorbar"]["title"]["text"] = "how far the output moves, of the furthest"
    for axis, text in (("xaxis", "changed token"), ("yaxis", "output")):
        for name in [name for name in layout if name.startswith(axis)]:
            if "title" in layout[name]:
                layout[name]["title"]["text"] = text
    for trace in figure["data"]:
        trace["hovertemplate"] = "output %{y}, token %{x} changed<br><b>%{z:.3f}</b>"
        trace["hovertemplatefallback"] = "does not move"
    said = [
        f"{name}: {int((m > 0).sum())} of {m.size} cells move"
        for name, m in zip(maps, values, strict=True)
    ]
    layout["meta"]["alt"] = (
        "How far each output moves when one token changes. " + "; ".join(said) + "."
    )
    return figure


def activation_picture(
    x: ArrayLike,
    curves: Mapping[str, ArrayLike],
    hidden: Mapping[str, ArrayLike],
    zero: Mapping[str, float],
    *,
    height: int = 320,
    projector: bool = False,
) -> Figure:
    """Left the activations as functions, right what a real model has behind them.

    Args:
        x: where the curves are evaluated.
        curves: name -> the activation at x.
        hidden: name -> [n], hidden activations.
        zero: name -> the share of them that is exactly 0.
    """
    size = sizes(projector)
    x = np.asarray(x)
    every = np.concatenate([np.asarray(values).ravel() for values in hidden.values()])
    low, high = min(float(every.min()), -0.05), float(np.quantile(every, 0.999))
    edges = np.linspace(low, max(high, low + 0.1), BINS + 1)
    said = ", ".join(f"{name} {share_text(share)}" for name, share in zero.items())
    layout = base_layout(
        f"Hidden activations that are exactly 0: {said}.", height, projector, "activation"
    )
    layout |= {
        "margin": {"l": 4 * size.font, "r": 12, "t": 2 * size.font, "b": round(3.4 * size.font)},
        "barmode": "overlay",
        "bargap": 0.0,
        "showlegend": True,
        "legend": {"x": 0.02, "y": 0.98, "font": {"size": size.font}},
        "xaxis": {
            "domain": [0, 0.4],
            "title": {"text": "into the activation"},
            "gridcolor": GRID,
            "zeroline": True,
            "zerolinecolor": MUTED,
        },
        "yaxis": {
            "title": {"text": "out"},
            "gridcolor": GRID,
            "zeroline": True,
            "zerolinecolor": MUTED,
        },
        "xaxis2": {
            "domain": [0.52, 1],
            "anchor": "y2",
            "title": {"text": "hidden activation"},
            "gridcolor": GRID,
            "zeroline": False,
            "range": [edges[0], edges[-1]],
        },
        "yaxis2": {
            "anchor": "x2",
            "type": "log",
            "title": {"text": "share of them"},
            "tickformat": "~%",
            "dtick": 1,
            "range": [-3.5, 0],
            "gridcolor": GRID,
            "fixedrange": True,
        },
        "annotations": [
            {
                "text": f"exactly 0: {escape(said)}",
                "xref": "x2 domain",
                "yref": "y2 domain",
                "x": 0.5,
                "y": 1,
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": size.font, "color": TEXT},
            }
        ],
    }
    data = []
    for i, (name, y) in enumerate(curves.items()):
        common = {"name": escape(name), "legendgroup": name}
        line = {"color": ACTIVATION_COLOURS[i], "width": size.line, "dash": dash(i)}
        data.append(
            common
            | {
                "type": "scatter",
                "x": finite(x),
                "y": finite(y),
                "mode": "lines",
                "line": line,
                "hovertemplate": "%{x:.2f} → %{y:.3f}",
            }
        )
        values = np.asarray(hidden[name]).ravel()
        counts, _ = np.histogram(values, edges)
        data.append(
            common
            | {
                "type": "scatter",
                "x": finite(np.repeat(edges, 2)[1:-1]),
                "y": _positive(np.repeat(counts / values.size, 2)),
                "xaxis": "x2",
                "yaxis": "y2",
                "mode": "lines",
                "showlegend": False,
                "line": line,
                "hovertemplate": "around %{x:.2f}: %{y:.2%}",
            }
        )
    return {"data": data, "layout": layout}


def _positive(values: np.ndarray) -> np.ndarray:
    numbers = finite(values)
    numbers[numbers <= 0] = np.nan
    return numbers
