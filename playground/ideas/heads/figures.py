"""Figures of the page about heads: the split to scale, what each head does, how they differ."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

ASIDE = 0.25  # opacity of what is not chosen
NARROW = 330  # pixels, roughly, of the chart of the diversity on a laptop


def split_picture(
    w_q: ArrayLike,
    x: ArrayLike,
    q: ArrayLike,
    chosen: int,
    parameters: Mapping[int, int],
    token: str = "",
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, W_q x = q, a band of rows for each head; right, the same width split in other ways.

    Args:
        w_q: [d_model, d_model], the W_q of all heads in one.
        x: [d_model], what is read.
        q: [heads, d_head], a query for each head.
        chosen: the head to mark; the first is 0.
        parameters: number of heads -> parameters of the whole model.
        token: the one that x belongs to.
    """
    w_q, x, q = (np.asarray(a, dtype=np.float64) for a in (w_q, x, q))
    (heads, d_head), d_model = q.shape, len(x)
    first, last = chosen * d_head, (chosen + 1) * d_head
    figure = panels.new_figure(
        f"W_q has {d_model} rows; head {chosen + 1} of {heads} owns rows {first + 1} to {last}. "
        "Parameters of the model: "
        + ", ".join(f"{n:,} with {_heads(h)}" for h, n in parameters.items())
        + ".",
        size,
        "split",
        margin=style.margin(5 * size.font, 8, 2 * size.font + 8, 2 * size.font + 10),
        bargap=0.28,
        barmode="overlay",
        shapes=_bands(heads, d_head, chosen, size),
    )
    panels.wide(figure, 48 * size.font)
    layout = figure["layout"]
    limit, own = style.nice_limit(float(np.abs(w_q).max())), slice(first, last)
    reach = style.nice_limit(float(max(np.abs(x).max(), np.abs(q).max())))
    bare = {"showticklabels": False, "showgrid": False}
    panels.add_panel(
        figure,
        0,
        panels.axis(
            domain=[0, 0.215],
            range=[-0.5, d_model - 0.5],
            scaleanchor="y",
            constrain="domain",
            constraintoward="left",
            **bare,
        ),
        panels.axis(
            size=size,
            range=[d_model - 0.5, -0.5],
            constrain="domain",
            showgrid=False,
            tickvals=[(i + 0.5) * d_head - 0.5 for i in range(heads)],
            ticktext=[
                f"<b>head {i + 1}</b>" if i == chosen else f"head {i + 1}" for i in range(heads)
            ],
            ticklabelstandoff=14,
        ),
        _marked(w_q, own, limit, "row %{y} of W_q, column %{x}<br><b>%{z:.3f}</b>"),
    )
    # x and q have the rows of W_q.
    layout["xaxis2"] = panels.axis(domain=[0.262, 0.28], anchor="y", **bare)
    layout["xaxis3"] = panels.axis(domain=[0.317, 0.335], anchor="y", **bare)
    asked = _marked(q.reshape(-1, 1), own, reach, "q[%{y}] = <b>%{z:.3f}</b>")
    read = _map(x[:, None], reach, "x[%{y}] = <b>%{z:.3f}</b>")
    figure["data"] += [read | {"xaxis": "x2"}, *(trace | {"xaxis": "x3"} for trace in asked)]
    panels.add_panel(
        figure,
        3,
        panels.axis(domain=[0.5, 0.79], range=[0, d_model], **bare),
        panels.cell_axis([_heads(h) for h in parameters], size.font, downwards=True)
        | {"range": [len(parameters) - 0.4, -0.6]},
        [
            _segments(d_model, h, row, chosen if h == heads else None, size)
            for row, h in enumerate(parameters)
        ],
        title=f"{d_model} numbers, split",
    )
    if heads in parameters:
        names = layout["yaxis4"]["labelalias"]
        row = str(list(parameters).index(heads))
        names[row] = f"<b>{names[row]}</b>"
    title = {"yref": "y domain"}
    paper, right = {"xref": "paper", "yref": "paper", "size": 2 * size.font}, {"xanchor": "left"}
    layout["annotations"] += [
        panels.panel_title("") | {"text": f"W<sub>q</sub>: {d_model} × {d_model}"},
        panels.panel_title(f"x of “{token}”" if token else "x", 1) | title,
        panels.panel_title("q", 2) | title,
        panels.annotation("·", 0.24, 0.5, **paper),
        panels.annotation("=", 0.2985, 0.5, **paper),
        panels.annotation(
            f"rows {first + 1}–{last}",
            1,
            (first + last - 1) / 2,
            size=size.small,
            xref="x3 domain",
            xshift=8,
            **right,
        ),
        *(
            panels.annotation(
                f"{h} × {d_model // h} = {d_model}<br>{n:,} parameters",
                0.805,
                row,
                size=size.small,
                colour=style.TEXT if h == heads else style.MUTED,
                xref="paper",
                yref="y4",
                align="left",
                **right,
            )
            for row, (h, n) in enumerate(parameters.items())
        ),
    ]
    return figure


def _heads(count: int) -> str:
    return f"{count} head{'s' * (count != 1)}"


def _bands(heads: int, d_head: int, chosen: int, size: Sizes) -> list[dict[str, Any]]:
    """A strip in each head's colour left of W_q and right of q, and a frame around the slice."""
    shapes = []
    w_q, q = ({"xref": f"{name} domain", "yref": "y"} for name in ("x", "x3"))
    for head in range(heads):
        rows = (head * d_head - 0.5, (head + 1) * d_head - 0.5)
        fill = {"fillcolor": style.run_colour(head), "opacity": 1 if head == chosen else 2 * ASIDE}
        shapes.append(panels.rectangle(-0.035, -0.01, *rows, **fill, **w_q))
        shapes.append(panels.rectangle(1.06, 1.26, *rows, **fill, **q))
        if head == chosen:
            ink = {"color": style.TEXT, "width": size.line}
            shapes += [panels.rectangle(0, 1, *rows, ink, **matrix) for matrix in (w_q, q)]
    return shapes


def _map(matrix: np.ndarray, limit: float, hover: str) -> dict[str, Any]:
    colours, hover = (style.SCORES_SCALE, -limit, limit), hover + "<extra></extra>"
    return panels.heatmap(
        np.round(matrix, 3), colours=colours, gap=0, hover=hover, hoverongaps=False
    )


def _marked(matrix: np.ndarray, own: slice, limit: float, hover: str) -> list[dict[str, Any]]:
    """The chosen rows, and the others faded."""
    mine, others = np.full_like(matrix, np.nan), matrix.copy()
    mine[own], others[own] = matrix[own], np.nan
    return [_map(others, limit, hover) | {"opacity": ASIDE}, _map(mine, limit, hover)]


def _segments(
    d_model: int, heads: int, row: int, chosen: int | None, size: Sizes
) -> dict[str, Any]:
    """A bar with a segment for each head, as wide as the head; pale if None is chosen."""
    count, width = range(heads), d_model // heads
    pale, colours = chosen is None, [style.run_colour(i) for i in range(heads)]
    return panels.bars(
        [row] * heads,
        [width] * heads,
        colours,
        across=True,
        hover=f"head %{{customdata}} of {heads}: {width} columns<extra></extra>",
        base=[i * width for i in count],
        text=[str(width)] * heads,
        textposition="inside",
        insidetextanchor="middle",
        constraintext="none",
        insidetextfont={"size": size.small, "color": style.TEXT if pale else style.PAPER},
        marker={
            "color": colours,
            "opacity": ASIDE if pale else 1.0,
            "line": {
                "color": style.TEXT,
                "width": [size.line if i == chosen else 0.5 for i in count],
            },
        },
        customdata=[i + 1 for i in count],
    )


# --- what each head does --------------------------------------------------------------------


def head_table(
    names: Sequence[str],
    jobs: Sequence[str],
    measured: ArrayLike,
    uniform: ArrayLike,
    found: Sequence[str],
    rise: Sequence[float] | None = None,
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """One row for each head: its weight on each job, its name, and what losing it costs.

    Args:
        names: of the heads.
        jobs: of the columns.
        measured: [heads, jobs], mean weights.
        uniform: [jobs], what uniform attention would give; the first row.
        found: what each head looks like.
        rise: by how much the loss rises without each head; None: not measured yet.
    """
    table = np.vstack([uniform, np.asarray(measured, dtype=np.float64)])
    count, row = len(table), 2 * size.small + 4
    top, bottom = 4 * size.small + 14, 2 * size.small + 18
    figure = panels.new_figure(
        _table_alt(names, found, rise),
        size._replace(height=count * row + top + bottom),
        "heads",
        margin=style.margin(8 * size.small, 12, top, bottom),
        bargap=0.35,
    )
    panels.wide(figure, 76 * size.small)
    rows, scale = ["uniform attention", *names], (style.WEIGHTS_SCALE, 0, 1)
    # Headings are broken into lines that fit over a column.
    headings = {str(i): "<br>".join(wrap(style.escape(job), 10)) for i, job in enumerate(jobs)}
    across = panels.cell_axis(jobs, size.small, labelalias=headings, domain=[0, 0.54], side="top")
    down = panels.cell_axis(rows, size.small, downwards=True)
    down["labelalias"]["0"] = f"<i>{rows[0]}</i>"
    panels.add_panel(
        figure,
        0,
        across,
        down,
        [
            panels.heatmap(
                np.round(table, 3),
                colours=scale,
                gap=2,
                hover="%{customdata[0]}: %{customdata[1]} <b>%{z:.3f}</b><extra></extra>",
                customdata=[[[name, job] for job in jobs] for name in rows],
                **panels.printed(panels.texts(table, "{:.2f}".format), table, scale, size.small),
            )
        ],
    )
    limit = style.nice_limit(max([0.01, *map(abs, rise)]) if rise is not None else 1.0)
    low = -limit if rise is not None and min(rise) < -0.05 * limit else 0
    panels.add_panel(
        figure,
        1,
        panels.axis(
            "loss rises by (nats)",
            size,
            domain=[0.75, 0.98],
            range=[low, limit * 1.15],
            zeroline=True,
            nticks=5,
        ),
        panels.cell_axis(["", *found], size.small, downwards=True),
        [
            panels.bars(
                range(1, count),
                style.finite(rise if rise is not None else [np.nan] * (count - 1)),
                style.run_colour(0),
                across=True,
                hover="loss rises by %{x:.3f} nats<extra></extra>",
                text=[f"{value:.2f}" for value in rise] if rise is not None else [],
                textfont={"size": size.small},
            )
        ],
    )
    above = {"size": size.small, "yanchor": "bottom", **panels.over(1)}
    figure["layout"]["annotations"] += [
        panels.annotation("looks like", -0.03, 1, xanchor="right", **above),
        panels.annotation("switched off, alone", 0.5, 1, **above),
    ]
    if rise is None:
        waiting = panels.annotation(
            "after training", 0.5, 0.5, colour=style.MUTED, **panels.over(1)
        )
        figure["layout"]["annotations"].append(waiting)
    return figure


def _table_alt(names: Sequence[str], found: Sequence[str], rise: Sequence[float] | None) -> str:
    said = "; ".join(f"{name}: {job}" for name, job in zip(names, found, strict=True))
    if rise is None:
        return f"{said}."
    most = int(np.argmax(rise))
    return f"{said}. Without {names[most]} the loss rises most, by {rise[most]:.2f} nats."


# --- how much they differ ----------------------------------------------------------------------


def diversity_chart(
    steps: Sequence[int],
    lines: Mapping[str, Sequence[float]],
    *,
    shown: int,
    total_steps: int,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """How differently the heads of each block look, over training: 0 alike, 1 nothing shared.

    Args:
        steps: of the frames.
        lines: block -> one number for each frame.
        shown: the step whose maps are shown.
    """
    if not any(np.isfinite(values).any() for values in map(np.asarray, lines.values())):
        return panels.empty_figure("one head: nothing to compare", size=size)
    ends = ", ".join(f"{name} {values[-1]:.2f}" for name, values in lines.items())
    below = style.legend_below(lines, NARROW, size)
    below["margin"]["t"] = 2 * size.font
    alt = f"Head diversity at step {steps[-1]}: {ends}."
    figure = panels.new_figure(alt, size, "diversity", **below)
    panels.add_panel(
        figure,
        0,
        style.step_axis(total_steps),
        panels.axis(range=[0, 1], fixedrange=True),
        [
            panels.line(
                steps,
                style.finite(values),
                style.run_colour(i),
                size.line,
                dash=style.dash(i),
                name=name,
                hover="step %{x}: %{y:.3f}",
                mode="lines+markers" if len(steps) < 2 else "lines",
            )
            for i, (name, values) in enumerate(lines.items())
        ],
        title="head diversity (of ln 2)",
    )
    figure["layout"]["shapes"].append(panels.upright(shown, size.thin))
    return figure
