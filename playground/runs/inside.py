"""A look inside a decoder: where its last token looks, and what each layer would answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.model import Transformer
from core.tasks import PAD
from core.trace import Recorder

GUESSES = 4  # of each layer


def stream(trace: Recorder) -> list[Tensor]:
    """The residual stream of a decoder: as it enters the first block, and after each block."""
    after = [x for name, x in trace.seen.items() if name.endswith(".resid_post")]
    return [trace.seen["embed"], *after]


@dataclass(frozen=True)
class Inside:
    """How a model comes to its next token."""

    weights: np.ndarray  # float32 [block, head, key]: where the last token read looks
    tokens: np.ndarray  # int64 [stage, guess]: what would be answered after each block
    chances: np.ndarray  # float32 [stage, guess]

    @property
    def settled(self) -> int:
        """The first stage from which on the best guess is that of the whole model."""
        best = self.tokens[:, 0]
        other = np.flatnonzero(best != best[-1])
        return int(other[-1]) + 1 if other.size else 0


@torch.no_grad()
def inside(model: Transformer, ids: Sequence[int]) -> Inside:
    """Look into a model that has read `ids` (their last `max_len`) and is asked for the next one.

    The logit lens (nostalgebraist 2020): what the output layer would answer if the blocks that
    come after were not there. Stage 0 is the embedding, before any block.
    """
    trace = Recorder()
    read = torch.tensor([list(ids)[-model.max_len :]], device=model.unembed.weight.device)
    model(read, trace)
    weights = [w[0, :, -1] for name, w in trace.seen.items() if name.endswith(".weights")]
    stages = torch.stack([x[0, -1] for x in stream(trace)])  # [stage, d_model]
    logits = model.unembed(model.norm(stages)).float()
    logits[:, PAD] = -torch.inf
    best = logits.softmax(-1).topk(min(GUESSES, logits.shape[-1] - 1))  # padding is no guess
    return Inside(
        torch.stack(weights).cpu().numpy(), best.indices.cpu().numpy(), best.values.cpu().numpy()
    )
