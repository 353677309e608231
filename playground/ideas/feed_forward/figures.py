"""Figures of the page about the feed-forward: costs of parts, influence, the activation."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.attention import attention_maps
from playground.figures.style import PART_COLOURS, PART_NAMES, Figure, Sizes, short_count

ACTIVATION_COLOURS = (style.run_colour(3), style.run_colour(6))
ROOM = 1.5  # the axis is this many times as long as the longest bar, for the numbers beside it
ROOM_FOR_NAME = 0.1  # areas higher than this have their name in them
SHADE = 0.5  # opacity of the areas: names in them are readable on light and on dark
LOW = 0.4  # a name is written below the middle of its area, out of the way of the 50% line
BINS = 60


def share_text(share: float) -> str:
    """A share in per cent; a small one does not become 0."""
    return "0" if share == 0 else "< 1%" if share < 0.005 else f"{share:.0%}"


def cost_picture(
    parameters: Mapping[str, int], flops: Mapping[str, int], *, size: Sizes = style.LAPTOP
) -> Figure:
    """One row for each part: left, its share of the parameters; right, of the operations.

    Args:
        parameters, flops: part -> count; the same parts, from input to output.
    """
    parts = list(parameters)[::-1]  # plotly's first row is the lowest
    names = [PART_NAMES[part] for part in parts]
    sides = {"parameters": parameters, "operations": flops}
    totals = {side: max(sum(counts.values()), 1) for side, counts in sides.items()}
    largest = {side: max(counts, key=counts.get) for side, counts in sides.items()}
    most = {side: counts[largest[side]] / totals[side] for side, counts in sides.items()}
    figure = panels.new_figure(
        " ".join(
            f"Of {totals[side]:,} {side}, {PART_NAMES[largest[side]]} has most: {most[side]:.0%}."
            for side in sides
        ),
        size,
        "costs",
        margin=style.margin(12, 12, 2 * size.font + 8, 12),
        bargap=0.28,
        annotations=[
            panels.annotation(name.replace(": ", ":<br>"), 0.5, name, xref="paper")
            for name in names
        ],
    )
    panels.wide(figure, 40 * size.font)
    middle = 0.36 if size.projector else 0.24  # of the width: the names of the parts
    furthest = ROOM * max(most.values())
    for i, (side, counts) in enumerate(sides.items()):
        shares = [counts[part] / totals[side] for part in parts]
        words = [
            f"{share_text(share)}  ({short_count(counts[part])})" if counts[part] else "none"
            for share, part in zip(shares, parts, strict=True)
        ]
        drawn = panels.bars(
            names,
            style.finite(shares),
            [PART_COLOURS[part] for part in parts],
            across=True,
            text=words,
            customdata=[f"{counts[part]:,}" for part in parts],
            name=side,
            hover=f"%{{y}}<br><b>%{{customdata}}</b> {side}<extra></extra>",
        )
        x = panels.axis(
            domain=[0.5 + middle / 2, 1] if i else [0, 0.5 - middle / 2],
            range=[0, furthest] if i else [furthest, 0],
            visible=False,
            fixedrange=True,
        )
        y = panels.axis(
            showticklabels=False,
            fixedrange=True,
            categoryorder="array",
            categoryarray=names,
            side="left" if i else "right",
            showline=True,
            linecolor=style.GRID,
            showgrid=False,
        )
        panels.add_panel(figure, i, x, y, [drawn])
        what = "floating-point operations" if i else "parameters"
        anchors = {"xanchor": "left" if i else "right", "yanchor": "bottom"}
        total = f"<b>{short_count(totals[side])}</b> {what}"
        figure["layout"]["annotations"].append(
            panels.annotation(total, 1 - i, 1, **panels.over(i), **anchors)
        )
    return figure


def length_picture(
    lengths: Sequence[int],
    shares: Mapping[str, Sequence[float]],
    *,
    length: int,
    crossing: float,
    counted: float | None = None,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """How the operations divide among the parts as the sequence grows.

    Args:
        lengths: along the (logarithmic) axis.
        shares: part -> its share at each length; the products first, so their edge is their share.
        length: the one to mark.
        crossing: the length at which the products are half of all, by the formula.
        counted: the share of the products at `length`, as counted.
    """
    products = shares["products"]
    half = f"half at length {crossing:,.0f}"
    if crossing < lengths[0]:
        half += ", shorter than shown"
    if crossing > lengths[-1]:
        half += ", beyond this axis"
    corner = {"xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    figure = panels.new_figure(
        f"Share of the operations by part over the length. q·k and weights·v grow from "
        f"{products[0]:.1%} at {lengths[0]} tokens to {products[-1]:.0%} at {lengths[-1]:,}; "
        f"{half}.",
        size,
        "lengths",
        margin=style.margin(4 * size.font, 2 * size.font, 2 * size.font, 3.2 * size.font),
        hovermode="x unified",
        annotations=[panels.annotation(f"q·k and weights·v are {half}", 0, 1, **corner)],
    )
    layout, traces, below = figure["layout"], [], np.zeros(len(lengths))
    for part in ("products", *(part for part in shares if part != "products")):
        values = np.asarray(shares[part], dtype=np.float64)
        area = panels.line(
            lengths,
            style.finite(values),
            PART_COLOURS[part],
            size.line if part == "products" else 0,
            name=PART_NAMES[part],
            hover="%{y:.1%}",
            stackgroup="all",
            fillcolor=_see_through(PART_COLOURS[part]),
        )
        traces.append(area)
        widest = int(np.argmax(values))
        if values[widest] > ROOM_FOR_NAME:
            side = {0: "left", len(lengths) - 1: "right"}.get(widest, "center")
            layout["annotations"].append(
                panels.annotation(
                    style.escape(PART_NAMES[part]),
                    math.log10(lengths[widest]),
                    below[widest] + LOW * values[widest],
                    xanchor=side,
                    xshift={"left": 8, "right": -8}.get(side, 0),
                )
            )
        below = below + values
    if lengths[0] <= crossing <= lengths[-1]:
        traces.append(panels.ring(crossing, 0.5, size))
    if counted is not None:
        stroke = {"width": size.line, "color": style.TEXT}
        cross = {"size": 2 * size.marker, "symbol": "x-thin", "color": style.TEXT, "line": stroke}
        mark = panels.points([length], [counted], cross, name="counted", hover="counted %{y:.1%}")
        traces.append(mark)
    powers = range(math.ceil(math.log2(lengths[0])), int(math.log2(lengths[-1])) + 1)
    ticks = [2**i for i in powers][:: 2 if size.projector else 1]
    x = panels.axis(
        "length of the sequence",
        type="log",
        range=[math.log10(lengths[0]), math.log10(lengths[-1])],
        tickvals=ticks,
        ticktext=[f"{n:,}" for n in ticks],
        showgrid=False,
        unifiedhovertitle={"text": "%{x:,} tokens"},
    )
    x["title"]["standoff"] = 8
    y = panels.axis(
        "share of the operations", range=[0, 1], tickformat=".0%", dtick=0.25, fixedrange=True
    )
    panels.add_panel(figure, 0, x, y, traces)
    stroke = {"color": style.TEXT, "width": size.thin, "dash": "longdash"}
    layout["shapes"] += [
        panels.upright(length, size.line, colour=style.TEXT),
        panels.rectangle(0, 1, 0.5, 0.5, stroke, type="line", xref="x domain"),
    ]
    return figure


def _see_through(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{SHADE})"


def influence_maps(maps: Mapping[str, ArrayLike], *, size: Sizes = style.AS_NEEDED) -> Figure:
    """Which outputs move when one token changes, a map for each sub-layer; hatched where none does.

    Args:
        maps: name -> [output, token], how far each output moves; drawn as a share of the largest.
    """
    values = np.array([np.asarray(m, dtype=np.float64) for m in maps.values()])
    largest = values.max(axis=(1, 2), keepdims=True)
    positions = [str(i + 1) for i in range(values.shape[2])]
    figure = attention_maps(
        values / np.where(largest > 0, largest, 1),
        positions,
        positions,
        hidden=values == 0,
        titles=list(maps),
        columns=len(maps),
        size=size,
    )
    layout = figure["layout"]
    layout["uirevision"] = f"influence {values.shape}"
    layout["coloraxis"]["colorbar"]["title"]["text"] = (
        "how far the output moves, relative to the largest"
    )
    titles = {"xaxis": "changed token", "yaxis": "output"}
    for name, part in layout.items():
        if name[:5] in titles and "title" in part:
            part["title"]["text"] = titles[name[:5]]
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
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, the activations as functions; right, the hidden activations of a real model.

    Args:
        x: where the curves are evaluated.
        curves: name -> the activation at x.
        hidden: name -> [n], hidden activations.
        zero: name -> the share of them that is exactly 0.
    """
    every = np.concatenate([np.asarray(values).ravel() for values in hidden.values()])
    low, high = min(float(every.min()), -0.05), float(np.quantile(every, 0.999))
    edges = np.linspace(low, max(high, low + 0.1), BINS + 1)
    said = ", ".join(f"{name} {share_text(share)}" for name, share in zero.items())
    figure = panels.new_figure(
        f"Hidden activations that are exactly 0: {said}.",
        size,
        "activation",
        margin=style.margin(4 * size.font, 12, 2 * size.font, 3.4 * size.font),
        showlegend=True,
        legend={"x": 0.02, "y": 0.98, "font": {"size": size.font}},
    )
    functions, histograms = [], []
    for i, (name, y) in enumerate(curves.items()):
        shared = {"dash": style.dash(i), "name": name, "legendgroup": name}
        stroke = (ACTIVATION_COLOURS[i], size.line)
        functions.append(
            panels.line(
                style.finite(x), style.finite(y), *stroke, hover="%{x:.2f} → %{y:.3f}", **shared
            )
        )
        values = np.asarray(hidden[name]).ravel()
        counts, _ = np.histogram(values, edges)
        shares = np.repeat(np.where(counts > 0, counts / values.size, np.nan), 2)
        histograms.append(
            panels.line(
                style.finite(np.repeat(edges, 2)[1:-1]),
                style.finite(shares),
                *stroke,
                showlegend=False,
                hover="around %{x:.2f}: %{y:.2%}",
                **shared,
            )
        )
    panels.add_panel(
        figure,
        0,
        panels.axis("into the activation", domain=[0, 0.4], zeroline=True),
        panels.axis("out", zeroline=True),
        functions,
    )
    panels.add_panel(
        figure,
        1,
        panels.axis("hidden activation", domain=[0.52, 1], range=[edges[0], edges[-1]]),
        panels.log_axis("share of them", tickformat="~%", range=[-3.5, 0], fixedrange=True),
        histograms,
        title=f"exactly 0: {said}",
    )
    return figure
