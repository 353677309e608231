"""What is read becomes vectors: rows of a table for tokens, one matrix for patches of a picture."""

import pytest
import torch

from core.cache import Cache
from core.config import POSITIONS, ModelConfig
from core.generate import generate
from core.measure import spread_at_start
from core.model import build_model
from core.positions import sinusoids

PATCHES = torch.randint(17, (3, 4, 6), generator=torch.Generator().manual_seed(0))


def vit(**knobs) -> ModelConfig:
    sizes = {"vocab_size": 5, "max_len": 5, "d_patch": 6, "d_model": 8, "n_heads": 2}
    return ModelConfig(**{"architecture": "vit"} | sizes | knobs)


def model_of(config: ModelConfig, randomise) -> torch.nn.Module:
    return randomise(build_model(config)).double()


@pytest.mark.parametrize("init", ["xavier", "gpt2"])
def test_a_token_is_a_row_of_the_table_times_the_factor_and_its_position(init):
    model = build_model(ModelConfig(init=init, d_model=16))
    tokens = torch.tensor([[3, 1, 4]])
    vectors = model.embed(tokens)[0]
    factor = 4 if init == "xavier" else 1
    for i, token in enumerate(tokens[0]):
        expected = factor * model.embed.tokens.weight[token] + sinusoids(3, 16)[i]
        assert torch.allclose(vectors[i], expected)


def test_a_patch_is_a_weighted_sum_of_its_greys_and_a_class_token_stands_before_all(randomise):
    model = model_of(vit(position="learned"), randomise)
    embed = model.embed
    vectors = embed(PATCHES)
    assert vectors.shape == (3, 5, 8)
    for picture, found in zip(PATCHES, vectors, strict=True):
        assert torch.allclose(found[0], embed.class_token + embed.position.table[0])
        for i, patch in enumerate(picture, start=1):
            total = embed.patches.bias + embed.position.table[i]
            for grey, column in zip(patch.tolist(), embed.patches.weight.T, strict=True):
                total = total + grey / 16 * column
            assert torch.allclose(found[i], total)


def plain_norm(x: torch.Tensor) -> torch.Tensor:
    x = x - x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


def test_the_model_is_what_ten_lines_say(randomise):
    """Pre-norm, one layer, two heads: the class token's answer, from the weights alone."""
    model = model_of(vit(n_layers=1, norm="pre", position="learned"), randomise)
    w = {name: p.detach() for name, p in model.named_parameters()}

    def affine(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        return plain_norm(x) * w[f"{name}.weight"] + w[f"{name}.bias"]

    for picture, answer in zip(PATCHES, model(PATCHES), strict=True):
        patches = affine(picture.double() / 16, "embed.patches")
        x = torch.cat([w["embed.class_token"][None], patches]) + w["embed.position.table"]
        h = affine(norm(x, "blocks.0.around_attention.before"), "blocks.0.attention.qkv")
        q, k, v = (part.unflatten(1, (2, 4)).transpose(0, 1) for part in h.split(8, dim=1))
        z = (q @ k.mT / 2).softmax(-1) @ v  # √d_k is 2
        x = x + affine(z.transpose(0, 1).flatten(1), "blocks.0.attention.out")
        hidden = affine(norm(x, "blocks.0.around_ffn.before"), "blocks.0.ffn.inner").relu()
        x = x + affine(hidden, "blocks.0.ffn.out")
        logits = norm(x, "norm") @ w["unembed.weight"].T
        assert torch.allclose(answer, logits)


@pytest.mark.parametrize("position", POSITIONS)
def test_without_positions_the_answer_does_not_know_where_a_patch_lies(position, randomise):
    model = model_of(vit(position=position), randomise)
    moved = PATCHES[:, [2, 0, 3, 1]]
    same = torch.allclose(model(moved)[:, 0], model(PATCHES)[:, 0], atol=1e-12)
    assert same == (position == "none")


def test_black_patches_and_white_ones_are_no_padding(randomise):
    """Grey 0 is paper: it is read, whether padding is hidden or not."""
    for pad_mask in (True, False):
        model = model_of(vit(pad_mask=pad_mask), randomise)
        white = torch.zeros_like(PATCHES)
        assert not torch.allclose(model(white), model(PATCHES))
        assert model(white).isfinite().all()


def test_a_table_that_is_not_there_cannot_be_tied():
    usual, tied = (build_model(vit(tie_embeddings=tie)) for tie in (False, True))
    names = [name for name, _ in usual.named_parameters()]
    assert [name for name, _ in tied.named_parameters()] == names
    assert torch.equal(tied(PATCHES), usual(PATCHES))
    assert vit(tie_embeddings=True).n_parameters == vit().n_parameters


def test_nothing_is_written_and_nothing_is_kept():
    model = build_model(vit(mask="causal"))
    with pytest.raises(ValueError, match="it writes nothing"):
        generate(model, (PATCHES,), 1)
    with pytest.raises(ValueError, match="no key-value cache"):
        model(PATCHES, cache=Cache())


def test_the_spread_of_scores_that_read_patches_is_not_foretold():
    """How much ink there is decides it; behind a norm the usual rule holds."""
    assert spread_at_start(vit()) is None
    assert spread_at_start(vit(norm="pre")) == pytest.approx(1.0)
