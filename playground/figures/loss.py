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
    base_layout,
    escape,
    finite,
    note,
    run_colour,
    sizes,
)

SMOOTHING = 0.9
MAX_POINTS = 1200


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
    data += [_reference_trace(label, value, end, size) for label, value, _ in lines]

    layout = base_layout(_alt(curves, chance, floor, marks), height, projector, "loss")
    layout |= {
        "hovermode": "x unified",
        "margin": {"l": 74 if projector else 58, "r": 74 if show_lr else 16, "t": 44, "b": 52},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "step"}, "range": [0, end], "zeroline": False},
        "yaxis": {"title": {"text": "loss (nats)"}, "zeroline": False},
        "shapes": [_mark_line(step, size) for step, _ in marks],
        "annotations": [_reference_label(*line, log, size) for line in lines]
        + [_mark_label(i, step, text, size) for i, (step, text) in enumerate(marks)],
    }
    layout["yaxis"] |= {"type": "log", "dtick": 1} if log else {"rangemode": "tozero"}
    if show_lr:
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


def _curve_traces(curve: Curve, size) -> list[dict[str, Any]]:
    """Raw loss faint, smoothed loss bold, validation dashed with markers: one colour."""
    colour = MUTED if curve.ghost else run_colour(curve.colour_index)
    name, smoothed = escape(curve.label), smooth(curve.loss)
    steps, raw, bold = thin(curve.steps, curve.loss, smoothed)
    line = {"type": "scatter", "legendgroup": name, "x": steps}
    traces = [
        line
        | {
            "name": f"{name}: train",
            "y": finite(raw),
            "mode": "lines",
            "showlegend": False,
            "opacity": 0.15 if curve.ghost else 0.35,
            "line": {"color": colour, "width": size.thin},
            "hovertemplate": "%{y:.4f}",
        },
        line
        | {
            "name": f"{name}: smoothed",
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
                "name": f"{name}: validation",
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
    return ([seq[i] for i in chosen] for seq in (steps, raw, smoothed))


def _lr_trace(curve: Curve, size) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": f"{escape(curve.label)}: learning rate",
        "x": list(curve.steps),
        "y": finite(curve.lr),
        "yaxis": "y2",
        "mode": "lines",
        "line": {"color": TEXT, "width": size.thin, "dash": "dot"},
        "hovertemplate": "%{y:.2e}",
    }


def _reference_lines(chance, floor) -> list[tuple[str, float, str]]:
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


def _reference_trace(label: str, value: float, end: int, size) -> dict[str, Any]:
    # A trace, not a shape: the axis then makes room for it, on a linear and on a log scale.
    return {
        "type": "scatter",
        "name": label,
        "x": [0, end],
        "y": [value, value],
        "mode": "lines",
        "line": {"color": MUTED, "width": size.thin, "dash": "longdash"},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _reference_label(label: str, value: float, side: str, log: bool, size) -> dict[str, Any]:
    return {
        "text": label,
        "xref": "x domain",
        "x": 0.995,
        "xanchor": "right",
        "yref": "y",
        "y": math.log10(max(value, 1e-12)) if log else value,
        "yanchor": side,
        "showarrow": False,
        "font": {"size": size.small, "color": MUTED},
    }


def _mark_line(step: int, size) -> dict[str, Any]:
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


def _mark_label(index: int, step: int, text: str, size) -> dict[str, Any]:
    return {
        "text": escape(text),
        "xref": "x",
        "x": step,
        "xanchor": "left",
        "xshift": 3,
        "yref": "y domain",
        "y": 1,
        "yanchor": "top",
        "yshift": -(size.small + 5) * (index % 4),
        "showarrow": False,
        "font": {"size": size.small, "color": TEXT},
    }


def _alt(curves, chance, floor, marks) -> str:
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
        text += f" A uniform guess has {chance[0]:.3f}, a guess that ignores the input {chance[1]:.3f}."
    if floor is not None:
        text += f" No model can be below {floor:.3f}."
    if marks:
        text += " Changed: " + "; ".join(f"{what} at step {step}" for step, what in marks) + "."
    return text
