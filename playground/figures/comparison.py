"""Figures of the Compare page: bands over seeds, maps side by side, final losses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.attention import STAGES, attention_maps, largest_cell
from playground.figures.loss import (
    NOT_BEGUN,
    fit_losses,
    levels_in_words,
    reference_levels,
    sides,
    smooth,
    uid,
)
from playground.figures.style import Figure, Sizes

BAND_POINTS = 600
# A loss this many times above chance would press all other curves flat onto the axis.
VIEW_LIMIT = 3
# Blue below 0, orange above, and the page itself at 0: clear on light and on dark.
DIFFERENCE_SCALE = [
    [0.0, style.RUN_COLOURS[0]],
    [0.5, "rgba(0,114,178,0)"],
    [0.5, "rgba(213,94,0,0)"],
    [1.0, style.RUN_COLOURS[1]],
]
LEAST_DIFFERENCE = 0.01
# The hover of a larger map shows the difference without what it is the difference of.
WORDED_CELLS = 1024
BAR = 0.17  # how far below the middle of its row a bar is


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
    marks: Sequence[int] = ()  # steps after which something changed: nothing is smoothed across


# --- curves over seeds --------------------------------------------------------------------------


def comparison_chart(
    bands: Sequence[Band],
    *,
    chance: tuple[float, float] | None = None,
    floor: float | None = None,
    total_steps: int | None = None,
    log: bool = False,
    empty: str = NOT_BEGUN,
    width: int = 900,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Loss of several variants over the steps: the mean of the seeds in the band of all of them.

    Lines and bands are smoothed in the same way, so each seed's smoothed curve lies within its
    band. The hover shows the values of that very step, not smoothed. What is not finite is a gap.
    On the linear axis a loss far above chance is cut off, and a note says how far it goes.

    Args:
        bands: one for each variant, in drawing order; a band of one seed is a line.
        chance: loss of a uniform guess, and of the best guess that ignores the input.
        floor: loss that no model can beat, where the task knows it.
        total_steps: right end of the step axis.
        log: logarithmic loss axis.
        empty: what stands in the chart while there is no loss.
        width: pixels the figure will about have, for the rows of the legend.
    """
    steps = [int(step) for band in bands for step in band.steps[-1:]]
    end = max([total_steps or 0, *steps, 1])
    # Longer samples than usual, for the dashes; the names make room for them.
    sample = round(22 * size.line)
    longer = " " * math.ceil((sample - 30) / (0.52 * size.small))
    below = style.legend_below([band.label + longer for band in bands], width, size)
    below["legend"] |= {"itemwidth": sample, "traceorder": "normal"}
    below["margin"] |= sides(size)
    alt = _bands_alt(bands, chance, floor)
    figure = panels.new_figure(alt, size, f"comparison {log}", hovermode="x unified", **below)
    layout = figure["layout"]
    panels.add_panel(figure, 0, style.step_axis(end), panels.axis("loss (nats)"))
    layout["xaxis"]["unifiedhovertitle"] = {"text": "step %{x}: mean (lowest to highest seed)"}
    shared = (chance, floor, end, log, size)
    if not steps:
        fit_losses(figure, [], *shared)
        layout["annotations"].append(panels.note(empty))
        return figure
    # A power of two, the same for all: lines of different lengths keep points at common steps.
    longest = max(len(band.steps) for band in bands)
    stride = 2 ** max(math.ceil(math.log2(longest / BAND_POINTS)), 0)
    drawn = [_Drawn(band, stride) for band in bands]
    # All bands lie below all lines.
    figure["data"] += [trace for item in drawn for trace in item.area(log)]
    figure["data"] += [item.line(log, size) for item in drawn]
    limit = math.inf if log or chance is None else VIEW_LIMIT * max(chance)
    seen = [row for item in drawn for row in (item.low, item.high)]
    fit_losses(figure, seen, *shared, limit=limit)
    layout["annotations"] += _beyond(drawn, limit, size)
    return figure


class _Drawn:
    """A band with what is drawn of it."""

    def __init__(self, band: Band, stride: int) -> None:
        self.band, self.colour = band, style.run_colour(band.colour_index)
        rows = np.array([band.mean, band.low, band.high], dtype=np.float64)
        gaps = ~np.isfinite(rows).all(0)
        rows[:, gaps] = np.nan
        begins = np.searchsorted(band.steps, band.marks, "right")
        rows = np.array([smooth(row, begins) for row in rows]).reshape(rows.shape)
        rows[:, gaps] = np.nan
        count = rows.shape[1]
        self.shown = sorted({*range(0, count, stride), *range(count)[-1:]})
        self.steps = np.asarray(band.steps)[self.shown]
        self.mean, self.low, self.high = rows[:, self.shown]

    def _about(self, kind: str) -> dict[str, Any]:
        key = f"{self.band.label} {self.band.colour_index}"
        return {"uid": uid(self.band, kind), "legendgroup": key, "name": self.band.label}

    def area(self, log: bool) -> list[dict[str, Any]]:
        """From the lowest to the highest seed; nothing for one seed."""
        if self.band.n_seeds < 2:
            return []
        seen = np.isfinite(self.low)
        if log:
            seen &= self.low > 0
        # There and back, once for each part between two gaps.
        x, y, gap = [], [], [np.nan]
        for start, end in _parts(seen):
            there = slice(start, end)
            x += [self.steps[there], self.steps[there][::-1], gap]
            y += [self.high[there], self.low[there][::-1], gap]
        x = np.concatenate([*x, gap]).astype(np.float32)[:-1]
        y = np.round(np.concatenate([*y, gap])[:-1], 5)
        fill = {"fill": "toself", "fillcolor": self.colour, "opacity": 0.2, "showlegend": False}
        return [panels.line(x, y, self.colour, 0, **self._about("band"), **fill)]

    def line(self, log: bool, size: Sizes) -> dict[str, Any]:
        band, values = self.band, style.positive(self.mean) if log else style.finite(self.mean)
        exact = np.array([band.mean, band.low, band.high])[:, self.shown].T
        hover = "<b>%{customdata[0]:.4f}</b>"
        if band.n_seeds > 1:
            hover += " (%{customdata[1]:.4f} to %{customdata[2]:.4f}, "
            hover += f"{band.n_seeds} seeds)"
        return panels.line(
            self.steps.tolist(),
            values,
            self.colour,
            size.line,
            dash=style.dash(band.colour_index),
            hover=hover,
            customdata=np.round(exact, 4),
            **self._about("mean"),
        )


def _parts(seen: np.ndarray) -> list[tuple[int, int]]:
    """Start and end of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], seen, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _beyond(drawn: Sequence[_Drawn], limit: float, size: Sizes) -> list[dict[str, Any]]:
    """Which curves leave the loss axis at its limit, and how far they go."""
    peaks = [(float(np.nanmax(d.high)), d) for d in drawn if np.isfinite(d.high).any()]
    beyond = [(peak, d.band.label) for peak, d in peaks if peak > limit]
    if not beyond:
        return []
    lines = [f"↑ {style.escape(label)} goes up to {peak:.4g}" for peak, label in beyond]
    corner = {"xanchor": "right", "yanchor": "top", "align": "right"}
    return [
        panels.annotation("<br>".join(lines), 0.995, 1, size=size.small, **panels.over(0), **corner)
    ]


def _bands_alt(
    bands: Sequence[Band], chance: tuple[float, float] | None, floor: float | None
) -> str:
    parts = []
    for band in bands:
        means = style.finite(band.mean)
        seen = np.flatnonzero(np.isfinite(means))
        if seen.size:
            last = int(seen[-1])
            part = f"{band.label}: loss {means[last]:.3f} at step {int(band.steps[last])}"
            if band.n_seeds > 1:
                part += f" ({band.low[last]:.3f} to {band.high[last]:.3f} in {band.n_seeds} seeds)"
            parts.append(part)
    text = "Mean loss of each variant over the training steps. "
    text += ("; ".join(parts) or "Nothing has run yet") + "."
    return text + levels_in_words(chance, floor)


# --- maps side by side --------------------------------------------------------------------------


def attention_side_by_side(
    maps: ArrayLike,
    titles: Sequence[str],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    stage: str = "weights",
    hidden: ArrayLike | None = None,
    width: int = 1000,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """One head of several variants on one colour scale; of two, how they differ as well.

    Trace i is variant i. With two there is a third map: the second minus the first. A weight that
    one mask hides counts as the 0 that it is; a score that a mask hides has no difference.

    Args:
        maps: [variants, query, key], scores or weights of the same layer, head and example.
        titles: one for each variant.
        query_tokens, key_tokens: what is printed along the axes.
        stage: one of `STAGES`.
        hidden: what the mask hides, [query, key] or [variants, query, key]; from stage "masked" on.
        width: pixels the figure will about have; square maps of that width give the height: about
            430 for two maps and their difference, about 760 for six maps, in two rows.
    """
    values = np.array(maps, dtype=np.float32)
    if values.ndim != 3:
        raise ValueError(f"maps has {values.ndim} axes; it needs three: variants, query, key")
    if len(titles) != len(values):
        raise ValueError(f"{len(titles)} titles for {len(values)} maps: each map has one")
    if not values.size:
        return panels.empty_figure("no attention to show", size=size)
    # The difference replaces one more map: the first once more, until it is known.
    both = hidden if hidden is None else np.broadcast_to(np.asarray(hidden, bool), values.shape)
    pair = len(values) == 2
    if pair:
        values = np.concatenate([values, values[:1]])
        both = both if both is None else np.concatenate([both, both[:1]])
    figure = attention_maps(
        values,
        query_tokens,
        key_tokens,
        stage=stage,
        hidden=both,
        titles=[*titles, "difference"] if pair else titles,
        width=width,
        size=size._replace(height=None),
    )
    layout = figure["layout"]
    layout["uirevision"] = f"beside {values.shape} {pair}"
    if pair:
        _difference(figure, titles, stage, width, size)
    _wrap_titles(layout, width, size)
    layout["meta"]["alt"] = _beside_alt(figure, titles, query_tokens, key_tokens, stage)
    return figure


def _difference(figure: Figure, titles: Sequence[str], stage: str, width: int, size: Sizes) -> None:
    """Turn the third map of the figure into the difference of the other two."""
    layout, trace = figure["layout"], figure["data"][2]
    first, second = (figure["data"][i]["z"] for i in (0, 1))
    change = second - first
    if stage == "weights":
        change = np.nan_to_num(second) - np.nan_to_num(first)
        change[np.isnan(first) & np.isnan(second)] = np.nan
    seen = np.abs(change[np.isfinite(change)])
    limit = style.nice_limit(max(float(seen.max(initial=0)), LEAST_DIFFERENCE))
    digits = 3 if stage == "weights" else 2

    def said(value: float) -> str:
        return "0" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")

    trace |= {
        "z": np.round(change, 4),
        "coloraxis": "coloraxis2",
        "hovertemplate": (
            f"query %{{y:d}} “%{{y}}”<br>key %{{x:d}} “%{{x}}”<br><b>%{{z:+.{digits}f}}</b>"
        ),
    }
    if change.size <= WORDED_CELLS:
        trace["hovertemplate"] += "%{text}"
        trace["text"] = [
            [
                "" if np.isnan(d) else f" = {said(b)} − {said(a)}"
                for a, b, d in zip(*row, strict=True)
            ]
            for row in zip(first, second, change, strict=True)
        ]
    # A bar below the two maps, and one below the difference.
    (start, _), (_, end), own = (layout[f"xaxis{i}"]["domain"] for i in ("", "2", "3"))
    room = width * (own[1] - own[0]) * 0.85
    length = round(min(style.BAR_LENGTH, room))
    layout["coloraxis"]["colorbar"] |= {"x": (start + end) / 2, "len": length}
    marks = (-limit, -limit / 2, 0.0, limit / 2, limit)
    layout["coloraxis2"] = panels.colour_axis(
        DIFFERENCE_SCALE,
        -limit,
        limit,
        style.escape(_shortened(f"{titles[1]} − {titles[0]}", int(room / (0.5 * size.small)))),
        size,
        x=sum(own) / 2,
        len=length,
        tickvals=marks,
        ticktext=[f"{mark:+g}".replace("-", "−") if mark else "0" for mark in marks],
        outlinewidth=1,
        outlinecolor=style.GRID,
    )
    # The ground that tells hidden cells lies under the maps alone: 0 is clear in the difference.
    del layout["plot_bgcolor"]
    layout["shapes"] += [
        _ground(0, style.HIDDEN, 0),
        _ground(1, style.HIDDEN, 0),
        _ground(2, style.CLEAR, 1),
    ]
    hatches = [image for image in layout.get("images", []) if image["xref"] != "x3"]
    if hatches and np.isnan(change).any():
        source = _hatched(hatches[0]["source"], np.isnan(change))
        hatches.append(hatches[0] | panels.at(2) | {"source": source})
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


def _ground(panel: int, colour: str, border: int) -> dict[str, Any]:
    edge = {"color": style.GRID, "width": border}
    return panels.rectangle(0, 1, 0, 1, edge, layer="below", fillcolor=colour, **panels.over(panel))


def _shortened(text: str, fits: int) -> str:
    return text if len(text) <= fits else text[: max(fits - 1, 1)] + "…"


def _wrap_titles(layout: dict[str, Any], width: int, size: Sizes) -> None:
    """Set titles wider than their map in two smaller lines, at most."""
    start, end = layout["xaxis"]["domain"]
    slot = (end - start) * (width - layout["margin"]["l"] - layout["margin"]["r"])
    rows = {made["domain"][0] for name, made in layout.items() if name.startswith("yaxis")}
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
        title["text"] = "<br>".join(map(style.escape, lines))
        title["font"] = title["font"] | {"size": font}
    if wrapped:
        layout["margin"]["t"] += size.small


def _beside_alt(
    figure: Figure,
    titles: Sequence[str],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    stage: str,
) -> str:
    maps = [trace["z"] for trace in figure["data"]]
    text = f"Attention {STAGES[stage]} of one head in {len(titles)} variants."
    names = [f"{title}: largest" for title in titles]
    if len(maps) > len(titles):
        names.append(f"Largest difference, {titles[1]} minus {titles[0]}:")
    for name, matrix in zip(names, maps, strict=True):
        if np.isfinite(matrix).any():
            text += f" {name} {largest_cell(matrix, query_tokens, key_tokens)}."
    return text


# --- where each variant ends --------------------------------------------------------------------


def results_bars(
    labels: Sequence[str],
    finals: Sequence[Sequence[float]],
    *,
    chance: tuple[float, float] | None = None,
    floor: float | None = None,
    step: int | None = None,
    width: int = 500,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Final loss of each variant: a dot for each seed, a bar up to their mean.

    A loss far above chance is drawn as an arrow at the right end.

    Args:
        labels: one for each variant, from top to bottom.
        finals: the final loss of each seed of each variant, in nats; a number that is not finite
            says that this seed diverged.
        chance: loss of a uniform guess, and of the best guess that ignores the input.
        floor: loss that no model can beat.
        step: at which the losses were read; None: at the end.
        width: pixels the figure will about have.
    """
    if len(labels) != len(finals):
        raise ValueError(f"{len(labels)} labels for {len(finals)} lists of losses: each has one")
    if not labels:
        return panels.empty_figure("no results yet", size=size)
    seen = [style.finite(losses) for losses in finals]
    seen = [losses[np.isfinite(losses)] for losses in seen]
    lost = [len(losses) - len(kept) for losses, kept in zip(finals, seen, strict=True)]
    levels = reference_levels(chance, floor)
    values = [*(float(x) for losses in seen for x in losses), *(value for _, value in levels)]
    largest = max(values, default=0.0)
    end = min(1.05 * largest or 1.0, VIEW_LIMIT * max(chance) if chance else math.inf)

    right = 5 * size.font
    labels_above = _level_labels(levels, end, width - right - 12, size)
    highest = max((label["yshift"] for label in labels_above), default=-size.small - 5)
    what = "final loss" if step is None else f"loss at step {step}"
    figure = panels.new_figure(
        _results_alt(what, labels, seen, lost, levels),
        size,
        "results",
        margin=style.margin(12, right, highest + size.small + 11, 3.4 * size.small + 4),
        barmode="overlay",
        hovermode="closest",
    )
    figure["layout"]["annotations"] += labels_above
    figure["data"] += [_level(value, len(labels), end, size) for _, value in levels]
    x = panels.axis(f"{what} (nats)", size, range=[0, end], zeroline=True)
    y = {"range": [len(labels) - 0.5, -0.5], "visible": False, "fixedrange": True}
    panels.add_panel(figure, 0, x, y)
    for row, (label, losses, gone) in enumerate(zip(labels, seen, lost, strict=True)):
        figure["data"] += _row(row, label, losses, gone, end, size)
        figure["layout"]["annotations"] += _row_texts(row, label, losses, gone, width, size)
    return figure


def _row(
    row: int, label: str, losses: np.ndarray, lost: int, end: float, size: Sizes
) -> list[dict[str, Any]]:
    """Bar to the mean, the mean as a stroke, a dot for each seed: in the lower half of the row."""
    if not losses.size:
        return []
    mean, y, colour, count = float(losses.mean()), row + BAR, style.run_colour(row), losses.size
    stroke = {"width": size.line * 1.4, "color": colour}
    shared = {"name": label, "hover": "%{text}", "cliponaxis": False}
    return [
        panels.bars([y], [min(mean, end)], colour, across=True, width=0.4, opacity=0.3),
        panels.points(
            np.minimum(losses, end),
            # Neighbouring seeds at three heights, so that equal losses are seen to be several.
            [y + 0.11 * (i % 3 - 1) if count > 1 else y for i in range(count)],
            {
                "color": colour,
                "size": size.marker * 1.2,
                "opacity": 0.85,
                "symbol": ["circle" if loss <= end else "triangle-right" for loss in losses],
            },
            text=[f"seed {i + 1} of {count + lost}: <b>{x:.4f}</b>" for i, x in enumerate(losses)],
            **shared,
        ),
        panels.points(
            [min(mean, end)],
            [y],
            {"symbol": "line-ns", "size": size.font, "line": stroke},
            text=[f"mean <b>{mean:.4f}</b>"],
            **shared,
        ),
    ]


def _row_texts(
    row: int, label: str, losses: np.ndarray, lost: int, width: int, size: Sizes
) -> list[dict[str, Any]]:
    """The label above the bar, the mean at the right of it; above that, how many diverged."""
    gone = f"{lost} of {lost + losses.size} diverged" if lost else ""
    note = gone if gone or losses.size else "no result yet"
    fits = int((width - 28) / (0.55 * size.font)) - len(note)
    above = {"y": row + BAR - 0.2, "yanchor": "bottom", "xref": "paper"}
    right = {"x": 1, "xanchor": "right", "xshift": round(4.5 * size.font), "xref": "paper"}
    texts = [panels.annotation(style.escape(_shortened(label, fits)), x=0, xanchor="left", **above)]
    if note:
        texts.append(panels.annotation(note, size=size.small, **above | right))
    if losses.size:
        mean = float(losses.mean())
        text = f"<b>{mean:.3f}</b>" if mean < 100 else f"<b>{mean:.4g}</b>"
        texts.append(panels.annotation(text, y=row + BAR, **right))
    return texts


def _level(value: float, rows: int, end: float, size: Sizes) -> dict[str, Any]:
    """Upright line through the bars. It spares the labels above them, which are at the left."""
    y: list = []
    for row in range(rows):
        y += [row + BAR - 0.2, row + BAR + 0.2, None]
    if value > end / 2:
        y[0] = -0.5
    return panels.line([None if end is None else value for end in y], y, style.MUTED, size.thin)


def _level_labels(
    levels: Sequence[tuple[str, float]], end: float, room: int, size: Sizes
) -> list[dict[str, Any]]:
    """Above the plot, in as many rows as it takes; `room` is the width of the plot."""
    labels: list[dict[str, Any]] = []
    taken: list[tuple[int, float, float]] = []
    for name, value in reversed(levels):
        text, x, right = f"{name} {value:.3f}", value / end * room, value > end / 2
        span = 0.55 * size.small * len(text)
        left = x - span if right else x
        if left < 0:  # no room at the left of its line
            value, right, left = 0, False, 0
        row = 0
        while any(row == other and left < b + 8 and a < left + span + 8 for other, a, b in taken):
            row += 1
        taken.append((row, left, left + span))
        anchors = {"xanchor": "right" if right else "left", "yanchor": "bottom"}
        shift = {"yref": "paper", "yshift": row * (size.small + 5)}
        labels.append(
            panels.annotation(
                text, value, 1, size=size.small, colour=style.MUTED, **anchors, **shift
            )
        )
    return labels


def _results_alt(
    what: str,
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
    text = f"{what.capitalize()} of each variant, in nats. " + "; ".join(parts) + "."
    if lines:
        text += " For comparison: " + ", ".join(f"{n} {v:.3f}" for n, v in lines) + "."
    return text
