"""Which keys a query may see: predicates of two indices, turned into one number to add.

A mask answers "may query i see key j?" for whole tensors of indices at once. What attention adds
to its scores is made from it here, once per forward pass: 0 where the key is visible, a hugely
negative number where it is not, which softmax turns into a weight of 0 (paper, section 3.2.3).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Predicate = Callable[[Tensor, Tensor], Tensor]


def causal(query: Tensor, key: Tensor) -> Tensor:
    """A position sees itself and everything before it: nothing from the future.

    Training asks for the next token at every position at once; without this rule each position
    could read its answer one place further on.
    """
    return key <= query


def everything(query: Tensor, key: Tensor) -> Tensor:
    """Every position sees every other one, the future included."""
    return query + key >= 0


def sliding_window(width: int) -> Predicate:
    """A position sees the last `width` positions, itself counted."""

    def visible(query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query - key < width)

    return visible


def visible(
    predicate: Predicate, n_query: int, n_key: int, device: torch.device
) -> Bool[Tensor, "query key"]:
    """The predicate as a table, one row per query."""
    query = torch.arange(n_query, device=device)[:, None]  # [query, 1]
    key = torch.arange(n_key, device=device)[None, :]  # [1, key]
    return predicate(query, key)


def hide_padding(
    seen: Bool[Tensor, "query key"], real: Bool[Tensor, "batch key"]
) -> Bool[Tensor, "batch 1 query key"]:
    """Hide the keys that are padding, in every row: padding lies along the key axis.

    Rows of different lengths share a batch only when the filling means nothing to anybody.
    """
    return seen & real[:, None, None, :]


def keep_padding(
    seen: Bool[Tensor, "query key"], real: Bool[Tensor, "batch key"]
) -> Bool[Tensor, "query key"]:
    """Leave padding visible, to show the damage."""
    return seen


class Bias(NamedTuple):
    """What attention adds to its scores, and which queries see anything at all.

    `added` is 0 (or a position's bias) at visible keys, hugely negative at hidden ones: 2-D or
    4-D, never 3-D and never with a gradient, either of which would leave the fused kernel.
    `sees` is 1.0, or 0.0 for a query without a single visible key, whose row becomes zero.
    """

    added: Float[Tensor, "query key"] | Float[Tensor, "#batch #heads query key"]
    sees: Float[Tensor, "query 1"] | Float[Tensor, "#batch 1 query 1"]


def as_bias(
    seen: Bool[Tensor, "*batch query key"],
    position_bias: Float[Tensor, "..."] | float,
    dtype: torch.dtype,
) -> Bias:
    """Turn "may see" into numbers to add, of the type that the scores will have.

    Hidden cells get half of the type's minimum: finite, so that a row without any visible key
    cannot become NaN (forward or backward), and with room to add a score without overflow in
    fp16. After softmax they are exactly 0.
    """
    hidden = torch.finfo(dtype).min / 2
    base = torch.as_tensor(position_bias, dtype=dtype, device=seen.device)
    added = torch.where(seen, base, hidden)
    return Bias(added, seen.any(-1, keepdim=True).to(dtype))


# The switch `mask`: name -> (window width -> predicate).
MASKS: dict[str, Callable[[int], Predicate]] = {
    "causal": lambda window: causal,
    "none": lambda window: everything,
    "window": sliding_window,
}
