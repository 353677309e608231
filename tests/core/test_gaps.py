"""Filling gaps: what is hidden cannot be read, and the exact floor against all sentences."""

import math
from collections import defaultdict

import pytest
import torch

from core.config import ModelConfig, TrainConfig
from core.tasks import IGNORED, TASKS
from core.tasks.gaps import MASK, Gaps
from core.tasks.grammar import START, grammar
from core.train import Trainer


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def model(task, **switches):
    return ModelConfig.for_task(task, architecture="encoder", **switches)


def test_shares_are_those_of_the_knobs():
    task = Gaps(share=0.2, hidden=0.5, swapped=0.3)
    windows = grammar().training_windows(2000, task.length, generator())
    batch = task.corrupt(windows, generator(1))
    tokens, chosen = batch.inputs[0], batch.targets != IGNORED
    n = chosen.sum().item()
    assert n / chosen.numel() == pytest.approx(0.2, abs=0.005)
    hidden = tokens == task.mask_id
    assert not (hidden & ~chosen).any()
    assert hidden.sum().item() / n == pytest.approx(0.5, abs=0.01)
    # One swap in 29 finds the character that stood there anyway.
    swapped = (tokens != windows) & ~hidden
    assert not (swapped & ~chosen).any()
    assert swapped.sum().item() / n == pytest.approx(0.3 * 28 / 29, abs=0.01)
    assert len(tokens[swapped].unique()) == 29, "each character is as likely"
    assert (batch.targets[chosen] == windows[chosen]).all()


def test_what_is_hidden_cannot_be_read():
    task = Gaps(share=0.5)
    windows = grammar().training_windows(50, task.length, generator())
    batch = task.corrupt(windows, generator(1))
    hidden = batch.inputs[0] == task.mask_id
    others = torch.where(hidden, windows % 29 + 1, windows)
    again = task.corrupt(others, generator(1))
    assert torch.equal(again.inputs[0], batch.inputs[0])
    assert (again.targets != batch.targets)[hidden].all()


def test_the_mask_is_a_token_of_its_own():
    task = Gaps()
    assert task.vocabulary[task.mask_id] == MASK
    assert task.vocabulary[:-1] == TASKS["text"](source="grammar").vocabulary
    with pytest.raises(ValueError, match="type what stands there"):
        task.probe("encoder", f"the c{MASK}t")


def test_shares_of_the_chosen_are_together_at_most_one():
    with pytest.raises(ValueError, match=r"hidden=0.8 and swapped=0.3"):
        Gaps(swapped=0.3)


def test_a_row_to_look_at_has_a_gap():
    for text in ("at", "the cats sleep", None):
        row = Gaps(share=0.01).probe("encoder", text)
        assert (row.inputs[0] == Gaps().mask_id).any()
    assert (Gaps(hidden=0.0).probe("encoder").inputs[0] < Gaps().mask_id).all()


def all_texts(length):
    """Every text of the grammar of so many characters, after a newline: text -> probability."""
    texts, waiting = defaultdict(float), [("\n", START, 1.0)]
    while waiting:
        text, state, p = waiting.pop()
        if len(text) >= length:
            texts[text[:length]] += p
            continue
        for edge in grammar().rules[state]:
            waiting.append((text + edge.text, edge.to, p * float(edge.probability)))
    return texts


@pytest.mark.parametrize("knobs", [{}, {"share": 0.6, "hidden": 0.3, "swapped": 0.6}])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_floor_equals_bayes_over_all_texts(mask, knobs):
    length = 12
    task = Gaps(length=length, **knobs)
    ids, prior = zip(
        *(([task._ids[c] for c in text], p) for text, p in all_texts(length).items()), strict=True
    )
    ids, prior = torch.tensor(ids), torch.tensor(prior, dtype=torch.float64)
    assert float(prior.sum()) == pytest.approx(1)
    kept = 1 - task.hidden - task.swapped

    costs = []
    for tokens, targets in zip(*(t[:40] for t in rows(task)), strict=True):
        for place in (targets != IGNORED).nonzero().flatten().tolist():
            weight = prior.clone()
            for i, token in enumerate(tokens.tolist()):
                if mask == "causal" and i > place:
                    break
                share = 1.0 if i == place else task.share
                if token == task.mask_id:
                    weight *= share * task.hidden
                else:
                    same = (ids[:, i] == token).double()
                    weight *= share * task.swapped / 29 + (1 - share + share * kept) * same
            right = ids[:, place] == targets[place]
            costs.append(-math.log(float(weight[right].sum() / weight.sum())))
    found = task.surprise(model(task, mask=mask))[: len(costs)]
    assert found.tolist() == pytest.approx(costs, abs=1e-9)
    whole = task.surprise(model(task, mask=mask)).mean()
    assert task.floor(model(task, mask=mask)) == pytest.approx(float(whole))


def rows(task):
    batch = task.validation("encoder")
    return batch.inputs[0], batch.targets


def test_floor_is_known_where_all_or_all_that_came_before_is_read():
    task = Gaps(length=24)
    both, causal = task.floor(model(task)), task.floor(model(task, mask="causal"))
    assert 0 < both < causal < task.chance("encoder").blind
    assert task.floor(model(task, mask="window", window=3, n_layers=1)) is None
    assert task.floor(model(task, mask="window", window=24)) == pytest.approx(causal)
    assert Gaps(source="docs").floor(model(Gaps(source="docs"))) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns_to_read_both_ways(seed):
    task = Gaps()
    training = TrainConfig(
        steps=300, batch_size=32, lr=3e-3, schedule="cosine", warmup=50, seed=seed
    )
    trainer = Trainer(model(task, position="rotary", norm="pre"), task, training)
    for _ in trainer:
        pass
    assert trainer.evaluate().accuracy > 0.9
