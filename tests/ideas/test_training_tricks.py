"""The tricks of training: what is measured, against the trainer, autograd and arithmetic."""

import math
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.config import SCHEDULES, ModelConfig, TrainConfig
from core.device import choose_device
from core.model import build_model
from core.tasks import TASKS
from core.trace import Recorder
from core.train import Trainer, cross_entropy
from helpers import numbers, opened
from playground.figures.style import alt_text
from playground.ideas.training_tricks import measure
from playground.ideas.training_tricks.figures import (
    REACH,
    clip_picture,
    norm_history,
    precision_picture,
    schedule_picture,
    time_picture,
    tying_picture,
)

PRECISIONS = ("fp32", "bf16", "fp16")

# --- warmup ---------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [0, 10])
@pytest.mark.parametrize("decay", SCHEDULES)
def test_the_schedule_is_the_one_that_a_run_takes(warmup, decay):
    task = TASKS["copy"](symbols=2, length=2)
    config = TrainConfig(steps=25, warmup=warmup, schedule=decay, lr=0.01)
    model = ModelConfig.for_task(task, d_model=4, n_heads=1, n_layers=1)
    taken = [step.lr for step in Trainer(model, task, config)]
    assert measure.schedule(config) == taken
    assert taken[warmup] == pytest.approx(0.01)
    assert taken[0] == pytest.approx(0.01 / (warmup + 1))
    if decay == "cosine":
        left = 25 - warmup
        half = 0.1 + 0.9 * (1 + math.cos(math.pi * (left - 1) / left)) / 2
        assert taken[-1] == pytest.approx(0.01 * half)
    if decay == "paper":
        assert taken[-1] == pytest.approx(0.01 * math.sqrt((warmup + 1) / 25))


# --- clipping -------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["none", "post"])
@pytest.mark.parametrize("clip", [0.3, 10.0])
def test_the_factor_is_what_the_trainer_does_to_a_gradient(norm, clip):
    found = measure.first_gradients(norm, clip)
    assert len(found.before) == measure.BATCHES
    for before, after in zip(found.before, found.after, strict=True):
        assert after == pytest.approx(before * measure.clip_factor(before, clip), rel=1e-4)


def test_the_model_does_not_move_while_its_gradients_are_looked_at():
    """The norms are those of fresh models on the same batches, by autograd."""
    task, config = measure.clipping_model("none")
    drawn = torch.Generator().manual_seed(0)
    model = build_model(config)
    for before in measure.first_gradients("none", 1.0).before:
        batch = task.batch("decoder", 32, drawn)
        loss = cross_entropy(model(*batch.inputs), batch.targets)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        length = math.sqrt(sum(g.double().pow(2).sum().item() for g in gradients))
        assert before == pytest.approx(length, rel=1e-4)


def test_without_layer_norm_the_first_gradients_are_longer():
    without, with_ = (measure.first_gradients(norm, 1.0).before for norm in ("none", "post"))
    assert min(without) > 2 * max(with_) and min(with_) > 1


@pytest.mark.parametrize(
    "norm, clip, factor",
    [(4.0, 1.0, 0.25), (1.0, 1.0, 1.0), (0.5, 1.0, 1.0), (0.0, 1.0, 1.0), (math.inf, 1.0, 0.0)],
)
def test_a_short_gradient_is_left_alone(norm, clip, factor):
    assert measure.clip_factor(norm, clip) == factor


def test_the_share_of_clipped_steps_counts_those_above_the_threshold():
    assert measure.share_clipped(np.array([0.5, 1.0, 1.5, np.inf]), 1.0) == 0.5
    assert measure.share_clipped(np.array([]), 1.0) == 0


def test_clipping_saves_plain_descent_at_a_rate_that_is_too_high_without():
    task, model = measure.clipping_model("none")
    config = TrainConfig(optimizer="sgd", lr=0.1, clip=None, steps=40)
    losses = {}
    for clip in (None, 1.0):
        trainer = Trainer(model, task, replace(config, clip=clip))
        losses[clip] = []
        try:
            losses[clip].extend(step.loss for step in trainer)
        except RuntimeError:
            losses[clip].append(math.inf)
    assert max(losses[None]) > 100
    assert losses[1.0][-1] < 3 < losses[1.0][0]


# --- tying ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d_model, vocabulary", [(32, 12), (64, 1000)])
def test_one_table_saves_one_table_in_the_real_model(d_model, vocabulary):
    config = ModelConfig(d_model=d_model, n_heads=1, vocab_size=vocabulary)
    two, one = measure.tables(config)
    for parts, tied in ((two, False), (one, True)):
        model = build_model(replace(config, tie_embeddings=tied))
        assert sum(parts.values()) == sum(p.numel() for p in model.parameters())
    assert sum(two.values()) - sum(one.values()) == vocabulary * d_model
    assert {part for part in two if two[part] != one[part]} == {"unembedding"}


# --- precision ------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_number_type_ends_where_it_is_said_to_end(precision):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    found = measure.number_format(precision)

    def stored(x: float) -> float:
        return torch.tensor(x, dtype=torch.float64).to(dtype).item()

    assert stored(found.largest) == found.largest and math.isinf(stored(found.largest * 1.1))
    assert stored(found.smallest) == found.smallest > 0
    assert stored(found.smallest / 4) == 0
    assert stored(1 + found.eps) == 1 + found.eps and stored(1 + found.eps / 4) == 1
    assert found.smallest < found.normal < 1 < found.largest


@pytest.mark.parametrize("scale", [1.0, 256.0])
def test_the_gradients_are_those_of_autograd(scale):
    """Of the scaled loss, by every tensor of the trace: the sample has the same spread."""
    task, config = measure.precision_model(32)
    model, trace = build_model(config), Recorder()
    batch = task.batch("decoder", measure.EXAMPLES, torch.Generator().manual_seed(0))
    loss = scale * cross_entropy(model(*batch.inputs, trace=trace), batch.targets)
    once = list({id(x): x for x in trace.seen.values()}.values())
    every = torch.cat([g.flatten() for g in torch.autograd.grad(loss, once)])
    every = every[every != 0].abs().log10().numpy()
    found = measure.gradients(32, scale)
    assert len(found.exponents) == measure.SAMPLE
    shares = [0.01, 0.25, 0.5, 0.75, 0.99]
    assert np.quantile(found.exponents, shares) == pytest.approx(
        np.quantile(every, shares), abs=0.05
    )
    assert found.median == pytest.approx(np.median(found.exponents), abs=0.01)


@pytest.mark.parametrize("scale", [1.0, 2.0**24])
def test_what_a_number_type_loses_follows_from_where_it_ends(scale):
    found = measure.gradients(32, scale)
    sizes = 10 ** found.exponents.astype(np.float64)
    half = measure.number_format("fp16")
    assert found.lost["fp16"] == pytest.approx((sizes < half.smallest / 2).mean(), abs=1e-3)
    assert found.overflown["fp16"] == pytest.approx((sizes > half.largest).mean(), abs=1e-3)
    small = (sizes > half.smallest / 2) & (sizes < half.normal)
    assert found.blurred["fp16"] == pytest.approx(small.mean(), abs=2e-3)
    assert found.lost["bf16"] == found.overflown["bf16"] == 0 == found.lost["fp32"]


def test_a_loss_scale_trades_numbers_that_vanish_for_numbers_that_overflow():
    low, high = measure.gradients(32, 1.0), measure.gradients(32, 2.0**24)
    assert low.lost["fp16"] > 0 == low.overflown["fp16"]
    assert high.lost["fp16"] == 0 < high.overflown["fp16"]


def test_a_race_times_every_precision_equally_often(monkeypatch):
    """The clock is the test's; it is asked once the rounds that there are at least are over."""
    monkeypatch.setattr(measure, "WARM_UP", 1)
    device = choose_device("cpu")
    ticks = iter(range(100))
    found = measure.race(32, device, seconds=5, clock=lambda: next(ticks))
    assert list(found) == device.precisions
    assert {timing.steps for timing in found.values()} == {measure.LEAST_ROUNDS + 4}
    assert all(timing.milliseconds > 0 for timing in found.values())
    assert {t.steps for t in measure.race(32, device, seconds=0).values()} == {measure.LEAST_ROUNDS}


def test_a_race_leaves_out_what_the_device_refuses():
    device = replace(
        choose_device("cpu"),
        refusals=(("fp32", None), ("bf16", "no such thing"), ("fp16", "nor this")),
    )
    assert list(measure.race(32, device, seconds=0)) == ["fp32"]


# --- what came out --------------------------------------------------------------------------

BLIND = 2.3


@pytest.mark.parametrize(
    "flat, scheduled, pre, said",
    [
        (2.31, 0.1, 0.01, "saves post-norm; pre-norm does not need"),
        (2.31, 0.1, 2.31, "saves post-norm."),
        (0.27, 0.19, 0.01, "Nothing here needs a warmup"),
        (2.31, 2.3, 0.01, "does not save post-norm"),
        (math.inf, None, 0.01, "does not save post-norm"),
    ],
)
def test_who_needed_the_warmup(flat, scheduled, pre, said):
    assert said in measure.after_warmup(flat, scheduled, pre, BLIND)


@pytest.mark.parametrize(
    "plain, clipped, said",
    [
        (math.inf, 0.24, "saves this run"),
        (math.inf, 2.32, "does not save"),
        (0.5, 2.32, "ruin it"),
        (0.011, 0.039, "hardly any difference"),
        (1.7, 1.3, "helps"),
        (0.22, 0.53, "faster unclipped"),
    ],
)
def test_what_clipping_did(plain, clipped, said):
    assert said in measure.after_clipping(plain, clipped, BLIND)


@pytest.mark.parametrize(
    "two, one, said",
    [(0.47, 0.63, "more slowly"), (2.37, 2.40, "does not suffer"), (0.6, 0.3, "faster")],
)
def test_what_tying_did(two, one, said):
    assert said in measure.after_tying(two, one, BLIND)


@pytest.mark.parametrize(
    "losses, said",
    [
        (
            {"fp32": 0.5, "bf16": 0.51, "fp16": 0.49},
            "fp16 learns (0.490). The loss does not suffer.",
        ),
        (
            {"fp32": 0.5, "bf16": 0.9, "fp16": math.inf},
            "fp16 diverges. The loss suffers in bf16 and fp16.",
        ),
        ({"fp32": 0.5}, "no other precision"),
    ],
)
def test_what_the_precision_did(losses, said):
    assert said in measure.after_precision(losses, BLIND)


def test_an_outcome_has_three_names():
    assert measure.outcome(math.inf, BLIND) == "diverges"
    assert measure.outcome(0.95 * BLIND, BLIND).endswith("95% of chance)")
    assert measure.outcome(0.0123, BLIND) == "learns (0.012)"


# --- figures --------------------------------------------------------------------------------


def test_the_schedules_are_drawn_in_the_order_of_the_runs():
    figure = schedule_picture({"<flat>": [0.1, 0.1], "rising": [0.05, 0.1]}, total_steps=2)
    assert [trace["name"] for trace in figure["data"]] == ["&lt;flat>", "rising"]
    assert list(figure["data"][1]["y"]) == pytest.approx([0.05, 0.1])
    assert figure["data"][0]["line"] != figure["data"][1]["line"]
    assert "0.05 at first" in alt_text(figure)
    assert not schedule_picture({"a": []}, total_steps=2)["data"][0]["x"]
    go.Figure(figure)


def test_the_clip_picture_bends_at_the_threshold_and_shows_what_was_measured():
    figure = clip_picture(1.0, [20.0, 25.0], [1.0, 1.0])
    plain, clipped, points = figure["data"]
    assert list(plain["x"]) == pytest.approx(list(plain["y"]))
    x, y = np.asarray(clipped["x"]), np.asarray(clipped["y"])
    assert y[x < 1] == pytest.approx(x[x < 1]) and (y[x > 1] == 1).all()
    assert points["x"] == [20.0, 25.0]
    assert figure["layout"]["annotations"][0]["text"] == "× 0.04"
    assert not clip_picture(30.0, [20.0], [20.0])["layout"]["annotations"]
    go.Figure(figure)


def test_the_norms_are_drawn_with_the_threshold_over_them():
    norms = {"as they are": [20.0, 100.0, np.inf], "clipped": [20.0, 0.5, 0.0]}
    figure = norm_history(norms, 1.0, {"as they are": 1.0, "clipped": 1 / 3}, total_steps=3)
    plain, clipped, threshold = figure["data"]
    assert np.isnan(plain["y"][2]) and np.isnan(clipped["y"][2])
    assert threshold["y"] == [1.0, 1.0] and threshold["x"] == [0, 3]
    assert "33% of the steps above 1" in clipped["name"]
    assert "100% of the steps above 1" in alt_text(figure)
    go.Figure(figure)


def test_the_bars_of_the_tables_add_up():
    two, one = measure.tables(ModelConfig(d_model=768, n_heads=1, n_layers=12, vocab_size=50_257))
    figure = tying_picture(two, one)
    for i, parts in enumerate((two, one)):
        assert sum(trace["x"][i] for trace in figure["data"]) == sum(parts.values())
    assert "38,597,376" not in alt_text(figure) and f"{sum(one.values()):,}" in alt_text(figure)
    go.Figure(figure)


def test_number_types_lie_below_the_numbers_that_must_fit_into_them():
    types = {
        "wide": measure.NumberFormat(1e38, 1e-38, 1e-45, 1e-7),
        "narrow": measure.NumberFormat(6e4, 6e-5, 6e-8, 1e-3),
    }
    figure = precision_picture(types, np.array([-3.2, -3.3, -9.2]))
    histogram, *bars = figure["data"]
    assert float(np.sum(histogram["y"])) == pytest.approx(1)
    assert float(np.asarray(histogram["x"])[np.argmax(histogram["y"])]) == pytest.approx(
        -3, abs=0.5
    )
    for t, (faint, full) in zip(types.values(), (bars[:2], bars[2:]), strict=True):
        assert faint["base"][0] == pytest.approx(math.log10(t.smallest))
        assert full["base"][0] == pytest.approx(math.log10(t.normal))
        assert full["base"][0] + full["x"][0] == pytest.approx(math.log10(t.largest))
        assert faint["marker"]["opacity"] < full["marker"]["opacity"]
    edges = [shape["x0"] for shape in figure["layout"]["shapes"]]
    assert edges == pytest.approx([math.log10(6e-8), math.log10(6e4)]), "of the narrowest"
    assert REACH[0] < math.log10(1.4e-45) and math.log10(3.4e38) < REACH[1]
    go.Figure(figure)


def test_times_are_held_against_the_first():
    figure = time_picture({"fp32": 10.0, "bf16": 35.0, "fp16": 5.0})
    assert figure["data"][0]["text"] == ["10 ms", "35 ms  = 3.50 ×", "5 ms  = 0.50 ×"]
    assert figure["layout"]["yaxis"]["categoryarray"] == ["fp16", "bf16", "fp32"]
    go.Figure(figure)


# --- the page -------------------------------------------------------------------------------


def page(**query: str):
    return opened("tricks", **query)


@pytest.mark.parametrize(
    "query, names",
    [
        (
            {},
            [
                "post-norm, from the first step",
                "post-norm, this schedule",
                "pre-norm, from the first step",
            ],
        ),
        (
            {"tricks_decay": "cosine"},
            [
                "post-norm, from the first step",
                "post-norm, this schedule",
                "pre-norm, from the first step",
            ],
        ),
        (
            {"tricks_warmup": "0"},
            ["post-norm, from the first step", "pre-norm, from the first step"],
        ),
        ({"tricks_which": "Clipping"}, ["as they are", "clipped at 1"]),
        ({"tricks_which": "Tying"}, ["two tables", "one table"]),
        ({"tricks_which": "Precision"}, ["fp32", "bf16", "fp16"]),
    ],
)
def test_every_run_of_a_trick_has_its_own_name(query, names):
    test = page(**query)
    assert not test.warning
    assert list(numbers(test)) == names


def test_nothing_is_said_of_speed_before_it_is_measured():
    test = page(tricks_which="Precision", tricks_size="32")

    def said():
        return " ".join(element.value for element in test.markdown)

    assert "Not measured yet" in said() and "as fast" not in said()
    test.button(key="tricks_measure").click().run()
    assert not test.exception
    assert "**Measured** at d_model 32" in said() and "Not measured yet" not in said()
    test.button_group(key="tricks_size").set_value(64).run()
    assert "measure again" in said()
