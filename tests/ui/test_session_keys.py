"""Every key of the session state has one owner: the file that draws its widget, or remembers it.

Two owners of one key write over each other: a container under the key of a select box became that
box's value, and its text part of the link.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import playground
from playground.ui.link import EVERY

ROOT = Path(playground.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Calls that hand their `key` on to a widget, or to a container that is none.
NO_WIDGETS = {"container", "live_plot", "_component", "copy_link", "picture"}


def text_of(node: ast.AST, names: dict[str, str]) -> str | None:
    """A key as it is written; what is filled in becomes `{}`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def is_state(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "session_state"


def remembered(node: ast.AST, names: dict[str, str]) -> str | None:
    """The key with which a node reads or writes the session state."""
    if isinstance(node, ast.Attribute) and is_state(node.value):
        return None if node.attr in ("get", "pop", "setdefault", "keys") else node.attr
    if isinstance(node, ast.Subscript) and is_state(node.value):
        return text_of(node.slice, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return text_of(node.args[0], names) if is_state(node.func.value) else None
    if isinstance(node, ast.Compare) and is_state(node.comparators[0]):
        return text_of(node.left, names)
    return None


def drawn(node: ast.AST, names: dict[str, str]) -> str | None:
    """The key of the widget that a call draws."""
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "Knob" and node.args:
        return text_of(node.args[0], names)
    keys = [word.value for word in node.keywords if word.arg == "key"]
    return text_of(keys[0], names) if keys and name not in NO_WIDGETS else None


def uses(source: str) -> Iterator[tuple[str, bool]]:
    """(key, whether a widget has it) of each use in a file."""
    tree = ast.parse(source)
    names = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        for key, widget in ((drawn(node, names), True), (remembered(node, names), False)):
            if key is not None:
                yield key, widget


def owners(sources: dict[str, str]) -> dict[str, set[str]]:
    """Key -> the files that use it; the knobs of a run belong to `controls`."""
    found: dict[str, set[str]] = defaultdict(set, {key: {"ui/controls.py"} for key in EVERY})
    for file, source in sources.items():
        for key, _ in uses(source):
            found[key].add(file)
    return found


def several(sources: dict[str, str]) -> dict[str, set[str]]:
    return {key: files for key, files in owners(sources).items() if len(files) > 1}


def test_every_key_of_the_session_state_has_one_owner():
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}
    assert not several(sources)


@pytest.mark.parametrize(
    "second",
    [
        "st.session_state.head, right = st.columns(2)",
        'st.session_state["head"] = 1',
        'st.session_state.get("head")',
        'st.session_state.pop("head", None)',
        '"head" in st.session_state',
        'st.toggle("Head", key="head")',
        'HEAD = "head"\nst.session_state[HEAD] = 1',
        'Knob("head", "Head", (1, 2), 1, "Which.")',
    ],
)
def test_a_second_owner_is_found(second):
    first = 'st.selectbox("Head", heads, key="head", bind="query-params")'
    assert several({"panels.py": first, "main.py": second}) == {"head": {"panels.py", "main.py"}}
    assert not several({"panels.py": f"{first}\n{second}"})


def test_knobs_of_a_run_belong_to_the_controls():
    assert several({"app_pages/train.py": "st.session_state.seed = 1"}) == {
        "seed": {"ui/controls.py", "app_pages/train.py"}
    }
