"""Generation: ask for the next token, append it, ask again."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from core.cache import NO_CACHE, Cache, looks_ahead
from core.model import Model
from core.tokens import PAD

Choose = Callable[[Tensor], Tensor]

ROUNDING = 1e-6  # .5 + .3 is 0.79999995 in float32, and reaches .8
GREEDY_BELOW = 1e-6  # divided by a smaller temperature, logits could overflow


def greedy(logits: Float[Tensor, "batch vocab"]) -> Int[Tensor, " batch"]:
    """Always the likeliest token: right where there is one answer, dull in a text."""
    return logits.argmax(-1)


def ranked(
    logits: Float[Tensor, "batch vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> tuple[Float[Tensor, "batch vocab"], Int[Tensor, "batch vocab"]]:
    """What a token is drawn from: probabilities from the largest down, and whose they are.

    The rules are those of `sampler`. A token that they leave out has probability 0.
    """
    ordered, tokens = logits.float().sort(dim=-1, descending=True)
    if temperature < GREEDY_BELOW:
        top_k, temperature = 1, 1.0
    probabilities = (ordered / temperature).softmax(-1)  # [batch, vocab]
    if top_k is not None:
        probabilities[:, top_k:] = 0
    if top_p is not None:
        before = probabilities.cumsum(-1) - probabilities
        probabilities[:, 1:].masked_fill_(before[:, 1:] > top_p - ROUNDING, 0)
    return probabilities / probabilities.sum(-1, keepdim=True), tokens


def sampler(
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Choose:
    """Draw the next token at random, as the model's probabilities say.

    A text has many right continuations. The likeliest ones alone repeat themselves; all of them,
    thousands of improbable ones included, sooner or later go astray: the arguments are the dial.

    Args:
        temperature: divides the logits; 0 is greedy, 1 the model's own probabilities.
        top_k: only the k likeliest tokens; more than there are means all.
        top_p: only the likeliest tokens that together reach this probability (Holtzman et al.
            2020, section 3.1); at least one.
        generator: where the randomness comes from.

    Raises:
        ValueError: a temperature below 0 or infinite, top_k below 1, top_p outside (0, 1].
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature={temperature}: must be at least 0, and finite")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k}: must be at least 1")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p}: must be above 0 and at most 1")
    if temperature < GREEDY_BELOW:
        return greedy

    def choose(logits: Float[Tensor, "batch vocab"]) -> Int[Tensor, " batch"]:
        probabilities, tokens = ranked(logits, temperature, top_k, top_p)
        rank = torch.multinomial(probabilities.cpu(), 1, generator=generator).to(tokens.device)
        return tokens.gather(-1, rank)[:, 0]

    return choose


@torch.no_grad()
def generate(
    model: Model,
    inputs: Sequence[Int[Tensor, "batch ..."]],
    n_new: int,
    choose: Choose = greedy,
    end: int = PAD,
) -> Int[Tensor, "batch new"]:
    """Continue a sequence by `n_new` tokens, or until it ends itself.

    Training asks for every next token at once; here each one has to be read before the next. A
    source is read once: what an encoder makes of it does not depend on what is written. What has
    been written is read once, too, for as long as that stays true (cache.py): not under a mask that
    sees ahead, and not once the text is longer than `max_len`, when with every new token the oldest
    one drops out and all the others stand somewhere else.

    Args:
        inputs: what the model reads, `(tokens,)` or `(source, target)`; the last one grows.
            Longer than the model's `max_len`, it keeps its last tokens.
        choose: picks the next token of each row from its logits.
        end: the token after which a row is over; once all are, nothing more is generated.

    Returns:
        Only the new tokens. Padding is never generated: it stands behind the end of a row.
    """
    *source, tokens = inputs
    n_prompt = tokens.shape[1]
    after = model.reader(*source)
    cache = NO_CACHE if looks_ahead(model.may_see) else Cache()
    over = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    for _ in range(n_new):
        if tokens.shape[1] > model.max_len:
            cache = NO_CACHE
        unread = tokens[:, cache.length :][:, -model.max_len :]
        logits = after(unread, cache=cache)[:, -1].float()
        logits[:, PAD] = -torch.inf
        new = choose(logits).masked_fill(over, PAD)
        tokens = torch.cat([tokens, new[:, None]], dim=1)
        over = over | (new == end)
        if over.all():
            break
    return tokens[:, n_prompt:]
