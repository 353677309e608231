"""The entry script: what all pages share. The server runs it: `streamlit run playground/app.py`."""

from pathlib import Path

import streamlit as st

from playground import ready

ready.wait()  # what is imported below takes seconds at first

from playground.ui import (
    allowed,
    class_session,
    controls,
    for_class,
    lesson,
    link,
    notes,
    page_head,
    run_panels,
    tour,
    turned,
)
from playground.ui.components import live_stream
from playground.ui.components.cookie import remember_visitor
from playground.ui.knob import KEYS
from playground.ui.page_list import HOME, IDEAS, INSTRUMENTS, About
from playground.ui.session import channel, controller, history_mode, say_history_problem

# A file of our own: Streamlit would fetch a named icon from the internet.
ICON = str(Path(__file__).with_name("icon.png"))


def listed(address: str, about: About) -> st.Page:
    """A page in the navigation; the app opens on the Playground."""
    return st.Page(
        about.file,
        url_path=address,
        title=about.title,
        icon=f":material/{about.icon}:",
        help=about.says,
        default=address == "playground",
    )


NAVIGATION = {
    "": [listed("home", HOME), *(listed(*page) for page in INSTRUMENTS.items())],
    "Ideas": [listed(*page) for page in IDEAS.items()],
}

# Pages that the knobs in the sidebar are for, by their addresses; the others have a head instead.
USE_KNOBS = ("", "compare")

# Before the navigation: it would make the page's sign the icon, and fetch it from the internet.
st.set_page_config("Transformer playground", page_icon=ICON, layout="wide")
page = st.navigation(NAVIGATION, position="top")
notes.begin(page.url_path)
link.check_link(page)
turned.begin(page.url_path, {*KEYS, *link.OTHERS})
uses_knobs = page.url_path in USE_KNOBS
st.set_page_config(initial_sidebar_state="auto" if uses_knobs else "collapsed")
page_head.draw(uses_knobs, for_class.button if uses_knobs or page.url_path in IDEAS else None)
allowed.begin(page.url_path)
lesson.begin()
channel().hide()  # until the page says what it shows
narrow = live_stream(channel())
on_playground = page.url_path == ""
if on_playground:
    run_panels.foresee(controller())
if page.url_path != "lessons":
    lesson.draw_bar()
few = controls.few_knobs() if narrow and on_playground else None
if on_playground:
    tour.draw(few)
middle = st.container() if uses_knobs else None
with st.sidebar:
    look = controls.Look(on_playground, page_head.projector(), few, middle)
    controls.draw(controller().device, look)
controls.open_page()
notes.draw()
class_session.hear_runs(controller().owner)
if history_mode() == "visitor" or page.url_path == "class":
    remember_visitor()
say_history_problem()
if on_playground:
    class_session.say_class()
page_head.draw_styles()
if page.url_path in IDEAS and allowed.limited_here():
    allowed.draw_way_out()
page.run()
for_class.draw(page.url_path)
link.check_rest(page)
turned.end(page.url_path)
