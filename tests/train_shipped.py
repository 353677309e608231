"""The trained models that come with the app: `python -m tests.train_shipped`.

Without --write it tells what each was said to reach and what it reaches; with it they are trained
again, about two minutes on one core.
"""

import argparse

import torch

from core.train import Trainer
from playground.ideas import shipped
from playground.ideas.digits import measure as digits
from playground.ideas.gaps import measure as gaps
from playground.ideas.shipped import FOLDER, Shipped
from playground.ideas.translation import measure as translation
from playground.ideas.writing import measure as writing
from playground.runs.spec import Spec

FIRST = 3  # losses that are kept

# What the pages train when nothing on them was turned.
RECIPES: dict[str, Spec] = {
    "gaps": gaps.spec("grammar"),
    "gaps-causal": gaps.spec("grammar", "causal"),
    "patches": digits.spec("digits", 2, "learned"),
    "translation": translation.spec("dates", "quick"),
    "writing": writing.spec("docs"),
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    for name in options.only:
        path, spec = FOLDER / f"{name}.safetensors", RECIPES[name]
        trainer = Trainer(spec.model, spec.task, spec.training)
        if options.write:
            losses = [step.loss for step in trainer]
            found = trainer.evaluate()
            about = Shipped(spec, tuple(losses[:FIRST]), found.loss, found.accuracy)
            shipped.write(path, trainer.model, about)
        said = shipped.read(path)
        trainer.model.load_state_dict(shipped.load_file(path))
        found = trainer.evaluate()
        print(
            f"{name}: loss {said.loss:.4f}, accuracy {said.accuracy:.2%}; here "
            f"{found.loss:.4f}, {found.accuracy:.2%}; {path.stat().st_size:,} bytes",
            flush=True,
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
