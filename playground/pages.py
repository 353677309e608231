"""Every page: its name is that of its file and its address."""

from typing import NamedTuple


class About(NamedTuple):
    """What a page is called, what it says in a sentence, and its sign."""

    title: str
    says: str
    icon: str


INSTRUMENTS: dict[str, About] = {
    "playground": About(
        "Playground", "Turn a knob, press Play, watch attention and loss.", "play_circle"
    ),
    "scenarios": About("Scenarios", "Prepared questions: predict first, then run.", "science"),
    "compare": About(
        "Compare", "Change one thing, the same seeds, side by side.", "compare_arrows"
    ),
    "history": About("History", "Your earlier runs, laid over each other.", "history"),
    "code": About("The code", "The very files that run, in the order to read them.", "code"),
}

# In the order in which to meet them; each has a file of this name in `ideas/` and in `figures/`.
IDEAS: dict[str, About] = {
    "lookup": About(
        "Attention, step by step",
        "A lookup whose keys, queries and values are learnt: follow one query through it.",
        "search",
    ),
    "scaling": About(
        "√d_k",
        "Why the scores are divided, when it decides everything, and when it does not.",
        "straighten",
    ),
    "heads": About(
        "Heads", "Several small lookups instead of one large one: what each looks at.", "grid_view"
    ),
    "order": About(
        "Positions", "Attention sees a set; five ways to tell it the order.", "format_list_numbered"
    ),
    "masks": About(
        "Masks", "Who may look at whom, and what leaks when nobody says so.", "visibility_off"
    ),
    "depth": About(
        "Residuals and norms",
        "A way around each layer, so that deep models learn at all.",
        "layers",
    ),
    "block": About(
        "Feed-forward and the block",
        "The other half of a block, and where the parameters are.",
        "view_agenda",
    ),
    "tricks": About(
        "What matters when training",
        "Warmup, clipping, tying, precision: each with its measured effect.",
        "tune",
    ),
}
