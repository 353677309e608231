"""Where text comes from: the documentation inside every Python, a pasted text, a file."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pydoc_data.topics import topics

import torch
from jaxtyping import Float, Int
from torch import Tensor

MAX_TEXT_BYTES = 5_000_000
MAX_VOCAB = 512  # different characters

_TYPOGRAPHY = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "...", "ß": "ss"}
)
_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def clean(text: str) -> str:
    """One text, one spelling: line ends become LF and byte order marks go.

    Raises:
        ValueError: the text is empty, larger than MAX_TEXT_BYTES, or holds a NUL character.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "")
    if not text:
        raise ValueError("the text is empty")
    if (size := len(text.encode())) > MAX_TEXT_BYTES:
        raise ValueError(f"the text has {size:,} bytes, at most {MAX_TEXT_BYTES:,} are taken")
    if (place := text.find("\0")) >= 0:
        raise ValueError(f"NUL at character {place}: this is no text file")
    return text


def decode_upload(data: bytes) -> str:
    """The text in a file: UTF-8 with or without a byte order mark, or UTF-16 with one.

    Raises:
        ValueError: the file is too large or empty, or no such text; the message names the first
            wrong byte and its offset.
    """
    # UTF-16 needs at most twice the bytes; `clean` measures what is left.
    if len(data) > 2 * MAX_TEXT_BYTES + 2:
        raise ValueError(f"the file has {len(data):,} bytes, at most {MAX_TEXT_BYTES:,} are taken")
    mark = next((mark for mark in _BOMS if data.startswith(mark)), b"")
    encoding = _BOMS.get(mark, "utf-8")
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        offset = len(mark) + error.start
        raise ValueError(
            f"byte 0x{data[offset]:02X} at offset {offset} is not {encoding.upper()}: "
            "save the file as UTF-8 (or as UTF-16 with a byte order mark)"
        ) from None
    return clean(text)


@cache
def docs_text() -> str:
    """Python's own reference texts, one topic after the other in alphabetical order.

    Typographic quotes, dashes and dots are spelled in ASCII; any other character that is neither
    printable ASCII nor a newline is left out. So the vocabulary stays below 100.
    """
    text = clean("\n\n".join(topics[name] for name in sorted(topics)))
    return re.sub(r"[^\n -~]", "", text.translate(_TYPOGRAPHY))


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as ids, whose last tenth (one window at least) is kept for validation.

    A window of validation never overlaps the training part; a text that repeats itself may of
    course hold the same words in both.
    """

    text: str

    def __post_init__(self) -> None:
        if (different := len(set(self.text))) > MAX_VOCAB:  # before a million are sorted
            raise ValueError(
                f"the text has {different:,} different characters, at most {MAX_VOCAB} are taken"
            )

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return "<pad>", *sorted(set(self.text))

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def check(self, width: int) -> None:
        """Refuse a text that does not hold one window for training and one for validation.

        Raises:
            ValueError: the message says how many characters there are and are needed.
        """
        if len(self.text) < 2 * width:
            raise ValueError(
                f"the text has {len(self.text)} characters, at least {width} needed per split "
                f"(training and validation), {2 * width} in all: bring more text or take a "
                f"shorter length"
            )

    def training_windows(
        self, size: int, width: int, generator: torch.Generator
    ) -> Int[Tensor, "size width"]:
        """Windows at random places."""
        windows = self._ids[: self._border(width)].unfold(0, width, 1)
        places = torch.randint(len(windows), (size,), generator=generator)
        return windows[places].long()

    def validation_windows(self, size: int, width: int) -> Int[Tensor, "windows width"]:
        """`size` windows, evenly spread; fewer if the part does not hold as many."""
        windows = self._ids[self._border(width) :].unfold(0, width, 1)
        size = min(size, len(windows))
        places = torch.arange(size) * (len(windows) - 1) // max(size - 1, 1)
        return windows[places].long()

    def frequencies(self, width: int) -> Float[Tensor, " vocab"]:
        """Share of each id in the training part, each counted once more than it occurs.

        Without the one more, a character that only validation has would cost infinitely much.
        """
        counts = torch.bincount(self._ids[: self._border(width)], minlength=len(self.vocabulary))
        counts = counts.double() + 1
        counts[0] = 0
        return counts / counts.sum()

    def surprise(self, windows: Int[Tensor, "batch width"]) -> None:
        """Nobody knows the true probabilities of a natural text."""
        return None

    @cached_property
    def _ids(self) -> Tensor:
        points = torch.frombuffer(bytearray(self.text.encode("utf-32-le")), dtype=torch.int32)
        characters = [ord(character) for character in self.vocabulary[1:]]
        table = torch.zeros(max(characters) + 1, dtype=torch.int16)
        table[characters] = torch.arange(1, len(characters) + 1, dtype=torch.int16)
        return table[points]

    def _border(self, width: int) -> int:
        return len(self.text) - max(len(self.text) // 10, width)


@lru_cache(maxsize=4)
def corpus(text: str) -> Corpus:
    """The corpus of a cleaned text; the last few are kept, so that a task is cheap to build."""
    return Corpus(text)
