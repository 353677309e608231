"""The server: `streamlit run playground/app.py`.

Serves the pages, and plotly.js from the installed package, so that nothing is loaded from the
internet. What is set here is set once for the process.
"""

import ctypes
import functools
import gc
import gzip
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.resources import files
from urllib.parse import urlsplit

import anyio
import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from streamlit import config
from streamlit.url_util import get_hostname
from streamlit.web.server.server_util import allow_all_cross_origin_requests, allowlisted_origins
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from playground.live.stream import Stream
from playground.ui.components.live import LIVE_PATH, PLOTLY_PATH, live_js

IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
# mallopt's parameters, from <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@functools.cache
def plotly_js() -> bytes:
    """plotly.js of the installed package."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_bytes()


SCRIPTS = {PLOTLY_PATH: plotly_js, LIVE_PATH: live_js}


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


def stream_routes(base_path: str) -> list[WebSocketRoute]:
    """Where the browser listens to what moves."""
    serve = Stream(may_watch).serve
    return [WebSocketRoute(f"{base}/live/{{token}}", serve) for base in bases(base_path)]


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


def warm_up() -> None:
    """One step of a tiny model: PyTorch loads now what else the first Play would wait for."""
    from core.config import ModelConfig
    from core.tasks import TASKS
    from core.train import Trainer

    task = TASKS["copy"]()
    Trainer(ModelConfig.for_task(task, d_model=8, n_heads=1, n_layers=1), task).step()


def make_ready() -> None:
    """Load what the first page and the first Play would wait for, while the browser starts."""
    for module in ("ui.controls", "ui.run_panels", "runs.controller"):
        import_module(f"playground.{module}")
    warm_up()
    # What is imported by now lives as long as the server: no collection looks at it again.
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    allow_many_files()
    keep_large_blocks()
    import torch

    try:
        from playground.history.recorder import RECORDER, chosen_mode
        from playground.runs.limits import setting
        from playground.runs.pool import RUNS

        RUNS.check_settings()
        chosen_mode()
        # Fixed for the process: one thread and two differ in the last digits.
        torch.set_num_threads(setting("THREADS", 1))
    except ValueError as error:  # a setting in the environment
        print(error, file=sys.stderr)
        os._exit(2)
    # A page's short run gets its turn sooner beside the threads that train.
    sys.setswitchinterval(0.0005)
    readying = threading.Thread(target=make_ready, name="make ready")
    readying.start()
    try:
        yield
    finally:
        readying.join()
        RUNS.close()
        RECORDER.flush(timeout=15)


BASE = st.get_option("server.baseUrlPath")
app = st.App("main.py", routes=[*script_routes(BASE), *stream_routes(BASE)], lifespan=lifespan)
