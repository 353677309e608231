"""Home: what this is, in a sentence, and where to begin."""
