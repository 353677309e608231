"""The ideas' pages compute their numbers: one that is written into a sentence has a reason."""

import ast
import re
from pathlib import Path

import pytest

import playground.ideas

PAGES = sorted(Path(playground.ideas.__path__[0]).glob("*/page.py"))
PROSE = re.compile(r"[A-Za-z]{2,} [a-z]")  # two words: no key, name or format
NUMBER = re.compile(r"(?<![\w.\-])\d(?:[\d.,]*\d)?")  # not those of fp32, GPT-2 or float64
ANYWHERE = {0.0, 1.0}  # none and all: a weight, a sum, a first block

# What is not measured but given: page -> number -> why it is so.
GIVEN = {
    "attention": {"2": "a key of the dictionary by hand is a point in the plane: d_k is 2"},
    "feed_forward": {
        "4": "d_ff / d_model in the paper",
        "16": "the base of the digits, which the task is given",
        "50,257": "the vocabulary of GPT-2",
    },
    "heads": {"2": "two heads can differ by ln 2 at most"},
    "digits": {
        "1,797": "how many handwritten digits there are, by tests/core/test_images.py",
        "2021": "the year of the paper",
        "3": "a figure of it",
    },
    "gaps": {"2019": "the year of the paper", "3.1": "a section of it"},
    "masks": {"2": "block 2 comes after block 1"},
    "positions": {
        "3.5": "a section of the paper",
        "8": "the distance of the example, and the middle 8 of 10 tokens: what the band is",
        "10": "the same band",
    },
    "recurrent": {"32": "the distance of the task, in its measure.py"},
    "residuals": {"2": "a value of the knob Blocks", "10": "a factor to think of"},
    "translation": {
        "2017": "the year of the paper",
        "3": "a date whose parts look alike",
        "33": "the same date",
    },
    "training_tricks": {
        "0.003": "a value of the knob Peak learning rate",
        "2": "the claim that is tested: a free 2×",
        "50,257": "the vocabulary of GPT-2",
    },
}


def written(source: str) -> set[str]:
    """The numbers in the sentences of a file, without those that are filled in."""
    tree = ast.parse(source)
    docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if _has_docs(node)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    prose = [
        text
        for text in texts
        if PROSE.search(text) and not ({"\\", "<"} & set(text)) and text not in docs
    ]
    found = {number for text in prose for number in NUMBER.findall(text)}
    return {number for number in found if float(number.replace(",", "")) not in ANYWHERE}


def _has_docs(node: ast.AST) -> bool:
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_number_in_a_sentence_is_computed_or_has_a_reason(page):
    assert written(page.read_text()) == set(GIVEN.get(page.parent.name, {})), (
        "compute it, or say in GIVEN why it is given; what is no longer written leaves GIVEN"
    )


def test_a_number_that_was_measured_once_is_found():
    assert written('x = f"The loss ends at 2.21 after {n} steps of fp32 in GPT-2."') == {"2.21"}
    assert written('"""Section 3.5 of it."""\nx = f"The loss ends at {loss:.2f}."') == set()
