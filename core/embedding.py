"""What a model reads becomes vectors that also know where they stand (paper, 3.4 and 3.5)."""

import torch
from jaxtyping import Int
from torch import Tensor, nn

from core.config import ModelConfig
from core.init import embedding_factor
from core.positions import Position, Stream

Keys = Int[Tensor, "batch key"]
Patches = Int[Tensor, "batch patches grey"]

BLACK = 16  # the darkest grey level


class Embedding(nn.Module):
    """Tokens become vectors.

    A token is one row of a learnt table: tokens that behave alike end up with similar rows.

    Under `init="xavier"` the factor √d_model brings the rows to a size of 1, beside sinusoids of
    0.7 (root mean squares); learned positions start at 0.02 there. Under the other inits the
    factor is 1, and rows start at 0.02 (`gpt2`) or 1 (`torch`). So `init` decides not only the
    first numbers, but also this factor in every forward pass.
    """

    def __init__(self, config: ModelConfig, position: Position) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.position = position
        self.factor = embedding_factor(config)

    def forward(self, tokens: Keys, start: int = 0) -> Stream:
        """The vectors of all tokens from position `start` on."""
        self.position.check(tokens)
        x = self.tokens(tokens[:, start:]) * self.factor  # [batch, length, d_model]
        return self.position.add(x, start)


class PatchEmbedding(nn.Module):
    """Patches become vectors by one matrix, and a learnt class token stands before them.

    There are far too many different patches for a table; what the matrix learns are patterns that
    it looks for in a patch (Dosovitskiy et al. 2021, equation 1).
    """

    def __init__(self, config: ModelConfig, position: Position) -> None:
        super().__init__()
        self.patches = nn.Linear(config.d_patch, config.d_model)
        self.class_token = nn.Parameter(torch.empty(config.d_model))
        self.position = position

    def forward(self, patches: Patches) -> Stream:
        """The vectors of the class token and of all patches."""
        grey = patches.to(self.patches.weight) / BLACK  # from 0 to 1
        x = self.patches(grey)  # [batch, patches, d_model]
        first = self.class_token.expand(len(x), 1, -1)
        return self.position.add(torch.cat([first, x], dim=1))
