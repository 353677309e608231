"""Variants: what is compared with a base, and how it fits into a link.

A variant is a list of changes, `(("scale", "none"),)`, so it says by itself in which knobs it
differs from its base.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from core.device import Device, choose_device
from core.knobs import cut, from_text
from playground.runs.limits import check_limits
from playground.runs.spec import (
    KNOBS,
    Changes,
    Spec,
    changes_text,
    unknown,
    value_text,
    within,
)

MAX_VARIANTS = 5
MAX_LINK = 1000  # characters
BASE = "base"  # what it is called beside variants that are called by their changes


def caution(changes: Changes) -> str | None:
    """What to say of a variant that changes more than one thing."""
    names = {name for name, _ in changes}
    count = len(names - {"text"} if "source" in names else names)
    if count < 2:
        return None
    return f"you changed {count} things: this run cannot tell which one mattered"


@dataclass(frozen=True)
class Variant:
    """Something to compare with the base."""

    label: str  # exactly the fields in which it differs, and their values
    changes: Changes

    @classmethod
    def of(cls, base: Spec, spec: Spec) -> "Variant":
        changes = base.changes_to(spec)
        return cls(changes_text(changes), changes)


@dataclass(frozen=True)
class Setup:
    """A base, the variants that can run beside it, and why the others cannot."""

    base: Spec
    variants: tuple[Variant, ...] = ()
    left_out: tuple[str, ...] = ()

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """The base first, then each variant."""
        return (self.base, *(self.base.changed(variant.changes) for variant in self.variants))

    @property
    def labels(self) -> tuple[str, ...]:
        return (BASE, *(variant.label for variant in self.variants))


def make_setup(base: Spec, requested: Iterable[Changes], device: Device | None = None) -> Setup:
    """Put variants beside the base; what cannot run is left out, with a sentence why.

    Args:
        device: where they will run, which decides about precisions; None is the best one.
    """
    device = device or choose_device()
    variants: list[Variant] = []
    tried: list[Changes] = []
    left_out = []
    for changes in requested:
        try:
            if len(variants) == MAX_VARIANTS:
                raise ValueError(f"at most {MAX_VARIANTS} variants fit beside the base")
            variant = None if changes in tried else _variant(base, changes, device)
            if variant is None or variant in variants:
                raise ValueError("it is already there")
            variants.append(variant)
        except ValueError as error:
            left_out.append(f"{changes_text(changes)} is left out: {error}")
        tried.append(changes)
    return Setup(base, tuple(variants), tuple(left_out))


def _variant(base: Spec, changes: Changes, device: Device) -> Variant:
    spec = base.changed(changes)
    if spec.training.seed != base.training.seed:
        raise ValueError("seed: all variants run on the same seeds; choose how many instead")
    device.check(spec.training.precision)
    check_limits(spec)
    variant = Variant.of(base, spec)
    if not variant.changes:
        raise ValueError("it is the base itself")
    return variant


# --- quick choices --------------------------------------------------------------------------


@dataclass(frozen=True)
class Contrast:
    """A usual question: what the base is compared with, as data."""

    title: str
    options: tuple[Changes, ...]
    switch: bool = False  # two options, off and on: a base that is not `off` is compared with `off`

    def setup(self, base: Spec, device: Device | None = None) -> Setup:
        """The options that differ from the base; impossible ones are left out, with a reason."""
        if self.switch:
            off, on = self.options
            requested = [on] if self._is(base, off) else [off]
        else:
            requested = [option for option in self.options if not self._is(base, option)]
        return make_setup(base, requested, device)

    @staticmethod
    def _is(base: Spec, option: Changes) -> bool:
        """Whether the base is so already."""
        with suppress(ValueError):  # an impossible one it is not
            return not base.changes_to(base.changed(option))
        return False


def _each(name: str, *values: Any) -> tuple[Changes, ...]:
    return tuple(((name, value),) for value in values)


def _choices(name: str) -> tuple[Changes, ...]:
    return _each(name, *KNOBS[name].metadata["choices"])


# A new one is one line.
CONTRASTS: dict[str, Contrast] = {
    "scale": Contrast("All scales", _choices("scale")),
    "position": Contrast("All positions", _choices("position")),
    "residual": Contrast("Residual connections on and off", _each("residual", True, False)),
    "norm": Contrast("norm: post, pre, none", _choices("norm")),
    "norm_type": Contrast("LayerNorm and RMSNorm", _choices("norm_type")),
    "gated": Contrast(
        "Plain and gated feed-forward (SwiGLU)",
        ((("gated", False),), (("gated", True), ("activation", "silu"))),
        switch=True,
    ),
    "n_heads": Contrast("Heads 1, 2, 4, 8", _each("n_heads", 1, 2, 4, 8)),
    "d_model": Contrast("d_model 16 to 256", _each("d_model", 16, 32, 64, 128, 256)),
    "mask": Contrast("All masks", _each("mask", "causal", "none", "window")),
    "init": Contrast("All initialisations", _choices("init")),
    "n_layers": Contrast("Blocks 1, 2, 4, 8", _each("n_layers", 1, 2, 4, 8)),
    "architecture": Contrast(
        "Transformer, GRU, LSTM", _each("architecture", "decoder", "gru", "lstm")
    ),
    "lr": Contrast("Learning rates", _each("lr", 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)),
    "tie_embeddings": Contrast("Tied embeddings on and off", _each("tie_embeddings", False, True)),
    "warmup": Contrast(
        "Warmup and cosine on and off",
        ((("schedule", "constant"), ("warmup", 0)), (("schedule", "cosine"), ("warmup", 30))),
        switch=True,
    ),
    "clip": Contrast("Clipping on and off", _each("clip", None, 1.0), switch=True),
    "precision": Contrast("All precisions", _choices("precision")),
}


# --- in a link ------------------------------------------------------------------------------


def encode(variants: Iterable[Variant]) -> str:
    """Variants as one short text: `scale=none;norm=pre,lr=0.01`.

    Raises:
        ValueError: the visitor's own text does not fit into a link, nor does what is too long.
    """
    parts = []
    for variant in variants:
        if any(name == "text" or (name, v) == ("source", "own") for name, v in variant.changes):
            raise ValueError(f"{variant.label}: your text does not fit into a link")
        parts.append(",".join(f"{name}={value_text(name, v)}" for name, v in variant.changes))
    link = ";".join(parts)
    _check_length(link)
    return link


def read_link(text: str, base: Spec, device: Device | None = None) -> Setup:
    """The setup that a link's text describes. What cannot be read is left out, with a reason."""
    requested, unreadable = [], []
    for part in filter(None, map(str.strip, text[:MAX_LINK].split(";"))):
        try:
            requested.append(parse(part))
        except ValueError as error:
            unreadable.append(f"{cut(part)} is left out: {error}")
    try:
        _check_length(text)
    except ValueError as error:
        unreadable.append(str(error))
    found = make_setup(base, requested, device)
    return replace(found, left_out=(*unreadable, *found.left_out))


def parse(part: str) -> Changes:
    """The changes of one variant in a link; whether they fit a base, `make_setup` says.

    Raises:
        ValueError: says what is wrong with it.
    """
    changes: dict[str, Any] = {}
    for item in part.split(","):
        name, equals, text = (word.strip() for word in item.partition("="))
        if not equals or not name or not text:
            raise ValueError("expected field=value")
        if name not in KNOBS:
            raise ValueError(f"{cut(name)}: {unknown(name)}")
        if name in changes:
            raise ValueError(f"{name} is given twice")
        with within(name):
            changes[name] = from_text(KNOBS[name], text)
    return tuple(changes.items())


def _check_length(link: str) -> None:
    if len(link) > MAX_LINK:
        raise ValueError(f"the variants take {len(link)} characters: a link holds {MAX_LINK}")
