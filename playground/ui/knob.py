"""A knob on a page: one choice, kept in the page's link.

A widget silently replaces an impossible value of a link. Here the page says so: a link can hold
anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.knobs import cut

MOST_BUTTONS = 6  # choices that usually fit into a row of buttons; more make a slider


@dataclass(frozen=True)
class Knob:
    """One choice: its key in the link, what is offered, and the widget."""

    key: str  # on a page of an idea it starts with the page's name: `scaling_width`
    title: str
    choices: Sequence[Any]  # a range: any whole number of it
    default: Any
    help: str
    show: Callable[[Any], str] = str  # what links hold, too: another word makes old links wrong
    on_change: Callable[[], None] | None = None
    most: int = MOST_BUTTONS
    parse: Callable[[str], Any] | None = None  # the value of a text; None: the one that is shown so
    between: bool = False  # whether numbers between the smallest and the largest choice do as well

    # --- values ---------------------------------------------------------------------------

    def read(self, text: str) -> Any:
        """The value that a link's text means.

        Raises:
            ValueError: the text is none of the offered values; says which there are.
        """
        try:
            return self.check((self.parse or self._shown_as)(text))
        except (ValueError, KeyError):
            raise ValueError(self._rule()) from None

    def check(self, value: Any) -> Any:
        """The value, if this knob can be turned to it.

        Raises:
            ValueError: says which values it takes.
        """
        if value in self.choices:
            return value
        numbers = [choice for choice in self.choices if choice is not None] if self.between else []
        if value is None or not numbers or not min(numbers) <= value <= max(numbers):
            raise ValueError(self._rule())
        return value

    def present(self) -> Any:
        """Its value, even before its widget exists: from the state, the link, or the default."""
        try:
            state = st.session_state
            return state[self.key] if self.key in state else self.read(st.query_params[self.key])
        except (KeyError, ValueError):
            return self.default

    def _shown_as(self, text: str) -> Any:
        return {self.show(choice).lower(): choice for choice in self.choices}[text.lower()]

    def _rule(self) -> str:
        if isinstance(self.choices, range):
            return f"choose a whole number from {self.choices[0]} to {self.choices[-1]}"
        offered = ", ".join(map(self.show, self.choices))
        return f"choose one of {offered}" + (", or a number between them" if self.between else "")

    # --- the link -------------------------------------------------------------------------

    def check_link(self) -> None:
        """Use what the link says of this knob, and note what cannot be used."""
        texts = st.query_params.get_all(self.key)
        if not texts or self.key in st.session_state:
            return
        problem, value = "", self.default
        try:
            value = self.read(texts[0])
            if len(texts) > 1:
                problem, value = f"` is given {len(texts)} times", self.default
        except ValueError as error:
            problem = f"={cut(texts[0])}`: {error}"
        if problem:
            note(f"`{self.key}{problem}; the default {self.show(value)} is used")
        if problem or texts[0] != self._of_widget(value):
            st.session_state[self.key] = value

    def _of_widget(self, value: Any) -> str:
        """The one spelling that the widget itself reads in a link, which may hold another."""
        return str(value).lower() if isinstance(value, bool) else self.show(value)

    # --- the widget -----------------------------------------------------------------------

    def draw(
        self,
        choices: Sequence[Any] | None = None,
        why: str = "to fit the other choices",
        **style: Any,
    ) -> Any:
        """Draw it and read it off: a switch, a row of buttons, a slider or a number.

        Args:
            choices: those that are possible now, where another knob limits this one; the nearest
                replaces one that is not.
            why: the reason for that.
            style: `width`, `label_visibility` … of the widget.
        """
        self.check_link()
        offered = self._offered(choices)
        self._fit(offered, why)
        common = {
            "label": self.title,
            "key": self.key,
            "help": self.help,
            "bind": "query-params",
            "on_change": self._turned,
        } | style
        if isinstance(offered, range):
            low, high = offered[0], offered[-1]
            return st.number_input(
                min_value=low, max_value=high, value=self.default, step=1, **common
            )
        if len(offered) == 1:
            st.caption(f"{self.title}: {self.show(offered[0])}, the only choice here")
            st.session_state[self.key] = offered[0]
            return offered[0]
        default = self.default if self.default in offered else nearest(offered, self.default)
        if all(isinstance(choice, bool) for choice in offered):  # 0 and 1 are not a switch
            return st.toggle(value=default, **common)
        # For a row of buttons None means that no button is pressed.
        if len(offered) <= self.most and None not in offered:
            return st.segmented_control(
                options=offered, default=default, required=True, format_func=self._shown, **common
            )
        return st.select_slider(options=offered, value=default, format_func=self._shown, **common)

    def _offered(self, choices: Sequence[Any] | None) -> Sequence[Any]:
        """What the widget offers; of numbers also the one in use, from a link or a file."""
        if choices is not None:
            return list(choices)
        if self.between and (present := self.present()) not in self.choices:
            return sorted({*self.choices, present}, key=lambda n: (n is not None, n))
        return self.choices

    def _fit(self, offered: Sequence[Any], why: str) -> None:
        """Replace a choice that is not possible now by the nearest one, and say so."""
        if (present := self.present()) in offered:
            return
        fitted = nearest(offered, present)
        if self.key in st.session_state:
            name = self.title.partition(":")[0]
            st.toast(f"{name} {self.show(present)} → {self.show(fitted)}: {why}")
        elif self.key in st.query_params:
            note(f"`{self.key}={self.show(present)}`: {why}; {self.show(fitted)} is used")
        else:
            return  # it is at its default: the widget starts with what is nearest
        st.session_state[self.key] = fitted

    def _turned(self) -> None:
        forget_notes()
        if self.on_change is not None:
            self.on_change()

    def _shown(self, choice: Any) -> str:
        """What a choice is called; a name that comes back from the browser stays what it is."""
        return (
            str(choice)
            if isinstance(choice, str) and choice not in self.choices
            else self.show(choice)
        )


def nearest(legal: Sequence[Any], wanted: Any) -> Any:
    """The legal number that is next to the wanted one; of words the first."""
    if isinstance(wanted, str):
        return legal[0]
    return min(legal, key=lambda n: (abs(n - wanted), n))


# --- what in a link cannot be used ---------------------------------------------------------------


def note(text: str) -> None:
    """Say that something in the link could not be used, until a knob is turned."""
    notes().append(text)
    if "notes_place" in st.session_state:
        _write_notes()


def notes() -> list[str]:
    return st.session_state.setdefault("link_notes", [])


def forget_notes() -> None:
    notes().clear()


def show_notes(page: str) -> None:
    """Draw the notes on the page to which the link led; what is found further down joins them."""
    if st.session_state.setdefault("notes_page", page) != page:
        st.session_state.notes_page = page
        forget_notes()
    st.session_state.notes_place = st.empty()
    if notes():
        _write_notes()


def _write_notes() -> None:
    texts = " ".join(f"{text}." for text in notes())
    st.session_state.notes_place.warning(f"Not everything in this link could be used. {texts}")
