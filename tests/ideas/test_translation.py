"""Encoder and decoder: what is measured, against asking step by step, and the page."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.measure import Accuracy, free_running, teacher_forced
from core.model import build_model
from core.tasks import IGNORED, PAD
from core.trace import Recorder
from core.train import Trainer
from helpers import find, fine, opened, texts, until
from playground.ideas.translation import measure
from playground.ideas.translation.figures import Panel, three_maps

TEXT = "the 2nd of May, 1987"
SPEC = measure.spec("dates", "quick")


@pytest.fixture(scope="module")
def model():
    return build_model(SPEC.model)


@pytest.fixture(scope="module")
def found(model):
    return measure.decode(model, SPEC.task, TEXT)


# --- an answer --------------------------------------------------------------------------------


def test_each_step_is_what_asking_for_it_alone_gives(model, found):
    (source, tokens), *_ = SPEC.task.prompt("encoder-decoder", TEXT)
    for step, written in enumerate(found.written):
        trace = Recorder()
        with torch.no_grad():
            logits = model(source, tokens, trace)[0, -1]
        logits[PAD] = -torch.inf
        best = logits.softmax(-1).topk(measure.GUESSES)
        assert [t for t, _ in found.guesses[step]] == SPEC.task.decode(best.indices)
        np.testing.assert_allclose([p for _, p in found.guesses[step]], best.values, atol=1e-5)
        assert found.guesses[step][0][0] == written
        cross = trace.seen["blocks.0.cross.weights"][0, :, -1]
        np.testing.assert_allclose(found.cross.weights[:, step], cross, atol=1e-5)
        own = trace.seen["blocks.0.attention.weights"][0, :, -1]
        np.testing.assert_allclose(found.decoder.weights[:, step, : step + 1], own, atol=1e-5)
        tokens = torch.cat((tokens, logits.argmax()[None, None]), dim=1)


def test_the_question_ends_in_padding_that_nobody_sees(found):
    assert found.length == len(TEXT) and found.source[found.length :] == ["·"] * 7
    assert "".join(found.right) == "1987-05-02■"
    for maps in (found.encoder, found.cross):
        assert (maps.weights[..., found.length :] == 0).all()
        assert maps.hidden[:, found.length :].all() and not maps.hidden[:, : found.length].any()
    later = np.triu(np.ones_like(found.decoder.hidden), 1).astype(bool)
    assert (found.decoder.hidden == later).all()


def test_an_answer_that_ends_is_not_written_on():
    spec = measure.spec("numbers", "quick")
    model = build_model(spec.model)
    with torch.no_grad():  # a model that always ends
        model.norm.weight.zero_()
        model.norm.bias.copy_(model.unembed.weight[spec.task.end])
        model.unembed.weight[: spec.task.end] *= -0.1
    assert measure.decode(model, spec.task, "seven").written == ["■"]


@pytest.mark.parametrize(
    ("text", "day", "month", "year"),
    [
        ("the 2nd of May, 1987", "2", "May", "1987"),
        ("October 13th, 2022", "13", "October", "2022"),
        ("3/7/99", "3", "7", "99"),
        ("13-Oct-22", "13", "Oct", "22"),
        ("02/05/1987", "02", "05", "1987"),
        ("30 Sep 2005", "30", "Sep", "2005"),
    ],
)
def test_the_parts_of_a_date_are_found(text, day, month, year):
    parts = {
        part: "".join(text[i] for i in places) for part, places in measure.parts_of(text).items()
    }
    assert parts == {"day": day, "month": month, "year": year}


def test_the_head_that_looks_at_what_is_written_is_found(found):
    weights = np.zeros((2, 11, 27), dtype=np.float32)
    weights[0, :, 0] = 1
    weights[1, 8:10, 4] = 1.0  # the day's digits look at the 2 of "the 2nd"
    maps = measure.Maps(weights, found.cross.hidden)
    looks = {
        look.part: look
        for look in measure.looks(measure.Decoded(**{**found.__dict__, "cross": maps}), TEXT)
    }
    assert looks["day"].head == 1 and looks["day"].weight == 1
    assert looks["day"].uniform == 1 / len(TEXT)
    assert looks["month"].weight == 0 and looks["month"].uniform == 3 / len(TEXT)


# --- how good it is ---------------------------------------------------------------------------


def test_accuracies_are_counted_by_hand(model):
    batch = SPEC.task.validation("encoder-decoder", 6)
    with torch.no_grad():
        answers = model(*batch.inputs).argmax(-1).tolist()
    rows = [
        [a == t for a, t in zip(row, target, strict=True) if t != IGNORED]
        for row, target in zip(answers, batch.targets.tolist(), strict=True)
    ]
    tokens = sum(map(sum, rows)) / sum(map(len, rows))
    exact = sum(all(row) for row in rows) / 6
    assert teacher_forced(model, batch) == pytest.approx(Accuracy(tokens, exact))


def test_a_causal_model_is_exactly_right_as_often_with_a_teacher_as_without():
    spec = measure.spec("numbers", "quick")
    trainer = Trainer(spec.model, spec.task, spec.training)
    for _ in range(60):
        trainer.step()
    batch = spec.task.validation("encoder-decoder", 64)
    taught, alone = teacher_forced(trainer.model, batch), free_running(trainer.model, batch)
    assert taught.exact == alone.exact
    assert taught.exact < taught.tokens and alone.tokens <= taught.tokens + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dates", "numbers"])
def test_the_recipe_reaches_what_the_page_promises_in_every_seed(name):
    spec = measure.spec(name, "quick")
    for seed in range(3):
        trainer = Trainer(spec.model, spec.task, replace(spec.training, seed=seed))
        for _ in trainer:
            pass
        batch = spec.task.validation("encoder-decoder")
        assert free_running(trainer.model, batch).exact > 0.95


# --- the picture ------------------------------------------------------------------------------


def test_three_maps_stand_side_by_side_and_the_step_is_framed(found):
    n = found.length
    cross = found.cross.weights.mean(0)[:, :n].astype(float)
    cross[3:] = np.nan
    hidden = np.zeros_like(cross, dtype=bool)
    panel = Panel("cross", cross, hidden, found.written, found.source[:n], "writes", "source", 2)
    own = Panel(
        "own", found.decoder.weights[0], found.decoder.hidden, found.written, found.read, "", ""
    )
    figure = three_maps([panel, own])
    go.Figure(figure)
    first, second = figure["data"]
    np.testing.assert_allclose(first["z"][:3], cross[:3], atol=1e-4)
    assert np.isnan(np.asarray(first["z"])[3:]).all()
    assert np.isnan(np.asarray(second["z"])[found.decoder.hidden]).all()
    (frame,) = figure["layout"]["shapes"]
    assert (frame["y0"], frame["y1"]) == (2.5, 3.5)


# --- the page ---------------------------------------------------------------------------------


def said(test) -> str:
    return texts([*test.markdown, *test.error, *test.caption])


def test_an_answer_is_followed_step_by_step_there_and_back():
    test = opened("translation", translation_text="3/7/99")
    assert "untrained model answers" in said(test) and "Step 1 of" in said(test)
    fine(test.button(key="translation_back").click().run())
    assert "Step 1 of" in said(test)
    fine(test.button(key="translation_next").click().run())
    assert "Step 2 of" in said(test) and test.session_state.translation_step == 2
    fine(test.button(key="translation_back").click().run())
    assert "Step 1 of" in said(test)


def test_a_date_that_does_not_exist_is_refused_and_stays_to_be_mended():
    test = opened("translation", translation_text="31/2/2001")
    assert "February 2001 has 28 days" in texts(test.error)
    assert find(test, "text_input", "translation_text").value == "31/2/2001"


def test_the_model_that_trains_on_the_page_answers_and_its_maps_are_shown():
    test = opened("translation", translation_task="numbers")
    fine(test.button(key="play").click().run())
    (runs,) = test.session_state.idea_runs.values()
    until(test, lambda test: "translation model" in test.session_state)
    assert "answers**; its training loss was" in said(test)
    fine(test.button(key="pause").click().run())
    until(test, lambda test: not runs.live)
    fine(test.run())
    done = len(runs.run_of(measure.spec("numbers", "quick")).view().loss)
    assert test.session_state["translation model"].step == done
    fine(test.button(key="reset").click().run())
    assert "untrained model answers" in said(test)
