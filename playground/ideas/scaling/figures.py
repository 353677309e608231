"""Figures of the page about √d_k: the spread of scores, and every scale at every width."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

BINS = 61
LEAST_REACH = 4.0  # the axis of the scores reaches at least this far to both sides
MOST_BARS = 64
WIDTH = 1100  # pixels, roughly, of the sweep on a laptop


def score_picture(
    values: ArrayLike,
    weights: Sequence[float],
    spread: float,
    theory: float,
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, the scores that a softmax gets, measured and in theory; right, one query's weights.

    Args:
        values: [n], scores after scaling.
        weights: of one query, largest first; they sum to 1.
        spread: standard deviation of all scores, of which `values` may be a sample.
        theory: standard deviation to expect; its normal distribution is drawn as a curve.
    """
    values = np.asarray(values, dtype=np.float64)
    reach = max(LEAST_REACH, 3.5 * max(theory, spread))
    edges = np.linspace(-reach, reach, BINS + 1)
    counts, _ = np.histogram(values, edges)
    middle, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    density = counts / max(len(values), 1) / width
    normal = np.exp(-0.5 * (middle / theory) ** 2) / (theory * math.sqrt(2 * math.pi))
    shown = list(weights)[:MOST_BARS]
    figure = panels.new_figure(
        f"Left: scores with a spread of {spread:.2f}, in theory {theory:.2f}. "
        f"Right: the largest weight of one query is {max(shown):.2f}.",
        size,
        "scores",
        margin=style.margin(4 * size.font, 12, 2 * size.font, 3 * size.font),
        bargap=0,
    )
    score, keys = style.finite(middle), range(1, len(shown) + 1)
    panels.add_panel(
        figure,
        0,
        panels.axis("score after scaling", domain=[0, 0.56], range=[-reach, reach], showgrid=True),
        panels.axis("density", rangemode="tozero", fixedrange=True),
        [
            panels.bars(
                score,
                style.finite(density),
                style.run_colour(0),
                name="measured",
                hover="score %{x:.2f}<br>density %{y:.3f}<extra></extra>",
            ),
            panels.line(score, style.finite(normal), style.run_colour(1), size.line, name="theory"),
        ],
        title=f"bars: measured, spread {spread:.2f}; curve: theory, {theory:.2f}",
    )
    edge = {"color": style.run_colour(2), "line": {"width": 1, "color": style.GRID}}
    weight = "weight %{y:.3f}<extra></extra>"
    panels.add_panel(
        figure,
        1,
        panels.axis(domain=[0.66, 1], showticklabels=False)
        # As far below as the title beside it, which has labels above it.
        | {"title": {"text": "keys, best first", "standoff": 4 + 1.3 * size.font}},
        panels.axis("weight", range=[0, 1], fixedrange=True),
        [
            panels.bars(
                keys,
                style.finite(shown),
                style.run_colour(2),
                name="weights",
                hover=weight,
                marker=edge,
            )
        ],
        title=f"a typical query: largest weight {max(shown):.2f}",
    )
    return figure


def scale_sweep(
    widths: Sequence[int],
    lines: Mapping[str, Mapping[str, Sequence[float]]],
    titles: Mapping[str, str],
    names: Mapping[str, str],
    *,
    chosen: int,
    references: Mapping[str, float],
    log: Sequence[str],
    size: Sizes = style.LAPTOP,
) -> Figure:
    """What each scale does as d_k grows: one panel for each quantity, one line for each scale.

    Args:
        widths: d_k, along the (logarithmic) axis.
        lines: quantity -> scale -> one number for each width.
        titles: what each panel is called.
        names: what each scale is called.
        chosen: the width to mark.
        references: quantity -> a level to compare it with.
        log: quantities on a logarithmic axis.
    """
    across = panels.domains(len(lines), gap=0.07)
    shown = [names[scale] for scale in next(iter(lines.values()))]
    alt = _sweep_alt(widths, lines, titles, names)
    below = style.legend_below(shown, WIDTH, size)
    below["margin"] |= {"t": 2 * size.font + 6, "l": 4 * size.font}
    figure = panels.new_figure(alt, size, "sweep", **below)
    ticks = {"tickvals": widths[::2], "ticktext": [str(w) for w in widths[::2]]}
    for i, (panel, scales) in enumerate(lines.items()):
        traces = [
            panels.line(
                widths,
                style.finite(values),
                style.run_colour(j),
                size.line,
                dash=style.dash(j),
                name=names[scale],
                hover="d_k %{x}: %{y:.3g}",
                mode="lines+markers",
                marker={"size": size.marker - 1},
                legendgroup=scale,
                showlegend=i == 0,
            )
            for j, (scale, values) in enumerate(scales.items())
        ]
        if panel in references:
            level = references[panel]
            traces.insert(0, panels.reference_line(level, widths[-1], size, start=widths[0]))
        figure["layout"]["shapes"].append(panels.upright(chosen, size.thin, panel=i))
        panels.add_panel(
            figure,
            i,
            panels.axis(type="log", domain=across[i], **ticks),
            panels.axis(type="log", dtick=1) if panel in log else panels.axis(rangemode="tozero"),
            traces,
            title=f"{titles[panel]}, over d_k",
        )
    return figure


def _sweep_alt(widths, lines, titles, names) -> str:
    said = []
    for panel, scales in lines.items():
        ends = ", ".join(f"{names[scale]} {values[-1]:.3g}" for scale, values in scales.items())
        said.append(f"{titles[panel]} at d_k {widths[-1]}: {ends}.")
    return " ".join(said)
