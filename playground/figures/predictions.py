"""What the model answers at each scored position: its best guesses, right or wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

WIDTH = 1000  # pixels that the figure will about have


def prediction_chart(
    inputs: Sequence[str],
    candidates: Sequence[Sequence[str]],
    probabilities: ArrayLike,
    targets: Sequence[str],
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """One column for each scored position: the target on top, the best guesses under it.

    Colour is the probability. The target has a frame where it is among the guesses; the
    sign and its colour say whether the best guess is right.

    Args:
        inputs: token read at each position.
        candidates: [positions][k], tokens from the likeliest down.
        probabilities: [positions, k].
        targets: the right token of each position.
    """
    shares = np.asarray(probabilities, dtype=float)
    if not len(targets) or not shares.size:
        return panels.empty_figure("no scored positions", size=size)
    positions, guesses = shares.shape
    right = [row[0] == target for row, target in zip(candidates, targets, strict=True)]
    left, top, bottom = 6 * size.font, round(1.8 * size.font), 3 * size.font + 8
    pitch = (WIDTH - left - 16) / positions
    with_share = pitch >= 2.6 * size.small
    text_size = int(max(min(size.font, pitch * 0.7), 7))
    stacked = pitch < 3 * text_size
    top_row = 1.5 if stacked else 1.2  # height of that row, in rows
    row_height = (2.9 if with_share else 1.9) * size.font

    figure = panels.new_figure(
        _alt(inputs, candidates, shares, targets, right),
        size._replace(height=round((guesses + top_row) * row_height + top + bottom)),
        f"predictions {positions} {guesses}",
        margin=style.margin(left, 16, top, bottom),
        title={
            "text": f"{sum(right)} of {positions} right",
            "x": 0,
            "xref": "paper",
            "y": 1,
            "yref": "paper",
            "yanchor": "bottom",
            "font": {"size": size.font},
        },
    )
    stroke = {"color": style.TEXT, "width": size.line}
    for x, (row, target) in enumerate(zip(candidates, targets, strict=True)):
        if target in row:
            y = row.index(target)
            box = panels.rectangle(x - 0.5, x + 0.5, y - 0.5, y + 0.5, stroke)
            figure["layout"]["shapes"].append(box)
    cells = panels.heatmap(
        np.ascontiguousarray(np.round(shares.T, 4)),
        colours=(style.WEIGHTS_SCALE, 0, 1),
        gap=2 * size.line,
        name="guesses",
        hover="position %{x:d}, “%{text}”<br><b>%{z:.2%}</b><extra></extra>",
        text=[[style.escape(candidates[x][k]) for x in range(positions)] for k in range(guesses)],
        texttemplate="%{text}<br>%{z:.0%}" if with_share else "%{text}",
        textfont={"size": text_size},
    )
    middle = -0.5 - top_row / 2  # of the row of the targets
    rows = {
        "range": [guesses - 0.5, -0.5 - top_row],
        "tickvals": [middle, *range(guesses)],
        "ticktext": ["target", *(f"guess {k + 1}" for k in range(guesses))],
        "showgrid": False,
    }
    columns = panels.cell_axis(inputs, text_size, title={"text": "token read"})
    answers = _answers(targets, right, middle, text_size, stacked)
    panels.add_panel(figure, 0, columns, rows, [cells, answers])
    return figure


def _answers(
    targets: Sequence[str], right: Sequence[bool], y: float, text_size: int, stacked: bool
) -> dict[str, Any]:
    """The targets, each with ✓ or ✗ (below it where columns are narrow)."""
    between = "<br>" if stacked else " "
    texts = [
        f"<b>{style.escape(target)}</b>{between}{style.RIGHT_MARK if good else style.WRONG_MARK}"
        for target, good in zip(targets, right, strict=True)
    ]
    font = {"size": text_size, "color": [style.RIGHT if good else style.WRONG for good in right]}
    return panels.points(
        range(len(texts)), [y] * len(texts), {}, mode="text", text=texts, textfont=font
    )


def _alt(
    inputs: Sequence[str],
    candidates: Sequence[Sequence[str]],
    shares: np.ndarray,
    targets: Sequence[str],
    right: Sequence[bool],
) -> str:
    text = f"Predictions: {sum(right)} of {len(right)} right."
    for x in range(min(len(right), 20)):
        text += (
            f" After “{inputs[x]}”: target “{targets[x]}”, best guess “{candidates[x][0]}” "
            f"({shares[x, 0]:.0%}, {'right' if right[x] else 'wrong'})."
        )
    return text
