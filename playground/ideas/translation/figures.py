"""Figures of the page about encoder and decoder: three attentions side by side."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.attention import colours_of, hatch, largest_cell
from playground.figures.style import Figure, Sizes

CHOSEN = style.run_colour(1)  # frames what is written now
WIDTH = 1250  # pixels, roughly, of the figure on a laptop
GAP = 0.06


class Panel(NamedTuple):
    """One attention as a map."""

    title: str
    weights: ArrayLike  # [query, key]
    hidden: ArrayLike  # bool [query, key]
    queries: Sequence[str]
    keys: Sequence[str]
    asks: str  # what a query is
    offers: str  # what a key is
    now: int | None = None  # the query to frame


def three_maps(maps: Sequence[Panel], *, size: Sizes = style.LAPTOP) -> Figure:
    """Maps side by side, each as wide as it has keys; on a phone below each other.

    Cells are as high as the figure allows. What a mask hides is striped; NaN is not written yet.
    """
    figure = panels.new_figure(
        " ".join(map(_said, maps)),
        size,
        f"translation {[np.shape(m.weights) for m in maps]}",
        margin=style.margin(4.5 * size.small, 10, 2 * size.font, 6.5 * size.small + 24),
        plot_bgcolor=style.HIDDEN,
        coloraxis=colours_of("weights", 1.0, size),
    )
    shares = np.array([max(len(m.keys), 8) for m in maps], dtype=float)
    widths = shares / shares.sum() * (1 - GAP * (len(maps) - 1))
    start = 0.0
    for i, (m, width) in enumerate(zip(maps, widths.tolist(), strict=True)):
        across = [start, min(start + width, 1.0)]
        start += width + GAP
        pitch = width * WIDTH / len(m.keys)
        longest = max(map(len, m.keys), default=1)
        slanted = longest > 1  # words stand on end
        every = 1 if slanted or pitch > 0.8 * size.small else 2
        x = panels.cell_axis(m.keys, size.small, first=1, every=every, domain=across)
        # The slanted words need the room of the title.
        x |= {"tickangle": -60} if slanted else {"title": {"text": m.offers, "standoff": 3}}
        y = panels.cell_axis(m.queries, size.small, first=1, downwards=True)
        y |= {"title": {"text": m.asks, "standoff": 3}}
        values = np.where(np.asarray(m.hidden, dtype=bool), np.nan, np.asarray(m.weights, float))
        drawn = panels.heatmap(
            np.round(values, 4),
            gap=0.5,
            name=m.title,
            x0=1,
            y0=1,
            hover="“%{y}” looks at “%{x}” (%{x:d})<br><b>%{z:.4f}</b>",
            hovertemplatefallback="hidden by the mask, or not written yet",
        )
        panels.add_panel(figure, i, x, y, [drawn], title=m.title)
        if np.asarray(m.hidden).any():
            image = hatch(i, len(m.queries), len(m.keys), (1, 1))
            figure["layout"].setdefault("images", []).append(image)
        if m.now is not None:
            ends = (0.5, len(m.keys) + 0.5, m.now + 0.5, m.now + 1.5)
            line = {"color": CHOSEN, "width": size.line}
            figure["layout"]["shapes"].append(panels.rectangle(*ends, line, **panels.at(i)))
    panels.stack(figure, 300)
    return figure


def _said(m: Panel) -> str:
    values = np.nan_to_num(np.where(np.asarray(m.hidden, dtype=bool), 0, m.weights))
    if m.now is not None:
        row = largest_cell(values[m.now : m.now + 1], m.queries[m.now :], m.keys, (m.now + 1, 1))
        return f"{m.title}: this step’s largest weight is {row}."
    return f"{m.title}: largest weight {largest_cell(values, m.queries, m.keys)}."
