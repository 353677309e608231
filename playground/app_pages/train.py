"""The Playground: turn a knob, press Play, watch attention and loss."""

from dataclasses import replace

import streamlit as st

from playground.runs.controller import Controller
from playground.runs.spec import Spec
from playground.runs.view import View
from playground.ui import allowed, controls, play_buttons, run_panels
from playground.ui.components.copy_link import copy_link
from playground.ui.glossary import GLOSSARY
from playground.ui.literal import literal
from playground.ui.session import controller as my_controller

RELOADED = "The page was reloaded: your run has ended, and the knobs are set as in the link."


def buttons(controller: Controller, view: View | None) -> None:
    """Play or Pause, Step, Reset, New seed, and what belongs to the page as a whole."""
    moving, over = (view.status.moving, view.status.over) if view else (False, False)
    with st.container(horizontal=True, vertical_alignment="center", key="transport"):
        play_buttons.play_or_pause(
            moving,
            controller.play,
            controller.pause,
            label="Play again" if over else "Play",
        )
        # At the end, one key press too many would start over and lose what was learnt.
        st.button(
            "Step",
            key="step",
            icon=":material/skip_next:",
            shortcut="S",
            disabled=moving or over,
            on_click=play_buttons.press,
            args=(controller.step,),
        )
        play_buttons.reset_button(controller.reset)
        if not allowed.limited() or "seed" in allowed.allowed().turn:
            st.button(
                "New seed",
                key="new_seed",
                icon=":material/casino:",
                on_click=controls.new_seed,
            )
        with st.popover("Glossary", icon=":material/menu_book:"):
            st.markdown("\n".join(f"- **{word}**: {meaning}" for word, meaning in GLOSSARY.items()))
        lost = copy_link(run=controller.owner if controller.run else None, fresh=controller.fresh)
    if lost and controller.fresh:
        controller.notice = RELOADED
    play_buttons.say_refusal()


def chosen_spec(controller: Controller) -> Spec | None:
    """The knobs' spec with the visitor's own example, if it is one."""
    choice = controls.choice()
    if choice.problem:
        st.error(literal(choice.problem))
    if choice.spec is None:
        return controller.spec
    text = controls.own_example()
    try:
        choice.spec.task.probe(choice.spec.model.form, text)
    except ValueError as error:
        st.error(literal(f"Your example: {error}. The task's own example is shown."))
        text = None
    return replace(choice.spec, probe=text)


controller = my_controller()
spec = chosen_spec(controller)
if spec is None:
    st.stop()
try:
    controller.follow(spec)
except ValueError as error:
    st.error(literal(error))
    if controller.spec is None:
        st.stop()  # the page was opened so: there is nothing earlier to go on with
run_panels.watch(controller)
view = controller.view
if view is not None:
    controller.learn_speed(view)
run_panels.show(controller, view)  # on its way before the page is drawn
buttons(controller, view)
asked = controls.own_example()


@st.fragment
def panels() -> None:
    run_panels.draw(controller)
    if controls.own_example() != asked:
        st.rerun()  # it was typed, or came with the link: the page has not seen it yet


panels()
