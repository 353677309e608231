"""The numbers a model starts from."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from core.config import ARCHITECTURES, INITS, POSITIONS, ModelConfig
from core.init import INITS as RULES
from core.measure import read_mask, score_spread, spread_in_theory
from core.model import Transformer, build_model
from core.trace import Recorder

SEEDS = range(3)


def parameters(config: ModelConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in build_model(config, seed).named_parameters()}


def everything(**knobs) -> ModelConfig:
    """A model that has every kind of parameter, wide enough to measure spreads."""
    sizes = {"vocab_size": 200, "max_len": 100, "d_model": 96, "n_heads": 4, "n_layers": 2}
    return ModelConfig(
        **(sizes | {"position": "learned", "architecture": "encoder-decoder"} | knobs)
    )


def test_registry_and_legal_names_agree():
    assert set(RULES) == set(INITS)


# --- who decides --------------------------------------------------------------------------


@pytest.mark.parametrize("init", INITS)
def test_building_leaves_the_global_random_state_alone(init, global_random_state_untouched):
    build_model(everything(init=init))


def test_the_global_random_state_decides_nothing():
    torch.manual_seed(0)
    one = parameters(everything())
    torch.manual_seed(1)
    other = parameters(everything())
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_seed_decides():
    one, other = parameters(everything(), seed=0), parameters(everything(), seed=1)
    drawn = [name for name in one if one[name].std() > 0]
    assert drawn and not any(torch.equal(one[name], other[name]) for name in drawn)


def test_no_two_parameters_start_from_the_same_numbers():
    drawn = [p.flatten()[:90] for p in parameters(everything()).values() if p.std() > 0]
    correlations = torch.corrcoef(torch.stack(drawn)).fill_diagonal_(0)
    assert len(drawn) > 15 and correlations.abs().max() < 0.6


SWITCHES = {
    "scale": "none",
    "position": "rotary",
    "mask": "none",
    "pad_mask": False,
    "residual": False,
    "norm": "none",
    "norm_type": "rms",
    "ffn": False,
    "gated": True,
    "activation": "gelu",
    "tie_embeddings": True,
    "architecture": "decoder",
    "vocab_size": 30,
    "n_heads": 2,
}


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("field", SWITCHES)
def test_models_that_differ_in_one_switch_start_from_the_same_numbers(field, init):
    config = everything(init=init, norm="pre")
    one, other = parameters(config), parameters(replace(config, **{field: SWITCHES[field]}))
    shared = [n for n in one if n in other and one[n].shape == other[n].shape]
    if field == "gated":  # which makes the hidden layer narrower, and U(±1/√fan_in) follows it
        shared = [name for name in shared if not name.endswith("ffn.out.bias")]
    assert len(shared) >= 8
    for name in shared:
        assert torch.equal(one[name], other[name]), name


@pytest.mark.parametrize("init", ["xavier", "torch"])
def test_more_layers_leave_the_first_ones_as_they_were(init):
    config = everything(init=init)
    one, other = parameters(config), parameters(replace(config, n_layers=4))
    assert all(torch.equal(one[name], other[name]) for name in one)


# --- what is drawn ------------------------------------------------------------------------


def spread_of(parameter: torch.Tensor) -> float:
    return parameter.std(correction=0).item()


def uniform_bound(parameter: torch.Tensor) -> float:
    """The bound of a uniform distribution, from its largest value; and that it is one."""
    bound = parameter.abs().max().item()
    assert parameter.mean().abs() < 0.05 * bound
    assert spread_of(parameter) == pytest.approx(bound / math.sqrt(3), rel=0.03)
    return bound


def test_xavier_takes_each_matrix_by_itself():
    d, hidden, vocab = 96, 384, 200
    p = parameters(everything(init="xavier"))
    square = math.sqrt(6 / (d + d))
    stacked = [name for name in p if name.endswith(("qkv.weight", "kv.weight"))]
    assert len(stacked) == 6
    for name in stacked:
        for matrix in p[name].split(d):
            assert uniform_bound(matrix) == pytest.approx(square, rel=0.01)
    for name in p:
        if name.endswith(("cross.q.weight", "attention.out.weight", "cross.out.weight")):
            assert uniform_bound(p[name]) == pytest.approx(square, rel=0.01)
        if name.endswith(("ffn.inner.weight", "ffn.out.weight")):
            assert uniform_bound(p[name]) == pytest.approx(math.sqrt(6 / (d + hidden)), rel=0.01)
        if name.endswith(".bias"):
            assert (p[name] == 0).all()
    assert uniform_bound(p["unembed.weight"]) == pytest.approx(math.sqrt(6 / (d + vocab)), rel=0.01)
    assert spread_of(p["embed.tokens.weight"]) == pytest.approx(d**-0.5, rel=0.03)
    assert spread_of(p["embed.position.table"]) == pytest.approx(0.02, rel=0.03)


def test_gpt2_is_small_everywhere_and_smaller_where_a_sublayer_ends():
    p = parameters(everything(init="gpt2", n_layers=3, norm="pre"))
    ends = 0
    for name, parameter in p.items():
        if name.endswith(".bias"):
            assert (parameter == 0).all(), name
        elif "norm" in name or "around" in name:
            assert (parameter == 1).all(), name
        elif name.endswith(".out.weight"):
            ends += 1
            assert spread_of(parameter) == pytest.approx(0.02 / math.sqrt(6), rel=0.03), name
        else:
            assert spread_of(parameter) == pytest.approx(0.02, rel=0.03), name
    assert ends == 3 * (2 + 3)  # encoder: attention, ffn; decoder: attention, cross, ffn


def test_torch_draws_what_pytorchs_own_layers_draw():
    d, hidden = 96, 384
    p = parameters(everything(init="torch"))
    torch.manual_seed(0)
    own = nn.TransformerDecoderLayer(d, 4, hidden)
    twins = {
        "attention.qkv.weight": [own.self_attn.in_proj_weight],
        "attention.out.weight": [own.self_attn.out_proj.weight],
        "cross.q.weight": [own.multihead_attn.in_proj_weight],
        "cross.kv.weight": [own.multihead_attn.in_proj_weight],
        "cross.out.weight": [own.multihead_attn.out_proj.weight],
        "ffn.inner.weight": [own.linear1.weight],
        "ffn.out.weight": [own.linear2.weight],
    }
    for name, (twin,) in twins.items():
        expected = uniform_bound(twin.detach())
        assert uniform_bound(p[f"blocks.0.{name}"]) == pytest.approx(expected, rel=0.01), name
    assert p["blocks.0.ffn.inner.bias"].abs().max() == pytest.approx(d**-0.5, rel=0.05)
    assert p["blocks.0.ffn.out.bias"].abs().max() == pytest.approx(hidden**-0.5, rel=0.1)
    gated = everything(init="torch", gated=True)
    bound = parameters(gated)["blocks.0.ffn.gate.bias"].abs().max()
    assert bound == pytest.approx(d**-0.5, rel=0.05)
    for name in ("attention.qkv.bias", "attention.out.bias", "cross.q.bias", "cross.out.bias"):
        assert (p[f"blocks.0.{name}"] == 0).all()
    head = nn.Linear(d, 200, bias=False).weight.detach()
    assert uniform_bound(p["unembed.weight"]) == pytest.approx(uniform_bound(head), rel=0.01)
    assert spread_of(p["embed.tokens.weight"]) == pytest.approx(1.0, rel=0.03)
    assert spread_of(p["embed.position.table"]) == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize(("norm_type", "each"), [("layer", 2), ("rms", 1)])
def test_norms_start_as_the_plain_normalisation(norm_type, each, init):
    p = parameters(everything(init=init, norm="pre", norm_type=norm_type))
    norms = [name for name in p if "around" in name or "norm." in name]
    assert len(norms) == each * (2 * 2 + 2 * 3 + 2)
    for name in norms:
        assert (p[name] == (1 if name.endswith("weight") else 0)).all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("init", INITS)
def test_no_parameter_is_left_undrawn(architecture, position, init):
    """Layers are built on raw memory: what no rule reaches would hold whatever was there."""
    switches = {"position": position, "init": init, "norm": "pre", "gated": True}
    config = ModelConfig(d_model=8, n_heads=2, architecture=architecture, **switches)
    model = build_model(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    again = build_model(config)
    for name, parameter in again.named_parameters():
        assert parameter.isfinite().all(), name


# --- what √d_k does -----------------------------------------------------------------------


def first_scores(model: Transformer) -> tuple[float, float]:
    """The spread of the scores and of the scaled scores in the first layer."""
    vocab = model.embed.tokens.num_embeddings
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, vocab, (8, 20), generator=generator)
    trace = Recorder()
    model(tokens, trace)
    seen = trace.seen
    keys = read_mask(seen["blocks.0.attention.masked"])
    return tuple(
        score_spread(seen[f"blocks.0.attention.{stage}"], keys) for stage in ("scores", "scaled")
    )


@pytest.mark.parametrize(("d_model", "n_heads"), [(64, 4), (128, 1), (256, 1)])
@pytest.mark.parametrize("position", ["learned", "none"])
def test_xavier_scores_spread_by_the_root_of_d_k(d_model, n_heads, position):
    """Without scaling about √d_k, with it about 1: N(0, 1) embeddings, unit-variance q and k."""
    config = ModelConfig(d_model=d_model, n_heads=n_heads, position=position, max_len=20)
    d_head = d_model // n_heads
    spreads = [first_scores(build_model(config, seed)) for seed in range(5)]
    raw, scaled = (sum(column) / 5 for column in zip(*spreads, strict=True))
    assert raw == pytest.approx(math.sqrt(d_head), rel=0.2)
    assert scaled == pytest.approx(spread_in_theory(d_head, d_head**-0.5), rel=0.2)


def test_xavier_on_the_packed_matrix_would_halve_the_spread():
    """The reason for drawing W_q, W_k and W_v each by itself."""
    config = ModelConfig(d_model=128, n_heads=1, position="none", max_len=20)
    model = build_model(config)
    each, _ = first_scores(model)
    generator = torch.Generator().manual_seed(0)
    nn.init.xavier_uniform_(model.blocks[0].attention.qkv.weight, generator=generator)
    packed, _ = first_scores(model)
    assert packed / each == pytest.approx(0.5, rel=0.15)


def test_gpt2_scores_are_tiny():
    config = ModelConfig(d_model=64, n_heads=4, position="learned", max_len=20, init="gpt2")
    raw, _ = first_scores(build_model(config))
    assert raw < 0.2


@pytest.mark.parametrize("tied", [False, True])
def test_xavier_embeddings_are_unit_variance_on_the_way_in(tied):
    """Paper, section 3.4: multiplied by √d_model; small enough to serve as a tied head."""
    config = everything(architecture="decoder", position="none", tie_embeddings=tied)
    model = build_model(config)
    trace = Recorder()
    logits = model(torch.arange(1, 101)[None], trace)
    assert trace.seen["embed"].std().item() == pytest.approx(1.0, rel=0.05)
    assert logits.std().item() == pytest.approx(1.0, rel=0.4)
