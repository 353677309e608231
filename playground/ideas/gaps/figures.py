"""The picture of the page about gaps: a sentence in cells, and where one gap's query looks."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.attention import STAGES, largest_cell
from playground.figures.style import Figure, Sizes
from playground.figures.written import shown

CHOSEN = style.run_colour(1)
CELL = 22  # pixels, at least


def sentence_picture(
    read: Sequence[str],
    looks: Mapping[str, ArrayLike],
    place: int,
    *,
    size: Sizes = style.AS_NEEDED,
) -> Figure:
    """A sentence with gaps, and below it the attention of one of its places, a row for each model.

    A click tells the character (x, counted from 1).

    Args:
        read: the characters as a model reads them.
        looks: model -> weights over the characters; NaN where the mask hides one.
        place: whose query it is, counted from 0.
    """
    n, names = len(read), list(looks)
    weights = np.array([np.asarray(looks[name], dtype=float) for name in names])
    rows = np.vstack([np.full(n, np.nan), weights])
    most = max(0.1, math.ceil(10 * float(np.nanmax(weights))) / 10)
    row, below = 2.4 * size.font, 5 * size.small + 24
    figure = panels.new_figure(
        _said(read, weights, names, place),
        size._replace(height=round(row * len(rows) + below + 1.5 * size.font)),
        f"gaps {len(rows)}",
        margin=style.margin(7.5 * size.small, 10, 1.5 * size.font, below),
        coloraxis=panels.colour_axis(style.WEIGHTS_SCALE, 0, most, STAGES["weights"], size),
        plot_bgcolor=style.HIDDEN,
    )
    printed = [[f"<b>{style.escape(shown(c))}</b>" for c in read], *[[""] * n for _ in names]]
    drawn = panels.heatmap(
        np.round(rows, 4),
        gap=1,
        name="weights",
        x0=1,
        y0=0,
        hover="%{y} looks at “%{customdata}” (%{x:d})<br><b>%{z:.4f}</b>",
        hovertemplatefallback="%{customdata}",
        customdata=[[shown(c) for c in read]] * len(rows),
    )
    paper = panels.heatmap(
        np.zeros((1, n)),
        colours=([[0, style.PAPER], [1, style.PAPER]], 0, 1),
        gap=1,
        name="text",
        x0=1,
        y0=0,
        hover="%{customdata}: click to hide it, or to show it again<extra></extra>",
        customdata=[[shown(c) for c in read]],
        text=printed[:1],
        texttemplate="%{text}",
        textfont={"size": size.font, "color": style.TEXT},
    )
    across = panels.cell_axis([str(i + 1) for i in range(n)], size.small, first=1, every=5)
    labels = ["reads", *names]
    down = panels.cell_axis(labels, size.small, downwards=True)
    panels.add_panel(figure, 0, across, down, [drawn, paper])
    stroke = {"color": CHOSEN, "width": size.line}
    ends = (place + 0.5, place + 1.5, -0.5, 0.5)
    figure["layout"]["shapes"].append(panels.rectangle(*ends, stroke))
    panels.wide(figure, CELL * n + round(8 * size.small))
    return figure


def _said(read: Sequence[str], weights: np.ndarray, names: Sequence[str], place: int) -> str:
    text = f"Read: {''.join(read)}. Where character {place + 1} looks: "
    found = [
        f"{name} {largest_cell(np.nan_to_num(row)[None], [read[place]], read, (place + 1, 1))}"
        for name, row in zip(names, weights, strict=True)
    ]
    return text + "; ".join(found) + "."
