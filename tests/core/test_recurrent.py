"""Recurrent nets: PyTorch's layers, written out step by step; causal; a cache is their state."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from core.cache import Cache
from core.checkpoint import load, save
from core.config import ModelConfig, TrainConfig
from core.forms import RECURRENT
from core.generate import generate
from core.measure import future_influence
from core.model import adopt, build_model
from core.tasks import TASKS
from core.trace import Recorder
from core.train import Trainer

TOKENS = torch.tensor([[5, 3, 1, 2, 4], [7, 6, 0, 0, 0], [1, 1, 8, 8, 1]])


def tiny(**switches) -> ModelConfig:
    sizes = {"vocab_size": 9, "max_len": 6, "d_model": 8, "n_heads": 2, "n_layers": 2}
    return ModelConfig(**sizes | {"architecture": "gru"} | switches)


def gates_of(layer: nn.Module, x: Tensor, h: Tensor, n: int) -> list[tuple[Tensor, Tensor]]:
    """What each gate is told by the input and by the state."""
    told = layer.weight_ih_l0 @ x + layer.bias_ih_l0, layer.weight_hh_l0 @ h + layer.bias_hh_l0
    return list(zip(*(part.chunk(n) for part in told), strict=True))


def gru_step(layer: nn.GRU, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Cho et al. 2014, with the reset gate as PyTorch has it."""
    r, z, new = gates_of(layer, x, h, 3)
    candidate = torch.tanh(new[0] + torch.sigmoid(sum(r)) * new[1])
    keep = torch.sigmoid(sum(z))
    return (1 - keep) * candidate + keep * h, c


def lstm_step(layer: nn.LSTM, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000."""
    i, f, g, o = (sum(gate) for gate in gates_of(layer, x, h, 4))
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def written_out(model: nn.Module, row: Tensor, step) -> Tensor:
    """One row, token by token."""
    xs = [model.embed.tokens.weight[token] * model.embed.factor for token in row]
    for layer in model.blocks:
        h = c = torch.zeros(len(xs[0]), dtype=xs[0].dtype)
        found = []
        for x in xs:
            h, c = step(layer, x, h, c)
            found.append(h)
        xs = found
    return torch.stack(xs) @ model.unembed.weight.T


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("architecture", "step"), [("gru", gru_step), ("lstm", lstm_step)])
def test_the_model_is_its_formula_token_by_token(architecture, step, tied, randomise):
    config = tiny(architecture=architecture, tie_embeddings=tied)
    model = randomise(build_model(config)).double()
    for row, logits in zip(TOKENS, model(TOKENS), strict=True):
        assert (logits - written_out(model, row, step)).abs().max() < 1e-12


@pytest.mark.parametrize("init", ["xavier", "gpt2", "torch"])
@pytest.mark.parametrize("architecture", RECURRENT)
def test_its_matrices_start_as_pytorch_has_them_and_its_parts_are_counted(architecture, init):
    config = tiny(architecture=architecture, init=init, position="learned", d_model=64)
    model = build_model(config, seed=3)
    bound = 64**-0.5
    for parameter in model.blocks.parameters():
        assert 0.9 * bound < parameter.abs().max() <= bound
        assert abs(parameter.std() - bound / 3**0.5) < 0.1 * bound
    assert config.n_parameters == sum(p.numel() for p in model.parameters())
    assert torch.equal(build_model(config, seed=3)(TOKENS), model(TOKENS))


@pytest.mark.parametrize("architecture", RECURRENT)
def test_no_later_token_is_read_whatever_the_mask_says(architecture, randomise):
    config = tiny(architecture=architecture, mask="none")
    assert config.mask_rule == "causal"
    assert future_influence(randomise(build_model(config)), (TOKENS,)) == 0


@pytest.mark.parametrize("architecture", RECURRENT)
def test_its_state_stands_for_all_that_it_has_read(architecture, randomise):
    model = randomise(build_model(tiny(architecture=architecture))).double()
    cache = Cache()
    parts = [model(part, cache=cache) for part in TOKENS.split((2, 1, 2), dim=1)]
    assert cache.length == 5
    assert (torch.cat(parts, dim=1) - model(TOKENS)).abs().max() < 1e-12

    text = TOKENS[:1, :2]  # token by token, each time from the beginning
    for _ in range(6):
        logits = model(text[:, -6:])[:, -1]
        logits[:, 0] = -torch.inf
        text = torch.cat([text, logits.argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(generate(model, (TOKENS[:1, :2],), 6), text[:, 2:])


@pytest.mark.parametrize("architecture", RECURRENT)
def test_it_shows_its_layers_and_no_attention(architecture):
    trace = Recorder()
    build_model(tiny(architecture=architecture))(TOKENS, trace)
    assert list(trace.seen) == ["embed", "blocks.0", "blocks.1", "logits"]


@pytest.mark.parametrize("architecture", RECURRENT)
def test_a_hot_change_adopts_the_very_parameters(architecture, randomise):
    """PyTorch's layers keep a list of their parameters, which has to follow."""
    config = tiny(architecture=architecture)
    old = randomise(build_model(config))
    before = old(TOKENS)
    new = adopt(build_model(replace(config, scale="none"), seed=7), old)
    assert torch.equal(new(TOKENS), before)
    with torch.no_grad():
        new.blocks[0].weight_hh_l0.mul_(2)
    assert torch.equal(new(TOKENS), old(TOKENS)) and not torch.equal(new(TOKENS), before)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("architecture", RECURRENT)
def test_it_trains_changes_and_goes_on_from_a_file(architecture, precision, tmp_path):
    task = TASKS["copy"](length=3)
    config = ModelConfig.for_task(task, architecture=architecture, d_model=16)
    trainer = Trainer(config, task, TrainConfig(steps=60, lr=0.01, precision=precision))
    for _ in range(20):
        trainer.step()
    trainer.change(lr=0.02, mask="window")
    save(trainer, tmp_path / "run.zip")
    again = load(tmp_path / "run.zip")
    losses = [trainer.step().loss for _ in range(40)]
    assert [again.step().loss for _ in range(40)] == losses
    assert losses[-1] < 0.8 * task.blind()
