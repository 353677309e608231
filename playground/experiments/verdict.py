"""What the seeds say about a variant, in words, and only as far as they carry it."""

import math
from collections.abc import Iterable

import numpy as np

from playground.experiments.series import Series
from playground.experiments.variants import BASE
from playground.runs.diagnosis import LEAK
from playground.runs.spec import changes_text, value_text
from playground.runs.view import LAST, Status, View

FEW_SEEDS = 4  # below this, chance alone separates two equal groups more often than 1 time in 20


def verdict(base: Series, variant: Series) -> str:
    """What the seeds say about a variant, in words, and never more than they say.

    Seeds are paired: both sides had the same batches and initial numbers. Two sides differ
    clearly when their losses do not overlap; a diverged run counts as an infinite one. While they
    train, both are read at the last step that all have done.
    """
    pairs = list(_pairs(base, variant))
    if not pairs:
        return "no steps yet"
    ours, theirs = _names(base, variant)
    over = all(view.status.conclusive for pair in pairs for view in pair)
    lengths = [len(view.loss) for pair in pairs for view in pair if not view.diverged]
    at = None if over or not lengths else min(lengths)
    if at is not None and at < LAST:
        return f"too early to say: step {at}"
    sentence = _sentence(pairs, at, ours, theirs) + _missing(base, len(pairs))
    return sentence if at is None else f"so far, at step {at}: {sentence}"


def _pairs(base: Series, variant: Series) -> Iterable[tuple[View, View]]:
    """The views of both sides with the same seed, where both have something to say."""
    others = dict(zip(variant.seeds, variant.views, strict=True))
    for seed, view in zip(base.seeds, base.views, strict=True):
        pair = (view, others.get(seed))
        if all(v and v.status is not Status.FAILED and (len(v.loss) or v.diverged) for v in pair):
            yield pair


def _names(base: Series, variant: Series) -> tuple[str, str]:
    """What to call both: `√d_k` and `scale=none`, `n_heads=4` and `n_heads=1`.

    A page that has names of its own for them is followed.
    """
    if base.label != BASE:
        return f"“{base.label}”", f"“{variant.label}”"
    theirs = changes_text(base.spec.changes_to(variant.spec))
    ours = variant.spec.changes_to(base.spec)
    if len(ours) != 1 or ours[0][0] == "text":
        return "the base", theirs
    ((name, old),) = ours
    return value_text(name, old) if isinstance(old, str) else changes_text(ours), theirs


def _missing(base: Series, count: int) -> str:
    left = len(base.seeds) - count
    return f"; {left} of {len(base.seeds)} seeds have no result" if left else ""


def _sentence(pairs: list[tuple[View, View]], at: int | None, ours: str, theirs: str) -> str:
    n = len(pairs)
    x, y = np.array([[view.reached(at) for view in pair] for pair in pairs]).T
    finite = np.isfinite(x) & np.isfinite(y)
    if finite.all() and all(np.array_equal(b.loss[:at], v.loss[:at]) for b, v in pairs):
        return f"{theirs} changes nothing here: the losses equal those of {ours}, number for number"
    if n == 1:
        both = f"loss {_end(y[0])} for {theirs}, {_end(x[0])} for {ours}"
        return f"{both}; one seed: no claim, add seeds"
    above, below = y.min() > x.max(), y.max() < x.min()
    if not above and not below:
        return (
            f"no clear difference: {theirs} ends {_range(y)}, {ours} {_range(x)}, "
            f"and {theirs} is lower in {int((y < x).sum())} of {n} seeds"
        )
    if not finite.any():
        worse, better, survivors = (theirs, ours, x) if above else (ours, theirs, y)
        count = int(np.isinf(survivors).sum())
        said = f"{worse} diverges in {n} of {n} seeds, {better} in {count or 'none'}"
    else:
        gap = abs(float((y - x)[finite].mean()))
        where = "above" if above else "below"
        said = f"{theirs} ends {gap:.3g} nats {where} {ours} in {n} of {n} seeds"
        lost = int(np.isinf(y if above else x).sum())
        said += f", and {theirs if above else ours} diverges in {lost} of them" if lost else ""
    if n < FEW_SEEDS:
        said += (
            f" (if only chance separated {n} and {n} seeds, they would separate this cleanly "
            f"1 time in {math.comb(2 * n, n) // 2})"
        )
    return said + _leak(pairs, theirs, ours)


def _end(loss: float) -> str:
    return f"{loss:.3g}" if math.isfinite(loss) else "diverged"


def _range(losses: np.ndarray) -> str:
    low, high = _end(losses.min()), _end(losses.max())
    return low if low == high else f"{low} to {high}"


def _leak(pairs: list[tuple[View, View]], theirs: str, ours: str) -> str:
    """A low loss that was read off the answer is not a success."""
    leaks = [any(_sees_ahead(pair[i]) for pair in pairs) for i in (0, 1)]
    if leaks[0] == leaks[1]:
        return ""
    return f"; but {theirs if leaks[1] else ours} sees the tokens it has to predict"


def _sees_ahead(view: View) -> bool:
    return bool(view.frames) and (view.frames[-1].future_influence or 0) >= LEAK
