"""The command that starts the app from wherever it is installed."""

import tomllib
from pathlib import Path

from playground.command import APP, streamlit_arguments

ROOT = Path(__file__).parent.parent


def test_it_listens_on_this_machine_alone_unless_it_is_for_a_class():
    assert streamlit_arguments([])[1:3] == [str(APP), "--server.address=localhost"]
    assert streamlit_arguments(["--class"])[2] == "--server.address=0.0.0.0"
    assert streamlit_arguments(["--port", "9000"])[3] == "--server.port=9000"


def test_the_settings_of_the_app_lie_beside_its_script_too():
    """There Streamlit finds them from whatever folder it is started."""
    beside = APP.parent / ".streamlit" / "config.toml"
    assert beside.samefile(ROOT / ".streamlit" / "config.toml")


def test_a_wheel_asks_for_what_the_requirements_ask_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert project["dependencies"] == [line for line in lines if line[:1] not in "#-"]


def test_every_file_that_is_no_code_is_in_the_package():
    """What a wheel leaves out is missed only by who installs it."""
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = {
        path.resolve()
        for package, patterns in package_data["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    for top in ("core", "playground"):
        for path in (ROOT / top).rglob("*"):
            ours = path.is_file() and path.suffix not in (".py", ".pyc")
            assert not ours or path.resolve() in packed or path.name == "screenshot.png", path
