"""Measurements against hand-made examples whose answer is known."""

import math

import pytest
import torch

from core.config import ModelConfig
from core.masks import MASKS, allowed_keys, as_bias
from core.measure import (
    entropy_share,
    free_running_accuracy,
    future_influence,
    largest_weight,
    read_mask,
    score_spread,
    spread_at_start,
    spread_in_theory,
)
from core.model import build_model
from core.tasks import IGNORED, TASKS, Batch
from core.trace import Recorder

CAUSAL = allowed_keys(MASKS["causal"](1), 4, 4, torch.device("cpu"))[None, None]


def even(seen: torch.Tensor) -> torch.Tensor:
    return seen / seen.sum(-1, keepdim=True).clamp(min=1)


def test_an_even_look_has_all_the_entropy_and_a_sharp_one_none():
    sharp = torch.eye(4)[None, None]
    weights = torch.cat([even(CAUSAL), sharp], dim=1)
    assert entropy_share(weights, CAUSAL).tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


def test_entropy_equals_its_definition():
    weights = torch.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0.5, 0.25, 0.25]])[None, None]
    seen = CAUSAL[..., :3, :3]
    two = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)) / math.log(2)
    three = -(0.5 * math.log(0.5) + 0.5 * math.log(0.25)) / math.log(3)
    assert entropy_share(weights, seen).item() == pytest.approx((two + three) / 2, rel=1e-5)


def test_largest_weight_is_the_mean_over_rows_with_a_choice():
    weights = torch.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0.5, 0.25, 0.25]])[None, None]
    assert largest_weight(weights, CAUSAL[..., :3, :3]).item() == pytest.approx(0.625)


def test_rows_that_see_nothing_or_one_key_are_left_out():
    seen = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    seen[..., 1, 0] = True  # row 1 has no choice
    seen[..., 2, :2] = True
    weights = even(seen)
    assert entropy_share(weights, seen).item() == pytest.approx(1.0)
    assert largest_weight(weights, seen).item() == pytest.approx(0.5)
    nothing = torch.zeros_like(seen)
    for measure in (entropy_share, largest_weight):
        assert measure(even(nothing), nothing).tolist() == [0.0]


def test_rows_that_all_see_one_key_only_give_it_all_their_weight():
    own = torch.eye(4, dtype=torch.bool)[None, None]
    assert largest_weight(even(own), own).tolist() == [1.0]
    assert entropy_share(even(own), own).tolist() == [0.0]


def test_heads_and_rows_of_a_batch_are_averaged_apart():
    weights = torch.stack([torch.stack([even(CAUSAL)[0, 0], torch.eye(4)])] * 3)
    share = entropy_share(weights, CAUSAL.expand(3, 1, 4, 4))
    assert share.tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_visible_keys_are_read_off_the_masked_scores(dtype):
    bias = as_bias(CAUSAL[0, 0], 0.0, dtype)
    scores = 100 * torch.randn(2, 3, 4, 4).to(dtype)
    assert torch.equal(read_mask(scores + bias.added), CAUSAL.expand(2, 3, 4, 4))


def test_spread_counts_visible_cells_only():
    scores = torch.full((1, 1, 4, 4), 1e6)
    scores[CAUSAL] = torch.tensor([1.0, 3.0] * 5)
    assert score_spread(scores, CAUSAL) == pytest.approx(1.0)
    assert score_spread(scores, torch.zeros_like(CAUSAL)) == 0.0


@pytest.mark.parametrize("d_head", [4, 16, 128])
def test_theory_of_the_spread_against_random_vectors(d_head):
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 400, d_head, generator=generator)
    for scale in (1.0, d_head**-0.5):
        scores = q @ k.transpose(-2, -1) * scale
        measured = score_spread(scores, torch.ones_like(scores, dtype=torch.bool))
        assert measured == pytest.approx(spread_in_theory(d_head, scale), rel=0.05)


STREAMS = {
    "post, first block": ({"norm": "post"}, "blocks.0.attention"),
    "post, second block": ({"norm": "post"}, "blocks.1.attention"),
    "pre": ({"norm": "pre"}, "blocks.0.attention"),
    "none, first block": ({"norm": "none"}, "blocks.0.attention"),
    "encoder": ({"architecture": "encoder-decoder"}, "encoder.blocks.0.attention"),
    "cross": ({"architecture": "encoder-decoder"}, "blocks.1.cross"),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("init", ["xavier", "gpt2", "torch"])
def test_theory_of_a_models_spread_is_the_root_mean_square_of_its_scores(init, position, stream):
    """Over models with other weights: what all cells of one model share is no spread there."""
    knobs, name = STREAMS[stream]
    config = ModelConfig(
        vocab_size=200, max_len=40, d_model=64, init=init, position=position, scale="none", **knobs
    )
    inputs = torch.arange(1, 41)[None], torch.arange(100, 140)[None]
    inputs = inputs if config.architecture == "encoder-decoder" else inputs[:1]
    squares = []
    for seed in range(12):
        trace = Recorder()
        build_model(config, seed)(*inputs, trace)
        squares.append(trace.seen[f"{name}.scaled"].square().mean())
    measured = torch.stack(squares).mean().sqrt().item()
    assert measured == pytest.approx(spread_at_start(config, name), rel=0.15)


@pytest.mark.parametrize("knobs", [{"norm": "none"}, {"norm": "post", "residual": False}])
def test_theory_is_silent_where_the_stream_has_been_through_a_block(knobs):
    config = ModelConfig(**knobs)
    assert spread_at_start(config) is not None
    assert spread_at_start(config, "blocks.1.attention") is None


# --- the leak -----------------------------------------------------------------------------


def small(**knobs) -> ModelConfig:
    return ModelConfig(**({"vocab_size": 9, "max_len": 6, "d_model": 8, "n_heads": 2} | knobs))


TOKENS = torch.tensor([[1, 2, 3, 4, 5, 8], [8, 7, 6, 5, 4, 3]])
SOURCE = torch.tensor([[6, 7, 8], [1, 2, 3]])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_future_influence_is_zero_unless_the_mask_leaks(mask, architecture, randomise):
    """TRN-06"""
    model = randomise(build_model(small(mask=mask, architecture=architecture)))
    inputs = (SOURCE, TOKENS) if architecture == "encoder-decoder" else (TOKENS,)
    influence = future_influence(model, inputs)
    assert influence > 1e-3 if mask == "none" else influence <= 1e-6


def test_future_influence_of_a_single_token_is_nothing():
    model = build_model(small(mask="none"))
    assert future_influence(model, (TOKENS[:, :1],)) == 0.0


def test_future_influence_of_logits_that_are_not_finite_is_not_a_number(randomise):
    model = randomise(build_model(small()))
    with torch.no_grad():
        model.unembed.weight[0, 0] = math.nan
    assert math.isnan(future_influence(model, (TOKENS,)))


class Successor(torch.nn.Module):
    """Predicts the token after the last one it reads, or with `cheat` reads the answer."""

    max_len = 6

    def __init__(self, cheat: bool = False) -> None:
        super().__init__()
        self.cheat = cheat

    def forward(self, tokens, cache=None):
        answer = tokens % 8 + 1
        if self.cheat:  # looks at the next token where there is one, and guesses at the end
            answer = torch.cat([tokens[:, 1:], torch.ones_like(tokens[:, :1])], dim=1)
        return torch.nn.functional.one_hot(answer, 9).float()


class Model(Successor, build_model(small()).__class__):
    """Passes for a transformer where one is asked for; what it reads is read again each time."""

    may_see = staticmethod(MASKS["none"](1))

    def __init__(self, cheat: bool = False) -> None:
        torch.nn.Module.__init__(self)
        self.cheat = cheat


def counting_up() -> Batch:
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8]])
    targets = tokens % 8 + 1
    targets[:, :2] = IGNORED
    return Batch((tokens,), targets)


def test_free_running_accuracy_of_a_model_that_knows_and_of_one_that_reads_ahead():
    """TRN-06"""
    assert free_running_accuracy(Model(), counting_up()) == 1.0
    assert free_running_accuracy(Model(cheat=True), counting_up()) < 0.2


def test_free_running_accuracy_counts_scored_tokens_only():
    batch = counting_up()
    batch.targets[0, 3:] = 7  # wrong for a model that counts up, at 3 of 8 places but one
    assert free_running_accuracy(Model(), batch) == pytest.approx(6 / 8)


def test_free_running_accuracy_of_nothing_scored():
    """XNU-02"""
    batch = counting_up()
    batch.targets.fill_(IGNORED)
    assert free_running_accuracy(Model(), batch) is None


@pytest.mark.parametrize("name", ["reverse", "sort", "recall", "add", "text"])
@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
def test_free_running_accuracy_of_every_task_is_a_share(name, architecture):
    task = TASKS[name]()
    config = ModelConfig.for_task(task, architecture=architecture, d_model=8, n_heads=2, n_layers=1)
    accuracy = free_running_accuracy(build_model(config), task.validation(architecture, 4))
    assert 0 <= accuracy <= 1


def test_future_influence_of_a_model_that_is_not_finite_is_not_a_number():
    model = build_model(small(mask="none"))
    with torch.no_grad():
        model.unembed.weight[0, 0] = math.nan
    assert math.isnan(future_influence(model, (TOKENS,)))
