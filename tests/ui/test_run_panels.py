"""What the panels of a run make of what was turned on the way."""

from dataclasses import replace

import pytest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Change
from playground.runs.snapshot import Frame
from playground.runs.spec import Spec
from playground.runs.view import Record, Status
from playground.ui.run_panels import earlier_floors, numbers


def view_of(*changes):
    task = TASKS["recall"]()
    spec = Spec(ModelConfig.for_task(task), task, TrainConfig())
    record = Record()
    record.changes = changes
    return record.view(status=Status.RUNNING, spec=spec.replayed(changes), began=spec)


def test_only_a_change_that_moves_the_floor_ends_it():
    narrow = (Change(40, "mask", "window"), Change(40, "window", 1))
    view = view_of(Change(20, "lr", 0.01), *narrow, Change(70, "mask", "auto"))
    seen = view.began.turned({"mask": "window", "window": 1}).floor
    assert seen > view.began.floor
    assert earlier_floors(view) == [(0, 40, view.began.floor), (40, 70, seen)]
    assert earlier_floors(view_of(Change(20, "lr", 0.01))) == []


def test_a_curve_without_its_run_has_none():
    assert earlier_floors(None) == []
    assert earlier_floors(replace(view_of(), began=None)) == []


@pytest.mark.parametrize(
    ("earlier", "measured_at", "said"), [(True, 30, ", step 30"), (True, 40, ""), (False, 30, "")]
)
def test_who_has_gone_back_is_told_of_which_step_an_older_loss_is(earlier, measured_at, said):
    view = view_of()
    frame = Frame(40, {}, [], measured_at, loss=1.5, accuracy=0.5)
    cells = numbers(view.spec, view, frame, 1.0, earlier).html
    assert f'data-number="Val. loss{said}"' in cells
    assert f'data-number="Accuracy{said}"' in cells
