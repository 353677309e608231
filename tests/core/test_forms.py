"""Which form of a task an architecture reads."""

import pytest

from core.config import ARCHITECTURES, ModelConfig
from core.forms import RECURRENT
from core.tasks import TASKS


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_architecture_reads_a_form_that_tasks_have(architecture):
    """A recurrent net reads what a decoder reads, every other its own."""
    form = ModelConfig(architecture=architecture).form
    assert any(form in task.architectures for task in TASKS.values())
    assert form == ("decoder" if architecture in RECURRENT else architecture)
