"""Dates in many written forms, to be written as year, month and day (ISO 8601)."""

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, cached_property, lru_cache

import torch

from core.knobs import cut
from core.tasks.base import entropy
from core.tasks.question import SEPARATOR
from core.tasks.translation import Translation
from core.tasks.vocabulary import END

# --- dates in plain Python --------------------------------------------------------------------

NAMES = "January February March April May June July August September October November December"
MONTHS = NAMES.split()
MONTH_OF = {month[:3].lower(): str(number) for number, month in enumerate(MONTHS, 1)}
FILLING = ("the", "of", "st", "nd", "rd", "th")
FIRST_DAY = date(1950, 1, 1)  # two digits are 19yy from 50 on, 20yy below
N_DAYS = 36_525  # to the end of 2049
FORMS = (
    "{d} {month} {y}",
    "{d} {mon} {y}",
    "{month} {d}, {y}",
    "the {nth} of {month}, {y}",
    "{month} {nth}, {y}",
    "{d}/{m}/{y}",  # days before months
    "{d:02}/{m:02}/{y}",
    "{d}/{m}/{yy}",
    "{d}.{m}.{y}",
    "{d}-{mon}-{yy}",
)


def written_as(day: date, form: str) -> str:
    """A date in one of the forms."""
    month, d, year = MONTHS[day.month - 1], day.day, str(day.year)
    ending = "th" if 11 <= d <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(d % 10, "th")
    spelled = {"month": month, "mon": month[:3], "nth": f"{d}{ending}"}
    return form.format(d=d, m=day.month, y=year, yy=year[2:], **spelled)


@lru_cache(maxsize=4096)
def iso(text: str) -> str:
    """Any of the forms as `yyyy-mm-dd` (ValueError, KeyError: not a day, a month and a year)."""
    words = [w for w in re.findall(r"[a-z]+|\d+", text.lower()) if w not in FILLING]
    for month in [word for word in words if word.isalpha()]:
        words.remove(month)
        words.insert(1, MONTH_OF[month[:3]])
    day, month, year = map(int, words)
    if year < 100:
        year += 1900 if year >= 50 else 2000
    return f"{year:04}-{month:02}-{day:02}"


# --- the task ---------------------------------------------------------------------------------

LONGEST = max(
    len(written_as(date(2023, month, 22), form)) for month in range(1, 13) for form in FORMS
)
EXAMPLES = ", ".join(written_as(date(1999, 7, 3), form) for form in FORMS)


@cache
def _blind() -> float:
    """The mean entropy of each character of the answer, over all days."""
    days = ((FIRST_DAY + timedelta(i)).isoformat() for i in range(N_DAYS))
    columns = [Counter(column).values() for column in zip(*days, strict=True)]
    losses = [entropy(count / N_DAYS for count in counts) for counts in columns]
    return sum(losses) / (len(losses) + 1)  # the end is no surprise


@dataclass(frozen=True, kw_only=True)
class Dates(Translation):
    """`the 2nd of May, 1987 → 1987-05-02`"""

    name = "dates"
    title = "Dates"
    about = (
        "Write a date, in whatever form it comes, as year-month-day: with slashes the day comes "
        "before the month, and a year of two digits is 19yy from 50 on, 20yy below."
    )
    question_len = LONGEST
    answer_len = len("yyyy-mm-dd" + END)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        letters = "".join([*MONTHS, *FORMS, *FILLING])
        used = {letter for letter in re.sub("{.*?}", "", letters)} | set("0123456789-")
        return "<pad>", *sorted(used), SEPARATOR, END

    def split(self, text: str) -> list[str]:
        return list(text)

    def write(self, size: int, generator: torch.Generator) -> Iterable[str]:
        days = torch.randint(N_DAYS, (size,), generator=generator).tolist()
        forms = torch.randint(len(FORMS), (size,), generator=generator).tolist()
        for day, form in zip(days, forms, strict=True):
            yield written_as(FIRST_DAY + timedelta(day), FORMS[form])

    def translate(self, text: str) -> str:
        return iso(text)

    def understand(self, text: str) -> str:
        """One of the forms; upper and lower case are the same, as are one space and several."""
        text = " ".join(text.removesuffix(SEPARATOR).split())
        refusal = ValueError(f"{cut(text)!r}: write a date in one of these forms: {EXAMPLES}")
        try:
            year, month, day = map(int, iso(text).split("-"))
        except (ValueError, KeyError):
            raise refusal from None
        if not FIRST_DAY.year <= year < FIRST_DAY.year + 100:
            raise ValueError(f"{cut(text)!r}: years from 1950 to 2049 are possible")
        if not 1 <= month <= 12:
            raise ValueError(f"{cut(text)!r}: there is no month {month}; days come before months")
        days = monthrange(year, month)[1]
        if not 1 <= day <= days:
            raise ValueError(f"{cut(text)!r}: {MONTHS[month - 1]} {year} has {days} days")
        for question in (written_as(date(year, month, day), form) for form in FORMS):
            if question.lower() == text.lower():
                return question
        raise refusal

    def blind(self) -> float:
        return _blind()
