"""The record of a run: what is kept of it, and what a page reads."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Change, Step, Trainer
from playground.runs.snapshot import Frame, take_frame
from playground.runs.spec import Spec
from playground.runs.view import Album, Columns, Record, Status, View

TASK = TASKS["copy"](length=2)
MODEL = ModelConfig.for_task(TASK, d_model=16, n_heads=2, n_layers=1)
SPEC = Spec(MODEL, TASK, TrainConfig(batch_size=4, steps=10))
REST = {"status": Status.RUNNING, "spec": SPEC, "message": "", "queue_position": None}


@cache
def some_frame() -> Frame:
    trainer = Trainer(MODEL, TASK, SPEC.training)
    return take_frame(trainer, TASK.probe("decoder"))


def step(n: int) -> Step:
    return Step(n, 1 / n, 0.001, 2.0 * n, {"embed": 1.0 * n, "head": 2.0}, 20, 0.5)


def view_of(record: Record):
    return record.view(**REST, busy=False)


def curve(*loss: float, status=Status.DONE) -> View:
    numbers = np.array(loss, np.float32)
    return View(status=status, spec=SPEC, steps=np.arange(1, len(numbers) + 1), loss=numbers)


def test_the_loss_reached_is_the_mean_of_the_last_20():
    view = curve(*range(50))
    assert view.reached() == view.recent_loss() == np.mean(range(30, 50))
    assert view.reached(25) == view.recent_loss(25) == np.mean(range(5, 25))
    assert curve(0, 1, 2).reached() == 1
    assert math.isnan(curve().reached())


def test_no_mean_reaches_back_across_a_change():
    losses = [1.0] * 30 + [5.0] * 10 + [3.0] * 25
    turned = Change(30, "scale", "none"), Change(30, "lr", 0.1), Change(40, "residual", False)
    view = replace(curve(*losses), changes=turned)
    assert view.marks == (30, 40)
    for step in range(1, 66):
        begin = max((mark for mark in (0, 30, 40) if mark < step), default=0)
        expected = losses[max(begin, step - 20) : step]
        assert view.recent(step).tolist() == expected
        assert view.recent_loss(step) == view.reached(step) == np.mean(expected)
    assert replace(view, changes=(Change(65, "lr", 1.0),)).recent_loss() == 3.0  # not acted yet
    thinned = replace(view, steps=view.steps[::5], loss=view.loss[::5])  # as the history keeps it
    assert thinned.recent_loss(35) == 5.0 and thinned.recent_loss(30) == 1.0


def test_a_view_of_an_earlier_step_is_the_view_that_there_was():
    began = replace(SPEC, training=replace(SPEC.training, steps=60))
    record, seen = Record(["embed", "head"]), []
    shared = REST | {"busy": False, "began": began}
    for n in range(1, 41):
        record.add_step(step(n))
        if n % 10 == 0:
            record.add_frame(replace(some_frame(), step=n, measured_at=n, loss=1 / n))
        if n == 20:
            record.changes = (Change(20, "scale", "none"),)
        spec = began.replayed(record.changes)
        seen.append(record.view(**shared | {"spec": spec, "status": Status.PAUSED}))
    now = replace(seen[-1], status=Status.DIVERGED)
    assert now.at(40).diverged and not now.at(39).diverged
    for view in seen:
        then = now.at(len(view.loss))
        assert (then.spec, then.changes, then.frames) == (view.spec, view.changes, view.frames)
        for name in ("steps", "loss", "lr", "grad_norm", "val_steps", "val_loss"):
            np.testing.assert_array_equal(getattr(then, name), getattr(view, name))
        assert then.recent_loss() == view.recent_loss()


def test_a_run_that_diverged_has_reached_nothing_finite_and_keeps_its_recent_loss():
    view = curve(1, 3, status=Status.DIVERGED)
    assert view.reached() == math.inf and view.recent_loss() == 2


def test_a_loss_that_a_checkpoint_does_not_know_is_left_out():
    assert curve(math.nan, 1, 3).reached() == 2
    assert math.isnan(curve(math.nan).reached())


def test_a_run_moves_or_is_over_or_is_paused():
    assert [status for status in Status if not status.moving and not status.over] == [Status.PAUSED]
    assert not any(status.moving and status.over for status in Status)
    assert [status for status in Status if status.conclusive] == [Status.DONE, Status.DIVERGED]
    assert all(status.over for status in Status if status.conclusive)


def test_a_record_of_nothing_can_be_viewed():
    view = view_of(Record())
    assert len(view.steps) == len(view.loss) == len(view.val_loss) == len(view.frames) == 0
    assert view.layer_norms == {} and view.seconds_left is None


def test_a_view_holds_what_was_recorded():
    record = Record(["embed", "head"])
    for n in range(1, 4):
        record.add_step(step(n))
    view = view_of(record)
    assert view.steps.tolist() == [1, 2, 3]
    assert view.loss.tolist() == pytest.approx([1, 1 / 2, 1 / 3])
    assert view.grad_norm.tolist() == [2, 4, 6]
    assert {name: norms.tolist() for name, norms in view.layer_norms.items()} == {
        "embed": [1, 2, 3],
        "head": [2, 2, 2],
    }
    assert view.seconds_trained == 1.5
    assert len(record) == 3


def test_a_view_is_not_changed_by_what_comes_after():
    record = Record(["embed", "head"])
    record.add_step(step(1))
    record.add_frame(some_frame())
    view = view_of(record)
    for n in range(2, 1000):
        record.add_step(step(n))
    record.add_frame(replace(some_frame(), step=999))
    assert (view.loss.tolist(), len(view.frames)) == ([1], 1)
    with pytest.raises(ValueError):
        view.loss[0] = 0


def test_the_validation_curve_has_a_point_only_where_it_was_measured():
    record, frame = Record(), some_frame()
    for n, measured_at, loss in [(0, 0, 3.0), (5, 0, 3.0), (9, 9, 2.0), (9, 9, 2.0), (9, 9, 2.5)]:
        record.add_frame(replace(frame, step=n, measured_at=measured_at, loss=loss))
    view = view_of(record)
    assert view.val_steps.tolist() == [0, 9, 9]
    assert view.val_loss.tolist() == [3.0, 2.0, 2.5]
    assert [frame.step for frame in view.frames] == [0, 5, 9]


def test_speed_is_forgotten_when_a_run_stands_still():
    record = Record(["embed", "head"])
    record.add_step(step(1))
    record.add_step(step(2))
    assert record.speed() > 0
    assert view_of(record).tokens_per_second == pytest.approx(20 * record.speed())
    record.forget_speed()
    assert view_of(record).steps_per_second == 0


def test_series_give_back_what_was_appended():
    columns = Columns(2)
    for i in range(600):
        columns.append(i, -i)
    np.testing.assert_array_equal(columns.columns(), [np.arange(600), -np.arange(600)])


# --- frames that are kept -----------------------------------------------------------------


def album_of(steps, **limits) -> Album:
    album, frame = Album(**limits), some_frame()
    for step in steps:
        album.add(replace(frame, step=step))
    return album


def test_album_keeps_first_and_last_and_evenly_in_between():
    for n in range(1, 60):
        steps = [frame.step for frame in album_of(range(n), max_frames=8).frames]
        assert steps[0] == 0 and steps[-1] == n - 1
        assert len(steps) <= 8
        gaps = np.diff(steps).tolist()
        assert len(set(gaps[:-1])) <= 1  # the last frame may come before its time
        assert gaps[-1:] <= gaps[:1]


def test_album_keeps_within_its_bytes():
    one = album_of([0]).frames[0].nbytes
    album = album_of(range(50), max_bytes=5 * one)
    assert sum(frame.nbytes for frame in album.frames) <= 5 * one
    assert [frame.step for frame in album_of(range(50), max_bytes=1).frames] == [0, 49]


def test_album_replaces_a_frame_of_the_same_step():
    assert [frame.step for frame in album_of([0, 0, 1, 1, 1, 2]).frames] == [0, 1, 2]


def test_a_live_frame_is_gone_when_the_next_one_comes():
    album, frame = Album(), some_frame()
    seen = []
    for number, kept in [(0, True), (3, False), (5, False), (8, True), (9, False), (9, True)]:
        album.add(replace(frame, step=number), kept)
        seen.append([frame.step for frame in album.frames])
    assert seen == [[0], [0, 3], [0, 5], [0, 8], [0, 8, 9], [0, 8, 9]]
    album.add(replace(frame, step=9, accuracy=0.5), kept=False)  # another example at that step
    assert [frame.step for frame in album.frames] == [0, 8, 9]
    assert album.frames[-1].accuracy == 0.5


def test_live_frames_do_not_change_which_ones_stay():
    def steps(live: bool) -> list[int]:
        album, frame = Album(max_frames=8), some_frame()
        album.add(frame)
        for number in range(1, 100):
            if live:
                album.add(replace(frame, step=2 * number), kept=False)
            album.add(replace(frame, step=2 * number + 1))
        return [frame.step for frame in album.frames]

    assert steps(live=True) == steps(live=False)
