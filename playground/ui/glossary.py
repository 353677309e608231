"""Glossary: the paper's terms, one sentence each, shown on hover wherever they appear."""

import html
import re

GLOSSARY = {
    "attention": (
        "Each position compares its query with every key that it may see, and takes the mean of "
        "their values, weighted by how well the keys fit."
    ),
    "query": "What a position is looking for: its vector times W_q.",
    "key": "What a position offers to be found by: its vector times W_k.",
    "value": "What a position hands over when it is looked at: its vector times W_v.",
    "scores": "The products q·k, one for each query and key: how well they fit.",
    "scaled": (
        "The scores times the scale; with 1/√d_k the spread that queries and keys of unit variance "
        "give them does not grow with the width."
    ),
    "masked": "The scaled scores with hidden keys pushed so low that they vanish in the softmax.",
    "weights": "The softmax of the masked scores: each row is positive and sums to 1.",
    "softmax": (
        "Turns a row of scores into positive weights that sum to 1; large gaps make it all or "
        "nothing."
    ),
    "saturated": (
        "The softmax gives nearly all weight to one key: small changes of the scores change almost "
        "nothing, so hardly any gradient passes back to that row's query and keys."
    ),
    "spread": (
        "The standard deviation of the scores. Before scaling, queries and keys of unit variance "
        "and no relation to each other give √d_k."
    ),
    "entropy": (
        "How evenly a row of weights is spread, as a share of the most there can be: 1 is uniform "
        "attention over the visible keys, 0 puts all weight on one."
    ),
    "head": (
        "One of several attentions side by side, each in its own d_k = d_model/n_heads columns."
    ),
    "d_k": "The width of one head: d_model divided by the number of heads.",
    "d_model": "The width of the residual stream: how many numbers represent one token.",
    "residual": (
        "Adding a sub-layer's output to its input, so that signals and gradients have a way "
        "around it."
    ),
    "LayerNorm": (
        "Shifts and scales each token's vector to mean 0 and variance 1, then multiplies by a "
        "learnt gain and adds a learnt shift."
    ),
    "RMSNorm": (
        "Divides each token's vector by the root of its mean square and multiplies by a learnt "
        "gain: LayerNorm without the shifts."
    ),
    "SwiGLU": (
        "A feed-forward with a gate: a second matrix and the activation silu decide how much of "
        "each hidden number passes."
    ),
    "mask": (
        "Which keys a query may see. A causal mask shows it its own position and those before; a "
        "padding mask hides the filler."
    ),
    "padding": (
        "Filler in the shorter rows of a batch, so that all are equally long. It is never scored."
    ),
    "leaks": "Information about the answer reaches the position that has to predict it.",
    "teacher forcing": "While training, the model sees the right answer so far, not its own.",
    "free running": (
        "Without teacher forcing: the model continues from its own output, as it must in use."
    ),
    "nats": (
        "The unit of the loss: the natural logarithm of 1/p, where p is the probability that the "
        "model gave the right token. A fair choice among ten tokens costs ln 10 = 2.303 nats."
    ),
    "chance": (
        "What guessing costs: uniformly over the vocabulary, or as well as possible without "
        "reading the input."
    ),
    "floor": "The loss that no model can beat: the rest is random, or hidden by the mask.",
    "gradient norm": "The length of the gradient: how strongly the loss pulls at the weights.",
    "warmup": "Raising the learning rate from near 0 to its peak over the first steps.",
    "clipping": "Shortening a gradient that is longer than a limit to that limit.",
    "label smoothing": (
        "Asking for a little less than certainty: a share of each target is spread over all tokens."
    ),
    "logits": "The model's output before the softmax: one number per token of the vocabulary.",
}

_TERMS = re.compile(
    r"\b(" + "|".join(re.escape(word) for word in sorted(GLOSSARY, key=len, reverse=True)) + r")\b"
)


def explain(text: str) -> str:
    """HTML of a plain text, in which each word of the glossary explains itself on hover."""
    seen: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        word = found[0]
        if word in seen:
            return word
        seen.add(word)
        return f'<abbr title="{html.escape(GLOSSARY[word])}">{word}</abbr>'

    return _TERMS.sub(mark, html.escape(text, quote=False))
