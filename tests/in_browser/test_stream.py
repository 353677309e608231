"""The stream as a visitor has it: tabs that are hidden, cut off, moved or left alone.

Every test also fails on an error in the browser's console, where none is to be expected.
"""

from urllib.parse import urlsplit

import pytest

from browser import FOREVER, SMALL, Tab, drawn, pause, play, serving

pytestmark = pytest.mark.browser

# Counts the sockets of the stream that are open, and can make the tab seem hidden or cut them off.
WATCH = """
window.streams = [];
const Socket = window.WebSocket;
window.WebSocket = class extends Socket {
  constructor(url, ...rest) {
    super(url, ...rest);
    if (url.includes("/live/")) window.streams.push(this);
  }
};
let hidden = false;
Object.defineProperty(document, "hidden", { get: () => hidden });
window.hide = (value) => {
  hidden = value;
  document.dispatchEvent(new Event("visibilitychange"));
};
"""
OPEN = "streams.filter(s => s.readyState === WebSocket.OPEN).length"
UPDATES = "+plot.dataset.updates"


@pytest.fixture
def watched(visit):
    """A visitor whose page moves, and whose sockets can be seen."""

    def come(*address: str, **knobs) -> Tab:
        tab = visit(*address, settle=False, **knobs)
        tab.page.add_init_script(WATCH)
        tab.page.reload()
        tab.settle()
        tab.until(lambda: tab.page.evaluate(OPEN) == 1, "no stream")
        return tab

    return come


def moves(tab: Tab) -> None:
    """Steps, curve and maps go on."""
    steps, updates = tab.steps(), tab.plot("loss_chart", UPDATES)
    tab.until(lambda: tab.steps() > steps, "the steps stand still")
    tab.until(lambda: tab.plot("loss_chart", UPDATES) > updates, "the curve stands still")


def test_a_hidden_tab_closes_its_stream_and_what_it_missed_is_there_when_it_is_seen_again(watched):
    tab = watched(steps=FOREVER, **SMALL)
    play(tab, 5)
    tab.page.evaluate("hide(true)")
    tab.until(lambda: tab.page.evaluate(OPEN) == 0)
    tab.page.wait_for_timeout(300)
    seen = tab.steps(), tab.plot("loss_chart", UPDATES)
    tab.page.wait_for_timeout(1000)
    assert (tab.steps(), tab.plot("loss_chart", UPDATES)) == seen
    tab.page.evaluate("hide(false)")
    tab.until(lambda: tab.steps() > seen[0])
    moves(tab)
    assert tab.page.evaluate("streams.length") == 2


def test_a_stream_that_breaks_comes_again_and_the_page_is_right_meanwhile(watched):
    tab = watched(steps=FOREVER, **SMALL)
    play(tab, 5)
    tab.page.evaluate("streams[0].close()")
    steps = tab.steps()
    tab.until(lambda: tab.page.evaluate(OPEN) == 1, "it does not come again")
    tab.until(lambda: tab.steps() > steps)
    moves(tab)
    # Without a stream a knob is answered by the page itself.
    pause(tab)
    tab.press("reset")
    tab.until(lambda: tab.steps() == 0)
    tab.page.evaluate("hide(true)")
    before = tab.maps()
    tab.select("scale", "none")
    tab.until(lambda: tab.maps() != before, "the page waits for the stream")
    tab.page.evaluate("hide(false)")
    tab.select("scale", "√d_k")
    tab.until(lambda: tab.maps() == before)


def test_a_script_that_did_not_come_is_asked_for_again(visit):
    tab = visit(settle=False, **SMALL)
    failed = []

    def once(route):
        url = route.request.url.partition("?")[0]
        if url in failed:
            route.continue_()
        else:
            failed.append(url)
            route.abort()

    tab.page.route("**/assets/*.js*", once)
    tab.page.reload()
    tab.settle()
    assert len(failed) == 2  # plotly.js and our own
    assert all("ERR_FAILED" in error for error in tab.errors)
    tab.errors.clear()


def test_a_run_that_ends_offers_play_again_and_is_drawn_to_its_last_step(watched):
    tab = watched(steps=50, **SMALL)
    tab.press("play")
    tab.page.get_by_role("button", name="Play again").wait_for()
    tab.until(lambda: tab.steps() == 50 and len(tab.losses()) == 50)
    assert {built for built, _ in tab.builds()} == {1}


def test_a_figure_that_did_not_change_is_not_drawn_when_the_page_is(watched):
    tab = watched(**SMALL)
    tab.page.wait_for_timeout(1500)  # its letters and its width have come, too
    updates, before = tab.plot("loss_chart", UPDATES), tab.maps()
    tab.select("head", "head 2")
    tab.until(lambda: tab.maps() != before)
    tab.rest()
    assert tab.plot("loss_chart", UPDATES) == updates


def test_a_knob_that_leaves_the_curve_as_it_was_does_not_draw_it(watched, tmp_path):
    """Though a saved picture of it names another configuration from then on."""
    tab = watched(**SMALL)
    updates, before = tab.plot("loss_chart", UPDATES), tab.maps()
    of_before = tab.save("loss_chart", "HTML", tmp_path / "before.html").read_text()
    tab.select("scale", "none")
    tab.until(lambda: tab.maps() != before)
    tab.rest()
    of_after = tab.save("loss_chart", "HTML", tmp_path / "after.html").read_text()
    assert tab.plot("loss_chart", UPDATES) == updates
    assert "scale=none" in of_after and "scale=none" not in of_before


def test_two_tabs_of_one_visitor_show_their_own_runs(watched):
    one, other = watched(steps=FOREVER, **SMALL), watched(steps=FOREVER, seed=1, **SMALL)
    play(one, 5)
    assert other.steps() == 0
    play(other, 5)
    steps = pause(one)
    moves(other)
    assert one.steps() == steps
    assert one.page.evaluate("streams[0].url") != other.page.evaluate("streams[0].url")


def test_a_page_below_a_path_of_its_own_moves(watched, tmp_path):
    with serving(tmp_path / "log", STREAMLIT_SERVER_BASE_URL_PATH="class") as address:
        tab = watched(address, steps=FOREVER, **SMALL)
        assert urlsplit(tab.page.evaluate("streams[0].url")).path.startswith("/class/live/")
        play(tab, 5)
        moves(tab)
        tab.page.close()


def test_a_server_that_stops_leaves_the_last_picture(watched, tmp_path):
    with serving(tmp_path / "log") as address:
        tab = watched(address, steps=FOREVER, **SMALL)
        play(tab, 5)
        drawn(tab, 5)
    tab.until(lambda: tab.page.evaluate(OPEN) == 0)
    assert tab.steps() >= 5 and len(tab.losses()) >= 5
    tab.page.close()
    # It asks again and again whether the server is back, as Streamlit does.
    tab.errors = [error for error in tab.errors if "ERR_CONNECTION_REFUSED" not in error]
