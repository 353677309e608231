"""Scenarios from the click to the verdict, and a comparison that travels in its link."""

import pytest

from browser import SMALL, Tab

pytestmark = pytest.mark.browser


def go_to(tab: Tab, page: str) -> None:
    tab.page.get_by_role("link", name=page).click()
    tab.rest()


def compare(tab: Tab, steps: int) -> list[list[float]]:
    """Play all, wait for the end; the mean line of each variant, whole."""
    tab.press("play")
    tab.key("pause").wait_for()
    tab.key("play").wait_for(timeout=180_000)
    tab.rest()
    lines = f"plot.data.filter(t => t.y?.length === {steps}).map(t => [...t.y])"
    return tab.until(lambda: len(found := tab.plot("comparison", lines)) >= 3 and found)


def test_a_scenario_from_the_click_to_the_outcome(visit):
    tab = visit()
    go_to(tab, "Scenarios")
    card = tab.page.locator(
        "[data-testid=stVerticalBlock]", has_text="Drowned by its own positions"
    )
    card.last.get_by_role("button", name="Open").click()
    tab.see("What will happen?")
    play = tab.key("play").get_by_role("button")
    assert play.is_disabled(), "first the prediction, then the run"
    tab.page.get_by_role("radiogroup").locator("label").first.click()
    tab.until(play.is_enabled, "a prediction lets it play")
    play.click()
    tab.key("outcome").wait_for(timeout=240_000)
    tab.see("You predicted:", "Measured:", "Why.")
    assert tab.link()["scenario"] == "drowned"


def test_a_comparison_link_gives_the_same_comparison_to_somebody_else(visit):
    tab = visit(steps=50, **SMALL)
    go_to(tab, "Compare")
    tab.press("to_compare_with")
    tab.page.get_by_text("All masks").click()
    tab.page.keyboard.press("Escape")
    tab.see("mask=none", "mask=window")
    mine = compare(tab, steps=50)
    tab.page.wait_for_selector("[data-verdict]:not([data-verdict=early])")

    other = visit(steps=50, **SMALL)
    other.page.goto(tab.page.url)
    # Streamlit first asks below the page's own address whether the server is there.
    other.key("play").wait_for()
    other.rest()
    other.errors = [error for error in other.errors if "404" not in error]
    other.see("mask=none", "mask=window")
    assert compare(other, steps=50) == mine
