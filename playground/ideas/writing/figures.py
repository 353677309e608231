"""The figure of the page about writing: what the key-value cache saves."""

from collections.abc import Sequence

import numpy as np

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

CACHED, WHOLE = style.run_colour(2), style.run_colour(1)


def cache_picture(
    lengths: Sequence[int],
    work: dict[str, Sequence[float]],
    speed: dict[str, Sequence[float]] | None,
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Left, operations for the next token, computed; right, tokens per second, measured.

    Args:
        work, speed: "with cache" and "without" -> a number at each length; speed is None before
            it is measured.
    """
    colours = {"with cache": CACHED, "without": WHOLE}
    last = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in work.items())
    figure = panels.new_figure(
        f"Operations for the token after {lengths[-1]} others: {last}.",
        size,
        "cache",
        **style.legend_below(list(colours), 700, size),
    )
    figure["layout"]["margin"] |= {"t": 2 * size.font, "l": round(5 * size.small)}
    panels.stack(figure, 300)
    titles = ("operations for the next token: computed", "tokens per second: measured")
    unknown = {name: [np.nan] * len(lengths) for name in colours}
    for panel, (values, title) in enumerate(zip((work, speed or unknown), titles, strict=True)):
        traces = [
            panels.line(
                lengths,
                list(numbers),
                colours[name],
                size.line,
                mode="lines+markers",
                name=name if panel == 0 else "",
                hover=f"{name}, length %{{x}}: %{{y:,.3s}}<extra></extra>",
            )
            for name, numbers in values.items()
        ]
        across = panels.axis(
            "length of the text",
            size,
            domain=[0.56 * panel, 0.56 * panel + 0.44],
            tickvals=list(lengths),
            range=[0, 1.05 * lengths[-1]],
        )
        down = panels.axis(size=size, rangemode="tozero", tickformat="~s")
        if panel == 1 and speed is None:
            down |= {"range": [0, 1], "tickvals": []}
        panels.add_panel(figure, panel, across, down, traces, title=title)
    if speed is None:
        figure["layout"]["annotations"].append(
            panels.annotation("press Measure", 0.5, 0.5, colour=style.MUTED, **panels.over(1))
        )
    return figure
