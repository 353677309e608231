"""A text with the surprise of each of its characters: as cells of a figure, and as HTML."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes

MOST_SURPRISE = 6.0  # nats; what is rarer has the same colour: e⁻⁶ is 1 in 403
# Pale enough for letters in the colour of the theme.
SURPRISE_SCALE = [[0.0, "rgba(213,94,0,0.03)"], [1.0, "rgba(213,94,0,0.62)"]]
COLUMNS = 32
VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


def shown(letter: str) -> str:
    """A character so that it can be seen."""
    return VISIBLE.get(letter, letter)


def surprise_of(chances: ArrayLike) -> np.ndarray:
    """-ln p, in nats; infinite where p is 0."""
    with np.errstate(divide="ignore"):
        return -np.log(np.asarray(chances, dtype=np.float64))


def percent(share: float) -> str:
    """A probability for people: never 0 or 100 per cent by rounding."""
    if share <= 0 or share >= 1:
        return f"{share:.0%}"
    if share < 0.001:
        return "< 0.1%"
    if share > 0.999:
        return "> 99.9%"
    return f"{share:.0%}" if 0.1 <= share <= 0.99 else f"{share:.1%}"


def text_picture(
    letters: Sequence[str],
    chances: ArrayLike,
    hovers: Sequence[str],
    *,
    chosen: int | None = None,
    alt: str,
    size: Sizes = style.AS_NEEDED,
) -> Figure:
    """A text in rows of cells; a click tells column (x) and row (y), counted from 0.

    Args:
        chances: what the model said of each character; NaN where it was not asked: these are bold.
        hovers: what pointing at a character says, in Plotly's HTML.
        chosen: the character that has a frame.
    """
    rows = max(1, math.ceil(len(letters) / COLUMNS))
    surprise = np.full(rows * COLUMNS, np.nan)
    surprise[: len(letters)] = np.minimum(surprise_of(chances), MOST_SURPRISE)
    blank = [""] * (rows * COLUMNS - len(letters))
    printed = [style.escape(shown(letter)) for letter in letters] + blank
    printed = [
        f"<b>{text}</b>" if text and np.isnan(value) else text
        for text, value in zip(printed, surprise.tolist(), strict=True)
    ]
    said = [*hovers, *blank]
    row = 2.0 * size.font
    below = 3.2 * size.small + 24
    figure = panels.new_figure(
        alt,
        size._replace(height=round(rows * row + below + 8)),
        f"text {rows}",
        margin=style.margin(2, 2, 4, below),
        coloraxis=panels.colour_axis(
            SURPRISE_SCALE,
            0,
            MOST_SURPRISE,
            "surprise −ln p in nats",
            size,
            tickvals=[0, 2, 4, MOST_SURPRISE],
            ticktext=["0", "2", "4", f"≥ {MOST_SURPRISE:g}"],
        ),
    )
    cells = panels.heatmap(
        surprise.reshape(rows, COLUMNS),
        hover="%{customdata}<extra></extra>",
        customdata=_in_rows(said),
        text=_in_rows(printed),
        texttemplate="%{text}",
        textfont={"size": size.font, "color": style.TEXT},
        hoverongaps=False,
    )
    hidden = {"showticklabels": False, "showgrid": False, "fixedrange": True}
    across = panels.axis(range=[-0.5, COLUMNS - 0.5], **hidden)
    down = panels.axis(range=[rows - 0.5, -0.5], **hidden)
    panels.add_panel(figure, 0, across, down, [cells])
    if chosen is not None:
        x, y = chosen % COLUMNS, chosen // COLUMNS
        stroke = {"color": style.TEXT, "width": size.line}
        figure["layout"]["shapes"] = [panels.rectangle(x - 0.5, x + 0.5, y - 0.5, y + 0.5, stroke)]
    return figure


def _in_rows(cells: Sequence[str]) -> list[list[str]]:
    return [list(cells[i : i + COLUMNS]) for i in range(0, len(cells), COLUMNS)]


def written_html(
    letters: Sequence[str],
    chances: ArrayLike,
    alternatives: Sequence[Sequence[str]],
    before: ArrayLike,
) -> str:
    """The text as HTML: the ground of each character is its surprise, and pointing at it says more.

    Args:
        alternatives: at each character, from the likeliest down.
        before: [character, alternative], what the model said of them.
    """
    surprise = np.minimum(surprise_of(chances), MOST_SURPRISE) / MOST_SURPRISE
    parts = []
    for i, letter in enumerate(letters):
        others = ", ".join(
            f"{shown(token)} {percent(share)}"
            for token, share in zip(alternatives[i], np.asarray(before)[i].tolist(), strict=True)
        )
        said = escape(f"{shown(letter)} {percent(float(chances[i]))}; of {others}", quote=True)
        ground = f"rgba(213,94,0,{0.03 + 0.59 * float(surprise[i]):.2f})"
        parts.append(f'<span style="background: {ground}" title="{said}">{escape(letter)}</span>')
    return f"<pre data-sample>{''.join(parts)}</pre>"
