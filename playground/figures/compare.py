"""Figures of the Compare page: bands over seeds, maps side by side, final losses."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.attention import STAGES, attention_maps
from playground.figures.loss import SMOOTHING, loss_chart, smooth
from playground.figures.panels import (
    empty_figure,
)
from playground.figures.style import (
    GRID,
    HIDDEN,
    MUTED,
    RUN_COLOURS,
    TEXT,
    Figure,
    Sizes,
    base_layout,
    dash,
    escape,
    finite,
    legend_below,
    nice_limit,
    run_colour,
    sizes,
)

BAND_POINTS = 600
# A loss this many times above chance would press all other curves flat onto the axis.
VIEW_LIMIT = 3
# Blue below 0, orange above, and the page itself at 0: clear on light and on dark.
DIFFERENCE_SCALE = [
    [0.0, RUN_COLOURS[0]],
    [0.5, "rgba(0,114,178,0)"],
    [0.5, "rgba(213,94,0,0)"],
    [1.0, RUN_COLOURS[1]],
]
LEAST_DIFFERENCE = 0.01
# The hover of a larger map shows the difference without what it is the difference of.
WORDED_CELLS = 1024
BAR = 0.17  # how far below the middle of its row a bar stands


@dataclass(frozen=True)
class Band:
    """Losses of one variant over its seeds: at each step their mean, the lowest, the highest."""

    label: str
    steps: Sequence[int] = ()
    mean: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    n_seeds: int = 1
    colour_index: int = 0


# --- curves over seeds --------------------------------------------------------------------------


def comparison_chart(
    bands: Sequence[Band],
    *,
    chance: tuple[float, float] | None = None,
    floor: float | None = None,
    total_steps: int | None = None,
    log: bool = False,
    smoothing: float = SMOOTHING,
    width: int = 900,
    height: int = 430,
    projector: bool = False,
) -> Figure:
    """Loss of several variants over the steps: the mean of the seeds in the band of all of them.

    Lines and bands are smoothed alike, so each seed's smoothed curve lies within its band. The
    hover tells the values of that very step, not smoothed. What is not finite is a gap. On the
    linear axis a loss far above chance is cut off, and a note says how far it goes.

    Args:
        bands: one for each variant, in drawing order; a band of one seed is a line.
        chance: loss of a uniform guess, and of the best guess that ignores the input.
        floor: loss that no model can beat, where the task knows it.
        total_steps: right end of the step axis.
        log: logarithmic loss axis.
        smoothing: factor of the moving average; 0 draws the values as they are.
        width: pixels the figure will about have, for the rows of the legend.
    """
    steps = [int(step) for band in bands for step in band.steps[-1:]]
    figure = loss_chart(
        [],
        chance=chance,
        floor=floor,
        log=log,
        total_steps=max([total_steps or 0, *steps]),
        width=width,
        height=height,
        projector=projector,
    )
    layout = figure["layout"]
    layout["meta"]["alt"] = _bands_alt(bands, chance, floor)
    layout["uirevision"] = f"comparison {log}"
    if not steps:
        return figure
    size = sizes(projector)
    # A power of two, the same for all: lines of different lengths keep points at common steps.
    longest = max(len(band.steps) for band in bands)
    stride = 2 ** max(math.ceil(math.log2(longest / BAND_POINTS)), 0)
    drawn = [_Drawn(band, smoothing, stride) for band in bands]
    # All bands lie below all lines.
    data = [trace for item in drawn for trace in item.area(log)]
    data += [item.line(log, size) for item in drawn]
    figure["data"] = data + figure["data"]
    # Longer samples than usual, for the dashes; the names make room for them.
    sample = round(22 * size.line)
    longer = " " * math.ceil((sample - 30) / (0.52 * size.small))
    layout |= legend_below([[band.label + longer] for band in bands], width, projector)
    layout["legend"] |= {"itemwidth": sample, "traceorder": "normal"}
    layout["xaxis"]["unifiedhovertitle"] = {"text": "step %{x}: mean (lowest to highest seed)"}
    del layout["annotations"][-1]  # "press Play"
    if not log and chance is not None:
        _cut(layout, drawn, VIEW_LIMIT * max(chance), size)
    return figure


class _Drawn:
    """A band with what is drawn of it."""

    def __init__(self, band: Band, smoothing: float, stride: int) -> None:
        self.band = band
        rows = np.array([band.mean, band.low, band.high], dtype=np.float64)
        gaps = ~np.isfinite(rows).all(0)
        rows[:, gaps] = np.nan
        if smoothing:
            rows = np.array([smooth(row, smoothing) for row in rows]).reshape(rows.shape)
            rows[:, gaps] = np.nan
        count = rows.shape[1]
        self.shown = sorted({*range(0, count, stride), *range(count)[-1:]})
        self.mean, self.low, self.high = rows[:, self.shown]

    def _trace(self, kind: str) -> dict[str, Any]:
        band = self.band
        key = f"{band.label} {band.colour_index}"
        return {
            "type": "scatter",
            "uid": f"c{zlib.crc32(f'{key} {kind}'.encode()):08x}",
            "legendgroup": key,
            "name": escape(band.label),
            "mode": "lines",
        }

    def area(self, log: bool) -> list[dict[str, Any]]:
        """From the lowest to the highest seed; nothing for one seed."""
        if self.band.n_seeds < 2:
            return []
        steps = np.asarray(self.band.steps)[self.shown]
        seen = np.isfinite(self.low)
        if log:
            seen &= self.low > 0
        # There and back, once for each part between two gaps.
        x, y, gap = [], [], [np.nan]
        for start, end in _parts(seen):
            there = slice(start, end)
            x += [steps[there], steps[there][::-1], gap]
            y += [self.high[there], self.low[there][::-1], gap]
        return [
            self._trace("band")
            | {
                "x": np.concatenate([*x, gap]).astype(np.float32)[:-1],
                "y": np.round(np.concatenate([*y, gap])[:-1], 5),
                "fill": "toself",
                "fillcolor": run_colour(self.band.colour_index),
                "line": {"width": 0, "color": run_colour(self.band.colour_index)},
                "opacity": 0.2,
                "hoverinfo": "skip",
                "showlegend": False,
            }
        ]

    def line(self, log: bool, size: Sizes) -> dict[str, Any]:
        band = self.band
        values = finite(self.mean)
        if log:
            values[~(values > 0)] = np.nan
        exact = np.array([band.mean, band.low, band.high])[:, self.shown].T
        hover = "<b>%{customdata[0]:.4f}</b>"
        if band.n_seeds > 1:
            hover += " (%{customdata[1]:.4f} to %{customdata[2]:.4f}, "
            hover += f"{band.n_seeds} seeds)"
        return self._trace("mean") | {
            "x": np.asarray(band.steps)[self.shown].tolist(),
            "y": values,
            "customdata": np.round(exact, 4),
            "line": {
                "color": run_colour(band.colour_index),
                "dash": dash(band.colour_index),
                "width": size.line,
            },
            "hovertemplate": hover,
        }


def _parts(seen: np.ndarray) -> list[tuple[int, int]]:
    """Start and end of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], seen, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _cut(layout: dict[str, Any], drawn: Sequence[_Drawn], limit: float, size: Sizes) -> None:
    """End the loss axis at the limit where a curve leaves it, and say which one does."""
    peaks = [(float(np.nanmax(d.high)), d) for d in drawn if np.isfinite(d.high).any()]
    beyond = [(peak, d.band.label) for peak, d in peaks if peak > limit]
    if not beyond:
        return
    layout["yaxis"] = {k: v for k, v in layout["yaxis"].items() if k != "rangemode"}
    layout["yaxis"]["range"] = [0, limit]
    lines = [f"↑ {escape(label)} goes up to {peak:.4g}" for peak, label in beyond]
    layout["annotations"].append(
        {
            "text": "<br>".join(lines),
            "align": "right",
            "xref": "x domain",
            "yref": "y domain",
            "x": 0.995,
            "y": 1,
            "xanchor": "right",
            "yanchor": "top",
            "showarrow": False,
            "font": {"size": size.small, "color": TEXT},
        }
    )


def _bands_alt(
    bands: Sequence[Band], chance: tuple[float, float] | None, floor: float | None
) -> str:
    parts = []
    for band in bands:
        means = finite(band.mean)
        seen = np.flatnonzero(np.isfinite(means))
        if seen.size:
            last = int(seen[-1])
            part = f"{band.label}: loss {means[last]:.3f} at step {int(band.steps[last])}"
            if band.n_seeds > 1:
                part += f" ({band.low[last]:.3f} to {band.high[last]:.3f} in {band.n_seeds} seeds)"
            parts.append(part)
    text = "Mean loss of each variant over the training steps. "
    text += ("; ".join(parts) or "Nothing has run yet") + "."
    if chance is not None:
        text += (
            f" A uniform guess has {chance[0]:.3f}, a guess that ignores the input {chance[1]:.3f}."
        )
    if floor is not None:
        text += f" No model can be below {floor:.3f}."
    return text


# --- maps side by side --------------------------------------------------------------------------


def attention_side_by_side(
    maps: ArrayLike,
    titles: Sequence[str],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    stage: str = "weights",
    hidden: ArrayLike | None = None,
    difference: bool | tuple[int, int] = True,
    width: int = 1000,
    height: int | None = None,
    projector: bool = False,
) -> Figure:
    """One head of several variants on one colour scale, and how two of them differ.

    Trace i is variant i; the difference, if there is one, is the last trace.

    Args:
        maps: [variants, query, key], scores or weights of the same layer, head and example.
        titles: one for each variant.
        query_tokens, key_tokens: what is printed along the axes.
        stage: one of `STAGES`.
        hidden: what the mask hides, [query, key] or [variants, query, key]; from stage "masked" on.
        difference: the second map minus the first where there are exactly two; or (a, b): map b
            minus map a. A weight that one mask hides counts as the 0 that it is; a score that a
            mask hides has no difference.
        width: pixels the figure will about have.
        height: pixels; by default what square maps of that width need: about 430 for two maps and
            their difference, about 760 for six maps, in two rows.
    """
    values = np.array(maps, dtype=np.float32)
    if values.ndim != 3:
        raise ValueError(f"maps has {values.ndim} axes; it needs three: variants, query, key")
    if len(titles) != len(values):
        raise ValueError(f"{len(titles)} titles for {len(values)} maps: each map has one")
    pair = _pair(difference, len(values))
    if not values.size:
        return empty_figure("no attention to show", height=height or 240, projector=projector)
    # The difference takes the place of one more map: the first once more, until it is known.
    both = hidden if hidden is None else np.broadcast_to(np.asarray(hidden, bool), values.shape)
    if pair:
        values = np.concatenate([values, values[:1]])
        both = both if both is None else np.concatenate([both, both[:1]])
    count = len(values)
    columns = None if height else count if count <= 4 else -(-count // 2)
    figure = attention_maps(
        values,
        query_tokens,
        key_tokens,
        stage=stage,
        hidden=both,
        titles=[*titles, "difference"] if pair else titles,
        columns=columns,
        width=width,
        height=height,
        projector=projector,
    )
    layout = figure["layout"]
    layout["uirevision"] = f"beside {values.shape} {pair}"
    if pair:
        _difference(figure, pair, titles, stage, width, projector)
    _wrap_titles(layout, width, projector)
    layout["meta"]["alt"] = _beside_alt(figure, pair, titles, query_tokens, key_tokens, stage)
    return figure


def _pair(difference: bool | tuple[int, int], count: int) -> tuple[int, int] | None:
    if isinstance(difference, bool):
        return (0, 1) if difference and count == 2 else None
    first, second = difference
    if not (0 <= first < count and 0 <= second < count):
        raise ValueError(f"difference={difference}: there are maps 0 to {count - 1}")
    return first, second


def _difference(
    figure: Figure,
    pair: tuple[int, int],
    titles: Sequence[str],
    stage: str,
    width: int,
    projector: bool,
) -> None:
    """Turn the last map of the figure into the difference of two others."""
    layout, trace, size = figure["layout"], figure["data"][-1], sizes(projector)
    first, second = (figure["data"][i]["z"] for i in pair)
    apart = second - first
    if stage == "weights":
        apart = np.nan_to_num(second) - np.nan_to_num(first)
        apart[np.isnan(first) & np.isnan(second)] = np.nan
    seen = np.abs(apart[np.isfinite(apart)])
    limit = nice_limit(max(float(seen.max(initial=0)), LEAST_DIFFERENCE))
    digits = 3 if stage == "weights" else 2

    def said(value: float) -> str:
        return "0" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")

    trace |= {
        "z": np.round(apart, 4),
        "coloraxis": "coloraxis2",
        "hovertemplate": (
            f"query %{{y:d}} “%{{y}}”<br>key %{{x:d}} “%{{x}}”<br><b>%{{z:+.{digits}f}}</b>"
        ),
    }
    if apart.size <= WORDED_CELLS:
        trace["hovertemplate"] += "%{text}"
        trace["text"] = [
            [
                "" if np.isnan(d) else f" = {said(b)} − {said(a)}"
                for a, b, d in zip(*row, strict=True)
            ]
            for row in zip(first, second, apart, strict=True)
        ]
    place = len(figure["data"])
    domains = [layout[f"xaxis{i or ''}"]["domain"] for i in (0, *range(2, place + 1))]
    own, others = domains[-1], domains[:-1]
    one_row = layout[f"yaxis{place}"]["domain"] == layout["yaxis"]["domain"]
    centres = ((others[0][0] + others[-1][1]) / 2, sum(own) / 2) if one_row else (0.26, 0.76)
    room = width * (own[1] - own[0] if one_row else 0.45) * 0.85
    name = f"{titles[pair[1]]} − {titles[pair[0]]}"
    main = layout["coloraxis"]["colorbar"]
    main |= {"x": centres[0], "len": round(min(main["len"], room))}
    marks = (-limit, -limit / 2, 0.0, limit / 2, limit)
    layout["coloraxis2"] = {
        "colorscale": DIFFERENCE_SCALE,
        "cmin": -limit,
        "cmax": limit,
        "colorbar": {key: value for key, value in main.items() if key != "dtick"}
        | {
            "x": centres[1],
            "tickvals": marks,
            "ticktext": [f"{mark:+g}".replace("-", "−") if mark else "0" for mark in marks],
            "ticklabeloverflow": "allow",
            "outlinewidth": 1,
            "outlinecolor": GRID,
            "title": main["title"]
            | {"text": escape(_shortened(name, int(room / (0.5 * size.small))))},
        },
    }
    # The ground that tells hidden cells lies under the maps alone: 0 is clear in the difference.
    del layout["plot_bgcolor"]
    layout["shapes"] += [_ground(i or "", HIDDEN, 0) for i in (0, *range(2, place))]
    layout["shapes"].append(_ground(place, "rgba(0,0,0,0)", 1))
    hatches = [image for image in layout.get("images", []) if image["xref"] != f"x{place}"]
    if hatches and np.isnan(apart).any():
        source = _hatched(hatches[0]["source"], np.isnan(apart))
        hatches.append(hatches[0] | {"xref": f"x{place}", "yref": f"y{place}", "source": source})
    layout["images"] = hatches


def _hatched(source: str, hidden: np.ndarray) -> str:
    """The stripes of a whole map cut down to its hidden cells, on a grey ground."""
    cells = "".join(
        f"M{start} {query}h{end - start}v1h{start - end}z"
        for query, row in enumerate(hidden)
        for start, end in _parts(row)
    )
    path = f"<path d='{cells}' fill='gray' fill-opacity='.3'/><path d='{cells}' "
    queries, keys = hidden.shape
    return source.replace(f"<rect width='{keys}' height='{queries}' ", path)


def _ground(axis: int | str, colour: str, border: int) -> dict[str, Any]:
    return {
        "type": "rect",
        "layer": "below",
        "xref": f"x{axis} domain",
        "yref": f"y{axis} domain",
        "x0": 0,
        "x1": 1,
        "y0": 0,
        "y1": 1,
        "fillcolor": colour,
        "line": {"color": GRID, "width": border},
    }


def _shortened(text: str, fits: int) -> str:
    return text if len(text) <= fits else text[: max(fits - 1, 1)] + "…"


def _wrap_titles(layout: dict[str, Any], width: int, projector: bool) -> None:
    """Set titles wider than their map in two smaller lines, at most."""
    size = sizes(projector)
    start, end = layout["xaxis"]["domain"]
    slot = (end - start) * (width - layout["margin"]["l"] - layout["margin"]["r"])
    rows = {axis["domain"][0] for name, axis in layout.items() if name.startswith("yaxis")}
    font = size.small if len(rows) == 1 else round(0.8 * size.small)
    wrapped = False
    for title in layout["annotations"]:
        text = title["text"].replace("&lt;", "<").replace("&amp;", "&")
        if len(text) * 0.55 * size.font <= slot:
            continue
        wrapped = True
        fits = max(int(slot / (0.55 * font)), 4)
        first, *rest = wrap(text, fits, break_on_hyphens=False)
        lines = [first, _shortened(" ".join(rest), fits)] if rest else [first]
        title["text"] = "<br>".join(map(escape, lines))
        title["font"] = title["font"] | {"size": font}
    if wrapped:
        layout["margin"]["t"] += size.small


def _beside_alt(
    figure: Figure,
    pair: tuple[int, int] | None,
    titles: Sequence[str],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    stage: str,
) -> str:
    def cell(matrix: np.ndarray) -> str:
        query, key = np.unravel_index(int(np.nanargmax(np.abs(matrix))), matrix.shape)
        return (
            f"{matrix[query, key]:.2f}, from “{query_tokens[query]}” (position {query}) "
            f"to “{key_tokens[key]}” (position {key})"
        )

    maps = [trace["z"] for trace in figure["data"]]
    text = f"Attention {STAGES[stage]} of one head in {len(titles)} variants."
    for title, matrix in zip(titles, maps, strict=False):
        if np.isfinite(matrix).any():
            text += f" {title}: largest {cell(matrix)}."
    if pair and np.isfinite(maps[-1]).any():
        first, second = (titles[i] for i in pair)
        text += f" Largest difference, {second} minus {first}: {cell(maps[-1])}."
    return text


# --- where each variant ends --------------------------------------------------------------------


def results_bars(
    labels: Sequence[str],
    finals: Sequence[Sequence[float]],
    *,
    chance: tuple[float, float] | None = None,
    floor: float | None = None,
    colour_indices: Sequence[int] | None = None,
    log: bool = False,
    width: int = 500,
    height: int | None = None,
    projector: bool = False,
) -> Figure:
    """Final loss of each variant: a dot for each seed, a bar up to their mean.

    On the linear axis a loss far above chance stands as an arrow at the right end.

    Args:
        labels: one for each variant, from top to bottom.
        finals: the final loss of each seed of each variant, in nats; a number that is not finite
            says that this seed diverged.
        chance: loss of a uniform guess, and of the best guess that ignores the input.
        floor: loss that no model can beat.
        colour_indices: the variants' colours; by default 0, 1, and so on.
        log: logarithmic axis; it has no 0 that a bar could start from, so there are none.
        width: pixels the figure will about have.
        height: pixels; by default what the rows need.
    """
    if len(labels) != len(finals):
        raise ValueError(f"{len(labels)} labels for {len(finals)} lists of losses: each has one")
    if not labels:
        return empty_figure("no results yet", height=height or 240, projector=projector)
    size = sizes(projector)
    colours = colour_indices if colour_indices is not None else range(len(labels))
    seen = [finite(losses) for losses in finals]
    seen = [losses[np.isfinite(losses)] for losses in seen]
    lost = [len(losses) - len(kept) for losses, kept in zip(finals, seen, strict=True)]
    lines = _levels(chance, floor)
    ends = _ends(seen, lines, VIEW_LIMIT * max(chance) if chance else math.inf, log)

    data = [_level(value, len(labels), ends, log, size) for _, value in lines]
    right = 5 * size.font
    labels_above = _level_labels(lines, ends, log, width - right - 12, size)
    rows = 1 + max([label["yshift"] for label in labels_above], default=-size.small - 5) // (
        size.small + 5
    )
    top, bottom = rows * (size.small + 5) + 6, round(3.4 * size.small) + 4
    layout = base_layout(
        _results_alt(labels, seen, lost, lines),
        height or top + bottom + round(3.1 * size.font) * len(labels),
        projector,
        f"results {log}",
    )
    layout |= {
        "margin": {"l": 12, "r": right, "t": top, "b": bottom},
        "showlegend": False,
        "barmode": "overlay",
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": "final loss (nats)", "standoff": 4, "font": {"size": size.small}},
            "tickfont": {"size": size.small},
            "range": list(ends),
            "zeroline": not log,
        },
        "yaxis": {"range": [len(labels) - 0.5, -0.5], "visible": False, "fixedrange": True},
        "annotations": labels_above,
    }
    if log:
        layout["xaxis"] |= {"type": "log", "dtick": "D1" if ends[1] - ends[0] < 1 else 1}
    for row, (label, losses, colour) in enumerate(zip(labels, seen, colours, strict=True)):
        count = len(finals[row])
        data += _row(row, label, losses, count, run_colour(colour), ends, log, size)
        layout["annotations"] += _row_texts(row, label, losses, lost[row], count, width, size)
    return {"data": data, "layout": layout}


def _levels(chance: tuple[float, float] | None, floor: float | None) -> list[tuple[str, float]]:
    """(name, loss) of the lines, from the lowest on; equal chances are one line."""
    lines = [("floor", floor)] if floor is not None else []
    if chance is not None:
        uniform, blind = chance
        if abs(uniform - blind) < 1e-3 * max(uniform, 1e-9):
            return [*lines, ("chance", blind)]
        lines += [("blind guess", blind), ("uniform guess", uniform)]
    return lines


def _ends(
    seen: Sequence[np.ndarray], lines: Sequence[tuple[str, float]], limit: float, log: bool
) -> tuple[float, float]:
    """Ends of the loss axis; of a log axis, in powers of ten."""
    values = [float(loss) for losses in seen for loss in losses] + [value for _, value in lines]
    if not log:
        return 0.0, min(1.05 * max([*values, 0.0]) or 1.0, limit)
    powers = [math.log10(value) for value in values if value > 0] or [0.0]
    return min(powers) - 0.1, max(powers) + 0.1


def _row(
    row: int,
    label: str,
    losses: np.ndarray,
    count: int,
    colour: str,
    ends: tuple[float, float],
    log: bool,
    size: Sizes,
) -> list[dict[str, Any]]:
    """Bar to the mean, the mean as a stroke, a dot for each seed: in the lower half of the row."""
    if not losses.size:
        return []
    mean, y = float(losses.mean()), row + BAR
    end = math.inf if log else ends[1]
    shared = {"name": escape(label), "y": [y]}
    points = shared | {"type": "scatter", "mode": "markers", "cliponaxis": False}
    bar = shared | {
        "type": "bar",
        "orientation": "h",
        "x": [min(mean, end)],
        "width": 0.4,
        "marker": {"color": colour, "line": {"width": 0}},
        "opacity": 0.3,
        "hoverinfo": "skip",
    }
    stroke = points | {
        "x": [min(mean, end)],
        "marker": {
            "symbol": "line-ns",
            "size": size.font,
            "line": {"width": size.line * 1.4, "color": colour},
        },
        "text": [f"mean <b>{mean:.4f}</b>"],
        "hovertemplate": "%{text}",
    }
    dots = points | {
        "x": np.minimum(losses, end),
        # Neighbouring seeds at three heights, so that equal losses are seen to be several.
        "y": [y + 0.11 * (i % 3 - 1) if losses.size > 1 else y for i in range(losses.size)],
        "marker": {
            "color": colour,
            "size": size.marker * 1.2,
            "opacity": 0.85,
            "symbol": ["circle" if loss <= end else "triangle-right" for loss in losses],
        },
        "text": [f"seed {i + 1} of {count}: <b>{x:.4f}</b>" for i, x in enumerate(losses)],
        "hovertemplate": "%{text}",
    }
    return [dots, stroke] if log else [bar, dots, stroke]


def _row_texts(
    row: int,
    label: str,
    losses: np.ndarray,
    lost: int,
    count: int,
    width: int,
    size: Sizes,
) -> list[dict[str, Any]]:
    """The label above the bar, the mean at the right of it; above that, how many diverged."""
    shared = {"yref": "y", "showarrow": False, "font": {"size": size.font, "color": TEXT}}
    above = shared | {"xref": "paper", "y": row + BAR - 0.2, "yanchor": "bottom"}
    note = f"{lost} of {count} diverged" if lost else "" if losses.size else "no result yet"
    fits = int((width - 28) / (0.55 * size.font)) - len(note)
    texts = [above | {"text": escape(_shortened(label, fits)), "x": 0, "xanchor": "left"}]
    right = {"xref": "paper", "x": 1, "xanchor": "right", "xshift": round(4.5 * size.font)}
    if note:
        texts.append(above | right | {"text": note, "font": {"size": size.small, "color": TEXT}})
    if losses.size:
        mean = float(losses.mean())
        text = f"<b>{mean:.3f}</b>" if mean < 100 else f"<b>{mean:.4g}</b>"
        texts.append(shared | right | {"text": text, "y": row + BAR})
    return texts


def _level(
    value: float, rows: int, ends: tuple[float, float], log: bool, size: Sizes
) -> dict[str, Any]:
    """Upright line through the bars. It spares the labels above them, which stand at the left."""
    y: list = []
    for row in range(rows):
        y += [row + BAR - 0.2, row + BAR + 0.2, None]
    if _in_right_half(value, ends, log):
        y[0] = -0.5
    return {
        "type": "scatter",
        "x": [None if at is None else value for at in y],
        "y": y,
        "mode": "lines",
        "line": {"color": MUTED, "width": size.thin},
        "hoverinfo": "skip",
    }


def _in_right_half(value: float, ends: tuple[float, float], log: bool) -> bool:
    return (math.log10(max(value, 1e-12)) if log else value) > sum(ends) / 2


def _level_labels(
    lines: Sequence[tuple[str, float]], ends: tuple[float, float], log: bool, room: int, size: Sizes
) -> list[dict[str, Any]]:
    """Above the plot, in as many rows as keep them apart; `room` is the width of the plot."""
    labels: list[dict[str, Any]] = []
    taken: list[tuple[int, float, float]] = []
    for name, value in lines:
        # Annotations count in powers of ten on a log axis.
        at = math.log10(max(value, 1e-12)) if log else value
        right = _in_right_half(value, ends, log)
        text = f"{name} {value:.3f}"
        start = (at - ends[0]) / (ends[1] - ends[0]) * room
        span = 0.55 * size.small * len(text)
        start, end = (start - span, start) if right else (start, start + span)
        row = 0
        while any(row == other and start < b + 8 and a < end + 8 for other, a, b in taken):
            row += 1
        taken.append((row, start, end))
        labels.append(
            {
                "text": text,
                "xref": "x",
                "x": at,
                "xanchor": "right" if right else "left",
                "yref": "paper",
                "y": 1,
                "yanchor": "bottom",
                "yshift": row * (size.small + 5),
                "showarrow": False,
                "font": {"size": size.small, "color": MUTED},
            }
        )
    return labels


def _results_alt(
    labels: Sequence[str],
    seen: Sequence[np.ndarray],
    lost: Sequence[int],
    lines: Sequence[tuple[str, float]],
) -> str:
    parts = []
    for label, losses, gone in zip(labels, seen, lost, strict=True):
        said = []
        if losses.size:
            said.append(f"mean {losses.mean():.3f}")
        if losses.size > 1:
            said[0] += f" ({losses.min():.3f} to {losses.max():.3f} in {losses.size} seeds)"
        if gone:
            said.append(f"{gone} of {gone + losses.size} seeds diverged")
        parts.append(f"{label}: {', '.join(said) or 'no result yet'}")
    text = "Final loss of each variant, in nats. " + "; ".join(parts) + "."
    if lines:
        text += " For comparison: " + ", ".join(f"{n} {v:.3f}" for n, v in reversed(lines)) + "."
    return text
