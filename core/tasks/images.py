"""Pictures: what does this one show? A picture is cut into patches, and patches are the tokens.

So the same blocks that read a sentence read a picture ("An Image is Worth 16x16 Words",
Dosovitskiy et al. 2021).
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from core.config import ModelConfig
from core.knobs import cut, knob
from core.masks import reachable
from core.tasks.base import VALIDATION_SIZE, Batch, Chance, Prompt, Task, fixed_generator
from core.tasks.pictures import SIDE, SOURCES, Labelled, Pictures, Source
from core.tokens import IGNORED

Patches = Int[Tensor, "batch patches grey"]


def patches_of(pictures: Pictures, patch: int) -> Patches:
    """Cut each picture into squares, and write each square's pixels, and the squares, in a row.

    Both are read as one reads a page: from left to right, and then the next line.
    """
    n = SIDE // patch
    squares = pictures.unflatten(2, (n, patch)).unflatten(1, (n, patch))  # [batch, n, p, n, p]
    return squares.transpose(2, 3).flatten(3).flatten(1, 2)


def picture_of(patches: Patches) -> Pictures:
    """Put patches together again: the picture that `patches_of` has cut."""
    n_patches, grey = patches.shape[1:]
    n, patch = round(n_patches**0.5), round(grey**0.5)
    squares = patches.unflatten(2, (patch, patch)).unflatten(1, (n, n))
    return squares.transpose(2, 3).flatten(3).flatten(1, 2)


@dataclass(frozen=True, kw_only=True)
class Images(Task):
    """A picture of 8 x 8 pixels; the answer is read off a class token that stands before it."""

    name = "images"
    title = "Pictures"
    about = "Say what a small picture shows: a handwritten digit, or a shape."
    units = "classes"
    architectures = ("vit",)
    refusals: ClassVar[dict[str, str]] = dict.fromkeys(
        ("decoder", "encoder", "encoder-decoder"),
        "its tokens are pieces of a picture, which are in no table of tokens",
    )

    kind: str = knob(
        "digits",
        choices=tuple(SOURCES),
        help="1,797 handwritten digits, or four shapes of any place and size.",
    )
    patch: int = knob(
        4, choices=(1, 2, 4, 8), help="Pixels along the side of a patch; a picture has 8."
    )
    shift: bool = knob(
        False,
        help="Move each training picture of a digit by up to a pixel: new ones at no cost, "
        "which pay in a long training.",
    )
    shuffle: str = knob(
        "off",
        choices=("off", "fixed", "each"),
        words={"fixed": "one order", "each": "each its own"},
        help="Mix up the patches: all pictures in one order, or each in an order of its own.",
    )

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return "<pad>", *self._source.classes

    @property
    def d_patch(self) -> int:
        """Numbers in a patch."""
        return self.patch**2

    @property
    def n_patches(self) -> int:
        return (SIDE // self.patch) ** 2

    def max_len(self, architecture: str) -> int:
        self.check_architecture(architecture)
        return 1 + self.n_patches

    def sizes(self, architecture: str) -> dict[str, int]:
        return super().sizes(architecture) | {"d_patch": self.d_patch}

    def batch(self, architecture: str, size: int, generator: Generator) -> Batch:
        self.check_architecture(architecture)
        return self._form(self._source.training(size, generator, self.shift), generator)

    def validation(self, architecture: str, size: int = VALIDATION_SIZE) -> Batch:
        """Held-out pictures: of the digits there are 450."""
        self.check_architecture(architecture)
        return self._form(self._source.held_out(size), fixed_generator())

    def probe(self, architecture: str, text: str | None = None) -> Batch:
        """The held-out picture of a number."""
        which = self._number(text) if text else 0
        inputs, targets = self.validation(architecture)
        return Batch(tuple(x[which : which + 1] for x in inputs), targets[which : which + 1])

    def example(self, architecture: str) -> str:
        return "0"

    def prompt(self, architecture: str, text: str | None = None) -> Prompt:
        """Nothing is written: the class token answers at once."""
        return Prompt(self.probe(architecture, text).inputs, 0)

    def chance(self, architecture: str) -> Chance:
        """The best guess without looking: how often each class is shown in training."""
        shown = self.validation(architecture).targets[:, 0] - 1
        return Chance(self._uniform(), -float(self._source.frequencies().log()[shown].mean()))

    def floor(self, model: ModelConfig) -> float | None:
        """Nobody knows how well these can be told apart; who sees no patch can only guess."""
        sees = reachable(model, self.max_len(model.form))[0, 1:]
        return None if sees.any() else self.chance(model.form).blind

    def names(self, row: Int[Tensor, "patches grey"]) -> list[str]:
        """The class token, and where each patch lies: a letter for its row, a number across."""
        n = SIDE // self.patch
        return ["class", *(f"{'ABCDEFGH'[i // n]}{i % n + 1}" for i in range(len(row)))]

    def _number(self, text: str) -> int:
        if re.fullmatch("[0-9]{1,3}", text.strip()) and int(text) < VALIDATION_SIZE:
            return int(text)
        raise ValueError(
            f"{cut(text)!r}: the held-out pictures are numbered, from 0 to {VALIDATION_SIZE - 1}"
        )

    def _form(self, found: Labelled, generator: Generator) -> Batch:
        """Patches to read, and the class where the class token stands."""
        patches = self._shuffled(patches_of(found.pictures, self.patch), generator)
        targets = torch.full((len(patches), 1 + self.n_patches), IGNORED)
        targets[:, 0] = found.classes + 1
        return Batch((patches,), targets)

    def _shuffled(self, patches: Patches, generator: Generator) -> Patches:
        if self.shuffle == "off":
            return patches
        if self.shuffle == "fixed":
            return patches[:, torch.randperm(self.n_patches, generator=fixed_generator())]
        orders = torch.rand(patches.shape[:2], generator=generator).argsort(1)
        return patches.gather(1, orders[:, :, None].expand_as(patches))

    @property
    def _source(self) -> Source:
        return SOURCES[self.kind]()
