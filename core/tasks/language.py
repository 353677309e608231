"""A small language of our own: its words, and which may follow which.

    the cats that the dog sees chase a bird.
    the wolf [half asleep] likes the children.

Two things must be remembered over a distance: the number of the subject decides the form of the
verb behind a clause, and an opening bracket decides the closing one.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from typing import NamedTuple

NOUNS = {
    "one": ("bird", "cat", "child", "dog", "fox", "wolf"),
    "many": ("birds", "cats", "children", "dogs", "foxes", "wolves"),
}
VERBS = {"one": ("chases", "hears", "likes", "sees"), "many": ("chase", "hear", "like", "see")}
ASIDES = ("from the hill", "half asleep", "very old")
BRACKETS = {"round": "()", "square": "[]"}


class Edge(NamedTuple):
    """One way on: with this probability write this text and go there."""

    probability: Fraction
    text: str
    to: str


START = "start"
Number = int | float


def rules() -> dict[str, list[Edge]]:
    """The grammar: from each state the edges that leave it; a sentence ends back at START."""

    def evenly(share: Fraction, texts: list[tuple[str, str]]) -> list[Edge]:
        return [Edge(share / len(texts), text, to) for text, to in texts]

    nouns = [(noun, number) for number in NOUNS for noun in NOUNS[number]]
    edges = {
        START: evenly(Fraction(1), [(f"the {noun}", f"subject {number}") for noun, number in nouns])
    }
    for number in NOUNS:
        verbs = [(f" {verb}", "object") for verb in VERBS[number]]
        edges[f"subject {number}"] = [
            *evenly(Fraction(1, 2), verbs),
            Edge(Fraction(3, 10), " that the", f"clause {number}"),
            *evenly(
                Fraction(2, 10),
                [(f" {BRACKETS[kind][0]}", f"{kind} {number}") for kind in BRACKETS],
            ),
        ]
        edges[f"clause {number}"] = evenly(
            Fraction(1), [(f" {noun}", f"clause {number} {inner}") for noun, inner in nouns]
        )
        for inner in NOUNS:
            edges[f"clause {number} {inner}"] = evenly(
                Fraction(1), [(f" {verb}", f"verb {number}") for verb in VERBS[inner]]
            )
        for kind, brackets in BRACKETS.items():
            edges[f"{kind} {number}"] = evenly(
                Fraction(1), [(a, f"{kind} end {number}") for a in ASIDES]
            )
            edges[f"{kind} end {number}"] = [Edge(Fraction(1), brackets[1], f"verb {number}")]
        edges[f"verb {number}"] = evenly(Fraction(1), verbs)
    edges["object"] = [
        *evenly(Fraction(1, 2), [(f" a {noun}", "end") for noun in NOUNS["one"]]),
        *evenly(Fraction(1, 2), [(f" the {noun}", "end") for noun, _ in nouns]),
    ]
    edges["end"] = [Edge(Fraction(1), ".\n", START)]
    return edges


def mean(ways: Iterable[tuple[Fraction, Number]]) -> Number:
    """The mean of values that come with their probabilities."""
    return sum(float(probability) * value for probability, value in ways)


def longest(ways: Iterable[tuple[Fraction, Number]]) -> Number:
    """The largest value, however improbable."""
    return max(value for _, value in ways)


def shortest(ways: Iterable[tuple[Fraction, Number]]) -> Number:
    """The smallest value, however improbable."""
    return min(value for _, value in ways)


def over_sentences(
    edges: dict[str, list[Edge]],
    value: Callable[[Edge], Number],
    combine: Callable[[Iterable[tuple[Fraction, Number]]], Number] = mean,
) -> Number:
    """Add up `value` over the edges of a sentence; the mean of that over all sentences, or another
    `combine`. Exact: from each state on, what is still to come is worked out once."""

    @cache
    def from_here(state: str) -> Number:
        return combine(
            (edge.probability, value(edge) + (0 if edge.to == START else from_here(edge.to)))
            for edge in edges[state]
        )

    return from_here(START)
