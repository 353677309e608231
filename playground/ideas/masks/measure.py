"""Masks: who may look at whom, and what reaches which output, measured by gradients."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from core.config import ModelConfig
from core.masks import MASKS, Rule, allowed_keys, as_bias, hidden_score, hide_padding
from core.measure import future_influence
from core.model import Transformer, build_model
from core.tasks import TASKS
from core.tasks.question import SEPARATOR
from core.tokens import PAD
from core.trace import Recorder
from core.train import cross_entropy
from playground.runs.inside import stream

MAX_LENGTH = 12
MOST_LAYERS = 4
WINDOWS = (1, 2, 3, 4, 5, 6)
D_MODEL, N_HEADS = 16, 2
DIGITS = "314159"  # the question: reverse these
TASK = TASKS["reverse"]()
PADDED = ("9265358979", "3238462", "6433")  # sequences of different lengths
SIDES = ("end", "start")
ROUNDING = 1e-5  # a smaller difference between two logits is one of rounding
HIDDEN_SCORE = hidden_score(torch.float32)

Cells = tuple[tuple[bool, ...], ...]  # [query][key]: may the query see the key


# --- a mask, as drawn -----------------------------------------------------------------------


def tokens(length: int, padding: int = 0) -> Int[Tensor, "1 length"]:
    """A row of the task reverse as a model reads it, its last `padding` positions padding."""
    question = DIGITS[: -(-length // 2)]
    ids = TASK.encode(question + SEPARATOR + question[::-1])[:length]
    return torch.tensor([ids[: length - padding] + [PAD] * padding])


def table(
    kind: str,
    window: int,
    length: int,
    padding: int = 0,
    edits: Mapping[tuple[int, int], bool] | None = None,
) -> Cells:
    """Which cells a mask leaves visible; padding is hidden, and edits come last.

    Args:
        edits: (query, key) -> whether it is visible; those outside the table are ignored.
    """
    allowed = allowed_keys(MASKS[kind](window), length, length, torch.device("cpu"))
    allowed = hide_padding(allowed, tokens(length, padding) != PAD)[0, 0].clone()
    for (query, key), may_see in (edits or {}).items():
        if query < length and key < length:
            allowed[query, key] = may_see
    return tuple(map(tuple, allowed.tolist()))


def by_hand(cells: Cells) -> Rule:
    """A mask drawn cell by cell, as a rule that looks each cell up."""
    drawn = torch.tensor(cells)
    return lambda query, key: drawn[query, key]


# --- what it does ---------------------------------------------------------------------------


@lru_cache(maxsize=16)
def untrained(n_layers: int, *, pad_mask: bool = False, **switches: Any) -> Transformer:
    """A small untrained model: what can reach an output does not depend on training.

    Args:
        switches: more fields of its config.
    """
    config = ModelConfig(
        vocab_size=TASK.vocab_size,
        max_len=MAX_LENGTH,
        d_model=D_MODEL,
        n_heads=N_HEADS,
        n_layers=n_layers,
        pad_mask=pad_mask,
        **switches,
    )
    return build_model(config)


def masked_by(model: Transformer, mask: Rule) -> Transformer:
    """The same model, with the same weights, under another mask."""
    other = copy.copy(model)
    other.may_see = mask
    return other


@dataclass(frozen=True)
class Reach:
    """What an untrained model does under a mask with one sequence; levels go from input to output.

    gradient[l, i, j] is the norm of d logits_i / d x_j, all entries of that Jacobian, where x is
    the stream after l blocks: level 0 are the embeddings. It is exactly 0 where nothing of x_j
    reaches output i.
    """

    gradient: np.ndarray  # float32 [levels, output, input]
    scaled: np.ndarray  # float32 [heads, query, key], of the first block
    added: np.ndarray  # float32 [query, key]: what the mask adds to the scaled scores
    softmax: np.ndarray  # float32 [heads, query, key]: of scaled + added
    weights: np.ndarray  # float32 [heads, query, key]: the same, with 0 in rows that see nothing
    handed_over: np.ndarray  # float32 [query]: largest |z| of a query
    finite: bool  # whether all logits and the gradients of all weights are finite numbers

    @property
    def reached(self) -> np.ndarray:
        """bool [output, input]: whether a token's embedding moves an output at all."""
        return self.gradient[0] > 0


@lru_cache(maxsize=256)
def reach(cells: Cells, n_layers: int, padding: int = 0) -> Reach:
    """Measure it: one forward, and one backward for all outputs at once."""
    model = masked_by(untrained(n_layers), by_hand(cells))
    row = tokens(len(cells), padding)
    trace = Recorder({"embed": lambda x: x.detach().requires_grad_()})
    n_out = len(cells) * TASK.vocab_size  # one copy of the row for each logit
    logits = model(row.expand(n_out, -1), trace)
    each = torch.eye(n_out).unflatten(-1, (len(cells), TASK.vocab_size))
    gradients = torch.autograd.grad(logits, stream(trace), each, retain_graph=True)
    jacobian = torch.stack(gradients).unflatten(1, (len(cells), TASK.vocab_size))
    loss = cross_entropy(logits[:1, :-1], row[:, 1:])
    learnt = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    inside = {
        name: trace.seen[f"blocks.0.attention.{name}"][0].detach()
        for name in ("scaled", "masked", "weights", "z")
    }
    return Reach(
        gradient=jacobian.square().sum((2, 4)).sqrt().numpy(),
        scaled=inside["scaled"].numpy(),
        added=as_bias(torch.tensor(cells), 0.0, torch.float32).added.numpy(),
        softmax=inside["masked"].softmax(-1).numpy(),
        weights=inside["weights"].numpy(),
        handed_over=inside["z"].abs().amax((0, 2)).numpy(),
        finite=all(bool(g.isfinite().all()) for g in (logits, *learnt) if g is not None),
    )


@lru_cache(maxsize=64)
def leak(kind: str, window: int, n_layers: int, length: int) -> float:
    """How far logits move when a later token changes, under a plain mask."""
    return future_influence(untrained(n_layers, mask=kind, window=window), (tokens(length),))


@lru_cache(maxsize=64)
def window_reach(window: int) -> tuple[int, ...]:
    """How many tokens reach the last position of the longest row, after 1, 2 … blocks."""
    model = untrained(MOST_LAYERS, mask="window", window=window)
    trace = Recorder({"embed": lambda x: x.detach().requires_grad_()})
    model(tokens(MAX_LENGTH), trace)
    # A sum would not do: LayerNorm makes it 0 whatever comes in.
    direction = torch.randn(D_MODEL, generator=torch.Generator().manual_seed(0))
    embedded, *after = stream(trace)
    found = []
    for x in after:
        last = x[0, -1] @ direction
        (gradient,) = torch.autograd.grad(last, embedded, retain_graph=True)
        found.append(int(gradient[0].any(-1).sum()))
    return tuple(found)


# --- a padded batch -------------------------------------------------------------------------


@dataclass(frozen=True)
class Padded:
    """Sequences of different lengths in one batch, compared with each of them alone."""

    shown: list[list[str]]  # [sequence][position]: the tokens, padding included
    real: np.ndarray  # bool [sequence, position]
    # float32 [sequence, position]: largest |difference| of a logit; nan at padding.
    hidden: np.ndarray
    visible: np.ndarray  # the same when the padding is not hidden


@lru_cache(maxsize=64)
@torch.no_grad()
def padded(kind: str, window: int, n_layers: int, position: str, side: str) -> Padded:
    """Logits of a padded batch minus those of the same sequences alone, padding hidden and not."""
    rows = [TASK.encode(digits) for digits in PADDED]
    width = max(map(len, rows))
    fill = [[PAD] * (width - len(row)) for row in rows]
    pairs = zip(rows, fill, strict=True)
    batch = torch.tensor([row + pad if side == "end" else pad + row for row, pad in pairs])
    real = batch != PAD
    found = []
    for pad_mask in (True, False):
        model = untrained(n_layers, pad_mask=pad_mask, position=position, mask=kind, window=window)
        model.embed.position.check = lambda tokens: None  # what a model refuses is shown here
        together = model(batch)
        difference = torch.full(batch.shape, torch.nan)
        for i, row in enumerate(rows):
            difference[i, real[i]] = _largest(together[i, real[i]] - model(torch.tensor([row]))[0])
        found.append(difference.numpy())
    return Padded([TASK.decode(row) for row in batch], real.numpy(), *found)


def _largest(difference: Float[Tensor, "position vocab"]) -> Float[Tensor, " position"]:
    return difference.abs().amax(-1)
