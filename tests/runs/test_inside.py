"""A look inside a decoder: the last layer is the answer, the others are read off the same way."""

import numpy as np
import pytest
import torch

from core.config import ModelConfig
from core.model import build_model
from core.tasks.text import Text
from core.trace import Recorder
from playground.runs.inside import GUESSES, Inside, inside

TASK = Text(source="grammar", length=64)
CONFIG = ModelConfig.for_task(TASK, position="rotary", norm="pre")
IDS = TASK.encode("the cats sleep.\nthe ")


@pytest.fixture(scope="module")
def model():
    return build_model(CONFIG)


def test_the_last_layer_of_the_lens_is_the_answer_and_the_first_reads_the_embedding(model):
    found = inside(model, IDS)
    logits = model(torch.tensor([IDS]))[0, -1].detach()
    logits[0] = -torch.inf
    best = logits.softmax(-1).topk(GUESSES)
    assert found.tokens[-1].tolist() == best.indices.tolist()
    np.testing.assert_allclose(found.chances[-1], best.values, atol=1e-6)
    alone = model.unembed(model.norm(model.embed(torch.tensor([IDS]))))[0, -1].detach()
    alone[0] = -torch.inf
    assert found.tokens[0, 0] == alone.argmax()
    assert len(found.tokens) == CONFIG.n_layers + 1


def test_the_weights_are_those_of_the_last_token_read(model):
    trace = Recorder()
    model(torch.tensor([IDS]), trace)
    found = inside(model, IDS)
    assert found.weights.shape == (2, CONFIG.n_heads, len(IDS))
    expected = trace.seen["blocks.1.attention.weights"][0, :, -1].detach()
    np.testing.assert_allclose(found.weights[1], expected, atol=1e-6)
    assert inside(model, IDS * 5).weights.shape[-1] == TASK.length


@pytest.mark.parametrize(
    ("best", "settled"), [([3, 3, 3], 0), ([1, 3, 3], 1), ([3, 1, 3], 2), ([1, 2, 3], 2)]
)
def test_a_guess_is_settled_from_where_it_changes_no_more(best, settled):
    tokens = np.array(best)[:, None]
    assert Inside(np.zeros(1), tokens, np.ones((3, 1))).settled == settled


def test_padding_is_never_a_guess_however_few_characters_there_are():
    config = ModelConfig(vocab_size=3, max_len=8, d_model=8, n_heads=1, n_layers=1)
    found = inside(build_model(config), [1, 2, 1])
    assert found.tokens.shape == (2, 2) and set(found.tokens.flat) == {1, 2}
