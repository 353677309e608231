"""One thing, written in one way, is to be written in another: what encoder-decoders are made for.

Source and answer have other tokens and other lengths, and an answer says itself where it ends.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from core.tasks.question import QuestionTask
from core.tokens import PAD


@dataclass(frozen=True, kw_only=True)
class Translation(QuestionTask):
    """Texts in, texts out.

    What is held out for validation is a meaning, in all the ways to write it: a model that has
    met a date in another form could know its answer by heart.
    """

    architectures = ("decoder", "encoder-decoder")
    refusals: ClassVar[dict[str, str]] = {
        "encoder": "a label for each token that it reads is no answer of another length"
    }

    # --- what a subclass says -------------------------------------------------------------

    @property
    @abstractmethod
    def question_len(self) -> int:
        """Tokens in the longest question."""

    @abstractmethod
    def write(self, size: int, generator: torch.Generator) -> Iterable[str]:
        """Random questions."""

    @abstractmethod
    def translate(self, text: str) -> str:
        """The answer to one of these questions."""

    @abstractmethod
    def understand(self, text: str) -> str:
        """A visitor's own question, as `write` would write it.

        Raises:
            ValueError: says the rule that `text` breaks.
        """

    # --- what follows from it -------------------------------------------------------------

    @property
    def padded(self) -> bool:
        return True

    def draw(self, size: int, generator: torch.Generator) -> Int[Tensor, "size question"]:
        return self._rows(map(self.encode, self.write(size, generator)), self.question_len)

    def solve(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch answer"]:
        """The right answers; characters, then the end, then padding."""
        texts = (self.translate(self.join(row)) for row in questions.tolist())
        ids = self._ids
        return self._rows(([ids[c] for c in text] + [self.end] for text in texts), self.answer_len)

    def meaning(self, questions: Int[Tensor, "batch question"]) -> Int[Tensor, "batch answer"]:
        return self.solve(questions)

    def parse(self, text: str) -> Int[Tensor, "1 question"]:
        return self._rows([self.encode(self.understand(text))], self.question_len)

    def _rows(self, rows: Iterable[list[int]], length: int) -> Int[Tensor, "rows length"]:
        return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])
