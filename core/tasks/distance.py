"""A value at a distance: it is shown, many letters follow, then it is asked for.

The smallest task that asks for a long memory and for nothing else (Hochreiter and Schmidhuber
1997, section 5, has several of the kind).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.knobs import cut, knob
from core.tasks.question import SEPARATOR, QuestionTask
from core.tokens import IGNORED

_VALUES = "0123456789"
_LETTERS = "abcdefgh"  # they mean nothing


@dataclass(frozen=True, kw_only=True)
class Distance(QuestionTask):
    """`7gbc→` asks for 7, at distance 3. Mixed, each row has a distance of its own, up to that:

    the value then has letters before it, too, and every row has the same length.
    """

    name = "distance"
    title = "A value at a distance"
    about = "A digit, then letters that mean nothing: answer with the digit."

    symbols: int = knob(8, low=2, high=10, help="How many different values there are.")
    distance: int = knob(16, low=1, high=256, help="Letters between the value and the question.")
    mixed: bool = knob(
        False, help="Each row has a distance of its own: any from 0 up to the largest."
    )

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return "<pad>", *_VALUES[: self.symbols], *_LETTERS, SEPARATOR

    @property
    def answer_len(self) -> int:
        return 1

    def draw(self, size: int, generator: torch.Generator) -> Int[Tensor, "size question"]:
        rows = torch.randint(len(_LETTERS), (size, self.distance + 1), generator=generator)
        rows += self.symbols + 1
        values = torch.randint(self.symbols, (size, 1), generator=generator) + 1
        place = torch.zeros(size, 1, dtype=torch.int64)
        if self.mixed:
            place = torch.randint(self.distance + 1, (size, 1), generator=generator)
        return torch.cat((rows.scatter(1, place, values), self._starts(size)), dim=1)

    def solve(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch 1"]:
        return questions.gather(1, self._place(questions))

    def decoder_question(
        self, questions: Int[Tensor, "batch question"]
    ) -> Int[Tensor, "batch question"]:
        """The question itself: it ends with the arrow, and the value comes next."""
        return questions

    def encoder_form(
        self, questions: Int[Tensor, "batch question"]
    ) -> tuple[Int[Tensor, "batch question"], Int[Tensor, "batch question"]]:
        """The value is the label of the last place, where it is asked for."""
        labels = torch.full_like(questions, IGNORED)
        labels[:, -1:] = self.solve(questions)
        return questions, labels

    def parse(self, text: str) -> Int[Tensor, "1 question"]:
        ids = self.encode(text.replace("->", SEPARATOR).removesuffix(SEPARATOR))
        digits = [i for i, token in enumerate(ids) if token <= self.symbols]
        well_formed = len(ids) == self.distance + 1 and len(digits) == 1
        if not well_formed or self.start in ids or (digits != [0] and not self.mixed):
            where = "somewhere among" if self.mixed else "before"
            raise ValueError(
                f"{cut(text)!r}: distance takes one digit {where} {self.distance} letters from "
                f"{_LETTERS[0]} to {_LETTERS[-1]}, as in {self.example('decoder')}"
            )
        return torch.tensor([[*ids, self.start]])

    def surprise(
        self,
        architecture: str,
        questions: Int[Tensor, "batch question"],
        known: Bool[Tensor, "1 question"],
    ) -> Float[Tensor, "batch 1"]:
        """Where the value is out of sight, any of them is as likely."""
        seen = known[0][self._place(questions)]  # [batch, 1]
        return (~seen).double() * self.blind()

    def blind(self) -> float:
        return math.log(self.symbols)

    def _place(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch 1"]:
        """Where the value stands."""
        return (questions <= self.symbols).int().argmax(1, keepdim=True)
