"""What several seeds come to: bands, tables, and a verdict that says no more than they do."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tasks import TASKS
from playground.experiments.series import (
    Series,
    Spread,
    accuracy_at,
    averaged,
    common_step,
    frames_together,
    measured_together,
    steps_to,
    waiting,
)
from playground.experiments.verdict import (
    CLEAR,
    luck,
    luck_text,
    odds,
    one_side,
    seeds_to_be_clear,
    verdicts,
)
from playground.runs.snapshot import Frame
from playground.runs.spec import Spec
from playground.runs.view import Record, Status

BASE = Spec.of(TASKS["reverse"]())


def view(loss, status=Status.DONE, spec=BASE, influence=None):
    record = Record()
    for value in loss:
        record._steps.append(value, 1e-3, 1.0)
    if influence is not None:
        record.add_frame(Frame(len(loss), {}, [], len(loss), 0.5, 0.75, influence))
    return record.view(status=status, spec=spec, message="", queue_position=None, busy=False)


def flat(level, steps=30, status=Status.DONE, **rest):
    """A run whose loss falls to a level and stays there."""
    return view([3.0] * 5 + [level] * (steps - 5), status, **rest)


def series(*views, changes=(), first=0):
    spec = BASE.changed(changes)
    return Series("base", spec, tuple(range(first, first + len(views))), views)


NONE = (("scale", "none"),)


def judge(ours, theirs, changes=NONE):
    """The verdict on a single variant."""
    (found,) = verdicts([series(*ours), series(*theirs, changes=changes)]).each
    return replace(found, text=found.name + found.text)


# --- how often luck does it -------------------------------------------------------------------


@pytest.mark.parametrize("n_seeds", [2, 3, 4, 5])
@pytest.mark.parametrize("n_variants", [1, 2, 3, 4, 5])
def test_luck_does_it_as_often_as_is_said(n_variants, n_seeds):
    """No change has an effect, and every seed has its own level: draw, and count the claims."""
    draws, random = 4000, np.random.default_rng(10 * n_variants + n_seeds)
    level = 3 * random.standard_normal((draws, 1, n_seeds))
    losses = level + random.gumbel(size=(draws, 1 + n_variants, n_seeds))
    claims = sum(any(one_side(base, other) for other in others) for base, *others in losses)
    stated = float(luck(n_variants, n_seeds))
    assert claims / draws == pytest.approx(stated, abs=4 * math.sqrt(stated / draws))


@pytest.mark.parametrize("n_variants, n_seeds", [(1, 3), (2, 2), (3, 2)])
def test_luck_is_counted_order_by_order(n_variants, n_seeds):
    """The slow version: every order in which the losses of every seed can come."""
    from itertools import permutations

    orders = [np.array(order) for order in permutations(range(1 + n_variants))]
    found = [
        any(one_side(losses[:, 0], losses[:, i]) for i in range(1, 1 + n_variants))
        for losses in map(np.array, product(orders, repeat=n_seeds))
    ]
    assert luck(n_variants, n_seeds) == Fraction(sum(found), len(found))


def test_one_variant_is_a_coin_tossed_for_every_seed():
    assert [luck(1, n) for n in (1, 2, 3, 6)] == [
        1,
        Fraction(1, 2),
        Fraction(1, 4),
        Fraction(1, 32),
    ]
    assert luck_text(1, 3).count("1 time in 4") == 1


@pytest.mark.parametrize("n_variants", [1, 2, 3, 4, 5])
def test_the_number_of_seeds_that_would_help_does(n_variants):
    enough = seeds_to_be_clear(n_variants)
    assert luck(n_variants, enough) <= CLEAR < luck(n_variants, enough - 1)
    assert f"with {enough} seeds" in luck_text(n_variants, 2)
    assert "this proves little" not in luck_text(n_variants, enough)


def test_odds_are_written_as_they_are():
    said = {Fraction(1, 4): "1 time in 4", Fraction(5, 12): "42 times in 100"}
    said |= {Fraction(1, 100): "1 time in 100", Fraction(3, 100): "1 time in 33"}
    assert {chance: odds(chance) for chance in said} == said


# --- the verdicts -----------------------------------------------------------------------------


def test_a_clear_difference_is_said_with_its_size_and_its_seeds():
    found = judge([flat(0.1 + i / 100) for i in range(6)], [flat(2.15 + i / 50) for i in range(6)])
    assert found.kind == "clear"
    assert found.text == (
        "scale=none ends clearly above √d_k in 6 of 6 seeds, by 2.075 nats (2.050 to 2.100)"
    )
    found = judge([flat(2.0 + i / 100) for i in range(6)], [flat(0.5 + i / 100) for i in range(6)])
    assert found.text == "scale=none ends clearly below √d_k in 6 of 6 seeds, by 1.500 nats"


def test_few_seeds_that_agree_are_not_called_clear_and_the_number_of_variants_counts():
    ours, theirs = [flat(1.0)] * 6, [flat(2.0)] * 6
    assert judge(ours[:3], theirs[:3]).kind == "one side"
    one = verdicts([series(*ours), series(*theirs, changes=NONE)])
    assert one.each[0].kind == "clear" and "1 time in 32" in one.luck
    many = verdicts([series(*ours), *[series(*theirs, changes=NONE)] * 5])
    assert {found.kind for found in many.each} == {"one side"}
    assert odds(luck(5, 6)) in many.luck and "5 variants" in many.luck


def test_the_base_is_named_by_what_was_changed():
    ours, theirs = [flat(1.0)] * 4, [flat(2.0)] * 4
    assert "above n_heads=4 in" in judge(ours, theirs, (("n_heads", 1),)).text
    assert "above residual=on in" in judge(ours, theirs, (("residual", False),)).text
    two = judge(ours, theirs, (("residual", False), ("lr", 0.01))).text
    assert two.startswith("residual=off, lr=0.01 ends above the base in")


def test_one_seed_is_no_claim():
    found = judge([flat(0.1)], [flat(2.2)])
    assert found.kind == "one seed" and "above" not in found.text and "below" not in found.text
    found = judge([flat(0.1)], [flat(2.2, status=Status.DIVERGED)])
    assert found.kind == "one seed" and "diverged" in found.text
    assert verdicts([series(flat(0.1)), series(flat(2.2), changes=NONE)]).luck


def test_pairs_that_point_the_same_way_count_where_the_seeds_scatter_more():
    """Each seed has its own level: within every seed the variant is worse."""
    ours, theirs = [flat(x) for x in (1.0, 1.2, 1.4)], [flat(x) for x in (1.1, 1.3, 1.5)]
    assert judge(ours, theirs).kind == "one side"
    found = judge(ours, [flat(x) for x in (1.1, 1.1, 1.5)])
    assert found.kind == "mixed" and "lower in 1 of 3" in found.text


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0625, 3, width=32), st.floats(0.0625, 3, width=32)),
        min_size=2,
        max_size=10,
    )
)
def test_a_claim_needs_every_seed(pairs):
    """The slow version: seed by seed."""
    found = judge([flat(x) for x, _ in pairs], [flat(y) for _, y in pairs])
    above, below = all(y > x for x, y in pairs), all(y < x for x, y in pairs)
    assert (" above " in found.text) == above
    assert (" below " in found.text) == below
    assert (found.kind in ("one side", "clear")) == (above or below)
    assert (found.kind == "clear") == ((above or below) and 2 / 2 ** len(pairs) <= 0.05)


def test_seeds_are_paired():
    """The third seed has run on one side only: it is not in the count."""
    ours = series(*[flat(1.0)] * 3)
    theirs = series(flat(2.0), flat(2.0), view([], Status.FAILED), changes=NONE)
    (found,) = verdicts([ours, theirs]).each
    assert "2 of 2 seeds" in found.text and "1 of 3 seeds have no result" in found.text


def test_divergence_counts_as_the_worst_end():
    lost = flat(0.5, status=Status.DIVERGED)
    worse = judge([flat(1.0)] * 4, [lost] * 4)
    assert worse.text == "scale=none: scale=none diverges in 4 of 4 seeds, √d_k in none"
    better = judge([lost] * 4, [flat(1.0)] * 4)
    assert better.text == "scale=none: √d_k diverges in 4 of 4 seeds, scale=none in none"
    assert {worse.kind, better.kind} == {"one side"}
    assert judge([lost] * 4, [lost] * 4).kind == "mixed"
    some = judge([flat(1.0)] * 4, [flat(2.0), flat(2.0), lost, lost]).text
    assert some.startswith("scale=none ends above √d_k in 4 of 4 seeds, by 1.000 nats")
    assert "scale=none diverges in 2 of them" in some
    mixed = judge([flat(1.0)] * 4, [flat(0.5), flat(2.0), lost, lost])
    assert mixed.kind == "mixed" and "diverged" in mixed.text


def test_while_they_train_all_are_read_at_the_same_step_and_nothing_is_clear():
    """The one that is ahead has learnt more: that is no difference."""
    falling = np.linspace(3, 0.1, 300)
    ahead = [view(falling, Status.RUNNING) for _ in range(6)]
    behind = [view(falling[:100] + 0.001 * (-1) ** i, Status.RUNNING) for i in range(6)]
    found = judge(ahead, behind)
    assert found.kind == "mixed"
    worse = [view(falling[:100] + 1, Status.RUNNING) for _ in range(6)]
    assert judge(ahead, worse).kind == "one side"
    assert verdicts([series(*ahead), series(*worse, changes=NONE)]).luck == ""
    # A third line that is further back sets the step for all of them.
    third = series(*[view(falling[:50], Status.RUNNING)] * 6, changes=(("n_heads", 1),))
    found = verdicts([series(*ahead), series(*behind, changes=NONE), third])
    at_50 = falling[30:50].mean()
    assert found.step == 50 and f"{at_50:.3f}" in found.each[0].text
    early = [view(falling[:7], Status.RUNNING)] * 6
    waits = [view([], Status.QUEUED)] * 6
    assert {judge(early, early).kind, judge(ahead, waits).kind} == {"early"}


def test_all_runs_that_have_begun_are_read_at_a_step_that_they_have():
    """A run is not waited for while it waits itself; from its first step on it is."""
    lines = [series(*[view([1.0] * n, Status.RUNNING) for n in (90, 80)])]
    assert common_step(lines) == 80
    assert common_step([*lines, series(view([], Status.QUEUED))]) == 80
    for done in (1, 19, 20):
        assert common_step([*lines, series(view([1.0] * done, Status.RUNNING))]) == done
    assert common_step([series(view([1.0] * 9), flat(1.0))]) is None


def test_a_seed_that_has_not_come_yet_is_not_given_up():
    """Only at the end is there no result, and only then would more seeds help."""
    waits, runs = view([], Status.QUEUED), flat(1.0, 40, Status.RUNNING)
    lines = [series(runs, waits, waits), series(runs, waits, waits, changes=NONE)]
    found = verdicts(lines)
    assert found.each[0].kind == "early" and found.luck == ""
    assert found.each[0].text.endswith("(1 of 3 seeds at step 40)")
    worse = flat(2.0, 30, Status.RUNNING)
    found = judge([runs, runs, waits], [worse, worse, waits])
    assert found.kind == "one side" and "2 of 2 seeds" in found.text
    assert "no result" not in found.text
    failed = view([], Status.FAILED)
    ended = verdicts([series(flat(1.0), failed), series(flat(2.0), failed, changes=NONE)])
    assert ended.each[0].kind == "one seed" and ended.luck
    assert ended.each[0].text.endswith("1 of 2 seeds have no result")
    alone = [series(runs), series(worse, changes=NONE)]
    assert verdicts(alone).each[0].kind == "one seed" and verdicts(alone).luck == ""


@pytest.mark.parametrize("status", [Status.RUNNING, Status.DONE])
@pytest.mark.parametrize("done", [2, 6, 19, 20, 21])
def test_the_steps_that_are_said_to_be_averaged_are(done, status):
    line = series(view(np.arange(done), status))
    last = min(done, 20)
    assert line.reached(common_step([line])) == [pytest.approx(done - 1 - (last - 1) / 2)]
    said = f"steps 1–{done}" if done < 20 else "the last 20 steps"
    assert averaged([line]).endswith(said)


def test_runs_without_a_step_say_what_they_wait_for():
    def queued(place):
        return replace(view([], Status.QUEUED), queue_position=place)

    assert waiting([series(queued(4), queued(3))]) == "waiting: place 3 in the queue"
    assert waiting([series(queued(4)), series(view([], Status.RUNNING))]).startswith("waiting")
    assert waiting([series(queued(None))]) == "starting …"
    assert waiting([series(view([], Status.PAUSED))]) == "paused before the first step"
    assert waiting([series(view([], Status.FAILED))]) == "no step was made"
    assert waiting([series(queued(1)), series(view([3.0], Status.RUNNING))]) == ""


def test_pictures_beside_each_other_are_of_one_step():
    one, other = (
        [Frame(step, {}, [], step, 1.0, 0.5) for step in steps] for steps in ((0, 4, 8, 9), (0, 8))
    )

    def steps(*rest):
        return [frame.step for frame in frames_together([one, other], *rest)]

    assert steps() == [8, 8] and steps(7) == [0, 0] and steps(99) == [8, 8]
    assert frames_together([one, other[1:]], 3)[0].step == 8, "the first that both have"
    assert frames_together([one, []]) is None and frames_together([]) is None
    assert frames_together([one[1:2], other]) is None


def test_a_change_without_any_effect_is_recognised():
    same = [flat(1.0), flat(1.1)]
    found = judge(same, same, (("window", 2),))
    assert found.kind == "equal" and found.text.startswith("window=2 changes nothing here")


def test_a_base_whose_knob_says_auto_is_called_by_knob_and_value():
    found = judge([flat(1.0)] * 6, [flat(2.0)] * 6, (("mask", "window"),))
    assert found.text.startswith("mask=window ends clearly above mask=auto in 6 of 6 seeds")


def test_a_leak_is_no_success():
    ours = [flat(1.0, influence=0.0)] * 4
    found = judge(ours, [flat(0.1, influence=0.5)] * 4, (("mask", "none"),))
    assert found.text.endswith("; but mask=none sees the tokens it has to predict")


# --- bands and tables -------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 4, width=32), max_size=60), st.floats(0, 4))
def test_steps_to_a_target_are_those_of_the_slow_version(loss, target):
    slow = next(
        (
            s
            for s in range(1, len(loss) + 1)
            if math.fsum(loss[max(0, s - 20) : s]) / min(s, 20) <= target
        ),
        None,
    )
    found = steps_to(np.array(loss, dtype=np.float32), target)
    if found != slow:  # equal but for the last digits of a sum
        s = found or slow
        assert math.isclose(math.fsum(loss[max(0, s - 20) : s]) / min(s, 20), target, abs_tol=1e-9)


def test_a_band_ends_where_the_slowest_seed_is():
    band = series(view([3, 2, 1]), view([5, 4]), view([4, 3, 2, 1])).band()
    assert band.steps.tolist() == [1, 2]
    assert band.mean.tolist() == [4, 3]
    assert band.low.tolist() == [3, 2] and band.high.tolist() == [5, 4]
    assert band.seeds == (0, 1, 2)


def test_a_band_does_not_wait_for_the_queue_nor_end_with_a_diverged_seed():
    waiting, lost = view([], Status.QUEUED), view([3, 9], Status.DIVERGED)
    band = series(view([3, 2, 1, 1, 1]), lost, waiting, view([3, 2, 1, 1])).band()
    assert len(band.steps) == 4 and band.seeds == (0, 3)
    assert len(series(lost, lost).band().steps) == 2
    for nothing in (series(), series(waiting), series(waiting, waiting)):
        assert len(nothing.band().steps) == len(nothing.band().mean) == 0


def test_the_table_has_means_and_deviations():
    runs = series(
        flat(1.0, influence=0.0), flat(2.0, influence=0.0), flat(9.0, status=Status.DIVERGED)
    )
    row = runs.summary(target=1.5, measured=measured_together(runs.views))
    assert row.loss.values == (1.0, 2.0)
    assert row.loss.mean == 1.5 and row.loss.sd == pytest.approx(math.sqrt(0.5))
    assert row.accuracy.values == (0.75, 0.75)
    # A mean of the last 20 that holds 5 losses of 3 and n of 1 is at most 1.5 from n = 15 on.
    assert row.steps_to_target.values == (20,) and row.n_reached == 1
    assert row.diverged == 1 and row.seeds == 3


def test_the_table_at_a_step_knows_nothing_of_what_came_later():
    falling = np.linspace(3, 0.1, 100)
    long, short = view(falling, influence=0.0), view(falling[:40], Status.RUNNING, influence=0.0)
    line = series(long, short, view(falling[:30], Status.RUNNING))
    row = line.summary(target=2.5, at=40, measured=40)
    assert row.loss.values == (pytest.approx(falling[20:40].mean()),) * 2
    assert row.steps_to_target.values == (28, 28)  # 3 − 2.9/99·(28 − 10.5) is 2.49
    assert row.accuracy.values == (0.75,)  # that of the longer one was measured at step 100


def test_accuracies_beside_each_other_are_of_one_step():
    def at(*steps, status=Status.RUNNING):
        record = Record()
        for step in range(1, 31):
            record._steps.append(1.0, 1e-3, 1.0)
            if step in steps:
                record.add_frame(Frame(step, {}, [], step, 0.5, step / 100))
        return record.view(status=status, spec=BASE, message="", queue_position=None, busy=False)

    both = [at(1, 8, 16, 30), at(1, 8, 20)]
    assert measured_together(both) == 8 and measured_together(both, 7) == 1
    assert [accuracy_at(view, 8) for view in both] == [pytest.approx(0.08)] * 2
    assert accuracy_at(both[0], 20) is None and accuracy_at(both[0], None) is None
    lost, waits = at(2, status=Status.DIVERGED), view([], Status.QUEUED)
    assert measured_together([*both, lost, waits]) == 8
    assert measured_together([lost]) is None and measured_together([]) is None


def test_numbers_of_several_seeds_in_words():
    in_nats = "{:.3f}".format
    assert Spread((2.2, 2.3)).text(in_nats) == "2.250 ± 0.071"
    assert Spread((0.004,)).text(in_nats) == "0.004" and Spread(()).text(in_nats) == "–"
