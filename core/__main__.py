"""Training without the app: `python -m core --task reverse --scale none --steps 300`.

The flags are read off the dataclasses: every knob of the model, of the training and of the task
is one, under its own name.
"""

import argparse
import io
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from core import checkpoint
from core.config import FROM_TASK, ModelConfig, TrainConfig
from core.device import choose_device, memory
from core.knobs import as_text, from_text, kinds_of
from core.tasks import TASKS, Task
from core.train import Step, Trainer

LAST = 20  # steps in the mean of the final loss
PROGRAM = "python -m core"


def main(arguments: list[str] | None = None) -> None:
    """Read the flags, train, and save if asked to; a bad value ends with a message and code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # √ on a terminal that has no such character
            stream.reconfigure(errors="replace")
    task_name = _task_name(arguments)
    parser = _parser(task_name)
    chosen = vars(parser.parse_args(arguments))
    try:
        checkpoint.check_place(chosen["save"])
        trainer = _trainer(task_name, chosen)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(
        f"task {task_name}, {trainer.model_config.n_parameters:,} parameters, "
        f"{trainer.device.words}"
    )
    train(trainer)
    if chosen["save"] is not None:
        checkpoint.save(trainer, chosen["save"])
        print(f"saved {chosen['save']}")


def _check_memory(config: ModelConfig) -> None:
    """Refuse a model that does not fit: each weight has a gradient and two moments.

    Raises:
        ValueError: names the numbers and what to make smaller.
    """
    needed = 16 * config.n_parameters
    if needed > (there_is := memory()):
        raise ValueError(
            f"d_model={config.d_model}, n_layers={config.n_layers}: {config.n_parameters:,} "
            f"parameters take {needed / 1e9:,.1f} GB to train, and this machine has "
            f"{there_is / 1e9:,.1f} GB; make one of them smaller"
        )


def train(trainer: Trainer) -> None:
    """Train to the end, with a progress bar and a line of losses ten times a run."""
    last: deque[float] = deque(maxlen=LAST)
    every = max(1, trainer.config.steps // 10)
    try:
        for step in trainer:
            last.append(step.loss)
            _progress(step, trainer.config.steps)
            if step.step % every == 0 or step.step == trainer.config.steps:
                _line(step, trainer)
    except RuntimeError as end:  # it diverged, or memory ran out
        _clear()
        print(str(end).partition("\n")[0])
        sys.exit(1)
    _clear()
    print(f"final loss {sum(last) / len(last):.3f} (training, mean of the last {len(last)} steps)")


def _line(step: Step, trainer: Trainer) -> None:
    validation = trainer.evaluate()
    _clear()
    print(
        f"step {step.step:6d}  loss {step.loss:.3f}  validation {validation.loss:.3f}  "
        f"accuracy {validation.accuracy:.1%}  lr {step.lr:.2g}",
        flush=True,
    )


def _progress(step: Step, total: int) -> None:
    if sys.stderr.isatty():
        done = 30 * step.step // total
        bar = "█" * done + "░" * (30 - done)
        sys.stderr.write(f"\r{bar} {step.step}/{total} loss {step.loss:.3f} ")


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")


def _task_name(arguments: list[str] | None) -> str:
    """The task decides which other flags there are, so it is read first."""
    first = argparse.ArgumentParser(prog=PROGRAM, add_help=False)
    first.add_argument("--task", default="reverse", choices=list(TASKS))
    return first.parse_known_args(arguments)[0].task


def _parser(task_name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage="%(prog)s [--task TASK] [--FLAG VALUE …]",
        description="Train a model.",
    )
    parser.add_argument("--task", default="reverse", choices=list(TASKS), help="What to learn.")
    parser.add_argument("--device", help="cpu, cuda or mps; otherwise the best there is.")
    parser.add_argument("--save", metavar="FILE", help="Write a checkpoint at the end.")
    if task_name == "text":
        parser.add_argument("--text-file", metavar="FILE", help="Learn this text (UTF-8).")
    parser.set_defaults(architecture=TASKS[task_name].usual_architecture())
    for title, config in (
        ("task", TASKS[task_name]),
        ("model", ModelConfig),
        ("training", TrainConfig),
    ):
        group = parser.add_argument_group(title)
        for item in fields(config):
            if item.metadata and item.name not in FROM_TASK:
                _add_flag(group, item)
    return parser


def _add_flag(group: Any, item: Field) -> None:
    """`--lr 0.01`; a switch is `--residual`, `--residual off` or `--no-residual`."""
    flag = item.name.replace("_", "-")
    about = {"dest": item.name, "default": item.default}
    read: dict[str, Any] = {"type": _reader(item)}
    choices = item.metadata["choices"]
    is_switch = kinds_of(item) == (bool,)
    if choices:
        read["metavar"] = "{" + ",".join(map(str, choices)) + "}"
    if is_switch:
        read |= {"nargs": "?", "const": True, "metavar": "on|off"}
    default = item.default if choices else as_text(item, item.default)
    text = f"{item.metadata['help']} (default: {default})".replace("%", "%%")
    group.add_argument(f"--{flag}", help=text, **about, **read)
    if is_switch:
        group.add_argument(f"--no-{flag}", action="store_const", const=False, **about)


def _reader(item: Field) -> Callable[[str], Any]:
    """What argparse reads a flag's value with."""

    def read(text: str) -> Any:
        try:
            return from_text(item, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None

    return read


def _trainer(task_name: str, chosen: dict[str, Any]) -> Trainer:
    task = _task(task_name, chosen)
    model = {name: chosen[name] for name in _names(ModelConfig)}
    training = {name: chosen[name] for name in _names(TrainConfig)}
    config = ModelConfig.for_task(task, **model)
    _check_memory(config)
    device = choose_device(chosen["device"])
    return Trainer(config, task, TrainConfig(**training), device)


def _task(task_name: str, chosen: dict[str, Any]) -> Task:
    knobs = {name: chosen[name] for name in _names(TASKS[task_name])}
    if chosen.get("text_file"):
        from core.tasks.sources import decode_upload

        text = decode_upload(Path(chosen["text_file"]).read_bytes())
        knobs |= {"source": "own", "text": text}
    return TASKS[task_name](**knobs)


def _names(config: type) -> list[str]:
    return [item.name for item in fields(config) if item.metadata and item.name not in FROM_TASK]


if __name__ == "__main__":
    main()
