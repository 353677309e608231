"""Looking at a forward pass, and editing it."""

import pytest
import torch

from core.config import ModelConfig
from core.model import build_model
from core.trace import NO_TRACE, Trace

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
    inside = [f"{attention}.{stage}" for attention in attentions for stage in STAGES]
    return [f"{name}.{part}" for part in (*inside, "ffn.hidden", "x")]


def test_names_follow_the_module_path_in_the_order_of_the_computation(model):
    trace = Trace()
    model(TOKENS, trace)
    expected = ["embed", *block("blocks.0", "attention"), *block("blocks.1", "attention"), "logits"]
    assert list(trace.seen) == expected


def test_names_in_an_encoder_decoder(crossing):
    trace = Trace()
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
    trace = Trace()
    crossing(SOURCE, TOKENS, trace)
    modules = {name for name, _ in crossing.named_modules()}
    assert {name.rpartition(".")[0] for name in trace.seen} <= modules


def test_shapes(model):
    trace = Trace()
    logits = model(TOKENS, trace)
    seen = trace.seen
    assert seen["embed"].shape == seen["blocks.1.x"].shape == (1, 5, 8)
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
    one, other = Trace(), Trace()
    model(TOKENS, one)
    model(TOKENS.flip(1), other)
    assert not torch.equal(one.seen["logits"], other.seen["logits"])
    again = Trace()
    model(TOKENS, again)
    assert torch.equal(one.seen["logits"], again.seen["logits"])


def test_an_edit_switches_a_head_off(model):
    name = "blocks.0.attention.z"

    def switch_off(z):
        z = z.clone()
        z[:, 1] = 0
        return z

    trace = Trace({name: switch_off})
    edited = model(TOKENS, trace)
    assert trace.seen[name][:, 1].abs().max() == 0
    assert (edited - model(TOKENS)).abs().max() > 1e-4

    # The same as a head whose columns of W_o are zero.
    with torch.no_grad():
        model.blocks[0].attention.out.weight[:, 4:] = 0
    assert torch.allclose(edited, model(TOKENS), atol=1e-6)


def test_an_edit_replaces_the_weights(model):
    """A uniform look at everything, whatever was learnt; the future included."""
    uniform = Trace({"blocks.1.attention.weights": lambda weights: torch.full_like(weights, 1 / 5)})
    edited = model(TOKENS, uniform)
    assert not torch.allclose(edited, model(TOKENS), atol=1e-4)
    z, v = uniform.seen["blocks.1.attention.z"], uniform.seen["blocks.1.attention.v"]
    assert torch.allclose(z, v.mean(2, keepdim=True).expand_as(z), atol=1e-6)


def test_an_edit_skips_a_block(model):
    before = Trace()
    model(TOKENS, before)
    skip = Trace({"blocks.1.x": lambda x: before.seen["blocks.0.x"]})
    edited = model(TOKENS, skip)
    assert torch.equal(edited, model.head(model.norm(before.seen["blocks.0.x"])))


def test_an_edit_that_changes_nothing_changes_nothing(model):
    names = [*Trace().seen, "embed", "blocks.0.attention.scores", "blocks.1.x", "logits"]
    trace = Trace({name: lambda tensor: tensor for name in names})
    assert torch.equal(model(TOKENS, trace), model(TOKENS, Trace()))
