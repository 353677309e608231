"""The source of what runs, read by one thread at a time.

Python 3.11's parser fails now and then with a `SystemError` while another thread parses as well.
Whoever parses holds `PARSING`; Streamlit, which would parse each page, is told in its
configuration not to.
"""

import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

PARSING = Lock()
ROOT = Path(__file__).resolve().parents[2]


class Source(NamedTuple):
    """Where something is written, and how."""

    path: str  # from the root of the project
    line: int
    text: str


@cache
def source_of(item: Callable[..., Any]) -> Source:
    """The source of a function or a class of the project, read once."""
    item = inspect.unwrap(item)
    with PARSING:
        path = Path(inspect.getsourcefile(item)).relative_to(ROOT)
        lines, line = inspect.getsourcelines(item)
    return Source(path.as_posix(), line, textwrap.dedent("".join(lines)))
