"""Attention maps: every head small, or one head large, at each stage of the formula.

Stages: scores q·kᵀ → scaled → masked → weights (Vaswani et al., 2017, equation 1).
"""

from collections.abc import Sequence
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
PRINTED_CELLS = 14


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
    """All heads of a layer as small maps with one colour bar.

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
        width: pixels the figure will about have, for the height and the size of labels.
        size: without a height, the figure gets what square maps of that width need.
    """
    values, gaps = _split(maps, hidden, stage)
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
        coloraxis=_colours(values, stage, size),
    )
    layout = figure["layout"]
    if gaps.any():
        layout["images"] = [hatch(head, queries, keys) for head in range(heads) if gaps[head].any()]
    for head, (x_domain, y_domain) in enumerate(grid.domains):
        shared = {"showticklabels": grid.labelled}
        x, y = _axes(query_tokens, key_tokens, grid.label_size, panel=head, **shared)
        x["domain"], y["domain"] = x_domain, y_domain
        panels.add_panel(figure, head, x, y, [_map(values[head], names[head])], title=names[head])
        if head == selected:
            layout["annotations"][-1]["text"] = f"<b>{style.escape(names[head])}</b>"
            layout["shapes"].append(panels.frame(head, style.TEXT, size.line))
    for axis, title in (("x", "key"), ("y", "query")):
        small = {"text": title, "standoff": 2, "font": {"size": size.small}}
        layout[f"{axis}axis{panels.suffix_of(grid.bottom_left)}"]["title"] = small
    return figure


def attention_map(
    matrix: ArrayLike,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    stage: str = "weights",
    hidden: ArrayLike | None = None,
    title: str = "",
    width: int = 500,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """One map, large: [query, key]; its values are printed where there are few cells.

    Args:
        width: pixels the figure will about have.
        The others are as for `attention_maps`.
    """
    values, gaps = _split(np.asarray(matrix, dtype=np.float32)[None], hidden, stage)
    _, queries, keys = values.shape
    if queries == 0 or keys == 0:
        return panels.empty_figure("no attention to show", size=size)
    left, right, top = 4 * size.font, 16, 2 * size.font + 4
    bottom = 3 * size.font + 6 + _bar_height(size)
    across, down = min(width, 720) - left - right, size.height - top - bottom
    pitch = min(across / max(queries, keys), down / queries)
    figure = panels.new_figure(
        _alt(values, gaps, query_tokens, key_tokens, stage, [title or "this head"]),
        size,
        f"map {queries} {keys}",
        margin=style.margin(left, right, top, bottom),
        plot_bgcolor=style.HIDDEN,
        coloraxis=_colours(values, stage, size),
    )
    layout = figure["layout"]
    trace = _map(values[0], title or "attention")
    if max(queries, keys) <= PRINTED_CELLS:
        digits = ".2f" if stage == "weights" else ".1f"
        trace |= {
            "texttemplate": f"%{{z:{digits}}}",
            "texttemplatefallback": "",
            "textfont": {"size": int(min(size.font, max(pitch * 0.36, 8)))},
        }
    label_size = int(min(size.font, max(pitch * 0.85, 7)))
    x, y = _axes(query_tokens, key_tokens, label_size, showticklabels=pitch >= 6)
    x["title"] = {"text": "key: what is looked at", "standoff": 6}
    y["title"] = {"text": "query: who looks", "standoff": 6}
    panels.add_panel(figure, 0, x, y, [trace])
    if title:
        layout["title"] = {"text": style.escape(title), "x": 0.5, "font": {"size": size.font}}
    if gaps.any():
        layout["images"] = [hatch(0, queries, keys)]
    return figure


class _Grid(NamedTuple):
    """Where the maps are: one (x domain, y domain) for each, and what fits around them."""

    domains: list[tuple[list[float], list[float]]]
    margin: dict[str, int]
    height: int
    label_size: int
    labelled: bool
    bottom_left: int  # the map whose axes are named


def _grid(shape: tuple[int, ...], columns: int | None, width: int, size: Sizes) -> _Grid:
    (heads, queries, keys), height = shape, size.height
    around = style.margin(3 * size.font, 8, 2 * size.font, 2.5 * size.small + _bar_height(size))
    between, above = 2 * size.small, 2 * size.font + size.small
    across = max(width - around["l"] - around["r"], 200)

    def slot(columns: int) -> float:
        return (across - between * (columns - 1)) / columns

    def tall(columns: int) -> float:
        wanted = min(slot(columns), 420) * min(queries / keys, 2)
        if height is None:
            return wanted
        rows = -(-heads // columns)
        # Half of a row at least: where there is no room, titles give way to maps.
        return min(wanted, max((down + above) / rows - above, down / rows / 2))

    def pitch(columns: int) -> float:
        return min(slot(columns) / keys, tall(columns) / queries)

    down = 0.0 if height is None else max(height - around["t"] - around["b"], 40)
    if columns is None and height is None:
        columns = heads if heads <= ONE_ROW else -(-heads // 2)
    elif columns is None:
        columns = max(range(1, heads + 1), key=pitch)
    columns = min(columns, heads)
    rows = -(-heads // columns)
    wide, high, cell = slot(columns), tall(columns), pitch(columns)
    if height is None:
        down = rows * high + (rows - 1) * above
        height = round(down + around["t"] + around["b"])
    row_step = high if rows == 1 else high + min(above, (down - rows * high) / (rows - 1))
    domains = []
    for head in range(heads):
        row, column = divmod(head, columns)
        x, y = column * (wide + between) / across, 1 - row * row_step / down
        right, bottom = x + wide / across, y - high / down
        domains.append(([x, min(right, 1)], [max(bottom, 0), y]))
    return _Grid(
        domains,
        around,
        height,
        label_size=int(min(size.small, max(cell * 0.9, 7))),
        labelled=cell >= 6.5,
        bottom_left=(rows - 1) * columns,
    )


def _split(maps: ArrayLike, hidden: ArrayLike | None, stage: str) -> tuple[np.ndarray, np.ndarray]:
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
    return 2 * size.small + 26


def _colours(values: np.ndarray, stage: str, size: Sizes) -> dict[str, Any]:
    if stage == "weights":
        return panels.colour_axis(style.WEIGHTS_SCALE, 0, 1, STAGES[stage], size, dtick=0.25)
    seen = values[np.isfinite(values)]
    limit = style.nice_limit(float(np.abs(seen).max())) if seen.size else 1.0
    return panels.colour_axis(
        style.SCORES_SCALE, -limit, limit, STAGES[stage], size, dtick=limit / 2
    )


def _map(matrix: np.ndarray, name: str) -> dict[str, Any]:
    return panels.heatmap(
        np.round(matrix.astype(np.float64), 4),
        gap=0.5,
        name=name,
        hover="query %{y:d} “%{y}”<br>key %{x:d} “%{x}”<br><b>%{z:.4f}</b>",
        hovertemplatefallback="hidden by the mask",
    )


def _axes(
    query_tokens: Sequence[str], key_tokens: Sequence[str], font: int, panel: int = 0, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys from left to right, queries from the top down; cells are square."""
    more |= {"constrain": "domain"}
    square = {"scaleanchor": f"x{panels.suffix_of(panel)}", "constraintoward": "top"}
    x = panels.cell_axis(key_tokens, font, **more)
    return x, panels.cell_axis(query_tokens, font, downwards=True, **more, **square)


def hatch(panel: int, queries: int, keys: int) -> dict[str, Any]:
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
        "x": -0.5,
        "y": -0.5,
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
) -> str:
    heads, queries, keys = values.shape
    text = f"Attention {STAGES[stage]} of {heads} head{'s' * (heads != 1)}, "
    text += f"{queries} queries by {keys} keys."
    if gaps.any():
        text += f" The mask hides {int(gaps.sum()) // heads} cells of each map."
    if stage == "weights" and heads <= 8:
        for name, matrix in zip(names, np.where(gaps, 0, values), strict=True):
            text += f" {name}: largest weight {largest_cell(matrix, query_tokens, key_tokens)}."
    return text


def largest_cell(matrix: np.ndarray, query_tokens: Sequence[str], key_tokens: Sequence[str]) -> str:
    """The number furthest from 0, and where it is, in words."""
    query, key = np.unravel_index(int(np.nanargmax(np.abs(matrix))), matrix.shape)
    return (
        f"{matrix[query, key]:.2f}, from “{query_tokens[query]}” (position {query}) "
        f"to “{key_tokens[key]}” (position {key})"
    )
