"""The server: `streamlit run playground/app.py`.

Serves the pages, the stream, and our scripts with plotly.js from the installed package, so that
nothing is loaded from the internet. What is set here is set once for the process.
"""

import ctypes
import functools
import gzip
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from streamlit import config
from streamlit.url_util import get_hostname
from streamlit.web.server.server_util import allow_all_cross_origin_requests, allowlisted_origins
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from playground import ready
from playground.ui.scripts import LIVE_PATH, PLOTLY_PATH, SCRIPTS

if TYPE_CHECKING:
    from playground.live.stream import Stream

IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
# mallopt's parameters, from <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@functools.cache
def script(path: str, zipped: bool) -> bytes:
    """One of our scripts, packed once for all visitors if `zipped`."""
    source = SCRIPTS[path]()
    return gzip.compress(source, compresslevel=5, mtime=0) if zipped else source


async def serve_script(request: Request) -> Response:
    path = next(path for path in SCRIPTS if request.url.path.endswith(f"/{path}"))
    zipped = "gzip" in request.headers.get("accept-encoding", "")
    body = await anyio.to_thread.run_sync(script, path, zipped)
    headers = IMMUTABLE | ({"Content-Encoding": "gzip"} if zipped else {})
    return Response(body, media_type="text/javascript", headers=headers)


def bases(base_path: str) -> list[str]:
    """Below what our addresses lie: Streamlit moves its own below `server.baseUrlPath`."""
    return sorted({"", "".join(f"/{part}" for part in base_path.split("/") if part)})


def script_routes(base_path: str) -> list[Route]:
    """Where the browser asks for our scripts: beside Streamlit's own files."""
    return [Route(f"{base}/{path}", serve_script) for base in bases(base_path) for path in SCRIPTS]


def may_watch(origin: str | None, host: str | None) -> bool:
    """Whether a page of this origin may open a stream at this host: one that we have served.

    Streamlit's own rule, but for the addresses of this machine that it would ask the internet for.
    """
    if not is_host_allowed(host):
        return False
    if origin is None or urlsplit(origin).netloc == host or allow_all_cross_origin_requests():
        return True
    known = [get_hostname(known) for known in allowlisted_origins()]
    if config.is_manually_set("browser.serverAddress"):
        known.append(st.get_option("browser.serverAddress"))
    return get_hostname(origin) in known


@functools.cache
def stream() -> "Stream":
    """What moves, for all tabs."""
    from playground.live.stream import Stream

    return Stream(may_watch)


async def serve_stream(socket: WebSocket) -> None:
    """A tab of an earlier server may ask before there is anything to tell."""
    await anyio.to_thread.run_sync(ready.wait)
    await stream().serve(socket)


def stream_routes(base_path: str) -> list[WebSocketRoute]:
    """Where the browser listens to what moves."""
    return [WebSocketRoute(f"{base}/live/{{token}}", serve_stream) for base in bases(base_path)]


class Preload:
    """Names our scripts in the head of every page, so that they come beside Streamlit's own.

    Without it the browser would hear of plotly.js with the first figure. The addresses are
    relative, as Streamlit's own are.
    """

    LINKS = f"<./{PLOTLY_PATH}>; rel=preload; as=script, <./{LIVE_PATH}>; rel=modulepreload"

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("Link", self.LINKS)
            await send(message)

        await self.app(scope, receive, named)


def keep_large_blocks() -> None:
    """Let glibc keep freed tensors instead of handing their pages back after every step."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent from musl
    if mallopt:
        mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024)
        mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024)


def allow_many_files() -> None:
    """Raise the limit on open files as far as it goes: each visitor's session holds a few."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for enough in (65_536, 10_240):  # macOS names no hard limit, and allows the second at most
        wanted = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def anything_set() -> bool:
    """Whether the environment holds a setting, which may be one that cannot be."""
    given = {name for name, value in os.environ.items() if name.startswith("PLAYGROUND_") and value}
    return bool(given - {"PLAYGROUND_DATA"})


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    allow_many_files()
    keep_large_blocks()
    # A page's short run gets its turn sooner beside the threads that train, and so does an answer
    # beside the one that imports.
    sys.setswitchinterval(0.0005)
    readying = ready.begin()
    if anything_set():
        await anyio.to_thread.run_sync(ready.wait)
    try:
        yield
    finally:
        readying.join()
        from playground.classroom.recorder import BOARD
        from playground.history.recorder import RECORDER
        from playground.runs.pool import RUNS

        RUNS.close()
        RECORDER.flush(timeout=15)
        BOARD.flush(timeout=15)


BASE = st.get_option("server.baseUrlPath")
app = st.App(
    "main.py",
    routes=[*script_routes(BASE), *stream_routes(BASE)],
    middleware=[Middleware(Preload)],
    lifespan=lifespan,
)
