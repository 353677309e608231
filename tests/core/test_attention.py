"""Attention against PyTorch's own, and the two ways of running it against each other."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from core.attention import (
    SCALES,
    CrossAttention,
    SelfAttention,
    attention,
    attention_spelled_out,
    merge_heads,
    split_heads,
)
from core.config import SCALES as NAMES
from core.config import ModelConfig
from core.masks import MASKS, Bias, allowed_keys, as_bias, everything, hide_padding
from core.positions import Position
from core.trace import NO_TRACE, Recorder

CPU = torch.device("cpu")
LENGTHS = [7, 4, 1]  # real tokens per row of a batch; the rest is padding


def make_bias(mask="causal", window=3, lengths=None, dtype=torch.float64, device="cpu") -> Bias:
    seen = allowed_keys(MASKS[mask](window), 7, 7, torch.device(device))
    if lengths:
        seen = hide_padding(seen, real_tokens(lengths).to(device))
    return as_bias(seen, 0.0, dtype)


def real_tokens(lengths) -> torch.Tensor:
    return torch.arange(7) < torch.tensor(lengths)[:, None]


def randn(*shape, seed=0, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def slow_attention(q, k, v, seen, scale):
    """Equation 1 for one head, one query and one key at a time, in Python numbers."""
    rows = []
    for i in range(len(q)):
        scores = {j: float(q[i] @ k[j]) * scale for j in range(len(k)) if seen[i][j]}
        top = max(scores.values(), default=0.0)
        exponentials = {j: math.exp(score - top) for j, score in scores.items()}
        total = sum(exponentials.values())
        row = torch.zeros(v.shape[-1], dtype=v.dtype)
        for j, e in exponentials.items():
            row += e / total * v[j]
        rows.append(row)
    return torch.stack(rows)


# --- the formula --------------------------------------------------------------------------


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("lengths", [None, [7, 4, 1]])
@pytest.mark.parametrize("path", [attention, attention_spelled_out])
def test_attention_equals_python_loops(mask, lengths, path):
    q, k, v = randn(3, 3, 2, 7, 4)
    bias = make_bias(mask, lengths=lengths)
    z = path(q, k, v, bias, 0.5)
    seen = (bias.added > -1).expand(3, 1, 7, 7)
    for batch in range(3):
        for head in range(2):
            expected = slow_attention(
                q[batch, head], k[batch, head], v[batch, head], seen[batch, 0].tolist(), 0.5
            )
            assert torch.allclose(z[batch, head], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scale", [1.0, 0.25, 1 / 16])
@pytest.mark.parametrize("lengths", [None, [7, 4, 0]])
def test_looking_does_not_change_what_is_seen_in_float32(mask, scale, lengths, device):
    """To 1e-5 of the size of the output, per call."""
    q, k, v = (randn(3, 3, 4, 7, 16, dtype=torch.float32) * 2).to(device)
    bias = make_bias(mask, lengths=lengths, dtype=torch.float32, device=device)
    fused = attention(q, k, v, bias, scale)
    looked = attention(q, k, v, bias, scale, Recorder())
    assert (fused - looked).abs().max() <= 1e-5 * fused.abs().max()


def test_a_watching_trace_sees_the_four_stages():
    q, k, v = randn(3, 2, 2, 7, 4)
    trace = Recorder()
    z = attention(q, k, v, make_bias("causal"), 0.5, trace)
    assert list(trace.seen) == ["scores", "scaled", "masked", "weights"]
    seen = trace.seen
    assert torch.equal(seen["scores"], q @ k.transpose(-2, -1))
    assert torch.equal(seen["scaled"], 0.5 * seen["scores"])
    assert torch.equal(seen["weights"].triu(1), torch.zeros(2, 2, 7, 7, dtype=torch.float64))
    assert torch.allclose(seen["weights"].sum(-1), torch.ones(2, 2, 7, dtype=torch.float64))
    assert torch.equal(seen["weights"] @ v, z)


def test_nobody_watching_takes_the_fused_kernel(monkeypatch):
    calls = []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or fused(*a, **k)
    )
    q, k, v = randn(3, 1, 2, 7, 4)
    attention(q, k, v, make_bias(), 0.5, NO_TRACE)
    assert calls == [1]
    attention(q, k, v, make_bias(), 0.5, Recorder())
    assert calls == [1]


# --- a query that may see nothing ---------------------------------------------------------


@pytest.mark.parametrize("trace", [NO_TRACE, Recorder()], ids=["fused", "looking"])
def test_a_query_that_sees_nothing_gives_a_zero_row_and_finite_gradients(trace, device64):
    """MSK-01"""
    q, k, v = (t.to(device64).requires_grad_() for t in randn(3, 2, 2, 7, 4))
    bias = make_bias("causal", lengths=[7, 0], device=device64)
    z = attention(q, k, v, bias, 0.5, trace)
    assert z[1].abs().max() == 0
    if trace.watching:
        assert trace.seen["weights"][1].abs().max() == 0
    z.square().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
        assert tensor.grad[1].abs().max() == 0


def test_window_and_padding_together_leave_single_rows_empty():
    """MSK-01"""
    bias = make_bias("window", window=2, lengths=[3])
    q, k, v = randn(3, 1, 2, 7, 4)
    trace = Recorder()
    z = attention(q, k, v, bias, 0.5, trace)
    empty = [i for i in range(7) if i - 1 > 2]  # the window [i-1, i] lies behind token 2
    assert bias.sees.flatten().tolist() == [float(i not in empty) for i in range(7)]
    assert z[:, :, empty].abs().max() == 0
    assert torch.allclose(attention(q, k, v, bias, 0.5), z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("looking", [False, True])
def test_sequence_of_padding_leaves_the_gradients_of_the_others_alone(looking, randomise):
    """MSK-01: a whole model, a batch with and without a row that is all padding."""
    from core.model import build_model

    config = ModelConfig(vocab_size=9, max_len=4, d_model=8, n_heads=2)
    model = randomise(build_model(config)).double()

    def gradients(tokens):
        model.zero_grad()
        logits = model(tokens, Recorder() if looking else NO_TRACE)
        logits[0].square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    with_row = gradients(torch.tensor([[3, 4, 5, 6], [0, 0, 0, 0]]))
    without = gradients(torch.tensor([[3, 4, 5, 6]]))
    for a, b in zip(with_row, without, strict=True):
        assert a.isfinite().all()
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


# --- scale --------------------------------------------------------------------------------


def test_registry_and_legal_names_agree():
    assert set(SCALES) == set(NAMES)


def test_scores_are_divided_by_the_width_of_one_head():
    """ATT-02"""
    config = ModelConfig(d_model=64, n_heads=4)
    multipliers = {name: scale(config) for name, scale in SCALES.items()}
    assert multipliers == {
        "sqrt_d_head": 0.25,
        "none": 1.0,
        "d_head": 1 / 16,
        "sqrt_d_model": 0.125,
    }


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("scale", NAMES)
def test_every_scale_equals_pytorchs_attention_for_every_head_count(n_heads, scale, randomise):
    """ATT-02"""
    config = ModelConfig(d_model=64, n_heads=n_heads, scale=scale)
    layer = randomise(SelfAttention(config, Position()).double())
    trace = Recorder()
    layer(randn(2, 7, 64), make_bias("causal"), trace)
    d_head = 64 // n_heads
    expected = {"none": 1.0, "sqrt_d_head": d_head**-0.5, "d_head": 1 / d_head}
    z = F.scaled_dot_product_attention(
        *(trace.seen[name] for name in "qkv"),
        is_causal=True,
        scale=expected.get(scale, 1 / 8),
    )
    assert torch.allclose(trace.seen["z"], z, rtol=0, atol=1e-9)


# --- the layers against nn.MultiheadAttention ---------------------------------------------


def carried_over(ours: SelfAttention) -> nn.MultiheadAttention:
    """PyTorch's layer with our weights."""
    d_model = ours.out.in_features
    theirs = nn.MultiheadAttention(d_model, ours.n_heads, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.in_proj_bias.copy_(ours.qkv.bias)
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
    return theirs


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("lengths", [None, [7, 4, 1]])
@pytest.mark.parametrize("n_heads", [1, 3])
def test_self_attention_equals_multihead_attention(mask, lengths, n_heads, randomise):
    """The output and, where every query sees something, the weights."""
    config = ModelConfig(d_model=12, n_heads=n_heads)
    ours = randomise(SelfAttention(config, Position()).double())
    theirs = carried_over(ours)
    x = randn(3, 7, 12)
    hidden = ~allowed_keys(MASKS[mask](3), 7, 7, CPU)  # True is hidden over there
    padding = ~real_tokens(lengths) if lengths else None
    bias = make_bias(mask, lengths=lengths)
    has_keys = (bias.sees == 1).expand(3, 1, 7, 1)[:, 0]

    # Asked for its weights it gives NaN on rows without a key; without, zero rows or NaN.
    expected, weights = theirs(
        x, x, x, attn_mask=hidden, key_padding_mask=padding, average_attn_weights=False
    )
    trace = Recorder()
    looked, fused = ours(x, bias, trace), ours(x, bias)
    for result in (looked, fused):
        assert result.isfinite().all()
        difference = (result - expected)[has_keys.expand_as(result)]
        assert difference.abs().max() < 1e-9
        empty = result[~has_keys[..., 0]]
        assert torch.equal(empty, ours.out.bias.expand_as(empty))
    rows = has_keys[:, None].expand_as(weights)
    assert (trace.seen["weights"] - weights)[rows].abs().max() < 1e-9
    assert (trace.seen["weights"][~rows] == 0).all()


@pytest.mark.parametrize("lengths", [None, [7, 4, 1]])
def test_cross_attention_equals_multihead_attention(lengths, randomise):
    ours = randomise(CrossAttention(ModelConfig(d_model=12, n_heads=3)).double())
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.kv.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.kv.bias]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    x, memory = randn(3, 5, 12), randn(3, 7, 12, seed=1)
    seen = allowed_keys(everything, 5, 7, CPU)
    if lengths:
        seen = hide_padding(seen, real_tokens(lengths))
    bias = as_bias(seen, 0.0, torch.float64)
    padding = ~real_tokens(lengths) if lengths else None
    expected, _ = theirs(x, memory, memory, key_padding_mask=padding)
    assert (ours(x, memory, bias) - expected).abs().max() < 1e-9
    assert (ours(x, memory, bias, Recorder()) - expected).abs().max() < 1e-9


def test_heads_are_cut_from_neighbouring_columns():
    x = torch.arange(12.0).reshape(1, 2, 6)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 2)
    assert heads[0, 1].tolist() == [[2.0, 3.0], [8.0, 9.0]]
    assert torch.equal(merge_heads(heads), x)


# --- what cannot go wrong -----------------------------------------------------------------


def test_displayed_weights_sum_to_one_in_training_mode(randomise):
    """ATT-03: there is no dropout, so nothing comes between the softmax and the picture."""
    layer = randomise(SelfAttention(ModelConfig(d_model=8, n_heads=2), Position()).double())
    layer.train()
    one_key = as_bias(allowed_keys(everything, 1, 1, CPU), 0.0, torch.float64)
    trace = Recorder()
    layer(randn(4, 1, 8), one_key, trace)
    assert (trace.seen["weights"] == 1).all()
    layer(randn(4, 7, 8), make_bias("causal"), trace)
    assert torch.allclose(trace.seen["weights"].sum(-1), torch.ones(4, 2, 7).double())


def test_training_and_evaluation_mode_give_the_same_bits(randomise):
    """ATT-04"""
    from core.model import build_model

    model = randomise(build_model(ModelConfig(vocab_size=9, max_len=6, d_model=8, n_heads=2)))
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6]])
    first = model.eval()(tokens)
    assert torch.equal(first, model(tokens))
    assert torch.equal(first, model.train()(tokens))


def test_looking_stores_nothing_on_the_model(randomise):
    """Models are shared between visitors: a stored tensor would be another one's picture."""
    layer = randomise(SelfAttention(ModelConfig(d_model=8, n_heads=2), Position()).double())
    before = {name: set(vars(module)) for name, module in layer.named_modules()}
    layer(randn(2, 7, 8), make_bias(), Recorder())
    assert {name: set(vars(module)) for name, module in layer.named_modules()} == before
