"""What follows from an architecture: in which form it reads a task, and who may see whom."""

# What mask="auto" is: who writes the next token must not see it, who labels what is there may.
USUAL_MASK = {"decoder": "causal", "encoder": "none", "encoder-decoder": "causal", "vit": "none"}

# Whose form it is, where an architecture has none of its own: a recurrent net reads from left to
# right and predicts the next token, as a decoder does.
READS_AS = {"gru": "decoder", "lstm": "decoder"}
RECURRENT = tuple(READS_AS)  # no attention, and so no heads, mask, scale or positions


def form_of(architecture: str) -> str:
    """The form of a task that an architecture reads."""
    return READS_AS.get(architecture, architecture)
