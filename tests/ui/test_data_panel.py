"""The examples shown are those that are trained on, and the marks are where the loss looks."""

import re
from html.parser import HTMLParser

import pytest
import torch

from core.optimize import cross_entropy
from core.tasks import TASKS, Batch
from core.train import Trainer
from helpers import SMALL as LINK
from helpers import fine, opened, spec_for, texts
from playground.ui.data_panel import (
    MOST_SHOWN,
    example_html,
    examples,
    first_examples,
    pictures_html,
)

SMALL = {
    "reverse": {"length": 4, "vary": True},
    "copy": {"length": 3},
    "sort": {"length": 3, "vary": True},
    "recall": {"length": 2},
    "distance": {"distance": 3},
    "add": {"length": 1},
    "gaps": {"length": 7, "share": 0.5},
    "text": {"source": "grammar", "length": 7},
    "dates": {},
    "numbers": {"length": 3},
}
TOKENS = {name: task for name, task in TASKS.items() if name != "images"}
FORMS = [(name, form) for name, task in TOKENS.items() for form in task.architectures]
N = 3


class Cells(HTMLParser):
    """The texts of the pairs in an example, row by row, and which of them are marked."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[list[tuple[str, bool]]]] = []
        self.cell: bool | None = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        kind = dict(attrs).get("class", "")
        if kind.startswith("tokens"):
            self.rows.append([])
        elif kind in ("pair", "names"):
            self.rows[-1].append([])
        elif tag == "span" and kind:
            self.cell = kind == "scored"

    def handle_data(self, data):
        if self.cell is not None:
            self.rows[-1][-1].append((data, self.cell))

    def handle_endtag(self, tag):
        self.cell = None


def task_of(name: str):
    return TASKS[name](**SMALL[name])


def scored_by_the_loss(targets: torch.Tensor) -> list[bool]:
    """The positions of one row whose logits the loss depends on."""
    logits = torch.zeros(1, len(targets), 100, requires_grad=True)
    cross_entropy(logits, targets[None]).backward()
    return (logits.grad[0].abs().sum(1) > 0).tolist()


@pytest.mark.parametrize("name, architecture", FORMS)
def test_the_marked_positions_are_those_that_the_loss_scores(name, architecture):
    task = task_of(name)
    batch = first_examples(task, architecture, 0, 4, N)
    for i, rows in enumerate(examples(task, architecture, batch)):
        drawn = Cells(example_html(rows)).rows
        assert len(drawn) == len(batch.inputs)
        for row, tokens in zip(drawn, batch.inputs, strict=True):
            _, *pairs = row
            assert [pair[0] for pair in pairs] == [(t, False) for t in task.decode(tokens[i])]
        _, *pairs = drawn[-1]
        assert [pair[1][0] for pair in pairs] == task.decode(batch.targets[i])
        assert [pair[1][1] for pair in pairs] == scored_by_the_loss(batch.targets[i])


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_the_examples_are_the_first_that_a_training_meets(batch_size, monkeypatch):
    spec = spec_for(task_of("reverse"), batch_size=batch_size, seed=7)
    met: list[Batch] = []
    draw = type(spec.task).batch

    def noted(*args) -> Batch:
        met.append(draw(*args))
        return met[-1]

    monkeypatch.setattr(type(spec.task), "batch", noted)
    trainer = Trainer(spec.model, spec.task, spec.training)
    while sum(len(batch.targets) for batch in met) < N:
        trainer.step()
    monkeypatch.undo()
    shown = first_examples(spec.task, "decoder", 7, batch_size, N)
    assert torch.equal(shown.inputs[0], torch.cat([batch.inputs[0] for batch in met])[:N])
    assert torch.equal(shown.targets, torch.cat([batch.targets for batch in met])[:N])


def test_a_text_is_shown_as_it_is_whatever_it_holds():
    own = "<img src=x onerror=alert(1)> & \"quoted\" 'text' </span><b>\n" * 20
    task = TASKS["text"](source="own", text=own, length=200)
    batch = first_examples(task, "decoder", 0, 4, N)
    for i, rows in enumerate(examples(task, "decoder", batch)):
        ((_, *pairs),) = Cells(example_html(rows)).rows
        shown = task.decode(batch.inputs[0][i])[:MOST_SHOWN]
        assert [pair[0][0] for pair in pairs] == shown


def test_the_page_shows_the_examples_of_its_knobs():
    test = opened("playground", {"details": "Data"}, task="add", **LINK)
    for knobs in ({}, {"seed": 3}):
        for key, value in knobs.items():
            fine(test.number_input(key=key).set_value(value).run())
        spec = test.session_state.choice.spec
        batch = first_examples(
            spec.task, "decoder", spec.training.seed, spec.training.batch_size, N
        )
        for rows in examples(spec.task, "decoder", batch):
            assert example_html(rows) in texts(test.html)


def test_pictures_are_drawn_as_the_patches_that_are_read():
    """Every pixel in its patch, as dark as its ink, and below it what it shows."""
    task = TASKS["images"](patch=2)
    batch = first_examples(task, "vit", 0, 64, N)
    html = pictures_html(task, batch)
    drawn = re.findall(r"hsl\(0 0% ([\d.]+)%\)", html)
    assert [float(light) for light in drawn] == [
        100 - 100 * grey / 16 for grey in batch.inputs[0].flatten().tolist()
    ]
    answers = re.findall(r'class="scored">(.)<', html)
    assert answers == [task.vocabulary[i] for i in batch.targets[:, 0]]
    assert html.count('class="patch"') == 16 * N
