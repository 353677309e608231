"""Comparisons: variants are what they say, and the verdict says no more than the seeds do."""

import math
from dataclasses import replace
from urllib.parse import parse_qs, urlencode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import ModelConfig, TrainConfig
from core.device import Device
from core.tasks import TASKS
from core.train import Trainer
from helpers import wait
from playground.experiments import comparison as module
from playground.experiments.comparison import Comparison
from playground.experiments.series import Series, Spread, steps_to, waiting
from playground.experiments.variants import (
    CONTRASTS,
    Setup,
    Variant,
    caution,
    encode,
    make_setup,
    parse,
    read_link,
)
from playground.experiments.verdict import verdict
from playground.runs.pool import Runs
from playground.runs.snapshot import Frame
from playground.runs.spec import KNOBS, Spec
from playground.runs.view import Record, Status

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = Device("cpu", "tests", (("fp32", None), ("bf16", None), ("fp16", "no such arithmetic")))


def spec_for(task="reverse", training=None, knobs=None, **model) -> Spec:
    task = TASKS[task](**(knobs or {}))
    return Spec(ModelConfig.for_task(task, **model), task, TrainConfig(**(training or {})))


BASE = spec_for()


# --- variants -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ((("scale", "none"),), lambda spec: spec.model.scale == "none"),
        ((("lr", 0.01),), lambda spec: spec.training.lr == 0.01),
        ((("clip", None),), lambda spec: spec.training.clip is None),
        ((("length", 5),), lambda spec: spec.task.length == 5),
        ((("task", "sort"),), lambda spec: spec.task.name == "sort"),
        ((("d_model", 30), ("n_heads", 3)), lambda spec: spec.model.d_head == 10),
    ],
)
def test_a_change_changes_its_field_and_nothing_else(changes, read):
    spec = BASE.changed(changes)
    assert read(spec)
    assert BASE.changes_to(spec) == changes


def test_no_change_gives_the_base():
    assert BASE.changed(()) == BASE
    assert BASE.changes_to(BASE) == ()


def test_the_model_follows_the_task():
    """Vocabulary and length are the task's; they are no difference of their own."""
    spec = BASE.changed((("symbols", 5), ("length", 4)))
    assert spec.model.vocab_size == spec.task.vocab_size
    assert spec.model.max_len == spec.task.max_len("decoder")
    assert [name for name, _ in BASE.changes_to(spec)] == ["symbols", "length"]


def test_a_task_alike_keeps_its_knobs_and_another_one_has_its_own():
    base = spec_for(knobs={"length": 6})
    assert base.changed((("task", "sort"),)).task.length == 6
    assert base.changed((("task", "add"),)).task == TASKS["add"]()


def test_an_example_that_the_new_task_cannot_read_is_dropped():
    base = replace(spec_for(knobs={"length": 4}), probe="3141")
    assert base.changed((("task", "sort"),)).probe == "3141"
    assert base.changed((("length", 5),)).probe is None
    assert base.changed((("scale", "none"),)).probe == "3141"


def test_a_text_of_ones_own_is_one_difference():
    own = BASE.changed((("task", "text"), ("source", "own"), ("text", "to be or not " * 50)))
    assert BASE.changed(BASE.changes_to(own)) == own
    back = own.changed((("source", "docs"),))
    assert own.changes_to(back) == (("source", "docs"),)
    assert caution(back.changes_to(own)) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((("scal", "none"),), ["scal", "scale"]),
        ((("vocab_size", 5),), ["vocab_size", "follows from the task"]),
        ((("scale", "half"),), ["scale='half'", "sqrt_d_head"]),
        ((("lr", -1.0),), ["lr=-1.0", "at least"]),
        ((("n_heads", 5),), ["n_heads=5", "d_model=64"]),
        ((("warmup", 300),), ["warmup=300", "steps=300"]),
        ((("source", "docs"),), ["source", "reverse"]),
        ((("task", "juggle"),), ["task='juggle'", "reverse"]),
        ((("task", "text"), ("architecture", "encoder")), ["architecture", "text"]),
        ((("lr", 0.1), ("lr", 0.2)), ["lr", "twice"]),
    ],
)
def test_an_impossible_change_is_refused_by_name(changes, words):
    with pytest.raises(ValueError) as error:
        BASE.changed(changes)
    assert all(word in str(error.value) for word in words), error.value


def test_a_label_is_exactly_what_differs():
    wanted = [(("scale", "none"), ("lr", 1e-3)), (("norm", "pre"), ("residual", False))]
    wanted += [(("clip", None),), (("d_ff", 32),)]
    labels = make_setup(BASE, wanted, CPU).labels
    assert labels == ("base", "scale=none", "residual=off, norm=pre", "clip=off", "d_ff=32")


def test_more_than_one_change_is_said():
    assert caution((("scale", "none"),)) is None
    words = caution((("scale", "none"), ("lr", 0.1), ("norm", "pre")))
    assert words == "you changed 3 things: this run cannot tell which one mattered"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ((("scale", "sqrt_d_head"),), "the base itself"),
        ((("seed", 1),), "same seeds"),
        ((("precision", "fp16"),), "no such arithmetic"),
        ((("d_model", 40_000),), "parameters"),
        ((("n_heads", 7),), "n_heads=7"),
    ],
)
def test_what_cannot_run_is_left_out_with_a_reason(wanted, reason):
    found = make_setup(BASE, [wanted, (("norm", "pre"),)], CPU)
    assert [variant.label for variant in found.variants] == ["norm=pre"]
    assert len(found.left_out) == 1 and reason in found.left_out[0]


def test_a_setup_has_no_double_and_no_sixth_variant():
    found = make_setup(BASE, [(("lr", i / 100),) for i in (1, 1, 2, 3, 4, 5, 6)], CPU)
    assert len(found.variants) == 5
    assert "already" in found.left_out[0] and "at most 5" in found.left_out[1]


# --- quick choices --------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTRASTS)
@pytest.mark.parametrize("base", [BASE, spec_for(training={"clip": None, "schedule": "cosine"})])
def test_a_contrast_offers_what_differs_from_the_base(name, base):
    found = CONTRASTS[name].setup(base, CPU)
    assert found.variants and len(found.specs) == len(found.variants) + 1
    touched = {field for option in CONTRASTS[name].options for field, _ in option}
    for variant, spec in zip(found.variants, found.specs[1:], strict=True):
        assert variant.changes and {field for field, _ in variant.changes} <= touched
        assert spec != base and base.changes_to(spec) == variant.changes


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("scale", ["scale=none", "scale=d_k", "scale=√d_model"]),
        ("residual", ["residual=off"]),
        ("n_heads", ["n_heads=1", "n_heads=2", "n_heads=8"]),
        ("d_model", ["d_model=16", "d_model=32", "d_model=128", "d_model=256"]),
        ("mask", ["mask=none", "mask=window"]),
        ("warmup", ["schedule=cosine, warmup=30"]),
        ("clip", ["clip=off"]),
        ("tie_embeddings", ["tie_embeddings=on"]),
        ("precision", ["precision=bf16"]),
    ],
)
def test_the_usual_contrasts(name, labels):
    found = CONTRASTS[name].setup(BASE, CPU)
    assert [variant.label for variant in found.variants] == labels


def test_a_switch_that_is_on_is_held_against_off():
    base = spec_for(training={"schedule": "cosine", "warmup": 50, "clip": 3.0})
    warmup, clip = (CONTRASTS[name].setup(base, CPU) for name in ("warmup", "clip"))
    assert warmup.labels[1:] == ("schedule=constant, warmup=0",)
    assert clip.labels[1:] == ("clip=off",)
    clip = CONTRASTS["clip"].setup(spec_for(training={"clip": None}), CPU)
    assert clip.labels[1:] == ("clip=1",)


def test_impossible_options_come_with_their_reason():
    odd = spec_for(d_model=12, n_heads=2, position="rotary")
    found = CONTRASTS["n_heads"].setup(odd, CPU)
    assert found.labels[1:] == ("n_heads=1",)
    assert "even width" in found.left_out[0] and "does not divide" in found.left_out[1]


# --- links ----------------------------------------------------------------------------------


def test_a_link_holds_the_variants():
    found = read_link("scale=none;norm=pre,lr=0.01;clip=off;d_ff=16;residual=off", BASE, CPU)
    assert found.left_out == ()
    assert found.variants[1].changes == (("norm", "pre"), ("lr", 0.01))
    assert encode(found.variants) == "scale=none;norm=pre,lr=0.01;clip=off;d_ff=16;residual=off"
    assert encode(()) == "" and read_link("", BASE, CPU).variants == ()


VALUES = {
    "task": st.sampled_from(list(TASKS)),
    "source": st.sampled_from(["docs", "grammar"]),
    "clip": st.none() | st.floats(1e-6, 1e9),
    "d_ff": st.none() | st.integers(1, 10**9),
}


def values_of(name: str) -> st.SearchStrategy:
    if name in VALUES:
        return VALUES[name]
    item = KNOBS[name]
    if item.metadata["choices"]:
        return st.sampled_from(item.metadata["choices"])
    kinds = {bool: st.booleans(), int: st.integers(0, 2**31 - 1), float: st.floats(0, 1e9)}
    return kinds[item.type]


CHANGES = st.lists(st.sampled_from(list(KNOBS)), min_size=1, unique=True)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_change_survives_a_link(data):
    """Through a query string and back, every digit of every number."""
    variants = []
    for _ in range(data.draw(st.integers(0, 3))):
        names = data.draw(CHANGES.filter(lambda names: len(names) < 7))
        variants.append(Variant("", tuple((name, data.draw(values_of(name))) for name in names)))
    link = urlencode({"variants": encode(variants)})
    text = parse_qs(link, keep_blank_values=True)["variants"][0]
    found = [parse(part) for part in text.split(";") if part]
    assert found == [variant.changes for variant in variants]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scale", ["variant 1", "'scale'", "field=value"]),
        ("lr=0.1;scale=", ["variant 2", "'scale='"]),
        ("scal=none", ["variant 1", "scal", "scale"]),
        ("lr=fast", ["lr='fast'", "a number"]),
        ("d_model=6.5", ["d_model='6.5'", "whole number"]),
        ("residual=maybe", ["residual='maybe'", "on or off"]),
        ("clip=loose", ["clip='loose'", "or off"]),
        ("scale=half", ["scale='half'", "choose one of √d_k, none"]),
        ("d_model=1_0", ["d_model='1_0'", "whole number"]),
        ("lr=0.1,lr=0.2", ["lr", "twice"]),
        ("text=abc", ["text"]),
        ("lr=1;" * 500, ["2500 characters", "1000"]),
    ],
)
def test_a_damaged_link_says_what_is_wrong(text, words):
    assert any(all(word in said for word in words) for said in read_link(text, BASE, CPU).left_out)


def test_what_is_good_in_a_damaged_link_is_used():
    found = read_link("scale=none;nonsense;lr=nan;norm=pre;", BASE, CPU)
    assert found.labels == ("base", "scale=none", "norm=pre")
    assert len(found.left_out) == 2 and "lr=nan" in found.left_out[1]


def test_a_text_of_ones_own_stays_out_of_links():
    own = BASE.changed((("task", "text"), ("source", "own"), ("text", "secret " * 100)))
    with pytest.raises(ValueError, match="does not fit into a link") as error:
        encode([Variant.of(BASE, own)])
    assert "secret" not in str(error.value)


# --- what came out --------------------------------------------------------------------------


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


def judge(ours, theirs, changes=(("scale", "none"),)):
    return verdict(series(*ours), series(*theirs, changes=changes))


def test_a_clear_difference_is_said_with_its_size_and_its_seeds():
    sentence = judge(
        [flat(0.1 + i / 100) for i in range(5)], [flat(2.15 + i / 100) for i in range(5)]
    )
    assert sentence == "scale=none ends 2.05 nats above √d_k in 5 of 5 seeds"
    sentence = judge(
        [flat(2.0 + i / 100) for i in range(4)], [flat(0.5 + i / 100) for i in range(4)]
    )
    assert sentence == "scale=none ends 1.5 nats below √d_k in 4 of 4 seeds"


def test_the_base_is_named_by_what_was_changed():
    ours, theirs = [flat(1.0)] * 4, [flat(2.0)] * 4
    assert "above n_heads=4 in" in judge(ours, theirs, (("n_heads", 1),))
    assert "above residual=on in" in judge(ours, theirs, (("residual", False),))
    two = judge(ours, theirs, (("residual", False), ("lr", 0.01)))
    assert two.startswith("residual=off, lr=0.01 ends 1 nats above the base in")


def test_one_seed_is_no_claim():
    sentence = judge([flat(0.1)], [flat(2.2)])
    assert sentence == "loss 2.2 for scale=none, 0.1 for √d_k; one seed: no claim, add seeds"
    assert "above" not in sentence and "below" not in sentence
    sentence = judge([flat(0.1)], [flat(2.2, status=Status.DIVERGED)])
    assert "one seed: no claim" in sentence and "diverged" in sentence


def test_overlapping_spreads_cannot_be_told_apart():
    """Even where every pair of seeds points the same way."""
    ours, theirs = [flat(x) for x in (1.0, 1.2, 1.4)], [flat(x) for x in (1.1, 1.3, 1.5)]
    sentence = judge(ours, theirs)
    assert sentence.startswith("no clear difference") and "lower in 0 of 3" in sentence


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0625, 3, width=32), st.floats(0.0625, 3, width=32)),
        min_size=2,
        max_size=10,
    )
)
def test_a_claim_needs_every_seed(pairs):
    """The slow version: each loss of one side against each of the other."""
    sentence = judge([flat(x) for x, _ in pairs], [flat(y) for _, y in pairs])
    above = all(y > x for _, y in pairs for x, _ in pairs)
    below = all(y < x for _, y in pairs for x, _ in pairs)
    assert ("nats above" in sentence) == above
    assert ("nats below" in sentence) == below
    if not above and not below:
        assert sentence.startswith(("no clear difference", "scale=none changes nothing here"))


def test_few_seeds_come_with_what_chance_does():
    assert "2 and 2 seeds, they would separate this cleanly 1 time in 3" in judge(
        [flat(1.0)] * 2, [flat(2.0)] * 2
    )
    assert "separate this cleanly 1 time in 10" in judge([flat(1.0)] * 3, [flat(2.0)] * 3)
    assert "chance" not in judge([flat(1.0)] * 4, [flat(2.0)] * 4)


def test_seeds_are_paired():
    """The third seed has run on one side only: it is not in the count."""
    ours = series(*[flat(1.0)] * 3)
    theirs = series(flat(2.0), flat(2.0), view([], Status.QUEUED), changes=(("scale", "none"),))
    assert "2 of 2 seeds" in verdict(ours, theirs)
    assert "1 of 3 seeds have no result" in verdict(ours, theirs)


def test_divergence_counts_as_the_worst_end():
    lost = flat(0.5, status=Status.DIVERGED)
    assert judge([flat(1.0)] * 4, [lost] * 4) == (
        "scale=none diverges in 4 of 4 seeds, √d_k in none"
    )
    assert judge([lost] * 4, [flat(1.0)] * 4) == (
        "√d_k diverges in 4 of 4 seeds, scale=none in none"
    )
    assert judge([lost] * 4, [lost] * 4).startswith("no clear difference")
    some = judge([flat(1.0)] * 4, [flat(2.0), flat(2.0), lost, lost])
    assert some.startswith("scale=none ends 1 nats above √d_k in 4 of 4 seeds")
    assert "scale=none diverges in 2 of them" in some
    mixed = judge([flat(1.0)] * 4, [flat(0.5), flat(2.0), lost, lost])
    assert mixed.startswith("no clear difference") and "diverged" in mixed


def test_while_they_train_both_are_read_at_the_same_step():
    """The one that is ahead has learnt more: that is no difference."""
    falling = np.linspace(3, 0.1, 300)
    ahead = [view(falling, Status.RUNNING) for _ in range(4)]
    behind = [view(falling[:100] + 0.001 * i, Status.RUNNING) for i in range(4)]
    sentence = judge(ahead, behind)
    assert sentence.startswith("so far, at step 100: no clear difference")
    early = [view(falling[:7], Status.RUNNING)] * 4
    assert judge(ahead, early) == "too early to say: step 7"
    assert judge(ahead, [view([], Status.QUEUED)] * 4) == "no steps yet"


def test_a_page_with_names_of_its_own_reads_them():
    ours = replace(series(flat(0.1)), label="divided")
    theirs = replace(series(flat(2.0), changes=(("scale", "none"),)), label="not divided")
    assert verdict(ours, theirs).startswith("loss 2 for “not divided”, 0.1 for “divided”")


def test_runs_without_a_step_say_what_they_wait_for():
    def queued(place):
        return replace(view([], Status.QUEUED), queue_position=place)

    assert waiting([series(queued(4), queued(3))]) == "waiting: place 3 in the queue"
    assert waiting([series(queued(4)), series(view([], Status.RUNNING))]).startswith("waiting")
    assert waiting([series(queued(None))]) == "starting …"
    assert waiting([series(view([], Status.PAUSED))]) == "paused before the first step"
    assert waiting([series(view([], Status.FAILED))]) == "no step was made"
    assert waiting([series(queued(1)), series(view([3.0], Status.RUNNING))]) == ""


def test_a_change_without_any_effect_is_recognised():
    same = [flat(1.0), flat(1.1)]
    assert "window=2 changes nothing here" in judge(same, same, (("window", 2),))


def test_a_leak_is_no_success():
    ours = [flat(1.0, influence=0.0)] * 4
    sentence = judge(ours, [flat(0.1, influence=0.5)] * 4, (("mask", "none"),))
    assert sentence.endswith(
        "below causal in 4 of 4 seeds; but mask=none sees the tokens it has to predict"
    )


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
    row = runs.summary(target=1.5)
    assert row.final_loss.values == (1.0, 2.0)
    assert row.final_loss.mean == 1.5 and row.final_loss.sd == pytest.approx(math.sqrt(0.5))
    assert row.accuracy.values == (0.75, 0.75)
    # A mean of the last 20 that holds 5 losses of 3 and n of 1 is at most 1.5 from n = 15 on.
    assert row.steps_to_target.values == (20,) and row.n_reached == 1
    assert row.diverged == 1 and row.seeds == 3


def test_numbers_of_several_seeds_in_words():
    assert str(Spread((0.004, 0.005))) == "0.0045 ± 0.00071"
    assert str(Spread((0.004,))) == "0.004" and str(Spread(())) == "–"


# --- the runs -------------------------------------------------------------------------------


def tiny(steps=30, **model) -> Spec:
    return spec_for(
        "copy",
        {"batch_size": 4, "steps": steps},
        {"length": 3},
        **({"d_model": 8, "n_heads": 1, "n_layers": 1} | model),
    )


SCALES = [(("scale", "none"),), (("scale", "d_head"),)]
FOREVER = 1_000_000


@pytest.fixture
def runs():
    runs = Runs(workers=2, grace=3600, device=CPU)
    yield runs
    runs.close()


@pytest.fixture
def comparison(runs):
    return Comparison("anna", runs)


def test_every_variant_runs_on_every_seed_as_it_would_alone(comparison):
    """CON-04: side by side the numbers are those of each run by itself, bit for bit."""
    comparison.start(make_setup(tiny(12), SCALES, CPU), seeds=2)
    wait(lambda: not comparison.live)
    found = comparison.series()
    assert [one.label for one in found] == ["base", "scale=none", "scale=d_k"]
    for one in found:
        assert one.seeds == (0, 1)
        for seed, view in zip(one.seeds, one.views, strict=True):
            training = replace(one.spec.training, seed=seed)
            alone = [step.loss for step in Trainer(one.spec.model, one.spec.task, training)]
            assert view.status is Status.DONE
            assert np.array_equal(view.loss, np.float32(alone))
    assert found[0].band().steps.tolist() == list(range(1, 13))


def test_the_page_builds_no_model(comparison, monkeypatch):
    """Only workers do; a large model would hold up the page."""
    import threading

    builders = []

    def spy(*arguments, **rest):
        builders.append(threading.current_thread())
        return Trainer(*arguments, **rest)

    monkeypatch.setattr("playground.runs.run.Trainer", spy)
    comparison.start(make_setup(tiny(2), SCALES, CPU), seeds=2)
    comparison.series()
    wait(lambda: not comparison.live)
    assert len(builders) == 6 and threading.current_thread() not in builders


def test_all_are_paused_played_stopped_and_discarded_together(comparison, runs):
    comparison.start(make_setup(tiny(FOREVER), SCALES, CPU))
    wait(lambda: all(len(one.views[0].loss) for one in comparison.series()))
    comparison.pause()
    wait(lambda: not comparison.live)
    assert {one.views[0].status for one in comparison.series()} == {Status.PAUSED}
    comparison.play()
    assert comparison.live
    for run in comparison.all_runs():
        run.stop()
    wait(lambda: not comparison.live)
    assert {one.views[0].status for one in comparison.series()} == {Status.STOPPED}
    comparison.discard()
    assert runs.of("anna") == [] and comparison.series() == () and not comparison.live


def test_another_setup_keeps_the_runs_it_shares(comparison, runs):
    base = tiny(FOREVER)
    comparison.start(make_setup(base, SCALES[:1], CPU), seeds=2)
    before = comparison.all_runs()
    comparison.start(make_setup(replace(base, probe="123"), SCALES, CPU), seeds=1)
    after = comparison.all_runs()
    assert len(after) == len(runs.of("anna")) == 3
    assert len(set(before) & set(after)) == 2
    assert len(comparison.series()) == 3


def test_a_stopped_or_freed_run_begins_anew_and_a_finished_one_stays(comparison, runs):
    setup = make_setup(tiny(3), SCALES[:1], CPU)
    comparison.start(setup)
    wait(lambda: not comparison.live)
    done = comparison.all_runs()
    comparison.start(setup)
    assert comparison.all_runs() == done
    runs.discard(done[0])
    comparison.start(setup)
    assert done[0] not in comparison.all_runs() and done[1] in comparison.all_runs()
    wait(lambda: not comparison.live)
    assert [len(one.views[0].loss) for one in comparison.series()] == [3, 3]


def test_too_much_is_refused_in_numbers_and_changes_nothing(comparison, runs, monkeypatch):
    comparison.start(make_setup(tiny(FOREVER), SCALES, CPU))
    before = comparison.all_runs()
    with pytest.raises(ValueError, match="seeds=11: choose 1 to 10"):
        comparison.start(comparison.setup, seeds=11)
    runs.max_runs = 8
    with pytest.raises(ValueError, match=r"3 configurations × 3 seeds are 9 runs.* here is 8"):
        comparison.start(comparison.setup, seeds=3)
    monkeypatch.setattr(module, "MAX_MEMORY", 60_000_000)
    with pytest.raises(ValueError, match=r"3 configurations × 2 seeds need about 1.. MB.* 60 MB"):
        comparison.start(comparison.setup, seeds=2)
    assert comparison.all_runs() == before and len(comparison.series()) == 3


def test_where_others_take_the_room_nothing_is_half_started(comparison, runs):
    runs.max_runs = 4
    others = [runs.start("bert", tiny(FOREVER), play=False) for _ in range(2)]
    with pytest.raises(ValueError, match=r"only 2 of 3 new runs found room.*limit here is 4"):
        comparison.start(make_setup(tiny(FOREVER), SCALES, CPU))
    assert runs.of("anna") == [] and comparison.series() == ()
    assert runs.of("bert") == others


def test_a_setup_without_variants_is_the_base_alone(comparison):
    comparison.start(Setup(tiny(2)))
    wait(lambda: not comparison.live)
    assert [one.label for one in comparison.series()] == ["base"]
