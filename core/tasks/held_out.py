"""Which questions belong to validation: a hash of the question decides.

So training never meets a validation question, although neither set is ever written down and there
may be more questions than anybody could list.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

SHARE = 1 / 8  # of all questions


def _signed(number: int) -> int:
    """A 64-bit number as PyTorch writes it."""
    return (number + 2**63) % 2**64 - 2**63


# Odd numbers whose digits look random: multiplied by them, neighbours end up far apart.
_GOLDEN, _MIXER = 0x9E37_79B9_7F4A_7C15, _signed(0xBF58_476D_1CE4_E5B9)


class HeldOut:
    """Tells the questions of validation from those of training.

    Args:
        some: questions as they are drawn, many of them. In a space of four questions a fixed
            border could leave one side empty, so it is put after the first eighth of the hashes
            that really occur, and after one at least.
    """

    def __init__(self, some: Int[Tensor, "many question"]) -> None:
        factors = [_signed(_GOLDEN * (2 * i + 1) ** 3 | 1) for i in range(some.shape[1])]
        self._factors = torch.tensor(factors)  # [question]
        hashes = self._hash(some).unique()  # sorted
        self._border = hashes[max(1, round(SHARE * len(hashes))) - 1]

    def __call__(self, questions: Int[Tensor, "batch question"]) -> Bool[Tensor, " batch"]:
        return self._hash(questions) <= self._border

    def _hash(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, " batch"]:
        value = (questions * self._factors).sum(1)  # int64 wraps around, as a hash wants it
        return ((value ^ (value >> 31)) * _MIXER) >> 24


def sieve(
    draw: Callable[[int], Tensor], wanted: Callable[[Tensor], Tensor], size: int, share: float
) -> Int[Tensor, "size question"]:
    """Draw rows until so many of them are wanted; on average a share of them is."""
    kept = []
    missing = size
    while missing > 0:
        # A fifth more than needed on average: one round is nearly always enough.
        rows = draw(int(1.2 * missing / share) + 8)
        kept.append(rows[wanted(rows)][:missing])
        missing -= len(kept[-1])
    return kept[0] if len(kept) == 1 else torch.cat(kept)
