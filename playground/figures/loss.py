"""The loss chart: curves, chance lines, floor, what changed, learning rate."""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

REACH = 10  # steps to each side over which a loss is smoothed
LEAST_REACH = 2  # and at both ends of a curve, where one side has none
MAX_POINTS = 1200
MARK_ROWS = 2
LETTER = 0.52  # of its height: the usual width of a letter
# What stands beside the level lines, in two short lines.
BESIDE = {
    "chance": "chance<br>{:.3f}",
    "uniform guess": "uniform<br>guess {:.3f}",
    "guess without reading": "guess without<br>reading {:.3f}",
    "floor": "floor<br>{:.3f}",
}
# For the back row there are fewer: of two guesses the better one.
BESIDE_PROJECTED = {
    "chance": "chance<br>{:.2f}",
    "guess without reading": "guess<br>{:.2f}",
    "floor": "floor<br>{:.2f}",
}
NOT_BEGUN = "press Play:<br>the loss appears here"


@dataclass(frozen=True)
class Curve:
    """One run: its training loss per step, and its validation loss at fewer steps.

    Args:
        marks: (step, what changed after it): nothing is smoothed or joined across.
        ghost: an earlier run kept for comparison: its colour stays, dimmed.
    """

    label: str
    steps: Sequence[int] = ()
    loss: Sequence[float] = ()
    val_steps: Sequence[int] = ()
    val_loss: Sequence[float] = ()
    lr: Sequence[float] = ()
    colour_index: int = 0
    ghost: bool = False
    marks: Sequence[tuple[int, str]] = ()

    @cached_property
    def smoothed(self) -> np.ndarray:
        """The loss at each step, smoothed."""
        begins = np.searchsorted(self.steps, [step for step, _ in self.marks], "right")
        return smooth(self.loss, begins)


def smooth(values: ArrayLike, begins: Sequence[int] = ()) -> np.ndarray:
    """Mean of each value and of those around it: as many before as after, at most 10.

    So a falling curve is smoothed where it is, not where it was a moment ago. At an end, where
    one side has none, two of the other side are taken nevertheless. What is not finite is skipped.

    Args:
        begins: indices at which something new begins: no mean reaches across.
    """
    parts = np.split(np.asarray(values, dtype=float), sorted(begins))
    return np.concatenate([_smoothed(part) if part.size else part for part in parts])


def _smoothed(numbers: np.ndarray) -> np.ndarray:
    count, seen = len(numbers), np.isfinite(numbers)
    finite = np.where(seen, numbers, 0)
    sums, weight = (
        np.convolve(row, np.ones(2 * REACH + 1), "same")[:count] for row in (finite, seen)
    )
    for i in {*range(count)[:REACH], *range(count)[-REACH:]}:
        reach = max(LEAST_REACH, min(i, count - 1 - i, REACH))
        around = slice(max(i - reach, 0), i + reach + 1)
        sums[i], weight[i] = finite[around].sum(), seen[around].sum()
    return np.divide(sums, weight, out=np.full(count, np.nan), where=weight > 0)


def loss_chart(
    curves: Sequence[Curve],
    *,
    chance: tuple[float, float] | None = None,
    floor: float | None = None,
    earlier_floors: Sequence[tuple[int, int, float | None]] = (),
    shown: int | None = None,
    log: bool = False,
    show_lr: bool = False,
    total_steps: int | None = None,
    empty: str = NOT_BEGUN,
    width: int = 500,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Loss over the steps, in nats per scored token.

    Args:
        curves: the live run and its ghosts, in drawing order.
        chance: loss of a uniform guess, and of the best guess that ignores the input.
        floor: loss that no model can beat, where the task knows it.
        earlier_floors: (first step, last step, floor) before a change that has moved it.
        shown: a step to point at.
        log: logarithmic loss axis.
        show_lr: the learning rate of the runs that are no ghosts, on a second axis.
        total_steps: right end of the step axis, so that the curve is seen to advance.
        empty: what stands in the chart while there is no loss.
        width: pixels the figure will about have, for the rows of the legend.
    """
    alone = sum(not curve.ghost for curve in curves) == 1
    traces = [t for curve in curves for t in _curve_traces(curve, alone, show_lr, size)]
    losses = [trace["y"] for trace in traces if "yaxis" not in trace]  # thinned, with all extremes
    last = max([s for c in curves for s in (*c.steps[-1:], *c.val_steps[-1:])], default=0)
    end = max(total_steps or 0, last, 1)
    groups: dict[str, list[str]] = {}
    for trace in traces:
        if trace["showlegend"]:
            groups.setdefault(trace["legendgroup"], []).append(trace["name"])

    marks = [mark for curve in curves if not curve.ghost for mark in curve.marks]
    ghost_marks = [(step, curve) for curve in curves if curve.ghost for step, _ in curve.marks]
    alt = _alt(curves, chance, floor, marks)
    figure = panels.new_figure(alt, size, f"loss {log}", hovermode="x unified")
    layout = figure["layout"]
    layout |= style.legend_below(groups.values(), width, size, rows=style.LEGEND_ROWS)
    layout["margin"] |= {"t": MARK_ROWS * (size.small + 6)} | sides(size)
    figure["data"] += traces
    panels.add_panel(figure, 0, style.step_axis(end), panels.axis("loss (nats)"))
    layout["shapes"] += [
        *(
            panels.upright(s, size.thin, colour=style.run_colour(c.colour_index))
            for s, c in ghost_marks
        ),
        *(panels.upright(step, size.thin, colour=style.TEXT) for step, _ in marks),
        *(panels.upright(step, size.line) for step in [shown] if step is not None),
    ]
    layout["annotations"] += _mark_labels(marks, end, width, layout["margin"], size)
    beside = 0
    if show_lr:
        beside = 5 * size.font
        layout["margin"]["r"] += beside
        layout["yaxis2"] = panels.axis(
            "learning rate",
            size,
            overlaying="y",
            side="right",
            showgrid=False,
            rangemode="tozero",
            tickmode="auto",
            tickformat=".2~e",
        )
    for start, stop, level in earlier_floors:
        if level is not None and (level > 0 or not log):
            figure["data"].append(panels.reference_line(level, stop, size, start=start))
            losses.append([level])
    begin = max((stop for _, stop, _ in earlier_floors), default=0)
    fit_losses(figure, losses, chance, floor, end, log, size, beside, floor_from=begin)
    if not any(len(curve.loss) for curve in curves):
        layout["annotations"].append(panels.note(empty))
    return figure


def sides(size: Sizes) -> dict[str, int]:
    """Margins of a chart of losses: to the right are the labels of its level lines."""
    return {"l": round(4.6 * size.small), "r": round((4 if size.projector else 8) * size.small)}


def fit_losses(
    figure: Figure,
    losses: Iterable[ArrayLike],
    chance: tuple[float, float] | None,
    floor: float | None,
    end: float,
    log: bool,
    size: Sizes,
    beside: int = 0,
    limit: float = math.inf,
    floor_from: float = 0,
) -> None:
    """Give a chart of losses its vertical axis, and the level lines with their labels beside it.

    Args:
        losses: all that is to be seen.
        end: of the step axis.
        beside: pixels to the right of the plot that another axis takes.
        limit: the axis ends here, even where a loss goes on.
        floor_from: the step from which the floor holds.
    """
    layout = figure["layout"]
    beside_it = BESIDE_PROJECTED if size.projector else BESIDE
    levels = [
        (name, value)
        for name, value in reference_levels(chance, floor)
        if name in beside_it and (value > 0 or not log)
    ]
    numbers = np.concatenate([*map(np.asarray, losses), [value for _, value in levels]])
    numbers = numbers[np.isfinite(numbers) & ((numbers > 0) | (not log))]
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.1, 1.0)
    if log:
        ends = math.log10(low) - 0.05, math.log10(high) + 0.05
        layout["yaxis"] |= {"type": "log", "dtick": "D2"}
    else:
        ends = min(0.0, low), min(1.05 * high or 1.0, limit)
    layout["yaxis"]["range"] = list(ends)
    begins = {"floor": floor_from}
    figure["data"] += [
        panels.reference_line(value, end, size, start=begins.get(name, 0)) for name, value in levels
    ]
    height = size.height - layout["margin"]["t"] - layout["margin"]["b"]
    labels = [(beside_it[name].format(value), value) for name, value in levels]
    layout["annotations"] += panels.labels_beside(
        labels, ends, height, size, log=log, xshift=6 + beside
    )


def _curve_traces(curve: Curve, alone: bool, show_lr: bool, size: Sizes) -> list[dict[str, Any]]:
    """Raw loss faint, smoothed loss bold, validation as points: one colour."""
    shown = kept(curve.loss[: len(curve.steps)])
    marks = [step for step, _ in curve.marks]
    steps = [curve.steps[i] for i in shown]
    opacity = 0.45 if curve.ghost else 1

    def trace(kind: str, x: Sequence, y: Sequence, width: float, **more: Any) -> dict[str, Any]:
        name = kind if alone and not curve.ghost else f"{curve.label}, {kind}"
        values = {"name": name, "opacity": opacity, "hover": "%{y:.4f}"}
        own = {"uid": uid(curve, kind), "legendgroup": f"{curve.label} {curve.colour_index}"}
        colour = style.run_colour(curve.colour_index)
        return panels.line(x, style.finite(y), colour, width, **own, **(values | more))

    traces = [
        trace(
            "each step",
            steps,
            [curve.loss[i] for i in shown],
            size.thin,
            opacity=0.15 if curve.ghost else 0.35,
            showlegend=False,
        ),
        trace(
            "smoothed",
            *panels.with_gaps(steps, curve.smoothed[shown], marks),
            size.line * (0.7 if curve.ghost else 1),
            name=curve.label,
        ),
    ]
    if len(curve.val_loss):
        traces.append(
            trace(
                "validation",
                curve.val_steps,
                curve.val_loss,
                size.thin,
                mode="markers",
                marker={"size": size.marker, "symbol": "diamond"},
                cliponaxis=False,
                showlegend=not curve.ghost,
            )
        )
    if show_lr and len(curve.lr) and not curve.ghost:
        rates = [curve.lr[i] for i in shown]
        rate = trace("learning rate", steps, rates, size.thin, dash="dot", hover="%{y:.3e}")
        rate["line"]["color"] = style.TEXT
        traces.append(rate | {"yaxis": "y2"})
    return traces


def uid(curve: Any, kind: str) -> str:
    """By what the browser knows a line again when other runs come and go, hidden or shown.

    Plotly puts it into a CSS selector, so letters and digits only.

    Args:
        curve: what has a label and a colour_index.
        kind: which of its lines.
    """
    return f"t{zlib.crc32(f'{curve.label} {curve.colour_index} {kind}'.encode()):08x}"


def kept(values: Sequence[float]) -> list[int]:
    """Indices of at most about MAX_POINTS values: each bucket's smallest, largest and last."""
    count = len(values)
    if count <= MAX_POINTS:
        return list(range(count))
    bucket = -(-count // (MAX_POINTS // 3))
    numbers = np.nan_to_num(np.asarray(values, dtype=float), posinf=0, neginf=0)
    chosen = {0}
    for start in range(0, count, bucket):
        part = numbers[start : start + bucket]
        chosen |= {start + int(part.argmin()), start + int(part.argmax()), start + len(part) - 1}
    return sorted(chosen)


def reference_levels(
    chance: tuple[float, float] | None, floor: float | None
) -> list[tuple[str, float]]:
    """(name, loss) of what a loss is compared with, highest first; one if both are equal."""
    levels = [] if floor is None else [("floor", floor)]
    if chance is None:
        return levels
    uniform, blind = chance
    if abs(uniform - blind) < 1e-3 * max(uniform, 1e-9):
        return [("chance", blind), *levels]
    return [("uniform guess", uniform), ("guess without reading", blind), *levels]


def _mark_labels(
    marks: Sequence[tuple[int, str]], end: int, width: int, margin: dict[str, int], size: Sizes
) -> list[dict[str, Any]]:
    """What changed, above the plot in rows: the newest first, as long as there is room.

    Of the others there is the line; what they changed is in the text alternative.
    """
    across = width - margin["l"] - margin["r"]
    taken: list[list[tuple[float, float]]] = [[] for _ in range(MARK_ROWS)]
    labels = []
    for step, text in reversed(marks):
        left, wide = step < 0.6 * end, LETTER * size.small * (len(text) + 1)
        start = step / end * across - (0 if left else wide)
        stop = start + wide
        free = (
            row
            for row, others in enumerate(taken)
            if all(stop < other or start > last for other, last in others)
        )
        if (row := next(free, None)) is None:
            continue
        taken[row].append((start, stop))
        labels.append(
            panels.annotation(
                style.escape(text),
                step,
                1,
                size=size.small,
                yref="y domain",
                xanchor="left" if left else "right",
                xshift=-3 if left else 3,
                yanchor="bottom",
                yshift=(size.small + 5) * row,
            )
        )
    return labels[::-1]


def _alt(
    curves: Sequence[Curve],
    chance: tuple[float, float] | None,
    floor: float | None,
    marks: Sequence[tuple[int, str]],
) -> str:
    parts = []
    for curve in curves:
        losses = style.finite(curve.loss)
        losses = losses[np.isfinite(losses)]
        if losses.size:
            part = (
                f"{curve.label}: loss {losses[0]:.3f} at first, {_last(curve):.3f} over the last "
                f"steps, up to step {curve.steps[-1]}"
            )
            if len(curve.val_loss):
                part += f", validation {curve.val_loss[-1]:.3f}"
            parts.append(part)
    text = "Loss over the training steps. " + ("; ".join(parts) or "Nothing has run yet") + "."
    text += levels_in_words(chance, floor)
    if marks:
        text += " Changed: " + "; ".join(f"{what} at step {step}" for step, what in marks) + "."
    return text


def _last(curve: Curve) -> float:
    """The smoothed loss at the end of the curve."""
    return float(curve.smoothed[np.isfinite(curve.smoothed)][-1])


def levels_in_words(chance: tuple[float, float] | None, floor: float | None) -> str:
    """What a text alternative says of the reference lines."""
    text = ""
    if chance is not None:
        uniform, blind = chance
        text += f" A uniform guess has {uniform:.3f}, a guess that ignores the input {blind:.3f}."
    if floor is not None:
        text += f" No model can be below {floor:.3f}."
    return text
