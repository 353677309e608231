"""What can be chosen: names and numbers, never objects.

A config is frozen, compares by value and survives a trip through a dict, so the link in the
address bar, the key of a cache and the header of a checkpoint are one and the same thing. Each
field says in one place what it means, which values are legal and whether it may change while a
run goes on ("hot"); the command line and the app's knobs are read off these fields.
"""

from dataclasses import dataclass
from typing import Any

from core.forms import Form, form_of
from core.knobs import Knobs, check_knobs, knob
from core.size import Size

# The names a switch may have. What each stands for is in the dict of the same name beside the code:
# ARCHITECTURES in model, SCALES in attention, POSITIONS in positions, MASKS in masks, NORMS,
# NORM_TYPES and ACTIVATIONS in blocks, INITS in init, OPTIMIZERS and SCHEDULES in optimize;
# PRECISIONS are the keys of DTYPES in device.
ARCHITECTURES = ("decoder", "encoder", "encoder-decoder", "vit", "gru", "lstm")
SCALES = ("sqrt_d_head", "none", "d_head", "sqrt_d_model")
POSITIONS = ("sinusoidal", "learned", "none", "rotary", "alibi")
MASKS = ("auto", "causal", "none", "window")
NORMS = ("post", "pre", "none")
NORM_TYPES = ("layer", "rms")
ACTIVATIONS = ("relu", "gelu", "silu")
INITS = ("xavier", "gpt2", "torch")
OPTIMIZERS = ("adamw", "sgd")
SCHEDULES = ("constant", "cosine", "paper")
PRECISIONS = ("fp32", "bf16", "fp16")

# The fields of a model that follow from its task, which …
FROM_TASK = {
    "vocab_size": "has {} tokens",
    "max_len": "needs {} positions",
    "d_patch": "has {} numbers in a patch",
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Knobs, Form, Size):
    """One transformer (Vaswani et al. 2017, "Attention Is All You Need") and its switches.

    The first three fields come from the task: `ModelConfig.for_task(task, d_model=128)`.
    """

    vocab_size: int = knob(12, low=2, high=2**20, help="How many different tokens there are.")
    max_len: int = knob(
        32, low=1, high=65_536, help="The longest sequence the model has positions for."
    )
    d_patch: int = knob(16, low=1, high=2**16, help="Numbers in a patch, where tokens are patches.")
    d_model: int = knob(
        64, low=1, high=2**16, help="Width of the residual stream: numbers per token."
    )
    n_heads: int = knob(4, low=1, high=2**10, help="Attention heads: d_model is split among them.")
    n_layers: int = knob(2, low=1, high=2**10, help="How many blocks are stacked.")
    d_ff: int | None = knob(
        None, low=1, high=2**18, words={None: "4·d_model"}, help="Width inside the feed-forward."
    )
    architecture: str = knob(
        "decoder",
        choices=ARCHITECTURES,
        help="Which blocks are stacked, and so what is asked of each position.",
    )
    scale: str = knob(
        "sqrt_d_head",
        hot=True,
        choices=SCALES,
        words={"sqrt_d_head": "√d_k", "d_head": "d_k", "sqrt_d_model": "√d_model"},
        help="What the scores q·k are divided by.",
    )
    position: str = knob(
        "sinusoidal", choices=POSITIONS, help="How the model learns where a token stands."
    )
    mask: str = knob(
        "auto",
        hot=True,
        choices=MASKS,
        help="Which keys a query may look at; none hides nothing. Auto is causal, except in an "
        "encoder, which reads both ways.",
    )
    window: int = knob(4, hot=True, low=1, high=2**16, help="Keys in a `window`, self included.")
    pad_mask: bool = knob(True, hot=True, help="Hide keys that are only padding.")
    residual: bool = knob(True, hot=True, help="Add each sub-layer's output to its input.")
    norm: str = knob(
        "post", choices=NORMS, help="A norm after the addition, before the sub-layer, or none."
    )
    norm_type: str = knob(
        "layer",
        choices=NORM_TYPES,
        words={"layer": "LayerNorm", "rms": "RMSNorm"},
        help="RMSNorm divides by the size of a token's numbers and leaves their mean alone.",
    )
    ffn: bool = knob(True, help="The position-wise feed-forward sub-layer.")
    gated: bool = knob(
        False,
        help="A second matrix says how much of each hidden number passes (SwiGLU, with silu). "
        "With two thirds of d_ff the parameters stay about the same.",
    )
    activation: str = knob(
        "relu", hot=True, choices=ACTIVATIONS, help="The non-linearity of the feed-forward."
    )
    init: str = knob("xavier", choices=INITS, help="The numbers the weights start from.")
    tie_embeddings: bool = knob(False, help="Use the embedding table as the output layer too.")

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}: "
                "each head gets d_model/n_heads columns, so choose a divisor"
            )
        if self.position == "rotary" and self.d_head % 2:
            raise ValueError(
                f"position=rotary turns pairs of columns, so each head needs an even width: "
                f"d_model={self.d_model} / n_heads={self.n_heads} gives d_head={self.d_head}"
            )

    @classmethod
    def for_task(cls, task: Any, **knobs: Any) -> "ModelConfig":
        """The config whose sizes fit a task; its architecture, unless it is chosen, does too."""
        knobs = {"architecture": task.usual_architecture()} | knobs
        task.check_architecture(knobs["architecture"])
        return cls(**task.sizes(form_of(knobs["architecture"])), **knobs)

    def check_fits(self, task: Any) -> None:
        """Refuse a model that cannot read a task.

        Raises:
            ValueError: names the field, both numbers, and the way out.
        """
        task.check_architecture(self.architecture)
        for name, needed in task.sizes(self.form).items():
            has = getattr(self, name)
            if has != needed and (name != "max_len" or has < needed):  # spare positions do no harm
                raise ValueError(
                    f"{name}={has}: task {task.name} {FROM_TASK[name].format(needed)}; "
                    "ModelConfig.for_task(task) fits them"
                )


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Knobs):
    """How a model learns: optimiser, schedule and the tricks that keep it stable."""

    steps: int = knob(300, hot=True, low=1, high=10**6, help="Optimiser steps in the whole run.")
    batch_size: int = knob(32, hot=True, low=1, high=2**20, help="Examples in one step.")
    lr: float = knob(1e-3, hot=True, low=0.0, high=1e30, help="Peak learning rate.")
    optimizer: str = knob("adamw", choices=OPTIMIZERS, help="How a gradient becomes a step.")
    weight_decay: float = knob(
        0.01, hot=True, low=0.0, high=1e6, help="Pull of the matrices towards zero."
    )
    schedule: str = knob(
        "constant",
        hot=True,
        choices=SCHEDULES,
        help="How the learning rate moves after the warmup: it stays, falls in half a cosine, or, "
        "as in the paper, with 1/√step.",
    )
    warmup: int = knob(
        0, hot=True, low=0, high=10**6, help="Steps over which the learning rate rises."
    )
    clip: float | None = knob(
        1.0,
        hot=True,
        low=0.0,
        high=1e9,
        words={None: "off"},
        help="Largest allowed gradient norm; off is no clipping.",
    )
    label_smoothing: float = knob(
        0.0,
        hot=True,
        low=0.0,
        high=0.9,
        help="Share of each target that is spread over the whole vocabulary. The loss that is "
        "shown is always the plain one.",
    )
    precision: str = knob("fp32", choices=PRECISIONS, help="Number type of the matrix products.")
    seed: int = knob(0, low=0, high=2**31 - 1, help="Decides the initial weights and the batches.")

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.clip == 0:
            raise ValueError("clip=0: nothing could be learnt; off is no clipping")
        if self.warmup and self.warmup >= self.steps:
            raise ValueError(
                f"warmup={self.warmup} must be below steps={self.steps}: "
                "the learning rate would never reach its peak"
            )
