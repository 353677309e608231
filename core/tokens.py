"""Two numbers that stand where a token could, and are none."""

PAD = 0  # id 0 of every vocabulary is padding: it fills up a row, is never scored, never generated
IGNORED = -100  # a target that is not scored (the value that PyTorch's cross-entropy skips)
