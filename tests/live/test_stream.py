"""The stream over HTTP: who may listen, and what they hear."""

import json
import socket as sockets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from helpers import wait
from playground import app
from playground.app import stream_routes
from playground.live.channel import Channel, Scene
from playground.live.picture import Html
from playground.live.stream import UNKNOWN, Pace


class Runs:
    """What a page watches: a number, and whether it moves."""

    def __init__(self) -> None:
        self.n, self.moves = 0, True

    def scene(self) -> Scene[int]:
        return Scene(self.picture, lambda: self.n, lambda n: (n, self.moves), lambda n: self.moves)

    def picture(self, n: int) -> dict[str, Html]:
        return {"count": Html(f"step {n}")}


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def channel(runs) -> Channel:
    channel = Channel("visitor")
    channel.show(runs.scene(), 0)
    return channel


@contextmanager
def serving() -> Iterator[str]:
    """A server of the stream alone, as Streamlit runs it below the path `class`; its address."""
    with sockets.create_server(("127.0.0.1", 0)) as own:
        config = uvicorn.Config(
            Starlette(routes=stream_routes("class")), log_level="error", ws="websockets-sansio"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([own],))
        thread.start()
        try:
            yield f"127.0.0.1:{own.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server does not stop"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture
def listen(address) -> Callable[..., ClientConnection]:
    """Open the stream of a token: `with listen(token) as socket`."""

    def open_socket(token: str, base: str = "", **options: Any) -> ClientConnection:
        return connect(f"ws://{address}{base}/live/{token}", **options)

    return open_socket


def hear(socket: ClientConnection) -> tuple[int, dict[str, str]]:
    """The turn of the next message, and its words by key; says that it has been drawn."""
    head, *parts = socket.recv(timeout=60).split("\n")
    socket.send("drawn")
    found = [json.loads(part) for part in parts]
    return json.loads(head)["turn"], {part["key"]: part["html"] for part in found}


def closed(socket: ClientConnection) -> int:
    """With which code the server closes it, having said nothing more."""
    with pytest.raises(ConnectionClosed) as end:
        socket.recv(timeout=60)
    return end.value.rcvd.code


@pytest.mark.parametrize("base", ["", "/class"])
def test_a_tab_hears_what_it_shows_what_changes_and_the_end(listen, channel, runs, base):
    with listen(channel.token, base) as socket:
        assert hear(socket) == (0, {"count": "step 0"})
        runs.n = 1
        assert hear(socket) == (0, {"count": "step 1"})
        runs.n, runs.moves = 2, False
        assert hear(socket) == (1, {"count": "step 2"})
        runs.n = 7  # a knob was turned
        channel.show(runs.scene(), 7)
        assert hear(socket) == (1, {"count": "step 7"})


def test_who_comes_again_is_told_all_that_is_shown(listen, channel, runs):
    """A reconnect, or a tab that was hidden: what moved meanwhile is looked at then."""
    for n in (0, 3):
        runs.n = n
        with listen(channel.token) as socket:
            while hear(socket)[1] != {"count": f"step {n}"}:
                pass
        wait(lambda: not channel.watched)
        runs.n = n + 1
        assert channel.parts["count"].part.html == f"step {n}", "nobody watches: nothing is made"


def test_two_tabs_hear_their_own_runs(listen, channel, runs):
    others = Runs()
    others.n = 100
    other = Channel("visitor")
    other.show(others.scene(), 0)
    with listen(channel.token) as mine, listen(other.token) as theirs:
        assert hear(mine)[1] == {"count": "step 0"} and hear(theirs)[1] == {"count": "step 100"}
        others.n = 101
        assert hear(theirs)[1] == {"count": "step 101"}
        runs.n = 1
        assert hear(mine)[1] == {"count": "step 1"}


def test_a_browser_that_is_slow_has_one_message_at_a_time(listen, channel, runs):
    """What it had no time for is never sent: the next message is of the newest state."""
    with listen(channel.token) as socket:
        socket.recv(timeout=60)  # and says nothing
        for n in range(1, 50):
            runs.n = n
            channel.refresh()
        socket.send("drawn")
        assert hear(socket)[1] == {"count": "step 49"}


@pytest.mark.parametrize("token", ["x", "x" * 43, "%00", "undefined"])
def test_a_guessed_address_hears_nothing(listen, channel, token):
    with listen(token) as socket:
        assert closed(socket) == UNKNOWN


def test_a_visitor_who_has_left_is_watched_by_nobody(listen, channel):
    with listen(channel.token) as socket:
        hear(socket)
        channel.close()
        assert closed(socket) == UNKNOWN
    with listen(channel.token) as socket:
        assert closed(socket) == UNKNOWN


def test_only_our_own_pages_may_listen(listen, address, channel):
    for origin in (f"http://{address}", None):  # None: no browser, and it has the secret
        with listen(channel.token, origin=origin) as socket:
            assert hear(socket)[1] == {"count": "step 0"}
    for origin in ("http://evil.example", f"http://{address}.evil.example", f"http://x{address}"):
        with pytest.raises(InvalidStatus) as refused:
            listen(channel.token, origin=origin)
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize("origin", ["null", "", "https://other.example", "http://10.0.0.1"])
def test_a_host_behind_a_proxy_may_be_named(monkeypatch, origin):
    monkeypatch.setattr(app, "allowlisted_origins", lambda: ["https://school.example"])
    assert app.may_watch("https://school.example", "10.0.0.1:8501")
    assert not app.may_watch(origin, "10.0.0.1:8501")


def test_a_server_that_stops_lets_nobody_wait(channel):
    with serving() as address, connect(f"ws://{address}/live/{channel.token}") as socket:
        hear(socket)
    wait(lambda: not channel.watched)


def test_the_pace_follows_what_looking_costs_and_how_many_watch():
    pace = Pace(quickest=0.2, share=0.1)
    assert pace.interval() == 0.2
    for _ in range(200):
        pace.spent(0.01)  # a look takes ten milliseconds
    pace.watchers = {Channel("one")}
    assert pace.interval() == 0.2, "one visitor sees five pictures a second"
    pace.watchers = {Channel(str(i)) for i in range(30)}
    assert pace.interval() == pytest.approx(3.0, rel=1e-3), "30 × 10 ms every 3 s is a tenth"
