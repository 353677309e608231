"""Attention maps: every head small, or one head large, at each stage of the formula.

Stages: scores q·kᵀ → scaled → masked → weights (Vaswani et al., 2017, equation 1).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.panels import (
    empty_figure,
    suffix_of,
)
from playground.figures.style import (
    HIDDEN,
    SCORES_SCALE,
    TEXT,
    WEIGHTS_SCALE,
    Figure,
    Sizes,
    base_layout,
    escape,
    nice_limit,
    sizes,
    token_labels,
)

STAGES = {
    "scores": "scores q·kᵀ",
    "scaled": "scaled scores",
    "masked": "masked scores",
    "weights": "weights (softmax)",
}
# A mask writes a huge negative number; no score that anyone can see comes near it.
MASKED_BELOW = -3e4
MAX_COLUMNS = 4
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
    height: int | None = None,
    projector: bool = False,
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
        columns: maps in a row, at most; by default 4, or with a height what makes them largest.
        width: pixels the figure will about have, for the height and the size of labels.
        height: pixels; by default what square maps of that width need.
    """
    values, gaps = _split(maps, hidden, stage)
    heads, queries, keys = values.shape
    if heads == 0 or queries == 0 or keys == 0:
        return empty_figure("no attention to show", projector=projector)
    size = sizes(projector)
    names = list(titles) if titles is not None else [f"head {i + 1}" for i in range(heads)]
    grid = _grid(values.shape, columns, width, height, size)
    layout = base_layout(
        _alt(values, gaps, query_tokens, key_tokens, stage, names),
        grid.height,
        projector,
        f"maps {heads} {queries} {keys}",
    )
    layout |= {
        "margin": grid.margin,
        "plot_bgcolor": HIDDEN,
        "coloraxis": _coloraxis(values, stage, size),
        "annotations": [],
        "shapes": [],
    }
    if gaps.any():
        layout["images"] = []
    data = []
    for head in range(heads):
        suffix = suffix_of(head)
        data.append(_heatmap(values[head], suffix, names[head]))
        labels = {"label_size": grid.label_size, "labelled": grid.labelled}
        x_domain, y_domain = grid.domains[head]
        layout[f"xaxis{suffix}"] = _token_axis(key_tokens, x_domain, f"y{suffix}", **labels)
        layout[f"yaxis{suffix}"] = _token_axis(
            query_tokens, y_domain, f"x{suffix}", queries_axis=True, **labels
        )
        chosen = head == selected
        layout["annotations"].append(
            {
                "text": f"<b>{escape(names[head])}</b>" if chosen else escape(names[head]),
                "xref": f"x{suffix} domain",
                "yref": f"y{suffix} domain",
                "x": 0.5,
                "y": 1,
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": size.font, "color": TEXT},
            }
        )
        if chosen:
            layout["shapes"].append(_frame(suffix, size))
        if gaps[head].any():
            layout["images"].append(hatch(suffix, queries, keys))
    label = {"standoff": 2, "font": {"size": size.small}}
    layout[f"xaxis{grid.bottom_left}"]["title"] = label | {"text": "key"}
    layout[f"yaxis{grid.bottom_left}"]["title"] = label | {"text": "query"}
    return {"data": data, "layout": layout}


def attention_map(
    matrix: ArrayLike,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    stage: str = "weights",
    hidden: ArrayLike | None = None,
    title: str = "",
    width: int = 500,
    height: int | None = None,
    projector: bool = False,
) -> Figure:
    """One map, large: [query, key]; its values are printed where there are few cells.

    Args:
        width: pixels the figure will about have; gives the height where none is said.
        The others are as for `attention_maps`.
    """
    values, gaps = _split(np.asarray(matrix, dtype=np.float32)[None], hidden, stage)
    _, queries, keys = values.shape
    if queries == 0 or keys == 0:
        return empty_figure("no attention to show", height=height or 240, projector=projector)
    size = sizes(projector)
    left, right, top = 4 * size.font, 16, 2 * size.font + 4
    bottom = 3 * size.font + 6 + _bar_height(size)
    pitch = (min(width, 720) - left - right) / max(queries, keys)
    height = height or round(min(pitch * queries, 560) + top + bottom)
    pitch = min(pitch, (height - top - bottom) / queries)
    layout = base_layout(
        _alt(values, gaps, query_tokens, key_tokens, stage, [title or "this head"]),
        height,
        projector,
        f"map {queries} {keys}",
    )
    label_size = int(min(size.font, max(pitch * 0.85, 7)))
    labelled = pitch >= 6
    trace = _heatmap(values[0], "", title or "attention")
    if max(queries, keys) <= PRINTED_CELLS:
        digits = ".2f" if stage == "weights" else ".1f"
        trace |= {
            "texttemplate": f"%{{z:{digits}}}",
            "texttemplatefallback": "",
            "textfont": {"size": int(min(size.font, max(pitch * 0.36, 8)))},
        }
    layout |= {
        "margin": {"l": left, "r": right, "t": top, "b": bottom},
        "plot_bgcolor": HIDDEN,
        "coloraxis": _coloraxis(values, stage, size),
        "xaxis": _token_axis(key_tokens, [0, 1], "y", label_size, labelled),
        "yaxis": _token_axis(query_tokens, [0, 1], "x", label_size, labelled, queries_axis=True),
    }
    layout["xaxis"]["title"] = {"text": "key: what is looked at", "standoff": 6}
    layout["yaxis"]["title"] = {"text": "query: who looks", "standoff": 6}
    if title:
        layout["title"] = {"text": escape(title), "x": 0.5, "font": {"size": size.font}}
    if gaps.any():
        layout["images"] = [hatch("", queries, keys)]
    return {"data": [trace], "layout": layout}


class _Grid(NamedTuple):
    """Where the maps stand: one (x domain, y domain) for each, and what fits around them."""

    domains: list[tuple[list[float], list[float]]]
    margin: dict[str, int]
    height: int
    label_size: int
    labelled: bool
    bottom_left: str


def _grid(
    shape: tuple[int, ...], columns: int | None, width: int, height: int | None, size: Sizes
) -> _Grid:
    heads, queries, keys = shape
    margin = {"l": 3 * size.font, "r": 8, "t": 2 * size.font}
    margin["b"] = round(2.5 * size.small) + _bar_height(size)
    between, above = 2 * size.small, 2 * size.font + size.small
    across = max(width - margin["l"] - margin["r"], 200)

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

    down = 0.0 if height is None else max(height - margin["t"] - margin["b"], 40)
    if columns is None:
        columns = MAX_COLUMNS if height is None else max(range(1, heads + 1), key=pitch)
    columns = min(columns, heads)
    rows = -(-heads // columns)
    wide, high, cell = slot(columns), tall(columns), pitch(columns)
    if height is None:
        down = rows * high + (rows - 1) * above
        height = round(down + margin["t"] + margin["b"])
    row_step = high if rows == 1 else high + min(above, (down - rows * high) / (rows - 1))
    domains = []
    for head in range(heads):
        row, column = divmod(head, columns)
        x, y = column * (wide + between) / across, 1 - row * row_step / down
        right, bottom = x + wide / across, y - high / down
        domains.append(([x, min(right, 1)], [max(bottom, 0), y]))
    return _Grid(
        domains,
        margin,
        height,
        label_size=int(min(size.small, max(cell * 0.9, 7))),
        labelled=cell >= 6.5,
        bottom_left="" if rows == 1 else str((rows - 1) * columns + 1),
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


def _coloraxis(values: np.ndarray, stage: str, size: Sizes) -> dict[str, Any]:
    bar = {
        "orientation": "h",
        "x": 0.5,
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
        "xpad": 0,
        "ypad": 2,
        "lenmode": "pixels",
        "len": 300,
        "thickness": 10,
        "outlinewidth": 0,
        "title": {"text": STAGES[stage], "side": "top", "font": {"size": size.small}},
        "tickfont": {"size": size.small},
    }
    if stage == "weights":
        bar["dtick"] = 0.25
        return {"colorscale": WEIGHTS_SCALE, "cmin": 0, "cmax": 1, "colorbar": bar}
    seen = values[np.isfinite(values)]
    limit = nice_limit(float(np.abs(seen).max())) if seen.size else 1.0
    bar["dtick"] = limit / 2
    return {"colorscale": SCORES_SCALE, "cmin": -limit, "cmax": limit, "colorbar": bar}


def _heatmap(matrix: np.ndarray, suffix: str, name: str) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "name": escape(name),
        "z": np.round(matrix.astype(np.float64), 4),
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "coloraxis": "coloraxis",
        "xgap": 0.5,
        "ygap": 0.5,
        "hovertemplate": "query %{y:d} “%{y}”<br>key %{x:d} “%{x}”<br><b>%{z:.4f}</b>",
        "hovertemplatefallback": "hidden by the mask",
    }


def _token_axis(
    tokens: Sequence[str],
    domain: list[float],
    partner: str,
    label_size: int,
    labelled: bool,
    queries_axis: bool = False,
) -> dict[str, Any]:
    count = len(tokens)
    axis = {
        "domain": domain,
        "anchor": partner,
        "range": [count - 0.5, -0.5] if queries_axis else [-0.5, count - 0.5],
        "labelalias": token_labels(tokens),
        "tick0": 0,
        "dtick": 1,
        "tickangle": 0,
        "tickfont": {"size": label_size},
        "showticklabels": labelled,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "constrain": "domain",
    }
    if queries_axis:
        axis |= {"scaleanchor": partner, "constraintoward": "top"}
    return axis


def _frame(suffix: str, size: Sizes) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix} domain",
        "x0": 0,
        "x1": 1,
        "y0": 0,
        "y1": 1,
        "line": {"color": TEXT, "width": size.line},
    }


def hatch(suffix: str, queries: int, keys: int) -> dict[str, Any]:
    """Stripes under the map, seen through the cells that the mask leaves empty."""
    stripe = max(queries, keys) / 24
    source = (
        "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' preserveAspectRatio='none' "
        f"viewBox='0 0 {keys} {queries}'><pattern id='h' width='{stripe:.3f}' height='{stripe:.3f}' "
        f"patternUnits='userSpaceOnUse'><path d='M0 {stripe:.3f}L{stripe:.3f} 0' stroke='gray' "
        f"stroke-opacity='.6' stroke-width='{stripe / 8:.3f}'/></pattern>"
        f"<rect width='{keys}' height='{queries}' fill='url(%23h)'/></svg>"
    )
    return {
        "source": source,
        "xref": f"x{suffix}",
        "yref": f"y{suffix}",
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
    text = f"Attention {STAGES[stage]} of {heads} head{'s' * (heads != 1)}, {queries} queries by {keys} keys."
    if gaps.any():
        text += f" The mask hides {int(gaps.sum()) // heads} cells of each map."
    if stage == "weights" and heads <= 8:
        seen = np.where(gaps, -1, values)
        for name, matrix in zip(names, seen, strict=True):
            query, key = np.unravel_index(int(matrix.argmax()), matrix.shape)
            text += (
                f" {name}: largest weight {matrix[query, key]:.2f}, from “{query_tokens[query]}” "
                f"(position {query}) to “{key_tokens[key]}” (position {key})."
            )
    return text
