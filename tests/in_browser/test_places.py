"""Where things are on the Playground: nothing moves while it trains, and what counts is in sight.

Boxes are read in a window of a laptop, of two projectors, and of a phone.
"""

import pytest

from browser import SMALL, play

pytestmark = pytest.mark.browser

PICTURES = (".st-key-loss_chart", ".st-key-attention", ".st-key-transport", "[data-verdict]")
STAGES = ((1280, 800), (1920, 1080))
PHONE = {"width": 390, "height": 844}

# Every element of the page's text that is wider than its place.
CUT = """
[...document.querySelectorAll('.numbers b, .numbers small, .st-key-transport button')]
  .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)
"""


# What is written in a figure and reaches over its edge.
OUTSIDE = """key => {
  const edge = document.querySelector(key).getBoundingClientRect();
  return [...document.querySelectorAll(key + ' text')].filter(text => {
    const { left, right, width } = text.getBoundingClientRect();
    return width && (left < edge.left - 1 || right > edge.right + 1);
  }).map(text => text.textContent);
}"""


def boxes(tab, keys=PICTURES) -> dict[str, tuple[int, ...]]:
    """Where the main elements are, in whole pixels: left, top, width, height."""
    found = tab.page.evaluate(
        """keys => keys.map(key => {
          const { x, y, width, height } = document.querySelector(key).getBoundingClientRect();
          return [x, y, width, height].map(Math.round);
        })""",
        list(keys),
    )
    return dict(zip(keys, map(tuple, found), strict=True))


def bottom(tab, key: str) -> float:
    """The lower edge of an element."""
    box = tab.page.locator(key).first.bounding_box()
    return box["y"] + box["height"]


@pytest.mark.parametrize("size, projector", [((1366, 768), "false"), ((1280, 800), "true")])
def test_nothing_moves_from_play_to_the_end_and_after_reset(visit, size, projector):
    tab = visit(steps=300, projector=projector, **SMALL)
    tab.page.set_viewport_size({"width": size[0], "height": size[1]})
    tab.page.wait_for_timeout(500)
    before = boxes(tab)
    seen = [before]
    play(tab, 1)
    while not tab.key("play").is_visible():
        seen.append(boxes(tab))
        tab.page.wait_for_timeout(50)
    tab.rest()
    seen.append(boxes(tab))
    assert tab.steps() == 300
    tab.press("reset")
    tab.until(lambda: tab.steps() == 0)
    tab.rest()
    seen.append(boxes(tab))
    assert len(seen) > 3
    moved = {key: {now[key] for now in seen} for key in before}
    assert {key: places for key, places in moved.items() if len(places) > 1} == {}


@pytest.mark.parametrize("size", STAGES)
def test_for_the_back_row_loss_map_and_verdict_are_on_one_screen(visit, size):
    tab = visit(projector="true", steps=50, **SMALL)
    tab.page.set_viewport_size({"width": size[0], "height": size[1]})
    play(tab, 50)
    tab.key("play").wait_for()
    tab.rest()
    tab.page.wait_for_timeout(500)
    for key in (".st-key-loss_chart .main-svg", ".st-key-attention .main-svg", "[data-verdict]"):
        assert 0 < bottom(tab, key) <= size[1], key
    numbers = tab.page.locator(".numbers b:visible")
    shown = [number.get_attribute("data-number") for number in numbers.all()]
    assert shown == ["Step", "Training loss", "Val. loss", "Accuracy"]
    assert all(bottom(tab, f".numbers > :nth-child({i})") < size[1] / 2 for i in (1, 2, 3, 4))
    # One size at least of every word on the screen: 16 pixels.
    small = tab.page.evaluate(
        """[...document.querySelectorAll('.verdict, .numbers *, .st-key-transport button, label p')]
          .filter(e => e.checkVisibility() && e.textContent)
          .filter(e => parseFloat(getComputedStyle(e).fontSize) < 15.9)
          .map(e => e.textContent)"""
    )
    assert small == []
    assert tab.page.evaluate(CUT) == []
    # In figures, as large as they are seen.
    letters = tab.page.evaluate(
        """[...document.querySelectorAll('.live-plot')].flatMap(plot => {
          const scale = plot.getBoundingClientRect().width / plot.offsetWidth;
          return [...plot.querySelectorAll('text')].filter(e => e.textContent)
            .map(e => parseFloat(getComputedStyle(e).fontSize) * scale);
        })"""
    )
    assert min(letters) >= 16 * size[1] / STAGES[0][1]
    assert tab.page.evaluate(OUTSIDE, ".st-key-attention .main-svg") == []


@pytest.mark.parametrize("size", [(1366, 768), (911, 512)])
def test_the_buttons_stay_in_sight_and_numbers_fit_on_a_small_screen(visit, size):
    """The second one is the first at a zoom of 150 %."""
    tab = visit(**SMALL)
    tab.page.set_viewport_size({"width": size[0], "height": size[1]})
    tab.page.get_by_role("tab", name="Health").click()
    tab.page.wait_for_selector(".st-key-gradients .live-plot[data-newplots]")
    tab.page.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 1e6)")
    tab.page.wait_for_timeout(300)
    for key in ("play", "step", "reset"):
        button = tab.key(key).get_by_role("button").first
        box = button.bounding_box()
        assert 0 < box["y"] < size[1] / 4
        over = tab.page.evaluate(
            "([x, y]) => document.elementFromPoint(x, y).closest('.st-key-transport') !== null",
            [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2],
        )
        assert over, f"something lies over {key}"
    colour = tab.page.evaluate(
        "getComputedStyle(document.querySelector('.st-key-transport').parentElement)"
        ".backgroundColor"
    )
    assert colour == tab.page.evaluate(
        "getComputedStyle(document.querySelector('.stApp')).backgroundColor"
    ), "what passes below the buttons is seen through them"
    assert tab.page.evaluate(CUT) == []
    tab.press("step")
    tab.until(lambda: tab.steps() == 1)


def test_a_phone_has_the_knobs_that_matter_above_the_picture_and_panels_below_each_other(visit):
    tab = visit(**SMALL)
    tab.page.set_viewport_size(PHONE)
    tab.key("few_knobs").wait_for()
    tab.rest()
    tab.page.wait_for_timeout(500)
    chart, maps = (tab.key(key).bounding_box() for key in ("loss_chart", "attention"))
    assert maps["y"] >= chart["y"] + chart["height"]
    assert chart["width"] > 0.85 * PHONE["width"] and maps["width"] > 0.85 * PHONE["width"]
    assert chart["y"] < 0.75 * PHONE["height"], "the effect of a knob is not on one screen with it"
    cells = [box for i in (1, 2, 3, 4) if (box := boxes(tab, (f".numbers > :nth-child({i})",)))]
    signs = tab.page.locator("[data-testid=stMain] .stTooltipIcon button:visible").all()
    sides = [sign.bounding_box() for sign in signs]
    assert sides and min(min(box["width"], box["height"]) for box in sides) >= 24
    tabs = [tab.page.get_by_role("tab", name=n).bounding_box() for n in ("Health", "Download")]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"] for box in tabs)
    lefts = {next(iter(cell.values()))[0] for cell in cells}
    assert len(lefts) == 2, "the numbers are not 2 × 2"
    assert tab.page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") == 390
    assert tab.page.evaluate(CUT) == []

    before = tab.maps()
    tab.select("scale", "none")
    tab.until(lambda: tab.maps() != before)
    assert tab.link()["scale"] == "none" and "scale" in tab.text()


def test_on_a_phone_the_sidebar_is_closed_at_first_and_after_a_choice(visit):
    tab = visit(**SMALL)
    tab.page.set_viewport_size(PHONE)
    tab.page.reload()
    tab.settle()
    tab.key("few_knobs").wait_for()
    opened = "document.querySelector('[data-testid=stSidebar]').getBoundingClientRect().right > 0"
    tab.until(lambda: not tab.page.evaluate(opened))
    for choose in (
        lambda: tab.select("norm", "pre"),
        lambda: tab.page.get_by_role("link", name="Compare").click(),
    ):
        tab.rest()
        tab.page.locator("[data-testid=stExpandSidebarButton]").click()
        tab.until(lambda: tab.page.evaluate(opened))
        choose()
        tab.until(lambda: not tab.page.evaluate(opened), "the sidebar stays open")
    assert "compare" in tab.page.url


def test_after_play_the_page_says_at_once_what_it_waits_for(visit):
    tab = visit(d_model=64, steps=50)
    tab.press("play")
    tab.key("pause").wait_for()
    assert "Press Play" not in tab.page.inner_text("[data-verdict]")
