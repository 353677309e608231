"""Every page: its address, what it is called, and the file that draws it."""

from typing import NamedTuple


class About(NamedTuple):
    """What a page is called, what it says in a sentence, its icon, and its script."""

    title: str
    says: str
    icon: str
    file: str = ""  # beside the entry script


HOME = About("Home", "What this is, and where to begin.", "home", "app_pages/home.py")

# address -> page
INSTRUMENTS: dict[str, About] = {
    "playground": About(
        "Playground",
        "Turn a knob, press Play, watch attention and loss.",
        "play_circle",
        "app_pages/train.py",
    ),
    "scenarios": About(
        "Scenarios",
        "Prepared questions: predict first, then run.",
        "science",
        "app_pages/scenarios.py",
    ),
    "compare": About(
        "Compare",
        "Change one thing, the same seeds, side by side.",
        "compare_arrows",
        "app_pages/compare.py",
    ),
    "class": About(
        "Class",
        "Predict together, and see on one board what everybody tried.",
        "groups",
        "app_pages/class_room.py",
    ),
    "lessons": About(
        "Lessons",
        "A class, step by step: what to open, what to ask, and a work sheet.",
        "menu_book",
        "app_pages/lessons.py",
    ),
    "history": About(
        "History", "Your earlier runs, laid over each other.", "history", "app_pages/history.py"
    ),
    "code": About(
        "The code",
        "The files that actually run, in the order to read them.",
        "code",
        "app_pages/source_code.py",
    ),
}

# In the order in which to meet them.
IDEAS: dict[str, About] = {
    "lookup": About(
        "Attention, step by step",
        "A lookup whose keys, queries and values are learnt: follow one query through it.",
        "search",
        "ideas/attention/page.py",
    ),
    "scaling": About(
        "√d_k",
        "Why the scores are divided, when that is decisive, and when it is not.",
        "straighten",
        "ideas/scaling/page.py",
    ),
    "heads": About(
        "Heads",
        "Several small lookups instead of one large one: what each looks at.",
        "grid_view",
        "ideas/heads/page.py",
    ),
    "order": About(
        "Positions",
        "Attention sees a set; five ways to tell it the order.",
        "format_list_numbered",
        "ideas/positions/page.py",
    ),
    "masks": About(
        "Masks",
        "Which positions may look at which, and what leaks without a mask.",
        "visibility_off",
        "ideas/masks/page.py",
    ),
    "depth": About(
        "Residuals and norms",
        "A way around each sub-layer, so that deep models learn at all.",
        "layers",
        "ideas/residuals/page.py",
    ),
    "block": About(
        "Feed-forward and the block",
        "The other half of a block, and where the parameters are.",
        "view_agenda",
        "ideas/feed_forward/page.py",
    ),
    "tricks": About(
        "What matters when training",
        "Warmup, clipping, tying, precision: each with its measured effect.",
        "tune",
        "ideas/training_tricks/page.py",
    ),
    "translation": About(
        "Encoder and decoder",
        "Read a question once, write its answer token by token: where each one looks.",
        "translate",
        "ideas/translation/page.py",
    ),
    "writing": About(
        "Writing, token by token",
        "What each token is chosen from, and how the choice makes the text.",
        "edit_note",
        "ideas/writing/page.py",
    ),
    "bert": About(
        "BERT: fill the gap",
        "Hide characters of a sentence: what do those on both sides say of them?",
        "match_word",
        "ideas/gaps/page.py",
    ),
    "patches": About(
        "ViT: patches are tokens",
        "A picture cut into patches is a sequence: where a transformer looks in it.",
        "grid_on",
        "ideas/digits/page.py",
    ),
    "recurrent": About(
        "Against a recurrent net",
        "The same tasks for a GRU and an LSTM: who reaches further, who is faster, who learns it.",
        "compare",
        "ideas/recurrent/page.py",
    ),
}

PAGES = {"home": HOME} | INSTRUMENTS | IDEAS
