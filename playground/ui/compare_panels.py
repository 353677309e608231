"""What the Compare page shows: curves over seeds, results in words, attention side by side."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.device import Device
from playground.experiments.series import Series, Summary, waiting
from playground.experiments.variants import CONTRASTS, Setup, caution, encode, read_link
from playground.experiments.verdict import verdict
from playground.figures import Band, attention_side_by_side, comparison_chart, results_bars
from playground.runs.snapshot import Attention, Frame
from playground.runs.spec import Spec
from playground.ui import controls
from playground.ui.components import live_plot
from playground.ui.knob import Knob
from playground.ui.link import EVERY, MODEL, TRAINING
from playground.ui.page_head import tall
from playground.ui.run_panels import (
    IN_WORDS,
    frame_at,
    layer_title,
    log_switch,
    references,
    stage_switch,
)

TARGET_SHARE = (
    0.5  # of the best guess without reading the input: the table says when a run gets there
)
SEEDS = (1, 2, 3, 5, 10)
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
        st.error(str(error))
        return Setup(base)
    if setup.left_out:
        st.warning("\n\n".join(setup.left_out))
    for variant in setup.variants:
        if warning := caution(variant.changes):
            st.warning(f"{variant.label}: {warning}.")
    return setup


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


def draw(series: tuple[Series, ...], setup: Setup) -> None:
    """The runs as they were seen; before the first one, what is ready."""
    if not series:
        st.info(
            f"{len(setup.specs)} configurations are ready: the base"
            + "".join(f", {variant.label}" for variant in setup.variants)
            + ". Press Play."
        )
        return
    queued = [view.queue_position for line in series for view in line.views if view.queue_position]
    if queued:
        st.caption(
            f"{len(queued)} runs wait in the queue; the next of them is number {min(queued)}."
        )
    losses(series)
    results(series)
    side_by_side(series)


def losses(series: tuple[Series, ...]) -> None:
    """The curves of all runs, and beside them what each has reached."""
    base = series[0].spec
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
        finals = [[view.reached() for view in line.views if len(view.loss)] for line in series]
        figure = results_bars([line.label for line in series], finals, width=330, **shared)
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
    """A row of numbers for each configuration, and what the seeds say in words."""
    target = TARGET_SHARE * references(series[0].spec)["chance"].blind
    rows = [row(line, line.summary(target)) for line in series]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", key="results")
    st.caption(
        f"Steps to target: until the mean of 20 losses is at most {target:.2f}, half the loss "
        "of the best guess without reading the input."
    )
    verdicts(series)


def verdicts(series: tuple[Series, ...]) -> None:
    """What the seeds say about each variant, in words."""
    base, *variants = series
    st.markdown("\n".join(f"- **{line.label}**: {verdict(base, line)}" for line in variants))


def row(line: Series, summary: Summary) -> dict[str, str]:
    steps = f"{summary.steps_to_target} ({summary.n_reached} of {summary.seeds})"
    return {
        "configuration": line.label,
        "final loss": str(summary.final_loss),
        "accuracy": str(summary.accuracy),
        "steps to target": steps if summary.n_reached else "not reached",
        "seconds": str(summary.seconds),
        "diverged": f"{summary.diverged} of {summary.seeds}" if summary.diverged else "–",
    }


def side_by_side(series: tuple[Series, ...]) -> None:
    """The first seed's attention, the same layer and head of each, on one colour scale."""
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
        layer = st.selectbox("Layer", list(layers) or ["–"], key="compare_layer", width=130)
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
    if not chosen or layer not in layers:
        st.caption("Choose at least one configuration; all must look at the same example.")
        return
    shown = [frame_at(frames[label], step, total) for label in chosen]
    found = layers_in_common(shown)[layer]
    figure = attention_side_by_side(
        [attention.stages[stage][head - 1] for attention in found],
        [f"{label}, step {frame.step}" for label, frame in zip(chosen, shown, strict=True)],
        found[0].query_tokens,
        found[0].key_tokens,
        stage=stage,
        hidden=[attention.hidden for attention in found],
        width=WIDTH,
        size=tall(None),
    )
    live_plot(figure, key="side_by_side", name="attention side by side")
    st.caption(IN_WORDS[stage])


def layers_in_common(frames: list[Frame]) -> dict[str, list[Attention]]:
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
