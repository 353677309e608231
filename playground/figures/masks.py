"""Figures of the page about masks: the mask itself, what reaches what, one row, a padded batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.attention import hatch
from playground.figures.compare import dash
from playground.figures.panels import (
    domains,
    heading,
    suffix_of,
)
from playground.figures.style import (
    GRID,
    HIDDEN,
    MUTED,
    RUN_COLOURS,
    SCORES_SCALE,
    TEXT,
    WEIGHTS_SCALE,
    Figure,
    Sizes,
    base_layout,
    escape,
    finite,
    legend_below,
    nice_limit,
    run_colour,
    sizes,
    token_labels,
)

# Not the scale of the weights: a gradient is no share of anything.
REACH_SCALE = "Cividis"
DECADES = 3  # of gradients that are told apart by colour
EDITED = RUN_COLOURS[1]
FORWARD = RUN_COLOURS[0]
# From the page itself to orange: how much is wrong.
WRONG_SCALE = [[0.0, "rgba(213,94,0,0.05)"], [1.0, RUN_COLOURS[1]]]
MASK_TRACE, REACH_TRACE = 0, 1  # numbers of the two maps that take clicks


def mask_picture(
    seen: ArrayLike,
    gradient: ArrayLike,
    tokens: Sequence[str],
    *,
    edited: Sequence[tuple[int, int]] = (),
    output: int,
    key: int | None = None,
    height: int = 450,
    projector: bool = False,
) -> Figure:
    """Left the mask, in the middle what reaches what, right the ways into one output.

    Trace 0 is the mask and trace 1 the reach: a click on either tells query and key.

    Args:
        seen: bool [query, key].
        gradient: [levels, output, input], norms of the gradient of each output; exactly 0 where
            nothing gets through. Level 0 are the embeddings.
        tokens: what is printed along the axes.
        edited: cells (query, key) that somebody changed by hand.
        output: whose ways are drawn on the right.
        key: with `output`, the cell of the mask that is chosen.
    """
    seen, gradient = np.asarray(seen, dtype=bool), np.asarray(gradient, dtype=np.float64)
    size, count, reached = sizes(projector), len(tokens), gradient[0] > 0
    layout = base_layout(
        _mask_alt(seen, reached, edited, output), height, projector, f"mask {count}"
    )
    layout |= {
        "margin": {
            "l": 3 * size.font,
            "r": 8,
            "t": 2 * size.font,
            "b": round(4.2 * size.small) + 24,
        },
        "showlegend": False,
        "coloraxis": _decades(size),
        "annotations": [],
        "shapes": [_cell(query, key, "", EDITED, size.line) for query, key in edited],
        "images": [],
    }
    layout["shapes"].append(_row(output, count, "2", size.line))
    if key is not None:
        layout["shapes"].append(_cell(output, key, "", TEXT, size.thin, "dot"))
    titles = (
        "the mask: may query see key?",
        "measured: does input reach output?",
        f"the ways into output {output}",
    )
    for i, title in enumerate(titles):
        suffix, start = ("", "2", "3")[i], (0, 0.35, 0.71)[i]
        layout[f"xaxis{suffix}"] = _axis(tokens, f"y{suffix}", size, [start, start + 0.29])
        layout["annotations"].append(heading(title, suffix, size))
    for suffix, x, y in (("", "key", "query"), ("2", "input", "output")):
        layout[f"yaxis{suffix}"] = _axis(tokens, f"x{suffix}", size, [0, 1], downwards=True)
        layout[f"xaxis{suffix}"]["title"] = _title(x, size)
        layout[f"yaxis{suffix}"]["title"] = _title(y, size)
        layout["images"].append(hatch(suffix, count, count))
        layout["shapes"].append(_ground(count, suffix))
    levels = len(gradient)
    layout["yaxis3"] = {
        "anchor": "x3",
        "range": [-0.5, levels - 0.5],
        "tickvals": list(range(levels)),
        "ticktext": ["input", *(f"block {level}" for level in range(1, levels))],
        "tickfont": {"size": size.small},
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }
    layout["xaxis3"]["title"] = _title("place", size)
    data = [
        _mask_map(seen, edited, count, size),
        _reach_map(gradient[0], count),
        _answers(reached, size),
        *_ways(seen, gradient[:, output], size),
    ]
    return {"data": data, "layout": layout}


def _mask_map(seen: np.ndarray, edited, count: int, size: Sizes) -> dict[str, Any]:
    words = np.where(seen, "the mask adds 0: visible", "the mask adds −∞: hidden").astype(object)
    for query, key in edited:
        words[query, key] += ", by hand"
    return {
        "type": "heatmap",
        "name": "mask",
        "z": np.where(seen, 1.0, np.nan),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, run_colour(0)], [1, run_colour(0)]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "text": words.tolist(),
        "hovertemplate": "query %{y:d} “%{y}”<br>key %{x:d} “%{x}”<br><b>%{text}</b><br>click to change it<extra></extra>",
    }


def _reach_map(gradient: np.ndarray, count: int) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "name": "reach",
        "z": _shares(gradient),
        "customdata": np.round(gradient, 6).tolist(),
        "coloraxis": "coloraxis",
        "xgap": 1,
        "ygap": 1,
        "xaxis": "x2",
        "yaxis": "y2",
        "hovertemplate": "output %{y:d} “%{y}”<br>input %{x:d} “%{x}”<br><b>gradient %{customdata:.3g}</b><extra></extra>",
    }


def _answers(reached: np.ndarray, size: Sizes) -> dict[str, Any]:
    """A ring on each cell in which an output is reached by the token that it is to predict."""
    leaks = [i for i in range(len(reached) - 1) if reached[i, i + 1]]
    return {
        "type": "scatter",
        "name": "the answer",
        "mode": "markers",
        "xaxis": "x2",
        "yaxis": "y2",
        "x": [i + 1 for i in leaks],
        "y": leaks,
        "hoverinfo": "skip",
        "marker": {
            "symbol": "circle-open",
            "color": EDITED,
            "size": size.marker + 4,
            "line": {"width": size.line},
        },
    }


def _ways(seen: np.ndarray, gradient: np.ndarray, size: Sizes) -> list[dict[str, Any]]:
    """The network that leads into one output: gradient is [levels, place]."""
    levels = len(gradient)
    looks, stays = ([], []), ([], [])
    for level in range(1, levels):
        for place in np.flatnonzero(gradient[level]):
            stays[0].extend((place, place, None))
            stays[1].extend((level - 1, level, None))
            for other in np.flatnonzero(seen[place]):
                if other != place:
                    looks[0].extend((other, place, None))
                    looks[1].extend((level - 1, level, None))
    level, place = np.indices(gradient.shape)
    some = gradient > 0
    shares = np.stack([_shares(row) for row in gradient])
    places = {"type": "scatter", "mode": "markers", "xaxis": "x3", "yaxis": "y3"}
    line = {"type": "scatter", "mode": "lines", "xaxis": "x3", "yaxis": "y3", "hoverinfo": "skip"}
    return [
        line
        | {
            "name": "attention",
            "x": _plain(looks[0]),
            "y": _plain(looks[1]),
            "line": {"color": MUTED, "width": size.thin},
        },
        line
        | {
            "name": "the way around",
            "x": _plain(stays[0]),
            "y": _plain(stays[1]),
            "line": {"color": FORWARD, "width": size.line},
        },
        places
        | {
            "name": "nothing gets through",
            "x": place[~some].tolist(),
            "y": level[~some].tolist(),
            "marker": {"symbol": "circle-open", "size": size.marker, "color": MUTED},
            "hovertemplate": "place %{x:d}: gradient exactly 0<extra></extra>",
        },
        places
        | {
            "name": "reached",
            "x": place[some].tolist(),
            "y": level[some].tolist(),
            "customdata": gradient[some].tolist(),
            "marker": {
                "size": size.marker + 5,
                "color": shares[some].tolist(),
                "coloraxis": "coloraxis",
                "line": {"width": 1, "color": TEXT},
            },
            "hovertemplate": "place %{x:d}: gradient %{customdata:.3g}<extra></extra>",
        },
    ]


def _plain(values: Sequence[Any]) -> list[int | None]:
    return [None if value is None else int(value) for value in values]


def _shares(gradient: np.ndarray) -> np.ndarray:
    """Powers of ten below the largest; nan, a gap, where it is exactly 0."""
    largest = gradient.max(initial=0.0) or 1.0
    shares = np.full(gradient.shape, np.nan)
    some = gradient > 0
    shares[some] = np.round(np.maximum(np.log10(gradient[some] / largest), -DECADES), 3)
    return shares


def _decades(size: Sizes) -> dict[str, Any]:
    marks = list(range(-DECADES, 1))
    bar = {
        "orientation": "h",
        "x": 0.67,
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
        "xpad": 0,
        "ypad": 2,
        "lenmode": "pixels",
        "len": 300,
        "thickness": 10,
        "outlinewidth": 0,
        "tickvals": marks,
        "ticktext": ["≤ 0.001", "0.01", "0.1", "1"],
        "tickfont": {"size": size.small},
        "title": {
            "text": "gradient, as a share of the largest",
            "side": "top",
            "font": {"size": size.small},
        },
    }
    return {"colorscale": REACH_SCALE, "cmin": -DECADES, "cmax": 0, "colorbar": bar}


def _mask_alt(seen: np.ndarray, reached: np.ndarray, edited, output: int) -> str:
    later = int(np.triu(reached, 1).sum())
    return (
        f"The mask shows {int(seen.sum())} of {seen.size} cells, {len(edited)} changed by hand. "
        f"Through all blocks {int(reached.sum())} pairs of output and input have a gradient, "
        f"{later} of them from a later token. Output {output} is reached by "
        f"{int(reached[output].sum())} tokens."
    )


# --- one row ---------------------------------------------------------------------------------


def row_picture(
    rows: Sequence[tuple[str, ArrayLike, str]],
    tokens: Sequence[str],
    *,
    query: int,
    height: int = 250,
    projector: bool = False,
) -> Figure:
    """One query's row of the formula, a line for each step, numbers printed.

    Args:
        rows: (title, [key] numbers, kind) from top to bottom; kind is "scores" or "weights".
        query: whose row.
    """
    size, count = sizes(projector), len(tokens)
    said = "; ".join(
        f"{title}: {', '.join(_number(v) for v in np.asarray(values))}" for title, values, _ in rows
    )
    layout = base_layout(f"Query {query}. {said}.", height, projector, f"row {count}")
    layout |= {
        "margin": {"l": 11 * size.font, "r": 8, "t": 4, "b": 2 * size.font},
        "plot_bgcolor": HIDDEN,
        "showlegend": False,
    }
    data, down = [], domains(len(rows), gap=0.05)[::-1]
    for i, (title, values, kind) in enumerate(rows):
        suffix = suffix_of(i)
        values = np.asarray(values, dtype=np.float64)
        shown = np.clip(values, -1e30, 1e30)
        limit = nice_limit(float(np.abs(shown[shown > -1e4]).max(initial=0.0)))
        scale = (
            {"colorscale": WEIGHTS_SCALE, "zmin": 0, "zmax": 1}
            if kind == "weights"
            else {"colorscale": SCORES_SCALE, "zmin": -limit, "zmax": limit}
        )
        data.append(
            {
                "type": "heatmap",
                "z": [np.where(shown < -1e4, np.nan, shown).tolist()],
                "x": list(range(count)),
                "y": [0],
                "text": [[_number(value) for value in values]],
                "texttemplate": "%{text}",
                "showscale": False,
                "textfont": {"size": size.font},
                "xgap": 1,
                "xaxis": f"x{suffix}",
                "yaxis": f"y{suffix}",
                "name": escape(title),
                "hovertemplate": "key %{x:d}: %{text}<extra></extra>",
                "hoverongaps": False,
            }
            | scale
        )
        last = i == len(rows) - 1
        layout[f"xaxis{suffix}"] = {
            "anchor": f"y{suffix}",
            "range": [-0.5, count - 0.5],
            "labelalias": token_labels(tokens),
            "tick0": 0,
            "dtick": 1,
            "tickangle": 0,
            "ticks": "",
            "showticklabels": last,
            "showgrid": False,
            "zeroline": False,
            "tickfont": {"size": size.font},
        }
        layout[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}",
            "domain": down[i],
            "tickvals": [0],
            "ticktext": [escape(title)],
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
            "tickfont": {"size": size.font},
            "fixedrange": True,
        }
    # Numbers that no colour fits: what the mask pushes out of sight.
    layout["annotations"] = [
        {
            "text": "−∞",
            "x": key,
            "y": 0,
            "xref": f"x{suffix_of(i)}",
            "yref": f"y{suffix_of(i)}",
            "showarrow": False,
            "font": {"size": size.font, "color": MUTED},
        }
        for i, (_, values, _) in enumerate(rows)
        for key, value in enumerate(np.asarray(values))
        if value < -1e4
    ]
    return {"data": data, "layout": layout}


def _number(value: float) -> str:
    if value < -1e4:
        return "−∞"
    return "0" if value == 0 else f"{value:.2f}".replace("-", "−")


# --- windows, layers, padding ----------------------------------------------------------------


def window_chart(
    windows: Sequence[int],
    measured: Sequence[Sequence[int]],
    most: int,
    *,
    chosen: tuple[int, int] | None = None,
    width: int = 620,
    height: int = 330,
    projector: bool = False,
) -> Figure:
    """How many tokens reach one output, over the window, a line for each number of blocks.

    Args:
        measured: [window][blocks - 1].
        most: tokens there are.
        chosen: window and number of blocks to mark.
    """
    size, counts = sizes(projector), np.asarray(measured)
    names = [f"{n + 1} block{'s' * (n > 0)}" for n in range(counts.shape[1])]
    ends = ", ".join(f"{name} {row[-1]}" for name, row in zip(names, counts.T, strict=True))
    layout = base_layout(
        f"Tokens that reach the last of {most} outputs; at a window of {windows[-1]}: {ends}.",
        height,
        projector,
        "window",
    )
    layout |= legend_below([[name] for name in (*names, "n·(w − 1) + 1")], width, projector)
    layout["margin"] |= {"t": 12, "b": layout["margin"]["b"] + 2 * size.font, "l": 4 * size.font}
    layout |= {
        "xaxis": {
            "title": {"text": "window w", "standoff": 6},
            "tickvals": list(windows),
            "gridcolor": GRID,
            "zeroline": False,
        },
        "yaxis": {
            "title": {"text": "tokens that reach it"},
            "range": [0, most + 0.8],
            "gridcolor": GRID,
            "zeroline": False,
            "fixedrange": True,
        },
    }
    data = []
    for n, name in enumerate(names):
        theory = [min((n + 1) * (w - 1) + 1, most) for w in windows]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": list(windows),
                "y": theory,
                "line": {"color": MUTED, "width": size.thin, "dash": "dot"},
                "name": "n·(w − 1) + 1",
                "showlegend": n == 0,
                "hoverinfo": "skip",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": list(windows),
                "y": counts[:, n].tolist(),
                "name": name,
                "line": {"color": run_colour(n), "width": size.line, "dash": dash(n)},
                "marker": {"size": size.marker},
                "hovertemplate": "window %{x}: %{y} tokens<extra>" + name + "</extra>",
            }
        )
    if chosen is not None:
        w, n = chosen
        at = int(counts[list(windows).index(w), n - 1])
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [w],
                "y": [at],
                "showlegend": False,
                "hoverinfo": "skip",
                "marker": {
                    "symbol": "circle-open",
                    "size": 2 * size.marker + 4,
                    "color": TEXT,
                    "line": {"width": size.line},
                },
            }
        )
    return {"data": data, "layout": layout}


def padded_picture(
    parts: Sequence[tuple[str, Sequence[Sequence[str]], ArrayLike]],
    *,
    height: int = 380,
    projector: bool = False,
) -> Figure:
    """Padded batches against their sequences alone: a map for each, two in a row.

    Args:
        parts: (title, [sequence][place] tokens, [sequence, place] largest |difference| of a
            logit, nan at padding).
    """
    size = sizes(projector)
    tables = [np.asarray(values, dtype=np.float64) for *_, values in parts]
    limit = nice_limit(max((float(np.nanmax(table)) for table in tables), default=0.0))
    alt = "; ".join(f"{title}: {largest(values)}" for title, _, values in parts)
    layout = base_layout(f"Largest difference of a logit. {alt}.", height, projector, "padded")
    layout |= {
        "margin": {"l": 5 * size.font, "r": 8, "t": 2 * size.font, "b": 8},
        "showlegend": False,
        "annotations": [],
    }
    data, down = [], domains(-(-len(parts) // 2), gap=0.24)[::-1]
    for i, ((title, tokens, _), table) in enumerate(zip(parts, tables, strict=True)):
        suffix, (row, column) = suffix_of(i), divmod(i, 2)
        sequences, places = table.shape
        start = 0.52 * column
        layout[f"xaxis{suffix}"] = {
            "domain": [start, start + 0.48],
            "anchor": f"y{suffix}",
            "range": [-0.5, places - 0.5],
            "visible": False,
        }
        layout[f"yaxis{suffix}"] = {
            "domain": down[row],
            "anchor": f"x{suffix}",
            "range": [sequences - 0.5, -0.5],
            "tickvals": list(range(sequences)),
            "ticktext": [f"row {n + 1}" for n in range(sequences)],
            "showticklabels": column == 0,
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        }
        layout["annotations"].append(heading(f"{title}: {largest(table)}", suffix, size))
        padding = np.isnan(table)
        names = np.vectorize(escape, otypes=[object])(np.asarray(tokens, dtype=object))
        common = {
            "type": "heatmap",
            "showscale": False,
            "xgap": 1,
            "ygap": 1,
            "xaxis": f"x{suffix}",
            "yaxis": f"y{suffix}",
            "text": names.tolist(),
            "texttemplate": "%{text}",
            "textfont": {"size": size.font, "color": TEXT},
            "hoverongaps": False,
        }
        data += [
            common
            | {
                "name": escape(title),
                "z": finite(table),
                "zmin": 0,
                "zmax": limit,
                "colorscale": WRONG_SCALE,
                "hovertemplate": "%{y}, place %{x}, “%{text}”: %{z:.2g}<extra></extra>",
            },
            common
            | {
                "name": "padding",
                "z": np.where(padding, 1.0, np.nan),
                "zmin": 0,
                "zmax": 1,
                "colorscale": [[0, HIDDEN], [1, HIDDEN]],
                "hovertemplate": "padding<extra></extra>",
            },
        ]
    return {"data": data, "layout": layout}


def largest(table: ArrayLike, rounding: float = 1e-5) -> str:
    """The largest difference in words: exactly 0, rounding, or a difference."""
    value = float(np.nanmax(np.asarray(table, dtype=np.float64)))
    if value == 0:
        return "exactly the same"
    return f"differs by {value:.1g}: rounding" if value < rounding else f"differs by {value:.2f}"


# --- what they share -------------------------------------------------------------------------


def _axis(
    tokens: Sequence[str], partner: str, size: Sizes, domain: list[float], downwards: bool = False
) -> dict[str, Any]:
    count = len(tokens)
    axis = {
        "domain": domain,
        "anchor": partner,
        "range": [count - 0.5, -0.5] if downwards else [-0.5, count - 0.5],
        "labelalias": token_labels(tokens),
        "tick0": 0,
        "dtick": 1,
        "tickangle": 0,
        "tickfont": {"size": size.small},
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "constrain": "domain",
    }
    return axis | ({"scaleanchor": partner, "constraintoward": "top"} if downwards else {})


def _title(text: str, size: Sizes) -> dict[str, Any]:
    return {"text": text, "standoff": 4, "font": {"size": size.small}}


def _ground(count: int, suffix: str) -> dict[str, Any]:
    """What hidden cells stand on."""
    return {
        "type": "rect",
        "xref": f"x{suffix}",
        "yref": f"y{suffix}",
        "x0": -0.5,
        "x1": count - 0.5,
        "y0": -0.5,
        "y1": count - 0.5,
        "layer": "below",
        "fillcolor": HIDDEN,
        "line": {"width": 0},
    }


def _cell(
    query: int, key: int, suffix: str, colour: str, width: float, style: str = "solid"
) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": f"x{suffix}",
        "yref": f"y{suffix}",
        "x0": key - 0.46,
        "x1": key + 0.46,
        "y0": query - 0.46,
        "y1": query + 0.46,
        "line": {"color": colour, "width": width, "dash": style},
    }


def _row(query: int, count: int, suffix: str, width: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": f"x{suffix}",
        "yref": f"y{suffix}",
        "x0": -0.5,
        "x1": count - 0.5,
        "y0": query - 0.5,
        "y1": query + 0.5,
        "line": {"color": TEXT, "width": width},
    }
