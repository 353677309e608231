"""What follows from an architecture: in which form it reads a task, and who may see whom."""

# What mask="auto" is: who writes the next token must not see it, who labels what is there may.
USUAL_MASK = {
    "decoder": "causal",
    "encoder": "none",
    "encoder-decoder": "causal",
    "vit": "none",
    "gru": "causal",
    "lstm": "causal",
}

# Whose form it is, where an architecture has none of its own: a recurrent net reads from left to
# right and predicts the next token, as a decoder does.
READS_AS = {"gru": "decoder", "lstm": "decoder"}
RECURRENT = tuple(READS_AS)  # no attention, and so no heads, mask, scale or positions


class Form:
    """What a `ModelConfig` knows about its architecture: a base of it, which reads its fields."""

    @property
    def form(self) -> str:
        """The form of a task that it reads."""
        return form_of(self.architecture)

    @property
    def attends(self) -> bool:
        """Whether there is attention, and with it heads, a scale, a mask and positions."""
        return self.architecture not in RECURRENT

    @property
    def mask_rule(self) -> str:
        """The mask in force: `mask`, or the usual one of the architecture."""
        usual = USUAL_MASK[self.architecture]
        return self.mask if self.attends and self.mask != "auto" else usual


def form_of(architecture: str) -> str:
    """The form of a task that an architecture reads."""
    return READS_AS.get(architecture, architecture)
