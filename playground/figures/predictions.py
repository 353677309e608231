"""What the model answers at each scored position: its best guesses, right or wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures.panels import (
    empty_figure,
)
from playground.figures.style import (
    RIGHT,
    RIGHT_MARK,
    TEXT,
    WEIGHTS_SCALE,
    WRONG,
    WRONG_MARK,
    Figure,
    base_layout,
    escape,
    sizes,
    token_labels,
)


def prediction_chart(
    inputs: Sequence[str],
    candidates: Sequence[Sequence[str]],
    probabilities: ArrayLike,
    targets: Sequence[str],
    *,
    width: int = 1000,
    projector: bool = False,
) -> Figure:
    """One column for each scored position: the wanted token on top, the best guesses under it.

    Colour is the probability. The wanted token has a frame where it is among the guesses; the
    best guess being right or wrong is said by sign and by colour.

    Args:
        inputs: token read at each position.
        candidates: [positions][k], tokens from the likeliest down.
        probabilities: [positions, k].
        targets: the wanted token of each position.
    """
    shares = np.asarray(probabilities, dtype=float)
    if not len(targets) or not shares.size:
        return empty_figure("no scored positions", projector=projector)
    positions, guesses = shares.shape
    size = sizes(projector)
    right = [row[0] == target for row, target in zip(candidates, targets, strict=True)]
    left, top, bottom = 6 * size.font, round(1.8 * size.font), 3 * size.font + 8
    pitch = (width - left - 16) / positions
    with_share = pitch >= 2.6 * size.small
    text_size = int(max(min(size.font, pitch * 0.7), 7))
    stacked = pitch < 3 * text_size
    wanted = 1.5 if stacked else 1.2  # height of that row, in rows
    row_height = (2.9 if with_share else 1.9) * size.font

    layout = base_layout(
        _alt(inputs, candidates, shares, targets, right),
        round((guesses + wanted) * row_height + top + bottom),
        projector,
        f"predictions {positions} {guesses}",
    )
    layout |= {
        "margin": {"l": left, "r": 16, "t": top, "b": bottom},
        "title": {
            "text": f"{sum(right)} of {positions} right",
            "x": 0,
            "xref": "paper",
            "y": 1,
            "yref": "paper",
            "yanchor": "bottom",
            "font": {"size": size.font},
        },
        "coloraxis": {"colorscale": WEIGHTS_SCALE, "cmin": 0, "cmax": 1, "showscale": False},
        "xaxis": {
            "title": {"text": "token read", "standoff": 4},
            "range": [-0.5, positions - 0.5],
            "labelalias": token_labels(inputs),
            "tickfont": {"size": text_size},
            "tick0": 0,
            "dtick": 1,
            "tickangle": 0,
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
        },
        "yaxis": {
            "range": [guesses - 0.5, -0.5 - wanted],
            "tickvals": [-0.5 - wanted / 2, *range(guesses)],
            "ticktext": ["wanted", *(f"guess {k + 1}" for k in range(guesses))],
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
        },
        "shapes": [
            _frame(x, row.index(target), size.line)
            for x, (row, target) in enumerate(zip(candidates, targets, strict=True))
            if target in row
        ],
    }
    cells = {
        "type": "heatmap",
        "name": "guesses",
        "z": np.ascontiguousarray(np.round(shares.T, 4)),
        "text": [[escape(candidates[x][k]) for x in range(positions)] for k in range(guesses)],
        "texttemplate": "%{text}<br>%{z:.0%}" if with_share else "%{text}",
        "textfont": {"size": text_size},
        "coloraxis": "coloraxis",
        "xgap": 2 * size.line,
        "ygap": 2 * size.line,
        "hovertemplate": "position %{x:d}, “%{text}”<br><b>%{z:.2%}</b><extra></extra>",
    }
    return {
        "data": [cells, _verdicts(targets, right, -0.5 - wanted / 2, text_size, stacked)],
        "layout": layout,
    }


def _verdicts(
    targets: Sequence[str], right: Sequence[bool], y: float, text_size: int, stacked: bool
) -> dict[str, Any]:
    """The wanted tokens, each with ✓ or ✗ (below it where columns are narrow)."""
    between = "<br>" if stacked else " "
    return {
        "type": "scatter",
        "name": "wanted",
        "mode": "text",
        "x": list(range(len(targets))),
        "y": [y] * len(targets),
        "text": [
            f"<b>{escape(target)}</b>{between}{RIGHT_MARK if good else WRONG_MARK}"
            for target, good in zip(targets, right, strict=True)
        ],
        "textfont": {"size": text_size, "color": [RIGHT if good else WRONG for good in right]},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _frame(x: int, y: int, width: float) -> dict[str, Any]:
    return {
        "type": "rect",
        "x0": x - 0.5,
        "x1": x + 0.5,
        "y0": y - 0.5,
        "y1": y + 0.5,
        "line": {"color": TEXT, "width": width},
    }


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
            f" After “{inputs[x]}”: wanted “{targets[x]}”, best guess “{candidates[x][0]}” "
            f"({shares[x, 0]:.0%}, {'right' if right[x] else 'wrong'})."
        )
    return text
