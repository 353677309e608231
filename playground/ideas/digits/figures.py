"""Figures of the page about pictures: maps over the patches of a picture, accuracies as bars."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

PAPER_TO_INK = [[0.0, "rgb(255,255,255)"], [1.0, "rgb(20,20,20)"]]
BLACK = 16  # the darkest grey level
GAP = 0.05


class Map(NamedTuple):
    """A number for each patch, as a map over the picture."""

    title: str
    shares: ArrayLike  # [patch], at least 0


def over_picture(picture: ArrayLike, maps: Sequence[Map], *, size: Sizes = style.LAPTOP) -> Figure:
    """The picture, cut into its patches, and maps of its patches with its ink on top of them.

    Args:
        picture: grey levels from 0 to 16, [row, column].
        maps: the patches are as large as the picture allows, in reading order.
    """
    picture = np.asarray(picture)
    side = len(picture)
    n = round(len(np.asarray(maps[0].shares)) ** 0.5)
    limit = style.nice_limit(max(float(np.max(m.shares)) for m in maps))
    figure = panels.new_figure(
        " ".join([f"A picture in {n} × {n} patches.", *(said(m, n) for m in maps)]),
        size,
        f"patches {n} {len(maps)}",
        margin=style.margin(2.5 * size.small, 10, 2 * size.font, 6.5 * size.small + 24),
        coloraxis=panels.colour_axis(
            style.WEIGHTS_SCALE, 0, limit, "share of a patch", size, dtick=limit / 2
        ),
    )
    ink = panels.heatmap(
        picture,
        colours=(PAPER_TO_INK, 0, BLACK),
        gap=0,
        name="picture",
        hover="grey %{z} of 16",
        showscale=False,
    )
    columns = panels.domains(1 + len(maps), GAP)
    panels.add_panel(figure, 0, *_axes(0, side, n, size, columns[0]), [ink], title="the picture")
    for i, m in enumerate(maps, start=1):
        drawn = panels.heatmap(
            np.round(np.reshape(np.asarray(m.shares, dtype=float), (n, n)), 4),
            gap=1,
            name=m.title,
            x0=(side / n - 1) / 2,
            dx=side / n,
            y0=(side / n - 1) / 2,
            dy=side / n,
            hover=f"{m.title}<br><b>%{{z:.4f}}</b>",
        )
        axes = _axes(i, side, n, size, columns[i])
        panels.add_panel(figure, i, *axes, [drawn, _dots(picture, size)], title=m.title)
    line = {"color": style.run_colour(1), "width": size.line / 2}
    for at in np.arange(1, n) * side / n - 0.5:
        for ends in ((at, at, -0.5, side - 0.5), (-0.5, side - 0.5, at, at)):
            figure["layout"]["shapes"].append(panels.rectangle(*ends, line, **panels.at(0)))
    whole = panels.rectangle(-0.5, side - 0.5, -0.5, side - 0.5, line, **panels.at(0))
    figure["layout"]["shapes"].append(whole)
    panels.stack(figure, 240)
    return figure


def said(m: Map, n: int) -> str:
    best = int(np.argmax(m.shares))
    return f"{m.title}: most on {name_of(best, n)}, {np.asarray(m.shares)[best]:.3f}."


def name_of(patch: int, n: int) -> str:
    """A patch as people call it: the letter of its row, and its number across."""
    return f"{'ABCDEFGH'[patch // n]}{patch % n + 1}"


def _axes(panel: int, side: int, n: int, size: Sizes, across: list[float]) -> tuple[dict, dict]:
    """Pixels across and down; the labels stand at the middle of each patch."""
    middles = ((np.arange(n) + 0.5) * side / n - 0.5).tolist()
    shared = {"tickvals": middles, "showgrid": False, "constrain": "domain", "zeroline": False}
    x = panels.axis(
        size=size,
        range=[-0.5, side - 0.5],
        ticktext=[str(i + 1) for i in range(n)],
        domain=across,
        **shared,
    )
    y = panels.axis(
        size=size,
        range=[side - 0.5, -0.5],
        ticktext=list("ABCDEFGH"[:n]),
        scaleanchor=panels.at(panel)["xref"],
        constraintoward="top",
        **shared,
    )
    return x, y


def _dots(picture: np.ndarray, size: Sizes) -> dict:
    """The ink as dots, readable on every colour: the darker a pixel, the larger its dot."""
    rows, columns = np.nonzero(picture)
    greys = picture[rows, columns] / BLACK
    return {
        "type": "scatter",
        "mode": "markers",
        "x": columns.tolist(),
        "y": rows.tolist(),
        "hoverinfo": "skip",
        "showlegend": False,
        "marker": {
            "size": np.round(0.6 * size.font * np.sqrt(greys), 1).tolist(),
            "color": "rgb(255,255,255)",
            "line": {"color": "rgb(0,0,0)", "width": 1},
        },
    }


def deletion_bars(
    names: Sequence[str], accuracies: Sequence[float], *, size: Sizes = style.LAPTOP
) -> Figure:
    """Accuracies as bars across, from the top down; the first is that of whole pictures."""
    figure = panels.new_figure(
        "; ".join(f"{n}: {a:.1%} right" for n, a in zip(names, accuracies, strict=True)),
        size,
        "deletion",
        margin=style.margin(0.55 * size.small * max(map(len, names)), 60, 8, 8),
        xaxis={"range": [0, 1], "tickformat": ".0%", "visible": False},
        yaxis=panels.cell_axis(names, size.small, downwards=True),
        showlegend=False,
    )
    colours = [style.run_colour(0)] + [style.run_colour(1)] * (len(names) - 1)
    figure["data"].append(
        panels.bars(
            list(range(len(names))),
            list(accuracies),
            colours,
            across=True,
            text=[f"{value:.1%}" for value in accuracies],
            textposition="outside",
            cliponaxis=False,
            hover="%{x:.1%} right",
        )
    )
    return figure


def position_tiles(cosines: ArrayLike, *, size: Sizes = style.LAPTOP) -> Figure:
    """One small map for each patch: how alike its position is to that of every other patch."""
    values = np.asarray(cosines, dtype=float)
    n = round(len(values) ** 0.5)
    tiles = np.full((n * (n + 1) - 1, n * (n + 1) - 1), np.nan)
    for patch, row in enumerate(values):
        top, left = (n + 1) * (patch // n), (n + 1) * (patch % n)
        tiles[top : top + n, left : left + n] = row.reshape(n, n)
    figure = panels.new_figure(
        f"Cosines of {len(values)} learnt positions: "
        f"mean with those next to them {neighbours(values, True):.2f}, "
        f"with the others {neighbours(values, False):.2f}.",
        size,
        f"positions {n}",
        margin=style.margin(2.5 * size.small, 10, 10, 6.5 * size.small + 24),
        coloraxis=panels.colour_axis(
            style.SCORES_SCALE, -1, 1, "cosine of two positions", size, dtick=0.5
        ),
    )
    middles = (np.arange(n) * (n + 1) + (n - 1) / 2).tolist()
    shared = {"tickvals": middles, "showgrid": False, "constrain": "domain", "zeroline": False}
    x = panels.axis(size=size, ticktext=[str(i + 1) for i in range(n)], **shared)
    y = panels.axis(
        size=size,
        ticktext=list("ABCDEFGH"[:n]),
        autorange="reversed",
        scaleanchor="x",
        constraintoward="top",
        **shared,
    )
    drawn = panels.heatmap(np.round(tiles, 3), gap=0, name="cosine", hover="<b>%{z:.3f}</b>")
    panels.add_panel(figure, 0, x, y, [drawn])
    return figure


def neighbours(cosines: ArrayLike, near: bool) -> float:
    """The mean cosine of the pairs of patches that share a side; or of all other pairs."""
    values = np.asarray(cosines, dtype=float)
    n = round(len(values) ** 0.5)
    row, column = np.divmod(np.arange(len(values)), n)
    apart = np.abs(row[:, None] - row) + np.abs(column[:, None] - column)
    chosen = values[apart == 1] if near else values[apart > 1]
    return float(chosen.mean()) if chosen.size else float("nan")
