"""Frames: what a page shows of a model is what the model computes."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

from core.config import ModelConfig, TrainConfig
from core.tasks import IGNORED, TASKS, Batch
from core.train import Trainer
from playground.runs.snapshot import MAX_PROBE, STAGES, Level, take_frame

SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1}


def trainer_for(task, architecture="decoder", training=None, **knobs):
    model = ModelConfig.for_task(task, architecture=architecture, **(SMALL | knobs))
    return Trainer(model, task, training or TrainConfig(batch_size=4))


def frame_of(trainer, text=None, **arguments):
    return take_frame(trainer, probe_of(trainer, text), **arguments)


def probe_of(trainer, text=None) -> Batch:
    return trainer.task.probe(trainer.model_config.architecture, text)


@pytest.fixture
def reverse():
    return trainer_for(TASKS["reverse"](length=4))


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_stages_are_the_formula(architecture):
    trainer = trainer_for(TASKS["reverse"](length=4), architecture, n_layers=2)
    frame = frame_of(trainer)
    for attention in frame.attention.values():
        scores, scaled, masked, weights = (attention.stages[stage] for stage in STAGES)
        shape = (2, len(attention.query_tokens), len(attention.key_tokens))
        assert scores.shape == shape and scores.dtype == np.float32
        np.testing.assert_allclose(scaled, scores / np.sqrt(8), rtol=1e-5)
        assert attention.hidden.shape == shape[1:]
        np.testing.assert_array_equal(masked[:, ~attention.hidden], scaled[:, ~attention.hidden])
        assert not weights[:, attention.hidden].any()
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        assert len(attention.entropy) == len(attention.largest) == 2
        # Sinusoidal positions add ½ to what the first attention of a stack reads.
        first = attention.name.endswith("blocks.0.attention")
        assert attention.theory == pytest.approx(1.5 if first else 1)


def test_modules_come_in_the_order_of_computation_with_the_tokens_they_see():
    frame = frame_of(trainer_for(TASKS["reverse"](length=4), "encoder-decoder"), "1234")
    assert list(frame.attention) == [
        "encoder.blocks.0.attention",
        "blocks.0.attention",
        "blocks.0.cross",
    ]
    encoder, decoder, cross = frame.attention.values()
    assert encoder.query_tokens == encoder.key_tokens == list("1234")
    assert decoder.query_tokens == decoder.key_tokens == list("→432")
    assert (cross.query_tokens, cross.key_tokens) == (list("→432"), list("1234"))


def test_hidden_cells_are_those_of_the_causal_mask(reverse):
    (attention,) = frame_of(reverse).attention.values()
    np.testing.assert_array_equal(attention.hidden, ~np.tri(8, dtype=bool))


def test_predictions_are_the_models_own_probabilities(reverse):
    probe = probe_of(reverse, "1234")
    logits = reverse.look(*probe.inputs)["logits"][0]
    frame = take_frame(reverse, probe)
    assert [p.position for p in frame.predictions] == [4, 5, 6, 7]
    assert [p.shown for p in frame.predictions] == list("→432")
    assert [p.target for p in frame.predictions] == list("4321")
    for prediction in frame.predictions:
        exact = logits[prediction.position].double().softmax(-1)
        order = exact.argsort(descending=True)[:5]
        assert prediction.tokens == reverse.task.decode(order)
        assert prediction.probabilities == pytest.approx(exact[order].tolist(), rel=1e-5)
        assert prediction.right == (prediction.tokens[0] == prediction.target)


def test_loss_is_that_of_the_validation_rows(reverse):
    frame = frame_of(reverse)
    evaluation = reverse.evaluate(reverse.task.validation("decoder", 64))
    assert (frame.loss, frame.accuracy) == pytest.approx(evaluation)


def test_validation_is_the_whole_set_where_a_floor_is_known():
    """The floor holds for the whole validation set, so the loss is that of all of it."""
    trainer = trainer_for(TASKS["text"](source="grammar", length=16))
    assert frame_of(trainer).loss == pytest.approx(trainer.evaluate().loss)


def test_looking_does_not_disturb_training():
    def losses(look: bool) -> list[float]:
        trainer = trainer_for(TASKS["text"](source="grammar", length=8))
        found = []
        for _ in range(3):
            if look:
                frame_of(trainer, level=Level.GENERATION)
            found.append(trainer.step().loss)
        return found

    assert losses(look=True) == losses(look=False)


@pytest.mark.parametrize(("mask", "leaks"), [("causal", False), ("window", False), ("none", True)])
def test_leak_is_measured(mask, leaks):
    frame = frame_of(trainer_for(TASKS["reverse"](length=4), mask=mask))
    assert (frame.future_influence > 1e-3) == leaks


def test_an_encoder_has_no_answer_to_leak():
    frame = frame_of(
        trainer_for(TASKS["reverse"](length=4), "encoder", mask="none"), level=Level.GENERATION
    )
    assert frame.future_influence is None and frame.free_running is None


def test_free_running_accuracy_is_that_of_generating_token_by_token(reverse):
    for _ in range(5):
        reverse.step()
    frame = frame_of(reverse, level=Level.GENERATION)
    (tokens,), targets = reverse.task.validation("decoder", 32)
    right = asked = 0
    for row, target in zip(tokens, targets, strict=True):
        written = row[:5].tolist()
        while len(written) < 9:
            with torch.no_grad():
                logits = reverse.model(torch.tensor([written]))[0, -1]
            written.append(int(logits[1:].argmax()) + 1)
        answer = target[target != IGNORED].tolist()
        right += sum(a == b for a, b in zip(written[5:], answer, strict=True))
        asked += len(answer)
    assert frame.free_running == pytest.approx(right / asked)
    assert frame.teacher_forced == frame.accuracy


def test_costly_numbers_are_carried_on(reverse):
    first = frame_of(reverse, level=Level.GENERATION)
    reverse.step()
    second = frame_of(reverse, previous=first)
    assert (second.step, second.free_running) == (1, first.free_running)
    assert second.teacher_forced == first.accuracy


def test_a_look_at_the_probe_carries_what_was_measured_and_says_from_which_step(reverse):
    first = frame_of(reverse)
    for _ in range(3):
        reverse.step()
    second = frame_of(reverse, previous=first, level=Level.PROBE)
    assert (second.step, second.measured_at) == (3, 0)
    assert (second.loss, second.accuracy) == (first.loss, first.accuracy)
    assert second.future_influence == first.future_influence
    fresh = frame_of(reverse, previous=second)
    assert fresh.measured_at == 3 and fresh.loss != first.loss
    same, whole = ((f.loss, f.predictions) for f in (fresh, frame_of(reverse)))
    assert same == whole


def test_numbers_that_are_not_finite_are_seen_on_the_probe(reverse):
    first = frame_of(reverse)
    with torch.no_grad():
        reverse.parameters[-1][0, 0] = torch.inf
    assert first.finite
    assert not frame_of(reverse, previous=first, level=Level.PROBE).finite
    assert not replace(first, loss=float("nan")).finite


def test_sample_is_text_with_its_whitespace():
    trainer = trainer_for(TASKS["text"](source="grammar", length=16))
    sample = frame_of(trainer, level=Level.GENERATION).sample
    assert 0 < len(sample.text) <= 120
    assert set(sample.text) <= set(trainer.task.vocabulary[1:])
    assert frame_of(trainer).sample is None


def test_sample_ends_when_interrupted():
    """CON-01: a stop does not wait until a sample is written."""
    trainer = trainer_for(TASKS["text"](source="grammar", length=16))
    answers = iter([False, False, False])
    frame = frame_of(trainer, level=Level.GENERATION, interrupted=lambda: next(answers, True))
    assert len(frame.sample.text) == 3


def test_a_long_probe_is_cut():
    trainer = trainer_for(TASKS["text"](source="docs", length=200))
    frame = frame_of(trainer, "look " * 40)
    (attention,) = frame.attention.values()
    assert len(attention.query_tokens) == len(frame.predictions) == MAX_PROBE


def test_a_trainer_is_not_kept_alive():
    """CON-02"""
    trainer = trainer_for(TASKS["copy"](length=4))
    frame, gone = frame_of(trainer), weakref.ref(trainer)
    del trainer
    gc.collect()
    assert gone() is None and frame.attention


def test_a_frame_says_of_which_step_the_writing_is():
    task = TASKS["copy"](length=3)
    trainer = Trainer(ModelConfig.for_task(task, d_model=8, n_heads=1), task, TrainConfig())
    probe = task.probe("decoder")
    first = take_frame(trainer, probe, level=Level.GENERATION)
    assert (first.step, first.written_at) == (0, 0)
    trainer.step()
    second = take_frame(trainer, probe, first, level=Level.VALIDATION)
    assert second.free_running == first.free_running
    assert (second.step, second.measured_at, second.written_at) == (1, 1, 0)


def test_a_frame_of_a_picture_names_its_patches_and_writes_nothing():
    trainer = trainer_for(TASKS["images"](), "vit")
    frame = frame_of(trainer, "3", level=Level.GENERATION)
    (attention,) = frame.attention.values()
    assert attention.query_tokens == attention.key_tokens == ["class", "A1", "A2", "B1", "B2"]
    assert not attention.hidden.any() and attention.stages["weights"].shape == (2, 5, 5)
    (prediction,) = frame.predictions
    batch = trainer.task.probe("vit", "3")
    logits = trainer.model(*batch.inputs)[0, 0]
    assert (prediction.shown, prediction.position) == ("class", 0)
    assert prediction.target == trainer.task.vocabulary[batch.targets[0, 0]]
    assert prediction.tokens[:1] == trainer.task.decode([int(logits.argmax())])
    assert frame.future_influence is None and frame.sample is None
    assert trainer.step().tokens == 4 * 5  # read: the class token and four patches, four times
