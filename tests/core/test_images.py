"""Pictures: the digits are those of the source, patches are cut where they should be."""

import math

import pytest
import torch

from core.config import ModelConfig
from core.tasks import IGNORED, TASKS, task_from_dict
from core.tasks.images import patches_of, picture_of
from core.tasks.pictures import SOURCES, drawn, shifted
from core.train import Trainer

Images = TASKS["images"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- where they come from -------------------------------------------------------------------


def test_the_digits_are_those_of_the_source():
    load_digits = pytest.importorskip("sklearn.datasets").load_digits
    theirs, digits = load_digits(), SOURCES["digits"]()
    held_out = digits.held_out(10_000)
    assert len(held_out.classes) == 450 and len(digits.learnt.classes) == 1347
    for i, (picture, digit) in enumerate(zip(theirs.images, theirs.target, strict=True)):
        part, place = (held_out, i // 4) if i % 4 == 0 else (digits.learnt, i - i // 4 - 1)
        assert part.pictures[place].tolist() == picture.tolist()
        assert int(part.classes[place]) == digit


def test_a_shift_moves_the_picture_and_lets_paper_in():
    picture = torch.randint(1, 17, (8, 8), generator=generator())
    found = shifted(picture.expand(200, 8, 8), generator())
    moved = set()
    for one in found:
        fits = [
            (down, across)
            for down in (-1, 0, 1)
            for across in (-1, 0, 1)
            if all(
                int(one[y, x])
                == (
                    int(picture[y + down, x + across])
                    if 0 <= y + down < 8 and 0 <= x + across < 8
                    else 0
                )
                for y in range(8)
                for x in range(8)
            )
        ]
        assert len(fits) == 1
        moved |= set(fits)
    assert len(moved) == 9


def test_shapes_are_drawn_by_counting_points_inside():
    """Against a loop over the 16 points of each pixel, with the middle at (4, 3)."""
    inside = {
        0: lambda x, y: math.hypot(x, y) <= 1,
        1: lambda x, y: abs(x) <= 0.9 and abs(y) <= 0.9,
        2: lambda x, y: -1 <= y <= 1 and abs(x) <= (y + 1) / 2,
        3: lambda x, y: abs(x) <= 1 and abs(y) <= 1 and (abs(x) <= 0.3 or abs(y) <= 0.3),
    }
    for shape, rule in inside.items():
        numbers = (torch.full((1, 1, 1), value) for value in (2.7, 4.0, 3.0))
        (picture,) = drawn(torch.tensor([shape]), *numbers).tolist()
        for row in range(8):
            for column in range(8):
                points = [
                    rule((column + (i + 0.5) / 4 - 4) / 2.7, (row + (j + 0.5) / 4 - 3) / 2.7)
                    for i in range(4)
                    for j in range(4)
                ]
                assert picture[row][column] == sum(points)


def test_no_shape_of_validation_is_ever_trained_on():
    shapes = SOURCES["shapes"]()
    held_out = {tuple(p.flatten().tolist()) for p in shapes.held_out(256).pictures}
    trained = shapes.training(20_000, generator(), shift=False)
    assert not held_out & {tuple(p.flatten().tolist()) for p in trained.pictures}
    assert trained.classes.unique().tolist() == [0, 1, 2, 3]
    assert trained.pictures.min() >= 0 and trained.pictures.max() == 16


# --- patches --------------------------------------------------------------------------------


@pytest.mark.parametrize("patch", [1, 2, 4, 8])
def test_patches_are_cut_as_a_loop_cuts_them(patch):
    pictures = torch.randint(17, (3, 8, 8), generator=generator())
    found = patches_of(pictures, patch)
    assert found.shape == (3, (8 // patch) ** 2, patch**2)
    for picture, patches in zip(pictures, found, strict=True):
        number = 0
        for top in range(0, 8, patch):
            for left in range(0, 8, patch):
                square = [
                    int(picture[top + y, left + x]) for y in range(patch) for x in range(patch)
                ]
                assert patches[number].tolist() == square
                number += 1
    assert torch.equal(picture_of(found), pictures)


# --- the task -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("shuffle", ["off", "fixed", "each"])
def test_the_class_is_asked_where_the_class_token_stands(kind, shuffle):
    task = Images(kind=kind, shuffle=shuffle)
    (patches,), targets = task.validation("vit", 40)
    assert patches.shape == (40, 4, 16) and targets.shape == (40, 5)
    assert (targets[:, 1:] == IGNORED).all()
    pictures, classes = SOURCES[kind]().held_out(40)
    assert torch.equal(targets[:, 0], classes + 1)
    assert task.decode(targets[0])[0] == SOURCES[kind]().classes[classes[0]]

    straight = patches_of(pictures, 4)
    assert torch.equal(patches, straight) == (shuffle == "off")
    orders = set()
    for mixed, ordered in zip(patches.tolist(), straight.tolist(), strict=True):
        assert sorted(mixed) == sorted(ordered)
        if len({tuple(patch) for patch in ordered}) == 4:
            orders.add(tuple(ordered.index(patch) for patch in mixed))
    assert orders and (len(orders) == 1) == (shuffle != "each")


@pytest.mark.parametrize("kind", SOURCES)
def test_batches_come_from_the_generator_alone_and_validation_is_fixed(kind):
    task = Images(kind=kind, shuffle="each")
    first, again, other = (task.batch("vit", 8, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.inputs[0], again.inputs[0])
    assert not torch.equal(first.inputs[0], other.inputs[0])
    assert torch.equal(task.validation("vit").inputs[0], task.validation("vit").inputs[0])


def test_chance_is_how_often_a_class_is_shown():
    task = Images(kind="shapes")
    assert task.chance("vit").blind == pytest.approx(math.log(4))
    assert task.chance("vit").uniform == pytest.approx(math.log(5))  # padding is an id, too
    digits = SOURCES["digits"]()
    counts = digits.learnt.classes.bincount().tolist()
    shown = digits.held_out(256).classes.tolist()
    expected = -sum(math.log(counts[digit] / 1347) for digit in shown) / 256
    assert Images().chance("vit").blind == pytest.approx(expected)


@pytest.mark.parametrize("mask", ["causal", "window"])
def test_a_class_token_that_sees_no_patch_can_only_guess(mask):
    task = Images()
    assert task.floor(ModelConfig.for_task(task)) is None
    blind = ModelConfig.for_task(task, mask=mask)
    assert task.floor(blind) == task.chance("vit").blind
    trainer = Trainer(blind, task)
    (patches,), _ = task.validation("vit")
    answers = trainer.model(patches)[:, 0]
    assert (answers == answers[0]).all()


def test_an_example_is_the_number_of_a_held_out_picture():
    task = Images()
    (patches,), targets = task.validation("vit")
    found = task.probe("vit", " 17 ")
    assert torch.equal(found.inputs[0], patches[17:18])
    assert torch.equal(found.targets, targets[17:18])
    assert torch.equal(
        task.probe("vit", task.example("vit")).inputs[0], task.probe("vit").inputs[0]
    )
    assert task.prompt("vit").n_new == 0
    for typed in ("256", "-1", "1.5", "one", "²", "9" * 9000):
        with pytest.raises(ValueError, match=r"numbered, from 0 to 255") as error:
            task.probe("vit", typed)
        assert len(str(error.value)) < 150


def test_positions_have_the_names_of_the_squares():
    task = Images()
    names = task.names(task.probe("vit").inputs[0][0])
    assert names == ["class", "A1", "A2", "B1", "B2"]


def test_a_task_comes_back_from_its_dict():
    task = Images(kind="shapes", patch=2, shift=False, shuffle="each")
    assert task_from_dict(task.to_dict()) == task


def test_pictures_and_tokens_have_models_of_their_own():
    """Refused in words, both ways."""
    with pytest.raises(
        ValueError, match=r"'decoder' does not fit task images: .*; choose one of vit"
    ):
        ModelConfig.for_task(Images(), architecture="decoder")
    with pytest.raises(ValueError, match=r"'vit' does not fit task reverse: it reads pictures"):
        ModelConfig.for_task(TASKS["reverse"](), architecture="vit")
    with pytest.raises(ValueError, match=r"patch=3: choose one of 1, 2, 4, 8"):
        Images(patch=3)
    with pytest.raises(ValueError, match=r"d_patch=16: task images has 4 numbers in a patch"):
        ModelConfig(vocab_size=11, max_len=20, architecture="vit").check_fits(Images(patch=2))


def test_a_model_takes_its_architecture_from_the_task_where_only_one_fits():
    config = ModelConfig.for_task(Images(patch=2))
    assert (config.architecture, config.d_patch, config.max_len) == ("vit", 4, 17)
    assert ModelConfig.for_task(TASKS["reverse"]()).architecture == "decoder"
