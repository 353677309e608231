"""What a text that was partly hidden still says of each of its characters: exactly, for a grammar.

The grammar is a hidden Markov model: where in it the text stands is hidden, and of the character
that is written there one sees a token. The forward pass gathers what came before, the backward
pass what comes after (Rabiner 1989, equations 19 to 27).
"""

from functools import cache, cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from core.tasks.grammar import Grammar
from core.tasks.language import START

Emission = Float[Tensor, "character token"]  # probability of a token where a character stands
States = Float[Tensor, "batch states"]


class Smoother:
    """Probabilities of characters, given the tokens of a window of the grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar

    def beliefs(
        self,
        tokens: Int[Tensor, "batch length"],
        usual: Emission,
        scored: Emission,
        both_ways: bool,
    ) -> Float[Tensor, "batch length vocab"]:
        """Probability of each character at each place, given all tokens, or those up to its own.

        NaN where no text of the grammar can be read so.

        Args:
            usual: how a character is read where one does not know whether it is scored.
            scored: how it is read where it is, as at the place that is asked for.
        """
        n = tokens.shape[1]
        usual, scored = (e[self.letter] for e in (usual, scored))  # [states, token]
        before = [self._newline.expand(len(tokens), -1)]  # of each place, given what came before
        for t in range(n - 1):
            before.append(_normal((before[t] * usual[:, tokens[:, t]].T) @ self.moves))
        after = [torch.ones_like(before[0])] * n  # what comes after says of each place
        if both_ways:
            for t in reversed(range(n - 1)):
                seen = usual[:, tokens[:, t + 1]].T * after[t + 1]
                after[t] = _normal(seen @ self.moves.T)
        places = [
            _normal(before[t] * after[t] * scored[:, tokens[:, t]].T) @ self._writes
            for t in range(n)
        ]
        return torch.stack(places, 1)

    @cached_property
    def _states(self) -> list[tuple[str, str]]:
        """(rest of an edge's text, where it leads): the character to come is the first of it."""
        edges = {edge for edges in self.grammar.rules.values() for edge in edges}
        return sorted({(e.text[i:], e.to) for e in edges for i in range(len(e.text))})

    @cached_property
    def letter(self) -> Int[Tensor, " states"]:
        """The character that is written at each place."""
        vocabulary = self.grammar.vocabulary
        return torch.tensor([vocabulary.index(rest[0]) for rest, _ in self._states])

    @cached_property
    def moves(self) -> Float[Tensor, "states states"]:
        """Probability of each place to come next."""
        number = {state: i for i, state in enumerate(self._states)}
        moves = torch.zeros(len(number), len(number), dtype=torch.float64)
        for (rest, to), i in number.items():
            if len(rest) > 1:
                moves[i, number[rest[1:], to]] = 1
            else:
                for edge in self.grammar.rules[to]:
                    moves[i, number[edge.text, edge.to]] += float(edge.probability)
        return moves

    @cached_property
    def _writes(self) -> Float[Tensor, "states vocab"]:
        """1 where a place writes a character; the last column is for the mask, which none does."""
        width = len(self.grammar.vocabulary) + 1
        return torch.nn.functional.one_hot(self.letter, width).double()

    @cached_property
    def _newline(self) -> Float[Tensor, " states"]:
        """Every window begins with the newline that ends a sentence."""
        place = torch.zeros(len(self._states), dtype=torch.float64)
        place[self._states.index(("\n", START))] = 1
        return place


def _normal(weights: States) -> States:
    return weights / weights.sum(1, keepdim=True)


@cache
def smoother(grammar: Grammar) -> Smoother:
    """That of a grammar, made when it is first asked for."""
    return Smoother(grammar)
