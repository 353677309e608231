"""Figures of the page about masks: the mask itself, what reaches what, one row, a padded batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.attention import hatch
from playground.figures.style import Figure, Sizes

# Not the scale of the weights: a gradient is not a share.
REACH_SCALE = "Cividis"
DECADES = 3  # of gradients that are told apart by colour
EDITED = style.RUN_COLOURS[1]
FORWARD = style.RUN_COLOURS[0]
# From the background to orange: how wrong a logit is.
# Pale enough for text in the colour of the theme.
WRONG_SCALE = [[0.0, "rgba(213,94,0,0.05)"], [1.0, "rgba(213,94,0,0.6)"]]
MASK_TRACE, REACH_TRACE = 0, 1  # numbers of the two maps that take clicks
MASKED_BELOW = -1e4  # hidden by a mask: no score comes near it
NARROW = 620  # pixels, roughly, of the chart of the window on a laptop


def mask_picture(
    seen: ArrayLike,
    gradient: ArrayLike,
    tokens: Sequence[str],
    *,
    edited: Sequence[tuple[int, int]] = (),
    output: int,
    key: int | None = None,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, the mask; in the middle, which inputs reach which outputs; right, the paths to one.

    Trace 0 is the mask and trace 1 the reach: a click on either tells query and key.

    Args:
        seen: bool [query, key].
        gradient: [levels, output, input], norms of the gradient of each output; exactly 0 where
            nothing gets through. Level 0 is the embeddings.
        tokens: what is printed along the axes.
        edited: cells (query, key) changed by hand.
        output: the one whose paths are drawn on the right.
        key: with `output`, the cell of the mask that is chosen.
    """
    seen, gradient = np.asarray(seen, dtype=bool), np.asarray(gradient, dtype=np.float64)
    count, reached = len(tokens), gradient[0] > 0
    figure = panels.new_figure(
        _mask_alt(seen, reached, edited, output),
        size,
        f"mask {count}",
        margin=style.margin(3 * size.font, 8, 2 * size.font, 5.4 * size.small + 24),
        coloraxis=panels.colour_axis(
            REACH_SCALE,
            -DECADES,
            0,
            "gradient, as a share of the largest",
            size,
            x=0.67,
            tickvals=list(range(-DECADES, 1)),
            ticktext=["≤ 0.001", "0.01", "0.1", "1"],
        ),
        images=[hatch(panel, count, count, (0, 0)) for panel in (0, 1)],
    )
    mask, reach = _mask_map(seen, edited), _reach_map(gradient[0])
    for panel, x, y, traces, title in (
        (0, "key", "query", [mask], "the mask: may query see key?"),
        (
            1,
            "input",
            "output",
            [reach, _answers(reached, size)],
            "measured: does input reach output?",
        ),
    ):
        square = {"scaleanchor": panels.at(panel)["xref"], "constraintoward": "top"}
        down = _token_axis(tokens, y, size, downwards=True, **square)
        down["title"]["standoff"] = 4
        across = _token_axis(tokens, x, size, domain=[0.35 * panel, 0.35 * panel + 0.29])
        panels.add_panel(figure, panel, across, down, traces, title=title)
    levels = len(gradient)
    panels.add_panel(
        figure,
        2,
        _token_axis(tokens, "position", size, domain=[0.71, 1]),
        panels.axis(
            size=size,
            range=[-0.5, levels - 0.5],
            tickvals=list(range(levels)),
            ticktext=["input", *(f"block {level}" for level in range(1, levels))],
            showgrid=False,
            fixedrange=True,
        ),
        _paths(seen, gradient[:, output], size),
        title=f"the paths to output {output + 1}",
    )
    ends = (-0.5, count - 0.5)
    grounds = [
        panels.rectangle(*ends, *ends, fillcolor=style.HIDDEN, layer="below", **panels.at(panel))
        for panel in (0, 1)
    ]
    frames = [_around(cell, {"color": EDITED, "width": size.line}) for cell in edited]
    thick, dotted = (
        {"color": style.TEXT, "width": size.line},
        {"color": style.TEXT, "width": size.thin},
    )
    frames.append(panels.rectangle(*ends, output - 0.5, output + 0.5, thick, **panels.at(1)))
    if key is not None:
        frames.append(_around((output, key), dotted | {"dash": "dot"}))
    figure["layout"]["shapes"] = grounds + frames
    return figure


def _token_axis(tokens: Sequence[str], title: str, size: Sizes, **more: Any) -> dict[str, Any]:
    """Axis with a token at each cell."""
    return panels.cell_axis(tokens, size.small, constrain="domain", **more) | panels.axis(
        title, size
    )


def _around(cell: tuple[int, int], stroke: dict[str, Any]) -> dict[str, Any]:
    """Frame around a cell (query, key) of the mask."""
    query, key = cell
    return panels.rectangle(key - 0.46, key + 0.46, query - 0.46, query + 0.46, stroke)


def _mask_map(seen: np.ndarray, edited: Sequence[tuple[int, int]]) -> dict[str, Any]:
    words = np.where(seen, "the mask adds 0: visible", "the mask adds −∞: hidden").astype(object)
    for query, key in edited:
        words[query, key] += ", by hand"
    return panels.heatmap(
        np.where(seen, 1.0, np.nan),
        colours=([[0, style.run_colour(0)], [1, style.run_colour(0)]], 0, 1),
        name="mask",
        text=words.tolist(),
        customdata=_counted_from_1(len(seen)).tolist(),
        hover="query %{customdata[0]} “%{y}”<br>key %{customdata[1]} “%{x}”<br><b>%{text}</b><br>"
        "click to change it<extra></extra>",
    )


def _reach_map(gradient: np.ndarray) -> dict[str, Any]:
    return panels.heatmap(
        _shares(gradient),
        name="reach",
        customdata=np.dstack([_counted_from_1(len(gradient)), np.round(gradient, 6)]).tolist(),
        hover="output %{customdata[0]} “%{y}”<br>input %{customdata[1]} “%{x}”<br>"
        "<b>gradient %{customdata[2]:.3g}</b><extra></extra>",
    )


def _counted_from_1(n: int) -> np.ndarray:
    """[query, key, 2]: the position of each, as the page counts them."""
    return np.stack(np.indices((n, n)), axis=-1) + 1


def _answers(reached: np.ndarray, size: Sizes) -> dict[str, Any]:
    """A ring on each cell where an output is reached by the token that it has to predict."""
    leaks = [i for i in range(len(reached) - 1) if reached[i, i + 1]]
    stroke = {"width": size.line}
    marker = {"symbol": "circle-open", "color": EDITED, "size": size.marker + 4, "line": stroke}
    return panels.points([i + 1 for i in leaks], leaks, marker, name="the answer")


def _paths(seen: np.ndarray, gradient: np.ndarray, size: Sizes) -> list[dict[str, Any]]:
    """The paths through the blocks to one output: gradient is [levels, position]."""
    looks, stays = [], []  # (from, to, level of its end)
    for level in range(1, len(gradient)):
        for at in np.flatnonzero(gradient[level]).tolist():
            stays.append((at, at, level))
            looks += [(i, at, level) for i in np.flatnonzero(seen[at]).tolist() if i != at]
    level, position = np.indices(gradient.shape)
    some = gradient > 0
    shares = np.stack([_shares(row) for row in gradient])
    hollow = {"symbol": "circle-open", "size": size.marker, "color": style.MUTED}
    filled = {
        "size": size.marker + 5,
        "color": shares[some].tolist(),
        "coloraxis": "coloraxis",
        "line": {"width": 1, "color": style.TEXT},
    }
    return [
        panels.line(*_strokes(looks), style.MUTED, size.thin, name="attention"),
        panels.line(*_strokes(stays), FORWARD, size.line, name="residual connection"),
        panels.points(
            position[~some].tolist(),
            level[~some].tolist(),
            hollow,
            name="nothing gets through",
            customdata=(position[~some] + 1).tolist(),
            hover="position %{customdata}: gradient exactly 0<extra></extra>",
        ),
        panels.points(
            position[some].tolist(),
            level[some].tolist(),
            filled,
            name="reached",
            customdata=np.column_stack([position[some] + 1, gradient[some]]).tolist(),
            hover="position %{customdata[0]}: gradient %{customdata[1]:.3g}<extra></extra>",
        ),
    ]


def _strokes(steps: Sequence[tuple[int, int, int]]) -> tuple[list[int | None], list[int | None]]:
    """x and y of one line with a gap after each step from one level to the next."""
    x = [value for start, end, _ in steps for value in (start, end, None)]
    return x, [value for *_, level in steps for value in (level - 1, level, None)]


def _shares(gradient: np.ndarray) -> np.ndarray:
    """Powers of ten below the largest; nan, a gap, where it is exactly 0."""
    largest = gradient.max(initial=0.0) or 1.0
    shares = np.full(gradient.shape, np.nan)
    some = gradient > 0
    shares[some] = np.round(np.maximum(np.log10(gradient[some] / largest), -DECADES), 3)
    return shares


def _mask_alt(seen: np.ndarray, reached: np.ndarray, edited, output: int) -> str:
    later = int(np.triu(reached, 1).sum())
    return (
        f"The mask shows {int(seen.sum())} of {seen.size} cells, {len(edited)} changed by hand. "
        f"Through all blocks {int(reached.sum())} pairs of output and input have a gradient, "
        f"{later} of them from a later token. Output {output + 1} is reached by "
        f"{int(reached[output].sum())} tokens."
    )


# --- one row ---------------------------------------------------------------------------------


def row_picture(
    rows: Sequence[tuple[str, ArrayLike, str]],
    tokens: Sequence[str],
    *,
    query: int,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """One query's row of the formula, a line for each step, with its numbers.

    Args:
        rows: (title, [key] numbers, kind) from top to bottom; kind is "scores" or "weights".
        query: the one whose row it is.
    """
    count = len(tokens)
    said = "; ".join(
        f"{title}: {', '.join(_number(v) for v in np.asarray(values))}" for title, values, _ in rows
    )
    figure = panels.new_figure(
        f"Query {query + 1}. {said}.",
        size,
        f"row {count}",
        margin=style.margin(11 * size.font, 8, 4, 2 * size.font),
        plot_bgcolor=style.HIDDEN,
    )
    panels.wide(figure, round((14 + 2.8 * count) * size.font))
    for i, domain in enumerate(panels.domains(len(rows), gap=0.05)[::-1]):
        title, values, kind = rows[i]
        values = np.asarray(values, dtype=np.float64)
        hidden = values < MASKED_BELOW
        limit = style.nice_limit(float(np.abs(values[~hidden]).max(initial=0.0)))
        weights, scores = (style.WEIGHTS_SCALE, 0, 1), (style.SCORES_SCALE, -limit, limit)
        colours, shown = weights if kind == "weights" else scores, np.where(hidden, np.nan, values)
        cells = panels.heatmap(
            [shown.tolist()],
            colours=colours,
            name=title,
            customdata=[list(range(1, count + 1))],
            hover="key %{customdata}: %{z:.2f}<extra></extra>",
            hoverongaps=False,
            **panels.printed([[*map(_number, values)]], [shown], colours, size.font),
        )
        across = panels.cell_axis(tokens, size.font, showticklabels=i == len(rows) - 1)
        down = panels.cell_axis([title], size.font, domain=domain, fixedrange=True)
        panels.add_panel(figure, i, across, down, [cells])
        # No colour fits what the mask adds.
        figure["layout"]["annotations"] += [
            panels.annotation("−∞", key, 0, colour=style.MUTED, **panels.at(i))
            for key in np.flatnonzero(hidden).tolist()
        ]
    return figure


def _number(value: float) -> str:
    if value < MASKED_BELOW:
        return "−∞"
    return "0" if value == 0 else f"{value:.2f}".replace("-", "−")


# --- windows, blocks, padding ----------------------------------------------------------------


def window_chart(
    windows: Sequence[int],
    measured: Sequence[Sequence[int]],
    most: int,
    *,
    chosen: tuple[int, int] | None = None,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """How many tokens reach one output, over the size of the window, one line per number of blocks.

    Args:
        measured: [window][blocks - 1].
        most: how many tokens there are.
        chosen: window and number of blocks to mark.
    """
    counts, rule = np.asarray(measured), "n·(w − 1) + 1"
    names = [f"{n + 1} block{'s' * (n > 0)}" for n in range(counts.shape[1])]
    ends = ", ".join(f"{name} {row[-1]}" for name, row in zip(names, counts.T, strict=True))
    figure = panels.new_figure(
        f"Tokens that reach the last of {most} outputs; at a window of {windows[-1]}: {ends}.",
        size,
        "window",
        **style.legend_below((*names, rule), NARROW, size),
    )
    layout = figure["layout"]
    layout["margin"] |= {"b": layout["margin"]["b"] + 2 * size.font, "l": 4 * size.font}
    traces = []
    for n, name in enumerate(names):
        theory = [min((n + 1) * (w - 1) + 1, most) for w in windows]
        traces += [
            panels.line(
                windows, theory, style.MUTED, size.thin, dash="dot", name=rule, showlegend=n == 0
            ),
            panels.line(
                windows,
                counts[:, n].tolist(),
                style.run_colour(n),
                size.line,
                dash=style.dash(n),
                name=name,
                hover=f"window %{{x}}: %{{y}} tokens<extra>{name}</extra>",
                mode="lines+markers",
                marker={"size": size.marker},
            ),
        ]
    if chosen is not None:
        w, n = chosen
        traces.append(panels.ring(w, int(counts[list(windows).index(w), n - 1]), size))
    panels.add_panel(
        figure,
        0,
        panels.axis("window w", tickvals=list(windows)),
        panels.axis("tokens that reach it", range=[0, most + 0.8], fixedrange=True),
        traces,
    )
    return figure


def padded_picture(
    parts: Sequence[tuple[str, Sequence[Sequence[str]], ArrayLike]], *, size: Sizes = style.LAPTOP
) -> Figure:
    """Padded batches compared with their sequences alone: a map for each, two in a row.

    Args:
        parts: (title, [sequence][position] tokens, [sequence, position] largest |difference| of a
            logit, nan at padding).
    """
    tables = [np.asarray(values, dtype=np.float64) for *_, values in parts]
    limit = style.nice_limit(max((float(np.nanmax(table)) for table in tables), default=0.0))
    titles = [f"{title}: {largest(values)}" for title, _, values in parts]
    figure = panels.new_figure(
        f"Largest difference of a logit. {'; '.join(titles)}.",
        size,
        "padded",
        margin=style.margin(5 * size.font, 8, 2 * size.font, 8),
    )
    down = panels.domains(-(-len(parts) // 2), gap=0.24)[::-1]
    for i, ((name, tokens, _), table) in enumerate(zip(parts, tables, strict=True)):
        row, column = divmod(i, 2)
        sequences, positions = table.shape
        printed = {
            "text": [[style.escape(token) for token in tokens_of_row] for tokens_of_row in tokens],
            "texttemplate": "%{text}",
            "textfont": {"size": size.font, "color": style.TEXT},
            "hoverongaps": False,
        }
        values = panels.heatmap(
            style.finite(table),
            colours=(WRONG_SCALE, 0, limit),
            name=name,
            x0=1,
            hover="%{y}, position %{x}, “%{text}”: %{z:.2g}<extra></extra>",
            **printed,
        )
        padding = panels.heatmap(
            np.where(np.isnan(table), 1.0, np.nan),
            colours=([[0, style.HIDDEN], [1, style.HIDDEN]], 0, 1),
            name="padding",
            x0=1,
            hover="padding<extra></extra>",
            **printed,
        )
        across = panels.axis(
            domain=[0.52 * column, 0.52 * column + 0.48],
            range=[0.5, positions + 0.5],
            visible=False,
        )
        rows = panels.cell_axis(
            [f"sequence {n + 1}" for n in range(sequences)],
            size.font,
            downwards=True,
            domain=down[row],
            showticklabels=column == 0,
            fixedrange=True,
        )
        panels.add_panel(figure, i, across, rows, [values, padding], title=titles[i])
    return figure


def largest(table: ArrayLike, rounding: float = 1e-5) -> str:
    """The largest difference in words: exactly 0, rounding, or a difference."""
    value = float(np.nanmax(np.asarray(table, dtype=np.float64)))
    if value == 0:
        return "exactly the same"
    return f"differs by {value:.1g}: rounding" if value < rounding else f"differs by {value:.2f}"
