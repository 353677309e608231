"""Figures of the page about heads: the split to scale, what each head does, how they part."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.compare import dash
from playground.figures.panels import (
    empty_figure,
    step_label,
)
from playground.figures.style import (
    GRID,
    MUTED,
    SCORES_SCALE,
    TEXT,
    WEIGHTS_SCALE,
    Figure,
    base_layout,
    escape,
    finite,
    legend_below,
    nice_limit,
    run_colour,
    sizes,
    step_axis,
)

ASIDE = 0.25  # opacity of what is not chosen


def split_picture(
    w_q: ArrayLike,
    x: ArrayLike,
    q: ArrayLike,
    chosen: int,
    parameters: Mapping[int, int],
    token: str = "",
    *,
    height: int = 350,
    projector: bool = False,
) -> Figure:
    """Left W_q x = q, one band of rows for each head; right the same width split in other ways.

    Args:
        w_q: [d_model, d_model], the W_q of all heads in one.
        x: [d_model], what is read.
        q: [heads, d_head], a query for each head.
        chosen: the head to mark; the first is 0.
        parameters: number of heads -> parameters of the whole model.
        token: what x stands for.
    """
    w_q, x, q = (np.asarray(a, dtype=np.float64) for a in (w_q, x, q))
    (heads, d_head), d_model, size = q.shape, len(x), sizes(projector)
    first, last = chosen * d_head, (chosen + 1) * d_head
    layout = base_layout(
        f"W_q has {d_model} rows; head {chosen + 1} of {heads} owns rows {first} to {last - 1}. "
        f"Parameters of the model: "
        + ", ".join(f"{n:,} with {_heads(h)}" for h, n in parameters.items())
        + ".",
        height,
        projector,
        "split",
    )
    layout |= {
        "margin": {"l": 5 * size.font, "r": 8, "t": 2 * size.font + 8, "b": 2 * size.font + 10},
        "showlegend": False,
        "bargap": 0.28,
        "barmode": "overlay",
        "xaxis": _plain([0, 0.215], "y")
        | {
            "range": [-0.5, d_model - 0.5],
            "scaleanchor": "y",
            "constrain": "domain",
            "constraintoward": "left",
        },
        "xaxis2": _plain([0.262, 0.28], "y"),
        "xaxis3": _plain([0.317, 0.335], "y"),
        "xaxis4": _plain([0.445, 0.79], "y4") | {"range": [0, d_model]},
        "yaxis": {
            "range": [d_model - 0.5, -0.5],
            "zeroline": False,
            "showgrid": False,
            "ticks": "",
            "constrain": "domain",
            "tickvals": [(i + 0.5) * d_head - 0.5 for i in range(heads)],
            "ticktext": [
                f"<b>head {i + 1}</b>" if i == chosen else f"head {i + 1}" for i in range(heads)
            ],
            "tickfont": {"size": size.small},
            "ticklabelstandoff": 14,
        },
        "yaxis4": {
            "anchor": "x4",
            "range": [len(parameters) - 0.4, -0.6],
            "zeroline": False,
            "showgrid": False,
            "ticks": "",
            "tickvals": list(range(len(parameters))),
            "ticktext": [f"<b>{_heads(h)}</b>" if h == heads else _heads(h) for h in parameters],
        },
        "shapes": _bands(heads, d_head, chosen, size),
        "annotations": [
            _said(
                f"W<sub>q</sub>: {d_model} × {d_model}",
                "x domain",
                "y domain",
                0.5,
                1,
                size.font,
                "bottom",
            ),
            _said(
                f"x of “{escape(token)}”" if token else "x",
                "x2 domain",
                "y domain",
                0.5,
                1,
                size.font,
                "bottom",
            ),
            _said("q", "x3 domain", "y domain", 0.5, 1, size.font, "bottom"),
            _said("·", "paper", "paper", 0.24, 0.5, 2 * size.font),
            _said("=", "paper", "paper", 0.2985, 0.5, 2 * size.font),
            _said(
                f"{d_model} numbers, split", "x4 domain", "y4 domain", 0.5, 1, size.font, "bottom"
            ),
            _said(
                f"rows {first}–{last - 1}", "x3 domain", "y", 1, (first + last - 1) / 2, size.small
            )
            | {"xanchor": "left", "xshift": 8},
        ],
    }
    for row, (h, n) in enumerate(parameters.items()):
        text = f"{h} × {d_model // h} = {d_model}<br>{n:,} parameters"
        layout["annotations"].append(
            _said(text, "paper", "y4", 0.805, row, size.small)
            | {
                "xanchor": "left",
                "align": "left",
                "font": {"size": size.small, "color": TEXT if h == heads else MUTED},
            }
        )
    limit, own = nice_limit(float(np.abs(w_q).max())), slice(first, last)
    reach = nice_limit(float(max(np.abs(x).max(), np.abs(q).max())))
    flat = q.reshape(-1, 1)
    data = [
        *_marked(w_q, own, limit, "", "row %{y} of W_q, column %{x}<br><b>%{z:.3f}</b>"),
        _map(x[:, None], reach, "2", "x[%{y}] = <b>%{z:.3f}</b>"),
        *_marked(flat, own, reach, "3", "q[%{y}] = <b>%{z:.3f}</b>"),
        *(
            _segments(d_model, h, row, chosen if h == heads else None, size)
            for row, h in enumerate(parameters)
        ),
    ]
    return {"data": data, "layout": layout}


def _heads(count: int) -> str:
    return f"{count} head{'s' * (count != 1)}"


def _plain(domain: list[float], anchor: str) -> dict[str, Any]:
    return {
        "domain": domain,
        "anchor": anchor,
        "showticklabels": False,
        "ticks": "",
        "zeroline": False,
        "showgrid": False,
    }


def _said(
    text: str, xref: str, yref: str, x: float, y: float, font: int, yanchor: str = "middle"
) -> dict[str, Any]:
    return {
        "text": text,
        "xref": xref,
        "yref": yref,
        "x": x,
        "y": y,
        "yanchor": yanchor,
        "showarrow": False,
        "font": {"size": font, "color": TEXT},
    }


def _bands(heads: int, d_head: int, chosen: int, size: Any) -> list[dict[str, Any]]:
    """A strip in each head's colour left of W_q and right of q, and a frame around the slice."""
    shapes = []
    for head in range(heads):
        rows = {"y0": head * d_head - 0.5, "y1": (head + 1) * d_head - 0.5, "yref": "y"}
        fill = {
            "type": "rect",
            "fillcolor": run_colour(head),
            "line": {"width": 0},
            "opacity": 1 if head == chosen else 2 * ASIDE,
        }
        shapes.append(fill | rows | {"xref": "x domain", "x0": -0.035, "x1": -0.01})
        shapes.append(fill | rows | {"xref": "x3 domain", "x0": 1.06, "x1": 1.26})
        if head == chosen:
            frame = {"type": "rect", "line": {"color": TEXT, "width": size.line}}
            shapes.append(frame | rows | {"xref": "x domain", "x0": 0, "x1": 1})
            shapes.append(frame | rows | {"xref": "x3 domain", "x0": 0, "x1": 1})
    return shapes


def _map(matrix: np.ndarray, limit: float, axis: str, hover: str) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "z": np.round(matrix, 3),
        "xaxis": f"x{axis}",
        "yaxis": "y",
        "colorscale": SCORES_SCALE,
        "zmin": -limit,
        "zmax": limit,
        "showscale": False,
        "hovertemplate": hover + "<extra></extra>",
        "hoverongaps": False,
    }


def _marked(
    matrix: np.ndarray, own: slice, limit: float, axis: str, hover: str
) -> list[dict[str, Any]]:
    """The chosen rows, and pale the others."""
    mine, others = np.full_like(matrix, np.nan), matrix.copy()
    mine[own], others[own] = matrix[own], np.nan
    return [
        _map(others, limit, axis, hover) | {"opacity": ASIDE},
        _map(mine, limit, axis, hover),
    ]


def _segments(d_model: int, heads: int, row: int, chosen: int | None, size: Any) -> dict[str, Any]:
    """A bar with a segment for each head, as wide as the head; pale if None is chosen."""
    count, width = range(heads), d_model // heads
    pale = chosen is None
    return {
        "type": "bar",
        "orientation": "h",
        "xaxis": "x4",
        "yaxis": "y4",
        "y": [row] * heads,
        "x": [width] * heads,
        "base": [i * width for i in count],
        "text": [str(width)] * heads,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "insidetextfont": {"size": size.small} | ({"color": TEXT} if pale else {}),
        "marker": {
            "color": [run_colour(i) for i in count],
            "opacity": ASIDE if pale else 1.0,
            "line": {"color": TEXT, "width": [size.line if i == chosen else 0.5 for i in count]},
        },
        "customdata": [i + 1 for i in count],
        "hovertemplate": f"head %{{customdata}} of {heads}: {width} columns<extra></extra>",
    }


# --- what each head does --------------------------------------------------------------------


def head_table(
    names: Sequence[str],
    jobs: Sequence[str],
    measured: ArrayLike,
    even: ArrayLike,
    found: Sequence[str],
    rise: Sequence[float] | None = None,
    *,
    projector: bool = False,
) -> Figure:
    """One row for each head: its weight on each job, its name, and what its loss is worth.

    Args:
        names: of the heads.
        jobs: of the columns.
        measured: [heads, jobs], mean weights.
        even: [jobs], what an even look would give; the first row.
        found: what each head is called.
        rise: by how much the loss rises without each head; None: not measured yet.
    """
    size = sizes(projector)
    table = np.vstack([np.asarray(even, dtype=np.float64), np.asarray(measured, dtype=np.float64)])
    count, row = len(table), 2 * size.small + 4
    top, bottom = 4 * size.small + 14, 2 * size.small + 18
    layout = base_layout(
        _table_alt(names, found, rise), count * row + top + bottom, projector, "heads"
    )
    rows = {
        "range": [count - 0.5, -0.5],
        "zeroline": False,
        "showgrid": False,
        "ticks": "",
        "tickfont": {"size": size.small},
    }
    limit = nice_limit(max([0.01, *map(abs, rise)]) if rise is not None else 1.0)
    low = -limit if rise is not None and min(rise) < -0.05 * limit else 0
    layout |= {
        "margin": {"l": 8 * size.small, "r": 12, "t": top, "b": bottom},
        "showlegend": False,
        "bargap": 0.35,
        "xaxis": {
            "domain": [0, 0.54],
            "side": "top",
            "tickvals": list(range(len(jobs))),
            "ticks": "",
            "tickangle": 0,
            "ticktext": [_lines(job) for job in jobs],
            "tickfont": {"size": size.small},
            "showgrid": False,
            "zeroline": False,
        },
        "yaxis": rows
        | {
            "tickvals": list(range(count)),
            "ticktext": ["<i>an even look</i>", *map(escape, names)],
        },
        "xaxis2": {
            "domain": [0.75, 0.98],
            "anchor": "y2",
            "range": [low, limit * 1.15],
            "zeroline": True,
            "gridcolor": GRID,
            "nticks": 5,
            "tickfont": {"size": size.small},
            "title": {"text": "loss rises by (nats)", "font": {"size": size.small}, "standoff": 4},
        },
        "yaxis2": rows
        | {
            "anchor": "x2",
            "tickvals": list(range(1, count)),
            "ticktext": [escape(name) for name in found],
        },
        "annotations": [
            _said("looks like", "x2 domain", "y2 domain", -0.03, 1, size.small, "bottom")
            | {"xanchor": "right"},
            _said("switched off, alone", "x2 domain", "y2 domain", 0.5, 1, size.small, "bottom"),
        ],
    }
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap",
            "z": np.round(table, 3),
            "colorscale": WEIGHTS_SCALE,
            "zmin": 0,
            "zmax": 1,
            "showscale": False,
            "xgap": 2,
            "ygap": 2,
            "texttemplate": "%{z:.2f}",
            "textfont": {"size": size.small},
            "customdata": [[[name, job] for job in jobs] for name in ["an even look", *names]],
            "hovertemplate": "%{customdata[0]}: %{customdata[1]} <b>%{z:.3f}</b><extra></extra>",
        },
        {
            "type": "bar",
            "orientation": "h",
            "xaxis": "x2",
            "yaxis": "y2",
            "y": list(range(1, count)),
            "x": finite(rise if rise is not None else [np.nan] * (count - 1)),
            "text": [f"{value:.2f}" for value in rise] if rise is not None else [],
            "textposition": "outside",
            "cliponaxis": False,
            "textfont": {"size": size.small},
            "marker": {"color": run_colour(0)},
            "hovertemplate": "loss rises by %{x:.3f} nats<extra></extra>",
        },
    ]
    if rise is None:
        layout["annotations"].append(
            _said("after training", "x2 domain", "y2 domain", 0.5, 0.5, size.font)
            | {"font": {"size": size.font, "color": MUTED}}
        )
    return {"data": data, "layout": layout}


def _lines(job: str) -> str:
    """A heading broken into lines that fit over a column."""
    return "<br>".join(wrap(escape(job), 10))


def _table_alt(names: Sequence[str], found: Sequence[str], rise: Sequence[float] | None) -> str:
    said = "; ".join(f"{name}: {job}" for name, job in zip(names, found, strict=True))
    if rise is None:
        return f"{said}."
    most = int(np.argmax(rise))
    return f"{said}. Without {names[most]} the loss rises most, by {rise[most]:.2f} nats."


# --- how far they part ----------------------------------------------------------------------


def diversity_chart(
    steps: Sequence[int],
    lines: Mapping[str, Sequence[float]],
    *,
    shown: int | None = None,
    total_steps: int = 1,
    width: int = 330,
    height: int = 300,
    projector: bool = False,
) -> Figure:
    """How differently the heads of each layer look, over training: 0 is alike, 1 is nothing shared.

    Args:
        steps: of the frames.
        lines: layer -> one number for each frame.
        shown: the step whose maps are on show.
    """
    if not any(np.isfinite(values).any() for values in map(np.asarray, lines.values())):
        return empty_figure("one head: nothing to compare", height=height, projector=projector)
    size = sizes(projector)
    ends = ", ".join(f"{name} {values[-1]:.2f}" for name, values in lines.items())
    layout = base_layout(
        f"Head diversity at step {steps[-1]}: {ends}.", height, projector, "diversity"
    )
    layout |= legend_below([[name] for name in lines], width, projector)
    layout["margin"]["t"] = 2 * size.font
    layout |= {
        "xaxis": step_axis(total_steps),
        "yaxis": {"range": [0, 1], "zeroline": False, "fixedrange": True},
        "annotations": [
            step_label(projector),
            _said("head diversity (of ln 2)", "x domain", "y domain", 0.5, 1, size.font, "bottom"),
        ],
    }
    if shown is not None:
        layout["shapes"] = [
            {
                "type": "line",
                "xref": "x",
                "yref": "y domain",
                "x0": shown,
                "x1": shown,
                "y0": 0,
                "y1": 1,
                "line": {"color": MUTED, "width": size.thin, "dash": "dot"},
            }
        ]
    data = [
        {
            "type": "scatter",
            "x": list(steps),
            "y": finite(values),
            "name": escape(name),
            "mode": "lines+markers" if len(steps) < 2 else "lines",
            "line": {"color": run_colour(i), "width": size.line, "dash": dash(i)},
            "hovertemplate": "step %{x}: %{y:.3f}",
        }
        for i, (name, values) in enumerate(lines.items())
    ]
    return {"data": data, "layout": layout}
