"""Compare: change one thing, same seeds, side by side."""

import streamlit as st

from playground import compare_panels, controls, transport
from playground.components.link import copy_link
from playground.series import Series, any_live
from playground.spec import Spec
from playground.variants import CONTRASTS, LineUp, caution, encode, read_link
from playground.visitor import bench as my_bench
from playground.visitor import comparison as my_comparison
from playground.visitor import start_runs

POLL = 1.0  # seconds between two looks at the runs
SEEDS = (1, 2, 3, 5, 10)
FIRST_QUESTION = "scale=none"
NOTHING = "Nothing to compare with yet: choose a contrast above, or add a variant of your own."


def ask(base: Spec) -> None:
    """A quick choice fills the field that the link holds."""
    if name := st.session_state.contrast:
        st.session_state.variants = encode(CONTRASTS[name].line_up(base).variants)


def add(base: Spec) -> None:
    """One more variant: a knob of the base set to another value."""
    knob = controls.EVERY[st.session_state.new_field]
    written = f"{knob.key}={knob.show(st.session_state.new_value)}"
    st.session_state.variants = ";".join(filter(None, [st.session_state.variants, written]))


def questions(base: Spec) -> LineUp:
    """What is held against the base: a usual contrast, or variants of one's own."""
    st.pills(
        "What to compare with the knobs on the left",
        list(CONTRASTS),
        key="contrast",
        format_func=lambda name: CONTRASTS[name].title,
        on_change=ask,
        args=(base,),
    )
    with st.expander("Variants of your own"):
        names, values, button = st.columns([2, 2, 1], vertical_alignment="bottom")
        fields = compare_panels.offered()
        name = names.selectbox(
            "Knob", list(fields), key="new_field", format_func=lambda key: fields[key].title
        )
        values.selectbox(
            "Value", fields[name].choices, key="new_value", format_func=fields[name].show
        )
        button.button("Add", key="add", on_click=add, args=(base,), width="stretch")
        st.text_input(
            "All variants",
            FIRST_QUESTION,
            key="variants",
            bind="query-params",
            help="The link holds this: `scale=none; norm=pre,lr=0.01` are two variants, the second "
            "of which changes two things.",
        )
    try:
        lineup = read_link(st.session_state.variants or "", base, bench.device)
    except ValueError as error:
        st.error(str(error))
        return LineUp(base)
    if lineup.left_out:
        st.warning("\n\n".join(lineup.left_out))
    for variant in lineup.variants:
        if warning := caution(variant.changes):
            st.warning(f"{variant.label}: {warning}.")
    return lineup


def buttons(lineup: LineUp, moving: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="compare_transport"):
        seeds = st.select_slider(
            "Seeds",
            SEEDS,
            3,
            key="seeds",
            bind="query-params",
            width=180,
            help="Each configuration runs once for every seed; one seed proves nothing.",
        )
        transport.play_or_pause(
            moving,
            lambda: start_runs(compared, lineup, seeds),
            compared.pause,
            disabled=not lineup.variants,
        )
        transport.reset_button(compared.discard)
        copy_link(run=bench.owner if compared.all_runs() else None, fresh=False, key="compare_link")
    transport.say_refusal()


bench, compared = my_bench(), my_comparison()
choice: controls.Choice = st.session_state.choice
if choice.problem:
    st.error(choice.problem)
if choice.spec is None:
    st.stop()
lineup = questions(choice.spec)
series = compared.series()
buttons(lineup, any_live(series))
shown = compared.lineup
if not lineup.variants:
    st.info(NOTHING)
elif shown is not None and shown.specs != lineup.specs:
    st.info("The knobs or the variants have changed: press Play to compare what they say now.")


def draw(series: tuple[Series, ...]) -> None:
    if lineup.variants or shown is not None:
        compare_panels.draw(series, lineup, projector=st.session_state.get("projector", False))


transport.live(draw, compared.series, series, any_live, every=POLL)
