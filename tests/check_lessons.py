"""Train what the lessons ask about, and print the answers: `python -m tests.check_lessons [ID …]`.

A teacher reads them beside the lesson; whoever changes a lesson sees whether its words still fit
what is measured.
"""

import argparse
import sys

from playground.classroom import lessons, worksheet
from playground.runs.pool import Runs
from playground.ui.page_list import PAGES
from tests.check_scenarios import measured


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--step", type=int, help="this one alone")
    options = parser.parse_args(arguments)
    known = lessons.shipped(frozenset(PAGES))
    if strange := [name for name in options.ids if name not in known]:
        parser.error(f"{strange[0]}: choose of {', '.join(known)}")
    runs = Runs()
    try:
        for lesson in (known[name] for name in options.ids or known):
            found = {
                number: measured(one, runs)
                for number, one in lessons.experiments(lesson).items()
                if options.step in (None, number + 1)
            }
            said = list(lessons.answers(lesson, found))
            print(worksheet.as_markdown(lesson, [""] * len(said), said), flush=True)
    finally:
        runs.close()


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    sys.exit(main())
