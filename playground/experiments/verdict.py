"""What the seeds say about each variant, in words, and only as far as they carry it.

Seeds are paired: a variant and the base had the same batches and the same initial numbers. Where
no change had any effect, each seed would be a fair draw: the base equally likely at every place
among the variants. So luck can be counted exactly, whatever the losses are distributed like.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from core.knobs import NOTHING
from playground.experiments.series import Series, common_step
from playground.experiments.variants import BASE
from playground.runs.diagnosis import LEAK
from playground.runs.spec import changes_text, in_nats, loss_text, range_text, value_text
from playground.runs.view import LAST, Status, View

SMALLEST = 0.001  # nats: what three digits can show
ONE_SEED = "One seed proves nothing: add seeds."
CLEAR = Fraction(1, 20)  # what luck does more often than that is not called clear


# --- how often luck does it -----------------------------------------------------------------


def one_side(base: ArrayLike, variant: ArrayLike) -> int:
    """1 if a variant is above the base in every seed, −1 if it is below in every seed, else 0."""
    base, variant = np.asarray(base), np.asarray(variant)
    return int((variant > base).all()) - int((variant < base).all())


def luck(n_variants: int, n_seeds: int) -> Fraction:
    """How often at least one variant is on one side of the base in every seed by luck alone.

    By luck alone the base is equally likely at each place among the variants of a seed: a given
    `a` of them are above it and a given `b` below with probability a!·b!/(a + b + 1)!, in all
    seeds with the power of their number. The rest is inclusion and exclusion: for one variant
    2·(1/2)ⁿ, as with n tosses of a coin that all fall alike.
    """
    return sum(
        (
            (-1) ** (a + b + 1)
            * math.comb(n_variants, a)
            * math.comb(n_variants - a, b)
            * Fraction(factorial(a) * factorial(b), factorial(a + b + 1)) ** n_seeds
            for a in range(n_variants + 1)
            for b in range(n_variants - a + 1)
            if a + b
        ),
        start=Fraction(0),
    )


def seeds_to_be_clear(n_variants: int) -> int:
    """With how many seeds luck does it at most once in twenty times."""
    return next(n for n in range(2, 100) if luck(n_variants, n) <= CLEAR)


def luck_text(n_variants: int, n_seeds: int) -> str:
    """What luck alone would do, with its number, and what would help."""
    chance = luck(n_variants, n_seeds)
    who = "the variant" if n_variants == 1 else f"at least one of the {n_variants} variants"
    seeds = "both seeds" if n_seeds == 2 else f"all {n_seeds} seeds"
    said = (
        f"If nothing but luck were at work, {who} would end on one side of the base in {seeds} "
        f"{odds(chance)}"
    )
    if chance <= CLEAR:
        return f"{said}."
    return (
        f"{said}, so this proves little; with {seeds_to_be_clear(n_variants)} seeds it would be "
        f"{odds(luck(n_variants, seeds_to_be_clear(n_variants)))}."
    )


def odds(chance: Fraction) -> str:
    """`1 time in 4`, `42 times in 100`."""
    if chance.numerator == 1 or chance < Fraction(1, 10):
        return f"1 time in {round(1 / chance)}"
    return f"{round(100 * chance)} times in 100"


# --- the verdicts ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What the seeds say about one variant.

    `kind`: "early" (nothing to say yet), "one seed" (no claim), "equal" (number for number),
    "mixed" (the seeds disagree), "one side" (all agree, as luck often does) or "clear".
    """

    kind: str
    name: str  # of the variant
    text: str  # a sentence, after the name


@dataclass(frozen=True)
class Verdicts:
    """One verdict for each variant, and what luck alone would do among so many."""

    each: tuple[Verdict, ...]
    # With one seed ONE_SEED; empty before the end, or where no variant is on one side of the base.
    luck: str = ""
    step: int | None = None  # at which all were read; None: at their ends


def verdicts(series: Sequence[Series]) -> Verdicts:
    """What the seeds say about each variant; the base is the first of the series.

    A diverged run counts as an infinite loss. While they train, all are read at one step, which
    all have done, and nothing is called clear: who looks often enough sees everything once.
    """
    base, *variants = series
    at = common_step(series)
    pairs = [list(_pairs(base, variant, at)) for variant in variants]
    n_seeds = min((len(found) for found in pairs if found), default=0)
    rare = at is None and n_seeds > 1 and luck(len(variants), n_seeds) <= CLEAR
    each = tuple(
        _verdict(base, variant, found, at, rare)
        for variant, found in zip(variants, pairs, strict=True)
    )
    said = ""
    if at is None and any(one.kind == "one seed" for one in each):
        said = ONE_SEED
    elif at is None and any(one.kind in ("one side", "clear") for one in each):
        said = luck_text(len(variants), n_seeds)
    return Verdicts(each, said, at)


def _verdict(
    base: Series, variant: Series, pairs: list[tuple[View, View]], at: int | None, rare: bool
) -> Verdict:
    ours, theirs = _names(base, variant)
    if not pairs:
        return Verdict("early", theirs, ": no result" if at is None else ": no steps yet")
    count, seeds = len(pairs), len(base.seeds)
    if at is not None and (at < LAST or count == 1 < seeds):
        come = f" ({count} of {seeds} seeds at step {at})" if count < seeds else ""
        return Verdict("early", theirs, f": too early to say{come}")
    kind, text = _sentence(pairs, at, ours, theirs, rare)
    if at is None and count < seeds:
        text += f"; {seeds - count} of {seeds} seeds have no result"
    return Verdict(kind, theirs, text)


def _pairs(base: Series, variant: Series, at: int | None) -> Iterable[tuple[View, View]]:
    """The views of both sides with the same seed, where both have come to the step."""
    others = dict(zip(variant.seeds, variant.views, strict=True))
    for seed, view in zip(base.seeds, base.views, strict=True):
        pair = (view, others.get(seed))
        if all(
            v and v.status is not Status.FAILED and (v.diverged or v.has_come(at)) for v in pair
        ):
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
    speaks = isinstance(old, str) and old not in NOTHING
    return value_text(name, old) if speaks else changes_text(ours), theirs


def _sentence(
    pairs: list[tuple[View, View]], at: int | None, ours: str, theirs: str, rare: bool
) -> tuple[str, str]:
    """The kind of a verdict, and what is said after the variant's name."""
    n = len(pairs)
    x, y = np.array([[view.reached(at) for view in pair] for pair in pairs]).T
    finite = np.isfinite(x) & np.isfinite(y)
    ends = "ends" if at is None else "is"
    if finite.all() and all(np.array_equal(b.loss[:at], v.loss[:at]) for b, v in pairs):
        return "equal", (
            f" changes nothing here: the losses equal those of {ours}, number for number"
        )
    if n == 1:
        return "one seed", (f": loss {loss_text(y[0])}, against {loss_text(x[0])} for {ours}")
    side = one_side(x, y)
    if not side:
        return "mixed", (
            f": no clear difference: lower in {int((y < x).sum())} of {n} seeds "
            f"(loss {range_text(y, loss_text)}; {ours} {range_text(x, loss_text)})"
        )
    worse, better = (theirs, ours) if side > 0 else (ours, theirs)
    if not finite.any():
        said = f": {worse} diverges in {n} of {n} seeds, {better} in none"
    else:
        gaps = np.abs((y - x)[finite])
        where = ("clearly " if rare else "") + ("above" if side > 0 else "below")
        said = f" {ends} {where} {ours} in {n} of {n} seeds, by {_size(gaps)}"
        lost = n - int(finite.sum())
        said += f"; {worse} diverges in {lost} of them" if lost else ""
    return "clear" if rare else "one side", said + _leak(pairs, theirs, ours)


def _size(gaps: np.ndarray) -> str:
    """The differences of the pairs: their mean, from the smallest to the largest."""
    if gaps.max() < SMALLEST:
        return f"less than {SMALLEST} nats"
    low, high = in_nats(gaps.min()), in_nats(gaps.max())
    return f"{in_nats(gaps.mean())} nats" + (f" ({low} to {high})" if low != high else "")


def _leak(pairs: list[tuple[View, View]], theirs: str, ours: str) -> str:
    """A low loss that was read off the answer is not a success."""
    leaks = [any(_sees_ahead(pair[i]) for pair in pairs) for i in (0, 1)]
    if leaks[0] == leaks[1]:
        return ""
    return f"; but {theirs if leaks[1] else ours} sees the tokens it has to predict"


def _sees_ahead(view: View) -> bool:
    return bool(view.frames) and (view.frames[-1].future_influence or 0) >= LEAK
