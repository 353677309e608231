"""How large a model is: what it consists of and what it learns, counted without building it."""


class Size:
    """What a `ModelConfig` knows about its size: a base of it, which reads its fields."""

    def how_many(self) -> dict[str, int]:
        """How often each part is there."""
        stacks, per_layer = (2, 3) if self.architecture == "encoder-decoder" else (1, 1)
        blocks, attentions = stacks * self.n_layers, per_layer * self.n_layers
        ffns = self.ffn * blocks
        norms = (self.norm != "none") * (attentions + ffns) + (self.norm == "pre") * stacks
        return {"blocks": blocks, "attention": attentions, "feed-forward": ffns, "norms": norms}

    def parameters_by_part(self) -> dict[str, int]:
        """How many numbers each part of the model learns, without building it."""
        d, hidden, many = self.d_model, self.d_hidden, self.how_many()
        return {
            "embedding": self.vocab_size * d,
            "positions": self.max_len * d if self.position == "learned" else 0,
            "attention": many["attention"] * 4 * (d * d + d),
            "feed-forward": many["feed-forward"] * (2 * d * hidden + hidden + d),
            "norms": many["norms"] * 2 * d,
            "unembedding": 0 if self.tie_embeddings else self.vocab_size * d,
        }

    @property
    def n_parameters(self) -> int:
        """How many numbers the whole model learns."""
        return sum(self.parameters_by_part().values())
