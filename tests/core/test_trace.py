"""Looking at a forward pass, and editing it."""

import pytest
import torch

from core.config import ModelConfig
from core.model import build_model
from core.trace import NO_TRACE, Recorder

TOKENS = torch.tensor([[1, 2, 3, 4, 5]])
SOURCE = torch.tensor([[6, 7, 8]])
STAGES = ["q", "k", "v", "scores", "scaled", "masked", "weights", "z"]


@pytest.fixture
def model(randomise):
    return randomise(build_model(ModelConfig(vocab_size=9, max_len=6, d_model=8, n_heads=2)))


@pytest.fixture
def crossing(randomise):
    config = ModelConfig(
        vocab_size=9, max_len=6, d_model=8, n_heads=2, architecture="encoder-decoder"
    )
    return randomise(build_model(config))


def block(name: str, *attentions: str) -> list[str]:
    parts = ["resid_pre"]
    for attention, after in zip(attentions, ("resid_mid", "resid_mid_cross"), strict=False):
        parts += [*(f"{attention}.{stage}" for stage in STAGES), after]
    return [f"{name}.{part}" for part in (*parts, "ffn.hidden", "resid_post")]


def test_names_follow_the_module_path_in_the_order_of_the_computation(model):
    trace = Recorder()
    model(TOKENS, trace)
    expected = ["embed", *block("blocks.0", "attention"), *block("blocks.1", "attention"), "logits"]
    assert list(trace.seen) == expected


def test_names_in_an_encoder_decoder(crossing):
    trace = Recorder()
    crossing(SOURCE, TOKENS, trace)
    expected = [
        "encoder.embed",
        *block("encoder.blocks.0", "attention"),
        *block("encoder.blocks.1", "attention"),
        "encoder.memory",
        "embed",
        *block("blocks.0", "attention", "cross"),
        *block("blocks.1", "attention", "cross"),
        "logits",
    ]
    assert list(trace.seen) == expected


def test_every_name_up_to_its_last_part_is_a_module(crossing):
    trace = Recorder()
    crossing(SOURCE, TOKENS, trace)
    modules = {name for name, _ in crossing.named_modules()}
    assert {name.rpartition(".")[0] for name in trace.seen} <= modules


def test_shapes(model):
    trace = Recorder()
    logits = model(TOKENS, trace)
    seen = trace.seen
    assert seen["embed"].shape == seen["blocks.1.resid_post"].shape == (1, 5, 8)
    assert seen["blocks.0.attention.q"].shape == seen["blocks.0.attention.z"].shape == (1, 2, 5, 4)
    assert seen["blocks.0.attention.weights"].shape == (1, 2, 5, 5)
    assert seen["blocks.0.ffn.hidden"].shape == (1, 5, 32)
    assert torch.equal(seen["logits"], logits)


def test_no_trace_keeps_nothing_and_hands_back_the_very_tensor():
    assert not NO_TRACE.watching
    assert NO_TRACE("x", TOKENS) is TOKENS
    assert NO_TRACE.scope("blocks.0") is NO_TRACE
    assert not vars(NO_TRACE)


def test_two_traces_do_not_meet(model):
    """Two visitors look at one model."""
    one, other = Recorder(), Recorder()
    model(TOKENS, one)
    model(TOKENS.flip(1), other)
    assert not torch.equal(one.seen["logits"], other.seen["logits"])
    again = Recorder()
    model(TOKENS, again)
    assert torch.equal(one.seen["logits"], again.seen["logits"])


def test_an_edit_switches_a_head_off(model):
    name = "blocks.0.attention.z"

    def switch_off(z):
        z = z.clone()
        z[:, 1] = 0
        return z

    trace = Recorder({name: switch_off})
    edited = model(TOKENS, trace)
    assert trace.seen[name][:, 1].abs().max() == 0
    assert (edited - model(TOKENS)).abs().max() > 1e-4

    # The same as a head whose columns of W_o are zero.
    with torch.no_grad():
        model.blocks[0].attention.out.weight[:, 4:] = 0
    assert torch.allclose(edited, model(TOKENS), atol=1e-6)


def test_an_edit_replaces_the_weights(model):
    """A uniform look at everything, whatever was learnt; the future included."""
    uniform = Recorder(
        {"blocks.1.attention.weights": lambda weights: torch.full_like(weights, 1 / 5)}
    )
    edited = model(TOKENS, uniform)
    assert not torch.allclose(edited, model(TOKENS), atol=1e-4)
    z, v = uniform.seen["blocks.1.attention.z"], uniform.seen["blocks.1.attention.v"]
    assert torch.allclose(z, v.mean(2, keepdim=True).expand_as(z), atol=1e-6)


def test_an_edit_skips_a_block(model):
    before = Recorder()
    model(TOKENS, before)
    skip = Recorder({"blocks.1.resid_post": lambda x: before.seen["blocks.0.resid_post"]})
    edited = model(TOKENS, skip)
    assert torch.equal(edited, model.unembed(model.norm(before.seen["blocks.0.resid_post"])))


def test_an_edit_that_changes_nothing_changes_nothing(model):
    names = [
        *Recorder().seen,
        "embed",
        "blocks.0.attention.scores",
        "blocks.1.resid_post",
        "logits",
    ]
    trace = Recorder({name: lambda tensor: tensor for name in names})
    assert torch.equal(model(TOKENS, trace), model(TOKENS, Recorder()))
