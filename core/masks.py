"""Which keys a query may see, in three steps, once per forward pass.

A rule answers "may query i see key j?"; asked for all pairs at once it gives the table `allowed`;
the table becomes what attention adds to its scores: 0 where the key is allowed, a hugely negative
number where it is not, which softmax turns into a weight of 0 (paper, section 3.2.3).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from core.config import ModelConfig

Rule = Callable[[Tensor, Tensor], Tensor]


def allowed_keys(
    may_see: Rule, n_query: int, n_key: int, device: torch.device
) -> Bool[Tensor, "query key"]:
    """A rule as a table, one row per query: True where it may see the key.

    The queries are the last of the keys: fewer of them ask again only for what is new. (Where
    queries and keys are two sequences, the rule must be `everything`.)
    """
    query = torch.arange(n_key - n_query, n_key, device=device)[:, None]  # [query, 1]
    key = torch.arange(n_key, device=device)[None, :]  # [1, key]
    return may_see(query, key)


def causal(query: Tensor, key: Tensor) -> Tensor:
    """A position sees itself and everything before it: nothing from the future.

    Training asks for the next token at every position at once; without this rule each position
    could read its answer one place further on.
    """
    return key <= query


def everything(query: Tensor, key: Tensor) -> Tensor:
    """Every position sees every other one, the future included."""
    return torch.ones_like(query + key, dtype=torch.bool)


def sliding_window(width: int) -> Rule:
    """A position sees the last `width` positions, itself counted."""

    def within(query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query - key < width)

    return within


# The switch `mask`: name -> (window width -> rule). "auto" is one of them, by architecture
# (`ModelConfig.mask_rule`).
MASKS: dict[str, Callable[[int], Rule]] = {
    "causal": lambda window: causal,
    "none": lambda window: everything,
    "window": sliding_window,
}


def reachable(config: ModelConfig, length: int) -> Bool[Tensor, "query key"]:
    """Whose token can reach a position through all layers: it reads what another has read.

    Each layer of a window of 4 reaches three positions further back. What cannot reach a position
    it can only guess, however long it learns.
    """
    rule = MASKS[config.mask_rule](config.window)
    once = allowed_keys(rule, length, length, torch.device("cpu")).float()
    reach = once
    for _ in range(config.n_layers - 1):
        further = ((reach @ once) > 0).float()
        if torch.equal(further, reach):
            break
        reach = further
    return reach > 0


def hide_padding(
    allowed: Bool[Tensor, "query key"], real: Bool[Tensor, "batch key"]
) -> Bool[Tensor, "batch 1 query key"]:
    """Hide the keys that are padding, in every row: padding lies along the key axis.

    Rows of different lengths share a batch only when the filling means nothing to anybody.
    """
    return allowed & real[:, None, None, :]


class Bias(NamedTuple):
    """What attention adds to its scores, and which queries see anything at all.

    `added` is 0 (or a position's bias) at allowed keys, hugely negative at hidden ones; the fused
    kernel wants it with 2 or 4 dimensions and without a gradient.
    `sees` is 1.0, or 0.0 for a query without a single allowed key, whose row becomes zero.
    """

    added: Float[Tensor, "query key"] | Float[Tensor, "#batch #heads query key"]
    sees: Float[Tensor, "query 1"] | Float[Tensor, "#batch 1 query 1"]


def hidden_score(dtype: torch.dtype) -> float:
    """What is added to a score to hide its key: half of the type's minimum.

    Finite, so that a row without any allowed key cannot become NaN (forward or backward), and
    with room to add a score without overflow in fp16. Softmax turns it into exactly 0, except
    in a row that hides every key: there it hands out shares as ever, and `Bias.sees` makes them 0.
    """
    return torch.finfo(dtype).min / 2


def as_bias(
    allowed: Bool[Tensor, "*batch query key"],
    position_bias: Float[Tensor, "..."] | float,
    dtype: torch.dtype,
) -> Bias:
    """Turn the table into numbers to add, of the type that the scores will have."""
    base = torch.as_tensor(position_bias, dtype=dtype, device=allowed.device)
    added = torch.where(allowed, base, hidden_score(dtype))
    return Bias(added, sees=allowed.any(-1, keepdim=True).to(dtype))
