"""Health of a run: gradients per layer, entropy and largest weight per head, spread of scores."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

HEIGHT = 320
Marks = Sequence[tuple[float, str]]  # (step, what changed there): no line leads across


def gradient_chart(
    steps: Sequence[int],
    series: Mapping[str, Sequence[float]],
    *,
    marks: Marks = (),
    total_steps: int | None = None,
    width: int = 500,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Norm of the gradient of each layer over the steps, on a log axis.

    Args:
        steps: step of each value.
        series: layer name -> norm at each step, before clipping.
        marks: (step, what changed after it).
    """
    last = [f"{name} {values[-1]:.2g}" for name, values in series.items() if len(values)]
    alt = "Gradient norm per layer. " + ("Now: " + ", ".join(last) if last else "Nothing yet") + "."
    figure = _figure(alt, "gradients", series, steps, width, size)
    traces = _lines(steps, series, size, "%{y:.3g}", marks, style.positive)
    panels.add_panel(
        figure, 0, _steps(steps, total_steps), panels.log_axis("gradient norm"), traces
    )
    _mark(figure, marks, size)
    return figure


def entropy_chart(
    steps: Sequence[int],
    entropy: ArrayLike,
    largest: ArrayLike,
    *,
    marks: Marks = (),
    total_steps: int | None = None,
    width: int = 500,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Per head: entropy of the weights as a share of its maximum, and the mean largest weight.

    Args:
        steps: step of each value.
        entropy: [steps, heads], 0 (all weight on one key) to 1 (uniform).
        largest: [steps, heads], mean over the queries of the largest weight.
    """
    both = [
        {f"head {i + 1}": head for i, head in enumerate(np.transpose(values))} if len(steps) else {}
        for values in (entropy, largest)
    ]
    alt = "Entropy of the attention weights, as a share of its maximum, and mean largest weight."
    for name in both[0]:
        alt += f" {name}: {both[0][name][-1]:.2f} and {both[1][name][-1]:.2f}."
    figure = _figure(alt, "entropy", both[0], steps, width, size)
    titles = ("entropy / maximum", "largest weight")
    down = panels.domains(2, gap=0.1)[::-1]
    for i, series in enumerate(both):
        x = _steps(steps, total_steps)
        if i == 0:  # the axis below it says the same
            x |= {"showticklabels": False, "title": {"text": ""}}
        y = panels.axis(titles[i], range=[-0.02, 1.02], dtick=0.5, domain=down[i])
        lines = _lines(steps, series, size, "%{y:.3f}", marks)
        traces = (trace | {"showlegend": i == 0} for trace in lines)
        panels.add_panel(figure, i, x, y, traces)
        _mark(figure, marks, size, i)
    return figure


def spread_chart(
    steps: Sequence[int],
    measured: Mapping[str, Sequence[float]],
    theory: float | None = None,
    *,
    marks: Marks = (),
    total_steps: int | None = None,
    width: int = 500,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Spread (standard deviation) of the scores that enter the softmax, beside what theory says.

    Args:
        steps: step of each value.
        measured: layer name -> spread at each step.
        theory: spread to expect before the first step (`core.measure.spread_at_start`).
    """
    now = [f"{name} {values[-1]:.2f}" for name, values in measured.items() if len(values)]
    alt = "Spread of the attention scores. " + ("Now: " + ", ".join(now) if now else "Nothing yet")
    figure = _figure(alt + ".", "spread", measured, steps, width, size)
    x, y = _steps(steps, total_steps), panels.axis("spread of the scores", rangemode="tozero")
    panels.add_panel(figure, 0, x, y, _lines(steps, measured, size, "%{y:.3f}", marks))
    _mark(figure, marks, size)
    if theory is not None:
        name = f"theory at the start {theory:.2f}"
        level = panels.reference_line(theory, x["range"][1], size, name=name)
        figure["data"].append(level)
        figure["layout"]["showlegend"] = True
        figure["layout"]["meta"]["alt"] += f" Theory for the start says {theory:.2f}."
    return figure


def _figure(
    alt: str, revision: str, names: Iterable[str], steps: Sequence[int], width: int, size: Sizes
) -> Figure:
    """Figure over the steps with a legend below it."""
    figure = panels.new_figure(alt, size._replace(height=HEIGHT), revision, hovermode="x unified")
    figure["layout"] |= style.legend_below(names, width, size, rows=style.LEGEND_ROWS)
    if not len(steps):
        figure["layout"]["annotations"].append(panels.note("no steps yet"))
    return figure


def _mark(figure: Figure, marks: Marks, size: Sizes, panel: int = 0) -> None:
    """Where something changed; the text alternative says what."""
    shapes = (panels.upright(step, size.thin, panel=panel) for step, _ in marks)
    figure["layout"]["shapes"] += shapes
    if marks and panel == 0:
        words = "; ".join(f"{what} at step {math.ceil(step)}" for step, what in marks)
        figure["layout"]["meta"]["alt"] += f" Changed: {words}."


def _steps(steps: Sequence[int], total_steps: int | None) -> dict[str, Any]:
    return style.step_axis(max(total_steps or 0, *steps[-1:], 1))


def _lines(
    steps: Sequence[int],
    series: Mapping[str, ArrayLike],
    size: Sizes,
    hover: str,
    marks: Marks,
    shown: Callable[[ArrayLike], np.ndarray] = style.finite,
) -> list[dict[str, Any]]:
    """A line for each series, in its own colour; one step alone is a marker."""
    across = [step for step, _ in marks]
    return [
        panels.line(
            *panels.with_gaps(steps, shown(values), across),
            style.run_colour(i),
            size.line,
            dash=style.dash(i // len(style.RUN_COLOURS)),
            name=name,
            hover=hover,
            mode="lines" if len(steps) > 1 else "markers",
            marker={"size": size.marker},
            legendgroup=name,
        )
        for i, (name, values) in enumerate(series.items())
    ]
