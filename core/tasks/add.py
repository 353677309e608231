"""Addition, digit by digit: `47+85=` and the answer `132`."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from core.knobs import cut, knob
from core.tasks.base import entropy
from core.tasks.question import SYMBOLS, QuestionTask
from core.tokens import IGNORED

_SLOT = "_"  # where an encoder writes a digit of the answer


@dataclass(frozen=True, kw_only=True)
class Add(QuestionTask):
    """Two numbers of `length` digits, filled up with zeros, and their sum with one digit more.

    Digits run from the most significant to the least, as on paper; an encoder reads
    `47+85=___` and labels the three slots.
    """

    name = "add"
    title = "Addition"
    about = "Add two numbers: a digit depends on its column and, by the carry, on all behind it."

    symbols: int = knob(10, low=2, high=16, help="Base of the numbers: 10 is decimal.")
    length: int = knob(2, low=1, high=8, help="Digits of each number.")

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return "<pad>", *SYMBOLS[: self.symbols], "+", "=", _SLOT

    @property
    def answer_len(self) -> int:
        return self.length + 1

    @property
    def start(self) -> int:
        return self.symbols + 2

    def draw(self, size: int, generator: torch.Generator) -> Int[Tensor, "size question"]:
        digits = torch.randint(1, self.symbols + 1, (size, 2 * self.length), generator=generator)
        return self._written(digits[:, : self.length], digits[:, self.length :])

    def solve(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch answer"]:
        # Digit d has id d + 1: id 0 is padding.
        digits, powers = questions - 1, self._powers
        first, second = digits[:, : self.length], digits[:, self.length + 1 : -1]
        total = ((first + second) * powers[1:]).sum(1, keepdim=True)
        return total // powers % self.symbols + 1

    def decoder_question(
        self, questions: Int[Tensor, "batch question"]
    ) -> Int[Tensor, "batch question"]:
        """The question itself: it ends with the equals sign."""
        return questions

    def encoder_form(
        self, questions: Int[Tensor, "batch question"]
    ) -> tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length"]]:
        """The question and a slot for each digit of the sum, which is that slot's label."""
        answers = self.solve(questions)
        slots = torch.full_like(answers, self.vocabulary.index(_SLOT))
        unscored = torch.full_like(questions, IGNORED)
        return torch.cat((questions, slots), dim=1), torch.cat((unscored, answers), dim=1)

    def parse(self, text: str) -> Int[Tensor, "1 question"]:
        ids = self.encode(text.partition("=")[0])  # the sum may stand behind it
        plus = self.symbols + 1
        parts = [ids[: ids.index(plus)], ids[ids.index(plus) + 1 :]] if plus in ids else []
        if not parts or not all(
            1 <= len(part) <= self.length and max(part) <= self.symbols for part in parts
        ):
            raise ValueError(
                f"{cut(text)!r}: add takes two numbers of up to {self.length} digits in base "
                f"{self.symbols} with + between them"
            )
        first, second = ([1] * (self.length - len(part)) + part for part in parts)
        return self._written(torch.tensor([first]), torch.tensor([second]))

    def blind(self) -> float:
        """Every digit of the sum is uniform, but for the leading one, which is the last carry."""
        carry = 0.0
        for _ in range(self.length):
            # a + b reaches the base in (base - 1) of 2·base cases, a + b + 1 in two more.
            carry = (self.symbols - 1 + 2 * carry) / (2 * self.symbols)
        leading = entropy((carry, 1 - carry))
        return (self.length * math.log(self.symbols) + leading) / self.answer_len

    @cached_property
    def _powers(self) -> Tensor:
        return torch.tensor([self.symbols**place for place in range(self.length, -1, -1)])

    def _written(self, first: Tensor, second: Tensor) -> Tensor:
        plus = torch.full((len(first), 1), self.symbols + 1)
        return torch.cat((first, plus, second, self._starts(len(first))), dim=1)
