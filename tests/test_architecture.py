"""Rules of taste that nobody has to remember."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = sorted((ROOT / "core").rglob("*.py"))
FIGURES = sorted((ROOT / "playground" / "figures").rglob("*.py"))
FORBIDDEN = [
    *((path, {"streamlit", "plotly", "pandas", "numpy", "playground"}) for path in CORE),
    *((path, {"streamlit", "torch"}) for path in FIGURES),
]
LINES = 200  # of a core file: what is read in one go


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports(module: ast.AST) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def forwards(module: ast.AST) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]


def decisions(forward: ast.AST) -> list[str]:
    """What a forward must not hold: kind tests, string comparisons, reads of the config."""
    found = []
    for node in ast.walk(forward):
        if isinstance(node, ast.Name) and node.id in {"isinstance", "issubclass", "type", "config"}:
            found.append(node.id)
        if isinstance(node, ast.Attribute) and node.attr == "config":
            found.append("config")
        if isinstance(node, ast.Compare | ast.match_case):
            strings = [c for c in ast.walk(node) if isinstance(c, ast.Constant)]
            found += [repr(c.value) for c in strings if isinstance(c.value, str)]
    return found


@pytest.mark.parametrize(("path", "forbidden"), FORBIDDEN, ids=lambda x: getattr(x, "stem", ""))
def test_who_imports_whom(path, forbidden):
    """The core knows no page; a figure knows arrays only."""
    assert not imports(tree(path)) & forbidden


def test_importing_the_core_loads_no_page_library():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in CORE]
    names = ", ".join(name.removesuffix(".__init__") for name in modules)
    script = f"import sys, {names}; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not {"streamlit", "plotly", "pandas"} & set(found.stdout.split())


def test_no_forward_decides_anything():
    """Switches are decided while the model is built."""
    checked = [
        (named(path), forward.lineno, decisions(forward))
        for path in CORE
        for forward in forwards(tree(path))
    ]
    assert len(checked) >= 9
    assert [found for found in checked if found[2]] == []


@pytest.mark.parametrize(
    "body",
    [
        "return x if isinstance(self.norm, Identity) else y",
        "return x if self.mask == 'causal' else y",
        "return x if self.mask in ('causal', 'none') else y",
        "return x * self.config.scale",
        "return x * config.scale",
        "match self.mask:\n            case 'causal': return x",
        "f = lambda x: x if type(x) is Tensor else 0; return f(x)",
    ],
)
def test_the_rule_above_finds_what_it_forbids(body):
    (forward,) = forwards(ast.parse(f"class M:\n    def forward(self, x):\n        {body}\n"))
    assert decisions(forward)


@pytest.mark.parametrize("path", CORE, ids=named)
def test_core_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= LINES


@pytest.mark.parametrize("path", CORE, ids=named)
def test_every_public_name_of_the_core_is_documented(path):
    module = tree(path)
    assert ast.get_docstring(module), "the module says what it is"
    definitions = (ast.FunctionDef, ast.ClassDef)
    missing = [
        node.name
        for node in module.body
        if isinstance(node, definitions)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert missing == []


@pytest.mark.parametrize("path", CORE, ids=named)
def test_core_modules_have_a_test_file(path):
    parts = path.relative_to(ROOT / "core").with_suffix("").parts
    tested_by = {
        "__main__": "command_line",
        "knobs": "config",
        "tokens": "tasks",
        "report": "train",
    }
    name = tested_by.get(parts[0], parts[0])
    if name != "__init__":
        assert (ROOT / "tests" / "core" / f"test_{name}.py").exists()


def test_nothing_is_ever_unpickled():
    """CKP-03"""
    calls = {
        node.attr
        for path in CORE
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
    }
    assert not {"load", "save"} & calls
    assert not any({"pickle", "dill", "shelve"} & imports(tree(path)) for path in CORE)


def test_no_process_wide_random_state_in_the_core():
    """CON-04: every draw of the core takes a generator."""
    global_draws = {"manual_seed", "seed", "set_rng_state"}
    for path in CORE:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and node.attr in global_draws:
                owner = node.value
                assert not (isinstance(owner, ast.Name) and owner.id == "torch"), named(path)
        assert "random" not in imports(tree(path)), named(path)


def test_no_test_file_leans_on_another():
    """What several tests need is in `helpers.py` and `browser.py`."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        assert not {name for name in imports(tree(path)) if name.startswith("test_")}, path.name
