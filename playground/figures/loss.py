"""The loss chart: curves, chance lines, floor, what changed, learning rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playground.figures.style import (
    MUTED,
    TEXT,
    Figure,
    Sizes,
    base_layout,
    escape,
    finite,
    legend_below,
    note,
    reference_label,
    reference_line,
    run_colour,
    sizes,
    step_axis,
    step_label,
)

SMOOTHING = 0.9
MAX_POINTS = 1200
MARK_ROWS = 3


@dataclass(frozen=True)
class Curve:
    """One run: its training loss per step, and its validation loss at fewer steps.

    `ghost` marks an earlier run kept for comparison; it is drawn dimmed.
    """

    label: str
    steps: Sequence[int] = ()
    loss: Sequence[float] = ()
    val_steps: Sequence[int] = ()
    val_loss: Sequence[float] = ()
    lr: Sequence[float] = field(default=())
    colour_index: int = 0
    ghost: bool = False


def smooth(values: Sequence[float], factor: float = SMOOTHING) -> list[float]:
    """Exponential moving average, corrected for its start at zero; non-finite values are skipped.

    Corrected as in Adam (Kingma and Ba, 2015, section 3), so the first value is the first loss.
    """
    mean, weight, out = 0.0, 0.0, []
    for value in values:
        if math.isfinite(value):
            mean = factor * mean + (1 - factor) * value
            weight = factor * weight + 1 - factor
        out.append(mean / weight if weight else math.nan)
    return out


def loss_chart(
    curves: Sequence[Curve],
    *,
    chance: tuple[float, float] | None = None,
    floor: float | None = None,
    marks: Sequence[tuple[int, str]] = (),
    log: bool = False,
    show_lr: bool = False,
    total_steps: int | None = None,
    width: int = 500,
    height: int = 380,
    projector: bool = False,
) -> Figure:
    """Loss over the steps, in nats per scored token.

    Args:
        curves: the live run and its ghosts, in drawing order.
        chance: loss of a uniform guess, and of the best guess that ignores the input.
        floor: loss that no model can beat, where the task knows it.
        marks: (step, what changed at it).
        log: logarithmic loss axis.
        show_lr: the learning rate of the runs that are no ghosts, on a second axis.
        total_steps: right end of the step axis, so that the curve is seen to advance.
        width: pixels the figure will about have, for the rows of the legend.
    """
    size = sizes(projector)
    data: list[dict[str, Any]] = []
    for curve in curves:
        data += _curve_traces(curve, size)
        if show_lr and curve.lr and not curve.ghost:
            data.append(_lr_trace(curve, size))
    last = max([s for c in curves for s in (*c.steps[-1:], *c.val_steps[-1:])], default=0)
    end = max(total_steps or 0, last, 1)
    lines = _reference_lines(chance, floor)
    data += [reference_line(value, end, projector) for _, value, _ in lines]

    layout = base_layout(_alt(curves, chance, floor, marks), height, projector, "loss")
    shown = [trace["name"] for trace in data if trace.get("showlegend", True)]
    layout |= legend_below(shown, width, projector)
    if marks:
        layout["margin"]["t"] = MARK_ROWS * (size.small + 6)
    layout |= {
        "hovermode": "x unified",
        "xaxis": step_axis(end),
        "yaxis": {"title": {"text": "loss (nats)"}, "zeroline": False},
        "shapes": [_mark_line(step, size) for step, _ in marks],
        "annotations": [step_label(projector)]
        + [
            reference_label(label, value, projector, side=side, log=log)
            for label, value, side in lines
        ]
        + [_mark_label(i, step, text, end, size) for i, (step, text) in enumerate(marks)],
    }
    layout["yaxis"] |= {"type": "log"} if log else {"rangemode": "tozero"}
    if show_lr:
        layout["margin"]["r"] = 5 * size.font
        layout["yaxis2"] = {
            "title": {"text": "learning rate"},
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "zeroline": False,
            "rangemode": "tozero",
            "exponentformat": "power",
        }
    if not any(curve.loss for curve in curves):
        layout["annotations"].append(note("press Play: the loss appears here"))
    return {"data": data, "layout": layout}


def _curve_traces(curve: Curve, size: Sizes) -> list[dict[str, Any]]:
    """Raw loss faint, smoothed loss bold, validation dashed with markers: one colour."""
    colour = MUTED if curve.ghost else run_colour(curve.colour_index)
    name, smoothed = escape(curve.label), smooth(curve.loss)
    steps, raw, bold = thin(curve.steps, curve.loss, smoothed)
    line = {"type": "scatter", "legendgroup": name, "x": steps}
    traces = [
        line
        | {
            "name": f"{name}, each step",
            "y": finite(raw),
            "mode": "lines",
            "showlegend": False,
            "opacity": 0.15 if curve.ghost else 0.35,
            "line": {"color": colour, "width": size.thin},
            "hovertemplate": "%{y:.4f}",
        },
        line
        | {
            "name": name,
            "y": finite(bold),
            "mode": "lines",
            "opacity": 0.55 if curve.ghost else 1,
            "line": {"color": colour, "width": size.line},
            "hovertemplate": "%{y:.4f}",
        },
    ]
    if len(curve.val_loss):
        traces.append(
            {
                "type": "scatter",
                "legendgroup": name,
                "name": f"{name}, validation",
                "showlegend": not curve.ghost,
                "x": list(curve.val_steps),
                "y": finite(curve.val_loss),
                "mode": "lines+markers",
                "opacity": 0.55 if curve.ghost else 1,
                "line": {"color": colour, "width": size.line * 0.7, "dash": "dash"},
                "marker": {"color": colour, "size": size.marker},
                "hovertemplate": "%{y:.4f}",
            }
        )
    return traces


def thin(
    steps: Sequence[int], raw: Sequence[float], smoothed: Sequence[float]
) -> tuple[list[int], list[float], list[float]]:
    """At most about MAX_POINTS points: of each bucket its smallest, its largest, its last."""
    count = min(len(steps), len(raw))
    if count <= MAX_POINTS:
        return list(steps[:count]), list(raw[:count]), list(smoothed[:count])
    bucket = -(-count // (MAX_POINTS // 3))
    values = np.asarray(raw[:count], dtype=float)
    keep = {0, count - 1}
    for start in range(0, count, bucket):
        part = np.nan_to_num(values[start : start + bucket], nan=0.0)
        keep |= {start + int(part.argmin()), start + int(part.argmax()), start + len(part) - 1}
    chosen = sorted(keep)
    steps, raw, smoothed = ([seq[i] for i in chosen] for seq in (steps, raw, smoothed))
    return steps, raw, smoothed


def _lr_trace(curve: Curve, size: Sizes) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": f"{escape(curve.label)}, learning rate",
        "x": list(curve.steps),
        "y": finite(curve.lr),
        "yaxis": "y2",
        "mode": "lines",
        "line": {"color": TEXT, "width": size.thin, "dash": "dot"},
        "hovertemplate": "%{y:.2e}",
    }


def _reference_lines(
    chance: tuple[float, float] | None, floor: float | None
) -> list[tuple[str, float, str]]:
    """(label, loss, which side of the line the label stands on)."""
    lines = []
    if chance is not None:
        uniform, blind = chance
        if abs(uniform - blind) < 1e-3 * max(uniform, 1e-9):
            lines.append((f"chance {blind:.3f}", blind, "bottom"))
        else:
            lines.append((f"uniform guess {uniform:.3f}", uniform, "bottom"))
            lines.append((f"blind guess {blind:.3f}", blind, "top"))
    if floor is not None:
        lines.append((f"floor {floor:.3f}", floor, "bottom"))
    return lines


def _mark_line(step: int, size: Sizes) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "x0": step,
        "x1": step,
        "yref": "y domain",
        "y0": 0,
        "y1": 1,
        "line": {"color": TEXT, "width": size.thin, "dash": "dot"},
    }


def _mark_label(index: int, step: int, text: str, end: int, size: Sizes) -> dict[str, Any]:
    """What changed, above the plot, in one of three rows so that neighbours stay apart."""
    left = step < 0.6 * end
    return {
        "text": escape(text),
        "xref": "x",
        "x": step,
        "xanchor": "left" if left else "right",
        "xshift": -3 if left else 3,
        "yref": "y domain",
        "y": 1,
        "yanchor": "bottom",
        "yshift": (size.small + 5) * (index % MARK_ROWS),
        "showarrow": False,
        "font": {"size": size.small, "color": TEXT},
    }


def _alt(
    curves: Sequence[Curve],
    chance: tuple[float, float] | None,
    floor: float | None,
    marks: Sequence[tuple[int, str]],
) -> str:
    parts = []
    for curve in curves:
        shown = [v for v in curve.loss if math.isfinite(v)]
        if shown:
            part = f"{curve.label}: loss {shown[0]:.3f} at first, {smooth(shown)[-1]:.3f} at step {curve.steps[-1]}"
            if len(curve.val_loss):
                part += f", validation {curve.val_loss[-1]:.3f}"
            parts.append(part)
    text = "Loss over the training steps. " + ("; ".join(parts) or "Nothing has run yet") + "."
    if chance is not None:
        text += (
            f" A uniform guess has {chance[0]:.3f}, a guess that ignores the input {chance[1]:.3f}."
        )
    if floor is not None:
        text += f" No model can be below {floor:.3f}."
    if marks:
        text += " Changed: " + "; ".join(f"{what} at step {step}" for step, what in marks) + "."
    return text
