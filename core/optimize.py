"""How a gradient becomes a step: the optimisers, and how the learning rate moves.

The schedule is the recipe most transformers are trained with: a linear warmup, while the
gradients are still wild, then half a cosine (paper, section 5.3, has another decay).
"""

import math

import torch
from torch import Tensor

from core.config import TrainConfig

FLOOR = 0.1  # the cosine ends at this share of the peak learning rate


def constant(progress: float) -> float:
    """The share of the peak learning rate: all of it, all the time."""
    return 1.0


def cosine(progress: float) -> float:
    """Half a cosine from 1 down to `FLOOR` (Loshchilov and Hutter 2017, equation 5)."""
    return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * min(1.0, progress))) / 2


SCHEDULES = {"constant": constant, "cosine": cosine}


def learning_rate(i: int, config: TrainConfig) -> float:
    """The learning rate of update i, counted from 0: a linear warmup, then the schedule.

    The warmup starts above zero, at lr / (warmup + 1): no update is wasted.
    """
    if i < config.warmup:
        return config.lr * (i + 1) / (config.warmup + 1)
    progress = (i - config.warmup) / max(1, config.steps - config.warmup)
    return config.lr * SCHEDULES[config.schedule](progress)


def adamw(parameters: list[Tensor], config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2)."""
    return torch.optim.AdamW(parameters, lr=config.lr, weight_decay=config.weight_decay, fused=True)


def sgd(parameters: list[Tensor], config: TrainConfig) -> torch.optim.Optimizer:
    """Gradient descent with a momentum of 0.9."""
    return torch.optim.SGD(
        parameters, lr=config.lr, weight_decay=config.weight_decay, momentum=0.9, fused=True
    )


OPTIMIZERS = {"adamw": adamw, "sgd": sgd}
