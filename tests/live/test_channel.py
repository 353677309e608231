"""Channels: what a tab shows, what of it is new, and when its page has to be drawn again."""

import gc
import json
from dataclasses import dataclass, replace

import pytest

from playground.live.channel import CHANNELS, Channel, Scene, close_all_of
from playground.live.picture import Html, Plot, shown


@dataclass(frozen=True)
class Counter:
    """A picture of a number; `made` lists the numbers that it was made of."""

    made: list[int]
    word: str = "step"

    def __call__(self, n: int) -> dict[str, Html]:
        self.made.append(n)
        return {"count": Html(f"{self.word} {n}"), "still": Html("always the same")}


class Runs:
    """What a page watches: a number, and whether it moves."""

    def __init__(self) -> None:
        self.n, self.moves, self.made = 0, True, []

    def scene(self, word: str = "step") -> Scene[int]:
        picture = Counter(self.made, word)
        return Scene(picture, lambda: self.n, lambda n: (n, self.moves), lambda n: self.moves)


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def channel() -> Channel:
    return Channel("visitor")


def said(message: str | None) -> dict[str, str]:
    """The words of a message, by key."""
    parts = [json.loads(line) for line in (message or "").split("\n")[1:]]
    return {part["key"]: part["html"] for part in parts}


def said_keys(message: str | None) -> list[str]:
    return [json.loads(line)["key"] for line in (message or "").split("\n")[1:]]


def turn(message: str) -> int:
    return json.loads(message.split("\n")[0])["turn"]


def test_a_message_has_only_what_has_changed(runs, channel):
    channel.show(runs.scene(), 0)
    told = {}
    assert said(channel.news(told)) == {"count": "step 0", "still": "always the same"}
    assert channel.news(told) is None
    runs.n = 1
    assert channel.refresh()
    assert said(channel.news(told)) == {"count": "step 1"}
    assert said(channel.news({})) == {"count": "step 1", "still": "always the same"}, (
        "who comes new is told everything"
    )


def test_a_picture_is_made_once_for_each_state_whoever_watches(runs, channel):
    channel.show(runs.scene(), 0)
    for _ in range(5):
        assert not channel.refresh()
        channel.show(runs.scene())  # the same choices
        channel.news({})
    assert runs.made == [0]
    channel.show(runs.scene("n ="))  # a switch was turned
    runs.n = 1
    channel.refresh()
    assert runs.made == [0, 0, 1]


def test_what_looks_as_before_again_is_told_again(runs, channel):
    """Back at step 0 the page looks as at first, but not as the browser was told last."""
    channel.show(runs.scene(), 0)
    told = {}
    channel.news(told)
    runs.n = 1
    channel.refresh()
    channel.news(told)
    runs.n = 0
    parts = channel.show(runs.scene(), 0)
    assert said(channel.news(told)) == {"count": "step 0"}
    assert parts["count"].number > parts["still"].number


def test_the_end_of_a_run_asks_the_page_once_to_be_drawn_again(runs, channel):
    channel.show(runs.scene(), 0)
    told = {}
    before = turn(channel.news(told))
    runs.n, runs.moves = 5, False
    channel.refresh()
    message = channel.news(told)
    assert turn(message) == before + 1 and said(message) == {"count": "step 5"}
    assert not channel.moving and channel.news(told) is None
    channel.show(runs.scene(), 0)
    assert channel.news(told) is None


def test_a_page_may_depend_on_more_than_whether_anything_moves(runs, channel):
    scene = replace(runs.scene(), phase=lambda n: n // 10)
    channel.show(scene, 0)
    for n, turns in ((9, 0), (10, 1), (11, 1), (20, 2)):
        runs.n = n
        channel.refresh()
        assert channel.turn == turns and channel.moving


def test_a_run_that_ends_while_the_page_is_drawn_is_not_missed(runs, channel):
    scene = runs.scene()
    seen = scene.look()
    runs.n, runs.moves = 1, False  # after the page has drawn its buttons
    channel.show(replace(scene, moving=lambda n: n == 0), seen)
    assert channel.turn == 1
    channel.show(replace(scene, moving=lambda n: n == 0))  # further down on the page
    assert channel.turn == 1


def test_what_a_rerun_of_the_page_leaves_as_it_was_is_not_told_again(runs, channel):
    channel.show(runs.scene(), 0)
    told = {}
    channel.news(told)
    runs.n = 1
    channel.hide()  # a rerun begins
    channel.show(runs.scene("n ="), 1)
    assert said(channel.news(told)) == {"count": "n = 1"}


def test_a_page_that_shows_nothing_is_told_nothing(runs, channel):
    channel.show(runs.scene(), 0)
    channel.hide()
    assert not channel.moving and not channel.refresh()
    assert said(channel.news({})) == {}


def test_a_picture_that_fails_ends_there_and_leaves_the_rest_alone(channel, caplog):
    def picture(n: int) -> dict[str, Html]:
        if n:
            raise ZeroDivisionError
        return {"count": Html("0")}

    numbers = iter([0, 1])
    channel.show(Scene(picture, lambda: next(numbers), lambda n: n, lambda n: True), 0)
    assert not channel.refresh() and not channel.moving
    assert "could not be made" in caplog.text


def test_the_page_itself_sends_a_figure_once_to_whom_the_stream_tells_it(runs, channel):
    def picture(n: int) -> dict[str, Html | Plot]:
        figure = {"data": [{"y": [n]}], "layout": {}}
        return {"plot": Plot(figure, "name", alt="words"), "count": Html(f"step {n}")}

    scene = Scene(picture, lambda: runs.n, lambda n: n, lambda n: True)

    def shown_by_page() -> tuple[int, str]:
        parts = channel.show(scene)
        return parts["plot"].part.figure["data"][0]["y"][0], parts["count"].part.html

    assert shown_by_page() == (0, "step 0")
    runs.n = 1
    assert shown_by_page() == (1, "step 1"), "nobody listens: the page says all of it"
    with channel.watching(lambda: None):
        runs.n = 2
        assert shown_by_page() == (1, "step 2")
        assert len(said_keys(channel.news({}))) == 2
    runs.n = 3
    assert shown_by_page() == (3, "step 3")


def test_who_watches_is_called_when_the_page_shows_something_else(runs, channel):
    called = []
    with channel.watching(lambda: called.append("here")):
        channel.show(runs.scene(), 0)
    channel.show(runs.scene(), 0)
    assert called == ["here"]


def test_tokens_are_long_all_different_and_forgotten_with_their_session(channel):
    tokens = {Channel("visitor").token for _ in range(100)}
    assert len(tokens) == 100 and min(map(len, tokens)) >= 40
    del tokens
    gc.collect()
    assert [found for found in CHANNELS.values() if found.owner == "visitor"] == [channel]


def test_a_visitor_who_leaves_closes_their_channels_alone(channel):
    other = Channel("somebody else")
    close_all_of("visitor")
    assert not channel.open and other.open


def test_a_part_is_one_line_of_json_with_its_key_and_number_first():
    """The browser reads them without the rest."""
    figure = {"data": [{"text": "a\nb"}], "layout": {"height": 300, "template": {"layout": {}}}}
    message = shown("loss", Plot(figure, "name", alt="words"), 7).message.decode()
    assert message.startswith('{"key":"loss","number":7,') and "\n" not in message
    part = json.loads(message)
    assert part["height"] == 300 and part["figure"]["layout"]["template"] is None
    assert part["figure"]["data"] == figure["data"]
