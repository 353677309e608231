"""The trained models that come with the app: each file is what it says, and what a page trains."""

import pytest

from core.train import Trainer
from helpers import fine, opened, texts
from playground.ideas.shipped import FOLDER, model_of, read
from tests.train_shipped import FIRST, RECIPES

MOST_BYTES = 2_000_000
REACHED = {"gaps": 0.94, "gaps-causal": 0.77, "patches": 0.94, "translation": 0.97, "writing": 0.5}


def trainer_of(name):
    spec = RECIPES[name]
    return Trainer(spec.model, spec.task, spec.training)


def test_there_is_a_file_for_each_recipe_and_no_other():
    assert {path.stem for path in FOLDER.glob("*.safetensors")} == set(RECIPES) == set(REACHED)


@pytest.mark.parametrize("name", RECIPES)
def test_a_file_is_what_it_says(name):
    path = FOLDER / f"{name}.safetensors"
    said = read(path)
    assert path.stat().st_size < MOST_BYTES
    assert said.spec == RECIPES[name], "its page trains something else by now"
    trainer = trainer_of(name)
    trainer.model.load_state_dict(model_of(said.spec).state_dict())
    found = trainer.evaluate()
    assert found.loss == pytest.approx(said.loss, rel=1e-3)
    assert (
        found.accuracy == pytest.approx(said.accuracy, abs=2e-3) and found.accuracy > REACHED[name]
    )


@pytest.mark.parametrize("name", RECIPES)
def test_the_first_steps_of_a_recipe_are_those_of_its_file(name):
    trainer = trainer_of(name)
    losses = [trainer.step().loss for _ in range(FIRST)]
    assert losses == pytest.approx(read(FOLDER / f"{name}.safetensors").losses, rel=1e-4)


@pytest.mark.parametrize("page", ["bert", "patches", "translation", "writing"])
def test_a_page_shows_it_at_one_click(page):
    test = opened(page)
    assert "came with the app" not in texts(test.markdown)
    fine(test.toggle(key=f"{page}_trained").set_value(True).run())
    assert "came with the app" in texts(test.markdown)
