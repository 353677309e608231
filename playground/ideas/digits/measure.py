"""Pictures: where the class token looks, which patches decide, and what simpler methods reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from core.config import ModelConfig, TrainConfig
from core.embedding import BLACK
from core.model import Transformer
from core.tasks.images import Images, patches_of
from core.tasks.pictures import SOURCES, Labelled
from core.trace import Recorder
from core.train import Trainer
from playground.runs.spec import Spec

HELD_OUT = 450  # pictures that accuracies are measured on: of the digits, all there are
AT_ONCE = 150  # pictures that are looked into together
RANKINGS = ("rollout", "ink", "random", "least")  # what decides which patches are blanked first
DECAY = 1e-3  # of the linear classifier's weights: without one they grow without end

Patches = Int[Tensor, "batch patches grey"]
Shares = Float[Tensor, "batch patches"]


def spec(kind: str, patch: int, position: str) -> Spec:
    """What is trained here: two layers, as in the playground, behind a norm each."""
    task = Images(kind=kind, patch=patch)
    model = {"position": position, "norm": "pre", "activation": "gelu"}
    training = TrainConfig(steps=600, batch_size=64, lr=3e-3, schedule="cosine", warmup=30)
    return Spec(ModelConfig.for_task(task, **model), task, training)


def held_out(kind: str) -> Labelled:
    """The pictures that accuracies are measured on."""
    return SOURCES[kind]().held_out(HELD_OUT)


# --- one picture ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What a model makes of one picture."""

    picture: np.ndarray  # int64 [8, 8], levels of grey
    shows: str
    chances: list[tuple[str, float]]  # classes from the likeliest down
    class_token: np.ndarray  # float32 [layer, head, patch]: its weights on the patches
    on_itself: np.ndarray  # float32 [layer, head]: its weight on itself
    rollout: np.ndarray  # float32 [patch], sums to 1
    ink: np.ndarray  # float32 [patch], sums to 1: the share of all ink that lies there

    @property
    def right(self) -> bool:
        return self.chances[0][0] == self.shows


@torch.no_grad()
def look(model: Transformer, task: Images, number: int) -> Look:
    """What a model makes of the held-out picture of a number."""
    pictures, classes = (part[number : number + 1] for part in held_out(task.kind))
    patches, trace = patches_of(pictures, task.patch), Recorder()
    chances = model(patches, trace)[0, 0].softmax(-1)
    order = chances.argsort(descending=True).tolist()
    names = task.vocabulary
    weights = torch.stack(weights_of(trace))[:, 0, :, 0]  # [layer, head, key]
    return Look(
        picture=pictures[0].numpy(),
        shows=names[int(classes[0]) + 1],
        chances=[(names[i], float(chances[i])) for i in order if i],
        class_token=weights[..., 1:].numpy(),
        on_itself=weights[..., 0].numpy(),
        rollout=rollout(weights_of(trace))[0].numpy(),
        ink=ink(patches)[0].numpy(),
    )


def weights_of(trace: Recorder) -> list[Float[Tensor, "batch heads query key"]]:
    """The attention weights of each layer."""
    return [tensor for name, tensor in trace.seen.items() if name.endswith("attention.weights")]


def rollout(layers: Sequence[Float[Tensor, "batch heads query key"]]) -> Shares:
    """How much of the class token's end comes from each patch (Abnar and Zuidema 2020).

    Half of what leaves a layer has come straight through the residual connection, half by the
    mean attention of the heads; what several layers do is the product. The class token's share of
    itself is left out, and the rest brought to a sum of 1.
    """
    n = layers[0].shape[-1]
    total = torch.eye(n, dtype=layers[0].dtype)
    for weights in layers:
        total = (0.5 * weights.mean(1) + 0.5 * torch.eye(n, dtype=weights.dtype)) @ total
    shares = total[:, 0, 1:]  # [batch, patch]
    return shares / shares.sum(-1, keepdim=True)


def ink(patches: Patches) -> Shares:
    """The share of a picture's ink that lies in each patch: it takes no model to know it."""
    amounts = patches.sum(-1).float()
    return amounts / amounts.sum(-1, keepdim=True).clamp(min=1)


# --- all held-out pictures ------------------------------------------------------------------


def accuracy(model: Transformer, patches: Patches, classes: Int[Tensor, " batch"]) -> float:
    """The share of pictures that a model names rightly."""
    with torch.no_grad():
        return (model(patches)[:, 0].argmax(-1) == classes + 1).float().mean().item()


def right_answers(trainer: Trainer) -> float:
    """The share of held-out pictures that a run names rightly, in the order of its own task."""
    return trainer.evaluate(trainer.task.validation("vit", HELD_OUT)).accuracy


def shuffled(patches: Patches) -> Patches:
    """The patches of each picture in an order of its own: always the same ones."""
    draws = torch.rand(patches.shape[:2], generator=torch.Generator().manual_seed(0))
    return patches.gather(1, draws.argsort(1)[:, :, None].expand_as(patches))


def most_blanked(n_patches: int) -> int:
    """A quarter of the patches, at least one; the only patch there is stays."""
    return min(max(1, n_patches // 4), n_patches - 1)


def blanked(patches: Patches, shares: Shares, k: int) -> Patches:
    """The k patches of the largest shares become paper."""
    chosen = shares.topk(k, dim=1).indices[:, :, None]
    return patches.scatter(1, chosen.expand(-1, -1, patches.shape[2]), 0)


@dataclass(frozen=True)
class Found:
    """What a model is worth on the held-out pictures."""

    right: float  # the share that it names rightly
    mixed: float  # the same, with the patches of each picture shuffled
    k: int  # patches that are blanked
    without: dict[str, float]  # ranking -> the same, with these k patches blanked
    agreement: float  # mean correlation of rollout and ink over the pictures; nan: nothing varies


def measured(model: Transformer, task: Images) -> Found:
    """Blank the patches that matter most, by one ranking after another."""
    pictures, classes = held_out(task.kind)
    patches = patches_of(pictures, task.patch)
    shares = torch.cat([_rollout_of(model, part) for part in patches.split(AT_ONCE)])
    dark = ink(patches)
    random = torch.rand(shares.shape, generator=torch.Generator().manual_seed(0))
    rankings = dict(zip(RANKINGS, (shares, dark, random, -shares), strict=True))
    k = most_blanked(patches.shape[1])
    return Found(
        right=accuracy(model, patches, classes),
        mixed=accuracy(model, shuffled(patches), classes),
        k=k,
        without={
            name: accuracy(model, blanked(patches, ranking, k), classes)
            for name, ranking in rankings.items()
        },
        agreement=correlation(shares, dark),
    )


@torch.no_grad()
def _rollout_of(model: Transformer, patches: Patches) -> Shares:
    trace = Recorder()
    model(patches, trace)
    return rollout(weights_of(trace))


def correlation(a: Shares, b: Shares) -> float:
    """Pearson's correlation within each picture, and its mean over those where both vary."""
    a, b = (x - x.mean(1, keepdim=True) for x in (a, b))
    sizes = (a.square().sum(1) * b.square().sum(1)).sqrt()
    varies = sizes > 1e-9
    each = (a * b).sum(1)[varies] / sizes[varies]
    return each.mean().item() if len(each) else float("nan")


# --- positions ------------------------------------------------------------------------------


def alike(model: Transformer) -> np.ndarray | None:
    """How alike the learnt positions of the patches are: cosines; None without a table.

    Returns:
        float32 [patch, patch].
    """
    table = getattr(model.embed.position, "table", None)
    if table is None:
        return None
    rows = table.detach()[1:]  # the first is the class token's
    rows = rows / rows.norm(dim=1, keepdim=True)
    return (rows @ rows.T).numpy()


# --- without a transformer ------------------------------------------------------------------


@dataclass(frozen=True)
class Simple:
    """What two methods reach that are older than transformers."""

    n_learnt: int  # pictures that they have learnt from
    linear: float  # the share of held-out pictures that a linear classifier names rightly
    nearest: float  # that has the class of the learnt picture that is most like it


@lru_cache(maxsize=2)
def simple(kind: str) -> Simple:
    """The two on the same split; shapes are drawn anew, as many as there are digits."""
    n = 1347
    pictures, classes = SOURCES[kind]().training(n, torch.Generator().manual_seed(0), shift=False)
    if kind == "digits":
        pictures, classes = SOURCES[kind]().learnt
    learnt, asked = (x.flatten(1).double() / BLACK for x in (pictures, held_out(kind).pictures))
    right = held_out(kind).classes
    nearest = classes[torch.cdist(asked, learnt).argmin(1)]
    answers = linear(learnt, classes, asked)
    return Simple(
        len(classes),
        (answers == right).float().mean().item(),
        (nearest == right).float().mean().item(),
    )


def linear(
    learnt: Float[Tensor, "many 64"], classes: Int[Tensor, " many"], asked: Float[Tensor, "some 64"]
) -> Int[Tensor, " some"]:
    """Softmax regression: each pixel has a weight for each class, and that is all."""
    weights = torch.zeros(65, int(classes.max()) + 1, dtype=learnt.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def logits(x: Tensor) -> Tensor:
        return x @ weights[:-1] + weights[-1]

    def objective() -> Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(logits(learnt), classes) + DECAY * weights[:-1].square().sum()
        loss.backward()
        return loss

    optimizer.step(objective)
    return logits(asked).argmax(-1).detach()
