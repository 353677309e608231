"""What the model answers at each scored position: its best guesses, right or wrong.

HTML, not Plotly's: as many positions stand side by side as a screen is wide (`ui/pages.css`).
"""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from playground.figures import style


def prediction_cards(
    positions: Sequence[int],
    inputs: Sequence[str],
    candidates: Sequence[Sequence[str]],
    probabilities: ArrayLike,
    targets: Sequence[str],
) -> str:
    """A card for each scored position: the token read, the target, the best guesses, as HTML.

    Colour is the probability. The target has a frame where it is among the guesses; the sign says
    whether the best guess is right.

    Args:
        positions: counted from 1.
        inputs: token read at each position.
        candidates: [positions][k], tokens from the likeliest down.
        probabilities: [positions, k].
        targets: the right token of each position.
    """
    if not len(targets):
        return "<small>No position of this example is scored.</small>"
    shares = np.asarray(probabilities, dtype=float)
    shown = np.nan_to_num(shares)
    grounds = style.colours_at(style.WEIGHTS_SCALE, shown)
    inks = style.ink_on(grounds)
    cards, right = [], 0
    for i, target in enumerate(targets):
        good = candidates[i][0] == target
        right += good
        guesses = "".join(
            _guess(token, share, style.as_hex(ground), ink, token == target)
            for token, share, ground, ink in zip(
                candidates[i], shares[i], grounds[i], inks[i], strict=True
            )
        )
        sign = style.RIGHT_MARK if good else style.WRONG_MARK
        cards.append(
            f'<div role="listitem" data-prediction="{positions[i]}" '
            f'data-right="{str(good).lower()}" title="position {positions[i]}">'
            f"<small>after {escape(inputs[i])}</small><b>{escape(target)} {sign}</b>{guesses}</div>"
        )
    return (
        f"<small>{right} of {len(targets)} right. Below each token that is read: the target, then "
        f"the {shares.shape[1]} best guesses.</small>"
        f'<div role="list" class="predictions" style="--count: {len(targets)}">'
        f"{''.join(cards)}</div>"
    )


def _guess(token: str, share: float, ground: str, ink: str, wanted: bool) -> str:
    written = f"{share:.0%}" if np.isfinite(share) else "–"
    look = 'class="wanted" ' * wanted + f'style="background: {ground}; color: {ink}"'
    return f"<span {look}><b>{escape(token)}</b><small>{written}</small></span>"
