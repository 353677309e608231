"""Figures of the page about recurrent nets: three models as lines, in panels side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

COLOURS = {"transformer": 0, "GRU": 1, "LSTM": 2}


class Panel(NamedTuple):
    """What one panel shows of each model."""

    title: str
    across: str  # title of the horizontal axis
    x: Sequence[int]
    values: Mapping[str, Sequence[float]]  # model -> a value at each x
    log: bool = True  # the vertical axis; else from 0 to 1


def models_picture(
    shown: Sequence[Panel], name: str, *, height: int = 320, size: Sizes = style.LAPTOP
) -> Figure:
    """Each model's line in each panel, the horizontal axis by doublings.

    Args:
        name: of the picture, at the beginning of its text alternative.
    """
    said = "; ".join(
        f"{panel.title}: "
        + ", ".join(f"{model} {values[-1]:.2g}" for model, values in panel.values.items())
        + f" at {panel.x[-1]}"
        for panel in shown
    )
    figure = panels.new_figure(
        f"{name}. {said}.", size, name, **style.legend_below(list(COLOURS), 700, size)
    )
    figure["layout"]["margin"] |= {"t": 2 * size.font, "l": round(5 * size.small)}
    panels.stack(figure, height)
    for i, (panel, domain) in enumerate(zip(shown, panels.domains(len(shown), 0.1), strict=True)):
        traces = [
            _line(panel, model, values, i == 0, size) for model, values in panel.values.items()
        ]
        across = panels.axis(
            panel.across,
            size,
            domain=domain,
            tickvals=np.log2(panel.x).tolist(),
            ticktext=[str(x) for x in panel.x],
        )
        down = (
            panels.log_axis(size=size, dtick=2)
            if panel.log
            else panels.axis(size=size, range=[0, 1.05])
        )
        panels.add_panel(figure, i, across, down, traces, title=panel.title)
    return figure


def _line(
    panel: Panel, model: str, values: Sequence[float], named: bool, size: Sizes
) -> dict[str, Any]:
    return panels.line(
        np.log2(panel.x),
        list(values),
        style.run_colour(COLOURS[model]),
        size.line,
        mode="lines+markers",
        name=model if named else "",
        customdata=list(panel.x),
        hover=f"{model}, {panel.across} %{{customdata}}: %{{y:.3g}}<extra></extra>",
    )
