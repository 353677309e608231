"""The live plot component and the route that feeds it, without a browser."""

import asyncio
import gzip
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import orjson
import plotly.graph_objects as go
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from streamlit.testing.v1 import AppTest

import playground
from playground.app import Preload, app, script_routes
from playground.figures.style import RUN_COLOURS
from playground.ui.scripts import LIVE_PATH, PLOTLY_PATH, live_js

ROOT = Path(playground.__file__).parent.parent


def page(body: str) -> AppTest:
    test = AppTest.from_string("from playground.ui.components import live_plot\n" + body)
    return test.run(timeout=20)


def payloads(test: AppTest) -> list[dict]:
    found = [node.proto for node in test.main if hasattr(node.proto, "bytes")]
    return [orjson.loads(proto.bytes) for proto in found]


def test_figure_reaches_the_page_with_its_text_alternative_and_height():
    test = page(
        "from playground.figures import Curve, loss_chart\n"
        "from playground.figures.style import sizes\n"
        "live_plot(loss_chart([Curve('run', [1], [2.0])], size=sizes(333)), key='loss')"
    )
    assert not test.exception
    (payload,) = payloads(test)
    assert payload["figure"]["data"][0]["y"] == [2.0]
    assert payload["height"] == payload["figure"]["layout"]["height"] == 333
    assert payload["alt"].startswith("Loss over the training steps. run: loss 2.000")
    assert payload["name"] == "loss"
    assert payload["clickable"] is False
    assert payload["figure"]["layout"]["template"] is None, "the browser has it already"


def test_two_equal_figures_are_both_shown():
    """XUI-03"""
    test = page(
        "from playground.figures import loss_chart\n"
        "live_plot(loss_chart([]), key='a')\nlive_plot(loss_chart([]), key='b')"
    )
    assert not test.exception
    first, second = payloads(test)
    assert first["figure"] == second["figure"]


def test_height_alt_and_clicks_can_be_said_by_the_page():
    test = page(
        "from playground.figures import loss_chart\n"
        "live_plot(loss_chart([]), key='a', height=123, alt='in words', on_click=print)"
    )
    (payload,) = payloads(test)
    assert (payload["height"], payload["alt"], payload["clickable"]) == (123, "in words", True)
    assert payload["figure"]["layout"]["height"] == 123


def test_a_plotly_figure_object_is_taken_too():
    test = page(
        "import plotly.graph_objects as go\n"
        "live_plot(go.Figure(go.Scatter(y=[1, 2])), key='a', height=200, alt='a line')"
    )
    assert not test.exception
    (payload,) = payloads(test)
    assert go.Figure(payload["figure"]).data[0].type == "scatter"


def test_the_same_figure_is_the_same_message():
    """What is equal is not drawn again: the browser compares the text."""
    body = "from playground.figures import loss_chart\nlive_plot(loss_chart([]), key='a')"
    assert payloads(page(body)) == payloads(page(body))


def test_the_script_of_the_components_does_not_travel_with_their_messages():
    test = page("from playground.figures import loss_chart\nlive_plot(loss_chart([]), key='a')")
    (node,) = [node.proto for node in test.main if hasattr(node.proto, "bytes")]
    assert len(node.js_content) < 600
    status, _, script = ask(script_routes(""), f"/{LIVE_PATH}")
    assert status == 200 and script == live_js()
    assert b"CONSTANTS" not in script and PLOTLY_PATH.encode() in script


def test_config_has_a_colour_for_each_run_in_both_themes():
    theme = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]
    for mode in ("light", "dark"):
        colours = theme[mode]["chartCategoricalColors"]
        assert len(colours) == len(set(colours)) == len(RUN_COLOURS)
        assert all(contrast(colour, theme[mode]["backgroundColor"]) >= 3 for colour in colours), (
            "a line that the back row cannot see"
        )
        assert contrast(theme[mode]["textColor"], theme[mode]["backgroundColor"]) >= 7
        assert contrast(theme[mode]["primaryColor"], "#ffffff") >= 4.5


def contrast(first: str, second: str) -> float:
    """Contrast of two colours, as WCAG 2 defines it (1 to 21)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


def test_nothing_asks_the_internet():
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert config["browser"]["gatherUsageStats"] is False
    addresses = re.compile(r"https?://(?!localhost|www\.w3\.org/2000/svg)")
    for path in [*ROOT.glob("playground/ui/components/*"), *ROOT.glob("playground/figures/*.py")]:
        if path.is_file():
            assert not addresses.search(path.read_text()), path


# --- the route ----------------------------------------------------------------------------------


def ask(routes: list, path: str, *layers: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body that an ASGI server would send for a GET of `path`."""
    sent = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "root_path": "",
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
    }

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    asyncio.run(Starlette(routes=routes, middleware=map(Middleware, layers))(scope, receive, send))
    answer = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], answer, b"".join(message.get("body", b"") for message in sent[1:])


def test_plotly_js_is_the_installed_one_and_may_be_kept():
    status, headers, plain = ask(script_routes(""), f"/{PLOTLY_PATH}")
    assert status == 200
    assert "content-encoding" not in headers
    assert "immutable" in headers["cache-control"]
    assert headers["content-type"].startswith("text/javascript")
    assert b"plotly.js" in plain[:200]
    assert importlib.metadata.version("plotly") in PLOTLY_PATH

    status, headers, packed = ask(script_routes(""), f"/{PLOTLY_PATH}", accept_encoding="gzip, br")
    assert status == 200
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 3


@pytest.mark.parametrize("base", ["", "class", "/school/class/"])
def test_plotly_js_lies_beside_streamlits_own_files(base):
    prefix = "/" + base.strip("/") if base else ""
    assert ask(script_routes(base), f"{prefix}/{PLOTLY_PATH}")[0] == 200
    assert ask(script_routes(base), f"{prefix}/assets/other.js")[0] == 404


@pytest.mark.parametrize("kind, named", [("text/html", True), ("text/javascript", False)])
def test_a_page_names_our_scripts_in_its_head_and_nothing_else_does(kind, named):
    page = Route("/", lambda request: Response("", media_type=kind))
    _, headers, _ = ask([page], "/", Preload)
    linked = dict(re.findall(r"<\./([^>]+)>; rel=(\w+)", headers.get("link", "")))
    assert linked == ({PLOTLY_PATH: "preload", LIVE_PATH: "modulepreload"} if named else {})
    assert [Preload] == [middleware.cls for middleware in app._user_middleware]


def test_app_serves_the_route():
    assert {PLOTLY_PATH, LIVE_PATH, "live/{token}"} <= {
        route.path.lstrip("/") for route in app._user_routes
    }
    assert app.script_path.name == "main.py"


def test_server_start_sets_the_process_up_and_shutdown_ends_the_runs():
    code = """
import asyncio, gc, json, sys
import torch
from playground.app import app, lifespan
from playground.runs.pool import RUNS

async def live():
    async with lifespan(app):
        facts.update(threads=torch.get_num_threads(), interval=sys.getswitchinterval())
    facts["frozen"] = gc.get_freeze_count()

facts, closed = {}, []
RUNS.close = lambda: closed.append(1)
asyncio.run(live())
print(json.dumps(facts | {"closed": len(closed)}))
"""
    env = os.environ | {"PLAYGROUND_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    facts = json.loads(done.stdout)
    assert facts["threads"] == 1
    assert facts["interval"] == pytest.approx(0.0005)
    assert facts["frozen"] > 10_000
    assert facts["closed"] == 1
