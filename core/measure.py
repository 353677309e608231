"""Numbers that say what a model is doing, from the tensors that a trace has seen."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.attention import SCALES
from core.config import ModelConfig
from core.generate import generate
from core.masks import hidden_score
from core.model import Model
from core.tasks import Batch
from core.tokens import IGNORED, PAD

Weights = Float[Tensor, "batch heads query key"]
SHUT = 0.05  # a gradient below it hardly passes


def read_mask(
    masked: Float[Tensor, "batch heads query key"],
) -> Bool[Tensor, "batch heads query key"]:
    """Which keys are allowed, read off the masked scores."""
    return masked > hidden_score(masked.dtype) / 2


def entropy_share(
    weights: Weights, allowed: Bool[Tensor, "#batch #heads query key"]
) -> Float[Tensor, " heads"]:
    """Mean entropy of each head's rows, as a share of its maximum ln(allowed keys): 0 to 1.

    1 is uniform attention, 0 a look at one key only. Rows with a single allowed key
    have no choice and are left out.
    """
    entropy = -torch.xlogy(weights, weights).sum(-1)
    n_allowed = allowed.sum(-1).expand_as(entropy)
    share = entropy / n_allowed.clamp(min=2).log()
    return _mean_over_rows(share, n_allowed > 1)


def largest_weight(
    weights: Weights, allowed: Bool[Tensor, "#batch #heads query key"]
) -> Float[Tensor, " heads"]:
    """Mean of each row's largest weight, over the rows with a choice.

    Where no row has one, over the rows that see anything: they look at their only key, weight 1.
    """
    largest = weights.amax(-1)
    n_allowed = allowed.sum(-1).expand_as(largest)
    rows = n_allowed > (1 if (n_allowed > 1).any() else 0)
    return _mean_over_rows(largest, rows)


def _mean_over_rows(
    values: Float[Tensor, "batch heads query"], chosen: Bool[Tensor, "batch heads query"]
) -> Float[Tensor, " heads"]:
    count = chosen.sum((0, 2)).clamp(min=1)
    return torch.where(chosen, values, 0.0).sum((0, 2)) / count


def softmax_gradient(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """Frobenius norm of the softmax's Jacobian diag(w) - w wᵀ: how much gradient it lets through.

    √(n-1)/n for uniform weights over n keys, 0 when one key has all the weight.
    """
    squares, cubes = weights.pow(2).sum(-1), weights.pow(3).sum(-1)
    return (squares - 2 * cubes + squares**2).clamp(min=0).sqrt()


def share_shut(weights: Weights, allowed: Bool[Tensor, "#batch #heads query key"]) -> float:
    """Share of the rows with a choice whose softmax hardly passes a gradient: less than `SHUT`.

    A mean would hide them behind the few rows that pass a lot.
    """
    chooses = (allowed.sum(-1) > 1).expand(weights.shape[:-1])
    return (softmax_gradient(weights)[chooses] < SHUT).float().mean().item()


def score_spread(scaled: Weights, allowed: Bool[Tensor, "#batch #heads query key"]) -> float:
    """Standard deviation of the scaled scores over the allowed keys."""
    values = scaled[allowed.expand_as(scaled)]
    return values.std(correction=0).item() if values.numel() else 0.0


def spread_in_theory(d_head: int, scale: float, variance: float = 1.0) -> float:
    """The spread of q·k·scale when q and k have independent entries of some variance.

    The variance of a sum of d_head products of unit variance is d_head (paper, footnote 4).
    """
    return math.sqrt(d_head) * scale * variance


def spread_at_start(config: ModelConfig, attention: str = "blocks.0.attention") -> float | None:
    """The spread of the scaled scores to expect in this model before its first step.

    W_q and W_k hand on the variance of what attention reads, times d_model times that of their own
    entries. A norm makes what is read unit variance. The first attention of a stack without
    one before it reads the embedding itself: a token, and to that its position (½ where positions
    are sinusoidal, the mean square of a sine). None: the stream has grown or shrunk by then, and
    no simple rule says how far.

    Args:
        attention: its path: "blocks.0.attention", "encoder.blocks.0.attention", "blocks.1.cross".
    """
    tiny = 0.02**2  # see core/init.py
    matrix, token, table = {
        "xavier": (1 / config.d_model, 1.0, tiny),
        "gpt2": (tiny, tiny, tiny),
        "torch": (1 / (2 * config.d_model), 1.0, 1.0),
    }[config.init]
    position = {"sinusoidal": 0.5, "learned": table}.get(config.position, 0.0)
    if config.architecture == "vit" and config.norm != "pre":
        return None  # how large a patch is, its ink decides
    reads_embedding = config.norm != "pre" and attention.endswith("blocks.0.attention")
    if not reads_embedding and (config.norm == "none" or not config.residual):
        return None
    read = token + position if reads_embedding else 1.0
    scale = SCALES[config.scale](config)
    return spread_in_theory(config.d_head, scale, read * config.d_model * matrix)


@torch.no_grad()
def future_influence(model: Model, inputs: tuple[Int[Tensor, "batch _"], ...]) -> float:
    """How far the logits at t move when the token at t+1 changes: 0 under a causal mask.

    Measured on the last input of the model, by changing one token in the middle and one at the
    end and looking at all outputs before it. A value above rounding error means that the model
    can read what it is asked to predict; nan means that the logits are not finite.
    """
    *source, tokens = inputs
    length = tokens.shape[1]
    usual = model(*source, tokens)
    moves = [usual.new_zeros(())]
    for position in {length // 2, length - 1} - {0}:  # nothing stands before 0
        changed = tokens.clone()
        changed[:, position] = _another_token(tokens[:, position], usual.shape[-1])
        moved = model(*source, changed)[:, :position] - usual[:, :position]
        moves.append(moved.abs().max())
    return torch.stack(moves).max().item()


def _another_token(tokens: Int[Tensor, " batch"], vocab_size: int) -> Int[Tensor, " batch"]:
    """Any other token that is not padding."""
    return torch.where(tokens + 1 < vocab_size, tokens + 1, PAD + 1)


class Accuracy(NamedTuple):
    """Shares of what is right. Nearly all tokens may be right where few answers are."""

    tokens: float  # of the scored tokens
    exact: float  # of the rows: every scored token of it


def _accuracy(answers: Int[Tensor, "batch length"], targets: Tensor) -> Accuracy:
    scored = targets != IGNORED
    right = (answers == targets) | ~scored
    share = (right & scored).sum().item() / max(1, scored.sum().item())
    return Accuracy(share, right.all(1).float().mean().item())


@torch.no_grad()
def teacher_forced(model: Model, batch: Batch) -> Accuracy:
    """What greedy answers are worth while each is given the right answer so far.

    Under a causal mask a row is exactly right here where it is without the teacher, too: up to
    the first error both have read the same.
    """
    return _accuracy(model(*batch.inputs).argmax(-1), batch.targets)


def free_running(model: Model, batch: Batch) -> Accuracy | None:
    """What greedy decoding is worth without seeing the answer: it lives with its own.

    A model that learnt to read the answer through a leaking mask fails here. None when nothing
    is generated: an answer of which no token is scored.
    """
    *source, tokens = batch.inputs
    scored = batch.targets != IGNORED
    if not scored.any():
        return None
    start = int(scored.any(0).nonzero()[0])
    answer = generate(model, (*source, tokens[:, : start + 1]), tokens.shape[1] - start)
    return _accuracy(answer, batch.targets[:, start:])


def free_running_accuracy(model: Model, batch: Batch) -> float | None:
    """Share of the scored tokens that it gets right so."""
    found = free_running(model, batch)
    return None if found is None else found.tokens
