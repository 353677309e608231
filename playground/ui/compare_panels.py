"""What the Compare page shows: curves over seeds, results in words, attention side by side."""

import html
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.device import Device
from playground.experiments.series import (
    Series,
    Summary,
    any_live,
    averaged,
    common_step,
    frames_together,
    measured_together,
    waiting,
)
from playground.experiments.variants import CONTRASTS, Setup, caution, encode, read_link
from playground.experiments.verdict import Verdicts, verdicts
from playground.figures import Band, attention_side_by_side, comparison_chart, results_bars
from playground.live.channel import scene_of_runs
from playground.live.picture import Html, Part, Plot, captioned
from playground.runs import estimate
from playground.runs.controller import Controller
from playground.runs.snapshot import Attention, Frame, layer_title
from playground.runs.spec import Spec, counted, in_nats
from playground.ui import allowed, controls
from playground.ui.choices import NEWEST
from playground.ui.components import live_html, live_slider, show_plot, table
from playground.ui.glossary import explain
from playground.ui.knob import Knob
from playground.ui.link import EVERY, MODEL, SEEDS, TRAINING
from playground.ui.literal import literal
from playground.ui.maps_panel import IN_WORDS, stage_switch
from playground.ui.page_head import Tall, projector
from playground.ui.run_panels import (
    configuration,
    log_switch,
    references,
    say_apart,
    scrubbed,
)
from playground.ui.session import channel

TARGET_SHARE = (
    0.5  # of the best guess without reading the input: the table says when a run gets there
)
FIRST_QUESTION = "scale=none"
WIDTH = 1000  # pixels in a window of usual width

Seen = tuple[Series, ...]  # runs as they were seen at one moment; none: they have not begun


def offered() -> dict[str, Knob]:
    """The knobs of which a variant may change one."""
    knobs = MODEL | TRAINING
    return {key: knob for key, knob in knobs.items() if not isinstance(knob.choices, range)}


def ask(base: Spec) -> None:
    """A quick choice fills the field that the link holds."""
    if name := st.session_state.contrast:
        st.session_state.variants = encode(CONTRASTS[name].setup(base).variants)


def add() -> None:
    """One more variant: a knob of the base set to another value."""
    knob = EVERY[st.session_state.new_field]
    written = f"{knob.key}={knob.show(st.session_state.new_value)}"
    st.session_state.variants = ";".join(filter(None, [st.session_state.variants, written]))


def drop(label: str, base: Spec) -> None:
    """Take one variant out of the field that the link holds."""
    setup = read_link(st.session_state.variants or "", base)
    st.session_state.variants = encode(one for one in setup.variants if one.label != label)


def questions(base: Spec, device: Device, row: DeltaGenerator) -> Setup:
    """What is compared with the base: a usual contrast, or the visitor's own variants.

    Args:
        row: where the variants stand side by side, and the way to others.
    """
    chips = row.container(horizontal=True, vertical_alignment="center", width="content")
    with (
        row,
        allowed.place("variants"),
        st.popover(
            allowed.OF_COMPARE["variants"],
            icon=":material/compare_arrows:",
            key="to_compare_with",
            disabled=not allowed.allowed().turns("variants"),
        ),
    ):
        st.pills(
            "The chosen knobs, and a usual contrast to them",
            list(CONTRASTS),
            key="contrast",
            format_func=lambda name: CONTRASTS[name].title,
            on_change=ask,
            args=(base,),
        )
        st.markdown("Or your own variants")
        names, values, button = st.columns([2, 2, 1], vertical_alignment="bottom")
        fields = offered()
        name = names.selectbox(
            "Knob", list(fields), key="new_field", format_func=lambda key: fields[key].title
        )
        values.selectbox(
            "Value", fields[name].choices, key="new_value", format_func=fields[name].show
        )
        button.button("Add", key="add", on_click=add, width="stretch")
        st.text_input(
            "All variants",
            FIRST_QUESTION,
            key="variants",
            bind="query-params",
            help="The link holds this: `scale=none; norm=pre,lr=0.01` are two variants, the second "
            "of which changes two things.",
        )
    try:
        setup = read_link(st.session_state.variants or "", base, device)
    except ValueError as error:
        st.error(literal(error))
        return Setup(base)
    if setup.left_out:
        st.warning("\n\n".join(map(literal, setup.left_out)))
    for variant in setup.variants:
        if warning := caution(variant.changes):
            st.warning(literal(f"{variant.label}: {warning}."))
    with chips:
        show_chips(setup)
    return setup


def show_chips(setup: Setup) -> None:
    """Each variant beside the base, with an × that takes it out."""
    if setup.variants:
        st.markdown("the base, and:", width="content")
    for number, variant in enumerate(setup.variants, 1):
        st.button(
            variant.label,
            key=f"drop_{number}",
            icon=":material/close:",
            icon_position="right",
            on_click=drop,
            args=(variant.label, setup.base),
            disabled=not allowed.allowed().turns("variants"),
        )


def seeds_slider() -> int:
    style = {"help": "Each configuration runs once for every seed; one seed proves nothing."}
    with allowed.place("seeds"):
        return st.select_slider(
            allowed.OF_COMPARE["seeds"],
            SEEDS,
            3,
            key="seeds",
            bind="query-params",
            width=180,
            **allowed.style("seeds", style),
        )


def how_long(setup: Setup, seeds: int, controller: Controller) -> str:
    """How much there is to do, and how long it will take."""
    runs = f"{counted(len(setup.specs), 'configuration')} × {counted(seeds, 'seed')}"
    return f"{runs}, {estimated(setup.specs * seeds, controller)}."


def estimated(specs: Iterable[Spec], controller: Controller) -> str:
    """How long these runs will take together."""
    workers = controller.runs.workers
    seconds = estimate.seconds_together(specs, controller.correction, workers)
    return f"about {estimate.in_words(seconds)} on this machine"


@dataclass(frozen=True)
class Side:
    """What of the attention is shown side by side."""

    whose: tuple[str, ...]  # labels of configurations
    layer: str  # its title
    head: int
    stage: str
    step: int | None  # scrubbed back to; None: the newest


@dataclass(frozen=True)
class Curves:
    """What moves while runs are compared: their curves, and their attention side by side."""

    tall: Tall
    log: bool
    side: Side | None  # None: there is no attention yet

    def __call__(self, series: Seen) -> dict[str, Part]:
        if not series:
            return {}
        found = verdicts(series)
        side = side_by_side(series, self.side, self.tall) if self.side else {}
        parts = losses(series, self.tall, self.log) | side | self.in_words(series, found)
        return captioned(parts, *in_short(series, found))

    def in_words(self, series: Seen, found: Verdicts) -> dict[str, Part]:
        """More parts, of what the seeds say."""
        return {}


class CurvesAndVerdict(Curves):
    """And what the seeds say, in words and numbers."""

    def in_words(self, series: Seen, found: Verdicts) -> dict[str, Part]:
        said = outcome(series, found, len(series) - 1, large=True)
        return {"outcome": Html(said), "results": Html(results(series))}


def in_short(series: Sequence[Series], found: Verdicts) -> tuple[str, str]:
    """What the seeds say of each variant, and what was compared."""
    when = f"At step {found.step}: " if found.step else ""
    said = "; ".join(f"{one.name}{one.text}" for one in found.each)
    base, *variants = series
    others = ", ".join(line.label for line in variants)
    seeds = counted(len(base.seeds), "seed")
    return (
        f"{when}{said}.",
        f"{base.label}: {configuration(base.spec)}. Against it: {others}. {seeds} of each.",
    )


def phase(series: Seen) -> Hashable:
    """What the page's buttons and switches depend on."""
    return any_live(series), tuple(bool(line.views[0].frames) for line in series)


def draw(look: Callable[[], Seen], series: Seen, setup: Setup) -> None:
    """The Compare page's runs; before the first, what is ready."""
    if series:
        draw_runs(look, series, CurvesAndVerdict)
        return
    st.info(f"Ready: the base against {' and '.join(v.label for v in setup.variants)}. Press Play.")


@st.fragment
def draw_runs(look: Callable[[], Seen], series: Seen, kind: type[Curves] = Curves) -> None:
    """What moves, kept up to date by the stream.

    Args:
        series: the runs, of which there are some, as they were seen for the page's buttons.
        look: sees them as they are now.
        kind: what is shown of them.
    """
    verdict = st.container()
    left, right = st.columns([2, 1], gap="medium")
    log = log_switch()
    results = st.container()
    st.subheader("Attention side by side")
    side = side_switches(look() or series)
    picture = kind(Tall(projector()), log, side)
    parts = channel().show(scene_of_runs(picture, look, phase), series)
    with left:
        show_plot(parts["comparison"])
    with right:
        show_plot(parts["finals"])
    say_apart({line.label: line.spec for line in series})
    if "outcome" in parts:
        with verdict:
            live_html(parts["outcome"])
        with results:
            live_html(parts["results"])
    if "side_by_side" in parts:
        live_slider(parts["compare_scrubber"], _scrub)
        show_plot(parts["side_by_side"])
        st.caption(IN_WORDS[side.stage])
    elif side is None:
        st.caption("The first attention maps are being computed.")
    else:
        st.caption("Choose at least one configuration; all must look at the same example.")


def outcome(
    series: Sequence[Series],
    found: Verdicts | None,
    count: int,
    empty: str = "",
    large: bool = False,
) -> str:
    """HTML: what the seeds say about each variant, all read at the same step.

    It has its lines from the beginning, so that nothing below moves when they are filled.

    Args:
        series: the base first.
        found: what they say; None: the runs have not begun.
        count: how many variants there are.
        empty: what stands here until then.
    """
    head, each, luck = html.escape(empty), ["<div data-line></div>"] * count, ""
    if found is not None:
        head, luck = html.escape(_when(series, found.step)), html.escape(found.luck)
        each = [
            f'<div data-line data-verdict="{one.kind}"><b>{html.escape(one.name)}</b>'
            f"{explain(one.text)}.</div>"
            for one in found.each
        ]
    lines = [f"<div>{head}</div>", *each, f"<div data-luck>{luck}</div>"]
    return (
        f'<div data-outcome role="status" style="font-size: {1.1 if large else 1}rem">'
        f"{''.join(lines)}</div>"
    )


def _when(series: Sequence[Series], step: int | None) -> str:
    """When that is, and how many runs still wait until others have ended."""
    if reason := waiting(series):
        return f"{reason[0].upper()}{reason[1:]}".removesuffix(" …") + "."
    when = "At the end:" if step is None else f"So far, at step {step}:"
    places = [view.queue_position for line in series for view in line.views if view.queue_position]
    if not places:
        return when
    are = "runs wait" if len(places) > 1 else "run waits"
    queue = f"{len(places)} {are} in the queue, the next of them at place {min(places)}"
    return f"{when.removesuffix(':')} ({queue}):"


def losses(series: Seen, tall: Tall, log: bool) -> dict[str, Part]:
    """The curves of all runs, and what each has reached at the same step."""
    base, at = series[0].spec, common_step(series)
    shared = references(*(line.spec for line in series)) | {"size": tall(430, 390)}
    curves = comparison_chart(
        bands(series),
        total_steps=base.training.steps,
        log=log,
        empty=waiting(series),
        width=640,
        **shared,
    )
    labels, reached = [line.label for line in series], [line.reached(at) for line in series]
    finals = results_bars(labels, reached, step=at, width=330, **shared)
    return {"comparison": Plot(curves, "comparison"), "finals": Plot(finals, "final losses")}


def take_to_compare(base: Spec, variants: str, seeds: int) -> None:
    """Turn the knobs to a base, fill the fields of the Compare page, and go there next."""
    controls.take_to("compare", base, variants=variants, seeds=str(seeds))
    st.session_state.variants, st.session_state.seeds = variants, seeds


def bands(series: Sequence[Series]) -> list[Band]:
    """A band for each configuration, as the figures take it."""
    found = []
    for i, line in enumerate(series):
        band = line.band()
        rows = (band.steps, band.mean, band.low, band.high)
        found.append(Band(line.label, *(row.tolist() for row in rows), len(band.seeds), i))
    return found


def results(series: Seen) -> str:
    """HTML: a row of numbers for each configuration, all of the same step."""
    target, at = TARGET_SHARE * references(series[0].spec)["chance"].blind, common_step(series)
    measured = measured_together((view for line in series for view in line.views), at)
    rows = [row(line, line.summary(target, at, measured), at, measured) for line in series]
    return (
        f"{table(rows)}<small>Mean ± standard deviation of the seeds. Loss: "
        f"{averaged(series)}, in nats. Steps to target: until that loss is at most {target:.2f}, "
        "half the loss of the best guess without reading the input (of the base). Accuracy: on "
        "validation examples.</small>"
    )


def row(line: Series, summary: Summary, at: int | None, measured: int | None) -> dict[str, str]:
    steps = summary.steps_to_target.text("{:.0f}".format)
    steps += f" ({summary.n_reached} of {summary.seeds})"
    return {
        "configuration": line.label,
        "final loss" if at is None else f"loss at step {at}": summary.loss.text(in_nats),
        "accuracy" if measured is None else f"accuracy at step {measured}": summary.accuracy.text(
            "{:.1%}".format
        ),
        "steps to target": steps if summary.n_reached else "not reached",
        "seconds": summary.seconds.text("{:.1f}".format),
        "diverged": f"{summary.diverged} of {summary.seeds}" if summary.diverged else "–",
    }


def side_switches(series: Seen) -> Side | None:
    """What to show side by side; None while nothing can be shown."""
    newest = {line.label: found[-1] for line in series if (found := line.views[0].frames)}
    if "whose" not in st.session_state and len(newest) < min(2, len(series)):
        return None
    with st.container(horizontal=True, vertical_alignment="bottom", key="side_switches"):
        chosen = st.pills(
            "Configurations",
            list(newest),
            selection_mode="multi",
            default=list(newest)[:2],
            key="whose",
            help="Two of them show their difference too.",
        )
        stage = stage_switch()
        layers = layers_in_common([newest[label] for label in chosen])
        layer = st.selectbox("Block", list(layers) or ["–"], key="compare_layer", width=130)
        heads = min((len(a.entropy) for a in layers.get(layer, [])), default=1)
        head = st.selectbox("Head", list(range(1, heads + 1)), key="compare_head", width=90)
    step = st.session_state.get("compare_step", NEWEST)
    return Side(tuple(chosen), layer, head, stage, None if step == NEWEST else step)


def _scrub(step: int) -> None:
    st.session_state.compare_step = step


def side_by_side(series: Seen, side: Side, tall: Tall) -> dict[str, Part]:
    """The first seed's attention at one step, the same block and head of each, on one scale."""
    views = {line.label: line.views[0] for line in series}
    frames = [views[label].frames for label in side.whose if label in views]
    shown = frames_together(frames, side.step)
    if not shown or side.layer not in layers_in_common(shown):
        return {}
    found = layers_in_common(shown)[side.layer]
    figure = attention_side_by_side(
        [attention.stages[side.stage][side.head - 1] for attention in found],
        [f"{label}, step {shown[0].step}" for label in side.whose],
        found[0].query_tokens,
        found[0].key_tokens,
        stage=side.stage,
        hidden=[attention.hidden for attention in found],
        width=WIDTH,
        size=tall(None),
    )
    steps = set.intersection(*({frame.step for frame in run} for run in frames))
    scrubber = scrubbed(
        sorted(steps), shown[0].step, series[0].spec.training.steps, any_live(series)
    )
    return {
        "side_by_side": Plot(figure, "attention side by side"),
        "compare_scrubber": scrubber,
    }


def layers_in_common(frames: Sequence[Frame]) -> dict[str, list[Attention]]:
    """The layers that all frames have, of those that look at the same tokens."""
    if not frames:
        return {}
    first = frames[0].attention
    return {
        layer_title(name): [frame.attention[name] for frame in frames]
        for name, attention in first.items()
        if all(
            name in frame.attention
            and frame.attention[name].key_tokens == attention.key_tokens
            and frame.attention[name].query_tokens == attention.query_tokens
            for frame in frames
        )
    }
