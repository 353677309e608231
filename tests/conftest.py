"""What every test can count on: where it computes, what is checked, and that nothing stays.

Everything of the core that computes takes the `device` fixture, so a test runs once for each device
present. What tests of the app share is in `helpers.py`, and in `browser.py` for those in Chromium.
"""

import os
import sys
import tempfile
from pathlib import Path

# Never the run history of who runs the tests.
os.environ["PLAYGROUND_DATA"] = tempfile.mkdtemp(prefix="playground-tests-")
os.environ["PLAYGROUND_HISTORY"] = "single"
# Many small matrix products and several test runs at once: one thread each is fastest, and the
# last digits of a run depend on the number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jaxtyping
import pytest
import torch

import browser

torch.set_num_threads(1)

DEVICES = [
    "cpu",
    *(["cuda"] if torch.cuda.is_available() else []),
    *(["mps"] if torch.backends.mps.is_available() else []),
]

CORE = Path(__file__).parent / "core"


@pytest.fixture(scope="module", autouse=True)
def shapes_are_checked_where_they_are_said(request) -> None:
    """Every tensor's shape in the tests of the core; elsewhere it would be the same, and slower."""
    jaxtyping.config.update("jaxtyping_disable", CORE not in request.path.parents)


@pytest.fixture(scope="module", autouse=True)
def no_run_goes_on():
    """The runs that a file of tests has started on the app's own workers end with it."""
    yield
    if pool := sys.modules.get("playground.runs.pool"):
        pool.RUNS.close()


@pytest.fixture(autouse=True)
def the_smallest_numbers_count() -> None:
    """A trainer's step counts them as zero in its thread from then on; hypothesis draws them."""
    torch.set_flush_denormal(False)


@pytest.fixture(params=DEVICES)
def device(request) -> str:
    """Each device of this machine in turn."""
    return request.param


@pytest.fixture(params=[name for name in DEVICES if name != "mps"])
def device64(request) -> str:
    """Each device that computes in float64 (Apple's GPU does not)."""
    return request.param


@pytest.fixture
def randomise():
    """Fill every parameter of a module with N(0, 0.3²): LayerNorm gains and biases too."""

    def fill(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in module.parameters():
                values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(0.3 * values)
        return module

    return fill


@pytest.fixture
def global_random_state_untouched():
    """Fails a test that moves the random state of the process."""
    torch.manual_seed(1234)
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before), "the global random state has moved"


# --- in a browser -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    """One browser for the tests of a file; skipped where there is none, unless REQUIRE_BROWSER=1.

    Not longer: while it is there, nothing else in this process can run an event loop.
    """
    if missing := browser.missing():
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        driven = playwright.chromium.launch(executable_path=browser.CHROMIUM, args=browser.FLAGS)
        yield driven
        driven.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server for all tests that need no special one."""
    with browser.serving(tmp_path_factory.mktemp("server") / "log") as address:
        yield address


@pytest.fixture
def visit(chromium, server):
    """Come as a new visitor: `visit(knob=value, …)` gives a tab, judged when the test ends."""
    tabs: list[browser.Tab] = []

    def come(address: str = server, context: dict | None = None, **knobs) -> browser.Tab:
        tabs.append(browser.Tab(chromium, address, **(context or {})))
        return tabs[-1].open(**knobs)

    yield come
    for tab in tabs:
        tab.close()
    for tab in tabs:
        tab.check()
