"""The model as a drawing: the paper's figure 1 for one configuration, as SVG.

What is drawn is handed over as plain parts (`Model`): boxes on a stream that runs upwards, and in
each box the switches that decide about it. Text and lines have the colour of the text around the
drawing (`currentColor`), and fills let the background shine through, so one drawing serves light
and dark. All lengths are in the drawing's own units; `WIDTH` of them are one stack.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from playground.figures.style import PART_COLOURS, RUN_COLOURS

WIDTH = 408  # of one stack
BETWEEN = 24  # two stacks side by side
LIVE, RESTART = "●", "↻"
LEGEND = {LIVE: "changes the model while it trains", RESTART: "starts the training over"}
COLOURS = {
    "embedding": PART_COLOURS["embedding"],
    "position": RUN_COLOURS[3],
    "attention": PART_COLOURS["projections"],
    "feed-forward": PART_COLOURS["feed-forward"],
    "norm": PART_COLOURS["norms"],
    "unembedding": PART_COLOURS["unembedding"],
}
CHANGED = "#e69f00"

_LEFT, _RIGHT = 44, 376  # edges of the boxes
_STREAM = 112  # where the stream runs
_RESIDUAL = 24  # where the way around a sub-layer runs
_MEMORY = 399  # where the encoder's output runs up to a decoder above
_PAD, _LINE, _CHIP, _GAP = 10, 20, 27, 12
_TEXT, _TITLE = 14, 15
_BETWEEN_CHIPS = 6
_GRID = 48  # of the small map of a mask
_LETTER = 0.48 * _TEXT  # the usual width of a letter


# --- what is drawn ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Switch:
    """A choice and what it is set to."""

    name: str
    value: str
    live: bool  # it can be turned while the model trains; else training starts over
    usual: str | None = None  # the default, where this is another value

    @property
    def sign(self) -> str:
        return LIVE if self.live else RESTART

    @property
    def text(self) -> str:
        return f"{self.sign} {self.name}: {self.value}"

    @property
    def words(self) -> str:
        """All of it for those who do not see the drawing."""
        said = f"{self.name}: {self.value}"
        return said if self.usual is None else f"{said} (the default is {self.usual})"


@dataclass(frozen=True)
class Box:
    """A part of the model: what it does, its shapes, its switches, and how much it learns."""

    title: str
    kind: str  # one of COLOURS
    facts: tuple[str, ...] = ()
    switches: tuple[Switch, ...] = ()
    heading: Switch | None = None  # the one that decides about the whole part
    parameters: int = 0  # of one such box
    absent: bool = False  # switched off: only its outline is drawn
    sees: tuple[tuple[bool, ...], ...] = ()  # which keys (columns) a query (row) may look at


@dataclass(frozen=True)
class Sublayer:
    """A box, and what connects it to the stream."""

    box: Box
    adds: bool = True  # its output is added to the stream, instead of replacing it
    norm: Box | None = None
    norm_first: bool = False  # before the box, instead of after the addition
    joint: tuple[Switch, ...] = ()  # switches at the place where the stream is met again
    reads_memory: bool = False


@dataclass(frozen=True)
class Stack:
    """Blocks on top of each other; the stream runs through all of them."""

    title: str
    reads: str
    embedding: Box
    position: Box | None  # added to the tokens
    sublayers: tuple[Sublayer, ...]  # of each block, in the order of the stream
    blocks: Switch
    n_blocks: int
    above: tuple[Box, ...]  # what follows the blocks
    gives: str


@dataclass(frozen=True)
class Model:
    """A whole model; where there are two stacks, the second reads what the first one gives."""

    title: str
    switches: tuple[Switch, ...]
    stacks: tuple[Stack, ...]


def in_words(model: Model) -> str:
    """The text alternative: every part and every switch, in the order of the stream."""
    said = [model.title, *(switch.words for switch in model.switches)]
    for stack in model.stacks:
        said.append(f"{stack.title}, from its input up: {stack.reads}")
        said += _box_words(stack.embedding)
        if stack.position is not None:
            said += _box_words(stack.position)
        said.append(f"Then {stack.blocks.words}, each of them")
        for sublayer in stack.sublayers:
            if sublayer.norm is not None and sublayer.norm_first:
                said += _box_words(sublayer.norm)
            said += _box_words(sublayer.box)
            said += [switch.words for switch in sublayer.joint]
            if sublayer.norm is not None and not sublayer.norm_first:
                said += _box_words(sublayer.norm)
        said += ["After the blocks"] * bool(stack.above)
        for box in stack.above:
            said += _box_words(box)
        said.append(f"It gives {stack.gives}")
    return ". ".join(said) + "."


def _box_words(box: Box) -> list[str]:
    head = [box.title] if box.heading is None else [box.title, box.heading.words]
    learns = [_learns(box)] if box.parameters else []
    return [*head, *box.facts, *(switch.words for switch in box.switches), *learns]


# --- the drawing ------------------------------------------------------------------------------


def model_svg(model: Model, wide: bool = False) -> str:
    """The model as one SVG.

    Args:
        wide: two stacks beside each other; else the one that is read stands below.
    """
    pen = _Pen()
    columns = len(model.stacks) if wide else 1
    width = WIDTH * columns + BETWEEN * (columns - 1)
    top = _head(pen, model, width)
    drawn = [_drawn(stack) for stack in model.stacks]
    if wide:
        bottom = top + max(part.height for part in drawn)
        places = [(i * (WIDTH + BETWEEN), bottom - part.height) for i, part in enumerate(drawn)]
    else:
        places, bottom = [], top
        for part in reversed(drawn):
            places.insert(0, (0, bottom))
            bottom += part.height + BETWEEN
        bottom -= BETWEEN
    for part, (x, y) in zip(drawn, places, strict=True):
        pen.group(part.svg, x, y)
    if len(drawn) == 2:
        _memory(pen, places, drawn, wide)
    bottom = _legend(pen, bottom + 24, width)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom}" width="{width}" '
        f'height="{bottom}" role="img" aria-label="{escape(in_words(model))}" fill="currentColor" '
        f"font-family=\"'Source Sans', 'Source Sans Pro', Arial, sans-serif\" "
        f'font-size="{_TEXT}">{pen.svg}</svg>'
    )


class _Pen:
    """SVG elements, one after the other."""

    def __init__(self) -> None:
        self.svg = ""

    def text(self, x: float, y: float, text: str, **style: object) -> None:
        self._add("text", f">{escape(text)}</text>", x=x, y=y, **style)

    def rect(
        self, x: float, y: float, width: float, height: float, rx: float = 6, **style: object
    ) -> None:
        self._add("rect", "/>", x=x, y=y, width=width, height=height, rx=rx, **style)

    def way(self, *points: tuple[float, float], arrow: bool = True, **style: object) -> None:
        """A line through these points, with an arrow's head at its end."""
        d = "M" + "L".join(f"{x} {y}" for x, y in points)
        line = {"fill": "none", "stroke": "currentColor", "stroke_width": 1.5}
        self._add("path", "/>", d=d, **line | style)
        if arrow:
            (x0, y0), (x, y) = points[-2:]
            dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
            back, aside = (x - 7 * dx, y - 7 * dy), (4 * dy, 4 * dx)
            head = [(x, y), (back[0] + aside[0], back[1] + aside[1])]
            head.append((back[0] - aside[0], back[1] - aside[1]))
            self._add("path", "/>", d="M" + "L".join(f"{a} {b}" for a, b in head) + "Z")

    def plus(self, x: float, y: float) -> None:
        self._add("circle", "/>", cx=x, cy=y, r=9, fill="none", stroke="currentColor")
        self.way((x - 5, y), (x + 5, y), arrow=False)
        self.way((x, y - 5), (x, y + 5), arrow=False)

    def switch(self, x: float, y: float, switch: Switch) -> None:
        """A chip whose upper left corner is here; one that is not as usual stands out."""
        changed = switch.usual is not None
        frame = {"fill": CHANGED, "fill_opacity": 0.25, "stroke": CHANGED, "stroke_width": 2}
        plain = {"fill": "none", "stroke": "currentColor", "stroke_opacity": 0.3}
        self.svg += f"<g><title>{escape(f'{switch.words}; {LEGEND[switch.sign]}')}</title>"
        self.rect(x, y, _chip_width(switch), _CHIP - 4, **frame if changed else plain)
        self.text(x + 7, y + 16.5, switch.text, **{"font_weight": "bold"} if changed else {})
        self.svg += "</g>"

    def switches(self, x: float, y: float, width: float, switches: Sequence[Switch]) -> float:
        """As many beside each other as fit into the width; where they end."""
        for line in _lines(switches, width):
            at = x
            for switch in line:
                self.switch(at, y, switch)
                at += _chip_width(switch) + _BETWEEN_CHIPS
            y += _CHIP
        return y

    def group(self, svg: str, x: float, y: float) -> None:
        self.svg += f'<g transform="translate({x} {y})">{svg}</g>'

    def _add(self, tag: str, end: str, **style: object) -> None:
        said = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
        self.svg += f"<{tag} {said}{end}"


class _Drawn(NamedTuple):
    """A stack by itself, and where the encoder's output leaves it or comes in."""

    svg: str
    height: float
    memory: float  # y of the box that reads it


def _drawn(stack: Stack) -> _Drawn:
    """A stack from its top, where the stream ends, down to the tokens."""
    pen, memory = _Pen(), 0.0
    pen.text(_LEFT, 18, stack.title, font_size=17, font_weight="bold")
    pen.text(_STREAM + 16, 43, stack.gives)
    y, gap = 30.0, 20
    for box in reversed(stack.above):
        y = _box(pen, box, _arrow(pen, y, gap))
        gap = _GAP
    top = y = _arrow(pen, y, gap)
    pen.switch(_RIGHT + 8 - _chip_width(stack.blocks), y + 6, stack.blocks)
    pen.text(_STREAM + 12, y + 22.5, "in each block")
    y = _arrow(pen, y, _CHIP + 8, arrow=False)
    for sublayer in reversed(stack.sublayers):
        y, middle = _sublayer(pen, sublayer, y)
        memory = middle if sublayer.reads_memory else memory
    _frame(pen, top, y - 4, stack.n_blocks)
    y = _arrow(pen, y, _GAP + 6)
    if stack.position is not None:
        y = _position(pen, stack.position, y)
    y = _box(pen, stack.embedding, y)
    y = _arrow(pen, y, 20)
    pen.text(_LEFT, y + 14, stack.reads)
    return _Drawn(pen.svg, y + 20, memory)


def _arrow(pen: _Pen, y: float, length: float = _GAP, arrow: bool = True) -> float:
    """The stream comes up to y; the y of where it comes from."""
    pen.way((_STREAM, y + length), (_STREAM, y + 1 if arrow else y), arrow=arrow)
    return y + length


def _sublayer(pen: _Pen, sublayer: Sublayer, y: float) -> tuple[float, float]:
    """One sub-layer and what surrounds it; where it begins, and the middle of its box."""
    if sublayer.norm is not None and not sublayer.norm_first:
        y = _arrow(pen, _box(pen, sublayer.norm, y))
    joint = y + 12
    if sublayer.adds:
        pen.plus(_STREAM, joint)
    for i, switch in enumerate(sublayer.joint):
        pen.switch(_STREAM + 18, y + i * _CHIP, switch)
    if sublayer.joint:
        height = _CHIP * len(sublayer.joint)
        end = y + 22 if sublayer.adds else y
        pen.way((_STREAM, y + height + _GAP), (_STREAM, end), arrow=sublayer.adds)
        y += height + _GAP
    start, y = y, _box(pen, sublayer.box, y)
    middle = (start + y) / 2
    if sublayer.norm is not None and sublayer.norm_first:
        y = _arrow(pen, y)
        y = _box(pen, sublayer.norm, y)
    y = _arrow(pen, y, _GAP + 4)
    if sublayer.adds:
        around = ((_STREAM, y - 4), (_RESIDUAL, y - 4), (_RESIDUAL, joint), (_STREAM - 10, joint))
        pen.way(*around)
    return y, middle


def _frame(pen: _Pen, top: float, bottom: float, n_blocks: int) -> None:
    """Around what every block holds; sheets behind it tell that there are several."""
    style = {"fill": "currentColor", "fill_opacity": 0.03, "stroke": "currentColor"}
    for i in reversed(range(min(n_blocks, 3))):
        pen.rect(10 + 4 * i, top + 2 - 4 * i, 378, bottom - top, stroke_opacity=0.45, **style)


def _position(pen: _Pen, box: Box, y: float) -> float:
    """What is added to the tokens comes in from the side."""
    left = _STREAM + 34
    height = _box_height(box, _RIGHT - left)
    pen.plus(_STREAM, y + 10)
    pen.way((left, y + 10), (_STREAM + 10, y + 10))
    _box(pen, box, y, left)
    pen.way((_STREAM, y + height + _GAP), (_STREAM, y + 20))
    return y + height + _GAP


def _box(pen: _Pen, box: Box, y: float, left: float = _LEFT) -> float:
    """A part of the model with all that it says of itself; where it ends."""
    height, colour = _box_height(box, _RIGHT - left), COLOURS[box.kind]
    look = {"stroke_dasharray": "5 4", "fill": "none"} if box.absent else {"fill": colour}
    pen.rect(left, y, _RIGHT - left, height, fill_opacity=0.16, stroke=colour, **look)
    if title := _title(box):
        pen.text(left + _PAD, y + 20, title, font_size=_TITLE, font_weight="bold")
    if box.heading is not None:
        pen.switch(left + _PAD + _title_width(title), y + 4, box.heading)
    facts = _facts(box, _RIGHT - left)
    if box.parameters and len(facts) == len(box.facts):
        pen.text(_RIGHT - _PAD, y + 20, _learns(box), text_anchor="end")
    at = y + 20
    for fact in facts:
        at += _LINE
        pen.text(left + _PAD, at, fact)
    if box.sees:
        _grid(pen, box.sees, _RIGHT - _PAD, y + 30)
    pen.switches(left + _PAD, at + 8, _RIGHT - left - 2 * _PAD, box.switches)
    return y + height


def _box_height(box: Box, width: float) -> float:
    lines = _lines(box.switches, width - 2 * _PAD)
    return 30 + _LINE * len(_facts(box, width)) + _CHIP * len(lines)


def _title(box: Box) -> str:
    """What is written before the heading switch, unless that begins with the same word."""
    return "" if box.heading is not None and box.heading.name == box.title else box.title


def _title_width(title: str) -> float:
    return len(title) * 0.55 * _TITLE + 8 if title else 0


def _learns(box: Box) -> str:
    return f"{box.parameters:,} parameters"


def _facts(box: Box, width: float) -> list[str]:
    """The lines of a box; how much it learns is one of them where its title leaves no room."""
    needed = _title_width(_title(box)) + len(_learns(box)) * _LETTER + 3 * _PAD
    needed += 0 if box.heading is None else _chip_width(box.heading)
    return [*box.facts, _learns(box)] if box.parameters and needed > width else list(box.facts)


def _lines(switches: Sequence[Switch], width: float) -> list[list[Switch]]:
    """As many switches in a line as fit."""
    lines: list[list[Switch]] = []
    room = -1.0
    for switch in switches:
        if _chip_width(switch) > room:
            lines.append([])
            room = width
        lines[-1].append(switch)
        room -= _chip_width(switch) + _BETWEEN_CHIPS
    return lines


def _chip_width(switch: Switch) -> float:
    return round(len(switch.text) * _LETTER * (1.07 if switch.usual else 1) + 14)


def _grid(pen: _Pen, sees: Sequence[Sequence[bool]], right: float, top: float) -> None:
    """A small map of the mask: full where a query (row) may look at a key (column)."""
    cell = _GRID / len(sees)
    for row, keys in enumerate(sees):
        for column, seen in enumerate(keys):
            x, y = right - _GRID + column * cell, top + row * cell
            pen.rect(x, y, cell - 1, cell - 1, rx=0, fill_opacity=0.85 if seen else 0.12)


def _memory(pen: _Pen, places: Sequence, drawn: Sequence[_Drawn], wide: bool) -> None:
    """The way of the encoder's output into the decoder."""
    (x0, y0), (x1, y1) = places
    start, read_at = (x0 + _STREAM, y0 + 30), y1 + drawn[1].memory
    line = {"stroke": COLOURS["attention"], "stroke_width": 2.5}
    lane, end = (x0 + WIDTH + 4, x1 + _LEFT) if wide else (_MEMORY, _RIGHT)
    above = (start[0], y0 + 26)
    pen.way(start, above, (lane, above[1]), (lane, read_at), (end, read_at), **line)


# --- its head and its legend ------------------------------------------------------------------


def _head(pen: _Pen, model: Model, width: float) -> float:
    pen.text(10, 20, model.title, font_size=17, font_weight="bold")
    return pen.switches(10, 32, width - 20, model.switches) + 14


def _legend(pen: _Pen, y: float, width: float) -> float:
    """What the signs mean; below each other where there is little room."""
    x = 10.0
    for sign, meaning in LEGEND.items():
        text = f"{sign} {meaning}"
        pen.text(x, y, text)
        x += len(text) * _LETTER + 16
    if x + 190 > width:
        x, y = 10.0, y + 24
    pen.rect(x, y - 14, 20, 18, fill=CHANGED, fill_opacity=0.25, stroke=CHANGED, stroke_width=2)
    pen.text(x + 28, y, "not the default")
    return y + 12
