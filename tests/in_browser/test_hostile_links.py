"""A link can hold anything: nothing of it is fetched, followed or run, and it is shown as it is."""

from urllib.parse import quote

import pytest

from browser import Tab
from playground.ui.page_list import PAGES

pytestmark = pytest.mark.browser

HOST = "http://stranger.invalid"
NASTY = (
    f"`![i]({HOST}/z.png)",
    f"[x]({HOST})",
    f"<img src={HOST}/q>",
    HOST,
    "www.stranger.invalid",
    "a@stranger.invalid",
    "$5 and $6 *x* ~~y~~ __z__",
    ":material/home: :tada: :red[x]",
    "a -> b >= c",
    "&lt;b&gt;",
)
MADE = "a[href*=stranger], img[src*=stranger], [data-testid=stAlert] :is(em, del, .katex, a, img)"


def address(page: str, key: str) -> str:
    """A link whose keys are known, unknown and of the page itself, all with something nasty."""
    known = [f"{k}={quote(text)}" for k, text in zip(KEYS, NASTY, strict=False)]
    return "&".join([*known, *(f"{quote(text)}=1" for text in NASTY), f"{key}={quote(NASTY[0])}"])


KEYS = ("d_model", "task", "seed", "scale", "log", "stage", "head", "layer", "fingerprint", "lr")
OWN = {
    "compare": "variants",
    "scenarios": "scenario",
    "playground": "probe",
    "lookup": "lookup_words",
    "depth": "depth_numbers",
    "heads": "heads_count",
}


@pytest.mark.parametrize("pages", [list(PAGES)[:7], list(PAGES)[7:]], ids=["first", "second"])
def test_no_page_fetches_or_links_what_its_address_says(chromium, server, pages):
    for page in pages:
        tab = Tab(chromium, server)
        where = "" if page == "playground" else page
        tab.page.goto(f"{server}/{where}?{address(page, OWN.get(page, f'{page}_x'))}")
        tab.page.wait_for_selector(".st-key-link_warning")
        tab.rest()
        shown = tab.text().replace("\u2060", "")
        for text in NASTY[:3]:
            assert text[:40] in shown, f"{page} does not show {text}"
        assert tab.page.locator(MADE).count() == 0, page
        assert set(tab.link()) <= {OWN.get(page)}, "what is not used is dropped"
        assert not tab.page.locator("[data-testid=stException]").count(), page
        tab.errors = [error for error in tab.errors if "404" not in error]
        tab.close()
        tab.check()


def test_back_to_a_link_that_the_widgets_cannot_read_is_harmless(visit):
    tab = visit(seed="inf", colour="red", lr=["0.01", "0.1"])
    tab.see("seed=inf", "colour is not a knob", "lr is given 2 times")
    assert not tab.link()
    for _ in range(tab.page.evaluate("history.length") - 2):  # the first is the empty page
        tab.page.go_back()
        tab.page.wait_for_timeout(500)
    tab.until(lambda: "inf" not in tab.page.url, "the address keeps what cannot be read")
    assert not tab.page.locator("[data-testid=stException]").count()
    tab.press("dismiss_notes")
    tab.until(lambda: not tab.key("link_warning").count(), "it cannot be dismissed")
