"""Figures of the page about √d_k: how the scores spread, and what every scale does at every width."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.compare import dash
from playground.figures.panels import (
    domains,
    heading,
    reference_line,
    suffix_of,
)
from playground.figures.style import (
    GRID,
    MUTED,
    Figure,
    base_layout,
    escape,
    finite,
    legend_below,
    run_colour,
    sizes,
)

BINS = 61
LEAST_REACH = 4.0  # the axis of the scores reaches at least this far to both sides
MOST_BARS = 64


def score_picture(
    values: ArrayLike,
    weights: Sequence[float],
    spread: float,
    theory: float,
    *,
    height: int = 330,
    projector: bool = False,
) -> Figure:
    """Left the scores that a softmax gets, as theory and as measured; right one query's weights.

    Args:
        values: [n], scores after scaling.
        weights: of one query, largest first; they sum to 1.
        spread: standard deviation of all scores, of which `values` may be a sample.
        theory: standard deviation for q and k of unit variance.
    """
    values = np.asarray(values, dtype=np.float64)
    size = sizes(projector)
    reach = max(LEAST_REACH, 3.5 * max(theory, spread))
    edges = np.linspace(-reach, reach, BINS + 1)
    counts, _ = np.histogram(values, edges)
    middle, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    density = counts / max(len(values), 1) / width
    normal = np.exp(-0.5 * (middle / theory) ** 2) / (theory * math.sqrt(2 * math.pi))
    shown = list(weights)[:MOST_BARS]
    layout = base_layout(
        f"Left: scores with a spread of {spread:.2f}, in theory {theory:.2f}. "
        f"Right: the largest weight of one query is {max(shown):.2f}.",
        height,
        projector,
        "scores",
    )
    layout |= {
        "margin": {"l": 4 * size.font, "r": 12, "t": 2 * size.font, "b": 3 * size.font},
        "bargap": 0.0,
        "showlegend": False,
        "xaxis": {
            "domain": [0, 0.56],
            "range": [-reach, reach],
            "title": {"text": "score after scaling"},
            "gridcolor": GRID,
            "zeroline": False,
        },
        "yaxis": {
            "title": {"text": "density"},
            "rangemode": "tozero",
            "gridcolor": GRID,
            "zeroline": False,
            "fixedrange": True,
        },
        "xaxis2": {
            "domain": [0.66, 1],
            "title": {"text": "keys, best first"},
            "showticklabels": False,
            "zeroline": False,
            "anchor": "y2",
        },
        "yaxis2": {
            "range": [0, 1],
            "title": {"text": "weight"},
            "anchor": "x2",
            "gridcolor": GRID,
            "zeroline": False,
            "fixedrange": True,
        },
        "annotations": [
            heading(f"spread {spread:.2f}, theory {theory:.2f}", "", size),
            heading(f"a typical query: largest weight {max(shown):.2f}", "2", size),
        ],
    }
    data = [
        {
            "type": "bar",
            "x": finite(middle),
            "y": finite(density),
            "marker": {"color": run_colour(0)},
            "name": "measured",
            "hovertemplate": "score %{x:.2f}<br>density %{y:.3f}<extra></extra>",
        },
        {
            "type": "scatter",
            "x": finite(middle),
            "y": finite(normal),
            "mode": "lines",
            "line": {"color": run_colour(1), "width": size.line},
            "name": "theory",
            "hoverinfo": "skip",
        },
        {
            "type": "bar",
            "x": list(range(1, len(shown) + 1)),
            "y": finite(shown),
            "xaxis": "x2",
            "yaxis": "y2",
            "marker": {"color": run_colour(2), "line": {"width": 1, "color": GRID}},
            "name": "weights",
            "hovertemplate": "weight %{y:.3f}<extra></extra>",
        },
    ]
    return {"data": data, "layout": layout}


def scale_sweep(
    widths: Sequence[int],
    lines: Mapping[str, Mapping[str, Sequence[float]]],
    titles: Mapping[str, str],
    names: Mapping[str, str],
    *,
    chosen: int | None = None,
    references: Mapping[str, float] | None = None,
    log: Sequence[str] = (),
    width: int = 1100,
    height: int = 340,
    projector: bool = False,
) -> Figure:
    """What each scale does as d_k grows: one panel for each quantity, one line for each scale.

    Args:
        widths: d_k, along the (logarithmic) axis.
        lines: quantity -> scale -> one number for each width.
        titles: what each panel is called.
        names: what each scale is called.
        chosen: the width to mark.
        references: quantity -> a level to hold it against.
        log: quantities on a logarithmic axis.
    """
    size, data = sizes(projector), []
    across = domains(len(lines), gap=0.07)
    shown = [names[scale] for scale in next(iter(lines.values()))]
    layout = base_layout(_sweep_alt(widths, lines, titles, names), height, projector, "sweep")
    layout |= legend_below([[name] for name in shown], width, projector)
    layout["margin"] |= {"t": 2 * size.font + 6, "l": 4 * size.font}
    layout["annotations"], layout["shapes"] = [], []
    for i, panel in enumerate(lines):
        suffix = suffix_of(i)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        layout[f"xaxis{suffix}"] = {
            "type": "log",
            "domain": across[i],
            "anchor": f"y{suffix}",
            "tickvals": list(widths[::2]),
            "ticktext": [str(w) for w in widths[::2]],
            "gridcolor": GRID,
            "zeroline": False,
        }
        layout[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}",
            "gridcolor": GRID,
            "zeroline": False,
            **({"type": "log", "dtick": 1} if panel in log else {"rangemode": "tozero"}),
        }
        layout["annotations"].append(heading(f"{titles[panel]}, over d_k", suffix, size))
        if chosen is not None:
            layout["shapes"].append(
                {
                    "type": "line",
                    "xref": f"x{suffix}",
                    "yref": f"y{suffix} domain",
                    "x0": chosen,
                    "x1": chosen,
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": MUTED, "width": size.thin, "dash": "dot"},
                }
            )
        if references and panel in references:
            line = reference_line(references[panel], 1, projector) | axes
            data.append(line | {"x": [widths[0], widths[-1]]})
        for j, (scale, values) in enumerate(lines[panel].items()):
            data.append(
                {
                    "type": "scatter",
                    "x": list(widths),
                    "y": finite(values),
                    "mode": "lines+markers",
                    "line": {"color": run_colour(j), "width": size.line, "dash": dash(j)},
                    "marker": {"size": size.marker - 1},
                    "name": escape(names[scale]),
                    "legendgroup": scale,
                    "showlegend": i == 0,
                    "hovertemplate": f"d_k %{{x}}: %{{y:.3g}}<extra>{escape(names[scale])}</extra>",
                }
                | axes
            )
    return {"data": data, "layout": layout}


def _sweep_alt(widths, lines, titles, names) -> str:
    said = []
    for panel, scales in lines.items():
        ends = ", ".join(f"{names[scale]} {values[-1]:.3g}" for scale, values in scales.items())
        said.append(f"{titles[panel]} at d_k {widths[-1]}: {ends}.")
    return " ".join(said)
