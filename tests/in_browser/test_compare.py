"""Scenarios from the click to the verdict, and a comparison that travels in its link."""

from collections.abc import Callable

import pytest

from browser import SMALL, Tab

pytestmark = pytest.mark.browser


def go_to(tab: Tab, page: str) -> None:
    tab.page.get_by_role("link", name=page).click()
    tab.rest()


def places(tab: Tab, *keys: str) -> list[list[int]] | None:
    """Where these stand on the page, and how large they are; None until all are there."""
    return tab.page.evaluate(
        """keys => {
          const scrolled = document.querySelector("[data-testid=stMain]").scrollTop
          const found = keys.map((key) => document.querySelector(`.st-key-${key} .live-plot`))
          if (found.some((plot) => !plot?.dataset.newplots)) return null
          return found.map((plot) => plot.getBoundingClientRect()).map(
            (at) => [at.left, at.top + scrolled, at.width, at.height].map(Math.round))
        }""",
        list(keys),
    )


def stays(tab: Tab, keys: tuple[str, ...], over: Callable[[], bool]) -> None:
    """Watch pictures from the moment they are drawn: they neither move nor change their size."""
    first = tab.until(lambda: places(tab, *keys), "the pictures do not appear")

    def ended() -> bool:
        end = over()  # before looking: the last look is after the end
        assert places(tab, *keys) == first
        return end

    tab.until(ended, "it does not end")


CURVES = ("comparison", "finals")


def compare(tab: Tab, steps: int) -> list[list[float]]:
    """Play all, wait for the end; the mean line of each variant, whole."""
    tab.press("play")
    tab.key("pause").wait_for()
    stays(tab, CURVES, lambda: tab.key("play").count() > 0)
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
    tab.key("pause").wait_for()
    stays(tab, CURVES, lambda: tab.key("outcome").count() > 0)
    tab.see("You predicted:", "Measured:", "Why.")
    assert tab.link()["scenario"] == "Drowned by its own positions"


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
