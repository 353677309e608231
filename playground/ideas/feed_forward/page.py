"""Feed-forward and the block: where the parameters and the work are, and what it is for."""

import numpy as np
import streamlit as st

from core.blocks import Block, FeedForward
from core.config import ModelConfig, TrainConfig
from core.init import INITS
from core.tasks import TASKS
from playground.experiments.series import accuracy_at, measured_together
from playground.experiments.variants import make_setup
from playground.ideas import common
from playground.ideas.common import choose
from playground.ideas.feed_forward import measure
from playground.ideas.feed_forward.figures import (
    activation_picture,
    cost_picture,
    influence_maps,
    length_picture,
    share_text,
)
from playground.live.picture import Html, Part
from playground.runs.spec import Spec
from playground.runs.view import Status, View
from playground.ui.components import live_plot, table
from playground.ui.knob import Knob
from playground.ui.turned import turn

SIMILAR = 0.03  # a difference in accuracy that does not count
ROUNDING = 1e-4  # a difference between two outputs that is only rounding
CURVE = np.linspace(-4, 4, 161)
# What the buttons set the knobs to.
PLAYGROUND, GPT = "as in the Playground", "as in GPT"
PRESETS = {
    "Playground": (64, 4, 2, 32, 12, PLAYGROUND),
    "GPT-2 small": (768, 4, 12, 1024, 50_257, GPT),
    "GPT-3": (12_288, 4, 96, 2048, 50_257, GPT),
}
LEARNT = {
    "add": ("Two digits in base 16 and their sum, one block", dict(symbols=16, length=1), 600),
    "sort": ("Ten symbols, sorted, one block", {}, 300),
    "reverse": ("Ten symbols, backwards, one block", {}, 300),
}

WIDTH = Knob(
    "block_width",
    "d_model",
    (16, 32, 64, 128, 256, 512, 768, 1024, 2048, 4096, 12_288),
    64,
    "Width of the residual stream.",
)
FACTOR = Knob(
    "block_ff",
    "d_ff / d_model",
    (1, 2, 4, 8),
    4,
    "How much wider the feed-forward is inside; 4 in the paper.",
)
LAYERS = Knob(
    "block_layers", "Blocks", (1, 2, 4, 6, 12, 24, 48, 96), 2, "How many blocks are stacked."
)
LENGTH = Knob(
    "block_length", "Length", measure.LENGTHS, 32, "Tokens in the sequence that the model reads."
)
VOCABULARY = Knob(
    "block_vocabulary",
    "Vocabulary",
    (12, 100, 1000, 10_000, 50_257),
    12,
    "How many different tokens there are; 50,257 in GPT-2.",
)
TABLES = Knob(
    "block_tables",
    "Tables",
    (PLAYGROUND, GPT),
    PLAYGROUND,
    "In the Playground input and output have a table each, and positions are computed. In GPT one "
    "table is both, and each position has a learned row.",
)
KNOBS = (WIDTH, FACTOR, LAYERS, LENGTH, VOCABULARY, TABLES)
TOKENS = Knob("block_tokens", "Tokens", (4, 6, 8, 12, 16), 8, "How many tokens there are.")
ORDER = Knob(
    "block_order",
    "Another order",
    tuple(measure.ORDERS),
    "reversed",
    "How the tokens are reordered.",
)
INIT = Knob(
    "block_init",
    "Initialisation",
    tuple(INITS),
    "xavier",
    "How large the initial weights are.",
)
TASK = Knob(
    "block_task",
    "Task",
    tuple(LEARNT),
    "add",
    "What is learnt: the feed-forward does not help equally on every task.",
)


def preset(sizes: tuple[int | str, ...]) -> None:
    """Set the knobs that decide the costs."""
    turn({knob.key: value for knob, value in zip(KNOBS, sizes, strict=True)})


def about_costs(parameters: dict[str, int], flops: dict[str, int]) -> str:
    """Where the parameters and the operations are, in two sentences."""
    n, work = sum(parameters.values()), sum(flops.values())
    ffn, attention = parameters["feed-forward"], flops["projections"] + flops["products"]
    blocks = sum(parameters[part] for part in ("feed-forward", "projections", "norms"))
    return (
        f"The feed-forward holds {share_text(ffn / blocks)} of each block's parameters, and "
        f"{share_text(ffn / n)} of all {n:,}. Of the operations the feed-forward does "
        f"{share_text(flops['feed-forward'] / work)} and attention {share_text(attention / work)}: "
        f"{share_text(flops['products'] / work)} are q·k and weights·v, which have no parameters."
    )


def show_order(found: dict[str, measure.Mixing], n: int) -> None:
    """What another order and a changed token do, measured, as a table."""
    rows = {
        name: {
            "shuffled in, shuffled out?": shuffled_along(mixing.permuted),
            "outputs that move when the first token changes": f"{mixing.moved[:, 0].sum()} of {n}",
            "… when the last one changes": f"{mixing.moved[:, -1].sum()} of {n}",
        }
        for name, mixing in found.items()
    }
    st.table(columns_of(rows))


def shuffled_along(difference: float) -> str:
    """Whether the outputs were shuffled along with the tokens."""
    if difference == 0:
        return "yes, exactly"
    if difference < ROUNDING:
        return f"yes, to rounding ({difference:.0e})"
    return f"no: they differ by up to {difference:.2f}"


def columns_of(rows: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    """Columns, as a table wants them."""
    first = next(iter(rows.values()))
    return {"": list(rows)} | {column: [row[column] for row in rows.values()] for column in first}


def results(views: dict[str, View]) -> dict[str, Part]:
    """Parameters, and accuracy on unseen examples; when all are finished, also in a sentence."""
    if not views:
        return {}
    step = measured_together(views.values())
    right = [accuracy_at(view, step) for view in views.values()]
    when = "" if step is None else f" (step {step})"
    rows = [
        {
            "": name,
            "blocks": str(view.spec.model.n_layers),
            "parameters": f"{view.spec.model.n_parameters:,}",
            f"symbols right, on examples never seen in training{when}": (
                "–" if share is None else f"{share:.0%}"
            ),
        }
        for (name, view), share in zip(views.items(), right, strict=True)
    ]
    said = ""
    if all(view.status is Status.DONE for view in views.values()) and None not in right:
        said = common.paragraph(what_came_out(*right)).html
    return {"block_results": Html(table(rows) + said)}


def what_came_out(with_: float, without: float, deeper: float) -> str:
    """The feed-forward compared with none, and with more attention; from one seed."""
    matters = "hardly matters" if with_ - without < SIMILAR else "matters"
    if deeper > with_ + SIMILAR:
        end = f"more attention with as many parameters does better ({deeper:.0%})"
    elif deeper >= with_ - SIMILAR:
        end = f"more attention with as many parameters does as well ({deeper:.0%})"
    else:
        end = f"and more attention with as many parameters does not make up for it ({deeper:.0%})"
    return (
        f"On unseen examples the feed-forward {matters} here: {with_:.0%} of the symbols are right "
        f"with it, {without:.0%} without; {end}."
    )


common.begin(
    "block",
    "Attention mixes the positions; the feed-forward then works on each position alone, and holds "
    "two thirds of a block's weights.",
)
with common.row():
    width = WIDTH.draw(width=240)
    factor = FACTOR.draw()
    layers = LAYERS.draw(width=200)
    with st.container(horizontal=True, width="content"):
        for title, sizes in PRESETS.items():
            st.button(
                title,
                key=f"block_as_{title}",
                on_click=preset,
                args=(sizes,),
                help=f"d_model {sizes[0]:,}, d_ff {sizes[0] * sizes[1]:,}, {sizes[2]} blocks, "
                f"{sizes[3]:,} tokens, vocabulary {sizes[4]:,}; tables {sizes[5]}.",
            )
    with common.more():
        length, vocabulary, tables = (knob.draw() for knob in (LENGTH, VOCABULARY, TABLES))

config = measure.model_config(width, factor, layers, vocabulary, length, tables == GPT)
costs = measure.costs(config, length)
parameters = {part: cost.parameters for part, cost in costs.items()}
flops = {part: cost.flops for part, cost in costs.items()}
common.say(about_costs(parameters, flops))
live_plot(cost_picture(parameters, flops, size=common.tall(320, 370)), key="block_picture")
d, hidden = config.d_model, config.d_hidden
common.formula(
    rf"\mathrm{{FFN}}(x) = \max(0,\; x\underset{{{d} \times {hidden}}}{{W_1}} + b_1)"
    rf"\underset{{{hidden} \times {d}}}{{W_2}} + b_2,",
    rf"2\cdot{d}\cdot{hidden} + {hidden} + {d} = {common.tex(f'{2 * d * hidden + hidden + d:,}')}",
)
st.caption(
    "Operations of one forward pass over one sequence. Only matrix products are counted, a "
    "multiplication and an addition for each pair of numbers; LayerNorm, softmax, activation and "
    "the lookup of the embeddings are left out. The number of heads changes nothing."
)

st.subheader("The longer the sequence, the more attention costs", anchor=False)
crossing = measure.crossing(config)
share = flops["products"] / sum(flops.values())
st.markdown(
    f"The feed-forward works once for each token. The products q·k and weights·v are computed for "
    f"each *pair* of tokens: at {length:,} tokens they are {share_text(share)} of the operations, "
    f"and half of them at {crossing:,.0f}. A causal mask hides nearly half of the pairs, but their "
    "products are computed all the same in the code that runs here."
)
asked = st.session_state.get("block counted") == (config, length)
found = measure.counted(config, length) if asked else None
figure = length_picture(
    measure.FINE,
    measure.flop_shares(config),
    length=length,
    crossing=crossing,
    counted=found["products"] / sum(found.values()) if found else None,
    size=common.tall(340, 430),
)
live_plot(figure, key="block_lengths")
common.formula(
    r"4L^2d \;=\; L\,(8d^2 + 4\,d\,d_{ff}) + \tfrac{2LdV}{n_{layers}} \;\Rightarrow\;"
    r" L = 2d + d_{ff} + \tfrac{V}{2\,n_{layers}}"
    rf" = 2\cdot{d} + {hidden} + \tfrac{{{vocabulary}}}{{2\cdot{layers}}} ="
    rf" {common.tex(f'{crossing:,.1f}')}",
)
with st.container(horizontal=True, vertical_alignment="center"):
    if st.button(
        "Count them",
        key="block_count",
        icon=":material/calculate:",
        help="Let PyTorch count the operations while the real model runs: the first time takes "
        "a few seconds.",
    ):
        with st.spinner("Counting …"):
            measure.counted(config, length)
        st.session_state["block counted"] = (config, length)
        st.rerun()
    if found:
        same = {part: n for part, n in flops.items() if n} == found
        st.markdown(
            f"PyTorch counts {sum(found.values()):,} operations (one block of the real model, "
            f"without its numbers, times {layers}, and the output layer); the formula says "
            f"{sum(flops.values()):,}: {'the same in every part.' if same else '**they differ.**'}"
        )

st.subheader("Each position alone", anchor=False)
st.markdown(
    "Random tokens go through the real sub-layers. Change one token: which outputs move? Then "
    "reorder the tokens: are the outputs simply reordered in the same way?"
)
n_tokens, order = choose(TOKENS, ORDER)
mixings = measure.mixing(n_tokens, order)
influences = {name: mixing.influence for name, mixing in mixings.items()}
live_plot(influence_maps(influences, size=common.tall(360, 430)), key="block_influence")
show_order(mixings, n_tokens)
st.caption(
    "The order test alone does not distinguish the two: attention without a mask and without "
    "positions passes it as well. Only the change of a single token does: in the feed-forward it "
    "moves one output, its own."
)

st.subheader("ReLU or GELU", anchor=False)
init = INIT.draw()
hiddens = {name: measure.hidden(name, init) for name in ("relu", "gelu")}
relu, gelu = hiddens["relu"], hiddens["gelu"]
st.markdown(
    f"The untrained default model reads {measure.ROWS} rows of ten symbols. With ReLU "
    f"**{relu.zero:.1%}** of the {len(relu.values):,} hidden activations are exactly 0; with GELU "
    f"{gelu.zero:.1%}, but {gelu.negative:.1%} are negative, none below −{-gelu.least:.2f}. Units "
    f"that are not above 0 for any token: {relu.dead:.1%} with ReLU (they get no gradient from "
    f"these rows), {gelu.dead:.1%} with GELU."
)
figure = activation_picture(
    CURVE,
    {name: measure.curve(name, CURVE) for name in hiddens},
    {name: found.values for name, found in hiddens.items()},
    {name: found.zero for name, found in hiddens.items()},
    size=common.tall(320, 430),
)
live_plot(figure, key="block_activation")
common.formula(
    r"\mathrm{ReLU}(x) = \max(0, x), \qquad \mathrm{GELU}(x) = x\,\Phi(x)",
    rf"\min \mathrm{{GELU}} = {gelu.least:.3f}\text{{ here}}",
)
common.source(FeedForward, Block.forward)

name = TASK.draw()
about, knobs, steps = LEARNT[name]
task = TASKS[name](**knobs)
base = Spec(ModelConfig.for_task(task, n_layers=1), task, TrainConfig(steps=steps))
RUNS = ["with feed-forward", "no feed-forward", "no feed-forward, three blocks"]
common.training(
    "block",
    f"{about}: with the feed-forward, without it, and without it but with three blocks, which "
    "gives attention as many parameters. Look at the loss, then at the examples that none of them "
    "has seen. Is it the same on every task?",
    make_setup(base, [(("ffn", False),), (("ffn", False), ("n_layers", 3))]),
    RUNS,
    moving=results,
)
common.prev_next("block")
