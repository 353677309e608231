"""The pages of the ideas in a real browser: a knob is turned, and the main picture follows."""

import json

import pytest

from browser import Tab
from playground.ui.page_list import IDEAS

pytestmark = pytest.mark.browser

# Page -> the knob to turn, and to what.
TURNS = {
    "lookup": ("lookup_d_model", "16"),
    "scaling": ("scaling_by", "√d_k"),
    "heads": ("heads_count", "8"),
    "order": ("order_kind", "rotary"),
    "masks": ("masks_kind", "none"),
    "depth": ("depth_norm", "pre"),
    "block": ("block_ff", "8"),
    "tricks": ("tricks_which", "Tying"),
    "translation": ("translation_task", "numbers"),
    "writing": ("writing_source", "grammar"),
    "bert": ("bert_source", "Python’s documentation"),
    "patches": ("patches_size", "4×4"),
    "recurrent": ("recurrent_blocks", "3"),
}
PICTURE = "JSON.stringify([plot.data, plot.layout.annotations, plot.layout.shapes])"


def enter(tab: Tab, name: str) -> Tab:
    """Open a page by its own address."""
    tab.page.goto(f"{tab.address}/{name}")
    tab.page.wait_for_selector(f".st-key-{name}_picture .live-plot[data-newplots]")
    tab.rest()
    # Streamlit first asks below the page's own address whether the server is there.
    tab.errors = [error for error in tab.errors if "404" not in error]
    return tab


def sidebar(tab: Tab) -> bool:
    """Whether the knobs of the Playground are in view."""
    return tab.page.locator("[data-testid=stSidebar]").bounding_box()["x"] >= 0


@pytest.fixture
def tab(chromium, server):
    tab = Tab(chromium, server)
    yield tab
    tab.close()
    tab.check()


def test_from_idea_to_idea_a_knob_changes_the_main_picture(tab):
    """By its own address to the first page, and on by the link below each."""
    for name, about in IDEAS.items():
        if tab.page.url == "about:blank":
            enter(tab, name)
        else:
            tab.page.get_by_role("link", name=about.title, exact=True).last.click()
            tab.page.wait_for_selector(f".st-key-{name}_picture .live-plot[data-newplots]")
            tab.rest()
        knob, option = TURNS[name]
        before = tab.plot(f"{name}_picture", PICTURE)
        if hidden := not tab.key(knob).count():
            tab.page.get_by_role("button", name="More").click()
            tab.key(knob).wait_for()
        tab.select(knob, option)
        if hidden:
            tab.page.keyboard.press("Escape")
        picture = f"{name}_picture"
        tab.until(lambda p=picture, b=before: tab.plot(p, PICTURE) != b, f"{name} does not follow")
        assert tab.link()[knob] == option
        tab.rest()
        assert tab.plot(picture, "plot.dataset.newplots") == "1", f"{name} is built again"


def test_the_training_of_a_page_moves_its_curves_and_the_sidebar_is_out_of_the_way(tab):
    enter(tab, "scaling")
    assert not sidebar(tab)
    tab.press("play")
    lines = "plot.data.filter(t => t.y?.length > 20).length"
    tab.until(lambda: tab.plot("scaling_loss", lines) >= 2, "no curves")
    tab.press("pause")
    tab.key("play").wait_for()


def test_home_leads_to_a_scenario_and_to_an_idea(visit):
    tab = visit()
    tab.page.get_by_role("link", name="Home").click()
    tab.see("Three questions to start with", "Computed on")
    tab.page.get_by_role("link", name="Order-blind").click()
    tab.see("What will happen?")
    assert tab.link()["scenario"] == "Order-blind"
    tab.page.get_by_role("link", name="Home").click()
    tab.see("One idea at a time")
    tab.page.get_by_role("link", name="√d_k", exact=True).click()
    tab.see("Every scale at every width")
    tab.until(lambda: not sidebar(tab), "the Playground's knobs are in the way")
    tab.page.get_by_role("link", name="Playground").click()
    tab.settle()
    tab.until(lambda: sidebar(tab), "the knobs do not come back")


def test_a_click_on_a_mask_hides_the_cell_and_undo_shows_it_again(tab):
    enter(tab, "masks")
    shown = "JSON.stringify(plot.data[0].z)"
    before = tab.plot("masks_picture", shown)
    box = tab.key("masks_picture").locator(".nsewdrag").first.bounding_box()
    # Lower left: the first key, seen by the last query under a causal mask.
    tab.page.mouse.click(box["x"] + 5, box["y"] + box["height"] - 5)
    tab.until(lambda: tab.plot("masks_picture", shown) != before, "the click changes nothing")
    tab.press("masks_undo")
    tab.until(lambda: tab.plot("masks_picture", shown) == before, "undo does not bring it back")


def test_a_click_on_a_written_character_looks_at_it_and_one_on_a_bar_goes_on_from_there(tab):
    enter(tab, "writing")
    number = "[...document.querySelectorAll('.st-key-writing_at input')].map(x => x.value)[0]"
    letters = "JSON.stringify(plot.data[0].text.flat())"
    before = json.loads(tab.plot("writing_picture", letters))
    box = tab.key("writing_picture").locator(".nsewdrag").first.bounding_box()
    cell = box["width"] / 32
    tab.page.mouse.click(box["x"] + 9.5 * cell, box["y"] + 10)  # after the prompt of four
    tab.until(lambda: tab.page.evaluate(number) == "6", "the click chooses no character")
    tab.rest()  # what is clicked next has its place
    bars = tab.key("writing_alternatives").locator(".nsewdrag").first
    bars.scroll_into_view_if_needed()
    box = bars.bounding_box()
    tab.page.mouse.click(box["x"] + 4, box["y"] + box["height"] * 3.3 / 8)  # the fourth of eight
    tab.key("writing_restart").wait_for()
    tab.rest()
    after = json.loads(tab.plot("writing_picture", letters))
    assert after[:9] == before[:9] and after[10:] != before[10:]
