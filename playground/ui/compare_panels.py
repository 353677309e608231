"""What the Compare page shows: curves over seeds, results in words, attention side by side."""

import html
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.device import Device
from playground.experiments.series import (
    Series,
    Summary,
    common_step,
    frames_together,
    measured_together,
    waiting,
)
from playground.experiments.variants import CONTRASTS, Setup, caution, encode, read_link
from playground.experiments.verdict import verdicts
from playground.figures import Band, attention_side_by_side, comparison_chart, results_bars
from playground.runs import estimate
from playground.runs.controller import Controller
from playground.runs.snapshot import Attention, Frame, layer_title
from playground.runs.spec import Spec, counted, in_nats
from playground.runs.view import LAST
from playground.ui import controls
from playground.ui.components import live_plot
from playground.ui.glossary import explain
from playground.ui.knob import Knob
from playground.ui.link import EVERY, MODEL, SEEDS, TRAINING
from playground.ui.literal import literal
from playground.ui.page_head import tall
from playground.ui.run_panels import (
    IN_WORDS,
    log_switch,
    references,
    stage_switch,
)

TARGET_SHARE = (
    0.5  # of the best guess without reading the input: the table says when a run gets there
)
FIRST_QUESTION = "scale=none"
WIDTH = 1000  # pixels in a window of usual width


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


def questions(base: Spec, device: Device) -> Setup:
    """What is compared with the base: a usual contrast, or the visitor's own variants."""
    st.pills(
        "What to compare with the knobs on the left",
        list(CONTRASTS),
        key="contrast",
        format_func=lambda name: CONTRASTS[name].title,
        on_change=ask,
        args=(base,),
    )
    chips = st.container(horizontal=True, vertical_alignment="center", gap="small", key="chips")
    with st.expander("Your own variants"):
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
        st.markdown("The base, and:", width="content")
    for number, variant in enumerate(setup.variants, 1):
        st.button(
            variant.label,
            key=f"drop_{number}",
            icon=":material/close:",
            icon_position="right",
            on_click=drop,
            args=(variant.label, setup.base),
        )


def seeds_slider() -> int:
    return st.select_slider(
        "Seeds",
        SEEDS,
        3,
        key="seeds",
        bind="query-params",
        width=180,
        help="Each configuration runs once for every seed; one seed proves nothing.",
    )


def how_long(setup: Setup, seeds: int, controller: Controller) -> str:
    """How much there is to do, and how long it will take."""
    runs = f"{counted(len(setup.specs), 'configuration')} × {counted(seeds, 'seed')}"
    specs, workers = setup.specs * seeds, controller.runs.workers
    seconds = estimate.seconds_together(specs, controller.correction, workers)
    return f"{runs}, about {estimate.in_words(seconds)} on this machine."


def draw(series: tuple[Series, ...], setup: Setup) -> None:
    """The runs as they were seen; before the first one, what is ready."""
    if not series:
        st.info(
            f"{len(setup.specs)} configurations are ready: the base"
            + "".join(f", {variant.label}" for variant in setup.variants)
            + ". Press Play."
        )
        return
    st.html(outcome(series, large=True))
    losses(series)
    results(series)
    side_by_side(series)


def outcome(series: Sequence[Series], empty: str = "", large: bool = False) -> str:
    """HTML: what the seeds say about each variant, all read at the same step.

    Args:
        series: the base first; none: there is only `empty`, what will stand here.
    """
    found = verdicts(series) if series else None
    lines = [f"<div>{html.escape(empty)}</div>"] if found is None else []
    if found is not None:
        if found.step:
            lines.append(f"<div>So far, at step {found.step}:</div>")
        for one in found.each:
            said = f"<b>{html.escape(one.name)}</b>{explain(one.text)}"
            lines.append(f'<div data-verdict="{one.kind}">{said}.</div>')
        if found.luck:
            lines.append(
                f'<div data-luck style="font-size: 0.9rem">{html.escape(found.luck)}</div>'
            )
        if queued := _queued(series):
            lines.append(f"<div>{queued}</div>")
    rows = len(series) or 2
    return (
        f'<div data-outcome role="status" style="min-height: {1.6 * rows:g}rem; line-height: '
        f'1.6rem; font-size: {1.2 if large else 1}rem">{"".join(lines)}</div>'
    )


def _queued(series: Sequence[Series]) -> str:
    """How many runs wait until others have ended, once some have begun."""
    places = [view.queue_position for line in series for view in line.views if view.queue_position]
    if not places or waiting(series):
        return ""
    are = "runs wait" if len(places) > 1 else "run waits"
    return f"{len(places)} {are} in the queue; place {min(places)} is the next of them."


def losses(series: tuple[Series, ...]) -> None:
    """The curves of all runs, and beside them what each has reached at the same step."""
    base, at = series[0].spec, common_step(series)
    shared = references(base) | {"size": tall(430)}
    left, right = st.columns([2, 1], gap="medium")
    with left:
        log, steps = log_switch(), base.training.steps
        figure = comparison_chart(
            bands(series),
            total_steps=steps,
            log=log,
            empty=waiting(series),
            width=640,
            **shared,
        )
        live_plot(figure, key="comparison")
    with right:
        labels, reached = [line.label for line in series], [line.reached(at) for line in series]
        figure = results_bars(labels, reached, step=at, width=330, **shared)
        live_plot(figure, key="finals", name="final losses")


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


def results(series: tuple[Series, ...]) -> None:
    """A row of numbers for each configuration, all of the same step."""
    target, at = TARGET_SHARE * references(series[0].spec)["chance"].blind, common_step(series)
    measured = measured_together((view for line in series for view in line.views), at)
    rows = [row(line, line.summary(target, at, measured), at) for line in series]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", key="results")
    st.caption(
        f"Mean ± standard deviation of the seeds. Loss: mean of the last {LAST} steps, in nats. "
        f"Steps to target: until that loss is at most {target:.2f}, half the loss of the best "
        "guess without reading the input. Accuracy: on validation examples"
        + (f", at step {measured}." if measured is not None else ".")
    )


def row(line: Series, summary: Summary, at: int | None) -> dict[str, str]:
    steps = summary.steps_to_target.text("{:.0f}".format)
    steps += f" ({summary.n_reached} of {summary.seeds})"
    return {
        "configuration": line.label,
        "final loss" if at is None else f"loss at step {at}": summary.loss.text(in_nats),
        "accuracy": summary.accuracy.text("{:.1%}".format),
        "steps to target": steps if summary.n_reached else "not reached",
        "seconds": summary.seconds.text("{:.1f}".format),
        "diverged": f"{summary.diverged} of {summary.seeds}" if summary.diverged else "–",
    }


def side_by_side(series: tuple[Series, ...]) -> None:
    """The first seed's attention at one step, the same block and head of each, on one scale."""
    frames = {line.label: line.views[0].frames for line in series}
    frames = {label: found for label, found in frames.items() if found}
    st.subheader("Attention side by side")
    if "whose" not in st.session_state and len(frames) < min(2, len(series)):
        st.caption("The first attention maps are being computed.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="side_switches"):
        chosen = st.pills(
            "Configurations",
            list(frames),
            selection_mode="multi",
            default=list(frames)[:2],
            key="whose",
            help="Two of them show their difference too.",
        )
        stage = stage_switch()
        layers = layers_in_common([frames[label][-1] for label in chosen])
        layer = st.selectbox("Block", list(layers) or ["–"], key="compare_layer", width=130)
        heads = min((len(a.entropy) for a in layers.get(layer, [])), default=1)
        head = st.selectbox("Head", list(range(1, heads + 1)), key="compare_head", width=90)
        total = series[0].spec.training.steps
        step = st.slider(
            "Step",
            0,
            total,
            total,
            key="compare_step",
            width=220,
            help="Scrub all of them together; the right end follows the runs.",
        )
    shown = frames_together([frames[label] for label in chosen], step)
    if not shown or layer not in layers:
        st.caption("Choose at least one configuration; all must look at the same example.")
        return
    found = layers_in_common(shown)[layer]
    figure = attention_side_by_side(
        [attention.stages[stage][head - 1] for attention in found],
        [f"{label}, step {shown[0].step}" for label in chosen],
        found[0].query_tokens,
        found[0].key_tokens,
        stage=stage,
        hidden=[attention.hidden for attention in found],
        width=WIDTH,
        size=tall(None),
    )
    live_plot(figure, key="side_by_side", name="attention side by side")
    st.caption(IN_WORDS[stage])


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
