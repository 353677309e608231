"""How large a model is: what it consists of and what it learns, counted without building it."""

GATES = {"gru": 3, "lstm": 4}  # each reads the input and the state: two matrices, two biases


class Size:
    """What a `ModelConfig` knows about its size: a base of it, which reads its fields."""

    @property
    def d_head(self) -> int:
        """Columns per head, the paper's d_k; d_v is the same here."""
        return self.d_model // self.n_heads

    @property
    def d_hidden(self) -> int:
        """Width inside the feed-forward: `d_ff`, or 4·d_model (paper, section 3.3).

        Two thirds of it where a gate adds a third matrix: as many parameters as without
        (Shazeer 2020, section 2).
        """
        width = self.d_ff or 4 * self.d_model
        return max(1, 2 * width // 3) if self.gated else width

    def how_many(self) -> dict[str, int]:
        """How often each part is there."""
        if not self.attends:
            return {"blocks": self.n_layers, "attention": 0, "feed-forward": 0, "norms": 0}
        stacks, per_layer = (2, 3) if self.architecture == "encoder-decoder" else (1, 1)
        blocks, attentions = stacks * self.n_layers, per_layer * self.n_layers
        ffns = self.ffn * blocks
        norms = (self.norm != "none") * (attentions + ffns) + (self.norm == "pre") * stacks
        return {"blocks": blocks, "attention": attentions, "feed-forward": ffns, "norms": norms}

    def parameters_by_part(self) -> dict[str, int]:
        """How many numbers each part of the model learns, without building it."""
        d, hidden, many = self.d_model, self.d_hidden, self.how_many()
        widening = (2 if self.gated else 1) * (d * hidden + hidden)
        vit = self.architecture == "vit"  # patches have a matrix and a bias, before them a token
        gates = GATES.get(self.architecture, 0)
        table = self.position == "learned" and self.attends
        return {
            "embedding": (self.d_patch + 2 if vit else self.vocab_size) * d,
            "positions": self.max_len * d if table else 0,
            "attention": many["attention"] * 4 * (d * d + d),
            "feed-forward": many["feed-forward"] * (widening + hidden * d + d),
            "recurrent": many["blocks"] * gates * 2 * (d * d + d),
            "norms": many["norms"] * (1 if self.norm_type == "rms" else 2) * d,
            "unembedding": 0 if self.tie_embeddings and not vit else self.vocab_size * d,
        }

    @property
    def n_parameters(self) -> int:
        """How many numbers the whole model learns."""
        return sum(self.parameters_by_part().values())
