"""How fast it is, in ratios: `python -m tests.benchmarks`, or `--only step` for one part.

What is compared runs in turn in one process, in short blocks: whatever else the machine does
slows all of it. A ratio is the median over the rounds, each against its own round.
"""

import argparse
import asyncio
import copy
import gc
import math
import os
import platform
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from shutil import which
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import streamlit
import streamlit.logger
import torch
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from torch import Tensor, nn

from core.attention import attention
from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.generate import generate
from core.masks import Bias
from core.measure import teacher_forced
from core.model import Transformer, build_model
from core.optimize import parameter_groups
from core.report import layer_of
from core.tasks import TASKS, Task
from core.tokens import PAD
from core.train import Trainer
from playground.app import app, lifespan
from playground.classroom.database import CLASSES
from playground.experiments.comparison import Comparison
from playground.experiments.variants import make_setup
from playground.ideas.gaps import measure as gaps
from playground.ideas.translation import measure as translation
from playground.live.channel import Channel, Scene, is_live, state_of
from playground.live.stream import Stream
from playground.runs.controller import Controller
from playground.runs.pool import RUNS, Runs
from playground.runs.run import Run
from playground.runs.spec import Spec
from playground.ui import class_teacher, run_panels
from playground.ui.choices import Choices
from playground.ui.page_list import IDEAS
from tests.browser import serving

ROOT = Path(__file__).resolve().parents[1]
FOREVER = 1_000_000  # steps: no run ends while it is measured


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    goal: str = ""


def against(ratio: float, goal: float, below: bool = False) -> str:
    """What is required of a ratio, and whether this one fulfils it."""
    good = ratio < goal if below else ratio >= goal
    return f"{'<' if below else '≥'} {goal:g}: {'yes' if good else 'NO'}"


# --- timing -------------------------------------------------------------------------------


def wait_for_device() -> None:
    """Until what was handed to an accelerator is done."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def seconds_per_call(call: Callable[[], Any], block: float) -> float:
    """Mean over as many calls as fit into `block` seconds, at least one."""
    start, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - start < block:
        call()
        calls += 1
    wait_for_device()
    return (time.perf_counter() - start) / calls


def interleaved(
    calls: dict[str, Callable[[], Any]], rounds: int, block: float = 0.2
) -> dict[str, list[float]]:
    """Seconds per call, one number a round; in each round all take their turn, in any order."""
    for call in calls.values():
        seconds_per_call(call, block / 3)
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffle = list(calls), random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            times[name].append(seconds_per_call(calls[name], block))
    return times


def ratio(times: dict[str, list[float]], above: str, below: str) -> float:
    return median(a / b for a, b in zip(times[above], times[below], strict=True))


def milliseconds(seconds: list[float]) -> str:
    return f"{1e3 * median(seconds):.2f} ms"


# --- a training step ----------------------------------------------------------------------


class Size(NamedTuple):
    """A model on a task, in the proportions of a demonstration or of a small language model."""

    model: ModelConfig
    task: Task
    training: TrainConfig

    def __str__(self) -> str:
        config, training = self.model, self.training
        return (
            f"d_model {config.d_model} × {config.n_layers} layers, "
            f"{training.batch_size} × {config.max_len} tokens"
        )


def size(task: Task, batch_size: int, **knobs: Any) -> Size:
    training = TrainConfig(batch_size=batch_size, steps=FOREVER)
    return Size(ModelConfig.for_task(task, **knobs), task, training)


def small() -> Size:
    return size(TASKS["reverse"](length=12), 32, d_model=64, n_layers=2)


def large() -> Size:
    return size(TASKS["text"](length=64), 12, d_model=128, n_layers=4)


class ReadyMade(nn.Module):
    """PyTorch's own block behind our block's interface, with the weights of ours."""

    def __init__(self, config: ModelConfig, block: nn.Module) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            config.d_model,
            config.n_heads,
            config.d_hidden,
            dropout=0.0,
            activation=config.activation,
            batch_first=True,
            norm_first=config.norm == "pre",
        )
        ours = list(copy.deepcopy(block).parameters())
        for theirs, weights in zip(self._in_our_order(), ours, strict=True):
            theirs.data = weights.data

    def _in_our_order(self) -> Iterator[nn.Parameter]:
        attn = self.layer.self_attn
        yield from (attn.in_proj_weight, attn.in_proj_bias)
        for module in ("self_attn.out_proj", "norm1", "linear1", "linear2", "norm2"):
            yield from self.layer.get_submodule(module).parameters()

    def forward(self, x: Tensor, masks: tuple[Tensor, Tensor], *rest: Any) -> Tensor:
        return self.layer(x, *masks)


def ready_made(ours: Size) -> Trainer:
    """Our trainer, whose blocks are `nn.TransformerEncoderLayer` and whose AdamW is plain.

    Embedding, head, loss, batches, clipping and norms are ours. The causal mask is made once, of
    the type that the layer need not convert.
    """
    config, training = ours.model, ours.training
    trainer = Trainer(config, ours.task, training)
    model, device = trainer.model, trainer.device.name
    model.blocks = nn.ModuleList(ReadyMade(config, block) for block in model.blocks).to(device)
    causal = nn.Transformer.generate_square_subsequent_mask(config.max_len, device=device)

    def masks(may_see: Any, n_query: int, keys: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        return causal, torch.zeros_like(keys, dtype=causal.dtype).masked_fill_(
            keys == PAD, -torch.inf
        )

    model.attention_bias = masks
    trainer.parameters = list(model.parameters())
    trainer.optimizer = torch.optim.AdamW(parameter_groups(model, training), lr=training.lr)
    trainer.layer_of_each = [layer_of(name) for name, _ in model.named_parameters()]
    return trainer


def benchmark_step(repeats: int) -> Iterator[Row]:
    """Our training step against the same model of ready-made parts."""
    for chosen in (small(), large()):
        ours, theirs = Trainer(*chosen), ready_made(chosen)
        apart = max(abs(ours.step().loss - theirs.step().loss) for _ in range(3))
        assert apart < 1e-3, f"not the same model: the losses are {apart} apart"
        times = interleaved({"ours": ours.step, "theirs": theirs.step}, 5 * repeats)
        found = ratio(times, "ours", "theirs")
        yield Row(
            f"{chosen}: ours / nn.TransformerEncoderLayer",
            f"{found:.2f}   ({milliseconds(times['ours'])} / {milliseconds(times['theirs'])})",
            against(found, 1.0, below=True),
        )


class Products:
    """The bare matrix products of a training step, forward and backward, into kept memory."""

    def __init__(self, chosen: Size, device: str) -> None:
        config, batch_size = chosen.model, chosen.training.batch_size
        self.products: list[tuple[Tensor, Tensor, Tensor]] = []
        self.device = device
        tokens, width, hidden = batch_size * config.max_len, config.d_model, config.d_hidden
        linear = ((width, 3 * width), (width, width), (width, hidden), (hidden, width))
        heads, length = batch_size * config.n_heads, config.max_len
        for _ in range(config.n_layers):
            for n_in, n_out in linear:
                self.add((tokens, n_in), (n_in, n_out))
            self.add((heads, length, config.d_head), (heads, config.d_head, length))
            self.add((heads, length, length), (heads, length, config.d_head))
        self.add((tokens, width), (width, config.vocab_size))

    def add(self, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        """a @ b, and the two products that its gradient needs."""
        left, right = (torch.randn(shape, device=self.device) for shape in (a, b))
        grad = torch.randn(*a[:-1], b[-1], device=self.device)
        for x, y in ((left, right), (grad, right.mT), (left.mT, grad)):
            self.products.append((x, y, torch.empty_like(x @ y)))

    def __call__(self) -> None:
        for x, y, out in self.products:
            torch.matmul(x, y, out=out)


def benchmark_floor(repeats: int) -> Iterator[Row]:
    """Our training step against the matrix products in it."""
    for chosen in (small(), large()):
        trainer = Trainer(*chosen)
        products = Products(chosen, trainer.device.name)
        times = interleaved({"step": trainer.step, "products": products}, 3 * repeats)
        yield Row(
            f"{chosen}: step / its matrix products",
            f"{ratio(times, 'step', 'products'):.2f}   "
            f"({milliseconds(times['step'])} / {milliseconds(times['products'])})",
        )


def benchmark_growth(repeats: int) -> Iterator[Row]:
    """Time and memory of a step as length and width double."""
    lengths = [(f"length {n}", size(text(n), 8, d_model=64)) for n in (64, 128, 256, 512)]
    widths = [(f"d_model {n}", size(text(64), 8, d_model=n)) for n in (64, 128, 256, 512)]
    for title, sizes in (("batch 8, d_model 64", lengths), ("batch 8, length 64", widths)):
        trainers = {name: Trainer(*chosen) for name, chosen in sizes}
        steps = {name: trainer.step for name, trainer in trainers.items()}
        parts = {f"{name} attention": AttentionOnly(t) for name, t in trainers.items()}
        times = interleaved(steps | parts, 3 * repeats, block=0.05)
        best = {name: min(seconds) for name, seconds in times.items()}
        before = None  # time and memory of the size before
        for name, trainer in trainers.items():
            now = best[name], float(memory(trainer))
            share = best[f"{name} attention"] / best[name]
            grown = (
                [f"×{a / b:.1f}" for a, b in zip(now, before, strict=True)] if before else ["", ""]
            )
            yield Row(
                f"{title}: {name}",
                f"{1e3 * now[0]:8.1f} ms {grown[0]:4}  {now[1] / 1e6:7.1f} MB {grown[1]:4}  "
                f"attention {share:.0%} of the time",
            )
            before = now


def write_without_cache(model: Transformer, tokens: Tensor, n_new: int) -> Tensor:
    """What `generate` does, reading the whole text for each token."""
    with torch.no_grad():
        for _ in range(n_new):
            logits = model(tokens)[:, -1]
            logits[:, PAD] = -torch.inf
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
    return tokens[:, -n_new:]


def benchmark_cache(repeats: int) -> Iterator[Row]:
    """Tokens per second of one text that grows to a length, with and without a key-value cache."""
    for length in (64, 256, 512):
        config = ModelConfig(
            vocab_size=80, max_len=length, d_model=128, n_layers=4, norm="pre", position="rotary"
        )
        model, start, n_new = build_model(config), torch.ones(1, 1, dtype=torch.long), length - 1
        calls = {
            "with": partial(generate, model, (start,), n_new),
            "without": partial(write_without_cache, model, start, n_new),
        }
        assert torch.equal(calls["with"](), calls["without"]()), "not the same text"
        times = interleaved(calls, repeats, block=0)
        rates = [n_new / median(times[name]) for name in calls]
        yield Row(
            f"d_model 128 × 4 layers: a text of {length} tokens, with a cache / without",
            f"{ratio(times, 'without', 'with'):.1f} ×   "
            f"({rates[0]:,.0f} / {rates[1]:,.0f} tokens/s)",
        )


# --- learning ---------------------------------------------------------------------------------

# What a page trains, how it is scored, how high it is to come, and in how many seconds.
LEARNT: dict[str, tuple[Spec, str, float, int]] = {
    "dates, exact match": (translation.spec("dates", "quick"), "exact", 0.95, 15),
    "numbers, exact match": (translation.spec("numbers", "quick"), "exact", 0.95, 30),
    "gaps of the grammar": (gaps.spec("grammar"), "tokens", 0.90, 30),
}
LOOK_EVERY = 20  # steps


def benchmark_learn(repeats: int) -> Iterator[Row]:
    """Seconds of training until what a page trains is good; scoring it does not count."""
    for what, (spec, score, goal, aim) in LEARNT.items():
        found = sorted(seconds_to_learn(spec, seed, score, goal) for seed in range(repeats))
        yield Row(
            f"{what}: seconds to {goal:.0%}, {repeats} seeds",
            ", ".join(f"{seconds:.1f}" for seconds in found),
            against(found[-1], aim, below=True),
        )


def seconds_to_learn(spec: Spec, seed: int, score: str, goal: float) -> float:
    """Infinite where it does not come so far."""
    spec = spec.changed((("seed", seed),))
    trainer = Trainer(spec.model, spec.task, spec.training)
    batch, spent = spec.task.validation(spec.model.form), 0.0
    for step in trainer:
        spent += step.seconds
        if step.step % LOOK_EVERY:
            continue
        if getattr(teacher_forced(trainer.model, batch), score) >= goal:
            return spent
    return math.inf


def text(length: int) -> Task:
    return TASKS["text"](source="grammar", length=length)


class AttentionOnly:
    """The attention of all layers, forward and backward, without the products around it."""

    def __init__(self, trainer: Trainer) -> None:
        config, rows = trainer.model_config, trainer.config.batch_size
        shape = rows, config.n_heads, config.max_len, config.d_head
        tokens = torch.ones(rows, config.max_len, dtype=torch.long, device=trainer.device.name)
        self.layers, self.scale = config.n_layers, config.d_head**-0.5
        self.qkv = [torch.randn(shape, device=tokens.device, requires_grad=True) for _ in range(3)]
        self.bias: Bias = trainer.model.attention_bias(
            trainer.model.may_see, config.max_len, tokens
        )
        self.grad = torch.randn(shape, device=tokens.device)

    def __call__(self) -> None:
        for _ in range(self.layers):
            z = attention(*self.qkv, self.bias, self.scale)
            torch.autograd.grad(z, self.qkv, self.grad)


def memory(trainer: Trainer) -> int:
    """Bytes of the weights, their gradients and moments, and what forward keeps for backward."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        trainer.step()
    weights = {p.untyped_storage().data_ptr() for p in trainer.parameters}
    activations = sum(n for place, n in kept.items() if place not in weights)
    return activations + 4 * sum(p.nbytes for p in trainer.parameters)


# --- runs and pages -----------------------------------------------------------------------


def default_spec(seed: int = 0) -> Spec:
    """The Playground's defaults, without an end."""
    task = TASKS["reverse"]()
    return Spec(ModelConfig.for_task(task), task, TrainConfig(steps=FOREVER, seed=seed))


def wait_until(true: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing within {seconds} s")
        time.sleep(0.02)


def steps_done(runs: list[Run]) -> list[int]:
    return [len(run.view().loss) for run in runs]


def trained_in(seconds: float, runs: list[Run]) -> list[float]:
    """Steps per second of each run, over so many seconds."""
    before, start = steps_done(runs), time.perf_counter()
    time.sleep(seconds)
    after, passed = steps_done(runs), time.perf_counter() - start
    return [(b - a) / passed for a, b in zip(before, after, strict=True)]


@contextmanager
def training(runs: Runs, owner: str, count: int = 1) -> Iterator[list[Run]]:
    """Runs at the defaults that train until the end of the block."""
    started = [runs.start(owner, default_spec(seed)) for seed in range(count)]
    try:
        wait_until(lambda: min(steps_done(started)) > 20)
        yield started
    finally:
        for run in started:
            runs.discard(run)
        gc.collect()


def let(runs: list[Run], train: bool) -> None:
    """Let runs train, or rest; returns when they do."""
    for run in runs:
        run.play() if train else run.pause()
    wait_until(lambda: all(run.view().live is train for run in runs))


class Viewer:
    """A browser on the stream that draws at once: when it was told what."""

    def __init__(self, channel: Channel) -> None:
        self.headers: dict[str, str] = {}
        self.path_params = {"token": channel.token}
        self.times: list[float] = []
        self._drawn = asyncio.Event()

    async def accept(self) -> None: ...

    async def close(self, code: int = 1000) -> None: ...

    async def send_text(self, text: str) -> None:
        self.times.append(time.perf_counter())
        self._drawn.set()

    async def receive(self) -> dict[str, str]:
        await self._drawn.wait()
        self._drawn.clear()
        return {"type": "websocket.receive"}


def channel_of(run: Run) -> Channel:
    """What the Playground shows of a run that trains."""
    controller = Controller(run.owner)
    controller.spec, controller.run = run.view().spec, run
    picture = run_panels.Picture(controller, controller.spec, (), "", Choices())
    channel = Channel(run.owner)
    channel.show(Scene(picture, lambda: controller.view, state_of, is_live), controller.view)
    return channel


@contextmanager
def watching(channels: list[Channel]) -> Iterator[list[Viewer]]:
    """A viewer for each channel, on a stream in a thread of its own."""
    stream, loop, viewers = Stream(lambda origin, host: True), asyncio.new_event_loop(), []

    async def watch() -> None:
        viewers.extend(map(Viewer, channels))
        await asyncio.gather(*(stream.serve(viewer) for viewer in viewers))

    task = loop.create_task(watch())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    try:
        wait_until(lambda: len(viewers) == len(channels))
        yield viewers
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def watched_and_not(repeats: int, count: int, window: float) -> tuple[float, list[float], float]:
    """Runs that are watched on the stream and runs that nobody watches, in turn.

    Returns:
        Steps per second watched over unwatched; pictures a second of each viewer; seconds
        that one picture takes.
    """
    pool = Runs()
    rates: dict[bool, list[float]] = {False: [], True: []}
    told: list[float] = []
    with training(pool, "watched", count) as runs:
        channels = [channel_of(run) for run in runs]
        looks = [seconds_per_call(lambda c=c: (c.refresh(), c.news({})), 0) for c in channels]
        for watched in islice(cycle((False, True, True, False)), 4 * repeats):
            with watching(channels if watched else []) as viewers:
                rates[watched].append(sum(trained_in(window, runs)))
            told += [len(viewer.times) / window for viewer in viewers]
    pool.close()
    found = median(a / b for a, b in zip(rates[True], rates[False], strict=True))
    return found, told, median(looks)


def benchmark_watch(repeats: int) -> Iterator[Row]:
    """One run that is watched, and thirty, against the same with nobody looking."""
    for count, window, goal in ((1, 3.0, 0.95), (30, 6.0, 0.9)):
        found, told, look = watched_and_not(repeats, count, window)
        yield Row(
            f"steps/s of {count} watched / unwatched",
            f"{found:.2f}   (a picture takes {1e3 * look:.2f} ms)",
            against(found, goal),
        )
        yield Row(
            f"pictures a second, each of {count}",
            f"{median(told):.1f}   ({min(told):.1f} to {max(told):.1f})",
            against(min(told), 4 if count == 1 else 0.3),
        )


def turns() -> Iterator[Callable[[AppTest], Any]]:
    """Knobs to turn, one after the other; the seed sees to it that no answer is a known one."""
    choices = {
        "scale": ("none", "sqrt_d_head"),
        "norm": ("pre", "post"),
        "position": ("learned", "sinusoidal"),
        "mask": ("none", "causal"),
        "init": ("gpt2", "xavier"),
        "n_layers": (3, 2),
    }
    seed = 0
    while True:
        for values in zip(*choices.values(), strict=True):
            for key, value in zip(choices, values, strict=True):
                yield lambda page, key=key, value=value: page.get_by_key(key).set_value(value)
        seed += 1
        yield lambda page, seed=seed: page.get_by_key("seed").set_value(seed)


@contextmanager
def scripts_kept() -> Iterator[None]:
    """AppTest compiles the pages' scripts again at every run; the server does it once."""
    with patch("streamlit.testing.v1.local_script_runner.ScriptCache", return_value=ScriptCache()):
        yield


def benchmark_knob(repeats: int) -> Iterator[Row]:
    """From a turned knob to the new figures on the server, the whole app's page included."""
    yield from knob_beside(1, repeats, "beside a run", "about 150 ms is good")


def benchmark_dozen(repeats: int) -> Iterator[Row]:
    """The same while twelve runs train."""
    yield from knob_beside(12, repeats, "beside twelve runs")


def knob_beside(count: int, repeats: int, what: str, goal: str = "") -> Iterator[Row]:
    """Median times of a knob change, in turn with nothing and with `count` runs training."""
    page = AppTest.from_file(str(ROOT / "playground" / "main.py"), default_timeout=60).run()
    assert not page.exception, page.exception
    times: dict[bool, list[float]] = {False: [], True: []}
    with training(RUNS, "somebody else", count) as runs, scripts_kept():
        for i, turn in enumerate(islice(turns(), 16 * repeats)):
            if i % 4 == 0:
                busy = i % 8 == 4
                let(runs, train=busy)
            turn(page)
            times[busy].append(seconds_per_call(page.run, 0))
            assert not page.exception, page.exception
    yield Row(
        "knob → new figures, nothing trains", milliseconds(times[False]), "about 60 ms is good"
    )
    yield Row(f"knob → new figures, {what}", milliseconds(times[True]), goal)


def benchmark_ideas(repeats: int) -> Iterator[Row]:
    """From a turned knob to all figures on the server, on the page of each idea at its defaults.

    Its first knob goes through its values: once with nothing remembered, and once more.
    """
    for name in IDEAS:
        page = AppTest.from_file(str(ROOT / "playground" / "main.py"), default_timeout=60).run()
        page.switch_page(IDEAS[name].file).run()
        module, new, again = (
            sys.modules[f"playground.ideas.{Path(IDEAS[name].file).parent.name}.measure"],
            [],
            [],
        )
        with scripts_kept():
            for i in range(4 * repeats):
                knob = next(k for k in page.get("button_group") if k.key.startswith(f"{name}_"))
                values = [option for option in knob.options if option != knob.formatted_values[0]]
                knob.set_value(values[i % len(values)])
                for function in vars(module).values():
                    if hasattr(function, "cache_clear"):
                        function.cache_clear()
                new.append(seconds_per_call(page.run, 0))
                again.append(seconds_per_call(page.run, 0))
                assert not page.exception, page.exception
        yield Row(
            f"{IDEAS[name].title}: knob → new figures",
            f"{milliseconds(new)}; what is known already {milliseconds(again)}",
            "about 100 ms is good",
        )


def benchmark_crowd(repeats: int, count: int = 30) -> Iterator[Row]:
    """Many runs at once: nothing is lost on the whole, and nobody is left behind."""
    pool = Runs()
    alone, together, window = [], [], 6.0
    with training(pool, "crowd", count) as runs:
        for _ in range(2 * repeats):
            together.append(trained_in(window, runs))
            let(runs[1:], train=False)
            alone += trained_in(2.0, runs[:1])
            let(runs[1:], train=True)
    pool.close()
    total = median(sum(rates) / one for rates, one in zip(together, alone, strict=True))
    shares = [window * sum(rates) for rates in zip(*together, strict=True)]
    yield Row(
        f"steps/s of {count} runs at once / of one alone",
        f"{total:.2f}   ({median(map(sum, together)):.0f} / {median(alone):.0f})",
        against(total, 0.9),
    )
    fair = min(shares) / max(shares)
    yield Row(
        "smallest share / largest",
        f"{fair:.2f}   ({min(shares):.0f} / {max(shares):.0f} steps)",
        against(fair, 0.8),
    )


def benchmark_six(repeats: int) -> Iterator[Row]:
    """A comparison of a base with five variants at once."""
    yield from benchmark_crowd(repeats, 6)


def benchmark_class(repeats: int, count: int = 30) -> Iterator[Row]:
    """A class presses Play on the Compare page; then one more comes, to the Playground."""
    pool, refused, base = Runs(), 0, default_spec()
    setup = make_setup(base, [[("scale", "none")]])
    classmates = [Comparison(f"visitor {i}", pool) for i in range(count)]
    start = time.perf_counter()
    for compared in classmates:
        try:
            compared.start(setup, seeds=3)
        except ValueError:
            refused += 1
    runs = [run for compared in classmates for run in compared.all_runs()]
    wait_until(lambda: all(any(steps_done(c.all_runs())) for c in classmates if c.all_runs()))
    everybody = time.perf_counter() - start
    waits = []
    for i in range(2 * repeats):
        start = time.perf_counter()
        newcomer = pool.start(f"newcomer {i}", base)
        wait_until(lambda run=newcomer: steps_done([run])[0] > 0)
        waits.append(time.perf_counter() - start)
        pool.discard(newcomer)
    rates = dict(zip(runs, trained_in(10.0, runs), strict=True))
    shares = [10 * sum(rates[run] for run in compared.all_runs()) for compared in classmates]
    active, memory = pool.active(), sum(run.memory.kept for run in runs)
    pool.close()
    yield Row(
        f"{count} visitors compare: who is refused",
        f"{refused}   ({len(runs)} runs, {active} train at once, {memory / 1e6:.0f} MB)",
        against(refused, 1, below=True),
    )
    yield Row("until each of them has made a step", f"{everybody:.1f} s")
    yield Row(
        "one more: Play → first step, the longest of a few",
        f"{max(waits):.2f} s",
        against(max(waits), 5, below=True),
    )
    fair = min(shares) / max(shares)
    yield Row(
        "smallest share of a visitor / largest",
        f"{fair:.2f}   ({min(shares):.0f} / {max(shares):.0f} steps)",
        against(fair, 0.8),
    )


def benchmark_classroom(repeats: int, count: int = 30) -> Iterator[Row]:
    """A class votes at once: when its teacher sees it, and what each student costs."""
    with TemporaryDirectory() as folder, patch.dict(os.environ, PLAYGROUND_DATA=folder):
        code, secret = CLASSES.open()
        poll = CLASSES.put(code, secret, "Does it?", ["yes", "no"])
        who = [f"{i:032x}" for i in range(count)]
        for browser in who:
            CLASSES.join(code, browser)
        pages, memory = [], [resident()]
        with scripts_kept():
            for browser in who:
                pages.append(class_page(code, visitor_id=browser))
                memory.append(resident())
            teacher = class_page(code, class_secrets={code: secret}, class_part="Vote")
            waits = [seen_after(code, who, teacher, poll, i % 2) for i in range(2 * repeats)]
            votes = sum(CLASSES.for_teacher(code, secret).poll.counts)
            pages.clear()
            for browser in who:
                CLASSES.leave(code, browser)
            left = len(CLASSES.for_teacher(code, secret).members)
    # The first ones load what all of them share.
    each = (memory[-1] - memory[count // 3]) / (count - 1 - count // 3)
    yield Row(
        f"{count} vote at once: until the teacher's page has drawn the last vote",
        f"{max(waits):.2f} s   (its look a second included)",
        against(max(waits), 2, below=True),
    )
    yield Row("votes lost", f"{count - votes}", against(count - votes, 1, below=True))
    yield Row("memory of a student's page", f"{each / 1e6:.1f} MB")
    yield Row("students left in the class after all have gone", f"{left}", against(left, 1, True))


def class_page(code: str, **state: Any) -> AppTest:
    """The page of the class in a session that holds `state`."""
    page = AppTest.from_file(str(ROOT / "playground" / "main.py"), default_timeout=60)
    for key, value in state.items():
        page.session_state[key] = value
    page.query_params["class"] = code
    page._page_hash = calc_hash("class")
    page.run()
    assert not page.exception, page.exception
    return page


def seen_after(code: str, who: list[str], teacher: AppTest, poll: int, answer: int) -> float:
    """Seconds from the first click to the teacher's page that has counted all, at worst.

    The page is drawn once a second: that whole second counts, as if the last vote had come just
    after it was.
    """
    threads = [
        threading.Thread(target=CLASSES.vote, args=(code, browser, poll, answer)) for browser in who
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    teacher.run()
    passed = time.perf_counter() - start
    assert f"<b>{len(who)}</b>" in " ".join(element.value for element in teacher.html)
    return passed + class_teacher.LOOK


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# --- in a real browser --------------------------------------------------------------------


# Resolves with the milliseconds between the moments at which the curve was drawn.
GAPS = """(seconds) => new Promise((resolve) => {
  const plot = document.querySelector(".st-key-loss_chart .live-plot"), times = []
  const drawn = () => times.push(performance.now())
  plot.on("plotly_afterplot", drawn)
  setTimeout(() => {
    plot.removeListener("plotly_afterplot", drawn)
    resolve(times.slice(1).map((time, i) => time - times[i]))
  }, 1000 * seconds)
})"""


# Resolves with the milliseconds from the click to the frame on which the maps are drawn again.
CLICK = """([key, label]) => new Promise((resolve, reject) => {
  const plot = document.querySelector(".st-key-attention .live-plot")
  const button = [...document.querySelectorAll(`.st-key-${key} button`)].find(
    (one) => one.textContent.trim() === label)
  const old = plot.data[0].z, start = performance.now()
  const drawn = () => {
    if (plot.data[0].z === old) return
    plot.removeListener("plotly_afterplot", drawn)
    requestAnimationFrame(() => resolve(performance.now() - start))
  }
  plot.on("plotly_afterplot", drawn)
  setTimeout(() => reject(new Error("not drawn again within 20 s")), 20000)
  button.click()
})"""


def benchmark_browser(repeats: int) -> Iterator[Row]:
    """From a click on a knob to the redrawn maps in headless Chromium."""
    what = "click → redraw in Chromium"
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        yield Row(what, "skipped: playwright is not installed")
        return
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=which("chromium"))
        except Error as error:
            yield Row(what, f"skipped: no Chromium ({str(error).splitlines()[0]})")
            return
        with TemporaryDirectory() as folder, serving(Path(folder) / "log") as address:
            page = chromium.new_page(viewport={"width": 1440, "height": 1000})
            page.goto(f"{address}?steps=2000")
            page.wait_for_selector(".st-key-attention .main-svg", timeout=60_000)
            found = clicks(page, repeats)
            yield Row(what, milliseconds(found), against(1e3 * median(found), 200, below=True))
            page.click(".st-key-play button")
            page.wait_for_selector(".st-key-pause", timeout=60_000)
            gaps = page.evaluate(GAPS, 4 * repeats)
            usual = median(gaps)
            yield Row(
                "pictures a second in Chromium, while a run trains",
                f"{1e3 / usual:.1f}   (longest gap {max(gaps) / usual:.1f} times the median)",
                against(1e3 / usual, 4),
            )
            page.click(".st-key-reset button")
            page.wait_for_selector(".st-key-play", timeout=60_000)
            # Six configurations on two seeds, in another tab.
            other = chromium.new_page()
            variants = ";".join(f"d_ff={width}" for width in (32, 64, 128, 192, 512))
            other.goto(f"{address}/compare?steps=50000&seeds=2&variants={variants}")
            other.click(".st-key-play button", timeout=60_000)
            other.wait_for_selector(".st-key-pause", timeout=60_000)
            found = clicks(page, repeats)
            yield Row(
                f"{what}, beside twelve runs",
                milliseconds(found),
                against(1e3 * median(found), 300, below=True),
            )
        chromium.close()


def benchmark_cold(repeats: int) -> Iterator[Row]:
    """From the command that starts the server, with a browser that has seen nothing yet."""
    from playwright.sync_api import sync_playwright

    stages = {
        "server answers": None,
        "Play button": ".st-key-play button",
        "maps": ".st-key-attention .main-svg",
        "first curve": ".st-key-loss_chart .scatterlayer .trace path",
    }
    times: dict[str, list[float]] = {stage: [] for stage in stages}
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        # With nothing set, as the README starts it: a setting would be checked first.
        for _ in range(repeats):
            start = time.perf_counter()
            with serving(Path(folder) / "log", PLAYGROUND_HISTORY="") as address:
                chromium = playwright.chromium.launch(executable_path=which("chromium"))
                page = chromium.new_page(viewport={"width": 1440, "height": 1000})
                for stage, selector in stages.items():
                    if selector is None:
                        times[stage].append(time.perf_counter() - start)
                        page.goto(address, wait_until="commit")
                        continue
                    page.wait_for_selector(selector, timeout=60_000, state="attached")
                    times[stage].append(time.perf_counter() - start)
                    if stage == "Play button":
                        page.click(selector)
                chromium.close()
    yield Row(
        "cold start, seconds from the command",
        ", ".join(f"{stage} {median(seconds):.1f}" for stage, seconds in times.items()),
        against(median(times["first curve"]), 5, below=True),
    )


def clicks(page: Any, repeats: int) -> list[float]:
    """Seconds from a click on a knob to the redrawn maps; the first two warm up."""
    times = []
    for norm in islice(cycle(("pre", "post")), 2 + 4 * repeats):
        page.wait_for_timeout(500)
        times.append(page.evaluate(CLICK, ["norm", norm]) / 1e3)
    return times[2:]


BENCHMARKS: dict[str, Callable[[int], Iterator[Row]]] = {
    "step": benchmark_step,
    "floor": benchmark_floor,
    "cache": benchmark_cache,
    "learn": benchmark_learn,
    "watch": benchmark_watch,
    "knob": benchmark_knob,
    "browser": benchmark_browser,
    "cold": benchmark_cold,
    "crowd": benchmark_crowd,
    "class": benchmark_class,
    "classroom": benchmark_classroom,
    "six": benchmark_six,
    "dozen": benchmark_dozen,
    "ideas": benchmark_ideas,
    "growth": benchmark_growth,
}


def as_the_app_does() -> None:
    """What the server sets once for its process: threads, allocator, switching, collection."""

    async def start() -> None:
        async with lifespan(app):
            pass

    asyncio.run(start())


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main(arguments: list[str] | None = None) -> None:
    os.environ["PLAYGROUND_HISTORY"] = "off"  # nothing measured here is to be remembered
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="this part only")
    parser.add_argument("--repeats", type=int, default=2, help="more of them, less noise")
    chosen = parser.parse_args(arguments)
    as_the_app_does()
    streamlit.logger.set_log_level("ERROR")  # AppTest runs without a server, and is told so
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"{choose_device().words}; {cpu()}, {os.cpu_count()} cores{load}\n"
        f"Python {platform.python_version()}, torch {torch.__version__} on "
        f"{torch.get_num_threads()} threads, streamlit {streamlit.__version__}\n"
    )
    for name in chosen.only or BENCHMARKS:
        for row in BENCHMARKS[name](chosen.repeats):
            print(f"{name:8}  {row.what:72}  {row.measured:58}  {row.goal}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
