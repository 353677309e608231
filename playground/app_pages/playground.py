"""The Playground: turn a knob, press Play, watch attention and loss."""

from dataclasses import replace

import streamlit as st

from playground import controls, panels
from playground.components.link import copy_link
from playground.glossary import GLOSSARY
from playground.spec import Spec
from playground.visitor import bench as my_bench
from playground.workbench import Workbench

POLL = 0.5  # seconds between two looks at a run


def press(action) -> None:
    """Do what a button says; what stands in the way is said on the page."""
    try:
        action()
    except ValueError as error:
        st.session_state.refused = str(error)


def new_seed() -> None:
    st.session_state.seed = st.session_state.get("seed", 0) + 1


def transport(bench: Workbench) -> None:
    """Play or Pause, Step, Reset, New seed, and what belongs to the page as a whole."""
    with st.container(horizontal=True, vertical_alignment="center", key="transport"):
        if bench.moving:
            st.button(
                "Pause",
                key="pause",
                type="primary",
                icon=":material/pause:",
                shortcut="P",
                on_click=press,
                args=(bench.pause,),
                help="Rest after the present step.",
            )
        else:
            st.button(
                "Play again" if bench.over else "Play",
                key="play",
                type="primary",
                icon=":material/play_arrow:",
                shortcut="P",
                on_click=press,
                args=(bench.play,),
                help="Begin anew from step 0." if bench.over else "Train, and watch it happen.",
            )
        # At its end one key pressed too often would begin anew, and what was learnt would be gone.
        st.button(
            "Step",
            key="step",
            icon=":material/skip_next:",
            shortcut="S",
            disabled=bench.moving or bench.over,
            on_click=press,
            args=(bench.step,),
            help="One optimiser step.",
        )
        st.button(
            "Reset",
            key="reset",
            icon=":material/restart_alt:",
            on_click=press,
            args=(bench.reset,),
            help="Back to before the first step: same seed, same numbers.",
        )
        st.button(
            "New seed",
            key="new_seed",
            icon=":material/casino:",
            on_click=new_seed,
            help="Other initial weights and other batches.",
        )
        with st.popover(
            "Words", icon=":material/menu_book:", help="The paper's words, a sentence each."
        ):
            st.markdown("\n".join(f"- **{word}**: {meaning}" for word, meaning in GLOSSARY.items()))
        lost = copy_link(run=bench.owner if bench.run else None, fresh=bench.fresh)
    if lost and bench.fresh:
        st.info("The page was loaded anew: your run has ended, and the knobs are as the link says.")


def own_example() -> str | None:
    """What the visitor typed as an example of their own."""
    return st.session_state.get("probe") or None


def wanted(bench: Workbench) -> Spec | None:
    """The knobs' spec with the visitor's own example, if it is one."""
    choice: controls.Choice = st.session_state.choice
    if choice.problem:
        st.error(choice.problem)
    if choice.spec is None:
        return bench.spec
    text = own_example()
    try:
        choice.spec.task.probe(choice.spec.model.architecture, text)
    except ValueError as error:
        st.error(f"Your example: {error}. The task's own example is shown.")
        text = None
    return replace(choice.spec, probe=text)


bench = my_bench()
spec = wanted(bench)
if spec is None:
    st.stop()
try:
    bench.follow(spec)
except ValueError as error:
    st.error(str(error))
# Asked before the buttons are drawn: a run that comes to rest in between is looked at once more.
active = bench.live
transport(bench)
# Another run, or another length, is watched as it goes, wherever the last one was scrubbed to.
watched = (bench.begun, bench.run is None, bench.spec.training.steps)
if st.session_state.get("watched") != watched:
    st.session_state.watched, st.session_state.shown_step = watched, bench.spec.training.steps
if refused := st.session_state.pop("refused", None):
    st.error(refused)

asked = own_example()


def live() -> None:
    panels.draw(bench, projector=st.session_state.get("projector", False))
    if active and not bench.live:
        st.rerun()  # the run has ended: stop the clock, offer Play again
    if own_example() != asked:
        st.rerun()  # it was typed, or came with the link: the page has not seen it yet


st.fragment(live, run_every=POLL if active else None)()
