"""What is learnt. A page's select box is `list(TASKS)`; a new task is one class and one line.

In the order to read: vocabulary, base, question, sequences. The other tasks when you need them;
grammar and held_out are not needed to understand the model.
"""

from typing import Any

from core.knobs import quoted
from core.tasks.add import Add
from core.tasks.base import VALIDATION_SIZE, Batch, Chance, Prompt, Task
from core.tasks.dates import Dates
from core.tasks.distance import Distance
from core.tasks.gaps import Gaps
from core.tasks.images import Images
from core.tasks.number_words import Numbers
from core.tasks.recall import Recall
from core.tasks.sequences import Copy, Reverse, Sort
from core.tasks.text import Text
from core.tokens import IGNORED, PAD

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (Reverse, Copy, Sort, Recall, Distance, Add, Dates, Numbers, Gaps, Text, Images)
}


def task_from_dict(values: dict[str, Any], text: str | None = None) -> Task:
    """Build the task that `Task.to_dict` described, whichever it is.

    Raises:
        ValueError: an unknown task (the legal ones are listed), knob or value.
    """
    name = values.get("task")
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"task={quoted(name)}: choose one of {', '.join(TASKS)}")
    return TASKS[name].from_dict(values, text)


__all__ = [
    "IGNORED",
    "PAD",
    "TASKS",
    "VALIDATION_SIZE",
    "Batch",
    "Chance",
    "Prompt",
    "Task",
    "task_from_dict",
]
