"""The small language, sampled and scored: every one of its probabilities is known exactly."""

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache, cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from core.tasks.base import fixed_generator
from core.tasks.language import START, Edge, longest, over_sentences, rules, shortest
from core.tokens import PAD


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
        choices = over_sentences(self.rules, lambda edge: -math.log(edge.probability))
        return choices / over_sentences(self.rules, lambda edge: len(edge.text))

    def frequencies(self, width: int) -> Float[Tensor, " vocab"]:
        """Exact share of each id in the endless text."""
        counts = torch.tensor(
            [
                over_sentences(self.rules, lambda edge, letter=letter: edge.text.count(letter))
                for letter in self.vocabulary
            ],
            dtype=torch.float64,
        )
        return counts / counts.sum()

    # --- tables, made once ----------------------------------------------------------------

    @cached_property
    def _draws(self) -> "_Draws":
        # A sentence that is over waits in a last state, whose one edge writes nothing.
        rules = {**self.rules, "over": [Edge(Fraction(1), "", "over")]}
        states = list(rules)
        flat = [edge for state in rules.values() for edge in state]
        # All probabilities are whole numbers of tickets: drawing one is drawing an edge.
        n_tickets = math.lcm(*(edge.probability.denominator for edge in flat))
        shares = torch.tensor([int(edge.probability * n_tickets) for edge in flat])
        widest = max(len(edge.text) for edge in flat)
        text = [[self._ids[letter] for letter in edge.text] for edge in flat]
        return _Draws(
            steps=over_sentences(self.rules, lambda edge: 1, longest),
            shortest=over_sentences(self.rules, lambda edge: len(edge.text), shortest),
            n_tickets=n_tickets,
            edge=torch.arange(len(flat)).repeat_interleave(shares),
            text=torch.tensor([ids + [PAD] * (widest - len(ids)) for ids in text]),
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
            likely = [0.0] * len(self.vocabulary)
            leads = [0] * len(self.vocabulary)
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
