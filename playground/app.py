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
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.resources import files

import anyio
import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from playground.ui.components.live_plot import PLOTLY_PATH

IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
# mallopt's parameters, from <malloc.h>.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@functools.cache
def plotly_js(zipped: bool) -> bytes:
    """plotly.js of the installed package, packed once for all visitors if `zipped`."""
    if zipped:
        return gzip.compress(plotly_js(False), compresslevel=5, mtime=0)
    return (files("plotly") / "package_data" / "plotly.min.js").read_bytes()


async def serve_plotly(request: Request) -> Response:
    zipped = "gzip" in request.headers.get("accept-encoding", "")
    body = await anyio.to_thread.run_sync(plotly_js, zipped)
    headers = IMMUTABLE | ({"Content-Encoding": "gzip"} if zipped else {})
    return Response(body, media_type="text/javascript", headers=headers)


def plotly_routes(base_path: str) -> list[Route]:
    """Where the browser asks for plotly.js: beside Streamlit's own files.

    Streamlit moves its files below `server.baseUrlPath`, ours it leaves where they are.
    """
    paths = {f"/{PLOTLY_PATH}", "/".join(["", *filter(None, base_path.split("/")), PLOTLY_PATH])}
    return [Route(path, serve_plotly) for path in sorted(paths)]


def keep_large_blocks() -> None:
    """Let glibc keep freed tensors instead of handing their pages back after every step."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent from musl
    if mallopt:
        mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024)
        mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024)


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
    keep_large_blocks()
    import torch

    from playground.history.recorder import RECORDER
    from playground.runs.pool import RUNS

    # Fixed for the process: one thread and two differ in the last digits.
    torch.set_num_threads(int(os.environ.get("PLAYGROUND_THREADS", "1")))
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


app = st.App(
    "main.py", routes=plotly_routes(st.get_option("server.baseUrlPath")), lifespan=lifespan
)
