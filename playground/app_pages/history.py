"""History: earlier runs in a table; over each other, on the Playground, in the knobs."""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import streamlit as st

from playground.export.files import cell
from playground.figures import Band, attention_maps, attention_side_by_side, comparison_chart
from playground.history.database import MAX_ENTRIES, Entry
from playground.history.file import FileUnavailable
from playground.history.names import specs_of, tell_apart
from playground.history.recorder import RECORDER, SETTING, WORTH_KEEPING
from playground.runs.controller import Ghost
from playground.runs.snapshot import Frame
from playground.runs.spec import Spec, counted
from playground.runs.view import View
from playground.ui import download_panel, own_text
from playground.ui.compare_panels import layers_in_common
from playground.ui.components import live_plot
from playground.ui.literal import literal
from playground.ui.maps_panel import IN_WORDS
from playground.ui.page_head import head, tall
from playground.ui.page_list import INSTRUMENTS
from playground.ui.run_panels import log_switch, references, say_apart
from playground.ui.session import controller as my_controller
from playground.ui.session import for_visitor, history_owner, how_long

MINE = "the Playground's run"
MOST_NAMED = 5  # entries that cannot be read
MOST_SHOWN = 6  # curves and maps beside each other
SMALL_CURVE = 40  # points
IN_SHORT = {"done": "finished", "stopped": "stopped", "diverged": "diverged", "failed": "failed"}


# --- the table ------------------------------------------------------------------------------


def table(entries: tuple[Entry, ...]) -> list[Entry]:
    """Draw a table of all runs; the selected ones."""
    chosen = st.session_state.get("chosen_runs", ())
    selected = [i for i, entry in enumerate(entries) if entry.id in chosen]
    # A selection is of row numbers: with other runs in the table it is another widget.
    key = f"runs_{hash(tuple(entry.id for entry in entries)) & 0xFFFFFFFF:x}"
    event = st.dataframe(
        pd.DataFrame([row(entry) for entry in entries]),
        hide_index=True,
        key=key,
        width="stretch",
        height=min(35 * (len(entries) + 1) + 3, 390),
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": selected}},
        column_config={
            "when": st.column_config.DatetimeColumn(format="D MMM, HH:mm", width=110),
            "what changed": st.column_config.TextColumn(width=260),
            "compared": st.column_config.TextColumn(
                width=150, help="The variants that ran in one comparison with this run."
            ),
            "steps": st.column_config.NumberColumn(width=70),
            "final loss": st.column_config.NumberColumn(
                format="%.3f",
                width=90,
                help="Mean of the last 20 training losses, or of those since a knob was turned, in "
                "nats.",
            ),
            "accuracy": st.column_config.NumberColumn(
                format="%.1f%%", width=90, help="On the validation examples, at the end."
            ),
            "ended": st.column_config.TextColumn(width=80),
            "loss": st.column_config.LineChartColumn(
                y_min=0, width=160, help="Training loss from the first step to the last."
            ),
        },
    )
    found = [entries[i] for i in event.selection.rows if i < len(entries)]
    st.session_state.chosen_runs = tuple(entry.id for entry in found)
    return found


def row(entry: Entry) -> dict[str, Any]:
    result = entry.result
    return {
        "when": datetime.fromtimestamp(entry.created, zone()).replace(tzinfo=None),
        "what changed": cell(entry.label),
        "compared": cell(entry.spec.get("label", "")),
        "task": entry.spec["task"]["task"],
        "steps": result.steps,
        "final loss": result.final_loss,
        "accuracy": None if result.accuracy is None else 100 * result.accuracy,
        "ended": IN_SHORT[result.status],
        "loss": small_curve(entry.view.loss),
    }


def zone() -> tzinfo:
    """The visitor's time zone, as their browser names it."""
    try:
        return ZoneInfo(st.context.timezone)
    except (KeyError, ValueError, TypeError, OSError):  # a name that is not known here
        return UTC


def small_curve(loss: np.ndarray) -> list[float]:
    loss = loss[np.isfinite(loss)]
    shown = np.linspace(0, max(len(loss) - 1, 0), min(len(loss), SMALL_CURVE)).astype(int)
    return loss[shown].tolist()


# --- what can be done with the chosen ones ----------------------------------------------------


def attempt(action: Callable[..., str | None], *args: Any) -> None:
    """Do what a button says; if it cannot be done, the page says why."""
    st.session_state.history_refused = None
    try:
        if done := action(*args):
            st.toast(literal(done))
    except FileUnavailable as error:
        st.session_state.history_refused = for_visitor(str(error))
    except ValueError as error:
        st.session_state.history_refused = download_panel.with_hint(error)


def show_in_playground(chosen: list[Entry]) -> None:
    controller.show([Ghost(entry.label, entry.view) for entry in chosen])


def load(entry: Entry) -> str:
    spec = Spec.from_dict(entry.spec, own_text.in_use())
    download_panel.into_knobs(controller, spec)
    return f"The knobs are set as in “{entry.label}”." + download_panel.not_replayed(
        entry.view.changes
    )


def rename(entry: Entry, key: str) -> None:
    RECORDER.history.rename(owner, entry.id, st.session_state[key])


def delete(chosen: list[Entry]) -> str:
    for entry in chosen:
        RECORDER.history.delete(owner, entry.id)
    st.session_state.chosen_runs = ()
    return f"Deleted: {counted(len(chosen), 'run')}."


def delete_damaged() -> str:
    return f"Deleted: {counted(RECORDER.history.delete_damaged(owner), 'run')}."


def say_damaged(damaged: tuple[str, ...]) -> None:
    """Which runs are left out since they cannot be read, and a way to get rid of them."""
    more = f" and {len(damaged) - MOST_NAMED} more" if len(damaged) > MOST_NAMED else ""
    st.warning(literal(f"Left out of the list: {'; '.join(damaged[:MOST_NAMED])}{more}."))
    st.button(
        f"Delete {counted(len(damaged), 'run')} that cannot be read",
        key="delete_damaged",
        icon=":material/delete:",
        on_click=attempt,
        args=(delete_damaged,),
    )


def say_refused() -> bool:
    """Why the last action could not be done; whether it could not."""
    refused = st.session_state.get("history_refused")
    if refused:
        st.error(literal(refused))
    return bool(refused)


def actions(chosen: list[Entry]) -> None:
    one = chosen[0] if len(chosen) == 1 else None
    go = False
    with st.container(horizontal=True, vertical_alignment="bottom", key="history_actions"):
        go |= st.button(
            "Show in the Playground",
            key="show_in_playground",
            icon=":material/layers:",
            on_click=attempt,
            args=(show_in_playground, chosen[:MOST_SHOWN]),
            help="Their curves appear faintly behind your next run, until you hide them there.",
        )
        go |= st.button(
            "Load into the knobs",
            key="to_knobs",
            icon=":material/tune:",
            disabled=one is None,
            on_click=attempt,
            args=(load, one),
            help="Set every knob as it was in this run: press Play to get the same curve.",
        )
        with st.popover("Delete", icon=":material/delete:"):
            st.write(f"Delete {counted(len(chosen), 'run')}? This cannot be undone.")
            st.button(
                f"Delete {counted(len(chosen), 'run')}",
                key="delete_runs",
                type="primary",
                on_click=attempt,
                args=(delete, chosen),
            )
        key = f"name_{one.id if one else 'of_none'}"
        st.text_input(
            "Name",
            one.label if one else "",
            key=key,
            disabled=one is None,
            on_change=attempt,
            args=(rename, one, key),
            placeholder="Select one run to rename it",
            help="A new name for this run, at most 120 characters.",
        )
    if not say_refused() and go:
        st.switch_page(INSTRUMENTS["playground"].file, query_params={})  # the knobs write theirs


# --- pictures -------------------------------------------------------------------------------


def curves(chosen: list[Entry], names: dict[int, str], shared: str, specs: dict[int, Spec]) -> None:
    with st.container(horizontal=True, key="history_switches"):
        log = log_switch()
        view = controller.view
        with_mine = (
            view is not None
            and len(view.loss)
            and st.toggle(
                "With the Playground's curve",
                key="with_mine",
                help="The run that is on the Playground now.",
            )
        )
    bands = [
        one_curve(names[entry.id], entry.view, i)
        for i, entry in enumerate(chosen, 1)  # the colours that they have in the Playground
    ]
    if with_mine:
        bands.append(one_curve(MINE, view, 0))
    tasks = {repr(sorted(entry.spec["task"].items(), key=str)) for entry in chosen}
    if len(tasks) > 1:
        st.caption("These runs learn different tasks: their losses cannot be compared directly.")
    if shared:
        st.caption(literal(f"All of them: {shared}; what is not named is at its default."))
    ended = {}  # as they were in the end
    if len(specs) == len(chosen):  # otherwise nothing is known of one
        ended = {names[e.id]: specs[e.id].replayed(e.view.changes) for e in chosen}
        if with_mine:
            ended[MINE] = view.spec
    say_apart(ended)
    figure = comparison_chart(
        bands,
        log=log,
        width=600,
        size=tall(430),
        **references(*ended.values()),
    )
    live_plot(figure, key="history_curves", name="history")


def one_curve(label: str, view: View, colour: int) -> Band:
    """A run as the comparison chart takes it: a band of one seed."""
    losses = [view.loss.tolist()] * 3
    return Band(label, view.steps.tolist(), *losses, colour_index=colour, marks=view.marks)


def pictures(chosen: list[Entry], names: dict[int, str]) -> None:
    """The attention that the chosen runs ended with."""
    found = {names[entry.id]: picture_of(entry) for entry in chosen}
    found = {label: picture for label, picture in found.items() if picture is not None}
    layers = layers_in_common(list(found.values()))
    if not layers:
        st.caption(
            "No attention maps were kept for these runs."
            if not found
            else "The maps of these runs show different examples: select one run to see its maps."
        )
        return
    with st.container(horizontal=True, key="picture_switches"):
        layer = st.selectbox("Block", list(layers), key="history_layer", width=130)
        shown = layers[layer]
        heads = min(len(attention.entropy) for attention in shown)
        head = 1
        if len(shown) > 1:
            head = st.selectbox("Head", list(range(1, heads + 1)), key="history_head", width=90)
    first = shown[0]
    common = {"stage": "weights", "size": tall(430)}
    if len(shown) == 1:
        figure = attention_maps(
            first.stages["weights"],
            first.query_tokens,
            first.key_tokens,
            hidden=first.hidden,
            width=520,
            **common,
        )
    else:
        figure = attention_side_by_side(
            [attention.stages["weights"][head - 1] for attention in shown],
            [f"{label}, step {picture.step}" for label, picture in found.items()],
            first.query_tokens,
            first.key_tokens,
            hidden=[attention.hidden for attention in shown],
            width=1000,
            **common,
        )
    live_plot(figure, key="history_attention", name="history attention")
    steps = ", ".join(sorted({str(picture.step) for picture in found.values()}))
    st.caption(f"{layer} as the run ended, at step {steps}. {IN_WORDS['weights']}")


def picture_of(entry: Entry) -> Frame | None:
    if not entry.has_picture:
        return None
    try:
        return RECORDER.history.picture(owner, entry.id)
    except ValueError as error:
        st.caption(literal(f"{error}."))
        return None


# --- the page -------------------------------------------------------------------------------


def page() -> None:
    RECORDER.flush()
    try:
        entries, damaged = RECORDER.history.read(owner)
    except FileUnavailable as error:
        st.warning(literal(f"{for_visitor(str(error))}. Everything else works without it."))
        return
    if notice := RECORDER.history.notice:
        st.warning(literal(for_visitor(notice)))
    if damaged:
        say_damaged(damaged)
    if RECORDER.problem:
        st.warning(literal(f"The last run could not be kept: {for_visitor(RECORDER.problem)}."))
    if not entries:
        say_refused()
        st.info(f"Nothing yet: a run of at least {WORTH_KEEPING} steps appears here when it ends.")
        return
    chosen = table(entries)
    if not chosen:
        say_refused()
        st.caption("Select runs at the left edge of the table to lay their curves over each other.")
        return
    actions(chosen)
    if len(chosen) > MOST_SHOWN:
        st.caption(f"Only the first {MOST_SHOWN} of the {len(chosen)} selected runs are drawn.")
    shown = chosen[:MOST_SHOWN]
    if len(shown) == 1:
        left, right = st.columns(2, gap="medium")
    else:
        left = right = st.container()
    specs = specs_of(shown, own_text.in_use())
    names, shared = tell_apart(shown, specs)
    with left:
        curves(shown, names, shared, specs)
    with right:
        pictures(shown, names)


controller, owner = my_controller(), history_owner()
head().header("History", anchor=False)
if owner is None:
    st.info(f"The history is switched off on this server ({SETTING}=off).")
    st.stop()
st.markdown(
    f"Your runs of at least {WORTH_KEEPING} steps, the newest {MAX_ENTRIES} of them, from all "
    f"pages. {how_long()}"
)
page()
