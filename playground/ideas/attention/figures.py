"""Figures of the page about attention: its stages, its output, a dictionary by hand."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.attention import STAGES, attention_map, attention_maps, print_numbers
from playground.figures.style import Figure, Sizes

CHOSEN = style.run_colour(1)  # frames the row of the query and the cell of the key
PRINTED_COLUMNS = 8  # numbers are printed in the cells of matrices up to this width
FEW_COLUMNS = 4  # with two digits up to this width
MAP_END = 0.47  # share of the width that a map takes
WIDTH = 1250  # pixels, roughly, of a figure on a laptop
LEAST_AREA = 0.02  # smaller weights are drawn as large as this one


# --- the sentence ---------------------------------------------------------------------------

SEEN_WORD = "background: {}; color: {}; border: 1px solid rgba(128,128,128,.6)"
HIDDEN_WORD = (
    "background: repeating-linear-gradient(135deg, rgba(128,128,128,.35) 0 2px, transparent 2px "
    "8px); border: 1px dashed gray"
)
UNDERLINED = (
    f"; text-decoration: underline {CHOSEN} 0.18em; text-underline-offset: 0.2em; font-weight: 700"
)


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
        ground = style.colours_at(style.WEIGHTS_SCALE, weight)
        seen = SEEN_WORD.format(style.as_hex(ground), style.ink_on(ground))
        look = HIDDEN_WORD if gone else seen
        boxes.append(
            '<span style="display: inline-block; text-align: center; margin: 0 0.12rem 0.1rem">'
            '<span style="display: block; padding: 0.05rem 0.5rem; border-radius: 0.4rem; '
            f'font-size: 1.15rem; {look + UNDERLINED * (i == query)}">{html.escape(word)}</span>'
            '<small style="font-variant-numeric: tabular-nums">'
            f"{'hidden' if gone else f'{weight:.2f}'}</small></span>"
        )
    return (
        f'<div data-query="{query}" style="line-height: 1.5" aria-label="the sentence, each word '
        f'with its weight">{"".join(boxes)}</div>'
    )


# --- vectors --------------------------------------------------------------------------------


def vectors_picture(
    tables: Mapping[str, ArrayLike],
    words: Sequence[str],
    *,
    marks: Mapping[str, int],
    signs: Sequence[str] = (),
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Matrices with one row for each word, side by side, on one colour scale.

    Args:
        tables: title -> [word, dimension].
        marks: title -> the row to frame.
        signs: between the panels, "+" and "=".
    """
    gap = 0.04
    matrices = {title: np.asarray(m, dtype=np.float64) for title, m in tables.items()}
    limit = style.nice_limit(max(float(np.abs(m).max()) for m in matrices.values()))
    said = [
        f"{title}: {len(m)} words by {m.shape[1]} numbers, from {m.min():.2f} to {m.max():.2f}."
        for title, m in matrices.items()
    ]
    around, letters = _around(words, len(words), size)
    figure = panels.new_figure(
        " ".join(said),
        size,
        f"vectors {' '.join(tables)}",
        margin=around,
        coloraxis=_signed_colours(limit, size),
    )
    layout = figure["layout"]
    for i, ((title, matrix), across) in enumerate(
        zip(matrices.items(), panels.domains(len(tables), gap), strict=True)
    ):
        columns = matrix.shape[1]
        column = (across[1] - across[0]) * (WIDTH - around["l"]) / columns
        panels.add_panel(
            figure,
            i,
            _dimensions(columns, size, domain=across),
            panels.cell_axis(words, letters, downwards=True, showticklabels=i == 0),
            [_matrix(matrix, title, limit, min(letters, int(column / 2.8)))],
            title=title,
        )
        if title in marks:
            layout["shapes"].append(_framed(-0.5, columns - 0.5, marks[title], size.line, i))
        if i < len(signs):
            sign, between = f"<b>{signs[i]}</b>", across[1] + gap / 2
            paper = {"xref": "paper", "yref": "paper"}
            layout["annotations"].append(
                panels.annotation(sign, between, 0.5, size=2 * size.font, **paper)
            )
    return figure


def _dimensions(count: int, size: Sizes, **more: Any) -> dict[str, Any]:
    """Columns of numbers, counted from 1."""
    labels = [str(d + 1) for d in range(count)]
    title = {"text": "dimension", "standoff": 2, "font": {"size": size.small}}
    return panels.cell_axis(labels, size.small, title=title, dtick=1 if count <= 16 else 8, **more)


def _matrix(matrix: np.ndarray, title: str, limit: float, letters: int) -> dict[str, Any]:
    """Map of signed numbers, printed where there are few columns; colours reach to ±limit."""
    trace = panels.heatmap(np.round(matrix, 4), name=title, hover="%{y}<br><b>%{z:.4f}</b>")
    if (columns := matrix.shape[1]) <= PRINTED_COLUMNS:
        written = f"{{:.{2 if columns <= FEW_COLUMNS else 1}f}}".format
        colours = (style.SCORES_SCALE, -limit, limit)
        trace |= panels.printed(panels.texts(matrix, written), matrix, colours, letters)
    return trace


# --- every query with every key -------------------------------------------------------------


@dataclass(frozen=True)
class Bars:
    """The bars beside a map, one in each line, from the top down; NaN is no bar."""

    heading: str
    labels: Sequence[str]
    values: Sequence[float]
    texts: Sequence[str]  # at the end of each bar
    marked: int | None = None  # the line of the chosen key, or of a sum
    before: Sequence[float] | None = None  # what the values were, as outlines


def map_picture(
    matrix: ArrayLike,
    words: Sequence[str],
    beside: Bars,
    *,
    stage: str,
    hidden: ArrayLike,
    query: int,
    key: int,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, every query with every key, the chosen row and cell framed; right, one row as bars.

    Trace 0 is the map, so a click on it is a cell. Beside weights stands the sum of each row.

    Args:
        matrix: [query, key], of this stage of `STAGES`.
        hidden: bool [query, key], what the mask hides.
    """
    values = np.asarray(matrix, dtype=np.float64)
    figure = attention_map(values, words, words, stage=stage, hidden=hidden, size=size)
    panels.wide(figure, 50 * size.font)
    (trace,), layout = figure["data"], figure["layout"]
    layout["meta"]["alt"] += (
        f" Chosen: query “{words[query]}” (position {query + 1}), "
        f"key “{words[key]}” (position {key + 1}). {beside.heading}."
    )
    around = layout["margin"] = style.margin(
        _label_room(words, size) + size.font,
        3 * size.font,
        2 * size.font + 4,
        3 * size.font + size.small + 32,
    )
    layout["barmode"] = "overlay"
    # The stripes alone show what is hidden: a background would lie behind the bars as well.
    layout["plot_bgcolor"] = style.CLEAR
    for free in ("scaleanchor", "constraintoward", "constrain"):  # words are wider than tall
        layout["xaxis"].pop(free, None)
        layout["yaxis"].pop(free)
    letters = _fitting(size.height - around["t"] - around["b"], len(words), size)
    column = MAP_END * (WIDTH - around["l"] - around["r"]) / len(words)
    wide = int(
        column / (0.6 * max(map(len, words)))
    )  # font size with which the words fit side by side
    layout["xaxis"] |= {
        "domain": [0, MAP_END],
        "tickfont": {"size": max(9, min(letters, wide))},
        "tickangle": 0 if wide > 8 else 30,
        "dtick": 1,
    }
    layout["yaxis"] |= {"tickfont": {"size": letters}, "dtick": 1}
    if wide <= 8:  # the slanted words need the room of the title
        layout["xaxis"]["title"] = None
    layout["coloraxis"]["colorbar"] |= {"x": MAP_END / 2, "title": None}
    trace["hovertemplate"] = "“%{y}” looks at “%{x}”<br><b>%{z:.4f}</b><extra></extra>"
    print_numbers(figure, trace["z"], stage, min(letters, int(column / 3.2)))
    layout["shapes"] += [
        _framed(0.5, len(words) + 0.5, query + 1, size.line),
        _framed(key + 0.5, key + 1.5, query + 1, 2 * size.line),
    ]
    layout["annotations"].append(panels.panel_title(STAGES[stage]))
    if stage == "weights":
        layout["annotations"] += [
            panels.annotation(
                f"Σ {total:.2f}",
                len(words) + 0.5,
                row,
                size=size.small,
                colour=style.TEXT if row == query + 1 else style.MUTED,
                xanchor="left",
                xshift=4,
            )
            for row, total in enumerate(np.where(np.asarray(hidden), 0, values).sum(1), 1)
        ]
    _add_bars(figure, beside, stage == "weights", letters)
    return figure


def _add_bars(figure: Figure, beside: Bars, from_zero: bool, letters: int) -> None:
    """One row of a map as bars to its right; weights start at 0, scores have both signs."""
    every = [*beside.values, *(beside.before or ())]
    reach = max((abs(v) for v in every if math.isfinite(v)), default=0.0) or 1.0
    start = MAP_END + 0.07 + max(map(len, beside.labels)) * 0.56 * letters / WIDTH
    panels.add_panel(
        figure,
        1,
        panels.axis(
            domain=[min(max(start, 0.66), 0.85), 1],
            range=[0, 1.18] if from_zero else [-1.4 * reach, 1.4 * reach],
            showticklabels=False,
            showgrid=True,
            zeroline=True,
            fixedrange=True,
        ),
        panels.cell_axis(beside.labels, letters, downwards=True, marked=beside.marked)
        | {"ticklabelstandoff": 6, "fixedrange": True},
        _bars(beside, letters),
        title=beside.heading,
    )


def _bars(beside: Bars, letters: int) -> list[dict[str, Any]]:
    lines, edge = range(len(beside.values)), {"width": 1, "color": style.MUTED}
    colour = style.finite(np.nan_to_num(np.array(beside.values, dtype=float)))
    drawn = panels.bars(
        lines,
        style.finite(beside.values),
        style.TEXT,
        across=True,
        name="bars",
        width=0.6 if beside.before is None else 0.45,
        marker={"color": colour, "coloraxis": "coloraxis", "line": edge},
        text=[style.escape(text) for text in beside.texts],
        textfont={"size": letters},
        constraintext="none",
    )
    if beside.before is None:
        return [drawn]
    outline = {"color": style.HIDDEN, "line": edge}
    before = style.finite(beside.before)
    return [
        panels.bars(
            lines, before, style.HIDDEN, across=True, name="before", width=0.8, marker=outline
        ),
        drawn,
    ]


# --- the output -----------------------------------------------------------------------------


def output_picture(
    values: ArrayLike,
    weights: Sequence[float],
    z: Sequence[float],
    words: Sequence[str],
    hidden: Sequence[bool],
    *,
    flat: ArrayLike,
    at_z: Sequence[float],
    axes: tuple[str, str],
    outline: Sequence[int],
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, each value times its weight, and their sum z; right, z among the values in 2D.

    Args:
        values: [key, d_head].
        weights: of one query.
        hidden: keys that it does not see.
        flat: [key, 2], the values in two dimensions; `at_z` is z there.
        axes: what the two dimensions are.
        outline: corners of the convex hull of the visible points, in order.
    """
    gone = np.asarray(hidden, dtype=bool)
    weights, flat = np.asarray(weights, dtype=np.float64), np.asarray(flat, dtype=np.float64)
    parts = weights[:, None] * np.asarray(values, dtype=np.float64)
    parts[gone] = np.nan
    z, count = np.asarray(z, dtype=np.float64), len(words)
    limit = style.nice_limit(float(np.nanmax(np.abs(np.vstack([parts, z])))))
    shown = list(zip(weights, words, gone, strict=True))
    labels = [
        f"v({style.escape(word)}): hidden" if g else f"{w:.2f} × v({style.escape(word)})"
        for w, word, g in shown
    ]
    around, letters = _around(labels, count + 1.5, size)
    figure = panels.new_figure(
        f"The output of the query is the sum of {count - int(gone.sum())} values times their "
        "weights: "
        + ", ".join(f"{w:.2f} {word}" for w, word, g in shown if not g)
        + ". It lies inside the convex hull of the values.",
        size,
        "output",
        margin=around,
        coloraxis=_signed_colours(limit, size, x=MAP_END / 2),
        coloraxis2={"colorscale": style.WEIGHTS_SCALE, "cmin": 0, "cmax": 1, "showscale": False},
        shapes=[
            *(
                panels.rectangle(
                    -0.5, len(z) - 0.5, row - 0.5, row + 0.5, fillcolor=style.HIDDEN, layer="below"
                )
                for row in np.flatnonzero(gone).tolist()
            ),
            _framed(-0.5, len(z) - 0.5, count + 0.4, size.line),
        ],
    )
    parts_of_z = _matrix(parts, "weight × value", limit, letters)
    panels.add_panel(
        figure,
        0,
        _dimensions(len(z), size, domain=[0, MAP_END]),
        panels.axis(
            range=[count + 1, -0.5],
            tickvals=[*range(count), count + 0.4],
            ticktext=[*labels, "<b>sum = z</b>"],
            tickfont={"size": letters},
            showgrid=False,
        ),
        [
            parts_of_z | {"hoverongaps": False},
            _matrix(z[None], "z", limit, letters) | {"y": [count + 0.4], "dy": 1},
        ],
        title="weight × value",
    )
    corners = [*outline, outline[0]]
    hull = {"fill": "toself", "fillcolor": style.HIDDEN, "opacity": 0.7}
    ends = style.finite(flat[corners, 0]), style.finite(flat[corners, 1])
    panels.add_panel(
        figure,
        1,
        _flat_axis(flat[:, 0], axes[0], size, domain=[0.58, 1]),
        _flat_axis(flat[:, 1], axes[1], size),
        [
            panels.line(*ends, style.MUTED, size.thin, name="hull", **hull),
            *_values(flat, weights, words, gone, size),
            panels.points(
                [float(at_z[0])],
                [float(at_z[1])],
                {
                    "symbol": "diamond",
                    "size": 2 * size.marker,
                    "color": CHOSEN,
                    "line": {"width": 1, "color": style.TEXT},
                },
                name="z",
                hover="z: (%{x:.3f}, %{y:.3f})<extra></extra>",
                mode="markers+text",
                text=["<b>z</b>"],
                textposition="middle right",
                textfont={"size": size.font + 3, "color": CHOSEN},
            ),
        ],
        title="z among the values",
    )
    return figure


def _values(
    flat: np.ndarray, weights: np.ndarray, words: Sequence[str], gone: np.ndarray, size: Sizes
) -> list[dict[str, Any]]:
    """The values as points, their area in proportion to their weight; hidden ones as crosses."""
    areas, names = np.maximum(weights, LEAST_AREA), _shared_names(flat, words, gone)

    def some(which: np.ndarray, marker: dict[str, Any], **more: Any) -> dict[str, Any]:
        labels = {"text": [names[i] for i in which], "textposition": "top center"}
        x, y = flat[which].T
        return panels.points(
            style.finite(x), style.finite(y), marker, mode="markers+text", **labels, **more
        )

    seen, out = np.flatnonzero(~gone), np.flatnonzero(gone)
    traces = [
        some(
            seen,
            {
                "size": [7 * size.marker * math.sqrt(areas[i]) for i in seen],
                "color": style.finite(weights[seen]),
                "coloraxis": "coloraxis2",
                "opacity": 0.9,
                "line": {"width": 1, "color": style.TEXT},
            },
            name="values",
            hover="v(%{customdata[0]}), weight %{customdata[1]:.3f}<extra></extra>",
            customdata=[[style.escape(words[i]), float(weights[i])] for i in seen],
            textfont={"size": size.small + 1},
        )
    ]
    if len(out):
        cross = {"symbol": "x-thin-open", "size": size.marker + 2, "color": style.MUTED}
        traces.append(
            some(
                out,
                cross | {"line": {"width": size.thin + 0.5}},
                name="hidden",
                hover="%{text}: hidden by the mask<extra></extra>",
                textfont={"size": size.small, "color": style.MUTED},
            )
        )
    return traces


def _shared_names(flat: np.ndarray, words: Sequence[str], gone: np.ndarray) -> list[str]:
    """One label for each point; points on the same spot share the label of the first."""
    near = 1e-6 * max(float(np.ptp(flat, axis=0).max()), 1e-12)
    names = [""] * len(words)
    for i, word in enumerate(words):
        first = next(
            j
            for j in range(i + 1)
            if gone[j] == gone[i] and np.abs(flat[j] - flat[i]).max() <= near
        )
        names[first] += (" + " if names[first] else "") + style.escape(word)
    return names


def _flat_axis(values: np.ndarray, title: str, size: Sizes, **more: Any) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    room = 0.22 * (high - low) or 1.0
    ends = [low - room, high + room]
    return panels.axis(title, size, range=ends, showticklabels=bool(title), **more)


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
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, keys and query as arrows; in the middle, the weights; right, the result.

    A key, its weight and its value have one colour.

    Args:
        angles: of the keys, which have length 1, in degrees.
        angle, length: of the query; one longer than the picture is cut off and says so.
    """
    uniform, rows = 1 / len(names), range(len(names))
    colours = [style.run_colour(i) for i in rows]
    figure = panels.new_figure(
        f"A query at {angle:g}° of length {length:g}. Weights: "
        + ", ".join(f"{name} {w:.2f}" for name, w in zip(names, weights, strict=True))
        + f". Result {result:.2f}; the mean of all values is {mean:.2f}.",
        size,
        f"dictionary {len(names)}",
        margin=style.margin(8, 12, 2 * size.font + 4, 3 * size.font),
    )
    drawn = min(length, 1.35)
    reach = {"range": [-1.65, 1.65], "visible": False, "fixedrange": True}
    x = panels.axis(domain=[0, 0.3], **reach)
    panels.add_panel(figure, 0, x, panels.axis(scaleanchor="x", **reach), title="keys and query")
    panels.add_panel(
        figure,
        1,
        panels.cell_axis(names, size.font, domain=[0.37, 0.64], range=None, fixedrange=True),
        panels.axis(
            size=size, range=[0, 1.12], tickvals=[0, 0.5, 1], showgrid=True, fixedrange=True
        ),
        [
            panels.bars(
                rows,
                style.finite(weights),
                colours,
                name="weights",
                hover="weight %{y:.4f}<extra></extra>",
                text=[f"{w:.2f}" for w in weights],
                textfont={"size": size.font},
            )
        ],
        title="weights",
    )
    areas = [6 * size.marker * math.sqrt(max(w, LEAST_AREA)) for w in weights]
    panels.add_panel(
        figure,
        2,
        panels.axis(domain=[0.72, 1], range=[-0.6, 1.2], visible=False, fixedrange=True),
        panels.axis(size=size, range=[0, 1.15 * max(*values, mean)], fixedrange=True),
        [
            panels.points(
                [0] * len(names),
                style.finite(values),
                {"color": colours, "size": areas},
                name="values",
                hover="%{text}<extra></extra>",
                mode="markers+text",
                text=[f"{style.escape(name)} {v:g}" for name, v in zip(names, values, strict=True)],
                textposition="middle left",
                textfont={"size": size.font},
            ),
            panels.line(
                [0, 0.62],
                [result, result],
                style.TEXT,
                size.line,
                name="result",
                mode="lines+markers+text",
                text=["", f"<b>{result:.2f}</b>"],
                textposition="middle right",
                textfont={"size": size.font + 6, "color": style.TEXT},
                marker={"symbol": "diamond", "size": 1.4 * size.marker, "color": style.TEXT},
            ),
        ],
        title="value",
    )
    layout = figure["layout"]
    circle = {"color": style.GRID, "width": size.thin}
    layout["shapes"].append(panels.rectangle(-1, 1, -1, 1, circle, type="circle"))
    width = size.line * (2.5 if drawn > 0.6 else 1)
    layout["annotations"] += _arrow(angle, drawn, style.TEXT, "<b>query</b>", size, width)
    for degrees, colour, name in zip(angles, colours, names, strict=True):
        turn = (degrees - angle + 180) % 360 - 180
        aside = math.copysign(18, turn) if abs(turn) < 18 and drawn > 0.8 else 0
        text = f"<b>{style.escape(name)}</b>"
        layout["annotations"] += _arrow(degrees, 1.0, colour, text, size, size.line + 1, aside)
    tag = f"length of the query {length:g}" + (", drawn shorter" if drawn < length else "")
    below = {"xref": "x domain", "yref": "paper", "yanchor": "top"}
    layout["annotations"].append(
        panels.annotation(tag, 0.5, 0, size=size.small, colour=style.MUTED, **below)
    )
    dashed = {"color": style.MUTED, "width": size.thin, "dash": "longdash"}
    for panel, level, text, side in (
        (1, uniform, "uniform", "bottom"),
        (2, mean, f"mean {mean:.2f}", "bottom" if result <= mean else "top"),
    ):
        across = panels.at(panel) | {"xref": f"{panels.at(panel)['xref']} domain"}
        label = panels.reference_label(text, level, size, side=side)
        layout["shapes"].append(panels.rectangle(0, 1, level, level, dashed, type="line", **across))
        layout["annotations"].append(label | {"x": 1, "yshift": 0} | across)
    return figure


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
    angle, beside = math.radians(degrees), math.radians(degrees + aside)
    beyond = length + 0.22
    head = (length * math.cos(angle), length * math.sin(angle))
    return [
        panels.arrow(
            (0, 0),
            head,
            colour,
            width,
            showarrow=length > 0,
            arrowsize=0.9 if length > 0.6 else 0.7,
        ),
        panels.annotation(
            text, beyond * math.cos(beside), beyond * math.sin(beside), colour=colour
        ),
    ]


# --- after training -------------------------------------------------------------------------


def found_picture(
    maps: Sequence[ArrayLike],
    titles: Sequence[str],
    tokens: Sequence[str],
    hidden: ArrayLike,
    *,
    value: int,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Attention of trained models on one example: the row that asks, and the value to find.

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
        size=size,
    )
    figure["layout"]["coloraxis"]["colorbar"]["title"] = None
    for i in range(len(maps)):
        figure["layout"]["shapes"] += [
            _framed(0.5, len(tokens) + 0.5, len(tokens), size.thin, i),
            _framed(value + 0.5, value + 1.5, len(tokens), size.line, i),
        ]
    return figure


# --- what they share ------------------------------------------------------------------------


def _signed_colours(limit: float, size: Sizes, **bar: Any) -> dict[str, Any]:
    return panels.colour_axis(style.SCORES_SCALE, -limit, limit, "", size, dtick=limit / 2, **bar)


def _around(labels: Sequence[str], rows: float, size: Sizes) -> tuple[dict[str, int], int]:
    """Margins of a figure with these labels on its left, and the font size there."""
    made = style.margin(_label_room(labels, size), 12, 2 * size.font + 4, 2 * size.small + 50)
    return made, _fitting(size.height - made["t"] - made["b"], rows, size)


def _fitting(room: float, lines: float, size: Sizes) -> int:
    """Font size in pixels with which this many lines fit into the room."""
    return max(7, int(min(size.font, 0.8 * room / lines)))


def _label_room(labels: Sequence[str], size: Sizes) -> int:
    """Pixels to the left of an axis with these labels."""
    return round(max(map(len, labels)) * 0.56 * size.font) + 22


def _framed(left: float, right: float, row: float, width: float, panel: int = 0) -> dict[str, Any]:
    """A frame around the chosen cells of a row."""
    ink = {"color": CHOSEN, "width": width}
    return panels.rectangle(left, right, row - 0.5, row + 0.5, ink, **panels.at(panel))
