"""Compare: change one thing, same seeds, side by side."""

import streamlit as st

from playground import compare_panels, controls
from playground.comparison import CONTRASTS, LineUp, caution, encode, read_link
from playground.components.link import copy_link
from playground.spec import Spec
from playground.visitor import bench as my_bench
from playground.visitor import comparison as my_comparison

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
    field = controls.EVERY[st.session_state.new_field]
    written = f"{field.name}={field.label(st.session_state.new_value)}"
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
        fields = compare_panels.offered(base)
        name = names.selectbox(
            "Knob", list(fields), key="new_field", format_func=lambda key: fields[key].title
        )
        values.selectbox(
            "Value", fields[name].choices, key="new_value", format_func=fields[name].label
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


def play(lineup: LineUp, seeds: int) -> None:
    try:
        compared.start(lineup, seeds)
        bench.fresh = False
    except ValueError as error:
        st.session_state.refused = str(error)


def transport(lineup: LineUp) -> None:
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
        if compared.live:
            st.button(
                "Pause",
                key="pause_all",
                type="primary",
                icon=":material/pause:",
                shortcut="P",
                on_click=compared.pause,
            )
        else:
            st.button(
                "Play all",
                key="play_all",
                type="primary",
                icon=":material/play_arrow:",
                shortcut="P",
                on_click=play,
                args=(lineup, seeds),
                disabled=not lineup.variants,
                help="Train all of them at once, fairly.",
            )
        st.button(
            "Reset", key="reset_all", icon=":material/restart_alt:", on_click=compared.discard
        )
        copy_link(run=bench.owner if compared.all_runs() else None, fresh=False, key="compare_link")


bench, compared = my_bench(), my_comparison()
choice: controls.Choice = st.session_state.choice
if choice.problem:
    st.error(choice.problem)
if choice.spec is None:
    st.stop()
lineup = questions(choice.spec)
# Asked before the buttons are drawn: runs that come to rest in between are looked at once more.
active = compared.live
transport(lineup)
if refused := st.session_state.pop("refused", None):
    st.error(refused)
shown = compared.lineup
if not lineup.variants:
    st.info(NOTHING)
elif shown is not None and shown.specs != lineup.specs:
    st.info("The knobs or the variants have changed: press Play all to compare what they say now.")


def live() -> None:
    if lineup.variants or shown is not None:
        compare_panels.draw(compared, lineup, projector=st.session_state.get("projector", False))
    if active and not compared.live:
        st.rerun()


st.fragment(live, run_every=POLL if active else None)()
