"""What a visitor gave is shown as it is; that a browser agrees is tested in `in_browser`."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import playground
from helpers import as_seen
from playground.ui.literal import literal

ROOT = Path(playground.__file__).parent
SAYS = {"error", "warning", "info", "success", "toast", "caption", "markdown", "write"}


@given(st.text())
def test_what_is_seen_is_the_text_in_one_line(text):
    shown = literal(text)
    assert shown.isprintable() or "\u2060" in shown
    assert as_seen(shown) == "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@given(st.text("a!`[]()<>*_~$&;:@w./-=# ", max_size=12))
def test_no_mark_of_markdown_is_left_unescaped(text):
    shown = literal(text)
    bare = re.sub(r"\\[\\`*\[<~$_&]", "·", shown)
    assert not re.search(r"[`*\[<~$\\]|\w:\w|://|www\.|@\w|-->|<-|->", bare)


@pytest.mark.parametrize("text", ["n_heads=3 does not divide d_model=16: choose", "lr=-1", "a.txt"])
def test_a_plain_message_stays_as_it_is(text):
    assert literal(text) == text


def bare_messages(source: str) -> list[int]:
    """The lines where a page says a caught error as Markdown, without `literal`."""
    found = []
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for call in ast.walk(handler):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in SAYS:
                calls = [c for c in ast.walk(call) if isinstance(c, ast.Call) and c is not call]
                safe = [c for c in calls if getattr(c.func, "id", "") == "literal"]
                inside = {id(n) for c in safe for n in ast.walk(c)}
                names = [n for n in ast.walk(call) if isinstance(n, ast.Name)]
                if any(n.id == handler.name and id(n) not in inside for n in names):
                    found.append(call.lineno)
    return found


def test_no_page_says_an_error_as_markdown():
    """The message of an error may quote what a visitor gave."""
    for path in ROOT.rglob("*.py"):
        assert not bare_messages(path.read_text(encoding="utf-8")), path


def test_an_error_that_is_said_as_markdown_is_found():
    told = "try:\n    f()\nexcept ValueError as error:\n    st.error(f'no: {%s}')"
    assert bare_messages(told % "error") == bare_messages(told % "str(error)") == [4]
    assert bare_messages(told % "literal(error)") == []
