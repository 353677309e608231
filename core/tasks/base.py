"""What every task promises: a vocabulary, batches, a fixed validation set and honest baselines.

A task is a frozen dataclass of small knobs, so it compares by value and travels in a link or a
checkpoint. It holds no random state: whoever asks for a batch brings the generator.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from core.config import ModelConfig
from core.forms import form_of
from core.knobs import check_knobs, cut, quoted
from core.tasks.vocabulary import NEVER, Vocabulary

VALIDATION_SIZE = 256
NO_FORM = {"vit": "it reads pictures, and these are tokens"}  # architecture -> why, in general
_VALIDATION_SEED = 20_170_612  # any fixed number: validation is the same for every run


class Batch(NamedTuple):
    """What a model reads and what it should answer; CPU tensors of ids, int64."""

    inputs: tuple[Int[Tensor, "batch ..."], ...]  # (tokens,), (source, target_in) or (patches,)
    targets: Int[Tensor, "batch length"]  # the right id per position, IGNORED where none is asked

    def to(self, device: str) -> "Batch":
        """The same batch on a device."""
        inputs = tuple(tensor.to(device, non_blocking=True) for tensor in self.inputs)
        return Batch(inputs, self.targets.to(device, non_blocking=True))


class Prompt(NamedTuple):
    """Where generation starts and how many tokens it should add (0: nothing is generated)."""

    inputs: tuple[Int[Tensor, "1 ..."], ...]
    n_new: int  # at most, where there is an end
    end: int = NEVER  # the token after which nothing follows


class Chance(NamedTuple):
    """Losses, in nats per scored token, that need no reading of the input."""

    uniform: float  # every id of the vocabulary equally likely
    blind: float  # the best fixed distribution per position


@dataclass(frozen=True, kw_only=True)
class Task(Vocabulary):
    """Something to learn; the fields of a subclass are its knobs."""

    title: ClassVar[str]
    about: ClassVar[str]
    architectures: ClassVar[tuple[str, ...]] = ("decoder", "encoder", "encoder-decoder")
    refusals: ClassVar[dict[str, str]] = {}  # architecture -> why the task has no form for it

    def __post_init__(self) -> None:
        check_knobs(self)

    @abstractmethod
    def max_len(self, architecture: str) -> int:
        """Tokens in the longest input tensor of this architecture's form."""

    def sizes(self, architecture: str) -> dict[str, int]:
        """The fields of a `ModelConfig` that follow from the task."""
        return {"vocab_size": self.vocab_size, "max_len": self.max_len(architecture)}

    @abstractmethod
    def batch(self, architecture: str, size: int, generator: torch.Generator) -> Batch:
        """Fresh training rows, drawn from `generator` alone."""

    @abstractmethod
    def validation(self, architecture: str, size: int = VALIDATION_SIZE) -> Batch:
        """The same rows at every call, which training never draws."""

    @abstractmethod
    def probe(self, architecture: str, text: str | None = None) -> Batch:
        """One row for display: the visitor's own `text`, or without one (part of) a validation row.

        Raises:
            ValueError: `text` is no example of this task; the message says the rule.
        """

    @abstractmethod
    def example(self, architecture: str) -> str:
        """What one would type to get the row that `probe` shows without a text."""

    @abstractmethod
    def prompt(self, architecture: str, text: str | None = None) -> Prompt:
        """What generation starts from: `text`, or without one a validation row.

        Raises:
            ValueError: `text` is no prompt of this task; the message says the rule.
        """

    @abstractmethod
    def chance(self, architecture: str) -> Chance:
        """The two losses of a model that does not look, so no mask matters."""

    @abstractmethod
    def floor(self, model: ModelConfig) -> float | None:
        """The loss that no such model can beat on the validation set; None if nobody knows it.

        It follows from what architecture, mask and layers let each position read: the mean of
        -ln p(right answer | what can reach its position).
        """

    @classmethod
    def usual_architecture(cls) -> str:
        """That of every model by default, or the first that the task has a form for."""
        usual, fitting = ModelConfig.architecture, cls.architectures
        return usual if usual in fitting else fitting[0]

    def check_architecture(self, architecture: str) -> None:
        """Refuse, by name, an architecture that this task has no form for.

        Raises:
            ValueError: the message says why and lists the ones that work.
        """
        if (form := form_of(architecture)) not in self.architectures:
            why = (NO_FORM | self.refusals).get(form, "there is no such form")
            raise ValueError(
                f"architecture={architecture!r} does not fit task {self.name}: {why}; "
                f"choose one of {', '.join(self.architectures)}"
            )

    def names(self, row: Int[Tensor, "length ..."]) -> list[str]:
        """What stands at each position of an input, as it should be drawn."""
        return self.decode(row)

    @property
    def padded(self) -> bool:
        """Whether rows differ in length, so that some of them end in padding."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """The name and the knobs: enough to build the task again."""
        return {"task": self.name, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any], text: str | None = None) -> "Task":
        """Build the task that `to_dict` described; only the text task needs its `text` again.

        Raises:
            ValueError: the dict describes another task, or holds an unknown or illegal value.
        """
        knobs = dict(values)
        if (name := knobs.pop("task", cls.name)) != cls.name:
            raise ValueError(f"task={quoted(name)}: expected {cls.name!r}")
        known = list(cls.__dataclass_fields__)
        if unknown := sorted(set(knobs) - set(known)):
            raise ValueError(f"unknown knob {cut(', '.join(unknown))}: task {cls.name} has {known}")
        return cls(**knobs)

    def _uniform(self) -> float:
        return math.log(self.vocab_size)


def fixed_generator() -> torch.Generator:
    """The generator that validation sets are drawn from."""
    return torch.Generator().manual_seed(_VALIDATION_SEED)


def entropy(probabilities: Iterable[float]) -> float:
    """Entropy of one distribution, in nats."""
    return -sum(p * math.log(p) for p in probabilities if p > 0)
