"""What is made small, and how: the loss, the optimisers, and how the learning rate moves.

The usual schedule is a linear warmup, while the gradients are still wild, then half a cosine; the
paper's own falls with the root of the step (section 5.3).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from core.config import TrainConfig
from core.tokens import IGNORED

FLOOR = 0.1  # the cosine ends at this share of the peak learning rate


def cross_entropy(
    logits: Float[Tensor, "batch length vocab"],
    targets: Int[Tensor, "batch length"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Nats per scored token: how surprised the model is, on average, by each right answer.

    The mean is over all scored tokens, not over sequences, so a long answer counts for more. A
    batch without any scored token costs 0 and has zero gradients.

    Args:
        label_smoothing: share of each target that is spread evenly over the vocabulary (paper,
            section 5.4). Being sure then costs more than being nearly sure: this is a loss to
            learn from, and no longer the surprise at the right answer.
    """
    total = F.cross_entropy(
        logits.flatten(0, 1),  # [batch · length, vocab]
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    return total / (targets != IGNORED).sum().clamp(min=1)


def constant(i: int, config: TrainConfig) -> float:
    """The share of the peak learning rate: all of it, all the time."""
    return 1.0


def cosine(i: int, config: TrainConfig) -> float:
    """Half a cosine from 1 down to `FLOOR` (Loshchilov and Hutter 2017, equation 5).

    Large steps find the valley, small ones settle at its bottom.
    """
    progress = (i - config.warmup) / max(1, config.steps - config.warmup)
    return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * min(1.0, progress))) / 2


def paper(i: int, config: TrainConfig) -> float:
    """The inverse square root of the step (paper, equation 3), as a share of its peak.

    There the peak follows from the width and the warmup, 1/√(d_model · warmup): 0.0007 for 512
    and 4,000 steps. Here it is `lr`, as for every schedule, and the curve is the same. It has no
    end that it works towards: the training can go on for as long as it helps.
    """
    return math.sqrt((config.warmup + 1) / (i + 1))


# The switch `schedule`: name -> (an update after the warmup -> share of the peak).
SCHEDULES = {"constant": constant, "cosine": cosine, "paper": paper}


def learning_rate(i: int, config: TrainConfig) -> float:
    """The learning rate of update i, counted from 0: a linear warmup, then the schedule.

    The warmup starts above zero, at lr / (warmup + 1): no update is wasted.
    """
    if i < config.warmup:
        return config.lr * (i + 1) / (config.warmup + 1)
    return config.lr * SCHEDULES[config.schedule](i, config)


def parameter_groups(model: nn.Module, config: TrainConfig) -> list[dict[str, Any]]:
    """The matrices, which weight decay pulls towards zero, and all the rest, which it spares.

    Small matrices make a smooth function. A gain near zero would only switch its layer off, and an
    embedding would shrink whenever its token does not come up (as in minGPT).
    """
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and not name.startswith("embed.")
        (matrices if is_matrix else others).append(parameter)
    return [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def set_rates(optimizer: torch.optim.Optimizer, lr: float, weight_decay: float) -> None:
    """What the next update uses."""
    matrices, others = optimizer.param_groups
    matrices["lr"] = others["lr"] = lr
    matrices["weight_decay"] = weight_decay


def adamw(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

    Each parameter's step is divided by the usual size of its own gradient, so embeddings, norms
    and matrices learn at one rate although their gradients differ by orders of magnitude.
    """
    return torch.optim.AdamW(parameter_groups(model, config), lr=config.lr, fused=True)


def sgd(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Gradient descent with a momentum of 0.9: every parameter at the rate of its gradient."""
    groups = parameter_groups(model, config)
    return torch.optim.SGD(groups, lr=config.lr, momentum=0.9, fused=True)


# The switch `optimizer`.
OPTIMIZERS = {"adamw": adamw, "sgd": sgd}
