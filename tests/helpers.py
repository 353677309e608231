"""What several tests share: a page without a browser, a small run, and waiting."""

import html
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import playground
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS, Task
from playground.runs.spec import Spec

MAIN = Path(playground.__file__).with_name("main.py")
SMALL = {"d_model": "16", "n_layers": "1", "batch_size": "4", "steps": "50"}  # in a link
DEADLINE = 120.0  # seconds: generous, for busy machines

Found = TypeVar("Found")


# --- runs -------------------------------------------------------------------------------------


def spec_for(
    task: str | Task = "copy", *, length: int = 3, probe: str | None = None, **knobs: Any
) -> Spec:
    """A run whose steps take about a millisecond; `knobs` are those of model and training."""
    task = TASKS[task](length=length) if isinstance(task, str) else task
    training = {name: knobs.pop(name) for name in TrainConfig().to_dict() if name in knobs}
    model = ModelConfig.for_task(task, **{"d_model": 8, "n_heads": 1, "n_layers": 1} | knobs)
    return Spec(model, task, TrainConfig(**{"batch_size": 4, "steps": 30} | training), probe)


def wait(condition: Callable[[], Found]) -> Found:
    """Poll until something is true; what it was."""
    end = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.002)
    return found


# --- pages ------------------------------------------------------------------------------------


def opened(
    page: str = "playground", state: dict[str, Any] | None = None, /, **query: str | list[str]
) -> AppTest:
    """A page of the app, opened with a link that says this, in a session that holds `state`."""
    test = AppTest.from_file(MAIN, default_timeout=DEADLINE)
    for key, value in (state or {}).items():
        test.session_state[key] = value
    for key, value in query.items():
        test.query_params[key] = value
    # Before the first run `switch_page` would take the name of the script for the address.
    test._page_hash = calc_hash(page)
    return fine(test.run())


def fine(test: AppTest) -> AppTest:
    """The page as it is, which must not have failed."""
    assert not test.exception, [element.message for element in test.exception]
    return test


def until(test: AppTest, true: Callable[[AppTest], bool]) -> AppTest:
    """Run the page again and again, as the stream asks for it in a browser."""
    end = time.monotonic() + DEADLINE
    while not true(test):
        assert time.monotonic() < end, [element.value for element in test.html]
        time.sleep(0.02)
        fine(test.run())
    return test


def widgets(test: AppTest) -> dict[str, Any]:
    """Key -> widget, of all that can be set."""
    kinds = ("toggle", "selectbox", "select_slider", "button_group", "number_input", "text_input")
    return {w.key: w for kind in kinds for w in test.get(kind) if w.key}


def find(test: AppTest, kind: str, key: str) -> Any:
    """The widget of this kind and key; None if it is not on the page."""
    return next((element for element in test.get(kind) if element.key == key), None)


def numbers(test: AppTest) -> dict[str, str]:
    """The numbers that stand side by side on the page: title -> what is below it."""
    found = re.findall(r'data-number="(.*?)">(.*?)<', texts(test.html))
    return {html.unescape(title): html.unescape(value) for title, value in found}


def texts(elements: Any) -> str:
    """All that these elements say."""
    return " ".join(element.value for element in elements)


def as_seen(markdown: str) -> str:
    """What a browser shows of a text that `literal` has written."""
    return re.sub(r"\\([\\`*\[<~$_&])", r"\1", markdown.replace("\u2060", ""))


def plain(trace: dict[str, Any]) -> list[list[str]]:
    """What is printed in the cells of a map, without the tags that colour it."""
    return [[re.sub("<[^>]*>", "", text) for text in row] for row in trace["text"]]
