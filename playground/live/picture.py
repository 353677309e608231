"""Parts of a page that move, as what the browser is sent: figures, and pieces of HTML."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from playground.figures.style import alt_text


@dataclass(frozen=True)
class Plot:
    """A figure: Plotly JSON as `playground.figures` returns it, under the name of a saved file."""

    figure: Mapping[str, Any]
    name: str
    clickable: bool = False
    height: int | None = None  # pixels; None: what the figure's layout says
    alt: str | None = None  # text alternative; None: the figure's own
    title: str = ""  # of a saved picture; by default its name
    caption: tuple[str, ...] = ()  # below that title: what it shows, and of which configuration

    @property
    def size(self) -> int:
        """Its height in pixels."""
        return self.height or self.figure["layout"].get("height") or 400

    def body(self) -> dict[str, Any]:
        # The browser has the template, in the visitor's colours.
        layout = {**self.figure["layout"], "height": self.size, "template": None}
        return {
            "height": self.size,
            "alt": self.alt or alt_text(self.figure),
            "name": self.name,
            "title": self.title or self.name[:1].upper() + self.name[1:],
            "caption": self.caption or [self.alt or alt_text(self.figure)],
            "clickable": self.clickable,
            "figure": {**self.figure, "layout": layout},  # last: live.js draws it if that is new
        }


@dataclass(frozen=True)
class Html:
    """A piece of HTML. Who makes it has escaped what a visitor wrote."""

    html: str

    def body(self) -> dict[str, Any]:
        return {"html": self.html}


@dataclass(frozen=True)
class Slider:
    """A slider whose stops become more: what stands over it, its values and what they are called.

    A disabled one has a single stop.
    """

    label: str
    values: tuple[int, ...]
    value: int
    words: tuple[str, ...]

    def body(self) -> dict[str, Any]:
        return vars(self)


Part = Plot | Html | Slider


def captioned(parts: Mapping[str, Part], *lines: str, title: str = "") -> dict[str, Part]:
    """The same parts, with lines that stand over each figure once it is saved.

    Args:
        title: of the saved pictures; empty: each figure's own.
    """
    said = tuple(filter(None, lines))
    return {
        key: replace(part, caption=said, title=title or part.title)
        if isinstance(part, Plot)
        else part
        for key, part in parts.items()
    }


@dataclass(frozen=True)
class Shown:
    """A part as it is on the page. Its number grows with every change: the higher one is newer."""

    key: str  # of its element
    number: int
    part: Part
    body: bytes  # its JSON; equal bytes look equal

    @property
    def message(self) -> bytes:
        """JSON without a line break: what the browser needs to draw it in its place."""
        head = orjson.dumps({"key": self.key, "number": self.number})
        return head[:-1] + b"," + self.body[1:]


def shown(key: str, part: Part, number: int = 0) -> Shown:
    """A part with its JSON."""
    body = orjson.dumps(part.body(), default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)
    return Shown(key, number, part, body)


def _plain(value: Any) -> Any:
    """Sequences that orjson does not know: a transposed array, a range, a deque."""
    return value.tolist() if hasattr(value, "tolist") else list(value)
