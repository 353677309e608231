"""Fill the gaps: some characters of a text are hidden, and what stood there is asked for.

An encoder may read both ways, so it cannot learn from the next character: it would see it. Devlin
et al. 2019 ("BERT", section 3.1) hide some tokens instead, and let it say which they were.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.config import ModelConfig
from core.knobs import knob
from core.masks import reachable
from core.tasks.base import VALIDATION_SIZE, Batch, Chance, Prompt, Task, fixed_generator
from core.tasks.forward_backward import Emission, smoother
from core.tasks.grammar import Grammar
from core.tasks.sources import clean
from core.tasks.text import SOURCES, Text
from core.tokens import IGNORED

MASK = "▢"  # stands for a hidden character: a token of its own, and not padding


@dataclass(frozen=True, kw_only=True)
class Gaps(Task):
    """Windows of a text, some of whose characters are chosen; they alone are scored.

    Each character is chosen on its own, with probability `share`. Most of the chosen are hidden
    behind `MASK`; some are swapped for a random character and the rest stay as they are, for in use
    there is no `MASK`: so each character might be asked for, and none can be trusted blindly.

        text      the cats sleep.
        reads     the ▢ats slexp.
        predicts  · · · · c · · · · · · e · ·
    """

    name = "gaps"
    title = "Fill the gaps"
    about = "Some characters are hidden or swapped: say which they were, reading both ways."
    architectures = ("encoder",)
    refusals: ClassVar[dict[str, str]] = {
        "decoder": "it predicts the next token, and here each position answers for itself",
        "encoder-decoder": "each position answers for itself, so nothing is left to write",
    }

    source: str = knob(
        "grammar",
        choices=("grammar", "docs"),
        help="Sentences of a small grammar, or Python's own documentation.",
    )
    length: int = knob(64, low=2, high=512, help="Characters the model sees at once.")
    share: float = knob(
        0.15, low=0.01, high=0.9, help="Share of the characters that are chosen, and asked for."
    )
    hidden: float = knob(
        0.8, low=0.0, high=1.0, help="Share of the chosen ones that are hidden behind ▢."
    )
    swapped: float = knob(
        0.1,
        low=0.0,
        high=1.0,
        help="Share of the chosen ones that become a random character; the rest stay.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden + self.swapped > 1:
            raise ValueError(
                f"hidden={self.hidden:g} and swapped={self.swapped:g}: "
                "they are shares of the chosen characters, together at most 1"
            )

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return (*self._text.vocabulary, MASK)

    @property
    def mask_id(self) -> int:
        """The token that hides a character."""
        return self.vocab_size - 1

    def max_len(self, architecture: str) -> int:
        self.check_architecture(architecture)
        return self.length

    def batch(self, architecture: str, size: int, generator: torch.Generator) -> Batch:
        self.check_architecture(architecture)
        windows = self._source.training_windows(size, self.length, generator)
        return self.corrupt(windows, generator)

    def validation(self, architecture: str, size: int = VALIDATION_SIZE) -> Batch:
        self.check_architecture(architecture)
        windows = self._source.validation_windows(size, self.length)
        return self.corrupt(windows, fixed_generator())

    def corrupt(self, windows: Int[Tensor, "batch length"], generator: torch.Generator) -> Batch:
        """Choose some characters; hide, swap or keep each of them."""
        chosen = torch.rand(windows.shape, generator=generator) < self.share
        dice = torch.rand(windows.shape, generator=generator)
        others = torch.randint(1, self.mask_id, windows.shape, generator=generator)
        hide = chosen & (dice < self.hidden)
        swap = chosen & ~hide & (dice < self.hidden + self.swapped)
        tokens = torch.where(swap, others, windows).masked_fill(hide, self.mask_id)
        return Batch((tokens,), windows.masked_fill(~chosen, IGNORED))

    def probe(self, architecture: str, text: str | None = None) -> Batch:
        """A row whose gaps are the same at every call, one at least."""
        self.check_architecture(architecture)
        ids = torch.tensor([self._typed(text or self.example(architecture))])
        rows = (self.corrupt(ids, torch.Generator().manual_seed(seed)) for seed in range(99))
        return next((row for row in rows if (row.inputs[0] == self.mask_id).any()), next(rows))

    def example(self, architecture: str) -> str:
        self.check_architecture(architecture)
        return self._text.example("decoder")[: self.length]

    def prompt(self, architecture: str, text: str | None = None) -> Prompt:
        """All gaps are answered at once."""
        return Prompt(self.probe(architecture, text).inputs, 0)

    def chance(self, architecture: str) -> Chance:
        """The best guess without reading: the text's mix of characters, on validation."""
        targets = self.validation(architecture).targets
        frequencies = self._source.frequencies(self.length)
        blind = -float(frequencies.log()[targets[targets != IGNORED]].mean())
        return Chance(math.log(self.vocab_size), blind)

    def floor(self, model: ModelConfig) -> float | None:
        """On the grammar the exact cost of the right characters, given all that can be read."""
        surprise = self.surprise(model)
        return None if surprise is None else float(surprise.mean())

    def surprise(self, model: ModelConfig) -> Tensor | None:
        """Exact -ln p of each scored character of validation; None where nobody knows it."""
        (tokens,), targets = self.validation(model.form)
        beliefs = self.beliefs(tokens, reachable(model, self.length))
        if beliefs is None:
            return None
        scored = targets != IGNORED
        return -beliefs[scored].gather(1, targets[scored].unsqueeze(1)).squeeze(1).log()

    def beliefs(
        self, tokens: Int[Tensor, "batch length"], reach: Bool[Tensor, "query key"]
    ) -> Float[Tensor, "batch length vocab"] | None:
        """Exact probability of each character at each place, if it is asked for there.

        Known for the grammar, where a place reads all, or all up to itself; else None. The first
        character is a newline.
        """
        both_ways = bool(reach.all())
        if not isinstance(self._source, Grammar) or not (
            both_ways or torch.equal(reach, torch.ones_like(reach).tril())
        ):
            return None
        usual, scored = self._emission(self.share), self._emission(1.0)
        return smoother(self._source).beliefs(tokens, usual, scored, both_ways)

    def _emission(self, share: float) -> Emission:
        """Probability that a character (row) is read as a token (column), chosen with `share`."""
        n = self.vocab_size
        kept = 1 - self.hidden - self.swapped
        emission = torch.eye(n, dtype=torch.float64) * (1 - share + share * kept)
        emission[:, 1 : self.mask_id] += share * self.swapped / (self.mask_id - 1)
        emission[:, self.mask_id] = share * self.hidden
        return emission

    def to_dict(self) -> dict[str, Any]:
        """The knobs, and of Python's documentation its hash."""
        known = {k: v for k, v in self._text.to_dict().items() if k == "text_sha256"}
        return super().to_dict() | known

    @classmethod
    def from_dict(cls, values: dict[str, Any], text: str | None = None) -> "Gaps":
        """Build the task again; a ValueError says that Python's documentation is another one."""
        knobs = dict(values)
        sha256 = knobs.pop("text_sha256", None)
        task = super().from_dict(knobs)
        if sha256 is not None and sha256 != task.to_dict().get("text_sha256"):
            raise ValueError("Python's documentation here is not the one that was learnt")
        return task

    @cached_property
    def _text(self) -> Text:
        return Text(source=self.source, length=self.length)

    @property
    def _source(self) -> Any:
        return SOURCES[self.source]("")

    def _typed(self, text: str) -> list[int]:
        text = clean(text)
        if MASK in text:
            raise ValueError(f"{MASK}: type what stands there, the gaps are chosen for you")
        return self.encode(text)[-self.length :]
