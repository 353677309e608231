"""Masks against two Python loops, and the numbers made from them."""

import pytest
import torch

from core.config import ARCHITECTURES, ModelConfig
from core.config import MASKS as CHOICES
from core.forms import RECURRENT
from core.masks import MASKS, allowed_keys, as_bias, everything, hide_padding, reachable
from core.model import build_model
from core.trace import Recorder

CPU = torch.device("cpu")
NAMES = tuple(MASKS)


def may_see(mask: str, window: int, query: int, key: int) -> bool:
    """The rule, said once more and slowly."""
    if mask == "none":
        return True
    if mask == "causal":
        return key <= query
    return query - window < key <= query


@pytest.mark.parametrize("mask", NAMES)
@pytest.mark.parametrize("window", [1, 2, 3, 6, 7])
def test_mask_equals_two_loops(mask, window, device):
    seen = allowed_keys(MASKS[mask](window), 6, 6, torch.device(device))
    expected = [[may_see(mask, window, i, j) for j in range(6)] for i in range(6)]
    assert seen.tolist() == expected
    assert seen.device.type == device


def test_registry_and_legal_names_agree():
    assert set(MASKS) | {"auto"} == set(CHOICES)


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a not in RECURRENT])
@pytest.mark.parametrize("mask", CHOICES)
def test_auto_is_causal_unless_an_encoder_reads_both_ways(architecture, mask):
    usual = "none" if architecture in ("encoder", "vit") else "causal"
    config = ModelConfig(architecture=architecture, mask=mask)
    assert config.mask == mask
    assert config.mask_rule == (usual if mask == "auto" else mask)
    assert ModelConfig(architecture=architecture).mask == "auto"


@pytest.mark.parametrize("architecture", RECURRENT)
@pytest.mark.parametrize("mask", CHOICES)
def test_a_recurrent_net_sees_what_it_has_read_whatever_the_mask(architecture, mask):
    assert ModelConfig(architecture=architecture, mask=mask).mask_rule == "causal"


@pytest.mark.parametrize("mask", NAMES)
@pytest.mark.parametrize("n_query", [1, 2, 5])
def test_fewer_queries_are_the_last_of_the_keys(mask, n_query):
    """A query that asks alone sees what it sees among all the others."""
    whole = allowed_keys(MASKS[mask](2), 5, 5, CPU)
    assert torch.equal(allowed_keys(MASKS[mask](2), n_query, 5, CPU), whole[5 - n_query :])


@pytest.mark.parametrize("mask", NAMES)
@pytest.mark.parametrize("n_layers", [1, 2, 3, 9])
def test_what_reaches_a_position_equals_following_every_path(mask, n_layers):
    config = ModelConfig(mask=mask, window=3, n_layers=n_layers)
    found = reachable(config, 8)
    for query in range(8):
        read = {query}
        for _ in range(n_layers):
            read = {key for at in read for key in range(8) if may_see(mask, 3, at, key)}
        assert set(found[query].nonzero().flatten().tolist()) == read


@pytest.mark.parametrize("mask", NAMES)
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_what_reaches_a_position_equals_what_moves_the_logits(mask, n_layers, randomise):
    config = ModelConfig(
        vocab_size=9, max_len=8, d_model=8, n_heads=2, n_layers=n_layers, mask=mask, window=3
    )
    model = randomise(build_model(config)).double()
    tokens = torch.arange(1, 9)[None]
    usual, found = model(tokens), reachable(config, 8)
    for key in range(8):
        changed = tokens.clone()
        changed[0, key] = changed[0, key] % 8 + 1
        moved = (model(changed) - usual).abs().amax(-1)[0] > 1e-12
        assert torch.equal(moved, found[:, key])


def test_window_counts_the_token_itself():
    """MSK-04"""
    keys_per_row = allowed_keys(MASKS["window"](3), 6, 6, CPU).sum(1)
    assert keys_per_row.tolist() == [1, 2, 3, 3, 3, 3]


def test_window_of_one_is_the_identity_and_a_long_one_is_causal():
    """MSK-04"""
    assert torch.equal(allowed_keys(MASKS["window"](1), 6, 6, CPU), torch.eye(6, dtype=torch.bool))
    causal = allowed_keys(MASKS["causal"](1), 6, 6, CPU)
    for window in (6, 7, 100):
        assert torch.equal(allowed_keys(MASKS["window"](window), 6, 6, CPU), causal)


@pytest.mark.parametrize(("mask", "expected"), [("causal", [1, 2, 2, 2]), ("none", [2, 2, 2, 2])])
def test_padding_hides_keys_and_no_queries(mask, expected):
    """MSK-03"""
    real = torch.tensor([[5, 7, 0, 0]]) != 0
    seen = hide_padding(allowed_keys(MASKS[mask](1), 4, 4, CPU), real)
    assert seen.shape == (1, 1, 4, 4)
    assert seen.sum(-1).flatten().tolist() == expected


@pytest.mark.parametrize("mask", ["causal", "none"])
def test_what_stands_at_padded_places_changes_no_real_position(mask, randomise):
    """MSK-03"""
    config = ModelConfig(
        vocab_size=9, max_len=4, d_model=8, n_heads=2, mask=mask, position="sinusoidal"
    )
    model = randomise(build_model(config)).double()
    padded = torch.tensor([[5, 7, 0, 0]])
    short = torch.tensor([[5, 7]])
    assert torch.allclose(model(padded)[:, :2], model(short), rtol=0, atol=1e-12)

    # The embedding of padding itself is of no consequence either.
    before = model(padded)[:, :2]
    with torch.no_grad():
        model.embed.tokens.weight[0] += 10.0
    assert torch.allclose(model(padded)[:, :2], before, rtol=0, atol=1e-12)


def test_pad_mask_off_lets_padding_in(randomise):
    config = ModelConfig(vocab_size=9, max_len=4, d_model=8, n_heads=2, mask="none", pad_mask=False)
    model = randomise(build_model(config)).double()
    padded, short = torch.tensor([[5, 7, 0, 0]]), torch.tensor([[5, 7]])
    assert (model(padded)[:, :2] - model(short)).abs().max() > 1e-6


def test_equal_scores_share_the_visible_keys():
    """XMS-01"""
    bias = as_bias(allowed_keys(MASKS["causal"](1), 4, 4, CPU), 0.0, torch.float64)
    weights = bias.added.softmax(-1)
    rows = [[1 / n if key < n else 0 for key in range(4)] for n in range(1, 5)]
    assert torch.allclose(weights, torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_hidden_cells_are_finite_leave_room_and_vanish(dtype):
    """NUM-01"""
    bias = as_bias(allowed_keys(MASKS["causal"](1), 4, 4, CPU), 0.0, dtype)
    assert bias.added.dtype == dtype
    assert bias.added.isfinite().all()
    # The lowest score that a query could give still does not overflow.
    assert (bias.added + torch.finfo(dtype).min / 2).isfinite().all()
    weights = (bias.added + 100 * torch.eye(4, dtype=dtype)).float().softmax(-1)
    assert weights.triu(1).abs().max() == 0


@pytest.mark.parametrize("position", [0.0, torch.randn(1, 2, 4, 4, dtype=torch.float64)])
@pytest.mark.parametrize("padded", [False, True])
def test_bias_keeps_to_what_the_fused_kernel_takes(position, padded):
    seen = allowed_keys(everything, 4, 4, CPU)
    if padded:
        seen = hide_padding(seen, torch.tensor([[True, True, False, False]] * 3))
    bias = as_bias(seen, position, torch.float64)
    assert bias.added.ndim in (2, 4)
    assert not bias.added.requires_grad
    assert bias.sees.flatten().unique().tolist() == [1.0]


def test_query_without_a_visible_key_is_known():
    real = torch.tensor([[False, False, True, True]])
    seen = hide_padding(allowed_keys(MASKS["causal"](1), 4, 4, CPU), real)
    bias = as_bias(seen, 0.0, torch.float32)
    assert bias.sees.flatten().tolist() == [0.0, 0.0, 1.0, 1.0]


def test_cross_attention_reads_the_real_source_whole_and_nothing_else():
    """MSK-06"""
    config = ModelConfig(
        vocab_size=9, max_len=4, d_model=8, n_heads=2, architecture="encoder-decoder"
    )
    model = build_model(config).double()
    with torch.no_grad():
        for block in model.blocks:
            block.cross.q.weight.zero_()  # equal scores
    source, target = torch.tensor([[5, 7, 0, 0]]), torch.tensor([[1, 2, 3]])
    trace = Recorder()
    logits = model(source, target, trace)
    for block in range(2):
        weights = trace.seen[f"blocks.{block}.cross.weights"]
        expected = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)
        assert torch.equal(weights, expected.expand(1, 2, 3, 4))

    assert torch.allclose(model(torch.tensor([[5, 7]]), target), logits, rtol=0, atol=1e-12)
    other = model(torch.tensor([[5, 6, 0, 0]]), target)
    assert (other[:, 0] - logits[:, 0]).abs().max() > 1e-6
