"""What the measurements of several ideas share."""

import torch
from torch import Tensor

from core.masks import MASKS, Bias, allowed_keys, as_bias
from core.trace import Recorder


def stream(trace: Recorder) -> list[Tensor]:
    """The residual stream of a decoder: as it enters the first block, and after each block."""
    after = [x for name, x in trace.seen.items() if name.endswith(".resid_post")]
    return [trace.seen["embed"], *after]


def mask_bias(kind: str, length: int) -> Bias:
    """What a mask without a window adds to the scores of `length` queries and keys."""
    allowed = allowed_keys(MASKS[kind](0), length, length, torch.device("cpu"))
    return as_bias(allowed, 0.0, torch.float32)
