"""What a model writes, token by token, with what each token was chosen from."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.generate import generate, ranked, sampler
from core.model import Model
from core.tasks import PAD, Task
from core.tasks.base import Prompt

MOST = 8  # alternatives of a token that are kept


@dataclass(frozen=True)
class Rules:
    """How the next token is chosen from the model's probabilities: see `core.generate.sampler`."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Written:
    """The tokens that a model has added to a text, and the likeliest ones at each of them."""

    ids: tuple[int, ...]
    letters: tuple[str, ...]  # as they are, white space included
    alternatives: tuple[tuple[int, ...], ...]  # at each token, from the likeliest down
    before: np.ndarray  # float32 [token, alternative]: what the model says of them
    after: np.ndarray  # float32 [token, alternative]: with what probability each is drawn
    chances: np.ndarray  # float32 [token]: what the model said of the one that was chosen
    in_draw: np.ndarray  # int64 [token]: how many tokens could have been drawn

    @property
    def text(self) -> str:
        return "".join(self.letters)


class _Enough(Exception):
    """Ends a text before its time."""


def write(
    model: Model,
    task: Task,
    prompt: Prompt,
    rules: Rules,
    given: Sequence[int] = (),
    interrupted: Callable[[], bool] = lambda: False,
) -> Written:
    """Let a model write on from a prompt.

    Args:
        given: the first tokens of the text, put there by hand. The random numbers of the tokens
            after them are those that they would have had anyway.
        interrupted: asked at every token; once it says True, the text ends there.
    """
    draw = sampler(
        rules.temperature,
        rules.top_k,
        rules.top_p,
        generator=torch.Generator().manual_seed(rules.seed),
    )
    seen: list[Tensor] = []
    written: list[int] = []

    def choose(logits: Tensor) -> Tensor:
        if interrupted():
            raise _Enough
        token, place = draw(logits), len(written)
        if place < len(given):
            token = torch.full_like(token, given[place])
        seen.append(logits[0].cpu())
        written.append(int(token))
        return token

    device = model.unembed.weight.device
    with suppress(_Enough):
        generate(model, [tokens.to(device) for tokens in prompt.inputs], prompt.n_new, choose)
    logits = torch.stack(seen) if seen else torch.zeros(0, task.vocab_size)
    before, order = ranked(logits)
    after, _ = ranked(logits, rules.temperature, rules.top_k, rules.top_p)
    chosen = torch.tensor(written, dtype=torch.int64)[:, None]
    kept = min(MOST, task.vocab_size - 1)  # padding is never written
    return Written(
        ids=tuple(written),
        letters=tuple(task.vocabulary[i] for i in written),
        alternatives=tuple(map(tuple, order[:, :kept].tolist())),
        before=before[:, :kept].numpy(),
        after=after[:, :kept].numpy(),
        chances=before[order == chosen].numpy(),
        in_draw=(after > 0).sum(-1).numpy(),
    )


@torch.no_grad()
def chances_of(model: Model, ids: Sequence[int]) -> np.ndarray:
    """What a model says of each token of a text but the first, given those before it.

    A text longer than the model is read in windows, each of which begins in the middle of the one
    before: every token but the first few has at least half a window before it.

    Returns:
        float32 [tokens - 1], probabilities.
    """
    device, width = model.unembed.weight.device, model.max_len
    step = max(1, width // 2)
    found: list[Tensor] = []
    for start in range(0, max(1, len(ids) - 1), step):
        window = torch.tensor([ids[start : start + width + 1]], device=device)
        if window.shape[1] < 2:
            break
        logits = model(window[:, :-1]).float()
        logits[..., PAD] = -torch.inf
        chances = logits.softmax(-1).gather(-1, window[:, 1:, None])[0, :, 0].cpu()
        found.append(chances[sum(map(len, found)) - start :])
        if start + width + 1 >= len(ids):
            break
    return torch.cat(found).numpy() if found else np.zeros(0, dtype=np.float32)
