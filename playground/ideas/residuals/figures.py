"""Figures of the page about residuals and norms: the wiring, and what depth does to the stream."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

WITH, WITHOUT = (
    style.run_colour(0),
    style.run_colour(1),
)  # residual connections, wherever they are compared
NORM = style.RUN_COLOURS[2]
NORM_DASHES = {"post": "solid", "pre": "dash", "none": "dot"}
FLOOR = 1e-48  # over all depths: what lies below would make the other lines look flat
AXIS = (1e-3, 1e1)  # a panel shows at least this range, so that small changes look small

# Rows of the wiring, from below: the height of each piece. Absent ones leave their row empty.
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
HALF = 0.34  # the height of a box, from its middle


# --- the wiring -----------------------------------------------------------------------------


def wiring_picture(residual: bool, norm: str, *, size: Sizes = style.LAPTOP) -> Figure:
    """One block, from bottom to top: its two sub-layers and what surrounds them.

    Args:
        norm: `post`, `pre` or `none`.
    """
    around = {
        "post": "after the addition" if residual else "after each",
        "pre": "before each",
        "none": "nowhere",
    }[norm]
    around_each = "each with" if residual else "without"
    figure = panels.new_figure(
        f"One block: attention, then feed-forward, {around_each} a residual connection. "
        f"LayerNorm: {around}.",
        size,
        "wiring",
        margin=style.margin(4, 4, 4, 4),
    )
    hidden = {"visible": False, "fixedrange": True}
    # Plotly draws no axes without data.
    corners = panels.points([-1.75, 1.25], [0, 9], {"opacity": 0})
    panels.add_panel(
        figure,
        0,
        panels.axis(range=[-1.75, 1.25], **hidden),
        panels.axis(range=[-0.6, 9.6], **hidden),
        [corners],
    )
    shapes, notes = figure["layout"]["shapes"], figure["layout"]["annotations"]
    notes += [panels.annotation("x", 0, ROWS["in"]), panels.annotation("x'", 0, ROWS["out"])]
    stops = [ROWS["in"]]

    def box(text: str, row: str, colour: str) -> None:
        y, stroke = ROWS[row], {"color": colour, "width": size.line}
        ends = (-0.9, 0.9, y - HALF, y + HALF)
        shapes.append(panels.rectangle(*ends, stroke, fillcolor=style.HIDDEN, layer="below"))
        notes.append(panels.annotation(text, 0, y))
        stops.append(y)

    for before, inside, add, after, name in (
        ("before", "attention", "add", "after", "attention"),
        ("before2", "ffn", "add2", "after2", "feed-forward"),
    ):
        way_in = stops[-1]
        if norm == "pre":
            box("LayerNorm", before, NORM)
        box(name, inside, style.MUTED)
        if residual:
            y, stroke = ROWS[add], {"color": WITH, "width": size.line}
            shapes += [
                panels.rectangle(-0.15, 0.15, y - HALF, y + HALF, stroke, type="circle"),
                _around(way_in + 0.45, y, stroke),
            ]
            notes += [
                panels.annotation("+", 0, y, colour=WITH),
                panels.arrow((-1.2, y), (-0.15, y), WITH, size.line),
            ]
            stops.append(y)
        if norm == "post":
            box("LayerNorm", after, NORM)
    stops.append(ROWS["out"])
    notes += [
        panels.arrow((0, low + HALF), (0, high - HALF), style.TEXT, max(size.thin, 1.5))
        for low, high in pairwise(stops)
    ]
    return figure


def _around(low: float, high: float, stroke: dict[str, Any]) -> dict[str, Any]:
    """A residual connection: out of the stream at `low`, up, and back at `high`."""
    path = f"M 0 {low} L -1.2 {low} L -1.2 {high}"
    return {"type": "path", "path": path, "line": stroke, "layer": "below"}


# --- through the blocks ---------------------------------------------------------------------


def depth_picture(
    quantities: Mapping[str, Mapping[bool, Sequence[float]]],
    *,
    residual: bool,
    smallest: float,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """What flows through an untrained model, block by block, on logarithmic axes.

    Args:
        quantities: title -> with residual connections or without -> a number for the input and for
            the stream after each block.
        residual: which of the two is chosen; the other one is drawn behind it, thin.
        smallest: the smallest number of float32, drawn where a panel reaches it.
    """
    names = {True: "with residual connections", False: "without residual connections"}
    alt = _flow_alt(quantities, residual)
    figure = _log_figure(alt, "flow", list(names.values()), 960, size)
    across = panels.domains(len(quantities), gap=0.09)
    for i, (title, values) in enumerate(quantities.items()):
        blocks = len(values[residual]) - 1
        ticks = list(range(0, blocks + 1, max(blocks // 4, 1)))
        x = panels.axis(
            "after block",
            size,
            domain=across[i],
            range=[-0.04 * blocks, 1.04 * blocks],
            tickvals=ticks,
            ticktext=["input", *map(str, ticks[1:])],
        )
        traces = [
            panels.line(
                range(blocks + 1),
                _positive(values[kind]),
                WITH if kind else WITHOUT,
                size.line if kind is residual else size.thin,
                dash="solid" if kind is residual else "dash",
                name=names[kind],
                legendgroup=str(kind),
                showlegend=i == 0,
                mode="lines+markers" if kind is residual else "lines",
                marker={"size": size.marker},
                opacity=1 if kind is residual else 0.8,
                hover=f"after block %{{x}}: %{{y:.3g}}<extra>{names[kind]}</extra>",
            )
            for kind in (not residual, residual)
        ]
        everything = [number for numbers in values.values() for number in numbers]
        if min(everything) < smallest:
            _mark_smallest(figure, i, smallest, (0, blocks), size)
        panels.add_panel(figure, i, x, _log_axis(everything, size), traces, title=title)
    return figure


def _log_figure(alt: str, revision: str, names: Sequence[str], width: int, size: Sizes) -> Figure:
    """A figure of about this width, with a legend and room for the titles of panels and axes."""
    below = style.legend_below([[name] for name in names], width, size)
    figure, font = panels.new_figure(alt, size, revision, **below), size.font
    figure["layout"]["margin"]["t"] = 2 * font + 6
    return figure


def _log_axis(values: Sequence[float], size: Sizes, floor: float = 0.0) -> dict[str, Any]:
    """Logarithmic, down to `floor` at most."""
    some = [max(value, floor) for value in values if value > 0 and math.isfinite(value)]
    low, high = min([AXIS[0], *some]), max([AXIS[1], *some])
    ends = [math.log10(low) - 0.2, math.log10(high) + 0.2]
    return panels.log_axis(size=size, range=ends, dtick=max(round((ends[1] - ends[0]) / 6), 1))


def _mark_smallest(
    figure: Figure, panel: int, value: float, ends: tuple[float, float], size: Sizes
) -> None:
    """A line from end to end of a panel, below which float32 has no numbers."""
    start, end = ends
    level = panels.reference_line(value, end, size, start=start)
    figure["data"].append(panels.on(panel, level))
    label = panels.annotation(
        "below: 0 in float32",
        0.02,
        math.log10(value),
        size=size.small,
        colour=style.MUTED,
        xref=panels.over(panel)["xref"],
        yref=panels.at(panel)["yref"],
        xanchor="left",
        yanchor="top",
        yshift=-2,
    )
    figure["layout"]["annotations"].append(label)


def _positive(values: Sequence[float]) -> np.ndarray:
    """A gap where a number is 0, which no logarithmic axis can show. float64, for 1e-150."""
    numbers = np.array(values, dtype=np.float64)
    numbers[~(np.isfinite(numbers) & (numbers > 0))] = np.nan
    return numbers


def _flow_alt(quantities: Mapping[str, Mapping[bool, Sequence[float]]], residual: bool) -> str:
    said = f"An untrained model {'with' if residual else 'without'} residual connections."
    for title, lines in quantities.items():
        first, *_, last = values = lines[residual]
        said += f" {title}: {first:.2g} at the input, {last:.2g} after block {len(values) - 1}."
    return said


# --- over depth -----------------------------------------------------------------------------


def depth_sweep(
    depths: Sequence[int],
    quantities: Mapping[str, Mapping[tuple[bool, str], Sequence[float]]],
    *,
    chosen: tuple[int, bool, str],
    smallest: float,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """One number for each depth: a line for each norm, with and without residual connections.

    Args:
        quantities: title -> (residual, norm) -> a number for each depth.
        chosen: depth, residual and norm to mark with a ring.
        smallest: the smallest number of float32, drawn where a panel reaches it.
    """
    names = {
        (residual, norm): f"{'with' if residual else 'without'}, "
        f"{'no' if norm == 'none' else norm} norm"
        for residual, norm in next(iter(quantities.values()))
    }
    ends = "; ".join(
        f"{title}: " + ", ".join(f"{names[key]} {values[-1]:.2g}" for key, values in lines.items())
        for title, lines in quantities.items()
    )
    alt = f"At {depths[-1]} blocks. {ends}."
    figure = _log_figure(alt, "depths", list(names.values()), 1300, size)
    across = panels.domains(len(quantities), gap=0.07)
    n_layers, *wiring = chosen
    for i, (title, lines) in enumerate(quantities.items()):
        x = panels.axis("blocks", size, type="log", domain=across[i], tickfont={"size": size.font})
        x |= {"tickvals": list(depths), "ticktext": list(map(str, depths))}
        traces = [
            panels.line(
                depths,
                _positive(values),
                WITH if residual else WITHOUT,
                size.line,
                dash=NORM_DASHES[norm],
                name=names[residual, norm],
                legendgroup=names[residual, norm],
                showlegend=i == 0,
                mode="lines+markers",
                marker={"size": size.marker},
                hover=f"%{{x}} blocks: %{{y:.3g}}<extra>{names[residual, norm]}</extra>",
            )
            for (residual, norm), values in lines.items()
        ]
        at_chosen = _positive(lines[tuple(wiring)])[list(depths).index(n_layers)]
        traces.append(panels.ring(n_layers, at_chosen, size))
        everything = [value for values in lines.values() for value in values]
        if min(everything) < smallest:
            _mark_smallest(figure, i, smallest, (depths[0], depths[-1]), size)
        panels.add_panel(figure, i, x, _log_axis(everything, size, FLOOR), traces, title=title)
    return figure


# --- LayerNorm, number by number ------------------------------------------------------------


def norm_picture(
    steps: Sequence[tuple[str, Sequence[float]]], *, size: Sizes = style.LAPTOP
) -> Figure:
    """A token's numbers after each step of LayerNorm, as bars.

    Each panel has an axis of its own, except that the last two share theirs.

    Args:
        steps: (title, numbers) from left to right.
    """
    said = "; ".join(f"{title}: {', '.join(map(short, values))}" for title, values in steps)
    figure = panels.new_figure(
        f"{said}.", size, "norm", margin=style.margin(8, 8, 2 * size.font + 6, 8), bargap=0.15
    )
    panels.stack(figure, 130)
    across = panels.domains(len(steps), gap=0.03)
    last_two = [value for _, values in steps[-2:] for value in values]
    for i, (title, values) in enumerate(steps):
        y = panels.axis(
            range=_around_bars(last_two if i >= len(steps) - 2 else values),
            showticklabels=False,
            showgrid=False,
            zeroline=True,
            zerolinewidth=size.thin,
            fixedrange=True,
        )
        drawn = panels.bars(
            range(len(values)),
            style.finite(values),
            NORM if i else style.run_colour(7),
            text=[short(value) for value in values],
            textfont={"size": size.small if size.projector else size.small - 1},
            name=title,
            hover="number %{x}: %{y:.6g}<extra></extra>",
        )
        panels.add_panel(
            figure, i, panels.axis(domain=across[i], visible=False), y, [drawn], title=title
        )
    return figure


def _around_bars(values: Sequence[float]) -> list[float]:
    """An axis with 0 in it, and room for a number beyond each bar."""
    low, high = min(0.0, *values), max(0.0, *values)
    room = 0.2 * (high - low) or 1.0
    return [low - room * (low < 0), high + room]


def short(value: float) -> str:
    """A number in few characters, as one would write it on a blackboard."""
    size = abs(value)
    if value == 0:
        return "0"
    if size < 1e-3 or size >= 1e5:
        mantissa, _, power = f"{value:.0e}".partition("e")
        text = f"{mantissa}e{int(power)}"
    else:
        text = f"{value:.0f}" if size >= 1000 else f"{value:.3g}" if size >= 1 else f"{value:.2g}"
    return text.replace("-", "−")


# --- a block left out -----------------------------------------------------------------------


def skip_bars(
    whole: float, without: Sequence[float], *, chance: float, size: Sizes = style.LAPTOP
) -> Figure:
    """Loss of a trained model with all its blocks, and without each of them."""
    worst = int(np.argmax(without))
    values = [whole, *without]
    names = ["none", *(f"block {i + 1}" for i in range(len(without)))]
    figure = panels.new_figure(
        f"Validation loss {whole:.3g} with all blocks. The worst to leave out is block "
        f"{worst + 1}: {without[worst]:.3g}.",
        size,
        "skipped",
        margin=style.margin(5 * size.font, 8, size.font, 3 * size.font),
        bargap=0.35,
        annotations=[panels.reference_label(f"guess without reading {chance:.2f}", chance, size)],
    )
    drawn = panels.bars(
        names,
        style.finite(values),
        [style.run_colour(7), *[WITH] * len(without)],
        text=[short(value) for value in values],
        hover="%{x} left out: %{y:.4g}<extra></extra>",
    )
    y = panels.axis("loss (nats)", range=[0, 1.15 * max(chance, *values)], fixedrange=True)
    panels.add_panel(figure, 0, panels.axis("left out", type="category"), y, [drawn])
    stroke = {"color": style.MUTED, "width": size.thin, "dash": "longdash"}
    level = panels.rectangle(0, 1, chance, chance, stroke, type="line", xref="x domain")
    figure["layout"]["shapes"].append(level)
    return figure
