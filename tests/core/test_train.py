"""The trainer: one step at a time, the same numbers every time, and an end with a reason."""

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

from core.checkpoint import restore, snapshot
from core.config import ARCHITECTURES, ModelConfig, TrainConfig
from core.device import choose_device
from core.forms import RECURRENT, form_of
from core.optimize import learning_rate, set_rates
from core.tasks import IGNORED, TASKS, Batch
from core.train import (
    OPTIMIZERS,
    Change,
    Diverged,
    Trainer,
    cross_entropy,
)

TASK = TASKS["reverse"](symbols=4, length=4)


def trainer(task=TASK, device="cpu", model=None, **training) -> Trainer:
    knobs = {"d_model": 16, "n_heads": 2} | (model or {})
    config = ModelConfig.for_task(task, **knobs)
    return Trainer(config, task, TrainConfig(**training), choose_device(device))


def losses(t: Trainer, n: int) -> list[float]:
    return [t.step().loss for _ in range(n)]


def weights(t: Trainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in t.model.named_parameters()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# --- learning rate ------------------------------------------------------------------------


def test_the_first_update_of_a_warmup_moves_the_weights():
    """TRN-01"""
    t = trainer(warmup=10, steps=100)
    before = weights(t)
    assert t.step().lr > 0
    after = weights(t)
    assert all(not torch.equal(before[name], after[name]) for name in before)


# --- loss ---------------------------------------------------------------------------------


def logits_with_loss(loss: float) -> list[float]:
    """Two logits whose cross-entropy at target 0 is this."""
    return [0.0, math.log(math.exp(loss) - 1)]


def test_the_loss_is_a_mean_over_tokens_not_over_sequences():
    """XTR-02: one token at 2.0 and nine at 1.0 make 1.1; padding does not count."""
    logits = torch.tensor([[logits_with_loss(2.0)] * 9, [logits_with_loss(1.0)] * 9])
    targets = torch.zeros(2, 9, dtype=torch.long)
    targets[0, 1:] = IGNORED
    assert cross_entropy(logits, targets).item() == pytest.approx(1.1, abs=1e-6)


def test_the_loss_equals_pytorchs_mean():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=generator)
    targets = torch.randint(7, (3, 5), generator=generator)
    targets[1, 2:] = IGNORED
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    assert cross_entropy(logits, targets).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_label_smoothing_spreads_a_share_of_each_target_over_the_vocabulary(share):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 7, generator=generator)
    targets = torch.randint(7, (2, 3), generator=generator)
    targets[1, 1:] = IGNORED
    costs = []
    for row, target in zip(logits.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if target != IGNORED:
            wanted = [share / 7 + (1 - share) * (token == target) for token in range(7)]
            chances = row.softmax(-1).tolist()
            costs.append(-sum(w * math.log(p) for w, p in zip(wanted, chances, strict=True)))
    expected = sum(costs) / len(costs)
    assert cross_entropy(logits, targets, share).item() == pytest.approx(expected, rel=1e-5)


def test_label_smoothing_decides_what_is_learnt_and_never_what_is_reported():
    plain, smooth = (trainer(lr=0.01, label_smoothing=share) for share in (0.0, 0.3))
    one, other = plain.step(), smooth.step()
    assert other.loss == one.loss and other.grad_norm != one.grad_norm  # of the same weights
    learnt, smoothly = losses(plain, 150)[-10:], losses(smooth, 150)[-10:]
    # Nothing is gained by being surer than what is asked for: 0.7, and a share of 0.3.
    surest = -math.log(1 - 0.3 + 0.3 / TASK.vocab_size)
    assert sum(smoothly) / 10 == pytest.approx(surest, rel=0.05)
    assert sum(learnt) / 10 < 0.05
    evaluated = smooth.evaluate()
    assert evaluated.loss == pytest.approx(surest, rel=0.05) and evaluated.accuracy == 1.0


def test_a_batch_without_a_scored_token_costs_nothing():
    """XNU-02"""
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = cross_entropy(logits, torch.full((2, 3), IGNORED))
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad.abs().max() == 0


class Unscored:
    """A task of which nothing is scored."""

    def batch(self, architecture, size, generator):
        tokens, targets = TASK.batch(architecture, size, generator)
        return Batch(tokens, torch.full_like(targets, IGNORED))


def test_training_survives_a_batch_without_a_scored_token():
    """XNU-02"""
    t = trainer()
    t.step()
    t.task = Unscored()
    step = t.step()
    assert step.loss == 0.0 and step.grad_norm == 0.0
    assert all(p.isfinite().all() for p in weights(t).values())
    t.task = TASK
    assert math.isfinite(t.step().loss)
    empty = t.evaluate(Unscored().batch("decoder", 4, torch.Generator()))
    assert (empty.loss, empty.accuracy) == (0.0, 0.0)


# --- a step against the obvious loop ------------------------------------------------------


@pytest.mark.parametrize("clip", [None, 0.05, 1.0])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_equals_the_obvious_loop(clip, optimizer):
    ours = trainer(clip=clip, optimizer=optimizer, lr=0.01)
    model = trainer().model
    matrices = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear)]
    others = [p for p in model.parameters() if all(p is not matrix for matrix in matrices)]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}]
    slow = {
        "adamw": lambda: torch.optim.AdamW(groups, lr=0.01),
        "sgd": lambda: torch.optim.SGD(groups, lr=0.01, momentum=0.9),
    }[optimizer]()
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        (tokens,), targets = TASK.batch("decoder", 32, generator)
        slow.zero_grad()
        loss = cross_entropy(model(tokens), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf)
        slow.step()
        step = ours.step()
        assert step.loss == pytest.approx(loss.item(), rel=1e-5)
        assert step.grad_norm == pytest.approx(norm.item(), rel=1e-4)
    # The logits, not the weights: a bias of the keys has no gradient but rounding error (softmax
    # does not see it), and AdamW makes steps of full length out of that.
    assert torch.allclose(ours.model(tokens), model(tokens), atol=2e-4)


def test_a_step_tells_what_it_did():
    t = trainer(steps=3, batch_size=5, warmup=2, lr=0.3)
    steps = list(t)
    assert [step.step for step in steps] == [1, 2, 3]
    assert [step.lr for step in steps] == pytest.approx([0.1, 0.2, 0.3])
    assert steps[0].tokens == 5 * TASK.max_len("decoder")
    assert all(step.seconds > 0 for step in steps)
    with pytest.raises(dataclasses.FrozenInstanceError):
        steps[0].loss = 0.0


def test_iterating_goes_on_where_single_steps_stopped():
    t = trainer(steps=5)
    t.step()
    assert [step.step for step in t] == [2, 3, 4, 5]
    assert list(t) == []


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a not in RECURRENT])
def test_norms_per_layer_are_those_of_the_gradients_before_clipping(architecture):
    task = next(kind() for kind in TASKS.values() if architecture in kind.architectures)
    t = trainer(task, model={"architecture": architecture, "norm": "pre"}, clip=1e-6)
    twin = trainer(task, model={"architecture": architecture, "norm": "pre"}, clip=None)
    step = t.step()
    twin.step()
    stacks = ["encoder.blocks.0", "encoder.blocks.1"] if "-" in architecture else []
    ends = ["norm", "unembed"] + (["encoder"] if stacks else [])
    assert set(step.layer_norms) == {"embed", "blocks.0", "blocks.1", *ends, *stacks}
    for layer, norm in step.layer_norms.items():
        own = [
            p.grad
            for name, p in twin.model.named_parameters()
            if name.startswith(f"{layer}.") and not (layer == "encoder" and "blocks" in name)
        ]
        expected = torch.cat([grad.flatten() for grad in own]).norm().item()
        assert norm == pytest.approx(expected, rel=1e-4), layer
    total = math.sqrt(sum(norm**2 for norm in step.layer_norms.values()))
    assert step.grad_norm == pytest.approx(total, rel=1e-5)


def test_clipping_limits_the_length_of_the_update():
    """The first update of SGD is lr times the clipped gradient."""
    t = trainer(optimizer="sgd", lr=0.1, weight_decay=0.0, clip=0.25)
    before = weights(t)
    step = t.step()
    after = weights(t)
    moved = torch.cat([(after[name] - before[name]).flatten() for name in before]).norm().item()
    assert step.grad_norm > 0.25
    assert moved == pytest.approx(0.1 * 0.25, rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_limit_never_reached_equals_no_clipping(precision):
    """TRN-03"""
    wide, none = trainer(clip=1e9, precision=precision), trainer(clip=None, precision=precision)
    assert losses(wide, 4) == losses(none, 4)
    assert same(weights(wide), weights(none))


# --- precision ----------------------------------------------------------------------------


def precisions(device: str) -> list[str]:
    return choose_device(device).precisions


def test_gradients_are_unscaled_before_clipping_and_display(device):
    """TRN-03: under fp16 the loss is multiplied by 65536, and nobody notices."""
    knobs = {"optimizer": "sgd", "lr": 0.1, "weight_decay": 0.0, "clip": 0.5, "device": device}
    exact, half = trainer(**knobs), trainer(**knobs, precision="fp16")
    assert half.scaler.get_scale() == 65536
    before = weights(half)
    steps = exact.step(), half.step()
    assert steps[0].grad_norm > 0.5
    assert steps[1].grad_norm == pytest.approx(steps[0].grad_norm, rel=0.02)
    for layer, norm in steps[0].layer_norms.items():
        assert steps[1].layer_norms[layer] == pytest.approx(norm, rel=0.05)
    after = weights(half)
    moved = torch.cat([(after[name] - before[name]).flatten() for name in before]).norm().item()
    assert moved == pytest.approx(0.1 * 0.5, rel=0.02)


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary", "alibi"])
def test_every_precision_gives_the_loss_of_fp32(position, device):
    """NUM-01: causal mask and padding under fp16 too."""
    task = TASKS["reverse"](vary=True)
    batch = task.validation("decoder", 32)
    model = {"position": position, "scale": "none", "d_model": 32}
    exact = trainer(task, device, model).evaluate(batch).loss
    for precision in precisions(device):
        rough = trainer(task, device, model, precision=precision)
        assert rough.evaluate(batch).loss == pytest.approx(
            exact, abs=1e-2 if "16" in precision else 0
        )
        assert math.isfinite(rough.step().loss)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_masked_weights_are_exactly_zero_in_mixed_precision(precision, device):
    """NUM-01"""
    from core.trace import Recorder

    if precision not in precisions(device):
        pytest.skip(f"{device} does not offer {precision}")
    t = trainer(TASKS["reverse"](vary=True), device, precision=precision)
    (tokens,), _ = t.task.validation("decoder", 8)
    tokens, trace = tokens.to(device), Recorder()
    with t.autocast, torch.no_grad():
        looked, fused = t.model(tokens, trace), t.model(tokens)
    w = trace.seen["blocks.0.attention.weights"].float()
    assert w.triu(1).abs().max() == 0
    assert w.masked_select((tokens == 0)[:, None, None, :].expand_as(w)).abs().max() == 0
    assert (w.sum(-1) - 1).abs().max() < 1e-2
    assert (looked.float() - fused.float()).abs().max() < 0.1


def test_fp16_that_overflows_takes_a_smaller_scale_and_goes_on(device):
    t = trainer(device=device, precision="fp16")
    t.scaler = torch.amp.GradScaler(device, init_scale=2.0**40)
    before = weights(t)
    first = t.step()
    assert math.isfinite(first.loss) and not math.isfinite(first.grad_norm)
    assert t.scaler.get_scale() == 2.0**39
    assert first.skipped and t.skipped == 1
    assert same(weights(t), before)  # the update was skipped
    later = [t.step() for _ in range(40)]
    assert math.isfinite(later[-1].grad_norm) and not later[-1].skipped
    assert not same(weights(t), before)


def test_the_schedule_counts_the_updates_that_are_made(device):
    t = trainer(device=device, precision="fp16", lr=0.01, warmup=5)
    t.scaler = torch.amp.GradScaler(device, init_scale=2.0**40)
    steps = [t.step() for _ in range(40)]
    made = [step for step in steps if not step.skipped]
    assert 0 < t.skipped == len(steps) - len(made) < len(steps) == t.step_count
    assert made[0].lr == pytest.approx(0.01 / 6)
    assert [step.lr for step in made] == [learning_rate(i, t.config) for i in range(len(made))]
    assert all(step.skipped != math.isfinite(step.grad_norm) for step in steps)

    t.change(schedule="cosine")  # and so does a checkpoint
    back = restore(snapshot(t), t.device)
    assert back.skipped == t.skipped and back.step().lr == t.step().lr


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weight_decay_shrinks_matrices_and_spares_all_the_rest(optimizer, tied):
    t = trainer(
        optimizer=optimizer,
        lr=0.1,
        weight_decay=1.0,
        model={"position": "learned", "tie_embeddings": tied},
    )
    with torch.no_grad():
        for p in t.parameters:
            p.fill_(1.0)
    set_rates(t.optimizer, 0.1, 1.0)
    for p in t.parameters:
        p.grad = torch.zeros_like(p)
    t.optimizer.step()
    linear = {f"{n}.weight" for n, m in t.model.named_modules() if isinstance(m, torch.nn.Linear)}
    for name, p in t.model.named_parameters():
        assert p.unique().tolist() == pytest.approx([0.9 if name in linear else 1.0]), name


def test_numbers_below_what_float32_holds_well_count_as_zero():
    """Eight blocks without residuals and norm: gradients that small made a step take four times
    as long."""
    torch.set_flush_denormal(False)
    model = {"n_layers": 8, "residual": False, "norm": "none", "init": "gpt2"}
    t = trainer(model=model)
    for _ in range(3):
        t.step()
    for p in t.parameters:
        # Compared as bits: the processor itself may take such a number for 0 by now.
        bits = p.grad.contiguous().view(torch.int32) & 0x7FFFFFFF
        assert not ((bits > 0) & (bits < 0x00800000)).any()


# --- nothing is disturbed -----------------------------------------------------------------


def test_training_evaluating_and_looking_leave_the_global_random_state_alone(
    global_random_state_untouched,
):
    t = trainer()
    t.step()
    t.evaluate()
    t.look(*TASK.probe("decoder").inputs)
    t.change(scale="none")
    t.step()


def test_the_global_random_state_decides_nothing():
    torch.manual_seed(1)
    one = losses(trainer(), 4)
    torch.manual_seed(2)
    assert losses(trainer(), 4) == one


def test_evaluating_and_looking_do_not_disturb_training(device):
    alone, watched = trainer(device=device), trainer(device=device)
    expected = losses(alone, 6)
    seen = []
    for _ in range(6):
        watched.evaluate()
        watched.look(*TASK.probe("decoder").inputs)
        seen.append(watched.step().loss)
        grads = [p.grad.clone() for p in watched.parameters]
        watched.evaluate()
        assert all(torch.equal(p.grad, g) for p, g in zip(watched.parameters, grads, strict=True))
        assert watched.model.training
    assert seen == expected
    assert same(weights(alone), weights(watched))


def test_validation_is_the_same_at_every_call():
    """ATT-04"""
    t = trainer()
    assert t.evaluate() == t.evaluate()


def test_evaluation_equals_counting():
    t = trainer()
    (tokens,), targets = TASK.validation("decoder", 16)
    logits = t.model(tokens)
    right = scored = 0
    loss = 0.0
    for row in range(16):
        for place in range(targets.shape[1]):
            if (target := targets[row, place].item()) != IGNORED:
                scored += 1
                right += logits[row, place].argmax().item() == target
                loss -= logits[row, place].log_softmax(-1)[target].item()
    result = t.evaluate(TASK.validation("decoder", 16))
    assert result.accuracy == right / scored
    assert result.loss == pytest.approx(loss / scored, rel=1e-5)


def test_one_seed_gives_one_run_and_another_seed_another():
    assert losses(trainer(seed=3), 5) == losses(trainer(seed=3), 5)
    assert losses(trainer(seed=3), 5) != losses(trainer(seed=4), 5)


def test_two_trainers_in_turn_equal_each_alone():
    """CON-04"""
    alone = losses(trainer(seed=0), 6), losses(trainer(seed=1, model={"mask": "none"}), 6)
    one, other = trainer(seed=0), trainer(seed=1, model={"mask": "none"})
    together = [(one.step().loss, other.step().loss) for _ in range(6)]
    assert tuple(map(list, zip(*together, strict=True))) == alone


def test_trainers_in_threads_equal_one_alone():
    """CON-04"""
    alone = losses(trainer(), 10)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: losses(trainer(), 10), range(4))) == [alone] * 4


def test_looking_gives_every_traced_tensor_in_float32_on_the_host(device):
    t = trainer(device=device)
    seen = t.look(*TASK.probe("decoder").inputs)
    assert "blocks.1.attention.weights" in seen
    assert all(x.dtype == torch.float32 and x.device.type == "cpu" for x in seen.values())
    assert not any(x.requires_grad for x in seen.values())

    few = t.look(*TASK.probe("decoder").inputs, only={"weights", "logits"})
    assert list(few) == ["blocks.0.attention.weights", "blocks.1.attention.weights", "logits"]
    assert all(torch.equal(few[name], seen[name]) for name in few)


# --- hot changes --------------------------------------------------------------------------

HOT_MODEL = {
    "scale": "none",
    "mask": "none",
    "window": 2,
    "pad_mask": False,
    "residual": False,
    "activation": "gelu",
}


@pytest.mark.parametrize(("field", "value"), HOT_MODEL.items())
@pytest.mark.parametrize("tied", [False, True])
def test_a_hot_change_keeps_parameters_optimiser_state_and_buffers(field, value, tied):
    """XCK-01 for the tied head."""
    t = trainer(model={"tie_embeddings": tied, "position": "sinusoidal"})
    losses(t, 3)
    parameters = {name: id(p) for name, p in t.model.named_parameters()}
    buffers = {name: id(b) for name, b in t.model.named_buffers()}
    before = weights(t)
    moments = {id(p): s["exp_avg"].clone() for p, s in t.optimizer.state.items()}
    t.change(**{field: value})

    assert getattr(t.model_config, field) == value
    assert {name: id(p) for name, p in t.model.named_parameters()} == parameters
    assert {name: id(b) for name, b in t.model.named_buffers()} == buffers
    assert (t.model.unembed.weight is t.model.embed.tokens.weight) == tied
    assert same(weights(t), before)
    assert t.step_count == 3
    held = [p for group in t.optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in held} == set(parameters.values()) and len(held) == len(parameters)
    assert all(torch.equal(s["exp_avg"], moments[id(p)]) for p, s in t.optimizer.state.items())

    t.step()  # and the optimiser moves what the new model computes with
    assert not same(weights(t), before)
    assert {id(p) for p in t.optimizer.state} == set(parameters.values())


def test_a_changed_run_computes_what_a_model_with_that_switch_computes():
    t = trainer()
    losses(t, 3)
    t.change(scale="none", activation="gelu")
    fresh = trainer(model={"scale": "none", "activation": "gelu"})
    fresh.model.load_state_dict(t.model.state_dict())
    assert fresh.evaluate() == t.evaluate()


def test_a_change_there_and_back_leaves_no_trace_in_the_curve():
    expected = losses(trainer(), 6)
    t = trainer()
    found = losses(t, 3)
    t.change(mask="none", scale="d_head")
    t.change(mask="causal", scale="sqrt_d_head")
    assert found + losses(t, 3) == expected


def test_changes_are_recorded_and_replayed():
    def run(changes):
        t, found = trainer(steps=8), []
        for step in range(8):
            for change in changes:
                if change.step == step:
                    t.change(**{change.field: change.value})
            found.append(t.step().loss)
        return t, found

    t, curve = run([Change(2, "scale", "none"), Change(5, "lr", 0.01), Change(5, "clip", None)])
    assert t.changes == [
        Change(2, "scale", "none"),
        Change(5, "lr", 0.01),
        Change(5, "clip", None),
    ]
    assert run(t.changes)[1] == curve != run([])[1]


@pytest.mark.parametrize(
    ("field", "value"),
    [("lr", 0.05), ("weight_decay", 0.5), ("clip", 0.01), ("batch_size", 7), ("warmup", 20)],
)
def test_hot_knobs_of_the_training_are_in_force_from_the_next_step(field, value):
    t, usual = trainer(), trainer()
    losses(t, 3), losses(usual, 3)
    t.change(**{field: value})
    steps = t.step(), usual.step()
    expected = {"lr": 0.05, "warmup": 1e-3 * 4 / 21}.get(field, 1e-3)
    assert steps[0].lr == pytest.approx(expected)
    assert (steps[0].tokens != steps[1].tokens) == (field == "batch_size")
    assert not same(weights(t), weights(usual))


def test_fewer_steps_end_the_run_and_more_prolong_it():
    t = trainer(steps=4)
    assert len(list(t)) == 4
    t.change(steps=6)
    assert len(list(t)) == 2
    t.change(steps=3)
    assert list(t) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_layers": 3}, "n_layers cannot change while a run goes on; only scale, .* can"),
        ({"seed": 3, "scale": "none"}, "seed cannot change while a run goes on"),
        ({"optimizer": "sgd"}, "optimizer cannot change"),
        ({"heads": 3}, "heads cannot change"),
        ({"scale": "magic"}, "scale='magic': choose one of"),
        ({"scale": "none", "lr": -1.0}, "lr=-1.0: must be at least"),
        ({"lr": 0.1, "window": 0}, "window=0: must be at least 1"),
        ({"warmup": 300}, "warmup=300 must be below steps=300"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(values, message):
    t = trainer()
    losses(t, 2)
    before = t.model, t.model_config, t.config, list(t.changes)
    with pytest.raises(ValueError, match=message):
        t.change(**values)
    assert (t.model, t.model_config, t.config, list(t.changes)) == before
    assert losses(t, 2) == losses(trainer(), 4)[2:]


# --- divergence ---------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_learning_rate_far_too_high_ends_the_run_with_a_reason(optimizer, device):
    """UI-03: the default model, lr 1000, no clipping; the curve holds finite points only."""
    t = trainer(
        TASKS["reverse"](),
        device,
        {"d_model": 64, "n_heads": 4},
        lr=1e3,
        clip=None,
        optimizer=optimizer,
    )
    curve = []
    with pytest.raises(Diverged) as end:
        for step in t:
            curve.append(step.loss)
    assert 2 <= end.value.step <= 6
    assert len(curve) == t.step_count == end.value.step - 1
    assert all(math.isfinite(loss) for loss in curve)
    assert all(p.isfinite().all() for p in t.parameters)
    assert end.value.lr == 1e3
    assert str(end.value) == (
        f"diverged at step {end.value.step} (learning rate 1000): {end.value.reason}"
    )
    assert "no longer finite" in end.value.reason


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
def test_an_infinite_weight_ends_the_run_at_that_step(norm):
    """UI-03"""
    t = trainer(model={"norm": norm}, lr=0.01)
    assert all(math.isfinite(loss) for loss in losses(t, 5))
    with torch.no_grad():
        t.model.blocks[0].ffn.inner.weight[0, 0] = math.inf
    before = weights(t)
    with pytest.raises(Diverged, match=r"diverged at step 6 \(learning rate 0.01\): the (loss|gr)"):
        t.step()
    assert same(weights(t), before)  # the update was not made
    assert t.step_count == 5
    with pytest.raises(Diverged, match="diverged at step 6"):
        t.step()
    assert t.step_count == 5 and t.diverged is not None
    assert math.isfinite(trainer().step().loss)  # Reset: a new trainer is not affected


def test_a_gradient_that_is_not_finite_is_named():
    t = trainer()
    parameter = t.model.unembed.weight
    parameter.register_hook(lambda grad: grad * math.nan)
    with pytest.raises(Diverged, match="the gradient is no longer finite"):
        t.step()
    assert parameter.isfinite().all()


# --- what fits together -------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_task_trains_in_every_architecture_or_refuses_by_name(name, architecture, device):
    task = TASKS[name]()
    model = {"architecture": architecture, "d_model": 8, "n_layers": 1}
    form = form_of(architecture)
    if form not in task.architectures:
        with pytest.raises(ValueError, match=f"architecture='{architecture}' .*task {name}"):
            trainer(task, device, model)
        return
    t = trainer(task, device, model, batch_size=4)
    assert all(math.isfinite(loss) for loss in losses(t, 2))
    assert 0 <= t.evaluate(task.validation(form, 4)).accuracy <= 1


def test_a_model_that_cannot_read_its_task_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"vocab_size=9: task reverse has 6 tokens"):
        Trainer(ModelConfig(vocab_size=9), TASK)
    with pytest.raises(ValueError, match=r"max_len=5: task reverse needs 8 positions"):
        Trainer(ModelConfig(vocab_size=6, max_len=5), TASK)


def test_training_learns_on_every_device(device):
    t = trainer(device=device, lr=0.01, steps=60)
    curve = [step.loss for step in t]
    assert sum(curve[-5:]) < 0.5 * sum(curve[:5])
    on_cpu = losses(trainer(lr=0.01), 3)
    assert curve[:3] == pytest.approx(on_cpu, rel=1e-3)
