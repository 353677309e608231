"""The machinery behind the configs: what a field may hold, and how it is written and read.

A config becomes a dict and back (`Knobs`), a single value a text and back (`as_text`,
`from_text`): links, command line, files and sentences all say it in the same words.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, field, fields, replace
from types import UnionType
from typing import Any, TypeVar, get_args

MOST_QUOTED = 40  # characters of what somebody typed that a message repeats


def knob(
    default: Any,
    *,
    help: str,
    hot: bool = False,
    low: int | float | None = None,
    high: int | float | None = None,
    choices: Sequence[Any] | None = None,
    words: Mapping[Any, str] | None = None,
) -> Any:
    """A dataclass field that knows its meaning and its legal values.

    Args:
        words: what people call a value, where its own spelling is not the best word for it.
    """
    about = {"help": help, "hot": hot, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=about | {"words": words or {}})


def check_knobs(config: Any) -> None:
    """Refuse, by name, every field of a dataclass whose value its `knob` does not allow.

    Raises:
        ValueError: the message names the field, the value and the rule.
    """
    for item in fields(config):
        if item.metadata:
            check_value(item, getattr(config, item.name))


def check_value(item: Field, value: Any) -> None:
    """Refuse, by name, a value that a field made with `knob` does not allow.

    Raises:
        ValueError: the message names the field, the value and the rule.
    """
    about, kinds = item.metadata, kinds_of(item)
    if value is None and type(None) in kinds:
        return
    legal, said = {float: (int, float)}.get(kinds[0], (kinds[0],)), f"{item.name}={quoted(value)}"
    # bool is a subclass of int: True heads is a slip, not a number.
    if not isinstance(value, legal) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{said}: expected {kinds[0].__name__}")
    if about["choices"] is not None and value not in about["choices"]:
        raise ValueError(f"{said}: choose one of {', '.join(map(str, about['choices']))}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{said}: must be a finite number")
    if about["low"] is not None and value < about["low"]:
        raise ValueError(f"{said}: must be at least {about['low']}")
    if about["high"] is not None and value > about["high"]:
        raise ValueError(f"{said}: must be at most {about['high']}")


def quoted(value: Any) -> str:
    """A value as Python writes it; of a long one the beginning."""
    return cut(repr(value))


def cut(text: str) -> str:
    """What somebody typed, as a message repeats it: its beginning where it is long."""
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"


def kinds_of(item: Field) -> tuple[type, ...]:
    """The types that a field may hold: `int | None` is (int, NoneType)."""
    return get_args(item.type) if isinstance(item.type, UnionType) else (item.type,)


# --- a value as text and back ---------------------------------------------------------------

NOTHING = ("none", "off", "auto")  # understood as None, besides a knob's own word for it
SWITCH = {"on": True, "true": True, "off": False, "false": False}


def as_text(item: Field, value: Any) -> str:
    """A knob's value as people read it and as links hold it; `from_text` gives it back."""
    if value in (words := item.metadata["words"]):
        return words[value]
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        short = f"{value:g}"
        short = short if float(short) == value else repr(value)
        return short.replace("e+", "e")  # a plus sign in a link is a space
    return str(value)


def from_text(item: Field, text: str) -> Any:
    """The value that a text stands for, in any spelling; whether it is legal, the config says.

    Raises:
        ValueError: says what a text for this knob may be.
    """
    text = text.strip()
    kinds = kinds_of(item)
    for value, word in item.metadata["words"].items():
        if text == word:
            return value
    if type(None) in kinds and text.lower() in NOTHING:
        return None
    if kinds[0] is bool:
        if text.lower() not in SWITCH:
            raise ValueError("choose on or off")
        return SWITCH[text.lower()]
    if choices := item.metadata["choices"]:
        by_text = {str(choice): choice for choice in choices}
        if text not in by_text:
            raise ValueError(f"choose one of {', '.join(as_text(item, c) for c in choices)}")
        return by_text[text]
    try:
        if "_" in text:  # Python would read 1_000
            raise ValueError
        return kinds[0](text)
    except ValueError:
        rule = "expected a whole number" if kinds[0] is int else "expected a number"
        other = f", or {as_text(item, None)}" if type(None) in kinds else ""
        raise ValueError(rule + other) from None


# --- configs --------------------------------------------------------------------------------

Config = TypeVar("Config", bound="Knobs")


class Knobs:
    """What every config can do: become a dict and come back."""

    # `check_knobs` checks the types and answers in words: the tests' type checker stays away.
    __no_type_check__ = True

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls: type[Config], values: dict[str, Any]) -> Config:
        """Build from a dict.

        Raises:
            ValueError: an unknown field (named, with the legal ones) or an illegal value.
        """
        known = [item.name for item in fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise ValueError(f"unknown field {cut(', '.join(unknown))}: {cls.__name__} has {known}")
        config = cls(**values)
        numbers = [item.name for item in fields(cls) if kinds_of(item)[0] is float]
        whole = [name for name in numbers if type(getattr(config, name)) is int]  # 1 for 1.0
        return replace(config, **{n: float(values[n]) for n in whole}) if whole else config

    @classmethod
    def hot(cls) -> tuple[str, ...]:
        """Fields that may change while a run goes on."""
        return tuple(item.name for item in fields(cls) if item.metadata.get("hot"))


def difference(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """The fields in which two configs of one kind differ: name -> (old, new)."""
    pairs = {item.name: (getattr(old, item.name), getattr(new, item.name)) for item in fields(old)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def turned(configs: Sequence[Config], values: Mapping[str, Any]) -> list[Config]:
    """The configs after a hot change: each value goes to the one that has a knob of this name.

    Raises:
        ValueError: a knob that is not hot, or an illegal value.
    """
    hot = [name for config in configs for name in config.hot()]
    if cold := sorted(set(values) - set(hot)):
        raise ValueError(
            f"{cut(', '.join(cold))} cannot change while a run goes on; only {', '.join(hot)} can"
        )
    return [
        replace(config, **{name: v for name, v in values.items() if name in config.hot()})
        for config in configs
    ]
