"""Numbers in words, to be written in digits."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from core.knobs import cut, knob
from core.tasks.base import entropy
from core.tasks.question import SEPARATOR
from core.tasks.translation import Translation
from core.tasks.vocabulary import END
from core.tokens import PAD

# --- numbers in plain Python ------------------------------------------------------------------

BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
SMALL = BELOW_TWENTY.split()
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """54321 is `fifty four thousand three hundred twenty one`."""
    if number < 20:
        return SMALL[number]
    if number < 100:
        parts = TENS[number // 10 - 2], number % 10
    elif number < 1000:
        parts = f"{SMALL[number // 100]} hundred", number % 100
    else:
        parts = f"{in_words(number // 1000)} thousand", number % 1000
    return f"{parts[0]} {in_words(parts[1])}" if parts[1] else parts[0]


@lru_cache(maxsize=4096)
def in_digits(words: str) -> str:
    """The number that `in_words` has written."""
    thousands = below = 0
    for word in words.split():
        if word == "thousand":
            thousands, below = below, 0
        elif word == "hundred":
            below *= 100
        else:
            below += SMALL.index(word) if word in SMALL else 10 * TENS.index(word) + 20
    return str(1000 * thousands + below)


# --- the task ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Numbers(Translation):
    """`nine hundred twelve → 912`

    As many numbers have one digit as two, three …: small ones come up often. Those below a
    hundred are always taught: without its own twelve nobody could read twelve thousand.
    """

    name = "numbers"
    title = "Numbers in words"
    about = "Read a number in words and write it in digits: zeros are not spoken, yet written."
    units = "words"

    length: int = knob(5, low=3, high=6, help="Digits of the longest number.")

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return "<pad>", *SMALL, *TENS, "hundred", "thousand", *"0123456789", SEPARATOR, END

    @cached_property
    def question_len(self) -> int:
        longest = int("373737"[-self.length :])  # each digit costs all the words that it can
        return len(self.split(in_words(longest)))

    @property
    def answer_len(self) -> int:
        return self.length + 1

    def split(self, text: str) -> list[str]:
        return text.split()

    def join(self, ids: Iterable[int]) -> str:
        return " ".join(self.vocabulary[i] for i in ids if i != PAD)

    def write(self, size: int, generator: torch.Generator) -> Iterable[str]:
        digits = torch.randint(1, self.length + 1, (size,), generator=generator).tolist()
        # A whole multiple of how many numbers there are of any length, so all are as probable.
        tickets = torch.randint(9 * 10 ** (self.length - 1), (size,), generator=generator).tolist()
        for n, ticket in zip(digits, tickets, strict=True):
            lowest = 10 ** (n - 1) if n > 1 else 0
            yield in_words(lowest + ticket % (10**n - lowest))

    def translate(self, text: str) -> str:
        return in_digits(text)

    def understand(self, text: str) -> str:
        """With hyphens, "and" and capitals, or without."""
        plain = text.removesuffix(SEPARATOR).lower().replace("-", " ").replace(" and ", " ")
        words = " ".join(self.split(plain))
        most = 10**self.length - 1
        self.encode(words)  # refuses unknown words
        try:
            number = int(in_digits(words))
        except ValueError:
            number = -1
        if number > most or in_words(max(number, 0)) != words:
            raise ValueError(
                f"{cut(text)!r}: numbers takes one number from zero to {most:,}, as in "
                f"{in_words(most // 2)!r}"
            )
        return words

    def is_held_out(self, questions: Int[Tensor, "batch question"]) -> Bool[Tensor, " batch"]:
        n_tokens = (self.meaning(questions) != PAD).sum(1)
        return super().is_held_out(questions) & (n_tokens > len("99" + END))

    def blind(self) -> float:
        """From the exact mix of digits and ends at each place."""
        loss = asked = 0.0
        for place in range(self.length + 1):
            longer, ending = self.length - place, int(place > 0)  # lengths, all as probable
            any_digit = longer if place else 1  # the only ones that may hold a zero here
            zero = any_digit / 10
            other = (longer - zero) / 9
            reaching = longer + ending
            loss += reaching * entropy(share / reaching for share in (zero, *[other] * 9, ending))
            asked += reaching
        return loss / asked
