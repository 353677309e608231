"""A knob on a page: one choice, kept in the page's link.

A link can hold anything, and a widget silently replaces what it cannot read, or fails. So before
it is drawn the address is settled: it holds what the widget reads, and what cannot be used is said.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.knobs import SWITCH, cut
from playground.ui import allowed
from playground.ui.literal import literal
from playground.ui.notes import forget, note

MOST_BUTTONS = 6  # choices that usually fit into a row of buttons; more make a slider
AROUND = 3  # characters that would fit in the place around the name on a button


KEYS: dict[str, "Knob"] = {}  # every knob that there is


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
    lowest: float | None = None  # the smallest of them, where that is below the choices

    def __post_init__(self) -> None:
        KEYS[self.key] = self

    @property
    def name(self) -> str:
        """Its title without what explains it."""
        return self.title.partition(":")[0]

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
        if value in self.choices or (self.between and value is not None and self._between(value)):
            return value
        raise ValueError(self._rule())

    def _between(self, value: Any) -> bool:
        low, high = self._ends()
        return low <= value <= high

    def _ends(self) -> tuple[Any, Any]:
        numbers = [choice for choice in self.choices if choice is not None]
        return min(numbers) if self.lowest is None else self.lowest, max(numbers)

    def present(self) -> Any:
        """Its value, even before its widget exists: from the state, the link, or the default."""
        try:
            state = st.session_state
            return state[self.key] if self.key in state else self.read(st.query_params[self.key])
        except (KeyError, ValueError):
            return self.default

    def _shown_as(self, text: str) -> Any:
        if isinstance(self.default, bool):
            return SWITCH[text.lower()]
        return {self.show(choice).lower(): choice for choice in self.choices}[text.lower()]

    def _rule(self) -> str:
        if isinstance(self.choices, range):
            return f"choose a whole number from {self.choices[0]} to {self.choices[-1]}"
        if isinstance(self.default, bool):
            return "choose on or off"
        offered = ", ".join(map(self.show, self.choices))
        if not self.between:
            return f"choose one of {offered}"
        low, high = map(self.show, self._ends())
        return f"choose one of {offered}, or a number from {low} to {high}"

    # --- the link -------------------------------------------------------------------------

    def settled(self, texts: Sequence[str]) -> str | None:
        """What the address is to hold of this knob: see `settled`."""
        return settled(self.key, texts, self.read, self.in_link, self.show(self.default))

    def in_link(self, value: Any) -> str:
        """The one spelling that the widget itself reads in a link, which may hold another."""
        return str(value).lower() if isinstance(value, bool) else self.show(value)

    # --- the widget -----------------------------------------------------------------------

    def draw(
        self,
        choices: Sequence[Any] | None = None,
        why: str = "to fit the other choices",
        *,
        sign: str = "",
        note: str = "",
        room: int | None = None,
        **style: Any,
    ) -> Any:
        """Draw it and read it off: a switch, a row of buttons, a list, a slider or a number.

        Args:
            choices: those that are possible now, where another knob limits this one; the nearest
                replaces one that is not.
            why: the reason for that.
            sign: what stands behind the title.
            note: what its help says besides.
            room: characters that one row of buttons has room for; words that need more become a
                list. At 0 there is no room at all: numbers, too, become a list, with a short title.
            style: `width`, `label_visibility` … of the widget.
        """
        settle(self.key, self.settled)
        with allowed.place(self.key):
            return self._draw(choices, why, sign, note, room, style)

    def _draw(
        self,
        choices: Sequence[Any] | None,
        why: str,
        sign: str,
        note: str,
        room: int | None,
        style: dict[str, Any],
    ) -> Any:
        offered = self._offered(choices)
        self._fit(offered, why)
        common = {
            "label": f"{self.name if room == 0 else self.title} {sign}".strip(),
            "key": self.key,
            "help": f"{self.help} {note}".strip(),
            "bind": "query-params",
            "on_change": self._turned,
        } | style
        common = allowed.style(self.key, common)
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
        words = room is not None and all(isinstance(choice, str) for choice in offered)
        needed = sum(len(self.show(choice)) + AROUND for choice in offered)
        if room == 0 or (words and needed > room):
            if self.key in st.session_state:  # as another widget, perhaps
                st.session_state[self.key] = st.session_state[self.key]
            return st.selectbox(
                options=offered, index=offered.index(default), format_func=self._shown, **common
            )
        # For a row of buttons None means that no button is pressed.
        if len(offered) <= self.most and None not in offered:
            return st.segmented_control(
                options=offered,
                default=default,
                required=True,
                format_func=self._shown,
                wrap=True,
                **common,
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
            st.toast(f"{self.name} {self.show(present)} → {self.show(fitted)}: {why}")
        elif self.key in st.query_params:
            given = literal(f"{self.key}={self.show(present)}")
            note(self.key, f"{given}: {why}; {self.show(fitted)} is used")
            st.query_params[self.key] = self.in_link(fitted)
            st.rerun()
        else:
            return  # it is at its default: the widget starts with what is nearest
        st.session_state[self.key] = fitted

    def _turned(self) -> None:
        forget(self.key)
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


# --- the address ---------------------------------------------------------------------------------


def settled(
    key: str,
    texts: Sequence[str],
    read: Callable[[str], Any],
    write: Callable[[Any], str] = str,
    default: str = "",
) -> str | None:
    """What the address is to hold of a key: a spelling that its widget reads, or nothing.

    Notes what cannot be used.

    Args:
        texts: what the address holds of it.
        read: the value of a text; raises ValueError, saying the rule.
        write: the spelling of a value that the widget reads.
        default: what is used instead of an impossible value, in words.
    """
    problem = f"{literal(key)} is given {len(texts)} times" if len(texts) > 1 else ""
    try:
        written = write(read(texts[0]))
    except ValueError as error:
        problem = problem or f"{literal(f'{key}={cut(texts[0])}')}: {literal(error)}"
    if problem:
        used = f"the default {default} is used" if default else "it is ignored"
        note(key, f"{problem}; {used}")
        return None
    return written


def one_of(*choices: Any) -> Callable[[str], str]:
    """Reads a text that has to be one of some choices as they are shown."""

    def read(text: str) -> str:
        if text not in map(str, choices):
            raise ValueError(f"choose one of {', '.join(map(str, choices))}")
        return text

    return read


def settle_choice(key: str, choices: Iterable[str]) -> None:
    """Settle a key whose widget offers what the page alone knows."""
    settle(key, lambda texts: settled(key, texts, one_of(*choices)))


def settle(key: str, of_address: Callable[[Sequence[str]], str | None]) -> None:
    """Settle what the address holds of one key, before its widget is drawn for the first time.

    The page runs again, from the new address, where that has changed.

    Args:
        of_address: what the address is to hold: see `settled`.
    """
    texts = st.query_params.get_all(key)
    if not texts or key in st.session_state or (written := of_address(texts)) == texts[0]:
        return
    if written is None:
        del st.query_params[key]
    else:
        st.query_params[key] = written
    st.rerun()
