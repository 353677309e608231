"""A button that copies an address, and the tab's memory of a run that a reload ended."""

from typing import Any

import streamlit as st

_component = st.components.v2.component(
    "link",
    html='<button type="button" class="copy"></button>',
    css="""
.copy {
  font: inherit; font-size: 0.875rem;
  color: var(--st-text-color); background: var(--st-background-color);
  border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius);
  padding: 0.25rem 0.75rem; min-height: 2.5rem; cursor: pointer; white-space: nowrap;
}
.copy:hover, .copy:focus-visible {
  border-color: var(--st-primary-color); color: var(--st-primary-color);
}
""",
    js="""
const SAY = "Copy link"

async function copy(text, beside) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text)
  const area = document.createElement("textarea")
  area.value = text
  beside.append(area) // in a dialog nothing outside of it can be selected
  area.select()
  document.execCommand("copy")
  area.remove()
}

export default function ({ data, parentElement, setStateValue }) {
  const button = parentElement.querySelector(".copy")
  button.textContent ||= SAY
  button.title = data.address ? "Copy this link" : "Copy the address of this page, with every knob"
  button.onclick = async () => {
    const address = data.address ?? window.location.href
    await copy(address, button.parentElement)
    button.textContent = "Copied ✓"
    button.dataset.copied = address
    setTimeout(() => (button.textContent = SAY), 1500)
  }
  if (data.address) return
  if (data.run) sessionStorage.setItem("run", data.run)
  else if (!data.fresh) sessionStorage.removeItem("run")
  else if (sessionStorage.getItem("run")) {
    setStateValue("lost", sessionStorage.getItem("run"))
    sessionStorage.removeItem("run")
  }
}
""",
)


def copy_link(*, run: str | None, fresh: bool, key: str = "link") -> str | None:
    """Draw the button; remember in the tab what is running.

    Args:
        run: a word for the run in work, None when there is none.
        fresh: this session has not had a run yet, so a remembered one is from before a reload.

    Returns:
        The word for a run that a reload has ended, else None.
    """
    data: dict[str, Any] = {"run": run, "fresh": fresh}
    return _component(key=key, data=data, on_lost_change=lambda: None).get("lost")


def copy_text(address: str, *, key: str) -> None:
    """Draw a button that copies another address than that of the page."""
    _component(key=key, data={"address": address})
