"""Against a recurrent net: gradients by finite differences, sizes, longer rows, and the page."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from core.model import build_model
from core.tasks import TASKS
from core.tasks.distance import Distance
from core.trace import Recorder
from core.train import Trainer
from helpers import find, fine, opened, texts
from playground.ideas.recurrent import measure
from playground.ideas.recurrent.figures import COLOURS, Panel, models_picture


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("task", measure.TASKS_HERE.values(), ids=measure.TASKS_HERE)
def test_all_three_have_about_as_many_parameters(task, n_layers):
    sizes = {
        name: sum(p.numel() for p in build_model(spec.model).parameters())
        for name, spec in measure.specs(task, n_layers).items()
    }
    assert sizes.keys() == measure.NAMES.keys()
    assert all(abs(n / sizes["decoder"] - 1) < 0.03 for n in sizes.values())


@pytest.mark.parametrize("architecture", measure.NAMES)
def test_the_gradient_is_what_a_small_push_at_the_value_changes(architecture):
    task = Distance(distance=3)
    spec = measure.specs(task, 1)[architecture]
    model = build_model(spec.model).double()
    tokens, targets = task.validation("decoder", 2)
    found = measure.gradient(model, task, rows=2)

    def losses(push: torch.Tensor) -> torch.Tensor:
        def pushed(x):
            x = x.detach().clone()
            x[:, 0] += push
            return x

        with torch.no_grad():
            logits = model(*tokens, Recorder({"embed": pushed}))[:, -1]
        return -logits.log_softmax(-1).gather(1, targets[:, -1:])[:, 0]

    step, slopes = 1e-6, []
    for column in range(spec.model.d_model):
        push = torch.zeros(spec.model.d_model, dtype=torch.float64)
        push[column] = step
        slopes.append((losses(push) - losses(-push)) / (2 * step))
    assert found == pytest.approx(torch.stack(slopes, -1).norm(dim=-1).mean().item(), rel=1e-5)


def test_only_in_the_recurrent_nets_the_gradient_dies_out_with_the_distance():
    for seed in range(3):
        found = measure.gradients(measure.BLOCKS, seed)
        shares = {name: each[-1] / each[0] for name, each in found.items()}
        assert shares["decoder"] > 0.01
        assert max(shares["gru"], shares["lstm"]) < 1e-8


def test_what_is_tried_at_other_distances_is_the_trained_model():
    task = TASKS["distance"](symbols=3, distance=4)
    for spec in measure.specs(task, 1).values():
        trainer = Trainer(spec.model, task, spec.training)
        found = measure.further(trainer)
        assert len(found) == len(measure.FURTHER)
        for share, distance in zip(found, measure.FURTHER, strict=True):
            tokens, targets = Distance(symbols=3, distance=distance).validation("decoder")
            if spec.model.attends:  # rotary positions: nothing in the model ends at `max_len`
                with torch.no_grad():
                    right = trainer.model(*tokens)[:, -1].argmax(-1) == targets[:, -1]
                assert share == pytest.approx(right.float().mean().item())


def test_every_model_is_timed_at_every_length():
    ticks = itertools.count()
    found = measure.timed(TASKS["reverse"](length=3), "cpu", 1, (2, 5), 0, lambda: next(ticks) / 4)
    for each in (found.forward, found.both):
        assert each == {name: [250.0, 250.0] for name in measure.NAMES}
    assert found.written == {name: [4.0, 4.0] for name in measure.NAMES}


def test_a_picture_has_each_model_in_each_panel_and_says_its_last_numbers():
    values = {name: [1.0, 0.25] for name in COLOURS}
    figure = models_picture([Panel("a", "length", (2, 8), values)] * 2, "both")
    assert [trace["name"] for trace in figure["data"] if trace.get("showlegend")] == [*COLOURS]
    assert len(figure["data"]) == 6 and all(list(t["x"]) == [1, 3] for t in figure["data"])
    assert "LSTM 0.25 at 8" in figure["layout"]["meta"]["alt"]


def test_the_page_trains_all_three_measures_time_and_tries_longer_rows(monkeypatch):
    monkeypatch.setattr(measure, "LENGTHS", (4, 8))
    test = opened("recurrent")
    fine(find(test, "button", "recurrent_measure").click().run())
    assert "tokens per second" in texts(test.markdown)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_who_learns_what(seed):
    """What the page and the scenarios say: one distance, mixed distances, look-up."""

    def accuracy(task: str, name: str, steps: int = 300) -> float:
        spec = measure.specs(measure.TASKS_HERE[task])[name]
        trainer = Trainer(spec.model, spec.task, replace(spec.training, seed=seed, steps=steps))
        for _ in trainer:
            pass
        return trainer.evaluate().accuracy

    assert accuracy("one distance", "decoder", 150) > 0.99
    assert accuracy("one distance", "lstm") < 1.5 * math.exp(-TASKS["distance"]().blind())
    assert accuracy("mixed distances", "lstm") > 0.95
