"""The whole model over the grid of its switches.

Scale, position, mask, pad_mask and architecture are crossed in full; the other switches ride
along so that every pair of values of any two switches meets somewhere.
"""

import copy
import itertools
import math
import random
from collections import OrderedDict
from dataclasses import replace

import pytest
import torch
from torch import nn

from core.config import (
    ACTIVATIONS,
    ARCHITECTURES,
    INITS,
    MASKS,
    NORM_TYPES,
    NORMS,
    POSITIONS,
    SCALES,
    ModelConfig,
)
from core.forms import RECURRENT
from core.model import adopt, build_model
from core.trace import NO_TRACE, Recorder

TRANSFORMERS = [name for name in ARCHITECTURES if name not in RECURRENT]

CROSSED = OrderedDict(
    architecture=TRANSFORMERS,
    position=POSITIONS,
    scale=SCALES,
    mask=MASKS,
    pad_mask=(True, False),
)
RIDING = OrderedDict(
    norm=NORMS,
    norm_type=NORM_TYPES,
    residual=(True, False),
    ffn=(True, False),
    gated=(False, True),
    activation=ACTIVATIONS,
    init=INITS,
    tie_embeddings=(False, True),
)
AXES = OrderedDict(CROSSED | RIDING)


def grid() -> list[dict]:
    """Each combination of the crossed switches, with one of the others, drawn in turn."""
    deck, draw = list(itertools.product(*RIDING.values())), random.Random(0)
    riding = itertools.chain.from_iterable(draw.sample(deck, len(deck)) for _ in itertools.count())
    crossed = itertools.product(*CROSSED.values())
    return [dict(zip(AXES, (*c, *r), strict=True)) for c, r in zip(crossed, riding, strict=False)]


GRID = grid()
READ_TOKENS = [name for name in TRANSFORMERS if name != "vit"]

FULL, PADDED, GAP, EMPTY = [5, 3, 1, 2, 4], [7, 6, 0, 0, 0], [3, 0, 0, 2, 6], [0] * 5
TOKENS = torch.tensor([FULL, PADDED, GAP, EMPTY])
SOURCE = torch.tensor([FULL[:4], EMPTY[:4], PADDED[:4], GAP[:4]])
PATCHES = torch.randint(17, (4, 4, 3), generator=torch.Generator().manual_seed(0))
LATE = [0, 0, 3, 2, 6]  # in place of GAP where positions are distances only


def tiny(**switches) -> ModelConfig:
    sizes = {"vocab_size": 9, "max_len": 6, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12}
    return ModelConfig(**(sizes | {"d_patch": 3, "window": 2} | switches))


def inputs_for(config: ModelConfig, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    if config.architecture == "vit":
        return (PATCHES.to(device),)
    source, tokens = SOURCE.clone(), TOKENS.clone()
    if config.position not in ("sinusoidal", "learned"):  # these refuse padding in front
        source[3], tokens[2] = torch.tensor(LATE[:4]), torch.tensor(LATE)
    both = (source, tokens) if config.architecture == "encoder-decoder" else (tokens,)
    return tuple(tokens.to(device) for tokens in both)


def shown(switches: dict) -> str:
    return " ".join(f"{name}={value}" for name, value in switches.items())


def test_grid_crosses_and_pairs_every_switch():
    assert len(GRID) == math.prod(map(len, CROSSED.values()))
    chosen = {tuple(point[name] for name in CROSSED) for point in GRID}
    assert chosen == set(itertools.product(*CROSSED.values()))
    for a, b in itertools.combinations(AXES, 2):
        pairs = {(point[a], point[b]) for point in GRID}
        assert pairs == set(itertools.product(AXES[a], AXES[b])), (a, b)


def test_grid_has_every_switch_of_the_config():
    names = {name for name, item in ModelConfig.__dataclass_fields__.items()}
    sizes = {"vocab_size", "max_len", "d_model", "n_heads", "n_layers", "d_ff", "window", "d_patch"}
    assert set(AXES) == names - sizes


def may_see(config: ModelConfig, keys: torch.Tensor, i: int, j: int, masked: bool) -> bool:
    """Whether query i sees key j, by the words of the rule."""
    if config.pad_mask and keys[j] == 0:
        return False
    if not masked or config.mask_rule == "none":
        return True
    return j <= i if config.mask_rule == "causal" else i - config.window < j <= i


def check_weights(config: ModelConfig, trace: Recorder, inputs: tuple[torch.Tensor, ...]) -> None:
    """Hidden cells are 0, rows sum to 1 or are 0."""
    for name, weights in trace.seen.items():
        if not name.endswith(".weights"):
            continue
        reads_source = name.startswith("encoder.") or ".cross." in name
        keys = inputs[0] if reads_source else inputs[-1]
        if keys.dim() == 3:  # patches, behind the class token: none of them is padding
            keys = torch.ones(len(keys), 1 + keys.shape[1])
        seen = torch.tensor(
            [
                [
                    [may_see(config, row, i, j, not reads_source) for j in range(len(row))]
                    for i in range(weights.shape[2])
                ]
                for row in keys.cpu()
            ]
        )[:, None].expand(weights.shape)
        weights = weights.cpu()
        assert (weights[~seen] == 0).all(), name
        sums, sees = weights.sum(-1), seen.any(-1)
        assert (sums[sees] - 1).abs().max() < 1e-12, name
        assert (sums[~sees] == 0).all(), name


@pytest.mark.parametrize("architecture", TRANSFORMERS)
@pytest.mark.parametrize("position", POSITIONS)
def test_every_combination_runs_learns_and_can_be_looked_at(architecture, position, device64):
    """Forward; backward with finite gradients for every parameter; looking changes nothing.

    The batch holds a full row, a padded one, one that begins with padding (or has a gap) and one
    that is nothing else, so that there are queries that see no key (MSK-01).
    """
    points = [p for p in GRID if (p["architecture"], p["position"]) == (architecture, position)]
    assert len(points) == len(SCALES) * len(MASKS) * 2
    for point in points:
        config = tiny(**point)
        model = build_model(config).to(device64, torch.float64)
        inputs = inputs_for(config, device64)

        logits = model(*inputs)
        assert logits.shape == (4, 5, 9), shown(point)
        assert logits.isfinite().all(), shown(point)
        logits.square().mean().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, (name, shown(point))
            assert parameter.grad.isfinite().all(), (name, shown(point))
        fused = [parameter.grad.clone() for parameter in model.parameters()]
        # Rounding is a share of what flows: without a norm a gate squares what it is given.
        largest = max(1.0, *(gradient.abs().max().item() for gradient in fused))

        trace = Recorder()
        looked = model(*inputs, trace)
        assert (looked - logits).abs().max() < 1e-9, shown(point)
        check_weights(config, trace, inputs)
        model.zero_grad()
        looked.square().mean().backward()
        for (name, parameter), expected in zip(model.named_parameters(), fused, strict=True):
            assert parameter.grad.isfinite().all(), (name, shown(point))
            error = (parameter.grad - expected).abs().max()
            assert error <= 1e-9 * largest, (name, shown(point))


def test_parameter_count_without_building_equals_the_built_model():
    for point in GRID[::5]:
        config = tiny(**point)
        built = sum(p.numel() for p in build_model(config).parameters())
        assert config.n_parameters == built, shown(point)


@pytest.mark.parametrize("sizes", [{"d_ff": None}, {"d_model": 24, "n_heads": 3, "n_layers": 5}])
@pytest.mark.parametrize("architecture", TRANSFORMERS)
def test_parameter_count_follows_the_sizes(sizes, architecture):
    config = tiny(architecture=architecture, position="learned", norm="pre", **sizes)
    built = sum(p.numel() for p in build_model(config).parameters())
    assert config.n_parameters == built == sum(config.parameters_by_part().values())


# --- architecture -------------------------------------------------------------------------


def test_causal_logits_do_not_depend_on_the_future(randomise):
    """TRN-06: the label at t is not readable from inputs up to t."""
    for architecture in ("decoder", "encoder-decoder"):
        config = tiny(architecture=architecture)
        model = randomise(build_model(config)).double()
        *source, tokens = inputs_for(config)
        tokens = tokens[:1]
        source = [s[:1] for s in source]
        usual = model(*source, tokens)
        for t in range(1, 5):
            changed = tokens.clone()
            changed[0, t] = 8
            moved = (model(*source, changed) - usual).abs().amax(-1)[0]
            assert moved[:t].max() < 1e-12
            assert moved[t:].min() > 0


def test_encoder_beside_a_decoder_is_never_causal(randomise):
    for mask in MASKS:
        config = tiny(architecture="encoder-decoder", mask=mask)
        model = randomise(build_model(config)).double()
        trace = Recorder()
        model(*inputs_for(config), trace)
        weights = trace.seen["encoder.blocks.0.attention.weights"]
        assert (weights[0] > 0).all()


def test_decoder_and_encoder_are_the_same_stack_under_different_masks(randomise):
    decoder = randomise(build_model(tiny(architecture="decoder", mask="none"))).double()
    encoder = randomise(build_model(tiny(architecture="encoder", mask="none"))).double()
    assert torch.equal(decoder(TOKENS), encoder(TOKENS))


def gpt(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """GPT-2 in a dozen lines (Radford et al. 2019), with the weights of ours."""
    blocks, n = model.blocks, tokens.shape[1]
    x = model.embed.tokens.weight[tokens] + model.embed.position.table[:n]
    for block in blocks:
        q, k, v = block.attention.qkv(norm_of(block.around_attention.before, x)).chunk(3, -1)
        heads = []
        for i, j, m in zip(*(part.chunk(2, -1) for part in (q, k, v)), strict=True):
            scores = i @ j.mT / math.sqrt(i.shape[-1])
            scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
            heads.append(scores.softmax(-1) @ m)
        x = x + block.attention.out(torch.cat(heads, -1))
        hidden = block.ffn.inner(norm_of(block.around_ffn.before, x))
        x = x + block.ffn.out(hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2))))
    return norm_of(model.norm, x) @ model.embed.tokens.weight.T


def norm_of(layer: nn.LayerNorm, x: torch.Tensor) -> torch.Tensor:
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    return (x - mean) / (variance + layer.eps).sqrt() * layer.weight + layer.bias


def test_the_decoder_equals_gpt_2_written_out(randomise):
    gpt_2 = {"position": "learned", "norm": "pre", "activation": "gelu", "init": "gpt2"}
    model = randomise(build_model(tiny(**gpt_2, tie_embeddings=True))).double()
    tokens = TOKENS[:1]
    assert (model(tokens) - gpt(model, tokens)).abs().max() < 1e-12


# --- device and number type ---------------------------------------------------------------


def tensors_outside(model: nn.Module) -> list[str]:
    """Tensor attributes that neither `.to()` nor a checkpoint would find."""
    found = []
    for path, module in model.named_modules():
        known = {id(t) for t in (*module._parameters.values(), *module._buffers.values())}
        found += [
            f"{path}.{name}"
            for name, value in vars(module).items()
            if isinstance(value, torch.Tensor) and id(value) not in known
        ]
    return found


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(
    ("mask", "architecture"),
    [("causal", "encoder-decoder"), ("none", "encoder"), ("window", "decoder"), ("none", "vit")],
)
def test_model_moves_as_a_whole(architecture, position, mask, device64):
    """DEV-02"""
    config = tiny(architecture=architecture, position=position, mask=mask)
    model = build_model(config)
    assert tensors_outside(model) == []
    inputs = inputs_for(config)
    before = model(*inputs)

    model.to(device64, torch.float64)
    logits = model(*inputs_for(config, device64))
    assert logits.dtype == torch.float64 and logits.device.type == device64
    assert (logits.cpu() - before).abs().max() < 1e-4

    model.to("cpu", torch.float32)
    assert torch.equal(model(*inputs), before)  # the tables followed there and back

    model.to("meta")
    meta = model(*(tokens.to("meta") for tokens in inputs))
    assert meta.device.type == "meta" and meta.shape == before.shape


# --- tied embeddings and hot changes ------------------------------------------------------


@pytest.mark.parametrize("architecture", READ_TOKENS)
def test_tied_embedding_is_one_parameter_even_in_a_copy(architecture):
    """XCK-01"""
    model = build_model(tiny(architecture=architecture, tie_embeddings=True))
    twin = copy.deepcopy(model)
    for one in (model, twin):
        assert one.unembed.weight is one.embed.tokens.weight
        assert sum(p.numel() for p in one.parameters()) == model_size(one)
    assert twin.unembed.weight is not model.unembed.weight


def model_size(model: nn.Module) -> int:
    return sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())


@pytest.mark.parametrize("position", POSITIONS)
def test_a_copy_is_a_model_of_its_own(position):
    """Moving or training the copy does not reach the original through a bound method."""
    model = build_model(tiny(position=position))
    before = model(TOKENS)
    twin = copy.deepcopy(model).double()
    assert twin(TOKENS).dtype == torch.float64
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(model(TOKENS), before)


HOT = {
    "scale": "none",
    "mask": "window",
    "window": 3,
    "pad_mask": False,
    "residual": False,
    "activation": "gelu",
}


HALF_CROSSED = [
    ("decoder", "sinusoidal"),
    ("decoder", "rotary"),
    ("encoder-decoder", "alibi"),
    ("encoder-decoder", "learned"),
]


def test_hot_knobs_of_the_model_are_those_that_keep_all_shapes():
    assert set(ModelConfig.hot()) == set(HOT)


@pytest.mark.parametrize(("architecture", "position"), HALF_CROSSED)
@pytest.mark.parametrize("field", HOT)
def test_hot_change_adopts_the_very_parameters(architecture, position, field, randomise):
    config = tiny(architecture=architecture, position=position, tie_embeddings=True, mask="causal")
    old = randomise(build_model(config)).double()
    names = dict(old.named_parameters())
    buffers = dict(old.named_buffers())
    before = old(*inputs_for(config))

    # Another seed: not one of the new model's own numbers may survive.
    changed = replace(config, **{field: HOT[field]})
    if field == "window":
        changed = replace(changed, mask="window")
    new = adopt(build_model(changed, seed=7), old)
    assert {name: id(p) for name, p in new.named_parameters()} == {
        name: id(p) for name, p in names.items()
    }
    assert {name: id(b) for name, b in new.named_buffers()} == {
        name: id(b) for name, b in buffers.items()
    }
    assert new.unembed.weight is new.embed.tokens.weight
    logits = new(*inputs_for(config))
    assert (logits - before).abs().max() > 1e-9  # the switch did something

    back = adopt(build_model(config, seed=7), new)
    assert torch.equal(back(*inputs_for(config)), before)


def test_forward_without_a_trace_equals_forward_with_no_trace():
    model = build_model(tiny())
    assert torch.equal(model(TOKENS), model(TOKENS, NO_TRACE))


@pytest.mark.parametrize("architecture", READ_TOKENS)
@pytest.mark.parametrize("position", POSITIONS)
def test_padding_in_front_of_a_row_is_refused_or_changes_nothing(architecture, position):
    config = tiny(architecture=architecture, position=position)
    model = build_model(config).double()
    alone, late = torch.tensor([[3, 2, 6]]), torch.tensor([LATE])
    both = architecture == "encoder-decoder"
    rows = [((late,), (alone,))]
    if both:  # in front of the source, and of the target
        rows = [((late, alone), (alone, alone)), ((alone, late), (alone, alone))]
    for padded, plain in rows:
        if position in ("sinusoidal", "learned"):
            with pytest.raises(ValueError, match="row 0 begins with padding"):
                model(*padded)
        else:
            difference = model(*padded)[:, -3:] - model(*plain)
            assert difference.abs().max() < 1e-5  # rotary turns by float32 angles


@pytest.mark.parametrize("position", POSITIONS)
def test_padding_behind_a_row_and_rows_of_nothing_else_are_welcome(position):
    model = build_model(tiny(position=position)).double()
    together = model(torch.tensor([[3, 2, 6, 0, 0], EMPTY]))
    alone = model(torch.tensor([[3, 2, 6]]))
    assert torch.allclose(together[:1, :3], alone, rtol=0, atol=1e-12)
    assert torch.isfinite(together).all()
