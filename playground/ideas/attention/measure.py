"""Every number on the way of one query through an untrained attention, and a lookup by hand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from core.attention import SCALES, attention
from core.config import ModelConfig
from core.knobs import cut
from core.masks import Bias
from core.measure import read_mask
from core.model import build_model
from core.tasks import Recall
from core.trace import Recorder

FEWEST_WORDS, MOST_WORDS, LONGEST_WORD = 2, 12, 14  # words, words, characters
ROUNDING = 1e-5  # relative error of float32, roughly


# --- one query through a model --------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """Everything that an untrained first attention computes for a sentence. float32."""

    words: tuple[str, ...]
    token: np.ndarray  # [word, d_model]: each word's own vector, as it goes in
    position: np.ndarray  # [word, d_model]: what its position adds
    x: np.ndarray  # [word, d_model]: their sum, which attention reads
    q: np.ndarray  # [heads, word, d_head]
    k: np.ndarray  # [heads, word, d_head]
    v: np.ndarray  # [heads, word, d_head]
    scores: np.ndarray  # [heads, query, key]
    scaled: np.ndarray  # [heads, query, key]
    masked: np.ndarray  # [heads, query, key]
    weights: np.ndarray  # [heads, query, key]
    z: np.ndarray  # [heads, word, d_head]
    hidden: np.ndarray  # bool [query, key]
    scale: float

    @property
    def d_head(self) -> int:
        return self.q.shape[-1]


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, in lower case; spaces separate them.

    Raises:
        ValueError: too few or too many words, or one too long; the message gives the rule.
    """
    words = tuple(text.lower().split())
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS:
        count = f"{len(words)} word{'s' * (len(words) != 1)}"
        raise ValueError(
            f"words “{_quoted(text)}”: {count}; {FEWEST_WORDS} to {MOST_WORDS} are possible, with "
            "spaces between them"
        )
    if long := [word for word in words if len(word) > LONGEST_WORD]:
        raise ValueError(
            f"words “{_quoted(long[0])}”: {len(long[0])} characters; a word may have "
            f"{LONGEST_WORD} at most"
        )
    if not all(word.isprintable() for word in words):
        raise ValueError(f"words “{_quoted(text)}”: only characters that can be seen are possible")
    return words


def _quoted(text: str) -> str:
    return cut("".join(c if c.isprintable() else " " for c in text))


@lru_cache(maxsize=256)
@torch.no_grad()
def look(
    words: tuple[str, ...],
    d_model: int,
    n_heads: int,
    scaled: bool,
    causal: bool,
    positions: bool,
    seed: int,
) -> Look:
    """Send a sentence through a model of one block, fresh from its initialisation."""
    vocabulary = list(dict.fromkeys(words))
    config = ModelConfig(
        vocab_size=1 + len(vocabulary),  # id 0 is padding
        max_len=MOST_WORDS,
        d_model=d_model,
        n_heads=n_heads,
        n_layers=1,
        scale="sqrt_d_head" if scaled else "none",
        mask="causal" if causal else "none",
        position="sinusoidal" if positions else "none",
    )
    model, trace = build_model(config, seed), Recorder()
    tokens = torch.tensor([[1 + vocabulary.index(word) for word in words]])
    model(tokens, trace)
    seen = {name.removeprefix("blocks.0.attention."): tensor for name, tensor in trace.seen.items()}
    token = model.embed.tokens(tokens) * model.embed.factor
    found = {
        name: _numbers(seen[name])
        for name in ("q", "k", "v", "scores", "scaled", "masked", "weights", "z")
    }
    return Look(
        words,
        token=_numbers(token),
        position=_numbers(seen["embed"] - token),
        x=_numbers(seen["embed"]),
        hidden=_numbers(~read_mask(seen["masked"]))[0],
        scale=SCALES[config.scale](config),
        **found,
    )


def _numbers(tensor: Tensor) -> np.ndarray:
    """The only row of a batch."""
    return tensor[0].numpy()


@dataclass(frozen=True)
class Cell:
    """How one query is compared with one key: the whole arithmetic of a weight, in float64."""

    products: np.ndarray  # [d_head]: q_i·k_i
    score: float
    scaled: float
    hidden: bool
    power: float  # e to the power of the scaled score; 0 where the mask hides it
    total: float  # the sum of these powers over all keys that the query sees
    weight: float


class Meeting(NamedTuple):
    """One query and one key of a head."""

    found: Look
    head: int
    query: int
    key: int

    @property
    def asks(self) -> str:
        """The word whose query it is."""
        return self.found.words[self.query]

    @property
    def offers(self) -> str:
        """The word whose key it is."""
        return self.found.words[self.key]

    @property
    def weights(self) -> np.ndarray:
        """[key]: the weights of the query."""
        return self.found.weights[self.head, self.query]

    @property
    def seen(self) -> np.ndarray:
        """bool [key]: what the query may see."""
        return ~self.found.hidden[self.query]

    def cell(self) -> Cell:
        """The arithmetic of their weight, from q and k on."""
        q = self.found.q[self.head, self.query].astype(np.float64)
        scaled = self.found.k[self.head].astype(np.float64) @ q * self.found.scale
        powers = np.where(self.seen, np.exp(scaled), 0.0)
        products = q * self.found.k[self.head, self.key]
        return Cell(
            products,
            score=float(products.sum()),
            scaled=float(scaled[self.key]),
            hidden=not self.seen[self.key],
            power=float(powers[self.key]),
            total=float(powers.sum()),
            weight=float(powers[self.key] / powers.sum()),
        )


def largest(products: np.ndarray, most: int) -> list[int]:
    """Which products to show one by one: all, or the `most` largest in size, in their order."""
    if len(products) <= most:
        return list(range(len(products)))
    return sorted(np.argsort(-np.abs(products), kind="stable")[:most].tolist())


def repeated_word(words: Sequence[str]) -> tuple[int, int] | None:
    """The first two positions of a word that occurs twice."""
    for i, word in enumerate(words):
        if word in words[:i]:
            return words.index(word), i
    return None


# --- where the output lies ------------------------------------------------------------------


@dataclass(frozen=True)
class Blend:
    """The output of one query among the values that it is a mean of."""

    points: np.ndarray  # [key, 2]: the values, projected to where they differ most
    z: np.ndarray  # [2]: the output, in the same projection
    axes: tuple[str, str]
    outline: list[int]  # corners of the convex hull of the visible values, in order
    inside: int  # dimensions in which z is between the smallest and the largest visible value


def blend(found: Look, head: int, query: int) -> Blend:
    """Where the output of a query lies, in a flat picture and in every dimension."""
    values, z = found.v[head].astype(np.float64), found.z[head, query].astype(np.float64)
    seen = ~found.hidden[query]
    points, at, axes = flatten(values, z)
    low, high = values[seen].min(0), values[seen].max(0)
    out_by = np.maximum(low - z, z - high)
    return Blend(
        points,
        at,
        axes,
        outline=[int(i) for i in np.flatnonzero(seen)[hull(points[seen])]],
        inside=int((out_by <= ROUNDING * np.abs(values).max()).sum()),
    )


def flatten(values: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[str, str]]:
    """Values [key, d] and z [d] in two dimensions: their own, or the first two principal ones.

    A projection takes a blend of points to the same blend of their pictures.
    """
    if values.shape[1] == 1:
        return np.pad(values, ((0, 0), (0, 1))), np.append(z, 0.0), ("the only dimension", "")
    if values.shape[1] == 2:
        return values, z, ("dimension 1", "dimension 2")
    middle = values.mean(0)
    _, sizes, directions = np.linalg.svd(values - middle, full_matrices=False)
    # A direction has no sign of its own: its largest entry is made positive.
    tops = np.abs(directions).argmax(1)
    directions *= np.sign(directions[np.arange(len(tops)), tops])[:, None]
    share = sizes**2 / max((sizes**2).sum(), 1e-300)
    flat = np.zeros((2, values.shape[1]))
    flat[: min(2, len(directions))] = directions[:2]
    axes = [f"principal component {i + 1} ({s:.0%} of the variance)" for i, s in enumerate(share)]
    return (values - middle) @ flat.T, flat @ (z - middle), (axes[0], axes[1])


def hull(points: np.ndarray) -> list[int]:
    """Corners of the convex hull of points [n, 2], anticlockwise; two for points on a line.

    Andrew's monotone chain: walk along the points from left to right and back, and leave out
    every one that does not turn left.
    """
    order = np.lexsort((points[:, 1], points[:, 0])).tolist()
    order = [i for n, i in enumerate(order) if n == 0 or (points[i] != points[order[n - 1]]).any()]
    if len(order) < 3:
        return order

    def walk(indices: Sequence[int]) -> list[int]:
        chain: list[int] = []
        for i in indices:
            while len(chain) > 1 and _turn(*points[[chain[-2], chain[-1], i]]) <= 0:
                chain.pop()
            chain.append(i)
        return chain[:-1]

    return walk(order) + walk(order[::-1])


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Above 0 where the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


# --- a dictionary by hand -------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a dictionary returns when it is looked up by softmax."""

    scores: list[float]  # q·k/√2, one for each key
    weights: list[float]
    result: float
    mean: float  # of all values, each counted once


@lru_cache(maxsize=512)
@torch.no_grad()
def ask(
    angles: tuple[float, ...], values: tuple[float, ...], angle: float, length: float
) -> Answer:
    """Look a query up among keys of length 1, with the attention of the core.

    Args:
        angles: of the keys, in degrees.
        values: one for each key.
        angle, length: of the query.
    """
    keys = torch.stack([_arrow(a) for a in angles])[None, None]
    query = length * _arrow(angle)[None, None, None]
    # Beside each value a 1, which becomes the sum of the weights: v is as wide as k.
    prices = torch.tensor([[value, 1.0] for value in values], dtype=torch.float64)[None, None]
    no_mask = Bias(torch.zeros(1, len(angles)).double(), torch.ones(1, 1).double())
    trace = Recorder()
    z = attention(query, keys, prices, no_mask, 2**-0.5, trace)
    return Answer(
        scores=trace.seen["scaled"].flatten().tolist(),
        weights=trace.seen["weights"].flatten().tolist(),
        result=z[..., 0].item(),
        mean=sum(values) / len(values),
    )


def _arrow(degrees: float) -> Tensor:
    angle = torch.tensor(math.radians(degrees), dtype=torch.float64)
    return torch.stack([angle.cos(), angle.sin()])


def between(one: float, other: float) -> float:
    """The angle halfway between two, the short way round, 0 to 360."""
    turn = (other - one + 180) % 360 - 180
    return (one + turn / 2) % 360


# --- a lookup that is learnt ----------------------------------------------------------------


def asked(tokens: Sequence[str]) -> int:
    """The position of the value that a question of the recall task asks for: `a3b7→b` gives 3."""
    return 2 * list(tokens[:-2:2]).index(tokens[-1]) + 1


def link(weights: np.ndarray) -> float:
    """Mean weight that a recall question's values give the letter before them; of [query, key]."""
    values = range(1, len(weights) - 2, 2)
    return float(np.mean([weights[i, i - 1] for i in values]))


def loss_of_a_guess(task: Recall) -> float:
    """The lowest loss of a model that knows the values, but not which belongs to which key.

    The value asked for occurs B + 1 times among the n values, where B of the other n - 1 happen to
    be equal to it: -ln((B + 1)/n), averaged over B.
    """
    others, chance = task.length - 1, 1 / task.symbols
    return sum(
        math.comb(others, b)
        * chance**b
        * (1 - chance) ** (others - b)
        * -math.log((b + 1) / task.length)
        for b in range(others + 1)
    )
