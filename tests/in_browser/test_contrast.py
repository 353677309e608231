"""Text that can be read: on every page, light and dark, as WCAG 2 asks for at level AA."""

import base64

import pytest

from browser import Tab
from playground.ui.page_list import IDEAS, INSTRUMENTS

pytestmark = pytest.mark.browser

PAGES = ["home", *INSTRUMENTS, *IDEAS]

# Every text in view with its colour; what is disabled is exempt, an icon or large text needs 3:1.
TEXTS = """
(() => {
  const found = []
  const walker = document.createTreeWalker(document.querySelector("[data-testid=stApp]"), 4)
  while (walker.nextNode()) {
    const [node, at] = [walker.currentNode, walker.currentNode.parentElement]
    const text = node.data.trim()
    if (!text || at.closest("style, script, noscript, title, [disabled], [aria-disabled=true]"))
      continue
    if (at.closest("label, [data-testid=stWidgetLabel]")?.querySelector(":disabled")) continue
    if (at.closest("[data-testid=stElementContainer]")?.querySelector(":disabled")) continue
    if (!at.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue
    const range = document.createRange()
    range.selectNodeContents(node)
    const { left, top, width, height } = range.getBoundingClientRect()
    if (width < 2 || height < 2 || left < 0 || top < 0) continue
    if (left + width > innerWidth || top + height > innerHeight) continue
    const style = getComputedStyle(at)
    const svg = at instanceof SVGElement
    let opacity = svg ? +style.fillOpacity : 1
    for (let up = at; up; up = up.parentElement) opacity *= +getComputedStyle(up).opacity
    const pixels = parseFloat(style.fontSize)
    const large = pixels >= 24 || (pixels >= 18.66 && +style.fontWeight >= 700)
    const icon = !!at.closest("[data-testid=stIconMaterial]")
    const colour = svg ? style.fill : style.color
    found.push({ text, left, top, width, height, colour, opacity, least: large || icon ? 3 : 4.5 })
  }
  return found
})()
"""

HIDE = """
  * { transition: none !important; caret-color: transparent !important }
"""
# What is behind a text is read off a picture of the page without its texts.
NO_TEXT = "* { color: transparent !important } text, tspan { fill: transparent !important }"

JUDGE = """
async ([picture, texts]) => {
  const image = new Image()
  image.src = "data:image/png;base64," + picture
  await image.decode()
  const size = { width: image.width, height: image.height }
  const pen = Object.assign(document.createElement("canvas"), size)
    .getContext("2d", { willReadFrequently: true })
  pen.drawImage(image, 0, 0)
  const one = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true })
  const read = (colour) => {
    one.clearRect(0, 0, 1, 1)
    one.fillStyle = colour
    one.fillRect(0, 0, 1, 1)
    return [...one.getImageData(0, 0, 1, 1).data]
  }
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const failing = {}
  for (const { text, left, top, width, height, colour, opacity, least } of texts) {
    const { data } = pen.getImageData(left, top, Math.ceil(width), Math.ceil(height))
    const counts = new Map()
    for (let i = 0; i < data.length; i += 4) {
      const key = `${data[i]},${data[i + 1]},${data[i + 2]}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
    const [usual] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))
    const under = usual.split(",").map(Number)
    const [r, g, b, a] = read(colour)
    const share = (a / 255) * opacity
    const over = [r, g, b].map((v, i) => v * share + under[i] * (1 - share))
    const [x, y] = [light(over), light(under)].sort((p, q) => q - p)
    const contrast = (x + 0.05) / (y + 0.05)
    if (contrast < least - 0.01)
      failing[`${contrast.toFixed(2)} of ${least}: ${text.slice(0, 40)}`] =
        `rgb(${over.map(Math.round)}) on rgb(${under}) at ${Math.round(left)}, ${Math.round(top)}`
  }
  return failing
}
"""


# Whether the page is dark: its ground, and the letters of a figure.
IS_DARK = """
[...document.querySelectorAll("[data-testid=stApp], .live-plot .xtitle, .live-plot .ytitle")]
  .every((at) => {
    const style = getComputedStyle(at)
    const text = at instanceof SVGElement
    const [r] = (text ? style.fill : style.backgroundColor).match(/\\d+/g).map(Number)
    return text ? r > 128 : r < 128
  })
"""


def failing(tab: Tab) -> dict[str, str]:
    """The texts on a page that are too faint: how faint, and where."""
    while True:
        texts = tab.page.evaluate(TEXTS)
        assert len(texts) > 20, "it is empty"
        style = tab.page.add_style_tag(content=NO_TEXT)
        picture = base64.b64encode(tab.page.screenshot(animations="disabled")).decode()
        style.evaluate("style => style.remove()")
        if tab.page.evaluate(TEXTS) == texts:  # nothing has moved while the picture was taken
            return tab.page.evaluate(JUDGE, [picture, texts])


def tall_enough(tab: Tab) -> None:
    """The whole page in view."""
    height = tab.page.evaluate(
        "Math.max(...['stMain', 'stSidebarContent'].map("
        "name => document.querySelector(`[data-testid=${name}]`)?.scrollHeight ?? 0))"
    )
    tab.page.set_viewport_size({"width": 1366, "height": min(height + 100, 6000)})


@pytest.mark.parametrize("page", PAGES)
def test_every_text_stands_out_from_what_is_behind_it(chromium, server, page):
    tab = Tab(chromium, server, reduced_motion="reduce", color_scheme="light")
    tab.page.goto(f"{tab.address}/{'' if page == 'playground' else page}")
    tab.rest()
    tab.page.wait_for_function(
        "[...document.querySelectorAll('.live-plot')].every(p => p.dataset.newplots)"
    )
    tab.page.add_style_tag(content=HIDE)
    tall_enough(tab)
    found = {}
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        tab.page.wait_for_function(f"({IS_DARK}) == {str(scheme == 'dark').lower()}")
        tab.page.wait_for_timeout(500)  # figures follow on the next screen frames
        found |= {f"{scheme}, {text}": where for text, where in failing(tab).items()}
    tab.close()
    assert not found
