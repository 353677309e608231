"""The app as a visitor meets it: a server of its own, and tabs of a real Chromium that drive it."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

ROOT = Path(__file__).parent.parent
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DEADLINE = 120.0  # seconds: generous, for busy machines
SMALL = {"d_model": 16, "n_layers": 1, "batch_size": 4}  # steps of about a millisecond

FOREVER = 50_000  # steps: more than any test waits for

Found = TypeVar("Found")


def missing() -> str | None:
    """Why no browser can be driven here; None if one can."""
    if CHROMIUM is None:
        return "there is no chromium on the path"
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    return None


@contextmanager
def serving(
    log: Path, *, started: Callable[[subprocess.Popen], None] = id, **environment: str
) -> Iterator[str]:
    """The README's command in a process of its own, on a free port; its address.

    Args:
        started: is told of the process, which a test may kill.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("streamlit")),
        "run",
        "playground/app.py",
        "--server.headless=true",
        f"--server.port={port}",
        "--server.address=localhost",
    ]
    with log.open("w") as out:
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=out,
            stderr=out,
            # Never the history of who runs the tests.
            env=os.environ | {"PLAYGROUND_DATA": str(log.parent / "data")} | environment,
        )
        started(server)
        try:
            base = environment.get("STREAMLIT_SERVER_BASE_URL_PATH", "")
            address = f"http://localhost:{port}/{base}".rstrip("/")
            _wait_until_healthy(address, server, log)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_until_healthy(address: str, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + DEADLINE
    while True:
        assert server.poll() is None, f"the server has ended:\n{log.read_text()[-3000:]}"
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        assert time.monotonic() < end, f"the server does not answer:\n{log.read_text()[-3000:]}"
        time.sleep(0.1)


class Tab:
    """One browser tab on the app, in a context of its own: a visitor.

    It remembers every error in the console and every request, for `check` to judge.
    """

    def __init__(self, browser: Any, address: str, **context: Any) -> None:
        self.address = address
        self.context = browser.new_context(viewport={"width": 1366, "height": 900}, **context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(DEADLINE * 1000)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.errors.append(f"page error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def check(self) -> None:
        """Nothing went wrong in the browser, and nothing was asked of another machine."""
        assert not self.errors
        own = urlsplit(self.address).netloc
        foreign = [
            url
            for url in self.requests
            if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).netloc != own
        ]
        assert not foreign

    def close(self) -> None:
        self.context.close()

    # --- looking ----------------------------------------------------------------------------

    def open(self, settle: bool = True, **knobs: Any) -> "Tab":
        """Open the page with these knobs in its link, and wait for its figures."""
        self.page.goto(f"{self.address}/?{urlencode(knobs, doseq=True)}")
        if settle:
            self.settle()
        return self

    def settle(self) -> None:
        """Wait until both main figures are drawn, the words have come, and the script rests."""
        for key in ("loss_chart", "attention"):
            drawn = self.key(key).locator(".live-plot[data-newplots]")
            self.until(drawn.is_visible, f"no {key}")
        self.page.locator("[data-verdict]").first.wait_for()  # a redrawn page has two for a moment
        self.rest()

    def rest(self) -> None:
        self.page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")

    def until(self, look: Callable[[], Found], why: str = "it never came true") -> Found:
        """Poll until `look` gives something true; what it gave."""
        end = time.monotonic() + DEADLINE
        while not (found := look()):
            assert time.monotonic() < end, f"{why}; the page says: {self.text()[:1500]}"
            self.page.wait_for_timeout(50)
        return found

    def see(self, *words: str) -> None:
        """Wait until the page says all of this."""
        self.until(lambda: all(word in self.text() for word in words), f"no {words} on the page")

    def text(self) -> str:
        return self.page.inner_text("[data-testid=stApp]")

    def key(self, key: str) -> Any:
        """The element that the app drew under this key."""
        return self.page.locator(f".st-key-{key}")

    def knob(self, key: str) -> str:
        """What a knob shows."""
        element = self.key(key)
        if (pressed := element.locator("[role=radio][aria-checked=true]")).count():
            return pressed.inner_text()
        field = element.locator("input").first
        return field.get_attribute("aria-valuetext") or field.input_value()

    def checked(self, key: str) -> bool:
        """Whether a toggle is on."""
        return self.key(key).locator("input").is_checked()

    def link(self) -> dict[str, str]:
        """The knobs in the address bar."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.page.url).query).items()}

    def steps(self) -> int:
        """Steps done, as the page says."""
        return int(self.page.inner_text("[data-number=Step]").split("/")[0])

    def plot(self, key: str, what: str) -> Any:
        """A JavaScript expression about a figure, in which `plot` is its element."""
        return self.page.evaluate(
            f"(() => {{ const plot = document.querySelector('.st-key-{key} .live-plot');"
            f" return {what} }})()"
        )

    def losses(self, name: str = "each step") -> list[float]:
        """The exact numbers of a line of the loss chart; empty while it is not there."""
        return self.plot("loss_chart", f"plot.data.find(t => t.name === {name!r})?.y ?? []")

    def curve(self) -> dict[int, float]:
        """Step -> loss; of a long run not every step is drawn."""
        line = "plot.data.find(t => t.name === 'each step')"
        return dict(zip(*self.plot("loss_chart", f"[{line}.x, {line}.y]"), strict=True))

    def maps(self) -> list[list[list[float]]]:
        """The numbers of the attention figure: [map][query][key]."""
        return self.plot("attention", "plot.data.filter(t => t.z).map(t => t.z)")

    def builds(self) -> list[tuple[int, int]]:
        """How often each figure was built, and how often changed."""
        return [
            tuple(pair)
            for pair in self.page.evaluate(
                "[...document.querySelectorAll('.live-plot')]"
                ".map(p => [+p.dataset.newplots, +p.dataset.updates])"
            )
        ]

    # --- doing ------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        self.key(key).get_by_role("button").first.click()

    def select(self, key: str, option: str) -> None:
        """Choose in a row of buttons, on a slider or in a list."""
        element = self.key(key)
        element.locator("[role=radio], input").first.wait_for()
        if (button := element.get_by_role("radio", name=option, exact=True)).count():
            button.click()
        elif (slider := element.locator("input[type=range]")).count():
            slider.press("Home")
            for _ in range(int(slider.get_attribute("max"))):
                if self.knob(key) == option:
                    break
                slider.press("ArrowRight")
            assert self.knob(key) == option
        else:
            element.locator("input").click()
            self.page.get_by_role("option", name=option, exact=True).click()

    def toggle(self, key: str) -> None:
        self.key(key).locator("label").first.click()

    def fill(self, key: str, text: str) -> None:
        field = self.key(key).locator("input, textarea").first
        field.fill(text)
        field.press("Enter")

    def save(self, key: str, form: str, to: Path) -> Path:
        """Save a figure as PNG, SVG or HTML; where it is then."""
        figure = self.key(key)
        figure.hover()
        with self.page.expect_download() as download:
            figure.locator(".save-plot summary").click()
            figure.get_by_role("button", name=form, exact=True).click()
        download.value.save_as(to)
        return to

    def unfold(self, key: str) -> None:
        """Open an expander."""
        self.key(key).locator("summary").click()


def play(tab: Tab, steps: int) -> None:
    """Press Play, and wait until so many steps are done."""
    tab.press("play")
    tab.until(lambda: tab.steps() >= steps, "the step counter does not get there")


def pause(tab: Tab) -> int:
    """Press Pause, and wait until Play is offered; the steps done."""
    tab.press("pause")
    tab.key("play").wait_for()
    tab.rest()
    return tab.steps()


def drawn(tab: Tab, steps: int) -> list[float]:
    """The losses, once as many are drawn."""
    return tab.until(lambda: (y := tab.losses())[steps - 1 :] and y)
