"""Pictures: rollout against a walk over all ways, rankings against loops, and the page."""

from dataclasses import replace
from itertools import product

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.model import build_model
from core.tasks.images import patches_of
from core.trace import Recorder
from core.train import Trainer
from helpers import fine, opened, texts, until
from playground.ideas.digits import figures, measure
from playground.ideas.digits.figures import Map

SPEC = measure.spec("digits", 2, "learned")


@pytest.fixture(scope="module")
def model():
    return build_model(SPEC.model)


@pytest.fixture(scope="module")
def patches():
    return patches_of(measure.held_out("digits").pictures, 2)


# --- where it looks -------------------------------------------------------------------------


def test_rollout_is_the_sum_over_all_ways_from_the_class_token_to_a_patch():
    """Each way stays or follows a weight, half and half, in each of two layers."""
    generator = torch.Generator().manual_seed(0)
    layers = [torch.rand(1, 2, 4, 4, generator=generator).softmax(-1) for _ in range(2)]
    mean = [layer[0].mean(0).tolist() for layer in layers]

    def step(layer: int, start: int, end: int) -> float:
        return 0.5 * mean[layer][start][end] + 0.5 * (start == end)

    ways = [sum(step(1, 0, via) * step(0, via, end) for via in range(4)) for end in range(1, 4)]
    expected = np.array(ways) / sum(ways)
    np.testing.assert_allclose(measure.rollout(layers)[0], expected, rtol=1e-6)


def test_a_look_holds_what_the_model_itself_computes(model, patches):
    look = measure.look(model, SPEC.task, 7)
    trace = Recorder()
    with torch.no_grad():
        chances = model(patches[7:8], trace)[0, 0].softmax(-1)
    best = int(chances.argmax())
    assert look.chances[0] == (SPEC.task.vocabulary[best], pytest.approx(float(chances[best])))
    for layer, head in product(range(2), range(4)):
        row = trace.seen[f"blocks.{layer}.attention.weights"][0, head, 0]
        np.testing.assert_allclose(look.class_token[layer, head], row[1:], atol=1e-6)
        assert look.on_itself[layer, head] == pytest.approx(float(row[0]), abs=1e-6)
    assert look.shows == SPEC.task.vocabulary[int(measure.held_out("digits").classes[7]) + 1]
    ink = [look.picture[y : y + 2, x : x + 2].sum() for y in (0, 2, 4, 6) for x in (0, 2, 4, 6)]
    np.testing.assert_allclose(look.ink, np.array(ink) / sum(ink), rtol=1e-5)
    assert look.rollout.sum() == pytest.approx(1)


def test_the_patches_of_the_largest_shares_become_paper(patches):
    shares = measure.ink(patches[:5])
    found = measure.blanked(patches[:5], shares, 3)
    for before, after, row in zip(patches[:5], found, shares, strict=True):
        chosen = sorted(range(16), key=lambda i: -float(row[i]))[:3]
        for i in range(16):
            assert torch.equal(after[i], before[i] * (i not in chosen))


@pytest.mark.parametrize(("n_patches", "k"), [(64, 16), (16, 4), (4, 1), (1, 0)])
def test_a_quarter_of_the_patches_is_blanked_but_never_the_whole_picture(n_patches, k):
    assert measure.most_blanked(n_patches) == k


def test_correlation_is_that_of_numpy():
    a, b = torch.rand(2, 6, 16, generator=torch.Generator().manual_seed(0))
    expected = np.mean([np.corrcoef(x, y)[0, 1] for x, y in zip(a, b, strict=True)])
    assert measure.correlation(a, b) == pytest.approx(expected, rel=1e-4)
    assert np.isnan(measure.correlation(torch.ones(2, 4), a[:2, :4]))


def test_without_positions_shuffled_pictures_are_named_exactly_as_before():
    spec = measure.spec("digits", 4, "none")
    trainer = Trainer(spec.model, spec.task, spec.training)
    for _ in range(5):
        trainer.step()
    found = measure.measured(trainer.model, spec.task)
    assert found.mixed == found.right
    assert measure.alike(trainer.model) is None


def test_positions_are_compared_by_their_cosine(model):
    table = model.embed.position.table.detach().numpy()
    cosines = measure.alike(model)
    expected = table[1] @ table[6] / np.linalg.norm(table[1]) / np.linalg.norm(table[6])
    assert cosines.shape == (16, 16) and cosines[0, 5] == pytest.approx(expected, abs=1e-5)


# --- without a transformer --------------------------------------------------------------------


def test_the_nearest_neighbour_and_the_linear_classifier_are_those_of_scikit_learn():
    neighbors = pytest.importorskip("sklearn.neighbors")
    from sklearn.linear_model import LogisticRegression

    learnt = measure.SOURCES["digits"]().learnt
    asked = measure.held_out("digits")
    x, z = (part.pictures.flatten(1).numpy() / 16 for part in (learnt, asked))
    nearest = neighbors.KNeighborsClassifier(1).fit(x, learnt.classes).score(z, asked.classes)
    found = measure.simple("digits")
    assert found.n_learnt == 1347 and found.nearest == pytest.approx(nearest)
    strength = 1 / (2 * measure.DECAY * len(x))
    linear = LogisticRegression(C=strength, max_iter=2000).fit(x, learnt.classes)
    assert found.linear == pytest.approx(linear.score(z, asked.classes), abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_training_of_the_page_reads_held_out_digits(seed):
    """As the page opens: the nearest neighbour is ahead, and where a patch lies is needed."""
    training = replace(SPEC.training, seed=seed)
    trainer = Trainer(SPEC.model, SPEC.task, training)
    for _ in trainer:
        pass
    found = measure.measured(trainer.model, SPEC.task)
    assert 0.94 < found.right < measure.simple("digits").nearest
    assert found.mixed < 0.25
    assert found.without["ink"] < 0.45 < found.without["random"] < found.right


# --- figures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("patch", [1, 2, 4, 8])
def test_maps_lie_over_the_pixels_of_their_patches(patch):
    n = 8 // patch
    picture = np.arange(64).reshape(8, 8) % 17
    shares = np.arange(n * n) / max(1, n * n)
    figure = figures.over_picture(picture, [Map("a", shares), Map("b", shares[::-1])])
    go.Figure(figure)
    drawn, first = figure["data"][:2]
    assert np.array_equal(drawn["z"], picture)
    assert np.array_equal(np.asarray(first["z"]).flatten(), np.round(shares, 4))
    assert (first["x0"] - first["dx"] / 2, first["dx"]) == (-0.5, patch)
    assert len(figure["layout"]["shapes"]) == 2 * (n - 1) + 1


def test_each_tile_holds_the_cosines_of_one_patch():
    cosines = np.arange(16.0).reshape(4, 4) / 16
    figure = figures.position_tiles(cosines)
    go.Figure(figure)
    tiles = np.asarray(figure["data"][0]["z"])
    assert tiles.shape == (5, 5) and np.isnan(tiles[2]).all()
    assert tiles[3:, :2].flatten().tolist() == pytest.approx(cosines[2].tolist(), abs=1e-3)
    apart = [(0, 1), (0, 2), (1, 3), (2, 3)]
    near = np.mean([cosines[i, j] + cosines[j, i] for i, j in apart]) / 2
    assert figures.neighbours(cosines, True) == pytest.approx(near)


# --- the page ---------------------------------------------------------------------------------


def said(test) -> str:
    return texts([*test.markdown, *test.error, *test.caption])


@pytest.mark.parametrize(
    "knobs",
    [
        {"patches_size": "8×8"},
        {"patches_size": "1×1", "patches_head": "3", "patches_layer": "1"},
        {"patches_kind": "shapes", "patches_size": "4×4", "patches_position": "none"},
    ],
    ids=str,
)
def test_every_kind_of_picture_and_patch_opens(knobs):
    test = opened("patches", **knobs)
    assert "untrained model answers" in said(test) and "rightly" in said(test)


def test_the_model_that_trains_on_the_page_answers():
    test = opened("patches", patches_size="4×4")
    assert "untrained model answers" in said(test)
    fine(test.button(key="play").click().run())
    (runs,) = test.session_state.idea_runs.values()
    until(test, lambda test: "patches model" in test.session_state)
    assert "answers**; its training loss was" in said(test)
    fine(test.button(key="pause").click().run())
    until(test, lambda test: not runs.live)
    fine(test.run())
    done = len(runs.run_of(measure.spec("digits", 4, "learned")).view().loss)
    assert test.session_state["patches model"].step == done
    fine(test.button(key="reset").click().run())
    assert "untrained model answers" in said(test)
