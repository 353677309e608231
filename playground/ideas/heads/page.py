"""Heads: one width split among several lookups, what each looks at, and what it is worth."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from core.attention import SelfAttention, merge_heads, split_heads
from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from playground.experiments.variants import make_setup
from playground.figures import attention_maps
from playground.ideas import common
from playground.ideas.heads import measure
from playground.ideas.heads.figures import diversity_chart, head_table, split_picture
from playground.live.picture import Part, Plot, Shown
from playground.runs.snapshot import Frame
from playground.runs.spec import Spec, counted, in_nats
from playground.runs.view import View
from playground.ui.choices import NEWEST
from playground.ui.components import live_html, live_plot, live_slider, show_plot
from playground.ui.knob import Knob
from playground.ui.page_head import Tall, projector
from playground.ui.run_panels import frame_shown, is_moving, scrubbed

COUNTS = (1, 2, 4, 8)
SPARE = 0.05  # nats: a head that costs less to remove hardly counts
MAPS_WIDTH, MAP_ROW = 1150, 265  # pixels

WIDTH = Knob(
    "heads_d_model",
    "d_model",
    (16, 32, 64, 128),
    64,
    "Width of the residual stream: the numbers that are split.",
)
COUNT = Knob("heads_count", "Heads", COUNTS, 4, "Into how many lookups the width is split.")
WHICH = Knob(
    "heads_which",
    "Which head",
    tuple(range(1, max(COUNTS) + 1)),
    2,
    "The head whose part of W_q is marked.",
)
LAYERS = Knob("heads_layers", "Blocks", (1, 2, 3), 2, "How many blocks; each has its own heads.")
TASK = Knob(
    "heads_task",
    "Task",
    ("reverse", "copy", "sort", "recall"),
    "reverse",
    "What the model below learns, and so what its heads can be useful for.",
)


def what_is_split(found: measure.Split, which: int, config: ModelConfig) -> str:
    """What the picture says, in two sentences."""
    rows = measure.rows_of(which - 1, found.d_head)
    return (
        f"Head {which} of {config.n_heads} makes its query from rows {rows.start + 1} to "
        f"{rows.stop} of one {config.d_model} × {config.d_model} matrix: {found.d_head} "
        f"numbers of {config.d_model}. "
        f"However it is split, the matrix is the same, so the model has {config.n_parameters:,} "
        "parameters with any number of heads; only the number of attention maps grows."
    )


@dataclass(frozen=True)
class Look:
    """What every head looks at, now or at the chosen step, and what it is worth."""

    untrained: Frame
    spec: Spec
    step: int  # scrubbed back to, or the newest
    marked: int  # the head that the page is about
    worth: measure.Ablation | None
    tall: Tall

    def __call__(self, views: dict[str, View]) -> dict[str, Part]:
        view, spec = next(iter(views.values()), None), self.spec
        frames = (view.frames if view is not None else ()) or (self.untrained,)
        frame = frame_shown(frames, self.step)
        found = measure.jobs_of(frame)
        each = [(block, head) for block in range(len(found)) for head in range(spec.model.n_heads)]
        names = [f"block {block + 1}, head {head + 1}" for block, head in each]
        best = [found[block].best(head) for block, head in each]
        maps = list(frame.attention.values())
        row = min(MAP_ROW, MAPS_WIDTH // spec.model.n_heads + 25)
        weights = attention_maps(
            np.concatenate([attention.stages["weights"] for attention in maps]),
            maps[0].query_tokens,
            maps[0].key_tokens,
            hidden=maps[0].hidden,
            titles=names,
            selected=self.marked - 1,
            columns=spec.model.n_heads,
            width=MAPS_WIDTH,
            size=self.tall(row * len(found) + 80),
        )
        jobs = head_table(
            names,
            found[0].names,
            np.concatenate([block.measured for block in found]),
            found[0].uniform,
            [str(job) for job in best],
            None if self.worth is None else self.worth.rise.flatten().tolist(),
            size=self.tall(None),
        )
        diversity = np.array([measure.diversity(frame) for frame in frames]).T  # [block, frame]
        differences = diversity_chart(
            [frame.step for frame in frames],
            {f"block {i + 1}": line.tolist() for i, line in enumerate(diversity)},
            shown=frame.step,
            total_steps=spec.training.steps,
            size=self.tall(300),
        )
        differ = how_they_differ(diversity[:, 0], np.array(measure.diversity(frame)))
        said = common.paragraph(f"{what_they_do(frame, best, self.worth, names)} {differ}")
        kept = [frame.step for frame in frames]
        return {
            "heads_scrubber": scrubbed(kept, frame.step, spec.training.steps, is_moving(view)),
            "heads_maps": Plot(weights, "heads"),
            "heads_table": Plot(jobs, "jobs of the heads"),
            "heads_diversity": Plot(differences, "diversity"),
            "heads_said": said,
        }


def scrub(step: int) -> None:
    st.session_state.heads_step = step


def draw(_: dict[str, View], parts: Mapping[str, Shown]) -> None:
    live_slider(parts["heads_scrubber"], scrub)
    show_plot(parts["heads_maps"])
    left, right = common.beside(3)
    with left:
        show_plot(parts["heads_table"])
    with right:
        show_plot(parts["heads_diversity"])
    live_html(parts["heads_said"])
    st.caption(
        "Left: mean weight on the keys of each kind, over the queries that have one, in the "
        "example above. A head that has gone more than "
        f"{measure.PARTLY:.0%} of the way from uniform attention to all of its weight on one kind "
        f"looks “partly” at it, from {measure.MOSTLY:.0%} “mostly”. Middle: z of that head set to "
        "0, on validation rows. Right: mean Jensen–Shannon divergence between the "
        "weights of two heads, as a share of ln 2."
    )


def what_they_do(
    frame: Frame, best: list[measure.Job], worth: measure.Ablation | None, names: list[str]
) -> str:
    """How many heads have a job, which is the clearest, and which one the model needs most."""
    mostly, partly = (sum(job.grade == grade for job in best) for grade in ("mostly", "partly"))
    looks = f"At step {frame.step}, {{}} of the {counted(len(names), 'head')} "
    if mostly:
        said = f"{looks.format(mostly)}look{'s' * (mostly == 1)} mostly at one kind of key"
        said += f", and {partly} other{'s' * (partly != 1)} partly" if partly else ""
    elif partly:
        said = f"{looks.format(partly)}look{'s' * (partly == 1)} partly at one kind of key"
    else:
        said = f"{looks.format('none')}looks mostly or even partly at one kind of key"
    if mostly or partly:
        job, name = max(zip(best, names, strict=True), key=lambda item: item[0].share)
        said += f"; the clearest is {name}, with {job.weight:.0%} of its weight on {job.name}"
    if worth is None:
        return f"{said}."
    rise = worth.rise.flatten()
    most, spare = int(rise.argmax()), int((rise < SPARE).sum())
    said += (
        f". The loss on validation rows is {in_nats(worth.loss)} at step {worth.step}, and "
        f"{in_nats(worth.loss + rise[most])} without {names[most]}"
    )
    if not spare:
        return f"{said}. Removing any one head costs at least {SPARE} nats."
    return f"{said}. {spare} of the {len(names)} can each be removed for less than {SPARE} nats."


def how_they_differ(before: np.ndarray, now: np.ndarray) -> str:
    """Whether training has made the heads of each block look at different things.

    Args:
        before, now: diversity of each block's heads, at the first step and at the one shown.
    """
    if np.array_equal(before, now) or not np.isfinite(before + now).all():
        return ""
    blocks = ", ".join(
        f"{after:.2f} in block {i + 1} ({was:.2f} before)"
        for i, (was, after) in enumerate(zip(before, now, strict=True))
    )
    less = int((now < before).sum())
    said = {0: "more different", len(now): "more similar"}.get(
        less, "more similar in some blocks, more different in others"
    )
    return f"Training has made the heads of a block {said}: their diversity is {blocks}."


common.begin(
    "heads",
    "Several heads let a model look at several positions at once; each of them specialises.",
)
with common.row():
    name, n_layers, d_model, n_heads = (
        knob.draw(width="content") for knob in (TASK, LAYERS, WIDTH, COUNT)
    )
    which = WHICH.draw(tuple(range(1, n_heads + 1)), width="content" if n_heads < 8 else 330)

task = TASKS[name]()
config = ModelConfig.for_task(task, d_model=d_model, n_heads=n_heads, n_layers=n_layers)
found = measure.split(config, task)
common.say(what_is_split(found, which, config))
figure = split_picture(
    found.w_q,
    found.x,
    found.q,
    which - 1,
    {h: replace(config, n_heads=h).n_parameters for h in COUNTS},
    found.token,
    size=common.tall(350),
)
live_plot(figure, key="heads_picture")
rows = measure.rows_of(which - 1, found.d_head)
common.formula(
    r"q_i = W^Q_i\, x,\quad d_k = d_\mathrm{model}/h,",
    rf"d_k = {d_model}/{n_heads} = {found.d_head},\quad "
    rf"q_{{{which}}} = W^Q_{{{rows.start + 1}…{rows.stop}}}\,x,\quad "
    rf"h\, d_k\, d_\mathrm{{model}} = {n_heads}\cdot{found.d_head}\cdot{d_model} = {d_model**2}",
)
common.source(SelfAttention, split_heads, merge_heads)

other = 1 if n_heads > 1 else 8
names = [counted(count, "head") for count in (n_heads, other)]
base = Spec(config, task, TrainConfig())
setup = make_setup(base, [(("n_heads", other),)])
views = common.views_of(names, common.idea_runs("heads").series_of(setup))
look = Look(
    measure.first_look(config, task),
    base,
    st.session_state.get("heads_step", NEWEST),
    which,
    common.measured_when_idle("heads", views.get(names[0]), measure.ablation),
    Tall(projector()),
)
common.training(
    "heads",
    f"The same width, the same parameters, the same batches: {names[0]} against {names[1]}. "
    "`reverse` has to look at one symbol for each answer; `sort` has to compare many symbols "
    "with each other. On which of them do several heads help?",
    setup,
    names,
    look,
    draw,
    chosen=(look.step, look.marked, look.worth is None),
)
common.prev_next("heads")
