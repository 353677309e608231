"""A drawing in the colours of the page, which can be saved."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

_component = st.components.v2.component(
    "drawing",
    html='<div class="drawing"><div class="pictures"></div><div class="save"></div></div>',
    css="""
.drawing { color: var(--st-text-color); container-type: inline-size; }
.pictures svg { display: block; height: auto; max-width: 100%; }
.pictures .narrow { width: 27rem; }
.pictures .wide { width: 53rem; }
.pictures .wide { display: none; }
@container (min-width: 53rem) {
  .pictures .wide { display: block; }
  .pictures .wide ~ .narrow { display: none; }
}
.save { display: flex; gap: 0.5rem; margin-top: 0.5rem; }
.save button {
  font: inherit; font-size: 0.875rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius);
  padding: 0.25rem 0.75rem; min-height: 2.25rem;
}
.save button:hover, .save button:focus-visible {
  color: var(--st-primary-color); border-color: var(--st-primary-color);
}
""",
    js=Path(__file__).with_suffix(".js").read_text(encoding="utf-8"),
)


def drawing(pictures: Sequence[str], *, key: str, name: str) -> None:
    """Show an SVG, and offer to save it as SVG or PNG.

    Args:
        pictures: the SVG; a second one is shown instead where there is room for it.
        key: identity of the drawing on the page.
        name: file name of a saved drawing.
    """
    narrow, *wide = pictures
    _component(key=key, data={"narrow": narrow, "wide": wide[0] if wide else None, "name": name})
