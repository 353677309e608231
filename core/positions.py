"""Where a token stands: five answers to one question, with three moments to give them.

Attention by itself treats its input as a set: shuffle the tokens, and its outputs are shuffled
with them. A position scheme may `add` something to the tokens on the way in, `rotate` queries
and keys before they meet, or `bias` the scores. Each overrides one of the three.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from core.config import ModelConfig
from core.tokens import PAD

Tokens = Int[Tensor, "batch length"]
Stream = Float[Tensor, "batch length d_model"]
Heads = Float[Tensor, "batch heads length d_head"]


class Position(nn.Module):
    """What every scheme is built on, and by itself the scheme "none".

    Nothing is added, rotated or biased: the model must live with what the mask gives away about
    order. `start` is the position of the first token; before it stands what a cache keeps.
    """

    def check(self, tokens: Tokens) -> None:
        """Refuse rows that this scheme would read as something else (ValueError)."""

    def add(self, x: Stream, start: int = 0) -> Stream:
        return x

    def rotate(self, x: Heads, start: int = 0) -> Heads:
        return x

    def bias(self, n_query: int, n_key: int) -> Float[Tensor, "1 heads query key"] | float:
        return 0.0


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """Sines and cosines of falling frequency (paper, section 3.5).

    PE[pos, 2i] = sin(pos / 10000^(2i/d_model)), PE[pos, 2i+1] = cos of the same angle: hands of
    many clocks, the fast ones telling neighbours apart and the slow ones far places. Computed in
    float64; of an odd width the last cosine column is cut.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]  # [length, 1]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position * torch.exp(-math.log(10_000.0) * even / d_model)  # [length, d_model/2]
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # [length, d_model]
    return table[:, :d_model].float()


class Counted(Position):
    """What adds a vector per position counts from the first one, padding included.

    Padding in front would put every token further back, where it means something else: rows are
    filled up at their end. (Schemes that know distances only give the same answer either way.)
    """

    def check(self, tokens: Tokens) -> None:
        if tokens.is_meta:  # shapes without numbers
            return
        # A row of nothing but padding has no token to misread.
        begins_late = (tokens[:, 0] == PAD) & (tokens != PAD).any(1)
        if begins_late.any():
            raise ValueError(
                f"tokens: row {int(begins_late.nonzero()[0])} begins with padding: positions are "
                "counted from the first column, so padding goes behind the tokens"
            )


class Sinusoidal(Counted):
    """A fixed wave pattern, added to the tokens."""

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(max_len, d_model), persistent=False)

    def add(self, x: Stream, start: int = 0) -> Stream:
        length, d_model = start + x.shape[1], x.shape[2]
        if length > len(self.table):  # the waves go on for as long as anyone asks
            return x + sinusoids(length, d_model)[start:].to(self.table)
        return x + self.table[start:length]


class Learned(Counted):
    """One learnt vector per position, added to the tokens: none beyond `max_len`."""

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model))

    def add(self, x: Stream, start: int = 0) -> Stream:
        length, max_len = start + x.shape[1], len(self.table)
        if length > max_len:
            raise ValueError(
                f"length {length} is longer than max_len={max_len}: "
                "learned positions exist only up to max_len"
            )
        return x + self.table[start:length]


class Rotary(Position):
    """Turn each pair of columns by an angle that grows with the position (RoFormer, eq. 34).

    A query and a key turned so meet at an angle that depends on their distance only, so what is
    learnt about neighbours holds everywhere. Angles, sines and cosines are float32 whatever the
    model computes in: bf16 cannot count past 256.
    """

    def __init__(self, d_head: int) -> None:
        super().__init__()
        even = torch.arange(0, d_head, 2, dtype=torch.float64)
        self.register_buffer("frequency", (10_000.0 ** (-even / d_head)).float(), persistent=False)

    def rotate(self, x: Heads, start: int = 0) -> Heads:
        end = start + x.shape[2]
        position = torch.arange(start, end, device=x.device, dtype=torch.float32)
        angle = position[:, None] * self.frequency.float()  # [length, d_head/2]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def alibi_slopes(n_heads: int) -> list[float]:
    """How strongly each head dislikes distance (Press et al. 2022, section 3).

    For a power of two the geometric sequence from 2^(-8/n); for any other count that of the
    power of two below it, then every other slope of the power of two above.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2 ** (-4 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return slopes + between[: n_heads - power]


class ALiBi(Position):
    """Lower each score in proportion to the distance between query and key.

    A rule about distances needs no table, so it also holds for sequences longer than any seen.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        slopes = torch.tensor(alibi_slopes(n_heads))
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)

    def bias(self, n_query: int, n_key: int) -> Float[Tensor, "1 heads query key"]:
        # The queries are the last of the keys, as for the mask.
        query = torch.arange(n_key - n_query, n_key, device=self.slopes.device)[:, None]
        key = torch.arange(n_key, device=self.slopes.device)[None, :]
        return (-self.slopes * (query - key).abs())[None]


# The switch `position`: name -> the scheme.
POSITIONS: dict[str, Callable[[ModelConfig], Position]] = {
    "sinusoidal": lambda config: Sinusoidal(config.max_len, config.d_model),
    "learned": lambda config: Learned(config.max_len, config.d_model),
    "none": lambda config: Position(),
    "rotary": lambda config: Rotary(config.d_head),
    "alibi": lambda config: ALiBi(config.n_heads),
}
