"""Training: one optimiser step at a time, driven by whoever holds the trainer.

for step in Trainer(config, task):
    print(step.step, step.loss)

A step is the loop that every neural network is trained with: draw a batch, see how wrong the
model is, let the error flow back to every parameter, move each a little against it.
"""

import math
import time
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from core.config import ModelConfig, TrainConfig
from core.device import DTYPES, Device, choose_device, flush_denormals
from core.knobs import turned
from core.model import adopt, build_model
from core.optimize import OPTIMIZERS, cross_entropy, learning_rate, set_rates
from core.report import Change, Diverged, Evaluation, Step, layer_of, norms_by_layer
from core.tasks import Batch, Task
from core.tokens import IGNORED
from core.trace import NO_TRACE, Recorder, Trace


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
        self.model_config = model_config
        self.task = task
        self.device = device or choose_device()
        model_config.check_fits(task)
        self.device.check(self.config.precision)

        self.model = build_model(model_config, self.config.seed).to(self.device.name)
        self.parameters = list(self.model.parameters())
        self.optimizer = OPTIMIZERS[self.config.optimizer](self.model, self.config)
        self.batches = torch.Generator().manual_seed(self.config.seed)
        self.step_count = 0
        self.skipped = 0  # steps so far whose update was not made
        self.changes: list[Change] = []
        self.diverged: Diverged | None = None

        dtype = DTYPES[self.config.precision]
        self.autocast = torch.autocast(self.device.kind, dtype) if dtype else nullcontext()
        self.scaler = torch.amp.GradScaler(self.device.kind, enabled=dtype is torch.float16)
        self.layer_of_each = [layer_of(name) for name, _ in self.model.named_parameters()]
        self.layers = list(dict.fromkeys(self.layer_of_each))  # from input to output

    def __iter__(self) -> Iterator[Step]:
        """Train to the end."""
        while self.step_count < self.config.steps:
            yield self.step()

    def step(self) -> Step:
        """Do one optimiser step.

        A step whose gradients overflow in fp16 counts, although its update is skipped; the
        schedule goes on with the next update that is made.

        Raises:
            Diverged: the loss or a gradient is not finite; the update is not made.
        """
        if self.diverged:
            raise self.diverged
        start = time.perf_counter()
        flush_denormals()

        # The batch.
        batch = self.task.batch(self.model_config.form, self.config.batch_size, self.batches)
        inputs, targets = batch.to(self.device.name)

        # Forward: how wrong is the model? What is reported is never smoothed, so that it can be
        # held against chance, floor and validation.
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast:
            logits = self.model(*inputs)
            objective = cross_entropy(logits, targets, self.config.label_smoothing)
            loss = objective.detach()
            if self.config.label_smoothing:
                loss = cross_entropy(logits.detach(), targets)

        # Backward: what would each parameter have to change? (The scaler acts under fp16 alone.)
        self.scaler.scale(objective).backward()
        self.scaler.unscale_(self.optimizer)

        # Check: all norms in one call (`_foreach`: a loop over the parameters would be slower than
        # the norms themselves), brought to the host in one trip together with the loss.
        grads = [parameter.grad for parameter in self.parameters]
        loss_value, *norms = torch.stack([loss, *torch._foreach_norm(grads)]).tolist()
        grad_norm = math.hypot(*norms)
        lr = learning_rate(self.step_count - self.skipped, self.config)
        if self._finite_or_raise(loss_value, grad_norm, lr):
            # Update: move each parameter a little against its gradient.
            # One wild batch must not throw the weights away (Pascanu et al. 2013, algorithm 1).
            if self.config.clip is not None and grad_norm > self.config.clip:
                torch._foreach_mul_(grads, self.config.clip / grad_norm)
            set_rates(self.optimizer, lr, self.config.weight_decay)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.skipped += 1

        self.step_count += 1
        return Step(
            step=self.step_count,
            loss=loss_value,
            lr=lr,
            grad_norm=grad_norm,
            layer_norms=norms_by_layer(self.layer_of_each, norms),
            tokens=targets.numel(),
            seconds=time.perf_counter() - start,
        )

    def _finite_or_raise(self, loss: float, grad_norm: float, lr: float) -> bool:
        """Whether all is finite; raises `Diverged` when there is nothing left to hope for.

        fp16 overflows from 65504 on, so its loss is scaled as far up as the gradients allow: a
        scale that was too large costs one update, and is halved.
        """
        if math.isfinite(loss) and math.isfinite(grad_norm):
            return True
        if math.isfinite(loss) and self.scaler.is_enabled() and self.scaler.get_scale() >= 1:
            self.scaler.update(self.scaler.get_scale() / 2)
            return False
        what = "gradient" if math.isfinite(loss) else "loss"
        self.diverged = Diverged(self.step_count + 1, lr, f"the {what} is no longer finite")
        raise self.diverged

    @torch.no_grad()
    def evaluate(self, batch: Batch | None = None, trace: Trace = NO_TRACE) -> Evaluation:
        """Loss and accuracy on a batch, by default the task's fixed validation set.

        The edits of `trace` say what the model would be without a head, a block …
        """
        batch = batch or self.task.validation(self.model_config.form)
        inputs, targets = batch.to(self.device.name)
        with self.autocast:
            logits = self.model(*inputs, trace=trace)
            loss = cross_entropy(logits, targets)
        scored = targets != IGNORED
        right = (logits.argmax(-1) == targets) & scored
        return Evaluation(loss.item(), right.sum().item() / max(1, scored.sum().item()))

    @torch.no_grad()
    def look(
        self, *inputs: Int[Tensor, "batch ..."], only: Collection[str] | None = None
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
