"""How a model comes to its next token: what it is chosen from, and a look inside."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import panels, style
from playground.figures.style import Figure, Sizes
from playground.figures.written import percent, shown

BEFORE, AFTER = style.run_colour(0), style.run_colour(1)
MOST_KEYS = 32  # of the newest tokens, that a map shows


def alternatives_picture(
    letters: Sequence[str],
    before: ArrayLike,
    after: ArrayLike,
    chosen: int | None,
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """The likeliest tokens as bars: what the model says, and with what probability each is drawn.

    A click on a bar tells which one: y, counted from 0 at the top.

    Args:
        chosen: which of them was written; None if it is none of them.
    """
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    names = [shown(letter) for letter in letters]
    said = ", ".join(
        f"{name} {percent(p)} → {percent(q)}"
        for name, p, q in list(zip(names, before.tolist(), after.tolist(), strict=True))[:4]
    )
    figure = panels.new_figure(
        f"Alternatives, before and after the rules: {said}.",
        size,
        "alternatives",
        barmode="group",
        bargap=0.25,
        **style.legend_below(["the model", "after the rules"], 420, size),
    )
    figure["layout"]["margin"]["l"] = 3 * size.font
    places = list(range(len(names)))
    shares = {"the model": (before, BEFORE), "after the rules": (after, AFTER)}
    traces = [
        panels.bars(
            places,
            values.tolist(),
            colour,
            across=True,
            name=name,
            text=[percent(v) if v else "" for v in values.tolist()],
            textfont={"size": size.small},
            constraintext="none",
            hover="%{x:.3f}<extra></extra>",
        )
        for name, (values, colour) in shares.items()
    ]
    room = 1.25 * max(0.05, before.max(initial=0), after.max(initial=0))
    across = panels.axis("probability", size, range=[0, room], tickformat=".0%", fixedrange=True)
    apart = {"fixedrange": True, "ticklabelstandoff": 6}
    down = panels.cell_axis(names, size.font, downwards=True, marked=chosen, **apart)
    panels.add_panel(figure, 0, across, down, traces)
    return figure


def inside_picture(
    weights: ArrayLike,
    keys: Sequence[str],
    guesses: Sequence[Sequence[str]],
    chances: ArrayLike,
    *,
    size: Sizes = style.LAPTOP,
) -> Figure:
    """Where each head looks from the last token read, and what each layer would answer.

    Args:
        weights: [block, head, key].
        keys: the tokens read.
        guesses: [stage][guess], from the likeliest down; stage 0 is the embedding.
        chances: [stage, guess].
    """
    weights = np.asarray(weights, dtype=float)[..., -MOST_KEYS:]
    keys = [shown(key) for key in keys][-MOST_KEYS:]
    blocks, heads, count = weights.shape
    heads_named = [f"{b}.{h}" for b in range(1, blocks + 1) for h in range(1, heads + 1)]
    chances = np.asarray(chances, dtype=float)
    stages = ["input", *(f"block {block}" for block in range(1, len(chances)))]
    firsts = ", ".join(
        f"{stage} {shown(found[0])} {percent(float(p[0]))}"
        for stage, found, p in zip(stages, guesses, chances, strict=True)
    )
    rows = weights.reshape(-1, count)
    figure = panels.new_figure(
        f"Best guess of each layer: {firsts}.",
        size,
        f"inside {blocks} {heads}",
        margin=style.margin(4.2 * size.small, 8, 2 * size.font, 5.6 * size.small + 28),
        coloraxis=panels.colour_axis(style.WEIGHTS_SCALE, 0, 1, "weight, probability", size),
    )
    panels.stack(figure, 320)
    panels.add_panel(
        figure,
        0,
        panels.cell_axis(keys, size.small, domain=[0, 0.48], fixedrange=True)
        | panels.axis("key: the tokens read", size),
        panels.cell_axis(heads_named, size.small, downwards=True, fixedrange=True)
        | panels.axis("block.head", size),
        [panels.heatmap(rows, hover="head %{y}: %{z:.2f}<extra></extra>")],
        title="where the new token's query looks",
    )
    panels.add_panel(
        figure,
        1,
        panels.cell_axis(
            [str(i + 1) for i in range(chances.shape[1])],
            size.small,
            domain=[0.59, 1],
            fixedrange=True,
        )
        | panels.axis("guess", size),
        panels.cell_axis(stages, size.small, downwards=True, fixedrange=True)
        | panels.axis("layer", size),
        [_guesses(guesses, chances, size)],
        title="what each layer would answer",
    )
    return figure


def _guesses(guesses: Sequence[Sequence[str]], chances: np.ndarray, size: Sizes) -> dict[str, Any]:
    texts = [
        [f"{style.escape(shown(token))} {percent(p)}" for token, p in zip(row, ps, strict=True)]
        for row, ps in zip(guesses, chances.tolist(), strict=True)
    ]
    colours = (style.WEIGHTS_SCALE, 0, 1)
    return panels.heatmap(
        chances,
        hover="%{text}<extra></extra>",
        **panels.printed(texts, chances, colours, size.small),
    )
