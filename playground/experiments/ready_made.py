"""Ready-made configurations: what some well-known transformers chose, switch by switch.

Each says every switch of `SWITCHES` and nothing else: sizes, task, steps and seed stay as they are.
None of them is the model itself, which is thousands of times as large and has more to it; there is
no dropout here, and every matrix has a bias.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.config import ModelConfig, TrainConfig
from core.forms import form_of
from core.tasks import Task
from playground.runs.spec import Changes, Spec, value_text

SWITCHES = (
    "architecture",
    "position",
    "norm",
    "norm_type",
    "activation",
    "gated",
    "init",
    "tie_embeddings",
    "schedule",
    "warmup",
    "weight_decay",
    "label_smoothing",
)


@dataclass(frozen=True)
class ReadyMade:
    """What one kind of transformer is known for."""

    title: str
    about: str
    switches: dict[str, Any]  # those that differ from the defaults

    @property
    def changes(self) -> Changes:
        """Every switch with its value."""
        model, training = ModelConfig(), TrainConfig()
        usual = model.to_dict() | training.to_dict()
        return tuple((name, self.switches.get(name, usual[name])) for name in SWITCHES)

    def fits(self, task: type[Task]) -> bool:
        """Whether a task has a form for it."""
        return form_of(dict(self.changes)["architecture"]) in task.architectures


READY_MADE = {
    "paper": ReadyMade(
        "The paper, 2017",
        "Two stacks, to translate; a schedule of its own, and labels that are smoothed (Vaswani "
        "et al. 2017).",
        {
            "architecture": "encoder-decoder",
            "tie_embeddings": True,
            "schedule": "paper",
            "warmup": 30,
            "weight_decay": 0.0,
            "label_smoothing": 0.1,
        },
    ),
    "gpt2": ReadyMade(
        "GPT-2-like",
        "One causal stack that writes on; the norm moves before the sub-layer (Radford et al. "
        "2019).",
        {
            "position": "learned",
            "norm": "pre",
            "activation": "gelu",
            "init": "gpt2",
            "tie_embeddings": True,
            "schedule": "cosine",
            "warmup": 30,
        },
    ),
    "bert": ReadyMade(
        "BERT-like",
        "One stack that reads both ways and labels each position (Devlin et al. 2019). Its own "
        "learning rate falls in a straight line, which is not among the schedules here.",
        {
            "architecture": "encoder",
            "position": "learned",
            "activation": "gelu",
            "init": "gpt2",
            "tie_embeddings": True,
            "schedule": "cosine",
            "warmup": 30,
        },
    ),
    "vit": ReadyMade(
        "ViT-like",
        "One stack that reads the patches of a picture both ways, and answers at a class token "
        "(Dosovitskiy et al. 2021). There the head is tiny as well; weights and patches are not.",
        {
            "architecture": "vit",
            "position": "learned",
            "norm": "pre",
            "activation": "gelu",
            "schedule": "cosine",
            "warmup": 30,
            "weight_decay": 0.1,
        },
    ),
    "llama": ReadyMade(
        "Llama-like",
        "GPT with rotary positions, RMSNorm and SwiGLU (Touvron et al. 2023). Llama's matrices "
        "have no biases; these do.",
        {
            "position": "rotary",
            "norm": "pre",
            "norm_type": "rms",
            "activation": "silu",
            "gated": True,
            "init": "gpt2",
            "schedule": "cosine",
            "warmup": 30,
            "weight_decay": 0.1,
        },
    ),
}

# A small learning rate, positions that are added, and a norm after the addition are slow to begin.
QUICK = (
    ("position", "rotary"),
    ("norm", "pre"),
    ("batch_size", 64),
    ("lr", 3e-3),
    ("schedule", "cosine"),
    ("warmup", 50),
)

# What learns well on one core, where the defaults are not it: of a task, and why.
GOOD_SETTINGS: dict[str, tuple[Changes, str]] = {
    # In 3 seeds 1.00, 0.91 and 0.97 of the sums are right; with the defaults, after 300 steps, half
    # of the digits.
    "add": (
        (*QUICK, ("steps", 1000)),
        "A carry comes from the digits on its right, one after the other: it is learnt last, and "
        "300 steps are too few.",
    ),
    # In 3 seeds 0.93 to 0.94 of the dates are right after 300 steps, of 256 that training never
    # draws; with the defaults 0.74 to 0.77.
    "dates": (
        QUICK,
        "The same character stands at another place in each of the ten forms: what counts is how "
        "far it is from others, and rotary positions say that. Larger steps then pay, on more "
        "examples at once.",
    ),
    # In 3 seeds 0.98 of the numbers are right after 300 steps; with the defaults 0.69 to 0.83.
    "numbers": (
        QUICK,
        "What a word is worth is said by the words beside it, wherever these stand: rotary "
        "positions say how far. Larger steps then pay, on more examples at once.",
    ),
    "gaps": (
        (
            ("position", "rotary"),
            ("norm", "pre"),
            ("lr", 3e-3),
            ("schedule", "cosine"),
            ("warmup", 30),
        ),
        # Gaps filled rightly after 300 steps in 3 seeds: 92% to 93%; with the defaults 41% to 43%.
        "What helps to fill a gap is mostly how far from it another character stands: rotary "
        "positions say just that. Larger steps, and smaller ones at the end, do the rest.",
    ),
    "text": (
        (
            ("position", "rotary"),
            ("norm", "pre"),
            ("lr", 3e-3),
            ("schedule", "cosine"),
            ("warmup", 30),
        ),
        # Validation loss 1.65 to 1.67 after 300 steps in 3 seeds; with the defaults 1.98 to 2.00.
        "A text has something to learn at every position, so the gradient of a batch is less noisy "
        "than that of a few answers, and larger steps pay. What helps to guess a character is "
        "mostly how far back another one stands: rotary positions say just that.",
    ),
    # In 3 seeds 0.97 to 0.99 of 256 held-out digits are right after 300 steps; with the defaults
    # 0.965 to 0.977.
    "images": (
        (("lr", 3e-3), ("schedule", "cosine"), ("warmup", 30)),
        "One answer is asked of a whole picture, so the defaults get far, and larger steps that "
        "end small get a little further.",
    ),
}

# What can be turned alone and be worth something at these settings.
MEASURED = ("position", "norm", "norm_type", "activation", "gated")
WORTH_FILE = Path(__file__).with_name("worth.json")


class Worth:
    """What one turned switch was worth: `python -m tests.worth` measures it and writes the file."""

    switches = MEASURED

    @cached_property
    def found(self) -> dict[str, Any]:
        """Validation losses of each seed: of the GPT-2-like model, and with a switch turned."""
        return json.loads(WORTH_FILE.read_text())

    def differences(self, switch: str) -> dict[str, list[float]]:
        """Value -> what the loss changed by, seed by seed, against the GPT-2-like model."""
        usual = self.found["base"]
        return {
            value: [end - start for end, start in zip(ends, usual, strict=True)]
            for value, ends in self.found["turned"].get(switch, {}).items()
        }

    def text(self, switch: str) -> str:
        """The same in words: each value with its smallest and largest difference."""
        return "; ".join(
            f"{value}: {_signed(min(each))} to {_signed(max(each))}"
            for value, each in self.differences(switch).items()
        )


WORTH = Worth()


def _signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", "−")


WORTH_HERE = "turned alone, worth here"


def table_rows(spec: Spec) -> list[dict[str, str]]:
    """In which switches they differ, from one another and from a run: a row for each switch.

    The last column says what a switch was worth to the GPT-2-like model, where it was measured.
    """
    columns = {"this model": {name: spec.value(name) for name in SWITCHES}}
    columns |= {ready.title: dict(ready.changes) for ready in READY_MADE.values()}
    rows = []
    for name in SWITCHES:
        values = {title: switches[name] for title, switches in columns.items()}
        if len(set(values.values())) > 1:
            said = {title: value_text(name, value) for title, value in values.items()}
            rows.append({"": name} | said | {WORTH_HERE: WORTH.text(name) or "–"})
    return rows
