"""Between text and ids: the tokens of a task, how they are typed, and how they are drawn."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from core.knobs import quoted
from core.tokens import IGNORED, PAD

_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "<pad>": "·"}

END = "■"  # the last token of an answer, where its length has to be answered as well
NEVER = PAD  # an end that does not come, for padding is never generated


class Vocabulary(ABC):
    """Numbered tokens."""

    name: ClassVar[str]  # of the task that has them
    units: ClassVar[str] = "characters"  # what its tokens are

    @property
    @abstractmethod
    def vocabulary(self) -> tuple[str, ...]:
        """Every token; its index is its id, and the first one is padding."""

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def end(self) -> int:
        """The token that ends an answer; `NEVER` where there is none."""
        return self._ids.get(END, NEVER)

    def split(self, text: str) -> list[str]:
        """The tokens that somebody has typed."""
        return list(text)

    def join(self, ids: Iterable[int]) -> str:
        """What one would type to get these tokens; padding is not typed."""
        return "".join(self.vocabulary[i] for i in ids if i != PAD)

    def encode(self, text: str) -> list[int]:
        """The ids of the tokens of `text`.

        Raises:
            ValueError: lists what the vocabulary lacks.
        """
        tokens, ids = self.split(text), self._ids
        if unknown := sorted(set(tokens) - set(ids)):
            shown = ", ".join(quoted(token) for token in unknown[:20])
            more = f" and {len(unknown) - 20} more" if len(unknown) > 20 else ""
            raise ValueError(f"unknown {self.units} {shown}{more}: {self._known_tokens()}")
        return [ids[token] for token in tokens]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.vocabulary) if i != PAD}

    def decode(self, ids: Iterable[int] | Tensor) -> list[str]:
        """The token of each id as it should be drawn: space, newline and padding visible.

        A target that is not scored looks like padding.
        """
        if isinstance(ids, Tensor):
            ids = ids.flatten().tolist()
        drawn = (self.vocabulary[PAD if i == IGNORED else i] for i in ids)
        return [_VISIBLE.get(token, token) for token in drawn]

    def _known_tokens(self) -> str:
        return f"task {self.name} knows {' '.join(self.decode(range(1, self.vocab_size)))}"
