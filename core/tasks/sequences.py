"""Copy, reverse and sort: a row of symbols, written down again in another order."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
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
    def padded(self) -> bool:
        return self.vary

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

    def _unless(self, known: Bool[Tensor, " answer"]) -> Float[Tensor, "1 answer"]:
        """Nothing where the answer's own symbol is known; otherwise it may be any symbol."""
        return (~known).double()[None] * math.log(self.symbols)


@dataclass(frozen=True, kw_only=True)
class Copy(SequenceTask):
    """`31415 → 31415`"""

    name = "copy"
    title = "Copy"
    about = "Repeat the symbols in the same order: each answer is equally far from its symbol."

    def solve(self, questions: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        return questions

    def surprise(
        self,
        architecture: str,
        questions: Int[Tensor, "batch length"],
        known: Bool[Tensor, "length length"],
    ) -> Float[Tensor, "1 length"]:
        return self._unless(known.diagonal())


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

    def surprise(
        self,
        architecture: str,
        questions: Int[Tensor, "batch length"],
        known: Bool[Tensor, "length length"],
    ) -> Float[Tensor, "1 length"] | None:
        """With `vary` the length, if hidden, would have to be guessed as well."""
        return None if self.vary else self._unless(known.flip(1).diagonal())


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
            # The symbol at this place is at most s where more than `place` are at most s.
            at_most = sum(self._enough[n, :, place + 1] for n in reaching) / len(reaching)
            loss += len(reaching) * entropy(at_most.diff().tolist())
            asked += len(reaching)
        return loss / asked

    def surprise(
        self,
        architecture: str,
        questions: Int[Tensor, "batch length"],
        known: Bool[Tensor, "length length"],
    ) -> Float[Tensor, "batch length"] | None:
        """The hidden symbols are uniform; how many of them are small decides who stands where.

        A decoder also reads the answer so far, which tells more, and `vary` hides how many
        symbols there are.
        """
        if architecture == "decoder" or self.vary:
            return None
        answers = self.solve(questions)
        hidden = self.length - known.sum(1)  # [answer]

        def at_most(symbols: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length"]:
            small = (questions[:, None, :] <= symbols[..., None]) & known  # [batch, answer, key]
            missing = torch.arange(1, self.length + 1) - small.sum(2)
            return self._enough[hidden, symbols, missing.clamp(min=0)]

        return -(at_most(answers) - at_most(answers - 1)).log()

    @cached_property
    def _enough(self) -> Float[Tensor, "n symbol count"]:
        """Probability that of n random symbols at least `count` are among the first `symbol`."""
        p = torch.arange(self.symbols + 1, dtype=torch.float64)[:, None] / self.symbols
        exactly = torch.zeros(self.symbols + 1, self.length + 2, dtype=torch.float64)
        exactly[:, 0] = 1
        tables = []
        for _ in range(self.length + 1):
            tables.append(exactly.flip(1).cumsum(1).flip(1))
            exactly = exactly * (1 - p) + exactly.roll(1, 1) * p
        return torch.stack(tables)
