"""The ideas behind a transformer, one page each, in the order in which to meet them.

Each has three files of the same name: what it measures (`ideas/`, torch in and numbers out), what
it draws (`figures/`), and the page itself (`app_pages/`).
"""

from typing import NamedTuple


class Idea(NamedTuple):
    """One page: what it is called, what it says in a sentence, and its sign."""

    title: str
    says: str
    icon: str


IDEAS: dict[str, Idea] = {
    "lookup": Idea(
        "Attention, step by step",
        "A lookup whose keys, queries and values are learnt: follow one query through it.",
        "search",
    ),
    "scaling": Idea(
        "√d_k", "Why the scores are divided, when it decides everything, and when it does not.", "straighten"
    ),
    "heads": Idea("Heads", "Several small lookups instead of one large one: what each looks at.", "grid_view"),
    "order": Idea("Positions", "Attention sees a set; five ways to tell it the order.", "format_list_numbered"),
    "masks": Idea("Masks", "Who may look at whom, and what leaks when nobody says so.", "visibility_off"),
    "depth": Idea(
        "Residuals and norms", "A way around each layer, so that deep models learn at all.", "layers"
    ),
    "block": Idea(
        "Feed-forward and the block", "The other half of a block, and where the parameters are.", "view_agenda"
    ),
    "tricks": Idea(
        "What matters when training", "Warmup, clipping, tying, precision: each with its measured effect.", "tune"
    ),
}  # fmt: skip
