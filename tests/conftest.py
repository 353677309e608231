"""What the tests of the core share: the devices of this machine, and weights that are not special.

Everything that computes takes the `device` fixture, so a test runs once for each device present.
"""

import os
import tempfile

# Never the run history of who runs the tests.
os.environ["PLAYGROUND_DATA"] = tempfile.mkdtemp(prefix="playground-tests-")
os.environ["PLAYGROUND_HISTORY"] = "single"
# Many small matrix products and several test runs at once: one thread each is fastest, and the
# last digits of a run depend on the number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

torch.set_num_threads(1)

DEVICES = [
    "cpu",
    *(["cuda"] if torch.cuda.is_available() else []),
    *(["mps"] if torch.backends.mps.is_available() else []),
]


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
