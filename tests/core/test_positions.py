"""Position schemes against their formulas."""

import math

import pytest
import torch

from core.attention import attention
from core.config import POSITIONS as NAMES
from core.config import ModelConfig
from core.masks import MASKS, allowed_keys, as_bias
from core.model import build_model
from core.positions import (
    POSITIONS,
    ALiBi,
    Learned,
    Position,
    Rotary,
    Sinusoidal,
    alibi_slopes,
    sinusoids,
)
from core.trace import Recorder


def test_registry_and_legal_names_agree():
    assert set(POSITIONS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_scheme_overrides_at_most_one_of_the_three_moments(name):
    scheme = type(POSITIONS[name](ModelConfig()))
    own = [m for m in ("add", "rotate", "bias") if getattr(scheme, m) is not getattr(Position, m)]
    expected = {"none": [], "rotary": ["rotate"], "alibi": ["bias"]}
    assert own == expected.get(name, ["add"])


# --- sinusoidal ---------------------------------------------------------------------------


@pytest.mark.parametrize("d_model", [4, 5, 29, 64])
def test_sinusoids_equal_the_formula_in_float64(d_model):
    """PE-01: an odd width loses its last cosine column."""
    table = sinusoids(50, d_model)
    assert table.shape == (50, d_model)
    for position in range(50):
        for column in range(d_model):
            angle = position / 10_000 ** (2 * (column // 2) / d_model)
            wave = math.cos(angle) if column % 2 else math.sin(angle)
            assert abs(table[position, column].item() - wave) < 1e-7


def test_sinusoids_at_position_one():
    """PE-01"""
    row = sinusoids(2, 4)[1]
    assert torch.allclose(row, torch.tensor([0.84147, 0.54030, 0.01000, 0.99995]), atol=1e-5)


@pytest.mark.parametrize("d_model", [5, 29])
def test_odd_width_works_with_sinusoids(d_model):
    """PE-01"""
    config = ModelConfig(vocab_size=7, max_len=10, d_model=d_model, n_heads=1, n_layers=1)
    assert build_model(config)(torch.ones(1, 10, dtype=torch.long)).shape == (1, 10, 7)


def test_sinusoids_go_on_past_the_table(device):
    short, long = Sinusoidal(4, 6).to(device), Sinusoidal(9, 6).to(device)
    x = torch.zeros(1, 9, 6, device=device)
    assert torch.equal(short.add(x), long.add(x))


# --- learned ------------------------------------------------------------------------------


def test_learned_positions_refuse_a_longer_sequence_with_both_numbers():
    """PE-04"""
    config = ModelConfig(vocab_size=7, max_len=8, d_model=8, n_heads=2, position="learned")
    model = build_model(config)
    assert model(torch.ones(1, 8, dtype=torch.long)).shape == (1, 8, 7)
    with pytest.raises(ValueError, match=r"length 9 .*max_len=8"):
        model(torch.ones(1, 9, dtype=torch.long))


def test_learned_positions_add_their_rows():
    scheme = Learned(5, 2)
    with torch.no_grad():
        scheme.table.copy_(torch.arange(10.0).reshape(5, 2))
    assert torch.equal(scheme.add(torch.zeros(2, 3, 2))[1], torch.arange(6.0).reshape(3, 2))


@pytest.mark.parametrize("position", ["sinusoidal", "none", "rotary", "alibi"])
def test_other_schemes_take_a_longer_sequence(position):
    """PE-04"""
    config = ModelConfig(vocab_size=7, max_len=8, d_model=8, n_heads=2, position=position)
    assert build_model(config)(torch.ones(1, 20, dtype=torch.long)).isfinite().all()


# --- rotary -------------------------------------------------------------------------------


def rotated(x: torch.Tensor, position: int) -> torch.Tensor:
    """A vector at one position, turned pair by pair as complex numbers."""
    d_head = x.shape[-1]
    pairs = torch.view_as_complex(x.reshape(-1, 2))
    angles = torch.tensor([position * 10_000 ** (-2 * i / d_head) for i in range(d_head // 2)])
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten()


def test_rotation_equals_multiplication_by_a_complex_number():
    x = torch.randn(2, 3, 20, 6)
    turned = Rotary(6).rotate(x)
    for batch, head, position in [(0, 0, 0), (0, 1, 1), (1, 2, 7), (1, 0, 19)]:
        expected = rotated(x[batch, head, position], position)
        assert torch.allclose(turned[batch, head, position], expected, atol=1e-5)


def test_rotary_scores_depend_on_the_distance_only(device):
    """One query and one key, put at every position: a Toeplitz matrix of scores."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 8, generator=generator).to(device)
    scheme = Rotary(8).to(device)
    turned_q = scheme.rotate(q.expand(1, 1, 40, 8))
    turned_k = scheme.rotate(k.expand(1, 1, 40, 8))
    scores = (turned_q @ turned_k.transpose(-2, -1))[0, 0].cpu()
    for distance in range(-39, 40):
        line = scores.diagonal(distance)
        assert torch.allclose(line, line[0].expand_as(line), atol=5e-5)
    assert scores[0].std() > 0.1  # and they do depend on it


def test_rotation_keeps_lengths():
    x = torch.randn(1, 1, 30, 8)
    assert torch.allclose(Rotary(8).rotate(x).norm(dim=-1), x.norm(dim=-1), atol=1e-5)


def test_rotary_refuses_an_odd_head_width_by_name():
    """PE-01"""
    with pytest.raises(ValueError, match=r"position=rotary.*d_model=12.*n_heads=4.*d_head=3"):
        ModelConfig(d_model=12, n_heads=4, position="rotary")


@pytest.mark.parametrize("moved", [False, True])
def test_rotary_tells_512_positions_apart_in_bf16(moved, device):
    """XPE-04: angles are float32 and only sines and cosines are rounded."""
    scheme = Rotary(16).to(device)
    if moved:
        scheme = scheme.to(torch.bfloat16)
    x = torch.ones(1, 1, 512, 16, dtype=torch.bfloat16, device=device)
    turned = scheme.rotate(x)
    assert turned.dtype == torch.bfloat16
    assert len(turned[0, 0].float().cpu().unique(dim=0)) == 512


def test_rotary_in_mixed_precision_equals_float32_to_bf16_rounding(device):
    """XPE-04"""
    x = torch.ones(1, 1, 512, 16, device=device)
    scheme = Rotary(16).to(device)
    exact = scheme.rotate(x)
    rounded = scheme.rotate(x.to(torch.bfloat16)).float()
    # two products and a sum, each rounded to 8 bits
    assert (exact - rounded).abs().max() < 4 * 2**-8


# --- alibi --------------------------------------------------------------------------------


def test_alibi_slopes():
    """PE-03"""
    assert alibi_slopes(8) == [2**-i for i in range(1, 9)]
    assert alibi_slopes(6) == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    assert alibi_slopes(3) == [1 / 16, 1 / 256, 1 / 4]
    assert alibi_slopes(1) == [1 / 256]


@pytest.mark.parametrize("n_heads", range(1, 17))
def test_alibi_has_a_slope_of_its_own_for_each_head(n_heads):
    slopes = alibi_slopes(n_heads)
    assert len(set(slopes)) == n_heads
    assert all(0 < slope < 1 for slope in slopes)


@pytest.mark.parametrize("n_heads", [8, 6, 3])
def test_alibi_bias_punishes_distance_in_both_directions(n_heads, device):
    """PE-03, XPE-01"""
    bias = ALiBi(n_heads).to(device).bias(5, 5)
    assert bias.shape == (1, n_heads, 5, 5)
    for head, slope in enumerate(alibi_slopes(n_heads)):
        for i in range(5):
            for j in range(5):
                assert bias[0, head, i, j].item() == pytest.approx(-slope * abs(i - j), abs=1e-9)


def test_alibi_favours_the_newest_key():
    """XPE-01"""
    scheme = ALiBi(8)
    assert scheme.bias(2, 2)[0, 0].tolist() == [[0.0, -0.5], [-0.5, 0.0]]
    bias = as_bias(
        allowed_keys(MASKS["causal"](1), 5, 5, torch.device("cpu")),
        scheme.bias(5, 5),
        torch.float32,
    )
    content = torch.ones(1, 8, 5, 4)
    trace = Recorder()
    attention(content, content, content, bias, 0.5, trace)
    last_rows = trace.seen["weights"][0, :, -1]
    assert (last_rows.diff(dim=-1) > 0).all()


def test_cross_attention_is_neither_rotated_nor_biased(randomise):
    """A decoder may read the source in any order: only the encoder knows where things stand."""
    for position in ("rotary", "alibi"):
        config = ModelConfig(
            vocab_size=9,
            max_len=6,
            d_model=8,
            n_heads=2,
            position=position,
            architecture="encoder-decoder",
        )
        model = randomise(build_model(config)).double()
        trace = Recorder()
        model(torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 2, 3]]), trace)
        seen = trace.seen
        k = model.blocks[0].cross.kv(seen["encoder.memory"])[..., :8]
        assert torch.equal(seen["blocks.0.cross.k"], k.unflatten(-1, (2, 4)).transpose(1, 2))
        assert torch.equal(seen["blocks.0.cross.masked"], seen["blocks.0.cross.scaled"])


# --- order --------------------------------------------------------------------------------


def test_without_positions_and_mask_the_model_is_blind_to_order(randomise):
    """Attention alone is permutation-equivariant."""
    config = ModelConfig(
        vocab_size=9, max_len=6, d_model=8, n_heads=2, position="none", mask="none"
    )
    model = randomise(build_model(config)).double()
    tokens, order = torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.tensor([3, 1, 5, 0, 2, 4])
    shuffled = model(tokens[:, order])
    assert torch.allclose(shuffled, model(tokens)[:, order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary", "alibi"])
def test_with_positions_order_matters(position, randomise):
    config = ModelConfig(
        vocab_size=9, max_len=6, d_model=8, n_heads=2, position=position, mask="none"
    )
    model = randomise(build_model(config)).double()
    tokens, order = torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.tensor([3, 1, 5, 0, 2, 4])
    assert (model(tokens[:, order]) - model(tokens)[:, order]).abs().max() > 1e-6
