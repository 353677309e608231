"""What the measurements of several ideas share."""

import torch

from core.masks import MASKS, Bias, allowed_keys, as_bias


def mask_bias(kind: str, length: int) -> Bias:
    """What a mask without a window adds to the scores of `length` queries and keys."""
    allowed = allowed_keys(MASKS[kind](0), length, length, torch.device("cpu"))
    return as_bias(allowed, 0.0, torch.float32)
