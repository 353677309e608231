"""A class as it is in the room: one teacher, two students, one of them on a phone."""

from urllib.parse import urlencode, urlsplit

import pytest

from browser import SMALL, Tab, serving

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}
DOTS = "plot.data.reduce((sum, trace) => sum + trace.x.length, 0)"


def go(tab: Tab, url: str) -> None:
    """Another page of the server, by its address."""
    tab.page.goto(url)
    tab.rest()


def part(teacher: Tab, name: str) -> None:
    teacher.key("class_part").get_by_role("radio", name=name).click()


def join(tab: Tab, link: str, name: str) -> None:
    go(tab, link)
    tab.key("nickname").locator("input").fill(name)
    tab.page.get_by_role("button", name="Join").click()
    tab.key("class_screen").wait_for()


def answer(tab: Tab, number: int) -> None:
    """Vote, and wait until the page says that it counts."""
    tab.press(f"answer_{number}")
    tab.key(f"answer_{number}").locator("[data-testid=stBaseButton-primary]").wait_for()


def votes(tab: Tab) -> list[int]:
    """What the bars say."""
    return [int(text) for text in tab.page.locator(".votes .bar b").all_inner_texts()]


@pytest.fixture
def come(chromium):
    """A browser of its own for each visitor: `come(width, height)`."""
    tabs = []

    def visitor(width: int = 1280, height: int = 800) -> Tab:
        tabs.append(Tab(chromium, ""))
        tabs[-1].page.set_viewport_size({"width": width, "height": height})
        return tabs[-1]

    yield visitor
    for tab in tabs:
        tab.close()
    for tab in tabs:
        # A page other than the first asks for its health below its own address, in vain at first.
        tab.errors = [error for error in tab.errors if "404" not in error]
        assert not tab.errors


def test_a_class_from_the_first_link_over_a_killed_server_to_the_end(come, tmp_path):
    """Nothing is lost when the server is killed, and all is gone when the teacher ends it."""
    teacher, ada, bob = come(), come(), come(**PHONE)
    servers = []
    with serving(tmp_path / "log", started=servers.append, PLAYGROUND_HISTORY="visitor") as address:
        link = vote_together(teacher, ada, bob, address)
        fill_board(teacher, ada, bob, address)
        for tab in (teacher, ada, bob):
            tab.page.goto("about:blank")
        servers[0].kill()  # without a chance to write anything
    with serving(tmp_path / "again", PLAYGROUND_HISTORY="visitor") as address:
        go(teacher, f"{address}/class")  # by its cookie
        teacher.see("2 students")
        part(teacher, "Vote")
        teacher.until(lambda: votes(teacher) == [1, 1], "the votes are lost")
        part(teacher, "Board")
        teacher.key("class_board").locator(".main-svg").first.wait_for()
        assert teacher.plot("class_board", DOTS) == 2
        go(bob, f"{address}/class?{urlsplit(link).query}")
        bob.key("class_board").locator(".main-svg").first.wait_for()
        part(teacher, "Join")
        teacher.page.get_by_role("button", name="End the class").first.click()
        teacher.press("end_class")
        teacher.key("open_class").wait_for()
        bob.see("There is no class")
        for tab in (teacher, bob):
            tab.page.goto("about:blank")
    left = b"".join(path.read_bytes() for path in (tmp_path / "data").glob("classes.sqlite3*"))
    assert b"A wider model" not in left and b"Bob" not in left


def vote_together(teacher: Tab, ada: Tab, bob: Tab, address: str) -> str:
    """Join, vote, change a vote, close, and tell what happened; the link to join by."""
    go(teacher, f"{address}/class")
    teacher.press("open_class")
    link = teacher.until(lambda: next(iter(codes(teacher)), None), "no link")
    join(ada, link, "Ada")
    join(bob, link, "Bob")
    teacher.see("2 students")

    part(teacher, "Vote")
    teacher.key("class_claim").locator("textarea").fill("A wider model learns faster.")
    teacher.key("class_answers").locator("textarea").fill("True\nFalse")
    teacher.key("class_answers").locator("textarea").press("Control+Enter")
    teacher.press("ask_claim")
    ada.key("answer_0").wait_for()
    answer(ada, 0)
    answer(bob, 0)
    teacher.until(lambda: votes(teacher) == [2, 0], "the votes do not come in")
    answer(bob, 1)
    teacher.until(lambda: votes(teacher) == [1, 1], "the changed vote does not come in")
    teacher.press("close_vote")
    ada.see("The vote is closed.")
    assert not ada.key("answer_0").count() and not votes(ada)
    teacher.press("happened_1")
    bob.until(lambda: votes(bob) == [1, 1], "the outcome does not come")
    assert bob.page.locator("[data-happened]").get_attribute("data-answer") == "1"
    assert bob.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    return link


def fill_board(teacher: Tab, ada: Tab, bob: Tab, address: str) -> None:
    """Each student trains a small model, and both are on the board."""
    part(teacher, "Board")
    teacher.toggle("board_shown")
    for tab, knobs in ((ada, {"lr": 0.01}), (bob, {"norm": "pre"})):
        go(tab, f"{address}/?{urlencode(SMALL | {'steps': 50} | knobs)}")
        tab.press("play")
    teacher.key("class_board").locator(".main-svg").first.wait_for()
    teacher.until(lambda: teacher.plot("class_board", DOTS) == 2, "two runs are not on the board")


def codes(tab: Tab) -> list[str]:
    """The links that the page shows to copy."""
    return [
        text.strip() for text in tab.page.locator("[data-testid=stCode] code").all_inner_texts()
    ]
