"""The board of a class: its picture, its lists, and what is known of one configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from playground.classroom import board
from playground.classroom.board import Spot
from playground.classroom.database import Point
from playground.figures.board import Dot, board_chart, place
from playground.figures.style import escape
from playground.runs.spec import Spec, counted, loss_text
from playground.ui import controls
from playground.ui.components import live_plot
from playground.ui.components.live_plot import Click
from playground.ui.link import EVERY
from playground.ui.literal import literal
from playground.ui.page_head import tall

LOOK = 2.0  # seconds between two looks
MEASURES = ("loss", "loss (log)", "accuracy")
ONE_COLOUR = "–"
MOST_COLOURS = 8
Look = Callable[[], tuple[Spec | None, tuple[Point, ...]]]


@st.fragment(run_every=LOOK)
def draw(look: Look) -> None:
    """All of it, looked at again and again.

    Args:
        look: the teacher's set-up, and the points.
    """
    setup, points = look()
    found = board.spots(points)
    if not found:
        st.info("Nothing yet: each finished run of a student in the Playground appears here.")
        return
    found = of_one_ground(found)
    x, measure, colour = switches(found)
    picture = Picture.of(found, setup, x, measure, colour)
    live_plot(
        picture.figure(chosen(found)), key="class_board", name="board", on_click=picture.clicked
    )
    runs = counted(sum(len(spot.points) for spot in found), "run")
    st.caption(
        f"{runs} of {counted(len(found), 'configuration')}. Seeds of one configuration are one "
        "dot, at their mean; its bar reaches from the lowest to the highest. Click one."
    )
    details(found, setup)
    lists(found, setup)


def of_one_ground(found: Sequence[Spot]) -> list[Spot]:
    """Those whose losses can be held against each other: of several such groups, the chosen one."""
    grounds: dict[str, list[Spot]] = {}
    for spot in found:
        grounds.setdefault(board.ground_text(spot), []).append(spot)
    if len(grounds) == 1:
        return list(found)
    name = st.selectbox(
        "What is learnt",
        list(grounds),
        key="board_ground",
        help="Losses of different tasks cannot be compared.",
    )
    return grounds.get(name, list(found))


def switches(found: Sequence[Spot]) -> tuple[str, str, str]:
    """Knob of the horizontal axis, measure of the vertical one, and knob of the colour."""
    varied = board.turned(found)
    first, second = (*varied, "n_layers", ONE_COLOUR)[0], (*varied[1:], ONE_COLOUR)[0]
    knobs = list(board.CHOICES)
    st.session_state.setdefault("board_x", first)
    st.session_state.setdefault("board_colour", second)
    with st.container(horizontal=True, vertical_alignment="bottom", key="board_switches"):
        x = st.selectbox("Across", knobs, key="board_x", format_func=knob_title, width=230)
        measure = st.segmented_control(
            "Up", MEASURES, default=MEASURES[0], key="board_y", required=True
        )
        colour = st.selectbox(
            "Colour", [ONE_COLOUR, *knobs], key="board_colour", format_func=knob_title, width=230
        )
    return x, measure, colour


def knob_title(name: str) -> str:
    return EVERY[name].title if name in EVERY else "all the same"


def values_of(found: Sequence[Spot], knob: str) -> list[str]:
    """All values that a knob has here, in words, in its own order."""
    seen = {spot.value(knob): spot.ended.value(knob) for spot in found}
    listed = EVERY[knob].choices if knob in EVERY else ()
    order = {value: i for i, value in enumerate(listed)} if not isinstance(listed, range) else {}

    def place_of(word: str) -> tuple:
        value = seen[word]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return (1, value, word)
        return (0, order.get(value, -1), word)

    return sorted(seen, key=place_of)


@dataclass(frozen=True)
class Picture:
    """The dots of the board, and what each stands for."""

    spots: Sequence[Spot]
    dots: tuple[Dot, ...]
    x_values: list[str]
    colours: list[str]
    x: str
    measure: str
    colour: str

    @classmethod
    def of(
        cls, found: Sequence[Spot], setup: Spec | None, x: str, measure: str, colour: str
    ) -> "Picture":
        x_values = values_of(found, x)
        colours = values_of(found, colour) if colour != ONE_COLOUR else [""]
        if len(colours) > MOST_COLOURS:
            colours = [*colours[: MOST_COLOURS - 1], "other values"]
        dots = []
        for spot in found:
            numbers = spot.accuracies if measure == "accuracy" else spot.losses
            numbers = [max(n, 1e-6) for n in numbers] if measure == "loss (log)" else numbers
            name = spot.value(colour) if colour != ONE_COLOUR else ""
            dots.append(
                Dot(
                    x_values.index(spot.value(x)),
                    colours.index(name) if name in colours else len(colours) - 1,
                    sum(numbers) / len(numbers) if numbers else None,
                    min(numbers, default=0.0),
                    max(numbers, default=0.0),
                    escape(f"{spot.difference(setup)}: {said(spot)} ({spot.names})"),
                )
            )
        return cls(found, tuple(dots), x_values, colours, x, measure, colour)

    def figure(self, ring: Spot | None) -> dict:
        coloured = self.colour != ONE_COLOUR
        return board_chart(
            self.dots,
            self.x_values,
            self.colours,
            x_title=self.x,
            y_title="accuracy" if self.measure == "accuracy" else "final loss (nats)",
            colour_title=self.colour if coloured else "",
            log=self.measure == "loss (log)",
            chosen=self.spots.index(ring) if ring in self.spots else None,
            size=tall(400, 430),
        )

    def clicked(self, click: Click) -> None:
        """Choose the configuration whose dot this is."""
        mine = [i for i, dot in enumerate(self.dots) if dot.colour == click.trace]

        def distance(i: int) -> tuple[float, float]:
            dot, across = self.dots[i], abs(place(self.dots[i], len(self.colours)) - click.x)
            return across, 0.0 if dot.y is None else abs(dot.y - click.y)

        if mine:
            choose(self.spots[min(mine, key=distance)])


def choose(spot: Spot) -> None:
    st.session_state.board_chosen = spot.points[0].id


def chosen(found: Sequence[Spot]) -> Spot | None:
    """The configuration that was clicked, while it is on the board."""
    id = st.session_state.get("board_chosen")
    return next((spot for spot in found if id in {point.id for point in spot.points}), None)


def said(spot: Spot) -> str:
    """What came of it, in a few words: `loss 0.004, accuracy 99%, 2 runs`."""
    if spot.loss is None:
        return f"diverged ({counted(len(spot.points), 'run')})"
    parts = [f"loss {loss_text(spot.loss)}"]
    if spot.accuracies:
        parts.append(f"accuracy {sum(spot.accuracies) / len(spot.accuracies):.0%}")
    parts.append(counted(len(spot.points), "run"))
    if spot.diverged:
        parts.append(f"{spot.diverged} diverged")
    return ", ".join(parts)


def details(found: Sequence[Spot], setup: Spec | None) -> None:
    """The chosen configuration: how it differs, and a way to it."""
    spot = chosen(found)
    if spot is None:
        return
    against = "the defaults" if setup is None else "the teacher's set-up"
    with st.container(border=True, key="board_details"):
        st.markdown(
            f"**Against {against}:** {literal(spot.difference(setup))}  \n"
            f"{said(spot)}. By {literal(spot.names)}."
        )
        if st.button(
            "Open in the Playground",
            key="board_open",
            icon=":material/play_circle:",
            on_click=controls.take_to,
            args=("playground", spot.began),
            help="Set every knob as it was when the run began: Play gives the same curve.",
        ):
            st.rerun()


def lists(found: Sequence[Spot], setup: Spec | None) -> None:
    """The best, the most surprising, and those that diverged."""
    columns = st.columns(3, gap="medium")
    with columns[0]:
        st.markdown("##### Best")
        for i, spot in enumerate(board.best(found)):
            entry(f"best_{i}", spot, setup, f"loss {loss_text(spot.loss)}")
    with columns[1]:
        st.markdown("##### Most surprising")
        surprises = board.surprising(found)
        for i, one in enumerate(surprises):
            side = "above" if one.gap > 0 else "below"
            entry(
                f"surprising_{i}",
                one.spot,
                setup,
                f"{loss_text(abs(one.gap))} nats {side} the mean of the {one.others} that differ "
                f"in {one.knob} alone",
            )
        if not surprises:
            st.caption(
                f"This takes {board.LEAST} configurations that differ from each other in one knob "
                "alone."
            )
    with columns[2]:
        st.markdown("##### Diverged")
        gone = board.diverged(found)
        for i, spot in enumerate(gone[:3]):
            entry(
                f"diverged_{i}",
                spot,
                setup,
                f"{spot.diverged} of {counted(len(spot.points), 'run')}",
            )
        if not gone:
            st.caption("None so far.")


def entry(key: str, spot: Spot, setup: Spec | None, what: str) -> None:
    with st.container(gap=None):
        st.button(
            literal(spot.difference(setup)),
            key=f"board_{key}",
            type="tertiary",
            on_click=choose,
            args=(spot,),
        )
        st.caption(f"{what}. {literal(spot.names)}")
