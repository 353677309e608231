"""What a visitor gave, shown as it is: a value of a link, the name of a file, a message about them.

Streamlit reads nearly all texts as Markdown: an image in a name would be fetched from wherever it
says, a dollar sign begins a formula. `literal` is for every text that holds words which are not
ours. Figures have `figures.style.escape`, and HTML has `html.escape`.
"""

import re

# What Markdown reads, unless a backslash stands before it.
_MARKS = re.compile(r"[\\`*\[<~$]|_(?![A-Za-z0-9])|(?<![A-Za-z0-9])_|&(?=#?\w+;)")
# Where Streamlit makes a link, an icon, a colour, an arrow or a list of plain letters: only another
# character in between prevents it, and this one takes no room.
_SEAMS = re.compile(
    r"(?<=[:@])(?=\S)|(?i:(?<=www))(?=\.)|(?<=<)(?=[-=])|(?<=-)(?=[->])|(?<=[>~])(?==)"
    r"|^(?=[#+\-=>:]|\d+[.)]|[^\x00-\x7f])"
)
JOINER = "\u2060"


def literal(text: object) -> str:
    """Markdown that shows a text as it is, in one line.

    Line breaks, control characters and others that cannot be seen are written as Python does.
    """
    seen = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))
    return _MARKS.sub(r"\\\g<0>", _SEAMS.sub(JOINER, seen))
