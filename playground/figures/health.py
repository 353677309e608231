"""Health of a run: gradients per layer, entropy and largest weight per head, spread of scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.panels import (
    note,
    reference_label,
    reference_line,
    step_label,
)
from playground.figures.style import (
    RUN_COLOURS,
    TEXT,
    Figure,
    base_layout,
    dash,
    escape,
    finite,
    legend_below,
    run_colour,
    sizes,
    step_axis,
)


def gradient_chart(
    steps: Sequence[int],
    series: Mapping[str, Sequence[float]],
    *,
    total_steps: int | None = None,
    width: int = 500,
    height: int = 320,
    projector: bool = False,
) -> Figure:
    """Norm of the gradient of each layer over the steps, on a log axis.

    Args:
        steps: step of each value.
        series: layer name -> norm at each step, before clipping.
    """
    data = [
        _line(i, name, steps, positive(values), projector, "%{y:.3g}")
        for i, (name, values) in enumerate(series.items())
    ]
    last = [f"{name} {values[-1]:.2g}" for name, values in series.items() if len(values)]
    alt = "Gradient norm per layer. " + ("Now: " + ", ".join(last) if last else "Nothing yet") + "."
    layout = _layout(alt, data, width, height, projector, "gradients", steps, total_steps)
    layout["yaxis"] = {
        "title": {"text": "gradient norm"},
        "type": "log",
        "exponentformat": "power",
        "dtick": 1,
        "zeroline": False,
    }
    return _or_empty(data, layout, steps)


def entropy_chart(
    steps: Sequence[int],
    entropy: ArrayLike,
    largest: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    total_steps: int | None = None,
    width: int = 500,
    height: int = 320,
    projector: bool = False,
) -> Figure:
    """Per head: entropy of the weights as a share of its maximum, and the mean largest weight.

    Args:
        steps: step of each value.
        entropy: [steps, heads], 0 (looks at one key) to 1 (looks at all alike).
        largest: [steps, heads], mean over the queries of the largest weight.
        labels: one for each head; "head 1" and so on by default.
    """
    panels = [np.asarray(entropy, dtype=float), np.asarray(largest, dtype=float)]
    panels = [panel.reshape(len(steps), -1) for panel in panels] if len(steps) else []
    heads = panels[0].shape[1] if panels else 0
    names = list(labels) if labels is not None else [f"head {i + 1}" for i in range(heads)]
    data = []
    for axes, panel in zip(("", "2"), panels, strict=False):
        for head in range(heads):
            line = _line(head, names[head], steps, finite(panel[:, head]), projector, "%{y:.3f}")
            data.append(line | {"xaxis": f"x{axes}", "yaxis": f"y{axes}", "showlegend": not axes})
    alt = "Entropy of the attention weights, as a share of its maximum, and mean largest weight."
    for head in range(heads):
        alt += f" {names[head]}: {panels[0][-1, head]:.2f} and {panels[1][-1, head]:.2f}."
    layout = _layout(alt, data, width, height, projector, "entropy", steps, total_steps)
    size = sizes(projector)
    layout["margin"]["t"] = 2 * size.font
    layout["margin"]["l"] = 3 * size.font
    share = {"range": [-0.02, 1.02], "zeroline": False, "dtick": 0.25}
    layout["xaxis2"] = layout["xaxis"] | {"domain": [0.55, 1], "anchor": "y2"}
    layout["xaxis"] |= {"domain": [0, 0.45]}
    layout |= {"yaxis": share, "yaxis2": share | {"anchor": "x2"}}
    layout["annotations"] += [
        {
            "text": text,
            "xref": f"x{axes} domain",
            "yref": f"y{axes} domain",
            "x": 0,
            "y": 1,
            "yanchor": "bottom",
            "showarrow": False,
            "font": {"size": size.font, "color": TEXT},
        }
        for axes, text in (("", "entropy / its maximum"), ("2", "mean largest weight"))
    ]
    return _or_empty(data, layout, steps)


def spread_chart(
    steps: Sequence[int],
    measured: Mapping[str, Sequence[float]],
    theory: float | None = None,
    *,
    theory_label: str = "theory",
    total_steps: int | None = None,
    width: int = 500,
    height: int = 320,
    projector: bool = False,
) -> Figure:
    """Spread (standard deviation) of the scores that enter the softmax, beside what theory says.

    Args:
        steps: step of each value.
        measured: layer name -> spread at each step.
        theory: spread at initialisation for q and k of unit variance: √d_k times the scale.
    """
    data = [
        _line(i, name, steps, finite(values), projector, "%{y:.3f}")
        for i, (name, values) in enumerate(measured.items())
    ]
    now = [f"{name} {values[-1]:.2f}" for name, values in measured.items() if len(values)]
    alt = "Spread of the attention scores. " + ("Now: " + ", ".join(now) if now else "Nothing yet")
    layout = _layout(alt + ".", data, width, height, projector, "spread", steps, total_steps)
    layout["yaxis"] = {
        "title": {"text": "spread of the scores"},
        "rangemode": "tozero",
        "zeroline": False,
    }
    if theory is not None:
        data.append(reference_line(theory, layout["xaxis"]["range"][1], projector))
        layout["annotations"] = [reference_label(f"{theory_label} {theory:.2f}", theory, projector)]
        layout["meta"]["alt"] += f" Theory says {theory:.2f} at the start."
    return _or_empty(data, layout, steps)


def positive(values: ArrayLike) -> np.ndarray:
    """Values with NaN (a gap) where a log axis has no place for them."""
    numbers = finite(values)
    numbers[~(numbers > 0)] = np.nan
    return numbers


def _line(
    index: int, name: str, steps: Sequence[int], values: ArrayLike, projector: bool, hover: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines" if len(values) > 1 else "markers",
        "name": escape(name),
        "legendgroup": escape(name),
        "x": list(steps),
        "y": values,
        "line": {
            "color": run_colour(index),
            "dash": dash(index // len(RUN_COLOURS)),
            "width": sizes(projector).line,
        },
        "marker": {"color": run_colour(index), "size": sizes(projector).marker},
        "hovertemplate": hover,
    }


def _layout(
    alt: str,
    data: Sequence[dict[str, Any]],
    width: int,
    height: int,
    projector: bool,
    revision: str,
    steps: Sequence[int],
    total_steps: int | None,
) -> dict[str, Any]:
    names = [[trace["name"]] for trace in data if trace.get("showlegend", True)]
    return {
        **base_layout(alt, height, projector, revision),
        **legend_below(names, width, projector),
        "hovermode": "x unified",
        "xaxis": step_axis(max(total_steps or 0, *steps[-1:], 1)),
        "annotations": [step_label(projector)],
    }


def _or_empty(data: list, layout: dict[str, Any], steps: Sequence[int]) -> Figure:
    if not len(steps):
        layout["annotations"].append(note("no steps yet"))
    return {"data": data, "layout": layout}
