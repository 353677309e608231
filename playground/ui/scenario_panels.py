"""A scenario's runs, what came of them and why: on the page of scenarios, and before a class."""

from dataclasses import replace

import streamlit as st

from playground.experiments.comparison import Comparison
from playground.experiments.scenarios import MEASURES, Outcome, Results, Scenario
from playground.experiments.series import any_live
from playground.experiments.verdict import verdicts
from playground.runs.controller import Controller
from playground.runs.spec import Spec, changes_text, counted
from playground.ui import compare_panels, controls
from playground.ui.compare_panels import Seen

REFERENCES = {"chance": "best guess without reading the input", "floor": "no model can be below"}


def look(scenario: Scenario, compared: Comparison) -> Seen:
    """The runs of a scenario as they are now."""
    series = compared.series_of(scenario.setup)
    return scenario.named(series) if series else ()


def over(seen: Seen) -> bool:
    """Whether every run has ended, its last picture included."""
    ended = all(view.status.over for line in seen for view in line.views)
    return bool(seen) and ended and not any_live(seen)


def finished(seen: Seen) -> bool:
    """Whether every run came to an end of its own."""
    return over(seen) and all(view.status.conclusive for line in seen for view in line.views)


def what_runs(scenario: Scenario) -> None:
    """The knobs of all runs, behind a button."""
    against = [f"**{name}** (`{v.label}`)" for name, v in scenario.variants]
    unusual = [change for change in scenario.base.unusual() if change[0] != "steps"]
    knobs = changes_text((("task", scenario.base.task.name), *unusual))
    with st.popover("What runs", icon=":material/info:", type="tertiary"):
        st.markdown(
            f"**{scenario.name}** against {', '.join(against)}. Everything else is the same: "
            f"{knobs}, the rest at the defaults."
        )


def how_much(scenario: Scenario, started: bool, controller: Controller) -> str:
    """How long the runs are, and before they begin how long that will take."""
    steps, seeds = scenario.base.training.steps, scenario.seeds
    took = "" if started else f", {compare_panels.estimated(to_train(scenario), controller)}"
    return f"{steps} steps, {counted(seeds, 'seed')} each{took}."


def to_train(scenario: Scenario) -> list[Spec]:
    """All runs, as long as they will last: some are known to break down early."""
    return [
        replace(spec, training=replace(spec.training, steps=scenario.early.get(name, steps)))
        for name, spec in zip(scenario.names, scenario.setup.specs, strict=True)
        for steps in [spec.training.steps] * scenario.seeds
    ]


def reveal(scenario: Scenario, series: Seen, results: Results, happened: Outcome) -> None:
    """The numbers, the reason, and the ways on."""
    with st.container(border=True, key="outcome"):
        st.dataframe(table(scenario, results), hide_index=True, width="stretch", key="measured")
        st.html(compare_panels.outcome(series, verdicts(series), len(series) - 1))
    with st.container(border=True, key="why"):
        st.markdown(f"**Why.** {scenario.explained(results)}")
        if happened.name != scenario.expected:
            st.caption(
                "This time the outcome is not the one explained here. Other seeds, or another "
                "machine, can cause that: look at the numbers."
            )
    take_further(scenario)


def table(scenario: Scenario, results: Results) -> list[dict[str, str]]:
    """A row for each run: the measures that this scenario is about, over its seeds."""
    rows = {name: results[name] for name in scenario.names}
    for name, numbers in scenario.references.items():
        if any(numbers["loss"]):  # a floor of 0 tells nothing
            rows[REFERENCES[name]] = numbers
    shown = {key: MEASURES[key] for key in ("loss", *scenario.shown)}
    return [
        {"": name}
        | {m.title: m.range(numbers[key]) if key in numbers else "" for key, m in shown.items()}
        for name, numbers in rows.items()
    ]


def take_further(scenario: Scenario) -> None:
    with st.container(horizontal=True, key="take_further"):
        st.button(
            "Open in the Playground",
            key="to_playground",
            icon=":material/play_circle:",
            on_click=controls.take_to,
            args=("playground", scenario.base),
            help="Set the knobs to the base of this scenario.",
        )
        st.button(
            "Open in Compare",
            key="to_compare",
            icon=":material/compare_arrows:",
            on_click=compare_panels.take_to_compare,
            args=(scenario.base, scenario.link, scenario.seeds),
            help="Set the knobs to the base and the variants to these.",
        )
