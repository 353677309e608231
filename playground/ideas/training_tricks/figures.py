"""Figures of the page about the tricks of training, one or two for each trick."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import PART_COLOURS, PART_NAMES, Figure, Sizes, short_count

NORMS = (0.03, 300.0)  # the axis of the norms, both ways
PARTS = ("embedding", "positions", "attention", "feed-forward", "norms", "unembedding")
COLOURS = PART_COLOURS | {
    "attention": PART_COLOURS["projections"],
    "positions": style.run_colour(3),
}
NAMES = PART_NAMES | {"attention": "attention", "positions": "positions"}
REACH = (-46, 40)  # powers of ten on the axis of the number types
BINS_PER_POWER = 2
WIDTH = 1100  # pixels, roughly, of a picture on a laptop
UNSEEN = {"visible": False, "fixedrange": True}  # of an axis that only sets the scale of bars
GRADIENTS = style.run_colour(6)  # of an untrained model; the runs have the first colours


# --- warmup ---------------------------------------------------------------------------------


def schedule_picture(
    lines: Mapping[str, Sequence[float]],
    *,
    total_steps: int,
    width: int = WIDTH,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """The learning rate over the steps, one line for each run, in the colours of the runs."""
    said = "; ".join(
        f"{name}: {values[0]:.2g} at first, {max(values):.2g} at most, {values[-1]:.2g} at the end"
        for name, values in lines.items()
        if len(values)
    )
    figure = panels.new_figure(
        f"Learning rate. {said}.",
        size,
        "schedule",
        hovermode="x unified",
        **style.legend_below(lines, width, size),
    )
    panels.add_panel(
        figure,
        0,
        style.step_axis(total_steps),
        panels.axis("learning rate", rangemode="tozero", tickformat="~g", nticks=5),
        [_run(i, *item, size) for i, item in enumerate(lines.items())],
    )
    return figure


def _run(index: int, name: str, values: ArrayLike, size: Sizes) -> dict[str, Any]:
    """A number of a run at each of its steps."""
    steps, colour = range(1, len(values) + 1), style.run_colour(index)
    shared = {"dash": style.dash(index), "name": name, "hover": "%{y:.3g}"}
    return panels.line(steps, style.finite(values), colour, size.line, **shared)


# --- clipping -------------------------------------------------------------------------------


def clip_picture(
    clip: float, before: Sequence[float], after: Sequence[float], *, size: Sizes = style.LAPTOP
) -> Figure:
    """The length of a gradient after clipping: the rule as a line, measured gradients as points."""
    longest = max(before)
    names = ["not clipped", f"clipped at {clip:g}", "gradients of the untrained model"]
    figure = panels.new_figure(
        f"Length of a gradient before and after clipping at {clip:g}. The measured ones are "
        f"{min(before):.2g} to {longest:.2g} long before, {min(after):.2g} to {max(after):.2g} "
        "after.",
        size,
        "clipping",
        **style.legend_below(names, WIDTH, size),
    )
    layout = figure["layout"]
    layout["margin"] |= {"l": 5 * size.font, "b": layout["margin"]["b"] + size.font}
    ends = {"range": [math.log10(n) for n in NORMS], "tickvals": [0.1, 1, 10, 100]}
    ends["ticktext"] = list(map(str, ends["tickvals"]))
    x, hover = np.geomspace(*NORMS, 121), "%{y:.3g}"
    marker = {"size": 1.8 * size.marker, "color": GRADIENTS, "opacity": 0.7}
    panels.add_panel(
        figure,
        0,
        panels.log_axis("‖g‖: length of the gradient", **ends),
        panels.log_axis("length after clipping", **ends),
        [
            panels.line(
                x, x, style.run_colour(0), size.line, dash=style.dash(0), name=names[0], hover=hover
            ),
            panels.line(
                x,
                np.minimum(x, clip),
                style.run_colour(1),
                size.line,
                dash=style.dash(1),
                name=names[1],
                hover=hover,
            ),
            panels.points(
                before,
                style.finite(after),
                marker,
                name=names[2],
                hover="%{x:.3g} → %{y:.3g}<extra></extra>",
            ),
        ],
    )
    if longest > clip:
        tail, head = math.log10(longest), math.log10(clip)
        shortened = panels.arrow(
            (tail, tail),
            (tail, head),
            style.MUTED,
            size.line,
            f"× {clip / longest:.2g}",
            standoff=size.marker,
            xanchor="center",
            yanchor="bottom",
        )
        layout["annotations"].append(shortened)
    return figure


def norm_history(
    norms: Mapping[str, Sequence[float]],
    clip: float,
    shares: Mapping[str, float],
    *,
    total_steps: int,
    width: int = 900,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """The gradient norm of each step before clipping, with the threshold.

    Args:
        norms: run -> norm at each step.
        shares: run -> share of its steps above the threshold.
    """
    said = [f"{name}: {shares[name]:.0%} of the steps above {clip:g}" for name in norms]
    figure = panels.new_figure(
        "Gradient norm. " + "; ".join(said) + ".",
        size,
        "norms",
        hovermode="x unified",
        **style.legend_below([*said, "threshold"], width, size),
    )
    runs = [
        _run(i, label, np.where(np.asarray(values) > 0, values, np.nan), size)
        for i, (values, label) in enumerate(zip(norms.values(), said, strict=True))
    ]
    ends, name = [0, max(total_steps, 1)], f"threshold {clip:g}"
    threshold = panels.line(ends, [clip, clip], style.TEXT, size.line, dash="longdash", name=name)
    panels.add_panel(
        figure,
        0,
        style.step_axis(total_steps),
        panels.log_axis("gradient norm"),
        [*runs, threshold],
    )
    return figure


# --- tying ----------------------------------------------------------------------------------


def tying_picture(
    two: Mapping[str, int], one: Mapping[str, int], *, size: Sizes = style.LAPTOP
) -> Figure:
    """The parameters by part, with two tables and with one, on one scale."""
    rows = {"two tables": two, "one table": one}
    totals = {name: sum(parts.values()) for name, parts in rows.items()}
    most, least = totals.values()
    shown = [part for part in PARTS if two[part]]
    figure = panels.new_figure(
        f"{most:,} parameters with two tables, {least:,} with one: {(most - least) / most:.1%} "
        "less.",
        size,
        "tying",
        barmode="stack",
        bargap=0.35,
        **style.legend_below([NAMES[part] for part in shown], WIDTH, size),
    )
    layout = figure["layout"]
    layout["legend"]["traceorder"] = "normal"
    layout["margin"]["l"] = 6 * size.font
    traces = []
    for part in shown:
        counts = [parts[part] for parts in rows.values()]
        traces.append(
            panels.bars(
                list(rows),
                counts,
                COLOURS[part],
                across=True,
                name=NAMES[part],
                text=[short_count(n) if n > 0.04 * most else "" for n in counts],
                textposition="inside",
                insidetextanchor="middle",
                customdata=[f"{n:,}" for n in counts],
                hover=f"{NAMES[part]}: <b>%{{customdata}}</b><extra></extra>",
            )
        )
    panels.add_panel(
        figure, 0, panels.axis(range=[0, 1.2 * most], **UNSEEN), _row_axis(list(rows)), traces
    )
    beyond = {"size": size.font + 2, "xanchor": "left", "xshift": 8}
    layout["annotations"] += [
        panels.annotation(f"<b>{short_count(total)}</b>", total, name, **beyond)
        for name, total in totals.items()
    ]
    return figure


def _row_axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """Axis of bars in rows, from the top down."""
    order = {"categoryorder": "array", "categoryarray": list(names)[::-1]}
    return panels.axis(fixedrange=True, **order, **more)


# --- precision ------------------------------------------------------------------------------


class NumberType(Protocol):
    """What a number type can hold."""

    largest: float
    normal: float  # the smallest with all its digits
    smallest: float  # the smallest above 0
    eps: float  # from 1 to the next number


def precision_picture(
    types: Mapping[str, NumberType], exponents: ArrayLike, *, size: Sizes = style.LAPTOP
) -> Figure:
    """Below, what each number type can hold; above, the gradients that have to fit into it.

    Args:
        types: by name.
        exponents: log10 of the sizes of the gradients.
    """
    exponents = np.asarray(exponents)
    middle = float(np.median(exponents)) if len(exponents) else 0.0
    said = "; ".join(
        f"{name} from {t.smallest:.1g} to {t.largest:.1g}, digits to {t.eps:.2g}"
        for name, t in types.items()
    )
    figure = panels.new_figure(
        f"Half of the gradients are below 1e{middle:.0f}. {said}.",
        size,
        "precision",
        margin=style.margin(4 * size.font, 11 * size.font, 12, 3.4 * size.font),
        bargap=0.35,
        barmode="overlay",
    )
    edges = np.linspace(*REACH, (REACH[1] - REACH[0]) * BINS_PER_POWER + 1)
    counts, _ = np.histogram(exponents, edges)
    histogram = panels.bars(
        style.finite((edges[1:] + edges[:-1]) / 2),
        style.finite(counts / max(len(exponents), 1)),
        GRADIENTS,
        width=1 / BINS_PER_POWER,
        name="gradients",
        hover="about 10<sup>%{x:.0f}</sup>: %{y:.1%}<extra></extra>",
    )
    ticks = list(range(-40, 40, 20 if size.projector else 10))
    powers = {
        "range": list(REACH),
        "fixedrange": True,
        "tickvals": ticks,
        "ticktext": [f"10<sup>{n}</sup>" for n in ticks],
    }
    panels.add_panel(
        figure,
        1,
        # Plotly gives the axis on which bars stand no grid unless it is asked to.
        panels.axis(**powers, matches="x", showticklabels=False, showgrid=True),
        panels.axis(
            domain=[0.58, 1],
            showticklabels=False,
            fixedrange=True,
            showgrid=False,
            rangemode="tozero",
        ),
        [histogram],
    )
    panels.add_panel(
        figure,
        0,
        panels.axis("size of a number", **powers),
        _row_axis(list(types), domain=[0, 0.5]),
        [
            panels.bars(
                [name],
                [math.log10(high / low)],
                style.run_colour(i),
                across=True,
                base=[math.log10(low)],
                marker={"color": style.run_colour(i), "opacity": opacity},
                name=name,
                hover=f"{name}, {word}: {low:.2g} to {high:.2g}<extra></extra>",
            )
            for i, (name, t) in enumerate(types.items())
            for low, high, opacity, word in (
                (t.smallest, t.normal, 0.35, "fewer digits"),
                (t.normal, t.largest, 1.0, "all digits"),
            )
        ],
    )
    beside = {"xref": "paper", "xshift": 10, "xanchor": "left"}
    small = beside | {"size": size.small, "yref": "paper"}
    gradients = "gradients of<br>the untrained model"
    figure["layout"]["annotations"] += [
        *(panels.annotation(f"1 + {t.eps:.2g}", 1, name, **beside) for name, t in types.items()),
        panels.annotation("next number after 1", 1, 0.54, colour=style.MUTED, **small),
        panels.annotation(gradients, 1, 0.8, colour=GRADIENTS, align="left", **small),
    ]
    narrow = min(types.values(), key=lambda t: math.log10(t.largest) - math.log10(t.smallest))
    figure["layout"]["shapes"] += [
        panels.upright(math.log10(edge), size.thin, colour=style.TEXT) | {"yref": "paper"}
        for edge in (narrow.smallest, narrow.largest)
    ]
    return figure


def time_picture(milliseconds: Mapping[str, float], *, size: Sizes = style.LAPTOP) -> Figure:
    """How long a step takes in each precision, and how that compares with the first."""
    names = list(milliseconds)
    first = milliseconds[names[0]]
    words = [
        f"{ms:.3g} ms" + ("" if ms == first else f"  = {ms / first:.2f} ×")
        for ms in milliseconds.values()
    ]
    said = ", ".join(f"{name} {word}" for name, word in zip(names, words, strict=True))
    figure = panels.new_figure(
        f"Time of a training step: {said}.",
        size,
        "times",
        margin=style.margin(4 * size.font, 12, 8, 8),
        bargap=0.35,
    )
    colours = [style.run_colour(i) for i in range(len(names))]
    times = list(milliseconds.values())
    hover = "%{y}: %{x:.2f} ms<extra></extra>"
    panels.add_panel(
        figure,
        0,
        panels.axis(range=[0, 1.3 * max(times)], **UNSEEN),
        _row_axis(names),
        [panels.bars(names, times, colours, across=True, text=words, hover=hover)],
    )
    return figure
