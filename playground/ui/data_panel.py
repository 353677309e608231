"""The tab "Data": what is to be learnt, in the first examples that a run trains on."""

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import NamedTuple

import streamlit as st
import torch

from core.tasks import IGNORED, PAD, Batch, Chance, Task
from core.tasks.pictures import BLACK
from playground.runs.spec import Spec, in_nats
from playground.ui.glossary import explain

N_EXAMPLES = 3
MOST_SHOWN = 96  # positions of one row
LONG = 32  # positions from which on they stand closer together

# How the form of a task differs between the architectures, and what its rows are called.
FORMS = {
    "decoder": "Each position is to predict the token that comes next.",
    "encoder": "Each position is to give a label.",
    "encoder-decoder": "The encoder reads the source; in the decoder each position is to predict "
    "the token that comes next in the target.",
    "vit": "It reads the patches after a class token, at whose position it is to give the class.",
}
READS = {"decoder": ("reads",), "encoder": ("reads",), "encoder-decoder": ("source", "reads")}
ANSWERS = {"decoder": "predicts", "encoder": "labels", "encoder-decoder": "predicts"}

# A token and its answer stand below each other, and such pairs wrap like words.
STYLE = """<style>
.tokens { display: flex; font-size: 1rem; line-height: 1.6rem; }
.pairs { display: flex; flex-wrap: wrap; row-gap: 0.4rem; font-family: monospace; }
.names, .pair { display: flex; flex-direction: column; }
.names { flex: none; width: 4.5rem; }
.pair { min-width: 1.5rem; text-align: center; }
.long .pair { min-width: 1rem; }
.tokens .scored { font-weight: bold; background: #e69f0040; border-bottom: 2px solid #e69f00; }
.example { margin-bottom: 1rem; }
.pictures { display: flex; gap: 2rem; flex-wrap: wrap; margin-bottom: 1rem; }
.pictures figure { margin: 0; text-align: center; }
.pictures .scored { font-weight: bold; background: #e69f0040; border-bottom: 2px solid #e69f00; }
.picture { display: grid; gap: 4px; width: fit-content; }
.patch { display: grid; outline: 1px solid #808080; }
.patch i { width: 14px; height: 14px; }
</style>"""


class Row(NamedTuple):
    """Tokens that a model reads, and what it is to answer at each of them."""

    name: str
    tokens: list[str]
    answers_name: str = ""
    answers: Sequence[str] = ()  # none: this row is only read
    scored: Sequence[bool] = ()


def draw(spec: Spec, chance: Chance, floor: float | None) -> None:
    """What is to be done, three examples of it, and what their loss is measured against."""
    architecture, training = spec.model.form, spec.training
    batch = first_examples(spec.task, architecture, training.seed, training.batch_size, N_EXAMPLES)
    said = f"{spec.task.about} {FORMS[architecture]}"
    if architecture == "vit":
        shown = pictures_html(spec.task, batch)
    else:
        said = f"{said} {scoring(batch)}"
        shown = "".join(map(example_html, examples(spec.task, architecture, batch)))
    whence = (
        f"These are the first {N_EXAMPLES} examples that a run with these knobs trains on "
        f"(seed {training.seed}). {yardsticks(spec.task, chance, floor)}"
    )
    st.html(f"{STYLE}<p>{explain(said)}</p>{shown}<p>{explain(whence)}</p>")


@lru_cache(maxsize=64)
def first_examples(task: Task, architecture: str, seed: int, batch_size: int, n: int) -> Batch:
    """The rows that a training with this seed meets first."""
    generator = torch.Generator().manual_seed(seed)  # as every trainer's
    batches = [task.batch(architecture, batch_size, generator) for _ in range(0, n, batch_size)]
    inputs = zip(*(batch.inputs for batch in batches), strict=True)
    targets = torch.cat([batch.targets for batch in batches])
    return Batch(tuple(torch.cat(parts)[:n] for parts in inputs), targets[:n])


def examples(task: Task, architecture: str, batch: Batch) -> list[list[Row]]:
    """The rows of each example; the last one is where answers are asked for."""
    found = []
    for i, targets in enumerate(batch.targets):
        *only_read, tokens = [task.decode(row[i]) for row in batch.inputs]
        *names, name = READS[architecture]
        answers, scored = task.decode(targets), (targets != IGNORED).tolist()
        asked = Row(name, tokens, ANSWERS[architecture], answers, scored)
        found.append([*map(Row, names, only_read), asked])
    return found


def example_html(rows: Sequence[Row]) -> str:
    return f'<div class="example">{"".join(map(_row_html, rows))}</div>'


def _row_html(row: Row) -> str:
    """A row, with its answers below; every token is shown as it is."""
    shown = row.tokens[:MOST_SHOWN]
    words = f"{row.name}: {' '.join(shown)}"
    columns = [[_cell(row.name)], *([_cell(token)] for token in shown)]
    if row.answers:
        words += f"; {row.answers_name}: {' '.join(row.answers[:MOST_SHOWN])}"
        below = [_cell(row.answers_name), *map(_cell, row.answers, row.scored)]
        columns = [[*above, under] for above, under in zip(columns, below, strict=False)]
    names, *pairs = ("".join(cells) for cells in columns)
    more = len(row.tokens) - len(shown)
    rest = f"<span>… and {more} more</span>" if more else ""
    close = " long" * (len(shown) >= LONG)
    return (
        f'<div class="tokens{close}" role="img" aria-label="{escape(words)}">'
        f'<div class="names">{names}</div><div class="pairs">'
        + "".join(f'<div class="pair">{pair}</div>' for pair in pairs)
        + f"{rest}</div></div>"
    )


def pictures_html(task: Task, batch: Batch) -> str:
    """Each picture as the patches that the model reads, and what it shows."""
    (pictures,), answers = batch.inputs, task.decode(batch.targets[:, 0])
    shown = (
        f"<figure>{picture_html(picture.tolist(), f'A picture, in patches: {answer}')}"
        f'<figcaption class="scored">{escape(answer)}</figcaption></figure>'
        for picture, answer in zip(pictures, answers, strict=True)
    )
    return f'<div class="pictures">{"".join(shown)}</div>'


def picture_html(patches: Sequence[Sequence[int]], words: str) -> str:
    """A picture cut into its patches, each a row of greys."""

    def square(cells: Sequence[str], kind: str) -> str:
        columns = f"grid-template-columns:repeat({round(len(cells) ** 0.5)},auto)"
        return f'<div class="{kind}" style="{columns}">{"".join(cells)}</div>'

    def pixel(grey: int) -> str:
        return f'<i style="background:hsl(0 0% {100 * (1 - grey / BLACK):g}%)"></i>'

    drawn = [square([pixel(grey) for grey in patch], "patch") for patch in patches]
    return f'<div role="img" aria-label="{escape(words)}">{square(drawn, "picture")}</div>'


def _cell(text: str, scored: bool = False) -> str:
    return f"<span class={'scored' if scored else 'plain'}>{escape(text)}</span>"


def scoring(batch: Batch) -> str:
    """At how many positions the loss looks."""
    counts = (batch.targets != IGNORED).sum(1).tolist()
    low, high, length = min(counts), max(counts), batch.targets.shape[1]
    asked = f"{low}" if low == high else f"{low} to {high}"
    empty = low < length or any(bool((row == PAD).any()) for row in batch.inputs)
    dots = " A dot stands for padding, or for a position that is not scored." if empty else ""
    return f"The marked positions are scored, {asked} of {length}.{dots}"


def yardsticks(task: Task, chance: Chance, floor: float | None) -> str:
    """What a model pays that does not read, and what even the best one pays."""
    best = (
        "The lowest loss that is possible is not known."
        if floor is None
        else f"The lowest loss that is possible, the floor, is {in_nats(floor)}."
    )
    among = "classes (padding counts as one)" if task.units == "classes" else "tokens"
    return (
        f"Guessing evenly among all {task.vocab_size} {among} costs {in_nats(chance.uniform)} nats "
        f"per scored token; the best guess without reading the input costs "
        f"{in_nats(chance.blind)}. {best}"
    )
