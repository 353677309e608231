"""Attention maps: the heads of a layer in a grid, or one head large, at each stage of the formula.

Stages: scores q·kᵀ → scaled → masked → weights (Vaswani et al., 2017, equation 1). Positions are
counted from 1 along the axes, as heads and blocks are.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

STAGES = {
    "scores": "scores q·kᵀ",
    "scaled": "scaled scores",
    "masked": "masked scores",
    "weights": "weights (softmax)",
}
# A mask writes a huge negative number; no score that anyone can see comes near it.
MASKED_BELOW = -3e4
ONE_ROW = 4  # so many maps fit in one row, more of them in two
LARGEST_MAP = 420  # pixels, unless a height is asked for
NUMBER_WIDTH = 0.42  # of a cell: letters with which a number fits into it


def attention_maps(
    maps: ArrayLike,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    stage: str = "weights",
    hidden: ArrayLike | None = None,
    selected: int | None = None,
    titles: Sequence[str] | None = None,
    columns: int | None = None,
    width: int = 1000,
    size: Sizes = style.AS_NEEDED,
) -> Figure:
    """Heads as maps in a grid, with one colour bar; tokens stand at its outer edges alone.

    Trace i is head i, so a click's `trace` is the head.

    Args:
        maps: [heads, query, key], scores or weights.
        query_tokens, key_tokens: what is printed along the axes; tokens may repeat.
        stage: one of `STAGES`. Weights are coloured 0 to 1, scores symmetrically around 0.
        hidden: what the mask hides, [query, key] or [heads, query, key]; drawn from stage
            "masked" on, since before it these scores exist.
        selected: index of the head to frame.
        titles: one for each map; "head 1" and so on by default.
        columns: maps in a row; by default those of one or two rows, or with a height what makes
            the maps largest.
        width: pixels the figure will about have: how large the maps are, how many tokens fit.
        size: without a height, the figure gets what square maps of that width need.
    """
    values, gaps = values_and_gaps(maps, hidden, stage)
    heads, queries, keys = values.shape
    if heads == 0 or queries == 0 or keys == 0:
        return panels.empty_figure("no attention to show", size=size)
    names = list(titles) if titles is not None else [f"head {i + 1}" for i in range(heads)]
    grid = _grid(values.shape, columns, width, size)
    figure = panels.new_figure(
        _alt(values, gaps, query_tokens, key_tokens, stage, names),
        size._replace(height=grid.height),
        f"maps {heads} {queries} {keys}",
        margin=grid.margin,
        plot_bgcolor=style.HIDDEN,
        coloraxis=colours_of(stage, colour_limit(stage, [values]), size),
    )
    layout = figure["layout"]
    if gaps.any():
        layout["images"] = [hatch(head, queries, keys) for head in range(heads) if gaps[head].any()]
    for head, (x_domain, y_domain) in enumerate(grid.domains):
        x, y = _axes(query_tokens, key_tokens, grid.pitch, size, head)
        x |= {"domain": x_domain, "showticklabels": head + grid.columns >= heads}
        y |= {"domain": y_domain, "showticklabels": head % grid.columns == 0}
        panels.add_panel(figure, head, x, y, [_map(values[head], names[head])], title=names[head])
        if head == selected:
            layout["annotations"][-1]["text"] = f"<b>{style.escape(names[head])}</b>"
            layout["shapes"].append(panels.frame(head, style.TEXT, size.line))
    corner = panels.suffix_of((heads - 1) // grid.columns * grid.columns)
    for axis, title in (("x", "key"), ("y", "query")):
        small = {"text": title, "standoff": 2, "font": {"size": size.small}}
        layout[f"{axis}axis{corner}"]["title"] = small
    return figure


def attention_map(
    matrix: ArrayLike,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    stage: str = "weights",
    hidden: ArrayLike | None = None,
    title: str = "",
    first: tuple[int, int] = (1, 1),
    limit: float | None = None,
    width: int = 500,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """One map, large: [query, key]; its values are printed where cells are large enough.

    Args:
        first: positions of the first query and of the first key: this may be a part of a map.
        limit: colours of scores reach from −limit to limit; by default what these scores need.
        width: pixels the figure will about have.
        The others are as for `attention_maps`.
    """
    values, gaps = values_and_gaps(np.asarray(matrix, dtype=np.float32)[None], hidden, stage)
    _, queries, keys = values.shape
    if queries == 0 or keys == 0:
        return panels.empty_figure("no attention to show", size=size)
    label = size.small
    left, right, top = (2.2 + 0.6 * _longest(query_tokens)) * label, 10, size.font + 12
    bottom = 2.6 * label + 6 + _bar_height(size)
    across, down = min(width, 720) - left - right, size.height - top - bottom
    pitch = min(across / keys, down / queries)
    figure = panels.new_figure(
        _alt(values, gaps, query_tokens, key_tokens, stage, [title or "this head"], first),
        size,
        f"map {first} {queries} {keys}",
        margin=style.margin(left, right, top, bottom),
        plot_bgcolor=style.HIDDEN,
        coloraxis=colours_of(stage, limit or colour_limit(stage, [values]), size),
    )
    layout = figure["layout"]
    layout["coloraxis"]["colorbar"]["len"] = round(min(style.BAR_LENGTH, 0.9 * across))
    x, y = _axes(query_tokens, key_tokens, pitch, size, first=first)
    x["title"] = {"text": "key: what is looked at", "standoff": 4, "font": {"size": label}}
    y["title"] = {"text": "query: who looks", "standoff": 4, "font": {"size": label}}
    panels.add_panel(figure, 0, x, y, [_map(values[0], title or "attention", first)], title=title)
    digits = int(min(size.font, pitch * NUMBER_WIDTH))
    if digits >= size.small - 1:
        print_numbers(figure, values[0], stage, digits)
    if gaps.any():
        layout["images"] = [hatch(0, queries, keys, first)]
    return figure


def print_numbers(figure: Figure, values: ArrayLike, stage: str, font: int) -> None:
    """Print into the cells of the figure's map what they are, in letters of `font` pixels."""
    written = f"{{:.{2 if stage == 'weights' else 1}f}}".format
    axis = figure["layout"]["coloraxis"]
    colours = axis["colorscale"], axis["cmin"], axis["cmax"]
    figure["data"][0] |= panels.printed(panels.texts(values, written), values, colours, font)


class _Grid(NamedTuple):
    """Where the maps are: one (x domain, y domain) for each, and what fits around them."""

    domains: list[tuple[list[float], list[float]]]
    margin: dict[str, int]
    height: int
    pitch: float  # pixels of a cell
    columns: int


def _grid(shape: tuple[int, ...], columns: int | None, width: int, size: Sizes) -> _Grid:
    (heads, queries, keys), height = shape, size.height
    around = style.margin(3.2 * size.small, 8, 2 * size.font, 3 * size.small + _bar_height(size))
    between, above = 1.2 * size.small, 2 * size.font
    across = max(width - around["l"] - around["r"], 200)
    down = math.inf if height is None else max(height - around["t"] - around["b"], 40)

    def pitch(columns: int) -> float:
        """Pixels of a cell with so many maps in a row."""
        rows = -(-heads // columns)
        # Half of a row at least: where there is no room, titles give way to maps.
        tall = max((down + above) / rows - above, down / rows / 2)
        return min((across - between * (columns - 1)) / columns / keys, tall / queries)

    if columns is None:
        columns = heads if heads <= ONE_ROW else -(-heads // 2)
        if height is not None:
            columns = max(range(1, heads + 1), key=pitch)
    columns = min(columns, heads)
    rows, cell = -(-heads // columns), pitch(columns)
    if height is None:
        cell = min(cell, LARGEST_MAP / max(queries, keys))
    wide, high = cell * keys, cell * queries
    if height is None:
        down = rows * high + (rows - 1) * above
        height = round(down + around["t"] + around["b"])
    step = high if rows == 1 else high + min(above, (down - rows * high) / (rows - 1))
    left = (across - columns * wide - (columns - 1) * between) / 2
    domains = []
    for head in range(heads):
        row, column = divmod(head, columns)
        x, y = (left + column * (wide + between)) / across, 1 - row * step / down
        right, bottom = x + wide / across, y - high / down
        domains.append(([max(x, 0), min(right, 1)], [max(bottom, 0), y]))
    return _Grid(domains, around, height, cell, columns)


def values_and_gaps(
    maps: ArrayLike, hidden: ArrayLike | None, stage: str
) -> tuple[np.ndarray, np.ndarray]:
    """Values with NaN (drawn as a gap) where the mask hides, and where it does."""
    if stage not in STAGES:
        raise ValueError(f"stage={stage!r} is none of {', '.join(STAGES)}")
    values = np.array(maps, dtype=np.float32)
    if values.ndim != 3:
        raise ValueError(f"maps has {values.ndim} axes; it needs three: heads, query, key")
    gaps = ~np.isfinite(values)
    if stage == "masked":
        gaps |= values < MASKED_BELOW
    if hidden is not None and stage in ("masked", "weights"):
        gaps |= np.broadcast_to(np.asarray(hidden, dtype=bool), values.shape)
    values[gaps] = np.nan
    return values, gaps


def _bar_height(size: Sizes) -> int:
    return round(2.4 * size.small + 18)


def colour_limit(stage: str, maps: Iterable[ArrayLike]) -> float:
    """How far the colours of a stage reach from 0, so that all of these maps can be compared."""
    if stage == "weights":
        return 1.0
    largest = 0.0
    for values in map(np.asarray, maps):
        seen = values[np.isfinite(values) & (values >= MASKED_BELOW)]
        largest = max(largest, float(np.abs(seen).max(initial=0.0)))
    return style.nice_limit(largest)


def colours_of(stage: str, limit: float, size: Sizes) -> dict[str, Any]:
    """Colours of a stage: weights from 0 to 1, scores from −limit to limit."""
    title = STAGES[stage]
    if stage == "weights":
        return panels.colour_axis(style.WEIGHTS_SCALE, 0, 1, title, size, dtick=0.25)
    return panels.colour_axis(style.SCORES_SCALE, -limit, limit, title, size, dtick=limit / 2)


def _map(matrix: np.ndarray, name: str, first: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    return panels.heatmap(
        np.round(matrix.astype(np.float64), 4),
        gap=0.5,
        name=name,
        y0=first[0],
        x0=first[1],
        hover="query %{y:d} “%{y}”<br>key %{x:d} “%{x}”<br><b>%{z:.4f}</b>",
        hovertemplatefallback="hidden by the mask",
    )


def _axes(
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    pitch: float,
    size: Sizes,
    panel: int = 0,
    first: tuple[int, int] = (1, 1),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys from left to right, queries from the top down; cells are square.

    Where cells of `pitch` pixels are smaller than their labels, some have none.
    """
    down = {"first": first[0], "every": _every(size.small, pitch), "downwards": True}
    across = {"first": first[1], "every": _every(_wide(key_tokens, size.small), pitch)}
    square = {"scaleanchor": f"x{panels.suffix_of(panel)}", "constraintoward": "top"}
    x = panels.cell_axis(key_tokens, size.small, constrain="domain", **across)
    return x, panels.cell_axis(query_tokens, size.small, constrain="domain", **down, **square)


def _longest(tokens: Sequence[str]) -> int:
    return max(map(len, tokens), default=0)


def _wide(tokens: Sequence[str], font: int) -> float:
    """Pixels that each of the tokens needs along an axis."""
    return font * (0.56 * _longest(tokens) + 0.2)


def _every(needed: float, pitch: float) -> int:
    """Every how many cells there is room for a label; it may reach a little into the next one."""
    return max(1, math.ceil(0.95 * needed / pitch))


def hatch(panel: int, queries: int, keys: int, first: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    """Stripes under the map, seen through the cells that the mask leaves empty."""
    side = f"{max(queries, keys) / 24:.3f}"
    source = (
        "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' preserveAspectRatio='none' "
        f"viewBox='0 0 {keys} {queries}'><pattern id='h' width='{side}' height='{side}' "
        f"patternUnits='userSpaceOnUse'><path d='M0 {side}L{side} 0' stroke='gray' "
        f"stroke-opacity='.6' stroke-width='{float(side) / 8:.3f}'/></pattern>"
        f"<rect width='{keys}' height='{queries}' fill='url(%23h)'/></svg>"
    )
    return {
        "source": source,
        **panels.at(panel),
        "x": first[1] - 0.5,
        "y": first[0] - 0.5,
        "sizex": keys,
        "sizey": queries,
        "sizing": "stretch",
        "layer": "below",
    }


def _alt(
    values: np.ndarray,
    gaps: np.ndarray,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    stage: str,
    names: Sequence[str],
    first: tuple[int, int] = (1, 1),
) -> str:
    heads, queries, keys = values.shape
    text = f"Attention {STAGES[stage]} of {heads} head{'s' * (heads != 1)}, "
    text += f"{queries} queries by {keys} keys."
    if gaps.any():
        text += f" The mask hides {int(gaps.sum()) // heads} cells of each map."
    if stage == "weights" and heads <= 8:
        for name, matrix in zip(names, np.where(gaps, 0, values), strict=True):
            cell = largest_cell(matrix, query_tokens, key_tokens, first)
            text += f" {name}: largest weight {cell}."
    return text


def largest_cell(
    matrix: np.ndarray,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    first: tuple[int, int] = (1, 1),
) -> str:
    """The number furthest from 0, and where it is, in words."""
    query, key = np.unravel_index(int(np.nanargmax(np.abs(matrix))), matrix.shape)
    return (
        f"{matrix[query, key]:.2f}, from “{query_tokens[query]}” (position {query + first[0]}) "
        f"to “{key_tokens[key]}” (position {key + first[1]})"
    )
