"""The machinery behind the configs: what a field may hold, and how a config becomes a dict and back."""

import math
from collections.abc import Sequence
from dataclasses import Field, asdict, field, fields
from types import UnionType
from typing import Any, TypeVar, get_args


def knob(
    default: Any,
    *,
    help: str,
    hot: bool = False,
    low: int | float | None = None,
    high: int | float | None = None,
    choices: Sequence[str] | None = None,
) -> Any:
    """A dataclass field that knows its meaning and its legal values."""
    about = {"help": help, "hot": hot, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=about)


def check_knobs(config: Any) -> None:
    """Refuse, by name, every field of a dataclass whose value its `knob` does not allow.

    Raises:
        ValueError: the message names the field, the value and the rule.
    """
    for item in fields(config):
        if item.metadata:
            _check(item, getattr(config, item.name))


def _check(item: Field, value: Any) -> None:
    about = item.metadata
    kinds = get_args(item.type) if isinstance(item.type, UnionType) else (item.type,)
    if value is None and type(None) in kinds:
        return
    legal = {float: (int, float)}.get(kinds[0], (kinds[0],))
    # bool is a subclass of int: True heads is a slip, not a number.
    if not isinstance(value, legal) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{item.name}={value!r}: expected {kinds[0].__name__}")
    if about["choices"] is not None and value not in about["choices"]:
        raise ValueError(f"{item.name}={value!r}: choose one of {', '.join(about['choices'])}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{item.name}={value}: must be a finite number")
    if about["low"] is not None and value < about["low"]:
        raise ValueError(f"{item.name}={value}: must be at least {about['low']}")
    if about["high"] is not None and value > about["high"]:
        raise ValueError(f"{item.name}={value}: must be at most {about['high']}")


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
            raise ValueError(f"unknown field {', '.join(unknown)}: {cls.__name__} has {known}")
        return cls(**values)

    @classmethod
    def hot(cls) -> tuple[str, ...]:
        """Fields that may change while a run goes on."""
        return tuple(item.name for item in fields(cls) if item.metadata.get("hot"))


def difference(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """The fields in which two configs of one kind differ: name -> (old, new)."""
    pairs = {item.name: (getattr(old, item.name), getattr(new, item.name)) for item in fields(old)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
