"""The Playground: turn a knob, press Play, watch attention and loss."""

from dataclasses import replace

import streamlit as st

from playground import controls, panels, transport
from playground.components.link import copy_link
from playground.glossary import GLOSSARY
from playground.spec import Spec
from playground.view import View
from playground.visitor import bench as my_bench
from playground.workbench import Workbench

POLL = 0.5  # seconds between two looks at a run


def buttons(bench: Workbench, view: View | None) -> None:
    """Play or Pause, Step, Reset, New seed, and what belongs to the page as a whole."""
    moving, over = (view.status.moving, view.status.over) if view else (False, False)
    with st.container(horizontal=True, vertical_alignment="center", key="transport"):
        transport.play_or_pause(
            moving,
            bench.play,
            bench.pause,
            label="Play again" if over else "Play",
            help="Start over from step 0." if over else "Train, and watch it happen.",
        )
        # At its end one key pressed too often would start over, and what was learnt would be gone.
        st.button(
            "Step",
            key="step",
            icon=":material/skip_next:",
            shortcut="S",
            disabled=moving or over,
            on_click=transport.press,
            args=(bench.step,),
            help="One optimiser step.",
        )
        transport.reset_button(
            bench.reset, "Back to before the first step: same seed, same numbers."
        )
        st.button(
            "New seed",
            key="new_seed",
            icon=":material/casino:",
            on_click=controls.new_seed,
            help="Other initial weights and other batches.",
        )
        with st.popover(
            "Glossary", icon=":material/menu_book:", help="The paper's words, a sentence each."
        ):
            st.markdown("\n".join(f"- **{word}**: {meaning}" for word, meaning in GLOSSARY.items()))
        lost = copy_link(run=bench.owner if bench.run else None, fresh=bench.fresh)
    if lost and bench.fresh:
        st.info("The page was reloaded: your run has ended, and the knobs are as the link says.")
    transport.say_refusal()


def wanted(bench: Workbench) -> Spec | None:
    """The knobs' spec with the visitor's own example, if it is one."""
    choice = controls.choice()
    if choice.problem:
        st.error(choice.problem)
    if choice.spec is None:
        return bench.spec
    text = controls.own_example()
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
view = bench.view
buttons(bench, view)
panels.watch(bench)
asked = controls.own_example()


def draw(view: View | None) -> None:
    panels.draw(bench, view)
    if controls.own_example() != asked:
        st.rerun()  # it was typed, or came with the link: the page has not seen it yet


transport.live(
    draw, lambda: bench.view, view, moving=lambda view: view is not None and view.live, every=POLL
)
