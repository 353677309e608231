"""Ready-made configurations: each says every switch, and each can be trained."""

import pytest

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from helpers import spec_for
from playground.experiments.ready_made import (
    GOOD_SETTINGS,
    MEASURED,
    READY_MADE,
    SWITCHES,
    WORTH,
    WORTH_HERE,
    table_rows,
)
from playground.runs.spec import Spec, read_value, value_text
from playground.ui.controls import knobs_of


@pytest.mark.parametrize("name", READY_MADE)
def test_each_says_every_switch_and_nothing_else(name):
    ready = READY_MADE[name]
    assert [switch for switch, _ in ready.changes] == list(SWITCHES)
    usual = ModelConfig().to_dict() | TrainConfig().to_dict()
    assert all(usual[switch] != value for switch, value in ready.switches.items())
    assert {"d_model", "n_heads", "n_layers", "steps", "lr", "seed"}.isdisjoint(SWITCHES)


@pytest.mark.parametrize("name", READY_MADE)
@pytest.mark.parametrize("task", TASKS)
def test_each_trains_on_every_task_that_has_a_form_for_it(task, name):
    ready = READY_MADE[name]
    if not ready.fits(TASKS[task]):
        assert dict(ready.changes)["architecture"] not in TASKS[task].architectures
        return
    sizes = {"d_model": 8, "n_layers": 1, "batch_size": 4}
    spec = Spec.of(TASKS[task]()).changed((*sizes.items(), *ready.changes))
    assert knobs_of(spec)  # the page has a knob for each value
    trainer = Trainer(spec.model, spec.task, spec.training)
    assert trainer.step().loss > 0


@pytest.mark.parametrize("task", GOOD_SETTINGS)
def test_good_settings_differ_from_the_defaults_and_can_be_taken(task):
    changes, why = GOOD_SETTINGS[task]
    usual = spec_for(TASKS[task](), steps=60)
    spec = usual.changed(changes)
    assert set(usual.changes_to(spec)) == set(changes)
    assert knobs_of(spec) and why.endswith(".")


def test_the_table_has_the_switches_in_which_they_differ_and_no_other():
    spec = spec_for("reverse", norm_type="rms", label_smoothing=0.2)
    rows = table_rows(spec)
    columns = ["this model", *(ready.title for ready in READY_MADE.values())]
    for row in rows:
        assert list(row) == ["", *columns, WORTH_HERE]
        assert len({row[column] for column in columns}) > 1
        values = [read_value(row[""], row[column]) for column in columns]
        ready = [dict(ready.changes)[row[""]] for ready in READY_MADE.values()]
        assert values == [spec.value(row[""]), *ready]
    left = set(SWITCHES) - {row[""] for row in rows}
    for name in left:
        assert len({spec.value(name)} | {dict(r.changes)[name] for r in READY_MADE.values()}) == 1


def test_what_a_switch_was_worth_is_there_for_every_value_that_is_measured():
    usual = dict(READY_MADE["gpt2"].changes)
    for switch in MEASURED:
        other = {value_text(switch, dict(r.changes)[switch]) for r in READY_MADE.values()}
        found = WORTH.differences(switch)
        assert set(found) == other - {value_text(switch, usual[switch])}
        assert all(len(each) == len(WORTH.found["base"]) for each in found.values())
    assert max(WORTH.differences("position")["rotary"]) < -0.2
    assert "rotary: −0.31 to −0.26" in WORTH.text("position")
