"""Compare: change one thing, same seeds, side by side."""

import streamlit as st

from playground.experiments.series import any_live
from playground.experiments.variants import Setup
from playground.ui import compare_panels, controls, play_buttons
from playground.ui.components.copy_link import copy_link
from playground.ui.literal import literal
from playground.ui.page_list import INSTRUMENTS
from playground.ui.session import comparison as my_comparison
from playground.ui.session import controller as my_controller
from playground.ui.session import start_runs

NOTHING = "Nothing to compare with yet: choose a contrast above, or add your own variant."


def buttons(setup: Setup, moving: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="compare_transport"):
        seeds = compare_panels.seeds_slider()
        play_buttons.play_or_pause(
            moving,
            lambda: start_runs(compared, setup, seeds),
            compared.pause,
            why_not=None if setup.variants else "Nothing to compare with yet.",
        )
        play_buttons.reset_button(compared.discard)
        copy_link(
            run=controller.owner if compared.all_runs() else None, fresh=False, key="compare_link"
        )
        st.caption(compare_panels.how_long(setup, seeds, controller), width="content")
    play_buttons.say_refusal()


title = st.container(horizontal=True, vertical_alignment="center", key="chips")
title.header(INSTRUMENTS["compare"].title, anchor=False, width="content")
controller, compared = my_controller(), my_comparison()
choice = controls.choice()
if choice.problem:
    st.error(literal(choice.problem))
if choice.spec is None:
    st.stop()
setup = compare_panels.questions(choice.spec, controller.device, title)
series = compared.series()
for view in (view for line in series for view in line.views):
    controller.learn_speed(view)
buttons(setup, any_live(series))
shown = compared.setup
if not setup.variants:
    st.info(NOTHING)
elif shown is not None and shown.specs != setup.specs:
    st.info("The knobs or the variants have changed: press Play to compare what is chosen now.")


if setup.variants or shown is not None:
    compare_panels.draw(compared.series, series, setup)
