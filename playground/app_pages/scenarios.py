"""Scenarios: a question, a prediction, the runs, and only then the reason."""

from dataclasses import dataclass
from functools import partial

import streamlit as st

from playground.experiments import scenarios
from playground.experiments.comparison import Comparison
from playground.experiments.scenarios import Outcome, Scenario
from playground.experiments.series import any_live
from playground.experiments.variants import caution
from playground.ui import compare_panels, play_buttons
from playground.ui.compare_panels import Seen
from playground.ui.knob import settle, settled
from playground.ui.literal import literal
from playground.ui.notes import forget
from playground.ui.page_head import head
from playground.ui.scenario_panels import finished, how_much, look, over, reveal, what_runs
from playground.ui.session import controller as my_controller
from playground.ui.session import start_runs

COLUMNS = 3  # of cards


@dataclass
class Attempt:
    """What the page keeps of a visitor's prediction; not under the keys of widgets."""

    skipped: bool = False
    expected: Outcome | None = None  # as it was when the runs began
    mark: str = ""  # whether it was right


def attempt(name: str) -> Attempt:
    """What the page keeps of one scenario."""
    return st.session_state.setdefault("attempts", {}).setdefault(name, Attempt())


def of_link(text: str) -> str:
    """The scenario that a link means, by its name in the file or by its title.

    Raises:
        ValueError: there is no such scenario.
    """
    names = {scenario.title: name for name, scenario in found.items()}
    if text not in found and text not in names:
        raise ValueError(f"choose one of {', '.join(found)}")
    return names.get(text, text)


def title(name: str) -> str:
    """What a scenario is called wherever a person reads."""
    return found[name].title


# --- the gallery ----------------------------------------------------------------------------


def choose(name: str | None) -> None:
    forget("scenario")
    st.session_state.scenario = name


def gallery(found: dict[str, Scenario]) -> None:
    st.markdown(
        "Each scenario asks one question. Predict the answer first, then train and see: a wrong "
        "prediction teaches more than a right answer you only read."
    )
    names = list(found)
    for start in range(0, len(names), COLUMNS):
        for column, name in zip(st.columns(COLUMNS), names[start : start + COLUMNS], strict=False):
            with column.container(border=True, height="stretch", key=f"card_{name}"):
                st.markdown(f"#### {found[name].title}")
                st.markdown(found[name].question)
                st.space("stretch")
                with st.container(horizontal=True, vertical_alignment="center"):
                    st.button("Open", key=f"open_{name}", on_click=choose, args=(name,))
                    st.caption(attempt(name).mark)


# --- one scenario ---------------------------------------------------------------------------


def describe(scenario: Scenario) -> None:
    st.markdown(f"#### {scenario.question}")
    left, right = st.columns(2, gap="medium")
    left.markdown(f"**What changes.** {scenario.change}")
    right.markdown(f"**What to watch.** {scenario.watch}")
    if several := [name for name, v in scenario.variants if caution(v.changes)]:
        st.caption(f"More than one thing differs from the base in: {', '.join(several)}.")


def predict(scenario: Scenario, started: bool) -> Outcome | None:
    """What the visitor expects; fixed once the runs have begun."""
    if started:
        return attempt(scenario.id).expected
    says = {outcome.name: outcome.say for outcome in scenario.outcomes}
    chosen = st.radio(
        "What will happen?",
        list(says),
        index=None,
        key=f"expect_{scenario.id}",
        format_func=says.get,
        help="Commit to an answer before anything moves; it is not recorded.",
    )
    return next((outcome for outcome in scenario.outcomes if outcome.name == chosen), None)


def skip(scenario: Scenario) -> None:
    attempt(scenario.id).skipped = True
    st.session_state[f"expect_{scenario.id}"] = None


def play(scenario: Scenario, expected: Outcome | None) -> None:
    start_runs(compared, scenario.setup, scenario.seeds)
    attempt(scenario.id).expected = expected


def reset(scenario: Scenario) -> None:
    compared.discard()
    st.session_state.attempts.pop(scenario.id, None)
    st.session_state[f"expect_{scenario.id}"] = None


def buttons(scenario: Scenario, expected: Outcome | None, seen: Seen) -> None:
    free = seen or expected is not None or attempt(scenario.id).skipped
    with st.container(horizontal=True, vertical_alignment="center", key="scenario_transport"):
        if not over(seen):
            play_buttons.play_or_pause(
                any_live(seen),
                compared.play if seen else lambda: play(scenario, expected),
                compared.pause,
                why_not=None if free else "Predict first.",
            )
        if seen:
            play_buttons.reset_button(lambda: reset(scenario))
        elif not free:
            st.button(
                "Skip the prediction",
                key="skip",
                type="tertiary",
                on_click=skip,
                args=(scenario,),
                help="Play without predicting.",
            )
        what_runs(scenario)
        st.caption(how_much(scenario, bool(seen), controller), width="content")
    play_buttons.say_refusal()


# --- what comes out -------------------------------------------------------------------------


def answer(scenario: Scenario, seen: Seen, happened: Outcome | None) -> None:
    """What was predicted and what was measured: two lines in the same place from Play on."""
    made = attempt(scenario.id)
    with st.container(key="answer"):
        if happened is not None:
            say_outcome(made, happened)
        elif over(seen):
            why = {view.message for line in seen for view in line.views if view.message}
            st.error(f"Not all runs finished, so there is no conclusion. {literal(' '.join(why))}")
        else:
            predicted = f"You predict: **{made.expected.say}**  \n" if made.expected else ""
            st.markdown(f"{predicted}Measured: the runs are not over yet.")


def say_outcome(made: Attempt, happened: Outcome) -> None:
    """`You predicted …; measured: …`, and a mark on the scenario's card."""
    predicted, made.mark = "", "seen"
    if expected := made.expected:
        right = expected == happened
        icon = ":green[:material/check_circle:]" if right else ":orange[:material/cancel:]"
        made.mark = f"{icon} {'as you predicted' if right else 'not as you predicted'}"
        predicted = f"{icon} You predicted: **{expected.say}**  \n"
    st.markdown(f"{predicted}Measured: **{happened.say}**")


controller, found = my_controller(), scenarios.load()
compared: Comparison = st.session_state.setdefault("scenario_runs", Comparison(controller.owner))
settle("scenario", lambda texts: settled("scenario", texts, of_link, title))
with head().container(horizontal=True, vertical_alignment="bottom"):
    name = st.selectbox(
        "Scenario",
        list(found),
        index=None,
        placeholder="all scenarios",
        key="scenario",
        format_func=title,
        bind="query-params",
        width=320,
        on_change=forget,
        args=("scenario",),
        label_visibility="collapsed",
    )
    if name is not None:
        st.button("All scenarios", key="all", icon=":material/apps:", on_click=choose, args=(None,))
if name is None:
    gallery(found)
    st.stop()

scenario = found[name]
seen = look(scenario, compared)
describe(scenario)
expected = predict(scenario, started=bool(seen))
buttons(scenario, expected, seen)
results = scenarios.measure(scenario, seen) if finished(seen) else None
happened = scenario.outcome(results) if results is not None else None
if seen:
    answer(scenario, seen, happened)
    compare_panels.draw_runs(partial(look, scenario, compared), seen)
if results is not None:
    reveal(scenario, seen, results, happened)
