"""Associative recall: key–value pairs, then one of the keys; the answer is its value.

The smallest task that needs two layers working together: one to tie each value to its key, one
to look the key up (induction heads, Olsson et al. 2022, "In-context Learning and Induction
Heads").
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.knobs import cut, knob
from core.tasks.question import SEPARATOR, SYMBOLS, QuestionTask
from core.tokens import IGNORED

_KEYS = "abcdefghijklmnopqrstuvwxyz"
_VALUES = SYMBOLS[:10] + _KEYS.upper()


@dataclass(frozen=True, kw_only=True)
class Recall(QuestionTask):
    """`a3 c7 b1 → c` asks for 7. The keys of a row differ; values may repeat.

    There are as many keys as symbols, and never fewer than a row needs: max(symbols, length).
    """

    name = "recall"
    title = "Associative recall"
    about = "Pairs of a letter and a value, then one letter: answer with its value."

    symbols: int = knob(8, low=2, high=26, help="How many different values there are.")
    length: int = knob(4, low=2, high=26, help="Pairs in a row.")

    @property
    def n_keys(self) -> int:
        return max(self.symbols, self.length)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return "<pad>", *_KEYS[: self.n_keys], *_VALUES[: self.symbols], SEPARATOR

    @property
    def answer_len(self) -> int:
        return 1

    def draw(self, size: int, generator: torch.Generator) -> Int[Tensor, "size question"]:
        # The first `length` of a random order of all keys: distinct and uniform.
        order = torch.rand(size, self.n_keys, generator=generator).argsort(1)
        keys = order[:, : self.length] + 1
        first_value = self.n_keys + 1
        values = torch.randint(self.symbols, keys.shape, generator=generator) + first_value
        asked = torch.randint(self.length, (size, 1), generator=generator)
        pairs = torch.stack((keys, values), dim=2).flatten(1)
        return torch.cat((pairs, self._starts(size), keys.gather(1, asked)), dim=1)

    def solve(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch 1"]:
        keys, values = questions[:, :-2:2], questions[:, 1:-2:2]
        place = (keys == questions[:, -1:]).int().argmax(1, keepdim=True)
        return values.gather(1, place)

    def decoder_question(
        self, questions: Int[Tensor, "batch question"]
    ) -> Int[Tensor, "batch question"]:
        """The question itself: it ends with the key, and the value comes next."""
        return questions

    def encoder_form(
        self, questions: Int[Tensor, "batch question"]
    ) -> tuple[Int[Tensor, "batch question"], Int[Tensor, "batch question"]]:
        """The value is the label of the last place, where the asked key stands."""
        labels = torch.full_like(questions, IGNORED)
        labels[:, -1:] = self.solve(questions)
        return questions, labels

    def parse(self, text: str) -> Int[Tensor, "1 question"]:
        ids = self.encode(text.replace("->", SEPARATOR).replace("?", SEPARATOR))
        keys, values = ids[:-2:2], ids[1:-2:2]
        first_value = self.n_keys + 1
        well_formed = (
            len(ids) == 2 * self.length + 2
            and ids[-2] == self.start
            and all(key < first_value for key in keys)
            and all(first_value <= value < self.start for value in values)
            and len(set(keys)) == len(keys)
            and ids[-1] in keys
        )
        if not well_formed:
            raise ValueError(
                f"{cut(text)!r}: recall takes {self.length} pairs of a letter and a value, "
                f"no letter twice, then {SEPARATOR} (or ?) and one of these letters, as in "
                f"{self.example('decoder')}"
            )
        return torch.tensor([ids])

    def surprise(
        self,
        architecture: str,
        questions: Int[Tensor, "batch question"],
        known: Bool[Tensor, "1 question"],
    ) -> Float[Tensor, "batch 1"]:
        """A letter that is not among the known ones belongs to any of the other pairs."""
        letters, values = questions[:, :-2:2], questions[:, 1:-2:2]  # each [batch, pairs]
        letter_known, value_known = known[:, :-2:2], known[:, 1:-2:2]
        asked = letters == questions[:, -1:]
        found = (asked & letter_known).any(1, keepdim=True)
        candidates = torch.where(found, asked, ~letter_known)
        right = (values == self.solve(questions)).double()
        right = torch.where(value_known, right, 1 / self.symbols)
        share = (right * candidates).sum(1, keepdim=True) / candidates.sum(1, keepdim=True)
        return -share.log()

    def blind(self) -> float:
        return math.log(self.symbols)
