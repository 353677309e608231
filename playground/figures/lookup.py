"""Figures of the page about the lookup: each stage of attention, where its output lies, a dictionary."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from plotly.colors import sample_colorscale

from playground.figures.attention import STAGES, attention_map, attention_maps
from playground.figures.panels import (
    domains,
    heading,
    suffix_of,
)
from playground.figures.style import (
    GRID,
    HIDDEN,
    MUTED,
    SCORES_SCALE,
    TEXT,
    WEIGHTS_SCALE,
    Figure,
    Sizes,
    base_layout,
    escape,
    finite,
    nice_limit,
    run_colour,
    sizes,
)

CHOSEN = run_colour(1)  # frames the row of the query and the cell of the key
PRINTED_COLUMNS = 8  # numbers are printed in the cells of matrices up to this width
FEW_COLUMNS = 4  # with two digits up to this width
MAP_END = 0.47  # share of the width that a map takes
WIDTH = 1250  # pixels that the figures will about have
LEAST_AREA = 0.02  # a value of no weight is drawn as large as one of this weight


# --- the sentence ---------------------------------------------------------------------------


def weight_colour(weight: float) -> tuple[int, int, int]:
    """Red, green and blue of a weight from 0 to 1, as in the maps."""
    shown = min(max(weight, 0.0), 1.0)
    (colour,) = sample_colorscale(WEIGHTS_SCALE, [shown], colortype="tuple")
    red, green, blue = (round(255 * part) for part in colour)
    return red, green, blue


def letters_on(colour: tuple[int, int, int]) -> str:
    """White or black, whichever is easier to read on a colour (WCAG 2.1, relative luminance)."""
    linear = [((c / 255 + 0.055) / 1.055) ** 2.4 if c > 10 else c / 255 / 12.92 for c in colour]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"


def sentence_line(
    words: Sequence[str], weights: Sequence[float], hidden: Sequence[bool], query: int
) -> str:
    """HTML of the sentence: each word on the colour of its weight, the weight below it.

    Args:
        weights: of one query, one for each word.
        hidden: words that the mask hides from it; they have stripes instead of a colour.
        query: the word that looks; underlined.
    """
    boxes = []
    for i, (word, weight, gone) in enumerate(zip(words, weights, hidden, strict=True)):
        colour = weight_colour(weight)
        back = (
            "background: repeating-linear-gradient(135deg, rgba(128,128,128,.35) 0 2px, transparent 2px 8px); border: 1px dashed gray"
            if gone
            else f"background: rgb{colour}; color: {letters_on(colour)}; border: 1px solid rgba(128,128,128,.6)"
        )
        line = (
            f"; text-decoration: underline {CHOSEN} 0.18em; text-underline-offset: 0.2em; font-weight: 700"
            if i == query
            else ""
        )
        boxes.append(
            '<span style="display: inline-block; text-align: center; margin: 0 0.12rem 0.1rem">'
            f'<span style="display: block; padding: 0.05rem 0.5rem; border-radius: 0.4rem; font-size: 1.15rem; {back}{line}">{html.escape(word)}</span>'
            f'<small style="font-variant-numeric: tabular-nums">{"hidden" if gone else f"{weight:.2f}"}</small></span>'
        )
    return (
        f'<div data-query="{query}" style="line-height: 1.5" aria-label="the sentence, each word '
        f'with its weight">{"".join(boxes)}</div>'
    )


# --- vectors --------------------------------------------------------------------------------


def vectors_picture(
    panels: Mapping[str, ArrayLike],
    words: Sequence[str],
    *,
    marks: Mapping[str, int],
    signs: Sequence[str] = (),
    height: int = 345,
    projector: bool = False,
) -> Figure:
    """Matrices of one vector a word, side by side, on one scale of colours.

    Args:
        panels: title -> [word, dimension].
        marks: title -> the row to frame.
        signs: what stands between the panels, "+" and "=".
    """
    size = sizes(projector)
    matrices = {title: np.asarray(m, dtype=np.float64) for title, m in panels.items()}
    limit = nice_limit(max(float(np.abs(m).max()) for m in matrices.values()))
    said = [
        f"{title}: {len(m)} words by {m.shape[1]} numbers, from {m.min():.2f} to {m.max():.2f}."
        for title, m in matrices.items()
    ]
    layout = base_layout(" ".join(said), height, projector, f"vectors {' '.join(panels)}")
    gap = 0.04
    across = domains(len(panels), gap)
    margin = {
        "l": _label_room(words, size),
        "r": 12,
        "t": 2 * size.font + 4,
        "b": 2 * size.small + 50,
    }
    letters = _fitting(height - margin["t"] - margin["b"], len(words), size)
    layout |= {
        "margin": margin,
        "coloraxis": _signed_colours(limit, size, 0.5),
        "annotations": [],
        "shapes": [],
    }
    data = []
    for i, (title, matrix) in enumerate(matrices.items()):
        suffix, (start, end) = suffix_of(i), across[i]
        columns = matrix.shape[1]
        column = (end - start) * (WIDTH - margin["l"]) / columns
        data.append(_matrix(matrix, suffix, title, min(letters, int(column / 2.8))))
        layout[f"xaxis{suffix}"] = {
            "domain": [start, end],
            "anchor": f"y{suffix}",
            "range": [-0.5, columns - 0.5],
            "tickvals": list(range(columns)) if columns <= 16 else list(range(0, columns, 8)),
            "ticktext": [str(d + 1) for d in range(0, columns, 1 if columns <= 16 else 8)],
            "tickfont": {"size": size.small},
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "title": {"text": "dimension", "standoff": 2, "font": {"size": size.small}},
        }
        layout[f"yaxis{suffix}"] = _word_axis(words, f"x{suffix}", letters) | {
            "showticklabels": i == 0
        }
        layout["annotations"].append(heading(title, suffix, size))
        if title in marks:
            layout["shapes"].append(_frame(-0.5, columns - 0.5, marks[title], suffix, size.line))
        if i < len(signs):
            layout["annotations"].append(
                {
                    "text": f"<b>{signs[i]}</b>",
                    "xref": "paper",
                    "yref": "paper",
                    "x": end + gap / 2,
                    "y": 0.5,
                    "showarrow": False,
                    "font": {"size": 2 * size.font},
                }
            )
    return {"data": data, "layout": layout}


def _matrix(matrix: np.ndarray, suffix: str, title: str, letters: int) -> dict[str, Any]:
    trace = {
        "type": "heatmap",
        "z": np.round(matrix, 4),
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "name": escape(title),
        "coloraxis": "coloraxis",
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{y}<br><b>%{z:.4f}</b>",
    }
    if (columns := matrix.shape[1]) <= PRINTED_COLUMNS:
        digits = 2 if columns <= FEW_COLUMNS else 1
        trace |= {"texttemplate": f"%{{z:.{digits}f}}", "textfont": {"size": letters}}
    return trace


# --- every query with every key -------------------------------------------------------------


@dataclass(frozen=True)
class Bars:
    """What stands beside a map: one bar a line, from the top down; NaN is no bar."""

    heading: str
    labels: Sequence[str]
    values: Sequence[float]
    texts: Sequence[str]  # at the end of each bar
    marked: int | None = None  # the line of the chosen key, or of a sum
    before: Sequence[float] | None = None  # what the values were, as outlines


def map_picture(
    matrix: ArrayLike,
    words: Sequence[str],
    bars: Bars,
    *,
    stage: str,
    hidden: ArrayLike,
    query: int,
    key: int,
    height: int = 345,
    projector: bool = False,
) -> Figure:
    """Left every query with every key, the chosen row and cell framed; right one row as bars.

    Trace 0 is the map, so a click on it is a cell. The weights have the sum of each row beside them.

    Args:
        matrix: [query, key], of this stage of `STAGES`.
        hidden: bool [query, key], what the mask hides.
    """
    size, values = sizes(projector), np.asarray(matrix, dtype=np.float64)
    figure = attention_map(
        values, words, words, stage=stage, hidden=hidden, height=height, projector=projector
    )
    data, layout = figure["data"], figure["layout"]
    layout["meta"]["alt"] += (
        f" Chosen: query “{words[query]}” (position {query}), key “{words[key]}” (position {key}). {bars.heading}."
    )
    layout["margin"] |= {
        "l": _label_room(words, size) + size.font,
        "t": 2 * size.font + 4,
        "r": 3 * size.font,
        "b": 3 * size.font + size.small + 32,
    }
    # The stripes alone show what is hidden: a background would lie behind the bars as well.
    layout["plot_bgcolor"] = "rgba(0,0,0,0)"
    layout["xaxis"] |= {"domain": [0, MAP_END]}
    layout["xaxis"].pop("constrain")
    for unwanted in ("scaleanchor", "constraintoward", "constrain"):  # words are wider than tall
        layout["yaxis"].pop(unwanted)
    letters = _fitting(height - layout["margin"]["t"] - layout["margin"]["b"], len(words), size)
    column = MAP_END * (WIDTH - layout["margin"]["l"] - layout["margin"]["r"]) / len(words)
    beside = int(column / (0.6 * max(map(len, words))))  # letters of words side by side
    layout["xaxis"] |= {
        "tickfont": {"size": max(9, min(letters, beside))},
        "tickangle": 0 if beside > 8 else 30,
    }
    layout["yaxis"]["tickfont"] = {"size": letters}
    if beside <= 8:  # the slanted words need the room of the title
        layout["xaxis"]["title"] = None
    layout["coloraxis"]["colorbar"] |= {"len": 260, "x": MAP_END / 2, "title": None}
    layout["annotations"] = [heading(STAGES[stage], "", size), heading(bars.heading, "2", size)]
    data[0]["hovertemplate"] = "“%{y}” looks at “%{x}”<br><b>%{z:.4f}</b><extra></extra>"
    data[0]["textfont"] = {"size": min(letters, int(column / 3.2))}
    layout["shapes"] = [
        _frame(-0.5, len(words) - 0.5, query, "", size.line),
        _frame(key - 0.5, key + 0.5, query, "", 2 * size.line),
    ]
    if stage == "weights":
        sums = np.where(np.asarray(hidden), 0, values).sum(1)
        layout["annotations"] += [
            {
                "text": f"Σ {total:.2f}",
                "xref": "x",
                "yref": "y",
                "x": len(words) - 0.5,
                "y": row,
                "xanchor": "left",
                "xshift": 4,
                "showarrow": False,
                "font": {"size": size.small, "color": TEXT if row == query else MUTED},
            }
            for row, total in enumerate(sums)
        ]
    data += _bars(bars, letters)
    layout |= _bar_axes(bars, stage == "weights", letters)
    return figure


def _bars(bars: Bars, letters: int) -> list[dict[str, Any]]:
    lines = list(range(len(bars.values)))
    shared = {
        "type": "bar",
        "orientation": "h",
        "y": lines,
        "xaxis": "x2",
        "yaxis": "y2",
        "cliponaxis": False,
    }
    drawn = shared | {
        "name": "bars",
        "x": finite(bars.values),
        "width": 0.6 if bars.before is None else 0.45,
        "marker": {
            "color": finite(np.nan_to_num(np.array(bars.values, dtype=float))),
            "coloraxis": "coloraxis",
            "line": {"width": 1, "color": MUTED},
        },
        "text": [escape(text) for text in bars.texts],
        "textposition": "outside",
        "textfont": {"size": letters},
        "constraintext": "none",
        "hoverinfo": "skip",
    }
    if bars.before is None:
        return [drawn]
    outline = shared | {
        "name": "before",
        "x": finite(bars.before),
        "width": 0.8,
        "hoverinfo": "skip",
        "marker": {"color": HIDDEN, "line": {"width": 1, "color": MUTED}},
    }
    return [outline, drawn]


def _bar_axes(bars: Bars, from_zero: bool, letters: int) -> dict[str, Any]:
    every = [*bars.values, *(bars.before or ())]
    reach = max((abs(v) for v in every if math.isfinite(v)), default=0.0) or 1.0
    labels = [escape(label) for label in bars.labels]
    start = MAP_END + 0.07 + max(map(len, bars.labels)) * 0.56 * letters / WIDTH
    if bars.marked is not None:
        labels[bars.marked] = f"<b>{labels[bars.marked]}</b>"
    return {
        "barmode": "overlay",
        "showlegend": False,
        "xaxis2": {
            "domain": [min(max(start, 0.66), 0.85), 1],
            "anchor": "y2",
            "range": [0, 1.18] if from_zero else [-1.4 * reach, 1.4 * reach],
            "showticklabels": False,
            "gridcolor": GRID,
            "zeroline": True,
            "fixedrange": True,
        },
        "yaxis2": {
            "anchor": "x2",
            "range": [len(labels) - 0.5, -0.5],
            "tickvals": list(range(len(labels))),
            "ticktext": labels,
            "tickfont": {"size": letters},
            "ticklabelstandoff": 6,
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "fixedrange": True,
        },
    }


# --- the output -----------------------------------------------------------------------------


def output_picture(
    values: ArrayLike,
    weights: Sequence[float],
    z: Sequence[float],
    words: Sequence[str],
    hidden: Sequence[bool],
    *,
    points: ArrayLike,
    at: Sequence[float],
    axes: tuple[str, str],
    outline: Sequence[int],
    height: int = 345,
    projector: bool = False,
) -> Figure:
    """Left each value times its weight, and their sum z; right z among the values, seen flat.

    Args:
        values: [key, d_head].
        weights: of one query.
        hidden: keys that it does not see.
        points: [key, 2], the values in two dimensions; `at` is z there.
        axes: what the two dimensions are.
        outline: corners of the convex hull of the visible points, in order.
    """
    size, gone = sizes(projector), np.asarray(hidden, dtype=bool)
    weights, flat = np.asarray(weights, dtype=np.float64), np.asarray(points, dtype=np.float64)
    parts = weights[:, None] * np.asarray(values, dtype=np.float64)
    parts[gone] = np.nan
    z, count = np.asarray(z, dtype=np.float64), len(words)
    limit = nice_limit(float(np.nanmax(np.abs(np.vstack([parts, z])))))
    layout = base_layout(
        f"The output of the query is the sum of {count - int(gone.sum())} values times their "
        f"weights: {', '.join(f'{w:.2f} {word}' for w, word, g in zip(weights, words, gone, strict=True) if not g)}. "
        "It lies inside the hull of the values.",
        height,
        projector,
        "output",
    )
    labels = [
        f"v({escape(word)}): hidden" if g else f"{w:.2f} × v({escape(word)})"
        for w, word, g in zip(weights, words, gone, strict=True)
    ]
    margin = {
        "l": _label_room(labels, size),
        "r": 12,
        "t": 2 * size.font + 4,
        "b": 2 * size.small + 50,
    }
    letters = _fitting(height - margin["t"] - margin["b"], count + 1.5, size)
    layout |= {
        "margin": margin,
        "showlegend": False,
        "coloraxis": _signed_colours(limit, size, MAP_END / 2),
        "coloraxis2": {"colorscale": WEIGHTS_SCALE, "cmin": 0, "cmax": 1, "showscale": False},
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {
            "domain": [0, MAP_END],
            "range": [-0.5, len(z) - 0.5],
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "tickvals": list(range(0, len(z), max(1, len(z) // 8))),
            "ticktext": [str(d + 1) for d in range(0, len(z), max(1, len(z) // 8))],
            "tickfont": {"size": size.small},
            "title": {"text": "dimension", "standoff": 2, "font": {"size": size.small}},
        },
        "yaxis": {
            "range": [count + 1, -0.5],
            "tickvals": [*range(count), count + 0.4],
            "ticktext": [*labels, "<b>sum = z</b>"],
            "tickfont": {"size": letters},
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
        },
        "xaxis2": _flat_axis(flat[:, 0], axes[0], size) | {"domain": [0.58, 1], "anchor": "y2"},
        "yaxis2": _flat_axis(flat[:, 1], axes[1], size) | {"anchor": "x2"},
        "annotations": [
            heading("weight × value", "", size),
            heading("z among the values", "2", size),
        ],
        "shapes": [
            *(
                {
                    "type": "rect",
                    "xref": "x",
                    "yref": "y",
                    "x0": -0.5,
                    "x1": len(z) - 0.5,
                    "y0": row - 0.5,
                    "y1": row + 0.5,
                    "fillcolor": HIDDEN,
                    "line": {"width": 0},
                    "layer": "below",
                }
                for row in np.flatnonzero(gone).tolist()
            ),
            _frame(-0.5, len(z) - 0.5, count + 0.4, "", size.line),
        ],
    }
    rows = _matrix(parts, "", "weight × value", letters)
    last = _matrix(z[None], "", "z", letters) | {"y": [count + 0.4], "dy": 1}
    corners = [*outline, outline[0]]
    data = [
        rows | {"hoverongaps": False, "texttemplatefallback": ""},
        last,
        {
            "type": "scatter",
            "name": "hull",
            "x": finite(flat[corners, 0]),
            "y": finite(flat[corners, 1]),
            "xaxis": "x2",
            "yaxis": "y2",
            "mode": "lines",
            "fill": "toself",
            "fillcolor": HIDDEN,
            "opacity": 0.7,
            "line": {"color": MUTED, "width": size.thin},
            "hoverinfo": "skip",
        },
        *_values(flat, weights, words, gone, size),
        {
            "type": "scatter",
            "name": "z",
            "x": [float(at[0])],
            "y": [float(at[1])],
            "xaxis": "x2",
            "yaxis": "y2",
            "mode": "markers+text",
            "text": ["<b>z</b>"],
            "textposition": "middle right",
            "textfont": {"size": size.font + 3, "color": CHOSEN},
            "marker": {
                "symbol": "diamond",
                "size": 2 * size.marker,
                "color": CHOSEN,
                "line": {"width": 1, "color": TEXT},
            },
            "hovertemplate": "z: (%{x:.3f}, %{y:.3f})<extra></extra>",
        },
    ]
    return {"data": data, "layout": layout}


def _values(
    flat: np.ndarray, weights: np.ndarray, words: Sequence[str], gone: np.ndarray, size: Sizes
) -> list[dict[str, Any]]:
    """The values as points, of an area in proportion to the weight; hidden ones as crosses."""
    shared = {
        "type": "scatter",
        "xaxis": "x2",
        "yaxis": "y2",
        "mode": "markers+text",
        "textposition": "top center",
        "textfont": {"size": size.small + 1},
    }
    seen, areas = np.flatnonzero(~gone), np.maximum(weights, LEAST_AREA)
    names = _shared_names(flat, words, gone)
    traces = [
        shared
        | {
            "name": "values",
            "x": finite(flat[seen, 0]),
            "y": finite(flat[seen, 1]),
            "text": [names[i] for i in seen],
            "customdata": [[escape(words[i]), float(weights[i])] for i in seen],
            "marker": {
                "size": [7 * size.marker * math.sqrt(areas[i]) for i in seen],
                "color": finite(weights[seen]),
                "coloraxis": "coloraxis2",
                "opacity": 0.9,
                "line": {"width": 1, "color": TEXT},
            },
            "hovertemplate": "v(%{customdata[0]}), weight %{customdata[1]:.3f}<extra></extra>",
        }
    ]
    if gone.any():
        out = np.flatnonzero(gone)
        traces.append(
            shared
            | {
                "name": "hidden",
                "x": finite(flat[out, 0]),
                "y": finite(flat[out, 1]),
                "text": [names[i] for i in out],
                "textfont": {"size": size.small, "color": MUTED},
                "marker": {
                    "symbol": "x-thin-open",
                    "size": size.marker + 2,
                    "color": MUTED,
                    "line": {"width": size.thin + 0.5},
                },
                "hovertemplate": "%{text}: hidden by the mask<extra></extra>",
            }
        )
    return traces


def _shared_names(flat: np.ndarray, words: Sequence[str], gone: np.ndarray) -> list[str]:
    """One label for each point; points on one spot share the first one's, and the others have none."""
    near = 1e-6 * max(float(np.ptp(flat, axis=0).max()), 1e-12)
    names = [""] * len(words)
    for i, word in enumerate(words):
        first = next(
            j
            for j in range(i + 1)
            if gone[j] == gone[i] and np.abs(flat[j] - flat[i]).max() <= near
        )
        names[first] += (" + " if names[first] else "") + escape(word)
    return names


def _flat_axis(values: np.ndarray, title: str, size: Sizes) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    room = 0.22 * (high - low) or 1.0
    return {
        "range": [low - room, high + room],
        "gridcolor": GRID,
        "zeroline": False,
        "tickfont": {"size": size.small},
        "title": {"text": title, "standoff": 4, "font": {"size": size.small}},
        "showticklabels": bool(title),
    }


# --- a dictionary by hand -------------------------------------------------------------------


def dictionary_picture(
    names: Sequence[str],
    angles: Sequence[float],
    values: Sequence[float],
    weights: Sequence[float],
    *,
    angle: float,
    length: float,
    result: float,
    mean: float,
    height: int = 345,
    projector: bool = False,
) -> Figure:
    """Left the keys and the query as arrows, in the middle the weights, right what comes out.

    A key, its weight and its value have one colour.

    Args:
        angles: of the keys, which have length 1, in degrees.
        angle, length: of the query; one longer than the picture is cut off and says so.
    """
    size, reach = sizes(projector), 1.65
    layout = base_layout(
        f"A query at {angle:g}° of length {length:g}. Weights: "
        + ", ".join(f"{name} {w:.2f}" for name, w in zip(names, weights, strict=True))
        + f". Result {result:.2f}; the mean of all values is {mean:.2f}.",
        height,
        projector,
        f"dictionary {len(names)}",
    )
    colours = [run_colour(i) for i in range(len(names))]
    drawn = min(length, 1.35)
    tag = f"length of the query {length:g}" + (", drawn shorter" if drawn < length else "")
    arrows = _arrow(
        angle, drawn, TEXT, "<b>query</b>", size, size.line * (2.5 if drawn > 0.6 else 1)
    )
    for a, colour, name in zip(angles, colours, names, strict=True):
        apart = (a - angle + 180) % 360 - 180
        aside = math.copysign(18, apart) if abs(apart) < 18 and drawn > 0.8 else 0
        arrows += _arrow(a, 1.0, colour, f"<b>{escape(name)}</b>", size, size.line + 1, aside)
    top = max(*values, mean)
    even = {"line": {"color": MUTED, "width": size.thin, "dash": "longdash"}, "type": "line"}
    layout |= {
        "margin": {"l": 8, "r": 12, "t": 2 * size.font + 4, "b": 3 * size.font},
        "showlegend": False,
        "xaxis": {
            "domain": [0, 0.3],
            "range": [-reach, reach],
            "visible": False,
            "fixedrange": True,
        },
        "yaxis": {
            "range": [-reach, reach],
            "visible": False,
            "fixedrange": True,
            "scaleanchor": "x",
        },
        "xaxis2": {
            "domain": [0.37, 0.64],
            "anchor": "y2",
            "tickvals": list(range(len(names))),
            "ticktext": [escape(name) for name in names],
            "tickfont": {"size": size.font},
            "fixedrange": True,
        },
        "yaxis2": {
            "anchor": "x2",
            "range": [0, 1.12],
            "tickvals": [0, 0.5, 1],
            "gridcolor": GRID,
            "zeroline": False,
            "fixedrange": True,
            "tickfont": {"size": size.small},
        },
        "xaxis3": {
            "domain": [0.72, 1],
            "anchor": "y3",
            "range": [-0.6, 1.2],
            "visible": False,
            "fixedrange": True,
        },
        "yaxis3": {
            "anchor": "x3",
            "range": [0, 1.15 * top],
            "gridcolor": GRID,
            "zeroline": False,
            "fixedrange": True,
            "tickfont": {"size": size.small},
        },
        "shapes": [
            {
                "type": "circle",
                "xref": "x",
                "yref": "y",
                "x0": -1,
                "y0": -1,
                "x1": 1,
                "y1": 1,
                "line": {"color": GRID, "width": size.thin},
            },
            even
            | {
                "xref": "x2 domain",
                "yref": "y2",
                "x0": 0,
                "x1": 1,
                "y0": 1 / len(names),
                "y1": 1 / len(names),
            },
            even | {"xref": "x3 domain", "yref": "y3", "x0": 0, "x1": 1, "y0": mean, "y1": mean},
        ],
        "annotations": [
            heading("keys and query", "", size),
            heading("weights", "2", size),
            heading("value", "3", size),
            *arrows,
            {
                "text": tag,
                "xref": "x domain",
                "yref": "paper",
                "x": 0.5,
                "y": 0,
                "yanchor": "top",
                "showarrow": False,
                "font": {"size": size.small, "color": MUTED},
            },
            {
                "text": "even",
                "xref": "x2 domain",
                "x": 1,
                "xanchor": "right",
                "yref": "y2",
                "y": 1 / len(names),
                "yanchor": "bottom",
                "showarrow": False,
                "font": {"size": size.small, "color": MUTED},
            },
            {
                "text": f"mean {mean:.2f}",
                "xref": "x3 domain",
                "x": 1,
                "xanchor": "right",
                "yref": "y3",
                "y": mean,
                "yanchor": "bottom" if result <= mean else "top",
                "showarrow": False,
                "font": {"size": size.small, "color": MUTED},
            },
        ],
    }
    data = [
        {
            "type": "bar",
            "name": "weights",
            "x": list(range(len(names))),
            "y": finite(weights),
            "xaxis": "x2",
            "yaxis": "y2",
            "marker": {"color": colours},
            "text": [f"{w:.2f}" for w in weights],
            "textposition": "outside",
            "cliponaxis": False,
            "textfont": {"size": size.font},
            "hovertemplate": "weight %{y:.4f}<extra></extra>",
        },
        {
            "type": "scatter",
            "name": "values",
            "x": [0] * len(names),
            "y": finite(values),
            "xaxis": "x3",
            "yaxis": "y3",
            "mode": "markers+text",
            "text": [
                f"{escape(name)} {value:g}" for name, value in zip(names, values, strict=True)
            ],
            "textposition": "middle left",
            "textfont": {"size": size.font},
            "marker": {
                "color": colours,
                "size": [6 * size.marker * math.sqrt(max(w, LEAST_AREA)) for w in weights],
            },
            "hovertemplate": "%{text}<extra></extra>",
        },
        {
            "type": "scatter",
            "name": "result",
            "x": [0, 0.62],
            "y": [result, result],
            "xaxis": "x3",
            "yaxis": "y3",
            "mode": "lines+markers+text",
            "text": ["", f"<b>{result:.2f}</b>"],
            "textposition": "middle right",
            "textfont": {"size": size.font + 6, "color": TEXT},
            "line": {"color": TEXT, "width": size.line},
            "marker": {"symbol": "diamond", "size": 1.4 * size.marker, "color": TEXT},
            "hoverinfo": "skip",
        },
    ]
    return {"data": data, "layout": layout}


def _arrow(
    degrees: float,
    length: float,
    colour: str,
    text: str,
    size: Sizes,
    width: float,
    aside: float = 0,
) -> list[dict[str, Any]]:
    """An arrow from the middle, and its name beyond its end, some degrees `aside`."""
    x, y = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    beyond, at = length + 0.22, math.radians(degrees + aside)
    shared = {"xref": "x", "yref": "y"}
    return [
        shared
        | {
            "x": length * x,
            "y": length * y,
            "axref": "x",
            "ayref": "y",
            "ax": 0,
            "ay": 0,
            "text": "",
            "showarrow": length > 0,
            "arrowhead": 2,
            "arrowsize": 0.9 if length > 0.6 else 0.7,
            "arrowwidth": width,
            "arrowcolor": colour,
        },
        shared
        | {
            "x": beyond * math.cos(at),
            "y": beyond * math.sin(at),
            "text": text,
            "showarrow": False,
            "font": {"color": colour, "size": size.font},
        },
    ]


# --- after training -------------------------------------------------------------------------


def found_picture(
    maps: Sequence[ArrayLike],
    titles: Sequence[str],
    tokens: Sequence[str],
    hidden: ArrayLike,
    *,
    value: int,
    height: int = 345,
    projector: bool = False,
) -> Figure:
    """Attention of trained models on one question: the row that asks, and the value to be found.

    Args:
        maps: [query, key] each.
        value: the key that holds the answer; the last query asks for it.
    """
    figure = attention_maps(
        np.stack([np.asarray(m, dtype=np.float32) for m in maps]),
        tokens,
        tokens,
        hidden=hidden,
        titles=titles,
        columns=len(maps),
        width=1250,
        height=height,
        projector=projector,
    )
    size, last = sizes(projector), len(tokens) - 1
    figure["layout"]["coloraxis"]["colorbar"]["title"] = None
    for i in range(len(maps)):
        suffix = suffix_of(i)
        figure["layout"]["shapes"] += [
            _frame(-0.5, last + 0.5, last, suffix, size.thin),
            _frame(value - 0.5, value + 0.5, last, suffix, size.line),
        ]
    return figure


# --- what they share ------------------------------------------------------------------------


def _signed_colours(limit: float, size: Sizes, x: float) -> dict[str, Any]:
    bar = {
        "orientation": "h",
        "x": x,
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
        "xpad": 0,
        "ypad": 2,
        "lenmode": "pixels",
        "len": 260,
        "thickness": 10,
        "outlinewidth": 0,
        "dtick": limit / 2,
        "tickfont": {"size": size.small},
    }
    return {"colorscale": SCORES_SCALE, "cmin": -limit, "cmax": limit, "colorbar": bar}


def _word_axis(words: Sequence[str], partner: str, letters: int) -> dict[str, Any]:
    return {
        "anchor": partner,
        "range": [len(words) - 0.5, -0.5],
        "tickvals": list(range(len(words))),
        "ticktext": [escape(word) for word in words],
        "tickfont": {"size": letters},
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
    }


def _fitting(room: float, lines: float, size: Sizes) -> int:
    """Pixels of letters, so that this many lines fit into the room."""
    return max(7, int(min(size.font, 0.8 * room / lines)))


def _label_room(labels: Sequence[str], size: Sizes) -> int:
    """Pixels to the left of an axis with these labels."""
    return round(max(map(len, labels)) * 0.56 * size.font) + 22


def _frame(left: float, right: float, row: float, suffix: str, width: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": f"x{suffix}",
        "yref": f"y{suffix}",
        "x0": left,
        "x1": right,
        "y0": row - 0.5,
        "y1": row + 0.5,
        "line": {"color": CHOSEN, "width": width},
    }
