"""Train the scenarios and tell whether what they state appears: `python -m tests.check_scenarios`.

    --only ID [ID ...]   these alone
    --seeds N            other than a scenario says
    --file FILE          another file than the playground's own

The exit status is the number of scenarios whose expected outcome did not come.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from playground.experiments.comparison import Comparison
from playground.experiments.scenarios import (
    FILE,
    MEASURES,
    Outcome,
    Results,
    Scenario,
    load,
    measure,
)
from playground.runs.pool import Runs


class Check(NamedTuple):
    """What came of one scenario."""

    outcome: Outcome
    results: Results
    seconds: float


def check(scenario: Scenario, runs: Runs) -> Check:
    """Train a scenario as its page does, and tell what happened."""
    start = time.perf_counter()
    results = measured(scenario, runs)
    return Check(scenario.outcome(results), results, time.perf_counter() - start)


def measured(scenario: Scenario, runs: Runs) -> Results:
    """Train its runs, wait for the end, and read them off."""
    compared = Comparison("check", runs)
    compared.start(scenario.setup, scenario.seeds)
    while compared.live:
        time.sleep(0.1)
    results = measure(scenario, compared.series())
    compared.discard()
    return results


def lines(scenario: Scenario, found: Check) -> list[str]:
    """A row for the scenario, and one for each of its runs."""
    holds = found.outcome.name == scenario.expected
    rest = "" if holds else f", expected {scenario.expected}"
    head = f"{'holds' if holds else 'FAILS'}  {scenario.id}: {found.outcome.name}{rest}"
    rows = [f"{head}  ({scenario.seeds} seeds, {found.seconds:.0f} s)"]
    keys = list(dict.fromkeys(("loss", *scenario.shown)))
    for name, numbers in found.results.items():
        said = (
            f"{MEASURES[k].title} {MEASURES[k].range(numbers[k])}" for k in keys if k in numbers
        )
        rows.append(f"         {name}: {'; '.join(said)}")
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="ID")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args(arguments)
    known = load(options.file)
    if strange := [name for name in options.only or () if name not in known]:
        parser.error(f"{strange[0]}: choose of {', '.join(known)}")
    runs, failed = Runs(), 0
    try:
        for name in options.only or known:
            scenario = known[name]
            if options.seeds:
                scenario = replace(scenario, seeds=options.seeds)
            found = check(scenario, runs)
            failed += found.outcome.name != scenario.expected
            print("\n".join(lines(scenario, found)), flush=True)
    finally:
        runs.close()
    return failed


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    sys.exit(main())
