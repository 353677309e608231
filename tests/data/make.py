"""Made the files beside it; kept to say how. It speaks the words of that version, not of this one.

Run in a checkout of commit 2034969, with PLAYGROUND_HISTORY=off: `python make.py FOLDER`. What the
files held and what came next is written into `expected.json`, which the tests compare with what
the present version reads.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from streamlit.testing.v1 import AppTest

import playground
from core import command_line
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.tasks.text import Text
from playground.experiments.comparison import apply, read_link
from playground.experiments.scenarios import plain
from playground.export.files import config_from_json, config_json, metrics_csv
from playground.history.database import History
from playground.history.names import title
from playground.ideas.common import Knob
from playground.runs import saved_run
from playground.runs.pool import Runs
from playground.runs.spec import Spec
from playground.ui.page_list import IDEAS

torch.set_num_threads(1)
FOLDER = Path(sys.argv[1]).resolve()
MAIN = Path(playground.__file__).with_name("main.py")
OWN_TEXT = "The quick brown fox jumps over the lazy dog.\n" * 12
SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1}
RUNS = Runs(workers=1, grace=3600)
expected = {}


def spec_for(task, training=None, probe=None, label="", **model) -> Spec:
    config = ModelConfig.for_task(task, **SMALL | model)
    training = TrainConfig(**{"batch_size": 4, "steps": 40} | (training or {}))
    return Spec(config, task, training, probe, label)


def wait(true) -> None:
    while not true():
        time.sleep(0.01)


def step(run, to: int) -> None:
    for done in range(len(run.view().loss) + 1, to + 1):
        run.step_once()
        wait(lambda done=done: len(run.view().loss) == done and not run.view().live)


def values(spec: Spec) -> dict:
    parts = {"model": spec.model, "training": spec.training, "task": spec.task}
    found = {name: part.to_dict() for name, part in parts.items()}
    return found | {"probe": spec.probe, "label": spec.label}


def keep(name: str, data: bytes, text: str | None = None) -> None:
    """A checkpoint, and what the code of today makes of it."""
    (FOLDER / name).write_bytes(data)
    saved = saved_run.load(data, text=text)
    curve, validation = saved.record.saved()
    losses = lambda rows: [None if np.isnan(n) else float(n) for n in rows]  # noqa: E731
    about = {"spec": values(saved.spec), "began": values(saved.began)}
    about |= {"step": saved.trainer.step_count, "changes": list(saved.trainer.changes)}
    about |= {"loss": losses(curve[:, 0]), "validation_loss": losses(validation[:, 1])}
    about["next"] = [saved.trainer.step().loss for _ in range(4)]
    expected.setdefault("checkpoints", {})[name] = about


def from_the_app(name: str, spec: Spec, until: int, changes: dict[int, dict]):
    run = RUNS.start("tab", spec, play=False)
    for at, hot in changes.items():
        step(run, at)
        run.change(**hot)
    step(run, until)
    keep(name, run.checkpoint().result(), getattr(spec.task, "text", "") or None)
    return run


def checkpoints():
    changes = {5: {"scale": "none"}, 8: {"residual": False, "lr": 0.01, "clip": None}}
    reverse = TASKS["reverse"](symbols=10, length=6)
    started = spec_for(reverse, {"weight_decay": 0.1}, probe="012345", label="mine")
    run = from_the_app("app-decoder-changed.zip", started, 12, changes)
    copy = TASKS["copy"](symbols=5, length=5)
    wiring = {"architecture": "encoder-decoder", "position": "learned", "tie_embeddings": True}
    sgd = {"optimizer": "sgd", "lr": 0.1, "schedule": "cosine", "warmup": 10}
    from_the_app("app-encoder-decoder-sgd.zip", spec_for(copy, sgd, **wiring), 6, {})
    own = Text(source="own", length=16, text=OWN_TEXT)
    from_the_app("app-own-text.zip", spec_for(own, position="alibi"), 5, {})
    flags = "--task text --source grammar --length 16 --d-model 16 --n-heads 2 --n-layers 1"
    flags += " --batch-size 4 --steps 6 --norm pre --position rotary --activation gelu --d-ff 24"
    tmp = FOLDER / "cli-grammar.zip"
    command_line.main([*flags.split(), "--save", str(tmp)])
    keep(tmp.name, tmp.read_bytes())
    flags = "--task sort --architecture encoder --d-model 16 --n-layers 1 --batch-size 4 --steps 6"
    flags += " --optimizer sgd --lr 0.1 --clip none --mask window --window 3 --no-ffn --init gpt2"
    tmp = FOLDER / "cli-encoder-sgd.zip"
    command_line.main([*flags.split(), "--save", str(tmp)])
    keep(tmp.name, tmp.read_bytes())
    return run, own


def exports(run, own) -> None:
    (FOLDER / "metrics.csv").write_text(metrics_csv(run.view()))
    (FOLDER / "config.json").write_text(config_json(run.started, run.view().changes))
    (FOLDER / "config-own-text.json").write_text(config_json(spec_for(own)))
    (FOLDER / "own-text.txt").write_text(OWN_TEXT)
    for name, text in (("config.json", None), ("config-own-text.json", OWN_TEXT)):
        spec, changes = config_from_json((FOLDER / name).read_text(), text)
        about = {"spec": values(spec), "changes": list(changes)}
        expected.setdefault("configs", {})[name] = about


def history(changed, own) -> None:
    store = History(FOLDER / "history.sqlite3")
    done = RUNS.start(
        "tab", spec_for(TASKS["reverse"](length=4), n_layers=2, scale="none"), play=False
    )
    done.play()
    hot = {"optimizer": "sgd", "lr": 1000.0, "clip": None}
    diverged = RUNS.start("tab", spec_for(TASKS["add"](), hot, norm="none"), play=False)
    diverged.play()
    of_text = RUNS.start("tab", spec_for(own), play=False)
    of_text.play()
    for number, run in enumerate((done, diverged, of_text, changed)):
        if run is not changed:
            wait(lambda run=run: run.ended and not run.view().live)
        else:
            RUNS.discard(run)
            wait(lambda: not run.view().live)  # noqa: B023
        view = run.view()
        label = title(run.started, view.changes)
        store.add("anna", label, run.started, view, created=1_800_000_000.0 + number)
    store.rename("anna", 1, "no scale, still learns")
    store.add("bert", "somebody else", done.started, done.view(), created=1_800_000_100.0)
    rows = {}
    for entry in reversed(store.list("")):
        about = {name: getattr(entry, name) for name in ("created", "label", "spec")}
        about |= {"changes": list(entry.view.changes), "result": vars(entry.result)}
        about |= {"loss": entry.view.loss.tolist(), "val_loss": entry.view.val_loss.tolist()}
        shown = store.picture("", entry.id)
        about["picture"] = shown and {
            name: float(a.stages["weights"].sum()) for name, a in shown.attention.items()
        }
        rows[str(entry.id)] = about
    expected["history"] = rows


# --- links ----------------------------------------------------------------------------------


def opened(query: dict[str, str], page: str | None = None) -> AppTest:
    test = AppTest.from_file(MAIN, default_timeout=300)
    if page is None:
        for key, value in query.items():
            test.query_params[key] = value
    test.run()
    if page is not None:
        for key, value in query.items():
            test.query_params[key] = value
        test.switch_page(f"app_pages/{page}.py").run()
    assert not test.exception, [element.message for element in test.exception]
    return test


MANY = (
    "task=copy d_model=32 n_heads=8 n_layers=3 scale=none position=rotary mask=window window=6 "
    "residual=false norm=pre init=gpt2 architecture=encoder d_ff=64 ffn=false activation=gelu "
    "tie_embeddings=true pad_mask=false steps=100 batch_size=16 lr=0.01 optimizer=sgd "
    "weight_decay=0.1 schedule=cosine warmup=30 clip=off seed=42 copy_symbols=5 copy_length=7"
)
PLAYGROUND = (
    "",
    MANY,
    "scale=√d_k d_ff=4·d_model clip=none residual=True lr=1e-05 probe=9876543210",
    "scale=d_k d_model=20 n_heads=5 lr=0.0025 steps=120 clip=0.7",
    "scale=√d_model task=text text_source=grammar text_length=32 precision=bf16",
    "task=recall recall_symbols=6 log=true show_lr=true projector=true more_model=true",
    "task=add add_length=3 architecture=encoder-decoder stage=·scale",
)
COMPARE = (
    "scale=none",
    "scale=none; norm=pre,lr=0.01",
    "d_ff=auto;clip=off;residual=off;tie_embeddings=on",
    "lr=1e-05;task=sort;symbols=5,length=6;architecture=encoder;steps=120",
    "schedule=cosine,warmup=30;precision=bf16;mask=window,window=2",
)


def query_of(text: str) -> dict[str, str]:
    return dict(item.split("=", 1) for item in text.split(" ") if item)


def links() -> None:
    found = expected["links"] = {"playground": [], "compare": [], "scenarios": [], "ideas": []}
    for text in PLAYGROUND:
        test = opened(query_of(text))
        assert not test.warning, (text, [w.value for w in test.warning])
        kept = {"log", "show_lr", "projector", "more_model", "stage"} & set(query_of(text))
        widgets = {key: test.session_state[key] for key in sorted(kept)}
        about = {"query": query_of(text), "spec": values(test.session_state.choice.spec)}
        found["playground"].append(about | {"widgets": widgets})
    base = apply(plain(), (("d_ff", 32), ("n_layers", 1)))
    for text in COMPARE:
        setup = read_link(text, base)
        assert not setup.left_out, setup.left_out
        knobs = {"d_ff": "32", "n_layers": "1"}
        about = {"query": {"variants": text, "seeds": "5"} | knobs, "labels": setup.labels}
        found["compare"].append(about | {"specs": [values(spec) for spec in setup.specs]})
    from playground.experiments.scenarios import load

    for name, scenario in load().items():
        found["scenarios"].append({"query": {"scenario": name}, "names": scenario.names})
    for name in IDEAS:
        key = {"lookup": "lookup_mode", "tricks": "tricks_which", "order": "order_kind"}.get(name)
        modes = [{key: word} for word in _knobs(name, {})[key][0]] if key else [{}]
        for query in modes:
            found["ideas"].append({"page": name, **_idea(name, query)})


def _knobs(page: str, query: dict[str, str]) -> dict[str, tuple[dict, str]]:
    """Key -> what the knob offers, by its name in the link, and the one it shows."""
    drawn, draw = {}, Knob.draw

    def watching(knob, choices=None, **style):
        value = draw(knob, choices, **style)
        offered = list(knob.choices if choices is None else choices)
        drawn[knob.key] = {knob.show(choice): choice for choice in offered}, knob.show(value)
        return value

    Knob.draw = watching
    try:
        test = opened(query, page)
    finally:
        Knob.draw = draw
    said = [element.value for element in (*test.warning, *test.toast, *test.error)]
    return drawn | {"said": said, "state": test.session_state}


def _idea(page: str, query: dict[str, str]) -> dict:
    """Every knob of a page at another value than its own, as far as they fit together."""
    for key in list(_knobs(page, query)):
        if key in ("said", "state") or key in query:
            continue
        drawn = _knobs(page, query)
        if key not in drawn:
            continue
        offered, now = drawn[key]
        for word in reversed([word for word in offered if word != now][:2]):
            trial = query | {key: "true" if word == "True" else word}
            trial = {k: v.lower() if v in ("True", "False") else v for k, v in trial.items()}
            again = _knobs(page, trial)
            if not again["said"] and set(trial) <= set(again):
                query = trial
                break
    again = _knobs(page, query)
    return {"query": query, "widgets": {key: again["state"][key] for key in query}}


if __name__ == "__main__":
    for old in ("history.sqlite3", "history.sqlite3-wal", "history.sqlite3-shm"):
        (FOLDER / old).unlink(missing_ok=True)
    run, own = checkpoints()
    exports(run, own)
    history(run, own)
    RUNS.close()
    links()
    parts = []
    for name, part in expected.items():
        # One line a file, an entry of the history or a kind of link.
        lines = [json.dumps({key: row}, ensure_ascii=False)[1:-1] for key, row in part.items()]
        parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    (FOLDER / "expected.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")
