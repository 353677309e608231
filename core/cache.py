"""The key-value cache: what a model has read, it need not read again.

A text is written token by token, and each new token asks all those before it. Where no position
sees what comes after it, a new token changes nothing about the earlier ones: their keys and values
stay what they were. A cache keeps them, so that the model reads the new tokens alone, whose queries
meet all keys so far:

    cache = Cache()
    model(tokens[:, :5], cache=cache)
    logits = model(tokens[:, 5:6], cache=cache)  # the same as model(tokens[:, :6])[:, -1:]

Keeping belongs to the call, not to the model, as looking does (trace.py): whoever generates hands
the model one cache, call after call, with the new tokens of one batch of rows (and the same source
each time). Names follow the module path, as those of the trace.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from core.masks import Rule

Made = TypeVar("Made")
State = Tensor | tuple[Tensor, Tensor]  # of a GRU, of an LSTM


def looks_ahead(may_see: Rule) -> bool:
    """Whether a mask lets a position see the one after it."""
    first, second = torch.arange(2)
    return bool(may_see(first, second))


class NoCache:
    """Nothing is kept: every call reads its sequence from the beginning, as training does."""

    length = 0  # tokens that earlier calls have read
    state: State | None = None  # of a recurrent layer after them

    def check(self, may_see: Rule) -> None:
        """Refuse a mask under which what is kept would be wrong (ValueError)."""

    def scope(self, name: str) -> "NoCache":
        """The part that the sub-module `name` keeps."""
        return self

    def extend(self, *new: Tensor, dim: int) -> tuple[Tensor, ...]:
        """Each tensor behind what is kept of it, along the axis of the positions."""
        return new

    def keep(self, state: State) -> None:
        """The state that a recurrent layer has come to; the next call begins with it."""

    def once(self, make: Callable[[], Made]) -> Made:
        """What `make` gives; with a cache, what it gave the first time."""
        return make()


NO_CACHE = NoCache()


class Cache(NoCache):
    """Keeps keys, values and tokens of one batch of rows, and what an encoder made of its source.

    `length` counts the tokens read so far.
    """

    def __init__(self) -> None:
        self.length = 0
        self._kept: tuple[Tensor, ...] = ()
        self._made: list = []
        self._parts: dict[str, Cache] = {}

    def check(self, may_see: Rule) -> None:
        if looks_ahead(may_see):
            raise ValueError(
                "no key-value cache under this mask: a position sees what comes after it, so "
                "each new token changes the keys and values of all before it"
            )

    def scope(self, name: str) -> "Cache":
        return self._parts.setdefault(name, Cache())

    def extend(self, *new: Tensor, dim: int) -> tuple[Tensor, ...]:
        if self._kept:
            new = tuple(torch.cat(pair, dim) for pair in zip(self._kept, new, strict=True))
        self._kept = new
        self.length = new[0].shape[dim]
        return new

    def keep(self, state: State) -> None:
        self.state = state

    def once(self, make: Callable[[], Made]) -> Made:
        if not self._made:
            self._made.append(make())
        return self._made[0]
