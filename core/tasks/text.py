"""Character-level language modelling: predict the next character of a text."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from core.config import ModelConfig
from core.knobs import knob
from core.masks import reachable
from core.tasks.base import VALIDATION_SIZE, Batch, Chance, Prompt, Task
from core.tasks.grammar import Grammar, grammar
from core.tasks.sources import Corpus, clean, corpus, docs_text
from core.tokens import PAD

SHOWN_LEN = 32  # characters of the example that is shown when a visitor brings none
SAMPLE_LEN = 200  # characters that a sample adds
NAMED = 12  # characters of the alphabet that a message lists

SOURCES: dict[str, Callable[[str], Corpus | Grammar]] = {
    "docs": lambda text: corpus(docs_text()),
    "grammar": lambda text: grammar(),
    "own": corpus,
}


@dataclass(frozen=True, kw_only=True)
class Text(Task):
    """Windows of a text; every position predicts the character after it, and all are scored.

    An encoder-decoder reads the first half of a window as its source and writes the second; its
    decoder starts from the last source character, so no extra start token is needed.
    """

    name = "text"
    title = "Text"
    about = "Predict the next character of a text; character by character, that is how it writes."
    architectures = ("decoder", "encoder-decoder")
    refusals: ClassVar[dict[str, str]] = {
        "encoder": "without a causal mask every position would see the character it has to predict"
    }

    source: str = knob(
        "docs",
        choices=tuple(SOURCES),
        help="Python's own documentation, sentences of a small grammar, or a text of your own.",
    )
    length: int = knob(64, low=2, high=512, help="Context: characters the model sees at once.")
    text: str = field(default="", repr=False)  # for source "own" alone; kept out of links

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == "own" and not self.text:
            raise ValueError("source='own' needs a text: paste one or hand in a file")
        if self.source != "own" and self.text:
            raise ValueError(f"source={self.source!r} takes no text: choose 'own' for yours")
        if self.text:
            object.__setattr__(self, "text", clean(self.text))
        self._source.check(self.length + 1)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return self._source.vocabulary

    @property
    def entropy_per_character(self) -> float | None:
        """Nats per character that the source really holds; None where nobody knows."""
        return getattr(self._source, "entropy_per_character", None)

    def max_len(self, architecture: str) -> int:
        self.check_architecture(architecture)
        return self.length if architecture == "decoder" else self.length - self.length // 2

    def batch(self, architecture: str, size: int, generator: torch.Generator) -> Batch:
        width = self._width(architecture)
        return self._form(architecture, self._source.training_windows(size, width, generator))

    def validation(self, architecture: str, size: int = VALIDATION_SIZE) -> Batch:
        """`size` windows; fewer if the validation part of a text does not hold as many."""
        return self._form(architecture, self._validation_windows(architecture, size))

    def probe(self, architecture: str, text: str | None = None) -> Batch:
        if not text:
            return self._form(architecture, self._lively_window(architecture))
        text = clean(text)
        if len(text) < 2:
            raise ValueError(f"{text!r} has 1 character: a probe takes at least 2")
        ids = self.encode(text)[-self._width(architecture) :]
        return self._form(architecture, torch.tensor([ids]))

    def example(self, architecture: str) -> str:
        """The longest line of it: a field to type into holds one."""
        window = self._lively_window(architecture)[0].tolist()
        return max("".join(self.vocabulary[i] for i in window).split("\n"), key=len)

    def prompt(self, architecture: str, text: str | None = None) -> Prompt:
        """Write on from the end of `text`; without one, from a newline (or the first character).

        An encoder-decoder takes the last characters as its source and writes as many as its
        decoder has places for.
        """
        self.check_architecture(architecture)
        first = "\n" if "\n" in self.vocabulary else self.vocabulary[PAD + 1]
        ids = torch.tensor([self.encode(clean(text) if text else first)])
        if architecture == "decoder":
            return Prompt((ids[:, -self.length :],), SAMPLE_LEN)
        half = self.length // 2
        return Prompt((ids[:, -half:], ids[:, -1:]), self.length - half)

    def chance(self, architecture: str) -> Chance:
        """The best guess without reading: the training text's mix of characters, on validation."""
        targets = self.validation(architecture).targets
        frequencies = self._source.frequencies(self.length + 1)
        return Chance(math.log(self.vocab_size), -float(frequencies.log()[targets].mean()))

    def floor(self, model: ModelConfig) -> float | None:
        """For the grammar the exact negative log-likelihood of the validation set.

        Where a leak shows the answer itself, it costs nothing; nobody knows what it costs to see
        only part of what came before.
        """
        windows = self._validation_windows(model.form, VALIDATION_SIZE)
        surprise = self._source.surprise(windows)
        if surprise is None:
            return None
        surprise = surprise[:, self._first_scored(model.form, windows) - 1 :]
        reach = reachable(model, surprise.shape[1])
        given = torch.cat((reach.diagonal(1), torch.tensor([False])))  # the last stands nowhere
        past = (reach.tril() == torch.ones_like(reach).tril()).all(1)
        return float(surprise.masked_fill(given, 0).mean()) if (given | past).all() else None

    def to_dict(self) -> dict[str, Any]:
        """The knobs; of a text only its hash and its vocabulary."""
        values = {"task": self.name, "source": self.source, "length": self.length}
        if isinstance(self._source, Corpus):
            values["text_sha256"] = self._source.sha256
            values["vocabulary"] = "".join(self.vocabulary[1:])
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any], text: str | None = None) -> "Text":
        """Build the task again; a text of one's own must be handed in again as `text`.

        Raises:
            ValueError: the text is missing or another one than the dict was made from.
        """
        knobs = dict(values)
        sha256 = knobs.pop("text_sha256", None)
        knobs.pop("vocabulary", None)
        if knobs.get("source") == "own":
            if text is None:
                named = f" (SHA-256 {sha256[:12]}…)" if sha256 else ""
                raise ValueError(f"source='own': hand in the text that was learnt{named}")
            knobs["text"] = text
        task = super().from_dict(knobs)
        found = task.to_dict().get("text_sha256")
        if sha256 is not None and sha256 != found:
            whose = "Python's documentation here" if task.source == "docs" else "this text"
            raise ValueError(f"{whose} is not the one that was learnt: SHA-256 differs")
        return task

    def _known_tokens(self) -> str:
        known = self.decode(range(1, self.vocab_size))
        more = " …" if len(known) > NAMED else ""
        return f"the text has {len(known)} different ones, {' '.join(known[:NAMED])}{more}"

    @cached_property
    def _source(self) -> Corpus | Grammar:
        return SOURCES[self.source](self.text)

    def _width(self, architecture: str) -> int:
        """Characters in a window: a decoder's last one is a target only."""
        self.check_architecture(architecture)
        return self.length + 1 if architecture == "decoder" else self.length

    def _first_scored(self, architecture: str, windows: Tensor) -> int:
        return 1 if architecture == "decoder" else windows.shape[1] // 2

    def _validation_windows(self, architecture: str, size: int) -> Tensor:
        return self._source.validation_windows(size, self._width(architecture))

    def _lively_window(self, architecture: str) -> Int[Tensor, "1 width"]:
        """The beginning of the validation window in which most different characters appear."""
        windows = self._validation_windows(architecture, VALIDATION_SIZE)[:, : SHOWN_LEN + 1]
        most = max(range(len(windows)), key=lambda i: len(windows[i].unique()))
        return windows[most : most + 1]

    def _form(self, architecture: str, windows: Int[Tensor, "batch width"]) -> Batch:
        first = self._first_scored(architecture, windows)
        tokens = windows[:, first - 1 : -1].contiguous()
        targets = windows[:, first:].contiguous()
        if architecture == "decoder":
            return Batch((tokens,), targets)
        return Batch((windows[:, :first].contiguous(), tokens), targets)
