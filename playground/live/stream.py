"""The stream: a web socket on which each tab is told what is new in its channel.

A browser has one message at a time: the next one is made when it has drawn the last one. How often
follows the load, so that watching costs the runs little, however many watch.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from anyio import CapacityLimiter, create_task_group, to_thread
from starlette.websockets import WebSocket, WebSocketDisconnect

from playground.live.channel import CHANNELS, Channel

UNKNOWN = 4404  # closes a socket: there is no such channel, or its visitor is gone
FOREIGN = 1008  # closes a socket before it opens: another site's page asks
PATIENCE = 5.0  # seconds until a browser that does not say that it has drawn is told more

Allowed = Callable[[str | None, str | None], bool]


class Pace:
    """How long to wait between two looks at a channel that moves.

    Args:
        quickest: seconds; a picture that moves at least four times a second looks smooth.
        share: of one core, for the pictures of all channels together.
    """

    def __init__(self, quickest: float = 0.2, share: float = 0.04) -> None:
        self.quickest, self.share = quickest, share
        self.watchers: set[Channel] = set()  # channels that move, and are watched
        self._cost = 0.0  # seconds that a look takes, lately

    def spent(self, seconds: float) -> None:
        self._cost += 0.1 * (seconds - self._cost)

    def interval(self) -> float:
        """Seconds from one look at a channel to the next one."""
        return max(self.quickest, len(self.watchers) * self._cost / self.share)


class Stream:
    """Tells every tab what is new in its channel.

    Args:
        allowed: whether a page of this origin, at this host, may open a socket here.
    """

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._pace = Pace()
        self._one: CapacityLimiter | None = None  # one thread makes all messages

    async def serve(self, socket: WebSocket) -> None:
        """One browser tab, from when it opens its socket until it closes it."""
        if not self._allowed(socket.headers.get("origin"), socket.headers.get("host")):
            await socket.close(FOREIGN)
            return
        await socket.accept()
        channel = CHANNELS.get(socket.path_params["token"])
        if channel is None or not channel.open:
            await socket.close(UNKNOWN)
            return
        await self._tell(socket, channel)

    async def _tell(self, socket: WebSocket, channel: Channel) -> None:
        loop, called, drawn = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        async def listen() -> None:
            """Whatever the browser says means: drawn. At the end nobody is left to tell."""
            while (await socket.receive())["type"] != "websocket.disconnect":
                drawn.set()
            tasks.cancel_scope.cancel()

        def wake() -> None:
            with suppress(RuntimeError):  # the server stops
                loop.call_soon_threadsafe(called.set)

        async with create_task_group() as tasks:
            tasks.start_soon(listen)
            with channel.watching(wake):
                try:
                    await self._go_on(socket, channel, called, drawn)
                finally:
                    self._pace.watchers.discard(channel)
            await socket.close(UNKNOWN)
            tasks.cancel_scope.cancel()

    async def _go_on(
        self, socket: WebSocket, channel: Channel, called: asyncio.Event, drawn: asyncio.Event
    ) -> None:
        told: dict[str, int] = {}
        looked = time.monotonic()
        while channel.open:
            called.clear()
            if (message := channel.news(told)) is not None:
                drawn.clear()
                with suppress(WebSocketDisconnect, RuntimeError):  # `listen` hears of it, too
                    await socket.send_text(message)
                await _within(PATIENCE, drawn.wait())
            if not channel.moving:
                self._pace.watchers.discard(channel)
                await called.wait()
                continue
            self._pace.watchers.add(channel)
            if not await _within(looked + self._pace.interval() - time.monotonic(), called.wait()):
                looked = time.monotonic()
                self._one = self._one or CapacityLimiter(1)
                self._pace.spent(await to_thread.run_sync(_look, channel, limiter=self._one))


def _look(channel: Channel) -> float:
    """Seconds of processor time that it took."""
    start = time.thread_time()
    channel.refresh()
    return time.thread_time() - start


async def _within(seconds: float, awaited: Awaitable[object]) -> bool:
    """Whether it came in time."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await awaited
    except TimeoutError:
        return False
    return True
