"""Training: one optimiser step at a time, driven by whoever holds the trainer.

for step in Trainer(config, task):
    print(step.step, step.loss)
"""

import math
import time
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from core.config import ModelConfig, TrainConfig
from core.device import DTYPES, Device, choose_device
from core.knobs import turned
from core.model import adopt, build_model
from core.optimize import OPTIMIZERS, learning_rate
from core.tasks import Batch, Task
from core.tokens import IGNORED
from core.trace import NO_TRACE, Recorder, Trace


@dataclass(frozen=True)
class Step:
    """What one optimiser step did. Norms are before clipping and without the loss scale."""

    step: int  # updates done so far, this one included
    loss: float  # nats per scored token
    lr: float
    grad_norm: float
    layer_norms: dict[str, float]  # gradient norm per layer, from input to output
    tokens: int
    seconds: float


class Evaluation(NamedTuple):
    """How well a model does on a batch, with the answer so far given to it."""

    loss: float  # nats per scored token
    accuracy: float  # share of the scored tokens


class Change(NamedTuple):
    """A knob turned while the run went on, in force from the update after `step`."""

    step: int
    field: str
    value: Any


class Diverged(RuntimeError):
    """The loss or a gradient is no longer a finite number: the run is over.

    The update was not made, so the weights are those of the last finite step.
    """

    def __init__(self, step: int, lr: float, reason: str) -> None:
        super().__init__(f"diverged at step {step} (learning rate {lr:g}): {reason}")
        self.step, self.lr, self.reason = step, lr, reason


def cross_entropy(
    logits: Float[Tensor, "batch length vocab"], targets: Int[Tensor, "batch length"]
) -> Float[Tensor, ""]:
    """Nats per scored token: the mean over all scored tokens, not over sequences.

    A batch without any scored token costs 0 and has zero gradients.
    """
    total = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return total / (targets != IGNORED).sum().clamp(min=1)


class Trainer:
    """One model learning one task.

    Everything random comes from generators of its own: two runs with one seed give the same
    numbers, bit for bit on the CPU, whatever else the process is doing.

    Raises:
        ValueError: a task without a form for the architecture, a vocabulary or length that does
            not fit, a precision the device does not offer.
    """

    def __init__(
        self,
        model_config: ModelConfig,
        task: Task,
        train_config: TrainConfig | None = None,
        device: Device | None = None,
    ) -> None:
        self.config = train_config or TrainConfig()
        self.model_config, self.task = model_config, task
        self.device = device or choose_device()
        check_fits(model_config, task)
        self.device.check(self.config.precision)

        self.model = build_model(model_config, self.config.seed).to(self.device.name)
        self.parameters = list(self.model.parameters())
        self.optimizer = OPTIMIZERS[self.config.optimizer](self.parameters, self.config)
        self.batches = torch.Generator().manual_seed(self.config.seed)
        self.step_count = 0
        self.changes: list[Change] = []
        self.diverged: Diverged | None = None

        dtype = DTYPES[self.config.precision]
        self.autocast = torch.autocast(self.device.kind, dtype) if dtype else nullcontext()
        self.scaler = torch.amp.GradScaler(self.device.kind, enabled=dtype is torch.float16)
        self._prepare_layers()

    def _prepare_layers(self) -> None:
        """Which parameters make up which layer, as a 0/1 matrix [layer, parameter]."""
        names = [_layer(name) for name, _ in self.model.named_parameters()]
        self.layers = list(dict.fromkeys(names))
        member = [[float(name == layer) for name in names] for layer in self.layers]
        self._members = torch.tensor(member, device=self.device.name)

    def __iter__(self) -> Iterator[Step]:
        """Train to the end."""
        while self.step_count < self.config.steps:
            yield self.step()

    def step(self) -> Step:
        """Do one optimiser step.

        Raises:
            Diverged: the loss or a gradient is not finite; the update is not made.
        """
        if self.diverged:
            raise self.diverged
        start = time.perf_counter()
        lr = learning_rate(self.step_count, self.config)
        batch = self.task.batch(
            self.model_config.architecture, self.config.batch_size, self.batches
        )
        loss = self._backward(batch)
        loss_value, grad_norm, layer_norms = self._norms(loss)
        if self._finite(loss_value, grad_norm, lr):
            self._update(lr, grad_norm)
        self.step_count += 1
        tokens = batch.inputs[-1].numel()
        norms = dict(zip(self.layers, layer_norms, strict=True))
        seconds = time.perf_counter() - start
        return Step(self.step_count, loss_value, lr, grad_norm, norms, tokens, seconds)

    def _to_device(self, batch: Batch) -> Batch:
        inputs = tuple(x.to(self.device.name, non_blocking=True) for x in batch.inputs)
        return Batch(inputs, batch.targets.to(self.device.name, non_blocking=True))

    def _backward(self, batch: Batch) -> Tensor:
        inputs, targets = self._to_device(batch)
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast:
            loss = cross_entropy(self.model(*inputs), targets)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        return loss.detach()

    def _norms(self, loss: Tensor) -> tuple[float, float, list[float]]:
        """Loss, gradient norm, and norm per layer: one trip from the device to the host."""
        grads = [p.grad for p in self.parameters]
        squares = torch.stack(torch._foreach_norm(grads)).float().square()
        layers = (self._members @ squares).sqrt()
        loss_value, square, *norms = torch.cat([loss[None], squares.sum()[None], layers]).tolist()
        return loss_value, math.sqrt(square) if square >= 0 else square, norms

    def _finite(self, loss: float, grad_norm: float, lr: float) -> bool:
        """Whether the update may be made; ends the run when there is nothing left to hope for."""
        if math.isfinite(loss) and math.isfinite(grad_norm):
            return True
        if math.isfinite(loss) and self.scaler.is_enabled() and self.scaler.get_scale() >= 1:
            self.scaler.update(self.scaler.get_scale() / 2)  # fp16 overflowed: a smaller scale
            return False
        what = "gradient" if math.isfinite(loss) else "loss"
        self.diverged = Diverged(self.step_count + 1, lr, f"the {what} is no longer finite")
        raise self.diverged

    def _update(self, lr: float, grad_norm: float) -> None:
        """Clip (Pascanu et al. 2013, algorithm 1), then let the optimiser move the weights."""
        if self.config.clip is not None and grad_norm > self.config.clip:
            torch._foreach_mul_([p.grad for p in self.parameters], self.config.clip / grad_norm)
        for group in self.optimizer.param_groups:
            group["lr"], group["weight_decay"] = lr, self.config.weight_decay
        self.scaler.step(self.optimizer)
        self.scaler.update()

    @torch.no_grad()
    def evaluate(self, batch: Batch | None = None, trace: Trace = NO_TRACE) -> Evaluation:
        """Loss and accuracy on a batch, by default the task's fixed validation set.

        The edits of `trace` say what the model would be without a head, a block …
        """
        batch = batch or self.task.validation(self.model_config.architecture)
        inputs, targets = self._to_device(batch)
        with self.autocast:
            logits = self.model(*inputs, trace=trace)
        scored = targets != IGNORED
        right = (logits.argmax(-1) == targets) & scored
        loss = cross_entropy(logits.float(), targets)
        return Evaluation(loss.item(), right.sum().item() / max(1, scored.sum().item()))

    @torch.no_grad()
    def look(
        self, *inputs: Int[Tensor, "batch _"], only: Collection[str] | None = None
    ) -> dict[str, Tensor]:
        """Run the model with somebody watching: every traced tensor by name, in float32.

        `only` some of them are brought to the host: those whose names end so ("weights").
        """
        trace = Recorder()
        self.model(*(x.to(self.device.name) for x in inputs), trace=trace)
        return {
            name: tensor.float().cpu()
            for name, tensor in trace.seen.items()
            if only is None or name.rpartition(".")[2] in only
        }

    def change(self, **values: Any) -> None:
        """Turn hot knobs of the model or of the training while the run goes on.

        The new model adopts the very parameters of the old one: only the switch differs.

        Raises:
            ValueError: a knob that is not hot, or an illegal value; nothing has changed then.
        """
        model_config, self.config = turned((self.model_config, self.config), values)
        if model_config != self.model_config:
            self.model_config = model_config
            self.model = adopt(build_model(model_config, self.config.seed), self.model)
        self.changes += [Change(self.step_count, name, value) for name, value in values.items()]


def check_fits(config: ModelConfig, task: Task) -> None:
    """Refuse a model that cannot read its task.

    Raises:
        ValueError: names the field, both numbers, and the way out.
    """
    task.check_architecture(config.architecture)
    if config.vocab_size != task.vocab_size:
        raise ValueError(
            f"vocab_size={config.vocab_size}: task {task.name} has {task.vocab_size} tokens; "
            "ModelConfig.for_task(task) fits them"
        )
    if config.max_len < (length := task.max_len(config.architecture)):
        raise ValueError(
            f"max_len={config.max_len}: task {task.name} needs {length} positions; "
            "ModelConfig.for_task(task) fits them"
        )


def _layer(name: str) -> str:
    """`blocks.1.attention.qkv.weight` belongs to layer `blocks.1`, `unembed.weight` to `head`."""
    head, _, rest = name.partition("blocks.")
    return f"{head}blocks.{rest.split('.')[0]}" if rest else name.split(".")[0]
