"""Rules of taste that nobody has to remember."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = sorted((ROOT / "core").rglob("*.py"))
LINES = 200  # of a core file: what is read in one go

# Room -> the rooms that its files may import besides their own. An idea's measurements, figures
# and page lie in one folder, and each knows as much as a room on its floor.
BELOW_UI = {"core", "figures", "runs", "experiments", "history", "export", "live", "classroom"}
MAY_IMPORT = {
    "core": set(),
    "figures": set(),
    "runs": {"core"},
    "experiments": {"core", "runs"},
    "history": {"core", "runs"},
    "classroom": {"core", "runs", "experiments", "history"},
    "export": {"core", "runs"},
    "live": {"core", "figures", "runs", "experiments"},
    "ui": BELOW_UI,
    "ideas.measure": {"core", "runs"},
    "ideas.figures": {"figures"},
    "ideas": BELOW_UI | {"ui", "ideas.measure", "ideas.figures"},
    "app_pages": BELOW_UI | {"ui"},
    "app": BELOW_UI | {"ui", "ideas", "app_pages"},
}
DRAWS_PAGES = {"ui", "ideas", "app_pages", "app"}  # the rooms that know Streamlit
FROM_OUTSIDE = {  # all that some rooms take from other libraries
    "core": {"jaxtyping", "safetensors", "torch"},
    "figures": {"numpy", "plotly"},
    "live": {"anyio", "orjson", "starlette"},
    "ideas.figures": {"numpy", "plotly"},
}
SHARED_BY_IDEAS = {"common", "shared_measures", "shipped"}  # beside the folders, one for each idea
WITHOUT_A_ROOM = {"in_browser", "data"}  # folders of tests: all of the app at once, and files


# --- who imports whom -------------------------------------------------------------------------


def module_of(path: Path, root: Path = ROOT) -> str:
    """`playground/runs/run.py` -> `playground.runs.run`; a package has the name of its folder."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def files(root: Path = ROOT) -> dict[str, Path]:
    """Module -> its file, of all that is ours."""
    paths = [
        path for room in ("core", "playground") for path in sorted((root / room).rglob("*.py"))
    ]
    return {module_of(path, root): path for path in paths}


def room_of(module: str) -> str:
    """`playground.runs.run` -> `runs`; `playground.ideas.masks.measure` -> `ideas.measure`."""
    top, *rest = module.split(".")
    if top == "core":
        return "core"
    if not rest or rest[0] not in MAY_IMPORT:
        return "app"
    room, *rest = rest
    kind = {"measure": ".measure", "figures": ".figures", "shared_measures": ".measure"}
    return room + kind.get(rest[-1], "") if room == "ideas" and rest else room


def idea_of(module: str) -> str | None:
    """The idea that a module is part of, if it is part of one."""
    parts = module.split(".")[1:]
    return parts[1] if parts[:1] == ["ideas"] and len(parts) > 2 else None


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports(module: ast.AST, package: str = "", ours: Mapping[str, Path] | None = None) -> set[str]:
    """The modules that a module imports, anywhere in it.

    Args:
        package: that the module lies in, from which relative imports count.
        ours: `from package import name` is an import of the module `name`, if that is one of these.
    """
    names = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package or None)
            inner = {f"{source}.{alias.name}" for alias in node.names}
            found = inner & set(ours or ())
            names |= found | ({source} if found != inner else set())
    return names


def packages(module: ast.AST) -> set[str]:
    """The top-level packages that a module imports."""
    return {name.partition(".")[0] for name in imports(module)}


def imports_of(ours: Mapping[str, Path]) -> dict[str, set[str]]:
    """Module -> the modules that it imports."""
    found = {}
    for module, path in ours.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found[module] = imports(tree(path), package, ours)
    return found


def misplaced(ours: Mapping[str, Path]) -> Iterator[str]:
    """What a module imports against the rule of the rooms."""
    for module, imported in imports_of(ours).items():
        room = room_of(module)
        for name in sorted(imported):
            package = name.partition(".")[0]
            if package in {"core", "playground"}:
                idea = idea_of(name)
                if room_of(name) not in {room} | MAY_IMPORT[room]:
                    yield f"{module} ({room}) imports {name} ({room_of(name)})"
                elif room != "app" and idea and idea != idea_of(module):
                    yield f"{module} imports {name}, of another idea"
            elif package == "streamlit" and room not in DRAWS_PAGES:
                yield f"{module} ({room}) imports streamlit"
            elif package not in FROM_OUTSIDE.get(room, {package}) | sys.stdlib_module_names:
                yield f"{module} ({room}) imports {package}"


def circle(ours: Mapping[str, Path]) -> list[str]:
    """Modules that import each other in a circle; none if there is none."""
    try:
        TopologicalSorter(imports_of(ours)).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture
def house(tmp_path):
    """Files of these contents, instead of ours: `house({"core/a.py": "import core.b"})`."""

    def build(contents: Mapping[str, str]) -> dict[str, Path]:
        for name, source in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        return files(tmp_path)

    return build


def test_every_room_imports_only_what_lies_below_it():
    assert list(misplaced(files())) == []


@pytest.mark.parametrize(
    "name, source",
    [
        ("core/train.py", "from playground.runs import pool"),
        ("core/train.py", "import numpy as np"),
        ("core/train.py", "def f():\n    import streamlit"),
        ("playground/figures/loss.py", "from playground.runs.view import View"),
        ("playground/figures/loss.py", "from torch import Tensor"),
        ("playground/figures/loss.py", "from ..runs import view"),
        ("playground/runs/run.py", "import playground.history.database"),
        ("playground/runs/run.py", "from streamlit import session_state"),
        ("playground/runs/run.py", "from playground import history"),
        ("playground/history/database.py", "from playground.experiments import series"),
        ("playground/history/file.py", "from playground.classroom import database"),
        ("playground/classroom/database.py", "import streamlit as st"),
        ("playground/classroom/database.py", "from playground.figures import style"),
        ("playground/export/files.py", "from playground import figures"),
        ("playground/live/channel.py", "import streamlit as st"),
        ("playground/live/channel.py", "from playground.history import database"),
        ("playground/live/channel.py", "from playground.ui import knob"),
        ("playground/runs/run.py", "from playground.live import channel"),
        ("playground/ui/knob.py", "from playground.ideas import common"),
        ("playground/ui/knob.py", "from playground.app_pages import train"),
        ("playground/ideas/masks/measure.py", "from playground.figures import style"),
        ("playground/ideas/masks/measure.py", "import streamlit as st"),
        ("playground/ideas/masks/figures.py", "from playground.ideas.masks import measure"),
        ("playground/ideas/masks/figures.py", "from core.masks import MASKS"),
        ("playground/ideas/masks/page.py", "from playground.ideas.heads.measure import share"),
        ("playground/ideas/common.py", "from playground.ideas.heads import measure"),
        ("playground/app_pages/train.py", "from playground.ideas import common"),
    ],
)
def test_the_rule_of_the_rooms_finds_what_it_forbids(name, source, house):
    rooms = [
        "runs",
        "history",
        "classroom",
        "experiments",
        "figures",
        "live",
        "ui",
        "ideas",
        "app_pages",
    ]
    others = [f"playground/{room}/__init__.py" for room in rooms] + [
        "playground/runs/view.py",
        "playground/experiments/series.py",
        "playground/figures/style.py",
        "playground/live/channel.py",
        "playground/ideas/common.py",
        "playground/ideas/heads/measure.py",
        "playground/ideas/masks/measure.py",
        "playground/app_pages/train.py",
    ]
    assert len(list(misplaced(house(dict.fromkeys(others, "") | {name: source})))) == 1


def test_no_module_imports_one_that_imports_it():
    assert circle(files()) == []


@pytest.mark.parametrize(
    "contents",
    [
        {"core/a.py": "from core import b", "core/b.py": "from core import a"},
        {"core/a.py": "import core.b", "core/b.py": "def late():\n    import core.a"},
        {"core/__init__.py": "from .a import run", "core/a.py": "from core import name"},
    ],
)
def test_the_rule_above_finds_a_circle(contents, house):
    assert circle(house(contents))


# --- where things lie -------------------------------------------------------------------------


def test_no_file_is_named_like_a_package_or_a_standard_module():
    """A folder of ours may come first where Python looks for modules: `playground/` does.

    `core.trace` alone may: `trace` is the word for it wherever transformers are taken apart, and
    no command puts the folder `core/` there.
    """
    taken = sys.stdlib_module_names | {"core", "playground", "tests", "pages"}
    taken |= {"torch", "numpy", "pandas", "plotly", "streamlit", "safetensors"}
    ours = {module.rpartition(".")[2]: module for module in files() if "." in module}
    assert [ours[name] for name in sorted(taken & set(ours))] == ["core.trace"]


def test_every_folder_of_the_playground_is_a_room():
    """A new one says in `MAY_IMPORT` what it may know."""
    folders = {path.parent.name for path in (ROOT / "playground").glob("*/__init__.py")}
    assert folders | {"core", "app"} == {room for room in MAY_IMPORT if "." not in room}
    beside = {path.stem for path in (ROOT / "playground" / "ideas").glob("*.py")}
    assert beside - {"__init__"} == SHARED_BY_IDEAS


def test_the_folders_of_tests_are_the_rooms():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*") if path.is_file()}
    rooms = {room for room in MAY_IMPORT if "." not in room} - {"app"}
    assert folders - WITHOUT_A_ROOM == rooms


# --- the core ---------------------------------------------------------------------------------


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


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


def test_importing_the_core_loads_no_page_library():
    names = ", ".join(map(module_of, CORE))
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
        "checkpoint_file": "checkpoint",
        "knobs": "config",
        "tokens": "tasks",
        "report": "train",
        "size": "model",
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
    assert not any({"pickle", "dill", "shelve"} & packages(tree(path)) for path in CORE)


def test_no_process_wide_random_state_in_the_core():
    """CON-04: every draw of the core takes a generator."""
    global_draws = {"manual_seed", "seed", "set_rng_state"}
    for path in CORE:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and node.attr in global_draws:
                owner = node.value
                assert not (isinstance(owner, ast.Name) and owner.id == "torch"), named(path)
        assert "random" not in packages(tree(path)), named(path)


# --- the tests --------------------------------------------------------------------------------


def test_no_test_file_leans_on_another():
    """What several tests need is in `helpers.py` and `browser.py`."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        assert not {name for name in packages(tree(path)) if name.startswith("test_")}, path.name
