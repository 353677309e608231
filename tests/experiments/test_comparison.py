"""Comparisons: variants are what they say, and each runs as it would alone."""

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
from playground.experiments.comparison import Comparison
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
from playground.runs import limits
from playground.runs.pool import Runs
from playground.runs.spec import KNOBS, Spec
from playground.runs.view import Status

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
        ("scale", ["scale is left out", "field=value"]),
        ("lr=0.1;scale=", ["scale= is left out", "field=value"]),
        ("scal=none", ["scal=none is left out", "did you mean scale?"]),
        ("lr=fast", ["lr=fast is left out: lr", "a number"]),
        ("d_model=6.5", ["d_model=6.5 is left out", "whole number"]),
        ("residual=maybe", ["residual=maybe is left out", "on or off"]),
        ("clip=loose", ["clip=loose is left out", "or off"]),
        ("scale=half", ["scale=half is left out", "choose one of √d_k, none"]),
        ("d_model=1_0", ["d_model=1_0 is left out", "whole number"]),
        ("lr=-1", ["lr=-1 is left out", "at least 0"]),
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


def test_all_are_paused_played_and_discarded_together(comparison, runs):
    comparison.start(make_setup(tiny(FOREVER), SCALES, CPU))
    wait(lambda: all(len(one.views[0].loss) for one in comparison.series()))
    comparison.pause()
    wait(lambda: not comparison.live)
    assert {one.views[0].status for one in comparison.series()} == {Status.PAUSED}
    comparison.play()
    assert comparison.live
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
    with pytest.raises(ValueError, match=r"6 runs more: you have 3 open, and .* limit here is 8"):
        comparison.start(comparison.setup, seeds=3)
    monkeypatch.setattr(limits, "MAX_MEMORY", 4 * sum(limits.memory_of(tiny(FOREVER))))
    with pytest.raises(ValueError, match=r"your runs would need about .* the limit here is"):
        comparison.start(comparison.setup, seeds=2)
    assert comparison.all_runs() == before and len(comparison.series()) == 3


def test_where_others_take_the_room_nothing_is_half_started(comparison, runs, monkeypatch):
    monkeypatch.setattr(limits, "LEAST_RUNS", 1)
    runs.max_runs = 4
    others = [runs.start("bert", tiny(FOREVER), play=False) for _ in range(2)]
    with pytest.raises(ValueError, match=r"3 runs more: .* with 2 visitors your share is 2"):
        comparison.start(make_setup(tiny(FOREVER), SCALES, CPU))
    assert runs.of("anna") == [] and comparison.series() == ()
    assert runs.of("bert") == others


def test_a_setup_without_variants_is_the_base_alone(comparison):
    comparison.start(Setup(tiny(2)))
    wait(lambda: not comparison.live)
    assert [one.label for one in comparison.series()] == ["base"]
