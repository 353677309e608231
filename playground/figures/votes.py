"""What a class has voted for: a bar for each answer, as HTML as wide as a phone or a wall."""

from collections.abc import Sequence
from html import escape

from playground.figures.style import RIGHT_MARK


def vote_bars(
    answers: Sequence[str],
    counts: Sequence[int] | None,
    happened: int | None = None,
    mine: int | None = None,
) -> str:
    """A row for each answer: its text, and below it a bar with its votes.

    Args:
        counts: votes for each; None: they are not shown, and there are no bars.
        happened: number of the answer that came true, which is marked.
        mine: number of the answer that this browser has chosen, which is named.
    """
    total = max(sum(counts), 1) if counts is not None else 1
    rows = []
    for i, answer in enumerate(answers):
        signs = [f"{RIGHT_MARK} this happened"] * (i == happened) + ["your vote"] * (i == mine)
        said = "".join(f" <mark>{sign}</mark>" for sign in signs)
        bar = ""
        if counts is not None:
            bar = (
                f'<div class="bar"><i style="width: {100 * counts[i] / total:.1f}%"></i>'
                f"<b>{counts[i]}</b></div>"
            )
        true = " data-happened" if i == happened else ""
        rows.append(
            f'<div data-answer="{i}"{true}><div class="answer">{escape(answer)}{said}</div>{bar}'
            "</div>"
        )
    return f'<div class="votes">{"".join(rows)}</div>'


def tally(counts: Sequence[int], happened: int) -> str:
    """How many were right, in a sentence: `12 of 23 votes were right.`"""
    right, total = counts[happened], sum(counts)
    if not total:
        return "Nobody voted."
    if total == 1:
        return "The only vote was right." if right else "The only vote was wrong."
    return f"{right} of {total} votes {'was' if right == 1 else 'were'} right."
