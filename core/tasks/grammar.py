"""A small language of our own, whose every probability is known exactly.

    the cats that the dog sees chase a bird.
    the wolf [half asleep] likes the children.

Two things must be remembered over a distance: the number of the subject decides the form of the
verb behind a clause, and an opening bracket decides the closing one.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from core.tasks.base import fixed_generator
from core.tokens import PAD

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


class Grammar:
    """Samples the language, and knows how probable each next character is.

    It has what a `Corpus` has. Its training text is endless and fresh at every call, so it never
    repeats; a single sentence may well come up in training and in validation, as in any language.
    Every window starts with the newline that ended the sentence before.
    """

    def __init__(self, edges: dict[str, list[Edge]]) -> None:
        self.rules = edges
        letters = {letter for state in edges.values() for edge in state for letter in edge.text}
        self.vocabulary: tuple[str, ...] = ("<pad>", *sorted(letters))
        self._ids = {letter: i for i, letter in enumerate(self.vocabulary)}

    def check(self, width: int) -> None:
        """An endless text holds a window of any width."""

    # --- sampling -------------------------------------------------------------------------

    def training_windows(
        self, size: int, width: int, generator: torch.Generator
    ) -> Int[Tensor, "size width"]:
        """Fresh rows of whole sentences, cut off at `width`."""
        tables = self._draws
        sentences = size * math.ceil((width - 1) / tables.shortest)
        tickets = torch.randint(tables.n_tickets, (tables.steps, sentences), generator=generator)
        state = torch.zeros(sentences, dtype=torch.int64)
        edges = []
        for ticket in tickets:
            edges.append(tables.edge.take(state * tables.n_tickets + ticket))
            state = tables.to.take(edges[-1])
        # One stream of all sentences; each row begins at the newline before its first one.
        letters = tables.text.index_select(0, torch.stack(edges, dim=1).flatten())
        written = letters != PAD
        newline = torch.full((1,), self._ids["\n"])
        stream = torch.cat((newline, letters[written]))
        lengths = written.view(size, -1).sum(1)
        starts = lengths.cumsum(0) - lengths
        return stream[starts.unsqueeze(1) + torch.arange(width)]

    def validation_windows(self, size: int, width: int) -> Int[Tensor, "size width"]:
        return self.training_windows(size, width, fixed_generator())

    # --- exact probabilities --------------------------------------------------------------

    def next_character(
        self, windows: Int[Tensor, "batch width"]
    ) -> Float[Tensor, "batch width vocab"]:
        """Probability of each id to come next, given the window up to and with each place.

        The forward algorithm: where in the grammar the text may stand, as probabilities, updated
        by each character (Rabiner 1989, eq. 19 and 20). A window starts with a newline.
        """
        tables = self._beliefs
        belief = torch.zeros(len(windows), dtype=torch.int64)
        seen = []
        for place in range(windows.shape[1]):
            if place > 0:
                belief = tables.following[belief, windows[:, place]]
            seen.append(tables.probability[belief])
        return torch.stack(seen, dim=1)

    def surprise(self, windows: Int[Tensor, "batch width"]) -> Float[Tensor, "batch places"]:
        """Exact -ln p of each character but the first, given those before it in its window."""
        ahead = self.next_character(windows[:, :-1])
        return -ahead.gather(2, windows[:, 1:].unsqueeze(-1)).squeeze(-1).log()

    @cached_property
    def entropy_per_character(self) -> float:
        """Nats per character of the endless text: entropy of a sentence over its mean length.

        Exact, since each sentence comes about in one way only and starts afresh.
        """
        choices = self._per_sentence(lambda edge: -math.log(edge.probability))
        return choices / self._per_sentence(lambda edge: len(edge.text))

    def frequencies(self, width: int) -> Float[Tensor, " vocab"]:
        """Exact share of each id in the endless text."""
        counts = torch.tensor(
            [
                self._per_sentence(lambda edge, letter=letter: edge.text.count(letter))
                for letter in self.vocabulary
            ],
            dtype=torch.float64,
        )
        return counts / counts.sum()

    # --- tables, made once ----------------------------------------------------------------

    def _per_sentence(self, value: Callable[[Edge], float]) -> float:
        """Mean over sentences of the sum of `value` over a sentence's edges."""

        @cache
        def mean(state: str) -> float:
            return sum(
                float(edge.probability)
                * (value(edge) + (0.0 if edge.to == START else mean(edge.to)))
                for edge in self.rules[state]
            )

        return mean(START)

    def _extreme(self, best: Callable[[Iterable[int]], int], value: Callable[[Edge], int]) -> int:
        """Smallest or largest sum of `value` over a sentence's edges."""

        @cache
        def total(state: str) -> int:
            return best(
                value(edge) + (0 if edge.to == START else total(edge.to))
                for edge in self.rules[state]
            )

        return total(START)

    @cached_property
    def _draws(self) -> "_Draws":
        # A sentence that is over waits in a last state, whose one edge writes nothing.
        rules = {**self.rules, "over": [Edge(Fraction(1), "", "over")]}
        states, flat = list(rules), [edge for state in rules.values() for edge in state]
        # All probabilities are whole numbers of tickets: drawing one is drawing an edge.
        n_tickets = math.lcm(*(edge.probability.denominator for edge in flat))
        shares = torch.tensor([int(edge.probability * n_tickets) for edge in flat])
        longest = max(len(edge.text) for edge in flat)
        text = [[self._ids[letter] for letter in edge.text] for edge in flat]
        return _Draws(
            steps=self._extreme(max, lambda edge: 1),
            shortest=self._extreme(min, lambda edge: len(edge.text)),
            n_tickets=n_tickets,
            edge=torch.arange(len(flat)).repeat_interleave(shares),
            text=torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in text]),
            to=torch.tensor(
                [states.index("over" if edge.to == START else edge.to) for edge in flat]
            ),
        )

    @cached_property
    def _beliefs(self) -> "_Beliefs":
        # A belief says what may still be to write: {(rest of an edge's text, where it leads): p}.
        # Few different ones occur, so each is worked out once and gets a row in two tables.
        known: dict[tuple, int] = {}
        waiting: list[dict] = []

        def row(belief: dict) -> int:
            key = tuple(sorted((item, round(p, 12)) for item, p in belief.items()))
            if key not in known:
                known[key] = len(known)
                waiting.append(belief)
            return known[key]

        row({(edge.text, edge.to): float(edge.probability) for edge in self.rules[START]})
        following, probability = [], []
        for belief in waiting:  # grows while it is read
            ahead: dict[int, dict] = defaultdict(lambda: defaultdict(float))
            for (rest, to), p in belief.items():
                after = ahead[self._ids[rest[0]]]
                if len(rest) > 1:
                    after[rest[1:], to] += p
                else:
                    for edge in self.rules[to]:
                        after[edge.text, edge.to] += p * float(edge.probability)
            likely, leads = [0.0] * len(self.vocabulary), [0] * len(self.vocabulary)
            for letter, after in ahead.items():
                likely[letter] = total = sum(after.values())
                leads[letter] = row({item: p / total for item, p in after.items()})
            probability.append(likely)
            following.append(leads)
        return _Beliefs(torch.tensor(following), torch.tensor(probability, dtype=torch.float64))


class _Draws(NamedTuple):
    """The grammar as tables for sampling; states and edges are numbered."""

    steps: int  # edges in the longest sentence
    shortest: int  # characters in the shortest sentence
    n_tickets: int  # per state
    edge: Tensor  # [states · n_tickets] the edge that a ticket of a state stands for
    text: Tensor  # [edges, letters] what an edge writes, padded
    to: Tensor  # [edges] the state it leads to


class _Beliefs(NamedTuple):
    """What may be known about the place in the grammar, one row each."""

    following: Tensor  # [beliefs, vocab] the belief after one more character
    probability: Tensor  # [beliefs, vocab] of the next character


@cache
def grammar() -> Grammar:
    """The one grammar, built when it is first asked for."""
    return Grammar(rules())
