"""The documents name what is there: every file of the project, and no other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = [
    path.relative_to(ROOT)
    for room in ("core", "playground")
    for path in sorted((ROOT / room).rglob("*.*"))
    if path.suffix in {".py", ".toml", ".js"} and path.name != "__init__.py"
]
# Folders whose files are named without their path, or are alike.
TOGETHER = {"core/tasks", "playground/ui/components"}


def quoted(text: str) -> set[str]:
    """All that stands between backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_the_readme_has_a_line_for_every_file(path):
    folder, inside = path.parent.as_posix(), path.relative_to(path.parts[0]).as_posix()
    if folder in TOGETHER:
        assert path.stem in quoted(README)
    elif path.parts[1] == "ideas" and len(path.parts) > 3:
        assert f"{path.parts[1]}/{path.parts[2]}/" in quoted(README) and path.name in quoted(README)
    else:
        assert {inside, path.as_posix()} & quoted(README)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_file_that_a_document_names_is_there(name):
    named = {
        word
        for word in quoted((ROOT / name).read_text(encoding="utf-8"))
        if re.fullmatch(r"[\w./]+(/|\.(py|toml|js|md|txt))", word)
    }
    places = (ROOT, ROOT / "playground")
    assert named
    missing = [
        word
        for word in named
        if not any((place / word).exists() for place in places)
        and word not in {"page.py", "measure.py", "figures.py"}
    ]
    assert missing == []
