"""The scripts that a browser is sent once, and not with every message: plotly.js, and our own.

The server knows them from its first moment on, so nothing here waits for PyTorch.
"""

import hashlib
import importlib.metadata
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from playground.figures.style import GRID, HIDDEN, MUTED, PAPER, RUN_COLOURS, TEMPLATE, TEXT

PLOTLY_PATH = f"assets/plotly-{importlib.metadata.version('plotly')}.min.js"

_CONSTANTS = {
    "SCRIPT": PLOTLY_PATH,
    "PALETTE": RUN_COLOURS,
    "NEUTRALS": {"text": TEXT, "muted": MUTED, "grid": GRID, "hidden": HIDDEN, "paper": PAPER},
    "TEMPLATE": TEMPLATE,
}


@cache
def plotly_js() -> bytes:
    """plotly.js of the installed package."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_bytes()


@cache
def live_js() -> bytes:
    """The script of all components that move."""
    source = (Path(__file__).parent / "components" / "live.js").read_text(encoding="utf-8")
    return source.replace('"CONSTANTS"', json.dumps(_CONSTANTS)).encode()


LIVE_PATH = f"assets/live-{hashlib.sha256(live_js()).hexdigest()[:12]}.js"
SCRIPTS = {PLOTLY_PATH: plotly_js, LIVE_PATH: live_js}
