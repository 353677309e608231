"""What a model writes, and what each token was chosen from."""

import numpy as np
import pytest
import torch

from core.config import ModelConfig
from core.generate import generate, sampler
from core.model import build_model
from core.tasks.text import Text
from playground.runs.writing import MOST, Rules, chances_of, write

TASK = Text(source="grammar", length=12)
PROMPT = TASK.prompt("decoder", "the cat")._replace(n_new=20)


@pytest.fixture(scope="module")
def model():
    config = ModelConfig.for_task(TASK, d_model=16, n_heads=2, n_layers=1, position="rotary")
    return build_model(config)


@pytest.mark.parametrize(
    "rules", [Rules(0.8, seed=3), Rules(top_k=3), Rules(top_p=0.5), Rules(0.0)], ids=str
)
def test_it_writes_what_generation_writes_under_the_same_rules(model, rules):
    drawn = torch.Generator().manual_seed(rules.seed)
    choose = sampler(rules.temperature, rules.top_k, rules.top_p, drawn)
    expected = generate(model, PROMPT.inputs, PROMPT.n_new, choose)[0].tolist()
    written = write(model, TASK, PROMPT, rules)
    assert list(written.ids) == expected
    assert written.text == "".join(TASK.vocabulary[i] for i in expected)


def test_each_token_stands_beside_the_probabilities_that_it_was_drawn_from(model):
    rules = Rules(0.5, top_k=4, seed=1)
    written = write(model, TASK, PROMPT, rules)
    tokens = PROMPT.inputs[0][0].tolist()
    for place, token in enumerate(written.ids):
        logits = model(torch.tensor([tokens])[:, -TASK.length :])[0, -1].detach()
        logits[0] = -torch.inf
        said = logits.softmax(-1)
        assert written.chances[place] == pytest.approx(said[token].item(), abs=1e-5)
        order = said.argsort(descending=True)[:MOST]
        np.testing.assert_allclose(written.before[place], said[order], atol=1e-5)
        kept = torch.zeros_like(said)
        kept[order[:4]] = (logits[order[:4]] / 0.5).softmax(-1)
        ids = list(written.alternatives[place])
        np.testing.assert_allclose(written.after[place], kept[ids], atol=1e-5)
        assert written.in_draw[place] == 4 and token in ids[:4]
        tokens.append(token)


def test_a_token_put_there_by_hand_is_written_and_the_later_draws_keep_their_numbers(model):
    rules = Rules(seed=5)
    plain = write(model, TASK, PROMPT, rules)
    same = write(model, TASK, PROMPT, rules, given=plain.ids[:7])
    assert same.ids == plain.ids
    other = next(i for i in plain.alternatives[7] if i != plain.ids[7])
    changed = write(model, TASK, PROMPT, rules, given=(*plain.ids[:7], other))
    assert changed.ids[:8] == (*plain.ids[:7], other) and len(changed.ids) == PROMPT.n_new


def test_nothing_is_written_once_it_is_interrupted(model):
    written = write(model, TASK, PROMPT, Rules(), interrupted=lambda: True)
    assert written.text == "" and written.chances.size == 0 and len(written.before) == 0


@pytest.mark.parametrize("length", [1, 2, 9, 13, 14, 40])
def test_the_chance_of_each_character_is_that_of_a_forward_pass_over_what_was_before(model, length):
    """Of a text longer than the model, over at least half a window."""
    ids = TASK.encode("the cat saw a dog. the dog saw a bird. the cat")[:length]
    found = chances_of(model, ids)
    assert len(found) == length - 1
    for place in range(1, length):
        starts = [
            s for s in range(0, length, 6) if s < place <= s + 12 and (s == 0 or place > s + 6)
        ]
        logits = model(torch.tensor([ids[starts[0] : place]]))[0, -1].detach()
        logits[0] = -torch.inf
        assert found[place - 1] == pytest.approx(logits.softmax(-1)[ids[place]].item(), abs=1e-5)
