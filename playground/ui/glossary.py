"""Glossary: the paper's terms, one sentence each, shown on hover wherever they appear."""

import html
import re

GLOSSARY = {
    "attention": (
        "Each position asks a query, compares it with every key, and takes the mean of the "
        "values, weighted by how well the keys fit."
    ),
    "query": "What a position is looking for: its vector times W_q.",
    "key": "What a position offers to be found by: its vector times W_k.",
    "value": "What a position hands over when it is looked at: its vector times W_v.",
    "scores": "The products q·k, one for each query and key: how well they fit.",
    "scaled": "The scores times the scale; with 1/√d_k their spread does not grow with the width.",
    "masked": "The scaled scores with hidden keys pushed so low that they vanish in the softmax.",
    "weights": "The softmax of the masked scores: each row is positive and sums to 1.",
    "softmax": (
        "Turns a row of scores into positive weights that sum to 1; large gaps make it all or "
        "nothing."
    ),
    "saturated": (
        "The softmax gives nearly all weight to one key, so small changes of the scores change "
        "nothing and no gradient passes."
    ),
    "spread": (
        "The standard deviation of the scores. With unit-variance queries and keys it is √d_k "
        "before scaling."
    ),
    "entropy": (
        "How evenly a row of weights is spread: 1 is uniform attention over the visible keys, "
        "0 puts all weight on one."
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
        "Shifts and scales each token's vector to mean 0 and variance 1, then learns a gain and"
        " a shift."
    ),
    "mask": (
        "Which keys a query may see. Causal: itself and earlier positions. Padding: not the filler."
    ),
    "leaks": "Information about the answer reaches the position that has to predict it.",
    "teacher forcing": "While training, the model sees the right answer so far, not its own.",
    "free running": (
        "Without teacher forcing: the model continues from its own output, as it must in use."
    ),
    "nats": (
        "Unit of the loss: the natural logarithm of how many equally likely tokens the model "
        "hesitates between."
    ),
    "chance": (
        "What guessing costs: uniformly over the vocabulary, or as well as possible without "
        "reading the input."
    ),
    "floor": "The loss that no model can beat: the rest is random, or hidden by the mask.",
    "gradient norm": "The length of the gradient: how strongly the loss pulls at the weights.",
    "warmup": "Raising the learning rate over the first steps, while the gradients are still wild.",
    "clipping": "Shortening a gradient that is longer than a limit.",
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
