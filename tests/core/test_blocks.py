"""Blocks against PyTorch's ready-made layers, with the weights carried over."""

import pytest
import torch
from torch import nn

from core.blocks import (
    ACTIVATIONS,
    FEED_FORWARDS,
    NORM_TYPES,
    NORMS,
    Block,
    CrossBlock,
    SublayerConnection,
)
from core.config import ACTIVATIONS as ACTIVATION_NAMES
from core.config import NORM_TYPES as NORM_TYPE_NAMES
from core.config import NORMS as NORM_NAMES
from core.config import ModelConfig
from core.masks import MASKS, allowed_keys, as_bias, everything, hide_padding
from core.model import build_model
from core.positions import Position
from core.trace import Recorder

CPU = torch.device("cpu")


def randn(*shape, seed=0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def copy_attention(theirs: nn.MultiheadAttention, *ours: nn.Linear, out: nn.Linear) -> None:
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in ours]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in ours]))
    theirs.out_proj.weight.copy_(out.weight)
    theirs.out_proj.bias.copy_(out.bias)


def norm_of(connection: SublayerConnection) -> nn.LayerNorm | nn.RMSNorm:
    kinds = nn.LayerNorm | nn.RMSNorm
    return next(m for m in (connection.before, connection.after) if isinstance(m, kinds))


@torch.no_grad()
def carry_over(ours: Block | CrossBlock, theirs: nn.Module) -> nn.Module:
    """Our weights in PyTorch's encoder or decoder layer."""
    copy_attention(theirs.self_attn, ours.attention.qkv, out=ours.attention.out)
    connections = [ours.around_attention, ours.around_ffn]
    if isinstance(ours, CrossBlock):
        copy_attention(theirs.multihead_attn, ours.cross.q, ours.cross.kv, out=ours.cross.out)
        connections.insert(1, ours.around_cross)
    theirs.linear1.load_state_dict(ours.ffn.inner.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.out.state_dict())
    for number, connection in enumerate(connections, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm_of(connection).state_dict())
    return theirs


def ready_made(kind: type[nn.Module], config: ModelConfig) -> nn.Module:
    return kind(
        config.d_model,
        config.n_heads,
        config.d_hidden,
        dropout=0.0,
        activation=ACTIVATIONS[config.activation](),
        norm_first=config.norm == "pre",
        batch_first=True,
        dtype=torch.float64,
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("padded", [False, True])
def test_block_equals_transformer_encoder_layer(norm, activation, mask, padded, randomise):
    config = ModelConfig(d_model=12, n_heads=3, d_ff=20, norm=norm, activation=activation)
    ours = randomise(Block(config, Position()).double())
    theirs = carry_over(ours, ready_made(nn.TransformerEncoderLayer, config))
    x = randn(2, 6, 12)
    seen = allowed_keys(MASKS[mask](7), 6, 6, CPU)  # each query sees token 0, which is real
    padding = None
    if padded:
        padding = torch.arange(6) >= torch.tensor([[6], [3]])
        bias = as_bias(hide_padding(seen, ~padding), 0.0, torch.float64)
    else:
        bias = as_bias(seen, 0.0, torch.float64)
    expected = theirs(x, src_mask=~seen, src_key_padding_mask=padding)
    assert (ours(x, bias) - expected).abs().max() < 1e-9
    assert (ours(x, bias, Recorder()) - expected).abs().max() < 1e-9


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
@pytest.mark.parametrize("mask", MASKS)
def test_cross_block_equals_transformer_decoder_layer(norm, activation, mask, randomise):
    config = ModelConfig(d_model=12, n_heads=3, d_ff=20, norm=norm, activation=activation)
    ours = randomise(CrossBlock(config, Position()).double())
    theirs = carry_over(ours, ready_made(nn.TransformerDecoderLayer, config))
    x, memory = randn(2, 5, 12), randn(2, 6, 12, seed=1)
    seen = allowed_keys(MASKS[mask](3), 5, 5, CPU)
    source_padding = torch.arange(6) >= torch.tensor([[6], [2]])
    bias = as_bias(seen, 0.0, torch.float64)
    reading = hide_padding(allowed_keys(everything, 5, 6, CPU), ~source_padding)
    memory_bias = as_bias(reading, 0.0, torch.float64)
    expected = theirs(x, memory, tgt_mask=~seen, memory_key_padding_mask=source_padding)
    assert (ours(x, bias, memory, memory_bias) - expected).abs().max() < 1e-9
    assert (ours(x, bias, memory, memory_bias, Recorder()) - expected).abs().max() < 1e-9


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_model_equals_pytorchs_encoder_between_embedding_and_head(norm, architecture, randomise):
    """The whole stack; their encoder is causal only with an explicit mask."""
    mask = "causal" if architecture == "decoder" else "none"
    config = ModelConfig(
        vocab_size=9,
        max_len=6,
        d_model=12,
        n_heads=3,
        n_layers=3,
        norm=norm,
        mask=mask,
        position="none",
        architecture=architecture,
    )
    ours = randomise(build_model(config).double())
    layer = ready_made(nn.TransformerEncoderLayer, config)
    final = nn.LayerNorm(12, dtype=torch.float64) if norm == "pre" else None
    theirs = nn.TransformerEncoder(layer, 3, norm=final, enable_nested_tensor=False)
    for block, twin in zip(ours.blocks, theirs.layers, strict=True):
        carry_over(block, twin)
    if final is not None:
        theirs.norm.load_state_dict(ours.norm.state_dict())

    tokens = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 1, 0, 0, 0]])
    seen = allowed_keys(MASKS[mask](1), 6, 6, CPU)
    x = ours.embed.tokens.weight[tokens] * 12**0.5
    expected = theirs(x, mask=~seen, src_key_padding_mask=tokens == 0) @ ours.unembed.weight.T
    assert (ours(tokens) - expected).abs().max() < 1e-9


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_decoder_equals_pytorchs_two_stacks(norm, randomise):
    config = ModelConfig(
        vocab_size=9,
        max_len=6,
        d_model=12,
        n_heads=3,
        norm=norm,
        position="none",
        architecture="encoder-decoder",
    )
    ours = randomise(build_model(config).double())
    finals = [
        nn.LayerNorm(12, dtype=torch.float64) if norm == "pre" else nn.Identity() for _ in range(2)
    ]
    encoder = nn.TransformerEncoder(
        ready_made(nn.TransformerEncoderLayer, config), 2, finals[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(ready_made(nn.TransformerDecoderLayer, config), 2, finals[1])
    for block, twin in zip(ours.encoder.blocks, encoder.layers, strict=True):
        carry_over(block, twin)
    for block, twin in zip(ours.blocks, decoder.layers, strict=True):
        carry_over(block, twin)
    encoder.norm.load_state_dict(ours.encoder.norm.state_dict())
    decoder.norm.load_state_dict(ours.norm.state_dict())

    source = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 1, 0, 0, 0]])
    target = torch.tensor([[2, 1, 4, 5], [3, 3, 7, 0]])
    embedding = ours.embed.tokens.weight * 12**0.5
    memory = encoder(embedding[source], src_key_padding_mask=source == 0)
    x = decoder(
        embedding[target],
        memory,
        tgt_mask=~allowed_keys(MASKS["causal"](1), 4, 4, CPU),
        tgt_key_padding_mask=target == 0,
        memory_key_padding_mask=source == 0,
    )
    assert (ours(source, target) - x @ ours.unembed.weight.T).abs().max() < 1e-9


# --- the connection -----------------------------------------------------------------------


def test_registries_and_legal_names_agree():
    assert set(NORMS) == set(NORM_NAMES)
    assert set(NORM_TYPES) == set(NORM_TYPE_NAMES)
    assert set(ACTIVATIONS) == set(ACTIVATION_NAMES)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("norm", NORM_NAMES)
@pytest.mark.parametrize("norm_type", NORM_TYPE_NAMES)
def test_the_connection_is_written_out(norm_type, norm, residual, randomise):
    """Norm(x + f(x)), x + f(Norm(x)) or x + f(x); without a residual no `x +`."""
    config = ModelConfig(d_model=8, norm=norm, norm_type=norm_type, residual=residual)
    connection = randomise(SublayerConnection(config).double())
    x, f = randn(2, 3, 8), torch.sin

    def normed(x):
        layer = norm_of(connection)
        if norm_type == "rms":
            return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + 1e-5).sqrt() * layer.weight + layer.bias

    inner = f(normed(x)) if norm == "pre" else f(x)
    expected = x + inner if residual else inner
    expected = normed(expected) if norm == "post" else expected
    assert torch.allclose(connection(x, f), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
@pytest.mark.parametrize("gated", [False, True])
def test_the_feed_forward_is_written_out(gated, activation, randomise):
    """f(x W₁) W₂, and with a gate (f(x V) ⊙ x W₁) W₂; biases and all."""
    config = ModelConfig(d_model=6, n_heads=2, gated=gated, activation=activation)
    layer = randomise(FEED_FORWARDS[gated](config).double())
    functions = {
        "relu": lambda h: h * (h > 0),
        "gelu": lambda h: h * (1 + torch.erf(h / 2**0.5)) / 2,
        "silu": lambda h: h / (1 + torch.exp(-h)),
    }
    f, x = functions[activation], randn(2, 3, 6)

    def linear(name, x):
        weights = dict(layer.named_parameters())
        return torch.einsum("bli,oi->blo", x, weights[f"{name}.weight"]) + weights[f"{name}.bias"]

    inner = linear("inner", x)
    hidden = f(linear("gate", x)) * inner if gated else f(inner)
    assert torch.allclose(layer(x), linear("out", hidden), rtol=0, atol=1e-12)
    trace = Recorder()
    layer(x, trace)
    assert torch.allclose(trace.seen["hidden"], hidden, rtol=0, atol=1e-12)


@pytest.mark.parametrize("d_ff", [None, 24, 96])
def test_a_gate_leaves_the_number_of_parameters_about_as_it_was(d_ff):
    plain, gated = (
        ModelConfig(d_model=48, d_ff=d_ff, gated=gated).parameters_by_part()["feed-forward"]
        for gated in (False, True)
    )
    assert gated == pytest.approx(plain, rel=0.02)
    assert ModelConfig(d_model=48, gated=True).d_hidden == 8 * 48 // 3
    assert ModelConfig(d_ff=1, gated=True).d_hidden == 1


def test_without_a_feed_forward_the_stream_passes(randomise):
    config = ModelConfig(d_model=8, n_heads=2, ffn=False)
    block = randomise(Block(config, Position()).double())
    bias = as_bias(allowed_keys(MASKS["causal"](1), 4, 4, CPU), 0.0, torch.float64)
    x = randn(2, 4, 8)
    expected = block.around_attention(x, lambda x: block.attention(x, bias))
    assert torch.equal(block(x, bias), expected)
    assert not any("ffn" in name for name, _ in block.named_parameters())


@pytest.mark.parametrize(("norm", "final"), [("post", False), ("pre", True), ("none", False)])
def test_only_pre_norm_has_a_final_norm(norm, final):
    model = build_model(ModelConfig(norm=norm, architecture="encoder-decoder"))
    assert isinstance(model.norm, nn.LayerNorm) == final
    assert isinstance(model.encoder.norm, nn.LayerNorm) == final
