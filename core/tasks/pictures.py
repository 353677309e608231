"""Where pictures come from: handwritten digits in a file, and shapes that are drawn here.

All of them are 8 x 8 pixels with 17 levels of grey, from 0 (paper) to 16 (ink): a level counts the
black ones among the 16 pixels that a finer picture has in that place.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file
from torch import Generator, Tensor

from core.tasks.held_out import SHARE, HeldOut, sieve

SIDE = 8  # pixels
WHITE, BLACK = 0, 16  # paper and ink
FINE = 4  # pixels of the finer picture to one of these, each way
DIGITS = Path(__file__).with_name("digits.safetensors")  # see digits.txt
EVERY = 4  # of the digits: the first of so many is held out

Pictures = Int[Tensor, "batch 8 8"]
Classes = Int[Tensor, " batch"]
Fine = Float[Tensor, "batch 1 1"]


class Labelled(NamedTuple):
    """Pictures, and the number of what each shows."""

    pictures: Pictures  # grey levels
    classes: Classes


class Source(ABC):
    """What pictures are drawn from."""

    classes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def training(self, size: int, generator: Generator, shift: bool) -> Labelled:
        """Pictures to learn from; with `shift`, each is moved by up to a pixel both ways."""

    @abstractmethod
    def held_out(self, size: int) -> Labelled:
        """The first of those that are never learnt from: always the same ones."""

    @abstractmethod
    def frequencies(self) -> Float[Tensor, " classes"]:
        """How often each class is shown in training."""


# --- handwritten digits ---------------------------------------------------------------------


class Digits(Source):
    """1,797 digits of 13 people: 1,347 to learn from, and every fourth, 450, held out.

    So the same people have written both: a stranger's hand would be harder to read.
    """

    classes = tuple("0123456789")

    def __init__(self) -> None:
        tensors = load_file(DIGITS)
        pictures, digits = tensors["pictures"].long(), tensors["digits"].long()
        held_out = torch.arange(len(digits)) % EVERY == 0
        self._held_out = Labelled(pictures[held_out], digits[held_out])
        self.learnt = Labelled(pictures[~held_out], digits[~held_out])

    def training(self, size: int, generator: Generator, shift: bool) -> Labelled:
        chosen = torch.randint(len(self.learnt.classes), (size,), generator=generator)
        pictures, classes = (part[chosen] for part in self.learnt)
        return Labelled(shifted(pictures, generator) if shift else pictures, classes)

    def held_out(self, size: int) -> Labelled:
        return Labelled(*(part[:size] for part in self._held_out))

    def frequencies(self) -> Float[Tensor, " classes"]:
        counts = self.learnt.classes.bincount(minlength=len(self.classes)).double()
        return counts / counts.sum()


def shifted(pictures: Pictures, generator: Generator) -> Pictures:
    """Each picture moved by -1, 0 or 1 pixel across and down; what comes in is paper."""
    down, across = torch.randint(3, (2, len(pictures), 1), generator=generator)
    rows, columns = down + torch.arange(SIDE), across + torch.arange(SIDE)  # [batch, 8]
    wider = torch.nn.functional.pad(pictures, (1, 1, 1, 1), value=WHITE)  # [batch, 10, 10]
    picture = torch.arange(len(pictures))[:, None, None]
    return wider[picture, rows[:, :, None], columns[:, None, :]]


# --- shapes ---------------------------------------------------------------------------------

# Class -> whether a point (x, y), seen from the middle in half widths, is inside.
SHAPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "circle": lambda x, y: x**2 + y**2 <= 1,
    "square": lambda x, y: torch.maximum(x.abs(), y.abs()) <= 0.9,
    "triangle": lambda x, y: (y.abs() <= 1) & (2 * x.abs() <= 1 + y),
    "cross": lambda x, y: (
        (torch.maximum(x.abs(), y.abs()) <= 1) & (torch.minimum(x.abs(), y.abs()) <= 0.3)
    ),
}
SMALLEST, LARGEST = 1.5, 3.5  # half widths, in pixels


class Shapes(Source):
    """Filled shapes of any place and size: as many as anyone wants.

    A hash of the picture decides which of them are held out.
    """

    classes = tuple(SHAPES)

    def __init__(self) -> None:
        some = self._draw(4096, torch.Generator().manual_seed(0)).pictures
        self._is_held_out = HeldOut(some.flatten(1))

    def training(self, size: int, generator: Generator, shift: bool) -> Labelled:
        """They stand anywhere already: `shift` has nothing to add."""
        return self._sieved(size, generator, held_out=False)

    def held_out(self, size: int) -> Labelled:
        return self._sieved(size, torch.Generator().manual_seed(1), held_out=True)

    def frequencies(self) -> Float[Tensor, " classes"]:
        return torch.full((len(SHAPES),), 1 / len(SHAPES), dtype=torch.float64)

    def _sieved(self, size: int, generator: Generator, held_out: bool) -> Labelled:
        def draw(n: int) -> Tensor:
            pictures, classes = self._draw(n, generator)
            return torch.cat((pictures.flatten(1), classes[:, None]), dim=1)

        def wanted(rows: Tensor) -> Tensor:
            return self._is_held_out(rows[:, :-1]) == held_out

        rows = sieve(draw, wanted, size, SHARE if held_out else 1 - SHARE)
        return Labelled(rows[:, :-1].unflatten(1, (SIDE, SIDE)), rows[:, -1])

    def _draw(self, size: int, generator: Generator) -> Labelled:
        classes = torch.randint(len(SHAPES), (size,), generator=generator)
        radius, across, down = torch.rand(3, size, 1, 1, generator=generator)
        radius = SMALLEST + (LARGEST - SMALLEST) * radius
        across, down = (radius + (SIDE - 2 * radius) * place for place in (across, down))
        return Labelled(drawn(classes, radius, across, down), classes)


def drawn(classes: Classes, radius: Fine, across: Fine, down: Fine) -> Pictures:
    """The shapes of these half widths around these middles, in pixels: how much of each is ink."""
    points = (torch.arange(FINE * SIDE) + 0.5) / FINE  # the middles of the finer pixels
    x, y = (points - across) / radius, (points[:, None] - down) / radius
    inside = torch.stack([shape(x, y) for shape in SHAPES.values()])  # [shape, batch, 32, 32]
    fine = inside[classes, torch.arange(len(classes))]
    return fine.unflatten(2, (SIDE, FINE)).unflatten(1, (SIDE, FINE)).sum((2, 4))


# The switch `kind` of the task: name -> where its pictures come from.
SOURCES: dict[str, Callable[[], Source]] = {"digits": cache(Digits), "shapes": cache(Shapes)}
