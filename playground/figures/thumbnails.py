"""Thumbnails: every head of the model at a glance, of which one is chosen to be seen large."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from playground.figures import panels, style
from playground.figures.attention import STAGES, colours_of, values_and_gaps
from playground.figures.style import Figure, Sizes

CHOSEN = style.run_colour(1)  # the frame of what is shown large
HALF = 0.45  # of a thumbnail, in widths of its place
MOST_CELLS = 24  # along a thumbnail
CELLS_IN_ALL = 12_000  # of all thumbnails together: what is sent each time
SMALLEST, LARGEST = 14, 64  # pixels


class Layer(NamedTuple):
    """The heads of a layer: [heads, query, key], and what its mask hides, [query, key]."""

    values: np.ndarray
    hidden: np.ndarray | None = None


def thumbnails(
    layers: Mapping[str, Layer],
    *,
    stage: str = "weights",
    limit: float = 1.0,
    chosen: tuple[int, int] | None = None,
    width: int = 180,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Every head small: layers side by side with their heads below each other, or turned.

    A cell of a thumbnail is the largest of those of the map that it stands for. Trace i is layer i,
    and where a click was, `head_at` tells the head.

    Args:
        layers: those of the model by their names, in the order of computation.
        stage, limit: which of the stages of attention it is, and how far the colours of scores
            reach from 0.
        chosen: the layer and the head to frame.
        width: pixels the figure will about have.
        size: the figure takes what it needs of its height.
    """
    layers = {name: layer for name, layer in layers.items() if layer.values.size}
    if not layers:
        return panels.empty_figure("no attention to show", size=size)
    heads = max(len(layer.values) for layer in layers.values())
    title, words = _words(list(layers))
    both = [(title, words), ("head", [str(head + 1) for head in range(heads)])]
    turned = _turned(len(layers), heads)
    (across, columns), (down, rows) = both[::-1] if turned else both
    around, aside = _around(across, columns, down, rows, width, size)
    tile = min(
        LARGEST,
        (width - around["l"] - around["r"]) / len(columns),
        (size.height - around["t"] - around["b"]) / len(rows),
    )
    figure = panels.new_figure(
        _alt(layers, heads, stage, chosen),
        size._replace(height=round(max(tile, SMALLEST) * len(rows) + around["t"] + around["b"])),
        f"thumbnails {len(layers)} {heads}",
        margin=around,
        coloraxis=colours_of(stage, limit, size) | {"showscale": False},
    )
    shared = {"first": 1, "constrain": "domain", "fixedrange": True}
    small = {"font": {"size": size.small}, "standoff": 4}
    x = panels.cell_axis(columns, size.small, side="top", **shared)
    x |= {"tickangle": -90 if aside else 0, "title": small | {"text": across}}
    y = panels.cell_axis(
        rows,
        size.small,
        downwards=True,
        title=small | {"text": down},
        scaleanchor="x",
        constraintoward="top",
        **shared,
    )
    cells = min(MOST_CELLS, int(math.sqrt(CELLS_IN_ALL / (heads * len(layers)))))
    drawn = [_drawn(i + 1, *item, cells, stage, turned) for i, item in enumerate(layers.items())]
    panels.add_panel(figure, 0, x, y, drawn)
    places = [
        (i, head)
        for i, layer in enumerate(layers.values(), 1)
        for head in range(1, len(layer.values) + 1)
    ]
    figure["layout"]["shapes"].append(_grounds([_place(*place, turned) for place in places]))
    if chosen is not None:
        stroke = {"color": CHOSEN, "width": size.thin + 1.5}
        right, below = _place(chosen[0] + 1, chosen[1] + 1, turned)
        ends = right - 0.5, right + 0.5, below - 0.5, below + 0.5
        figure["layout"]["shapes"].append(panels.rectangle(*ends, stroke))
    return figure


def head_at(x: float, y: float, layers: int, heads: int) -> int:
    """Index of the head in whose thumbnail a click was."""
    return round(x if _turned(layers, heads) else y) - 1


def _turned(layers: int, heads: int) -> bool:
    """Whether the layers stand below each other: there is more room downwards."""
    return layers > heads


def _place(layer: int, head: int, turned: bool) -> tuple[int, int]:
    """To the right, and down."""
    return (head, layer) if turned else (layer, head)


def _words(names: Sequence[str]) -> tuple[str, list[str]]:
    """What stands over all layers, and at each of them."""
    kinds = {name.rpartition(" ")[0] for name in names}
    if len(kinds) > 1:
        return "", list(names)
    return kinds.pop(), [name.rpartition(" ")[2] for name in names]


def _around(
    across: str, columns: Sequence[str], down: str, rows: Sequence[str], width: int, size: Sizes
) -> tuple[dict[str, int], bool]:
    """Margins, and whether the words over the columns have to lie on their side."""
    font = size.small
    left = font * (0.8 + 0.6 * max(map(len, rows)) + 1.5 * bool(down))
    longest = max(map(len, columns))
    aside = 0.6 * font * longest > (width - left) / len(columns)
    above = font * ((0.7 * longest if aside else 1.2) + 1.5 * bool(across)) + 8
    return style.margin(left, 4, above, 6), aside


def _drawn(
    place: int, name: str, layer: Layer, most: int, stage: str, turned: bool
) -> dict[str, Any]:
    """The heads of a layer: their cells within edges, and nothing in between."""
    values, _ = values_and_gaps(layer.values, layer.hidden, stage)
    values = _pooled(_pooled(values, most, 1), most, 2)
    heads, queries, keys = values.shape
    along, beside = (keys, queries) if turned else (queries, keys)
    # One row, or column, of nothing after each head.
    gap = [(0, 0), (0, 0), (0, 1)] if turned else [(0, 0), (0, 1), (0, 0)]
    values = np.pad(values, gap, constant_values=np.nan)
    if turned:
        stacked = np.concatenate(values, axis=1)[:, :-1]
    else:
        stacked = np.concatenate(values, axis=0)[:-1]
    many = [np.linspace(head - HALF, head + HALF, along + 1) for head in range(1, heads + 1)]
    ends = np.concatenate(many), np.linspace(place - HALF, place + HALF, beside + 1)
    x, y = ends if turned else ends[::-1]
    head = "%{x:.0f}" if turned else "%{y:.0f}"
    return panels.heatmap(
        np.round(stacked.astype(np.float64), 2 if stage == "weights" else 1),
        gap=0,
        name=name,
        x=np.round(x, 4),
        y=np.round(y, 4),
        hover=f"{style.escape(name)}, head {head}<extra></extra>",
    )


def _pooled(values: np.ndarray, most: int, axis: int) -> np.ndarray:
    """At most so many cells along an axis, each the largest of those that it stands for."""
    count = values.shape[axis]
    if count <= most:
        return values
    return np.fmax.reduceat(values, np.arange(most) * count // most, axis=axis)


def _grounds(places: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """What is seen where the mask hides: one shape behind all thumbnails."""
    path = "".join(
        f"M{x - HALF:g},{y - HALF:g}H{x + HALF:g}V{y + HALF:g}H{x - HALF:g}Z" for x, y in places
    )
    filled = {"fillcolor": style.HIDDEN, "line": {"width": 0}, "layer": "below"}
    return {"type": "path", "path": path, **panels.at(0), **filled}


def _alt(
    layers: Mapping[str, Layer], heads: int, stage: str, chosen: tuple[int, int] | None
) -> str:
    text = f"Attention {STAGES[stage]} of every head: {', '.join(layers)}, {heads} heads each."
    if chosen is not None:
        text += f" Shown large: {list(layers)[chosen[0]]}, head {chosen[1] + 1}."
    return text
