"""Copy, reverse and sort: a row of symbols, written down again in another order."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from core.knobs import cut, knob
from core.tasks.base import entropy
from core.tasks.question import SEPARATOR, SYMBOLS, QuestionTask
from core.tokens import PAD


@dataclass(frozen=True, kw_only=True)
class SequenceTask(QuestionTask):
    """Random symbols in, as many symbols out.

    With `vary` a row has between half of `length` and `length` symbols. It is filled up with
    PAD before the separator, so that the answer starts at the same place in every row.
    """

    symbols: int = knob(10, low=2, high=36, help="How many different symbols there are.")
    length: int = knob(10, low=2, high=64, help="Symbols in a row.")
    vary: bool = knob(False, help="Let rows be shorter, down to half of the length.")

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return "<pad>", *SYMBOLS[: self.symbols], SEPARATOR

    @property
    def answer_len(self) -> int:
        return self.length

    @property
    def shortest(self) -> int:
        """Symbols in the shortest row."""
        return (self.length + 1) // 2 if self.vary else self.length

    def draw(self, size: int, generator: torch.Generator) -> Int[Tensor, "size question"]:
        rows = torch.randint(1, self.symbols + 1, (size, self.length), generator=generator)
        if not self.vary:
            return rows
        lengths = torch.randint(self.shortest, self.length + 1, (size, 1), generator=generator)
        return rows.masked_fill(torch.arange(self.length) >= lengths, PAD)

    def parse(self, text: str) -> Int[Tensor, "1 question"]:
        ids = self.encode(text.removesuffix(SEPARATOR))
        if self.start in ids:
            raise ValueError(f"{cut(text)!r}: type the symbols only, without {SEPARATOR}")
        if not self.shortest <= len(ids) <= self.length:
            rule = f"{self.shortest} to {self.length}" if self.vary else f"exactly {self.length}"
            raise ValueError(f"{cut(text)!r} has {len(ids)} symbols: task {self.name} takes {rule}")
        return torch.tensor([ids + [PAD] * (self.length - len(ids))])

    def blind(self) -> float:
        return math.log(self.symbols)


@dataclass(frozen=True, kw_only=True)
class Copy(SequenceTask):
    """`31415 → 31415`"""

    name = "copy"
    title = "Copy"
    about = "Repeat the symbols in the same order: each answer is equally far from its symbol."

    def solve(self, questions: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        return questions


@dataclass(frozen=True, kw_only=True)
class Reverse(SequenceTask):
    """`31415 → 51413`"""

    name = "reverse"
    title = "Reverse"
    about = "Write the symbols backwards: the first answer is the last symbol, and so on."

    def solve(self, questions: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        if not self.vary:
            return questions.flip(1)
        lengths = (questions != PAD).sum(1, keepdim=True)
        places = lengths - 1 - torch.arange(self.length)
        return questions.gather(1, places.clamp(min=0)).masked_fill(places < 0, PAD)


@dataclass(frozen=True, kw_only=True)
class Sort(SequenceTask):
    """`31415 → 11345`"""

    name = "sort"
    title = "Sort"
    about = "Write the symbols in order: what matters is what they are, not where they stood."

    def solve(self, questions: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        last = self.symbols + 1  # padding sorts behind every symbol
        ordered = questions.masked_fill(questions == PAD, last).sort(1).values
        return ordered.masked_fill(ordered == last, PAD)

    def blind(self) -> float:
        """From the exact distribution of the k-th smallest of n symbols (order statistics)."""
        lengths = range(self.shortest, self.length + 1)
        loss = asked = 0.0
        for place in range(self.length):
            reaching = [n for n in lengths if n > place]
            spread = [
                sum(_order_statistic(self.symbols, n, place, symbol) for n in reaching)
                / len(reaching)
                for symbol in range(self.symbols)
            ]
            loss += len(reaching) * entropy(spread)
            asked += len(reaching)
        return loss / asked


def _order_statistic(symbols: int, n: int, place: int, symbol: int) -> float:
    """Probability that `symbol` stands at `place` (from 0) once n random symbols are sorted."""
    return _at_most(symbols, n, place, symbol) - _at_most(symbols, n, place, symbol - 1)


def _at_most(symbols: int, n: int, place: int, symbol: int) -> float:
    """Probability that more than `place` of n random symbols are at most `symbol`."""
    p = (symbol + 1) / symbols
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(place + 1, n + 1))
