"""Filling gaps: what is measured, against asking gap by gap, and the page."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.model import build_model
from core.tasks import IGNORED
from core.trace import Recorder
from core.train import Trainer
from helpers import find, fine, opened, texts, until
from playground.ideas.gaps import measure
from playground.ideas.gaps.figures import sentence_picture

SPEC, CAUSAL = measure.spec("grammar"), measure.spec("grammar", "causal")
SENTENCE, GAPS = measure.SENTENCES["grammar"]


@pytest.fixture(scope="module")
def model():
    return build_model(SPEC.model)


def test_answers_are_those_of_the_model_for_the_sentence_after_a_newline(model):
    found = measure.answer(model, SPEC.task, SENTENCE, GAPS)
    read = "".join("▢" if i in GAPS else c for i, c in enumerate(SENTENCE))
    ids = [SPEC.task.vocabulary.index(c) for c in "\n" + read]
    trace = Recorder()
    with torch.no_grad():
        logits = model(torch.tensor([ids]), trace)[0]
    for i, place in enumerate(GAPS):
        row = logits[place + 1].clone()
        row[[0, SPEC.task.mask_id]] = -torch.inf
        chances = row.softmax(-1)
        assert found.guesses[i][0][1] == pytest.approx(chances.max().item(), abs=1e-6)
        right = SPEC.task.vocabulary.index(SENTENCE[place])
        assert found.right[i] == pytest.approx(chances[right].item(), abs=1e-6)
    weights = trace.seen["blocks.1.attention.weights"][0, :, 1:, 1:]
    np.testing.assert_allclose(found.weights[1], weights, atol=1e-6)


def test_what_comes_after_decides_the_first_gap():
    """`cats` or `cat `: only the verb behind the clause says it."""
    both = measure.known(SPEC.task, SENTENCE, GAPS, SPEC.model)
    before = measure.known(SPEC.task, SENTENCE, GAPS, CAUSAL.model)
    assert both.best(0) == "s" and both.right[0] > 0.999
    assert before.right[0] == pytest.approx(0.5, abs=1e-4)
    docs = measure.spec("docs")
    assert measure.known(docs.task, "The value", (0,), docs.model) is None


def test_of_no_sentence_of_the_grammar_nothing_is_known():
    strict = type(SPEC.task)(swapped=0.0)  # then each character is as it was
    assert measure.known(strict, "sees the the cat", (3,), SPEC.model) is None


def test_what_a_model_is_worth_is_what_the_trainer_measures(model):
    trainer = Trainer(SPEC.model, SPEC.task, SPEC.training)
    found, usual = measure.worth(trainer.model, SPEC.task), trainer.evaluate()
    assert found.loss == pytest.approx(usual.loss, abs=1e-5)
    assert found.accuracy == pytest.approx(usual.accuracy)
    (tokens,), targets = SPEC.task.validation("encoder")
    with torch.no_grad():
        same = trainer.model(tokens).argmax(-1) == tokens
    others = [s for s, t in zip(same.flatten(), targets.flatten(), strict=True) if t == IGNORED]
    assert found.read == pytest.approx(float(torch.stack(others).float().mean()))


def test_the_best_possible_answers_are_right_more_often_from_both_sides():
    both = measure.best_accuracy(SPEC.task, SPEC.model)
    before = measure.best_accuracy(SPEC.task, CAUSAL.model)
    assert before < both < 1
    assert measure.best_accuracy(measure.spec("docs").task, SPEC.model) is None


def test_the_picture_hides_what_the_mask_hides():
    looks = {"a": [0.5, 0.25, 0.25], "b": [0.9, 0.1, np.nan]}
    figure = sentence_picture(["x", "▢", " "], looks, 1)
    go.Figure(figure)
    weights, text = figure["data"]
    assert np.isnan(np.array(weights["z"], dtype=float)).tolist() == [
        [True] * 3,
        [False] * 3,
        [False, False, True],
    ]
    assert [cell.strip("<b>/") for cell in text["text"][0]] == ["x", "▢", "␣"]


# --- the page -----------------------------------------------------------------------------------


def table(page):
    return next(element.value for element in page.html if "stood there" in element.value)


def test_a_sentence_of_ones_own_has_one_gap_and_a_foreign_letter_is_refused():
    page = opened("bert", bert_text="the dog likes a cat.")
    assert table(page).count("<tr>") == 2
    page = opened("bert", bert_text="THE DOG")
    assert "unknown characters" in texts(page.error)
    assert table(page).count("<tr>") == 1 + len(GAPS)


def test_gaps_are_opened_and_closed():
    page = opened("bert", {"bert_hidden": (2, 5)})
    assert table(page).count("<tr>") == 3
    page = opened("bert", {"bert_hidden": ()})
    assert "Nothing is hidden" in texts(page.markdown)


def test_another_text_brings_another_sentence():
    page = opened("bert", bert_text="the dog likes a cat.")
    find(page, "button_group", "bert_source").set_value("docs")
    fine(page.run())
    assert table(page).count("<tr>") == 4 and ">–<" in table(page)


def test_a_trained_model_fills_the_gaps(monkeypatch):
    monkeypatch.setattr(measure, "STEPS", 20)
    page = opened("bert")
    assert "untrained" in texts(page.markdown)
    fine(find(page, "button", "play").click().run())
    until(page, lambda p: "both ways at step 20 of 20" in texts(p.markdown))
