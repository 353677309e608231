"""A knob turned while it trains: every sentence on the page is true at every moment it can be read.

Between two looks, a tenth of a second apart, the page itself writes down what it says.
"""

import re
from itertools import pairwise

import pytest

from browser import pause, play
from playground.runs.view import LAST

pytestmark = pytest.mark.browser

CHANGED = ["residual", "scale", "mask"]
RECORD = """() => {
  window.seen = [];
  const line = (plot, test) => {
    const found = plot.data.find(test);
    return found ? [[...found.x], [...found.y]] : [[], []];
  };
  setInterval(() => {
    const plot = document.querySelector('.st-key-loss_chart .live-plot');
    const verdict = document.querySelector('[data-verdict]');
    const step = document.querySelector('[data-number=Step]');
    const loss = document.querySelector('[data-number="Training loss"]');
    if (!plot?.data || !verdict || !step || !loss) return;
    window.seen.push({
      kind: verdict.dataset.verdict,
      text: verdict.innerText,
      step: parseInt(step.innerText),
      loss: loss.innerText,
      smooth: line(plot, (t) => t.name === 'this run'),
      validation: line(plot, (t) => t.name === 'validation'),
      marks: plot.layout.shapes.filter((s) => s.x0 === s.x1).map((s) => s.x0),
    });
  }, 100);
}"""


def turn(tab, knob: str) -> int:
    """Turn a knob of the running model, and wait until some steps have been made since."""
    marks = "plot.layout.shapes.filter(s => s.x0 === s.x1).map(s => s.x0)"
    before = len(tab.plot("loss_chart", marks))
    tab.toggle(knob) if knob == "residual" else tab.select(knob, "none")
    tab.until(lambda: len(tab.plot("loss_chart", marks)) > before, f"{knob} leaves no mark")
    mark = tab.plot("loss_chart", marks)[-1]
    tab.until(lambda: tab.steps() > mark + 3 * LAST)
    return int(mark)


def test_what_the_page_says_after_a_change_is_true_at_every_moment(visit):
    tab = visit(steps=50_000, lr=0.002)
    tab.page.evaluate(RECORD)
    play(tab, 60)
    marks = [turn(tab, knob) for knob in CHANGED]
    pause(tab)
    curve, seen = tab.curve(), tab.page.evaluate("window.seen")

    def mean(begin: int, end: int) -> float:
        losses = [curve[step] for step in range(max(begin, end - LAST) + 1, end + 1)]
        return sum(losses) / len(losses)

    after = [frame for frame in seen if frame["marks"]]
    assert {mark for frame in after for mark in frame["marks"]} == set(marks)
    told = 0
    for frame in after:
        step, text = frame["step"], frame["text"]
        begin = max((mark for mark in marks if mark < step), default=0)
        assert float(frame["loss"]) == pytest.approx(mean(begin, step), abs=6e-4), text
        if found := re.search(
            r"of the (\d+) steps? since is (\d+\.\d+); before, it was (\d+\.\d+)", text
        ):
            told += 1
            mark = max(mark for mark in marks if mark < step)
            earlier = max((other for other in marks if other < mark), default=0)
            done = int(found[1])
            assert 0 < done < LAST
            assert float(found[2]) == pytest.approx(mean(mark, mark + done), abs=6e-3)
            assert float(found[3]) == pytest.approx(mean(earlier, mark), abs=6e-3)
        if "Learning" in text and step - begin >= 2 * LAST:
            assert mean(begin, step) < mean(begin, step - LAST) + 0.3, "the loss rises"
        for x, y in (frame["smooth"], frame["validation"]):
            for (a, b), (left, right) in zip(pairwise(x), pairwise(y), strict=True):
                joined = left is not None and right is not None
                assert not (joined and any(a < mark < b for mark in frame["marks"]))
    assert told, "nobody looked soon after a change"
    # Soon after a mark, the verdict is not of what was before it. It may be a moment newer than
    # the numbers beside it, but not newer than the next ones.
    for frame, following in pairwise(after):
        if any(0 < frame["step"] - mark <= following["step"] - mark < LAST for mark in marks):
            assert not re.match("Learning|Solved", frame["text"])
    last = after[-1]["validation"]
    for mark in marks:
        assert last[0].count(mark) >= 2, "measured just before and just after"
