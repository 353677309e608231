"""The tricks of training: warmup, clipping, tying and precision, and what each one does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import streamlit as st

from core import optimize
from core.config import SCHEDULES, ModelConfig, TrainConfig
from core.model import Transformer
from core.tasks import TASKS
from core.train import Trainer
from playground.experiments.variants import make_setup
from playground.figures.style import Figure
from playground.ideas import common
from playground.ideas.common import choose
from playground.ideas.training_tricks import measure
from playground.ideas.training_tricks.figures import (
    clip_picture,
    norm_history,
    precision_picture,
    schedule_picture,
    time_picture,
    tying_picture,
)
from playground.live.picture import Part, Plot, Shown
from playground.runs.pool import RUNS
from playground.runs.spec import Changes, Spec, counted
from playground.runs.view import View
from playground.ui.components import live_plot, number_cells
from playground.ui.knob import Knob
from playground.ui.run_panels import references

FAST, SLOW = 0.9, 1.1  # times a step in fp32: faster or slower than that counts
FEW = 0.02  # a share of the parameters that is hardly worth saving

WHICH = Knob(
    "tricks_which",
    "Which trick",
    ("Warmup", "Clipping", "Tying", "Precision"),
    "Warmup",
    "One trick at a time: its picture, its formula, its code and its effect.",
)

STEPS = Knob(
    "tricks_steps",
    "Steps in all",
    (100, 200, 300),
    200,
    "How long the training is; the cosine ends there.",
)
WARMUP = Knob(
    "tricks_warmup",
    "Warmup steps",
    (0, 10, 30, 50, 100, 150),
    50,
    "Over how many steps the learning rate rises to its peak.",
)
PEAK = Knob(
    "tricks_peak",
    "Peak learning rate",
    (0.001, 0.003, 0.01, 0.03),
    0.01,
    f"The highest learning rate; {TrainConfig().lr:g} is the usual one here.",
)
DECAY = Knob(
    "tricks_decay",
    "Then",
    SCHEDULES,
    "constant",
    "What the learning rate does after the warmup; the paper's falls with 1/√step.",
)
# The share of the peak after a warmup of w updates, p of the way from there to the end.
SHARES = {
    "constant": "1",
    "cosine": r"0.1 + 0.9\,\tfrac{1 + \cos \pi p}{2}",
    "paper": r"\sqrt{\tfrac{w + 1}{i + 1}}",
}

CLIP = Knob(
    "tricks_clip",
    "Clip at",
    (0.1, 0.3, 1.0, 3.0, 10.0),
    1.0,
    "Longer gradients are shortened to this length.",
    "{:g}".format,
)
OPTIMIZER = Knob(
    "tricks_optimizer",
    "Optimiser",
    ("sgd", "adamw"),
    "sgd",
    "AdamW limits its steps by itself; plain gradient descent does not.",
)
RATE = Knob(
    "tricks_rate",
    "Learning rate",
    (0.001, 0.01, 0.03, 0.1, 0.3),
    0.1,
    "The same for both runs.",
    "{:g}".format,
)
NORM = Knob(
    "tricks_norm",
    "LayerNorm",
    ("none", "post", "pre"),
    "none",
    "Without LayerNorm gradients get large.",
)

WIDTH = Knob(
    "tricks_width",
    "d_model",
    (32, 64, 128, 256, 512, 768),
    64,
    "Width of the model, and of each row of the tables.",
)
LAYERS = Knob("tricks_layers", "Blocks", (1, 2, 4, 6, 12), 2, "How many blocks are stacked.")
VOCABULARY = Knob(
    "tricks_vocabulary",
    "Vocabulary",
    (12, 100, 1000, 10_000, 50_257),
    1000,
    "How many rows each table has; 50,257 in GPT-2.",
)
TEXTS = {
    "reverse": ({}, 300),
    "Python's documentation": ({"source": "docs"}, 200),
    "a small grammar": ({"source": "grammar"}, 200),
}
TASK = Knob("tricks_task", "Train on", tuple(TEXTS), "reverse", "What the two models learn.")

SIZE = Knob(
    "tricks_size",
    "d_model",
    (32, 64, 128, 256, 512),
    64,
    "Width of the model: the larger its matrices, the more a short number type can save.",
)
LOSS_SCALE = Knob(
    "tricks_scale",
    "Loss times",
    (1, 2**8, 2**16, 2**24),
    1,
    "The loss, and with it every gradient, is multiplied by this before the backward pass.",
    lambda n: f"{n:,}",
)


def picture(figure: Figure) -> None:
    """The main picture."""
    live_plot(figure, key="tricks_picture")


def train(
    which: str,
    question: str,
    base: Spec,
    variants: Sequence[tuple[str, Changes]],
    first: str,
    moving: Callable[[dict[str, View]], dict[str, Part]] | None = None,
    *,
    conclude: Callable[[dict[str, float], float], str],
) -> None:
    """The training at the end: the base, and of the variants those that can run and differ from it.

    Args:
        moving: more that moves, of the runs by name.
        conclude: the result in a sentence, from the losses by name and the loss of the best guess
            without reading the input.
    """
    changes = [change for _, change in variants]
    found = make_setup(base, changes)
    runs = {frozenset(variant.changes) for variant in found.variants}
    names = [first, *(name for name, change in variants if frozenset(change) in runs)]

    def below(views: dict[str, View], parts: Mapping[str, Shown]) -> None:
        common.draw_parts(parts)
        if views and all(view.status.conclusive for view in views.values()):
            chance = references(base)["chance"].blind
            st.markdown(conclude({name: view.reached() for name, view in views.items()}, chance))

    common.training(f"tricks_{which}", question, found, names, moving, below)
    for reason in found.left_out:
        if "is the base itself" not in reason:
            st.caption(reason)


def percent(share: float) -> str:
    """A share in per cent: 0 is none, but a tiny share is not."""
    if share == 0:
        return "none"
    if share < 1e-4:
        return "< 0.01%"
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def kept(found: measure.Gradients) -> str:
    """How well bf16 holds the gradients."""
    outside = found.lost["bf16"] + found.blurred["bf16"] + found.overflown["bf16"]
    return "can hold all of them" if outside == 0 else f"cannot hold {percent(outside)}"


def latex(x: float) -> str:
    """A number for a formula: 0.01, 65{,}504 or 6·10⁻⁸."""
    if 1e-3 <= abs(x) < 1e6:
        return common.tex(f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}")
    mantissa, _, power = f"{x:.2e}".partition("e")
    return common.tex(f"{float(mantissa):g}e{power}")


# --- warmup ---------------------------------------------------------------------------------


def warmup() -> None:
    with common.row():
        steps = STEPS.draw()
        length = WARMUP.draw([n for n in WARMUP.choices if n < steps])
        peak = PEAK.draw()
        decay = DECAY.draw()
    flat = TrainConfig(lr=peak, steps=steps)
    mine = replace(flat, warmup=length, schedule=decay)
    rates = measure.schedule(mine)
    said = f"The first update already has the peak learning rate, {peak:g}"
    if length:
        said = f"The learning rate rises from {rates[0]:.2g} to {peak:g} over {length} of "
        said += f"{steps} steps"
    said += (
        ", and then it stays there."
        if decay == "constant"
        else f", and then it falls to {rates[-1]:.2g}."
    )
    common.say(said)
    flat_name, mine_name = "post-norm, from the first step", "post-norm, this schedule"
    pre_name = "pre-norm, from the first step"
    lines = {flat_name: measure.schedule(flat)}
    if mine != flat:
        lines[mine_name] = rates
    picture(schedule_picture(lines, total_steps=steps, size=common.tall(300, 350)))
    common.formula(
        r"\eta_i = \eta_{max}\cdot\begin{cases}\frac{i + 1}{w + 1} & i < w\\ "
        rf"{SHARES[decay]} & i \ge w\end{{cases}}",
        rf"\eta_0 = {latex(rates[0])},\quad \eta_{{{steps - 1}}} = {latex(rates[-1])}",
    )
    common.source(optimize.learning_rate, optimize.SCHEDULES[decay])
    task = TASKS["reverse"]()
    base = Spec(ModelConfig.for_task(task, n_layers=6, d_model=32), task, flat)

    size = common.tall(240, 330)

    def rates_below(views: dict[str, View]) -> dict[str, Part]:
        if not views:
            return {}
        taken = {name: view.lr for name, view in views.items()}
        figure = schedule_picture(taken, total_steps=steps, width=760, size=size)
        return {"tricks_rates": Plot(figure, "learning rates")}

    change = tuple(
        (name, getattr(mine, name))
        for name in ("warmup", "schedule")
        if getattr(mine, name) != getattr(flat, name)
    )
    train(
        "warmup",
        f"Six blocks learn to reverse ten symbols at a peak of {peak:g}: with LayerNorm after each "
        "sub-layer (post-norm, as in the paper) from the first step and with this schedule, and "
        "with LayerNorm before each sub-layer (pre-norm) from the first step. Below the loss "
        "is the learning rate of each step. Is the warmup needed? And at 0.003?",
        base,
        [(mine_name, change), (pre_name, (("norm", "pre"),))],
        flat_name,
        rates_below,
        conclude=lambda loss, chance: measure.after_warmup(
            loss[flat_name], loss.get(mine_name), loss[pre_name], chance
        ),
    )


# --- clipping -------------------------------------------------------------------------------


def clipping() -> None:
    clip, optimizer, rate, norm = choose(CLIP, OPTIMIZER, RATE, NORM)
    found = measure.first_gradients(norm, clip)
    longest = max(found.before)
    factor = measure.clip_factor(longest, clip)
    if factor < 1:
        said = (
            f"The gradients of the untrained model are {min(found.before):.2g} to {longest:.2g} "
            f"long. Clipping at {clip:g} keeps their direction and {factor:.1%} of the longest "
            "one's length."
        )
    else:
        said = (
            f"The gradients of the untrained model are at most {longest:.2g} long: clipping at "
            f"{clip:g} leaves them as they are."
        )
    common.say(said)
    picture(clip_picture(clip, found.before, found.after, size=common.tall(330, 360)))
    common.formula(
        r"g \leftarrow g\cdot\min\!\left(1,\; \frac{c}{\lVert g\rVert}\right),",
        rf"\min\!\left(1,\; \frac{{{clip:g}}}{{{longest:.3g}}}\right) = {factor:.3g}",
    )
    common.source(Trainer.step)
    task, model = measure.clipping_model(norm)
    training = TrainConfig(optimizer=optimizer, lr=rate, clip=None, steps=200)
    plain, clipped = "as they are", f"clipped at {clip:g}"

    size = common.tall(300, 400)

    def norms_below(views: dict[str, View]) -> dict[str, Part]:
        if not views:
            return {}
        norms = {name: view.grad_norm for name, view in views.items()}
        shares = {name: measure.share_clipped(values, clip) for name, values in norms.items()}
        figure = norm_history(norms, clip, shares, total_steps=200, width=760, size=size)
        share = f"{shares[clipped]:.0%}" if len(norms.get(clipped, ())) else "–"
        about = f"Of the run {clipped}: its gradient was longer, before clipping."
        return {
            "tricks_norms": Plot(figure, "gradient norms"),
            "tricks_share": number_cells({"Steps clipped": (share, about)}),
        }

    train(
        "clipping",
        "The same model, used as it is and with clipping. Below the loss are the gradient norm "
        "of each step, before clipping, and the threshold. Then choose `adamw`: does it still make "
        "a difference? Then `post`: are there still steps to clip?",
        Spec(model, task, training),
        [(clipped, (("clip", clip),))],
        plain,
        norms_below,
        conclude=lambda loss, chance: measure.after_clipping(loss[plain], loss[clipped], chance),
    )


# --- tying ----------------------------------------------------------------------------------


def tying() -> None:
    width, layers, vocabulary = choose(WIDTH, LAYERS, VOCABULARY)
    two, one = measure.tables(
        ModelConfig(d_model=width, n_heads=1, n_layers=layers, vocab_size=vocabulary)
    )
    before, after = sum(two.values()), sum(one.values())
    saved = (before - after) / before
    st.markdown(
        f"One table for input and output saves {before - after:,} of {before:,} parameters, "
        f"{saved:.1%}." + (" With this vocabulary that is hardly worth it." if saved < FEW else "")
    )
    picture(tying_picture(two, one, size=common.tall(300, 360)))
    common.formula(
        r"\mathrm{logits} = x\,E^{\top}, \qquad V \cdot d_{model}"
        rf" = {vocabulary} \cdot {width} = {common.tex(f'{before - after:,}')}",
    )
    common.source(Transformer)
    name = TASK.draw()
    knobs, steps = TEXTS[name]
    task = TASKS["text" if knobs else name](**knobs)
    base = Spec(ModelConfig.for_task(task), task, TrainConfig(steps=steps))

    def sizes_below(views: dict[str, View]) -> dict[str, Part]:
        counts = {name: view.spec.model.n_parameters for name, view in views.items()}
        said = ", ".join(f"**{name}** {n:,} parameters" for name, n in counts.items())
        return {"tricks_sizes": common.paragraph(said)}

    train(
        "tying",
        f"The default model (d_model {base.model.d_model}, "
        f"{counted(base.model.n_layers, 'block')}, vocabulary {task.vocab_size}) with two tables "
        "and with one. The one table gets the gradients of both its uses. "
        "Does the loss suffer?",
        base,
        [("one table", (("tie_embeddings", True),))],
        "two tables",
        sizes_below,
        conclude=lambda loss, chance: measure.after_tying(
            loss["two tables"], loss["one table"], chance
        ),
    )


# --- precision ------------------------------------------------------------------------------


def precision() -> None:
    device = RUNS.device
    device_name = device.words.partition(":")[0]
    with common.row():
        width = SIZE.draw()
        scale = LOSS_SCALE.draw()
        asked = st.button(
            "Measure",
            key="tricks_measure",
            type="primary",
            icon=":material/timer:",
            help="Time real training steps in every precision, in turn, on "
            f"{device_name}: a few seconds.",
        )
    found = measure.gradients(width, float(scale))
    if asked:
        with st.spinner("Training in each precision in turn …"):
            busy = RUNS.active()
            st.session_state["tricks times"] = (width, measure.race(width, device), busy)
    st.markdown(
        f"fp16 would round {percent(found.lost['fp16'])} of these gradients to 0, leave "
        f"{percent(found.blurred['fp16'])} with fewer digits and make "
        f"{percent(found.overflown['fp16'])} infinite. bf16 has the range of fp32 and "
        f"{kept(found)}, but it holds only two to three digits of any number."
    )
    types = {name: measure.number_format(name) for name in ("fp32", "bf16", "fp16")}
    picture(precision_picture(types, found.exponents, size=common.tall(330, 360)))
    timed(width, device_name)
    half = types["fp16"]
    common.formula(
        r"\nabla(s\,L) = s\,\nabla L,",
        rf"s = {latex(scale)}:\; \text{{median }} {latex(10**found.median)},\quad "
        rf"\text{{fp16: }} 2^{{-24}} = {latex(half.smallest)} \text{{ to }} {latex(half.largest)},"
        r"\; 1 + 2^{-10}",
    )
    common.source(Trainer.step, Trainer._finite_or_raise)
    task, model = measure.precision_model(64)
    others = [(name, (("precision", name),)) for name in ("bf16", "fp16")]
    train(
        "precision",
        "The default model in each precision that this device offers, from the same numbers on the "
        "same batches. Weights and optimiser stay in fp32, only the matrix products use "
        "shorter numbers: hence “mixed”. Does the loss suffer?",
        Spec(model, task, TrainConfig(steps=150)),
        others,
        "fp32",
        conclude=measure.after_precision,
    )
    for name, refusal in device.refusals:
        if refusal:
            st.caption(f"{name}: {refusal}.")


def timed(width: int, device_name: str) -> None:
    """The measured times, compared with the claim of "a free 2×"."""
    known = st.session_state.get("tricks times")
    if known is None:
        st.markdown(
            f"**How fast is it?** Not measured yet on this device ({device_name}): press Measure."
        )
        return
    measured, times, busy = known
    milliseconds = {name: timing.milliseconds for name, timing in times.items()}
    if "fp32" not in milliseconds:
        st.markdown(f"At d_model {measured} no fp32 step could be timed.")
        return
    ratios = {n: ms / milliseconds["fp32"] for n, ms in milliseconds.items() if n != "fp32"}
    said = [f"{name} {speed(ratio)}" for name, ratio in ratios.items()]
    st.markdown(
        f"**Measured** at d_model {measured} on {device_name}, the fastest of "
        f"{times['fp32'].steps} steps each: {', '.join(said) or 'fp32 only'}."
        + (f" {busy} other runs were training meanwhile, so only the ratios count." if busy else "")
        + (
            f" You have chosen d_model {width} since then: measure again."
            if measured != width
            else ""
        )
    )
    live_plot(time_picture(milliseconds, size=common.tall(150, 210)), key="tricks_times")


def speed(ratio: float) -> str:
    """How long a step takes, compared with fp32."""
    if ratio < FAST:
        return f"is {1 / ratio:.1f} times as fast as fp32"
    if ratio > SLOW:
        return f"takes {ratio:.1f} times as long as fp32"
    return f"takes about as long as fp32 ({ratio:.2f} ×)"


CLAIMS = {
    "Warmup": (
        warmup,
        "Start with a low learning rate, let it rise, then let it fall: without a warmup training "
        "breaks down.",
    ),
    "Clipping": (clipping, "Clip the gradient at 1.0, so that one bad batch cannot ruin the run."),
    "Tying": (tying, "Use one table for input and output: it saves parameters, and costs nothing."),
    "Precision": (
        precision,
        "Mixed precision is a free 2×: half the bits, twice the speed, the same loss.",
    ),
}

# The claim stands above the choice, and changes with it.
chosen = st.session_state.get(WHICH.key, st.query_params.get(WHICH.key))
_, claim = CLAIMS.get(chosen, CLAIMS[WHICH.default])
common.begin("tricks", claim)
show, _ = CLAIMS[WHICH.draw(label_visibility="collapsed")]
show()
common.prev_next("tricks")
