"""What each switch of the ready-made configurations is worth: `python -m tests.worth`.

    --write   keep what was found in playground/experiments/worth.json
    --steps N, --seeds N   fewer, to try it

A small GPT-2-like model learns Python's documentation, and again with one switch turned to what
another configuration has; the validation losses of the same seeds are held against each other.
About three minutes on one core.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from core.tasks.text import Text
from core.train import Trainer
from playground.experiments.ready_made import READY_MADE, WORTH, WORTH_FILE
from playground.runs.spec import Changes, Spec, value_text

BASE = READY_MADE["gpt2"]


def base(steps: int) -> Spec:
    return Spec.of(Text()).changed((*BASE.changes, ("lr", 3e-3), ("steps", steps)))


def turned() -> Iterator[tuple[str, Any]]:
    """Each switch with each value that another configuration has."""
    usual, seen = dict(BASE.changes), set()
    for name in READY_MADE:
        for switch, value in READY_MADE[name].changes:
            if switch in WORTH.switches and value != usual[switch] and (switch, value) not in seen:
                seen.add((switch, value))
                yield switch, value


def losses(spec: Spec, changes: Changes, seeds: int) -> list[float]:
    """The validation loss of each seed after the last step."""
    found = []
    for seed in range(seeds):
        run = spec.changed((*changes, ("seed", seed)))
        trainer = Trainer(run.model, run.task, run.training)
        for _ in trainer:
            pass
        found.append(round(trainer.evaluate().loss, 4))
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    spec = base(options.steps)
    found: dict[str, Any] = {"steps": options.steps, "base": losses(spec, (), options.seeds)}
    print(f"{BASE.title}: {found['base']}", flush=True)
    found["turned"] = {}
    for switch, value in turned():
        ends = losses(spec, ((switch, value),), options.seeds)
        text = value_text(switch, value)
        found["turned"].setdefault(switch, {})[text] = ends
        print(f"{switch} {text}: {ends}", flush=True)
    if options.write:
        WORTH_FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    main()
