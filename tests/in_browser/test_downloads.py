"""What a visitor downloads and loads again, and the history after a restart of the app."""

import json
from pathlib import Path

import numpy as np
import pytest

from browser import FOREVER, SMALL, Tab, drawn, pause, play, serving

pytestmark = pytest.mark.browser

ROW, HEADER, BOX = 35, 35, 18  # pixels of the table: a row, its header, to the middle of a box


def tab_home(tab: Tab) -> None:
    """Open "Download"."""
    tab.page.get_by_role("tab", name="Download").click()
    tab.key("downloads").wait_for()
    tab.rest()


def taken(tab: Tab, key: str, folder) -> str:
    """Press a download; where the file lies."""
    with tab.page.expect_download() as download:
        tab.press(f"download_{key}")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return str(path)


def bring(tab: Tab, key: str, path: str) -> None:
    tab.key(key).locator("input[type=file]").set_input_files(path)


def history(tab: Tab) -> None:
    """Open the page of the history, and wait for its table."""
    tab.page.get_by_role("link", name="History").click()
    tab.see("Your runs of at least")
    tab.rest()


def choose(tab: Tab, row: int) -> None:
    """Tick a row of the table: it is drawn on a canvas, so by its place."""
    table = tab.page.locator("[data-testid=stDataFrame]")
    table.wait_for()
    names = "plot?.data?.map(t => t.name).join() ?? ''"
    before, box = tab.plot("history_curves", names), table.bounding_box()
    tab.page.mouse.click(box["x"] + BOX, box["y"] + HEADER + ROW * row + ROW / 2)
    tab.until(lambda: tab.plot("history_curves", names) != before, "the choice draws no curve")
    tab.rest()


def test_a_configuration_comes_back_into_the_knobs(visit, tmp_path):
    tab = visit(steps=50, scale="none", lr=0.01, **SMALL)
    tab_home(tab)
    path = taken(tab, "json", tmp_path)
    assert json.loads(Path(path).read_text())["model"]["scale"] == "none"

    other = visit(steps=100, task="sort")
    tab_home(other)
    bring(other, "config_file", path)
    other.see("The knobs are set as in the file")
    other.until(lambda: other.link() == tab.link(), "the address does not follow")
    assert other.knob("scale") == "none" and other.knob("lr") == "0.01"
    play(other, 50)
    curve = drawn(other, 50)
    play(tab, 50)
    assert drawn(tab, 50) == curve


def test_a_checkpoint_goes_on_where_it_was_taken(visit, tmp_path):
    tab = visit(steps=FOREVER, **SMALL)
    play(tab, 20)
    steps = pause(tab)
    tab_home(tab)
    path = taken(tab, "checkpoint", tmp_path)
    tab.press("step")
    tab.until(lambda: tab.steps() == steps + 1)
    tab.until(lambda: steps + 1 in tab.curve())
    whole = tab.curve()

    other = visit()
    tab_home(other)
    bring(other, "checkpoint_file", path)
    other.see(f"resumes from step {steps}")
    other.until(lambda: other.steps() == steps)
    assert other.knob("d_model") == "16"
    other.press("step")
    other.until(lambda: other.steps() == steps + 1)
    other.until(lambda: steps + 1 in other.curve())
    common = sorted(set(whole) & set(other.curve()))
    assert common[-1] == steps + 1
    assert [other.curve()[step] for step in common] == [whole[step] for step in common]


def test_a_bad_file_is_named_and_the_run_goes_on(visit, tmp_path):
    tab = visit(steps=50_000, **SMALL)
    play(tab, 10)
    tab_home(tab)
    (tmp_path / "notes.json").write_text('{"format": 1, "task": {"task": "chess"}}')
    bring(tab, "config_file", str(tmp_path / "notes.json"))
    tab.see("notes.json", "Nothing has changed")
    steps = tab.steps()
    tab.until(lambda: tab.steps() > steps)


def test_a_figure_is_saved_as_a_page_of_its_own(visit, chromium, tmp_path):
    tab = visit(steps=50, **SMALL)
    play(tab, 50)
    curve = drawn(tab, 50)
    saved = tab.save("loss_chart", "HTML", tmp_path / "loss.html")

    page = chromium.new_page(offline=True)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(saved.as_uri())
    page.wait_for_selector("#plot .main-svg")
    line = "document.getElementById('plot').data.find(t => t.name === 'each step').y"
    assert page.evaluate(line) == curve
    assert len(requests) == 1, "it needs nothing but itself"
    page.close()


def test_a_saved_picture_has_the_shape_of_a_slide_and_nothing_is_cut(visit, chromium, tmp_path):
    tab = visit(**SMALL)
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.rest()
    png = tab.save("attention", "PNG", tmp_path / "map.png").read_bytes()
    width, height = (int.from_bytes(png[i : i + 4]) for i in (16, 20))
    assert width / height == pytest.approx(16 / 9, rel=0.01)

    svg = tab.save("loss_chart", "SVG", tmp_path / "loss.svg")
    page = chromium.new_page()
    page.goto(svg.as_uri())
    cut = """[...document.querySelectorAll('text')].filter(text => {
      const [{ left, right, top, bottom }, edge] =
        [text, document.documentElement].map(e => e.getBoundingClientRect());
      return left < edge.left || right > edge.right || top < edge.top || bottom > edge.bottom;
    }).map(text => text.textContent)"""
    assert page.evaluate(cut) == []
    assert "Reverse:" in page.evaluate("document.documentElement.textContent")
    page.close()


def test_the_history_outlives_the_app(chromium, tmp_path):
    # As from the command line: who sits at the machine has one history.
    mine = {"PLAYGROUND_DATA": str(tmp_path / "data"), "PLAYGROUND_HISTORY": ""}
    with serving(tmp_path / "first", **mine) as address:
        tab = Tab(chromium, address).open(steps=50, scale="none", **SMALL)
        play(tab, 50)
        curve = drawn(tab, 50)
        tab.select("position", "learned")
        tab.rest()
        play(tab, 50)
        history(tab)
        tab.close()
        tab.check()

    with serving(tmp_path / "second", **mine) as address:
        tab = Tab(chromium, address).open()
        history(tab)
        choose(tab, 1)
        tab.press("to_knobs")
        tab.settle()
        tab.until(lambda: tab.link().get("scale") == "none" and tab.steps() == 0)
        assert "position" not in tab.link(), "the older one of the two"
        play(tab, 50)
        assert drawn(tab, 50) == curve

        history(tab)
        choose(tab, 0)
        tab.press("show_in_playground")
        tab.settle()
        ghost = tab.until(
            lambda: tab.plot("loss_chart", "plot.data.find(t => t.name.endsWith(', each step'))?.y")
        )
        np.testing.assert_allclose(ghost, curve, rtol=1e-6)
        tab.press("hide_ghosts")
        tab.until(lambda: not tab.key("hide_ghosts").count())
        tab.close()
        tab.check()


def test_each_browser_has_a_history_of_its_own_where_several_come(chromium, tmp_path):
    with serving(tmp_path / "log", PLAYGROUND_HISTORY="visitor") as address:
        first = Tab(chromium, address).open(steps=50, **SMALL)
        play(first, 50)
        second = Tab(chromium, address).open()
        history(second)
        second.see("Nothing yet")
        # The same browser, later: another session.
        first.open()
        history(first)
        choose(first, 0)
        for tab in (first, second):
            tab.close()
            tab.check()
