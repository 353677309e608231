"""The drawing of the model in a real Chromium: its colours, its letters, and its files."""

from xml.etree import ElementTree

import pytest

from browser import SMALL, Tab

pytestmark = pytest.mark.browser

# Texts that leave their chip, their box or the drawing, and the smallest letters, in pixels.
LOOK = """root => {
  const svg = [...root.querySelectorAll("svg")].find((svg) => svg.clientWidth);
  const { width, right } = svg.getBoundingClientRect(), view = svg.viewBox.baseVal.width;
  const out = [...svg.querySelectorAll("text")].filter((text) => {
    const chip = text.parentElement.querySelector(":scope > title ~ rect");
    const stack = text.closest("g[transform]")?.getScreenCTM();
    const box = stack ? stack.e + 376 * stack.a : right;
    const edge = chip ? chip.getBoundingClientRect().right : box;
    return text.getBoundingClientRect().right > edge;
  });
  return { out: out.map((text) => text.textContent), letters: (14 * width) / view, width,
    room: root.clientWidth };
}"""


def open_drawing(tab: Tab) -> dict:
    """Open "This model"; what it looks like."""
    tab.page.get_by_role("tab", name="This model").click()
    tab.key("model_drawing").locator("svg:visible").wait_for()
    tab.rest()
    return tab.key("model_drawing").locator(".drawing").evaluate(LOOK)


WIDEST = {
    "architecture": "encoder-decoder",
    "position": "learned",
    "scale": "sqrt_d_model",
    "mask": "window",
    "norm": "pre",
    "norm_type": "LayerNorm",
    "gated": "on",
    "residual": "off",
    "pad_mask": "off",
    "activation": "gelu",
    "tie_embeddings": "on",
    "init": "torch",
    "d_ff": 1024,
    "d_model": 128,
    "n_heads": 16,
    "n_layers": 12,
    "steps": 50,
}


@pytest.mark.parametrize(
    "width, height, projector", [(1366, 768, 0), (1280, 800, 1), (390, 844, 0)]
)
def test_every_word_of_the_widest_drawing_is_inside_and_can_be_read(
    visit, width, height, projector
):
    tab = visit(settle=False)
    tab.page.set_viewport_size({"width": width, "height": height})
    tab.open(**WIDEST, **({"projector": "true"} if projector else {}))
    found = open_drawing(tab)
    assert found["out"] == []
    assert found["width"] <= found["room"]
    assert found["letters"] >= (16 if projector else 11)


def test_the_drawing_follows_a_knob_and_is_saved_as_svg_and_png(visit, tmp_path):
    tab = visit(**SMALL)
    open_drawing(tab)
    drawing = tab.key("model_drawing")
    before = drawing.locator("svg").get_attribute("aria-label")
    tab.select("norm", "pre")
    tab.until(lambda: drawing.locator("svg").get_attribute("aria-label") != before)

    paths = {}
    for kind in ("SVG", "PNG"):
        with tab.page.expect_download() as download:
            drawing.get_by_role("button", name=kind).click()
        paths[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(paths[kind])
    svg = ElementTree.parse(paths["SVG"]).getroot()
    assert svg.get("aria-label") == drawing.locator("svg").get_attribute("aria-label")
    assert "color" in svg.get("style")
    png = paths["PNG"].read_bytes()
    assert png[1:4] == b"PNG"
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == tuple(3 * int(float(svg.get(name))) for name in ("width", "height"))
