"""Every page without a browser: it opens, its knobs turn, and nothing raises."""

import time
from functools import cache

import pytest
from streamlit.testing.v1 import AppTest

from core.forms import RECURRENT
from core.tasks import TASKS
from helpers import SMALL, fine, numbers, opened, texts, until, widgets
from playground.experiments.ready_made import GOOD_SETTINGS, READY_MADE
from playground.live.picture import Slider
from playground.ui import controls as ui
from playground.ui.choices import NEWEST
from playground.ui.page_list import IDEAS, PAGES

# The pages of the ideas have tests of their own: they do not depend on the knobs.
OTHERS = [page for page in PAGES if page not in {"playground", *IDEAS}]
FORMS = [(name, form) for name, task in TASKS.items() for form in task.architectures]


@cache
def usual() -> ui.Choice:
    """What the knobs say where no link says anything."""
    return opened().session_state.choice


def steps(test: AppTest) -> int:
    return int(numbers(test)["Step"].split("/")[0])


@pytest.mark.parametrize("task, architecture", FORMS)
def test_every_page_opens_and_the_playground_steps_for_every_task_and_architecture(
    task, architecture
):
    test = opened(task=task, architecture=architecture, **SMALL)
    assert not test.error and not test.warning
    spec = test.session_state.choice.spec
    assert (spec.task.name, spec.model.architecture) == (task, architecture)
    fine(test.button(key="step").click().run())
    until(test, lambda test: steps(test) == 1)
    for tab in ("Health", "What changed", "Data", "This model"):
        test.session_state.details = tab
        fine(test.run())
    for page in OTHERS:
        assert not fine(test.switch_page(PAGES[page].file).run()).error


@pytest.mark.parametrize("architecture", RECURRENT)
def test_the_playground_trains_a_recurrent_net_and_says_that_it_has_no_attention(architecture):
    test = opened(architecture=architecture, task="distance", **SMALL)
    assert not test.error and not test.warning
    assert "data-no-attention" in texts(test.html)
    disabled = {key for key, widget in widgets(test).items() if widget.proto.disabled}
    assert disabled & {*KNOBS} == {*ui.OF_ATTENTION}
    fine(test.button(key="step").click().run())
    until(test, lambda test: steps(test) == 1)
    for tab in ("Predictions", "Health", "What changed", "Data", "This model", "Download"):
        test.session_state.details = tab
        fine(test.run())
    for page in OTHERS:
        assert not fine(test.switch_page(PAGES[page].file).run()).error


def test_a_link_to_a_model_that_is_too_large_is_refused_in_words_and_the_knobs_stay():
    size = {"d_model": "256", "n_layers": "12", "d_ff": "1024", "architecture": "encoder-decoder"}
    test = opened(**size)
    assert "the limit here is" in texts(test.error)
    assert test.session_state.choice.spec.model.n_layers == 12
    turn(test, "n_layers")
    assert not test.error and steps(test) == 0


def test_every_page_can_be_looked_at_again():
    test = opened(**SMALL)
    for page in OTHERS:
        fine(test.switch_page(PAGES[page].file).run())
        assert not fine(test.run()).error


def test_an_architecture_that_a_task_has_no_form_for_is_reported_and_replaced():
    test = opened(task="text", architecture="encoder")
    assert "architecture=encoder" in texts(test.warning)
    assert test.session_state.choice.spec.model.architecture == "decoder"


def test_the_code_page_shows_every_file_of_the_core_that_it_lists():
    test = opened()
    fine(test.switch_page("app_pages/source_code.py").run())
    seen = set()
    for name in test.button_group(key="file").options:
        fine(test.button_group(key="file").set_value(name).run())
        seen.add(test.code[0].value)
        path = name.replace("\\", "").replace(".", "/")  # as drawn: Markdown
        assert f"core/{path}.py" in texts(test.caption)
    assert len(seen) == len(test.button_group(key="file").options)


def turn(test: AppTest, key: str) -> None:
    """Set one knob to a neighbour of its value."""
    widget = widgets(test)[key]
    if key in ui.EVERY and not isinstance(ui.EVERY[key].choices, range):
        knob = ui.EVERY[key]
        offered = [c for c in knob.choices if knob.show(c) in getattr(widget, "options", ())]
        offered = offered or list(knob.choices)
        at = offered.index(widget.value)
        widget.set_value(offered[at + 1 if at + 1 < len(offered) else at - 1])
    else:
        widget.set_value(widget.value + 1)
    fine(test.run())


KNOBS = [
    key
    for key in ui.EVERY
    if key.startswith("reverse_") or key in {**ui.MODEL, **ui.TRAINING, "task": None}
]


def test_turning_every_knob_once_never_raises_and_the_spec_follows():
    test = opened(mask="window", **SMALL)
    without_effect = {"pad_mask"}  # no row is padded
    for key in sorted(KNOBS, key="ffn".__eq__):  # without a feed-forward three others do nothing
        if key in widgets(test):
            assert widgets(test)[key].proto.disabled == (key in without_effect)
            if key not in without_effect:
                before = test.session_state.choice.spec
                turn(test, key)
                assert test.session_state.choice.spec != before, key
    disabled = {key for key, widget in widgets(test).items() if widget.proto.disabled}
    assert disabled & {*KNOBS} == without_effect | {"d_ff", "activation", "gated"}


@pytest.mark.parametrize("task", TASKS)
def test_turning_every_knob_of_a_task_never_raises(task):
    test = opened(task=task, **SMALL)
    for key in ui.OF_TASK[task]:
        turn(test, key)


def test_switches_of_the_view_change_no_run():
    test = opened(**SMALL)
    before = test.session_state.choice
    for key in ("log", "show_lr", "projector"):
        fine(test.toggle(key=key).set_value(True).run())
        assert test.session_state.choice == before, key


def test_every_knob_explains_itself():
    test = opened(mask="window")
    for key, widget in widgets(test).items():
        if key in ui.EVERY:
            assert widget.help.strip().endswith("."), key


# --- links ----------------------------------------------------------------------------------


def test_a_link_sets_every_knob_that_it_names():
    query = {
        "task": "copy",
        "d_model": "32",
        "n_heads": "8",
        "n_layers": "3",
        "scale": "none",
        "position": "rotary",
        "mask": "window",
        "window": "6",
        "residual": "false",
        "norm": "pre",
        "norm_type": "RMSNorm",
        "init": "gpt2",
        "architecture": "encoder",
        "d_ff": "64",
        "ffn": "false",
        "gated": "true",
        "activation": "gelu",
        "tie_embeddings": "true",
        "pad_mask": "false",
        "steps": "100",
        "batch_size": "16",
        "lr": "0.01",
        "optimizer": "sgd",
        "weight_decay": "0.1",
        "schedule": "cosine",
        "warmup": "30",
        "clip": "off",
        "label_smoothing": "0.1",
        "seed": "42",
        "copy_symbols": "5",
        "copy_length": "7",
    }
    test = opened(**query)
    assert not test.warning and not test.error
    spec = test.session_state.choice.spec
    assert (spec.task.name, spec.task.symbols, spec.task.length) == ("copy", 5, 7)
    of_model = {
        "d_model": 32,
        "n_heads": 8,
        "n_layers": 3,
        "scale": "none",
        "position": "rotary",
        "mask": "window",
        "window": 6,
        "residual": False,
        "norm": "pre",
        "norm_type": "rms",
        "init": "gpt2",
        "architecture": "encoder",
        "d_ff": 64,
        "ffn": False,
        "gated": True,
        "activation": "gelu",
        "tie_embeddings": True,
        "pad_mask": False,
    }
    assert of_model.items() <= spec.model.to_dict().items()
    of_training = {
        "steps": 100,
        "batch_size": 16,
        "lr": 0.01,
        "optimizer": "sgd",
        "weight_decay": 0.1,
        "schedule": "cosine",
        "warmup": 30,
        "clip": None,
        "label_smoothing": 0.1,
        "seed": 42,
    }
    assert of_training.items() <= spec.training.to_dict().items()


@pytest.mark.parametrize(
    "key, text",
    [
        ("n_heads", "64"),
        ("d_model", "abc"),
        ("position", "fourier"),
        ("seed", "-1"),
        ("seed", "1.5"),
        ("lr", "nan"),
        ("residual", "maybe"),
        ("reverse_symbols", "1000"),
        ("task", "chess"),
        ("d_model", ""),
        ("steps", "9" * 30),
    ],
)
def test_an_impossible_value_in_a_link_is_named_and_the_default_is_used(key, text):
    """UI-02"""
    test = opened(**{key: text})
    assert f"{key}={text}" in texts(test.warning)
    assert test.session_state.choice == usual()


@pytest.mark.parametrize("key", ["lr", "c" * 200])
def test_a_long_text_in_a_link_is_cut_where_it_is_named(key):
    said = texts(opened(**{key: "1" * 2000}).warning)
    assert "…:" in said or "c…" in said
    assert "1" * 41 not in said and "c" * 41 not in said


def test_a_source_without_its_text_asks_for_it_in_the_middle_of_the_page():
    test = opened(task="text", text_source="own")
    assert "The source is your text, and there is none yet" in texts(test.main.info)
    assert not test.error
    fine(test.main.text_area(key="own_paste").set_value("to be or not to be\n" * 20).run())
    assert not test.error and test.session_state.choice.spec.task.source == "own"
    assert not test.main.text_area
    assert [area.key for area in test.sidebar.text_area] == ["own_paste"]


def test_while_a_text_is_missing_the_last_picture_stays():
    test = opened(task="text", **SMALL)
    before = test.session_state.controller.spec
    fine(test.button_group(key="text_source").set_value("own").run())
    assert "there is none yet" in texts(test.main.info)
    assert test.session_state.controller.spec == before and "data-verdict" in texts(test.html)


def test_a_text_that_cannot_be_learnt_changes_neither_the_run_nor_the_link():
    test = opened(task="text", text_source="own", **SMALL)
    fine(test.text_area(key="own_paste").set_value("to be or not to be\n" * 20).run())
    before = test.session_state.choice, test.session_state.fingerprint
    fine(test.text_area(key="own_paste").set_value("ab").run())
    assert "2 characters" in texts(test.error) and "The earlier text stays" in texts(test.error)
    assert (test.session_state.choice, test.session_state.fingerprint) == before


def test_a_key_given_twice_and_an_unknown_key_are_named():
    """UI-02"""
    test = opened(lr=["0.01", "0.1"], colour="red")
    assert "lr is given 2 times" in texts(test.warning)
    assert "colour is not a knob" in texts(test.warning)
    assert test.session_state.choice.spec.training.lr == 0.001


def test_a_knob_of_a_task_without_its_task_is_pointed_to_and_none_means_off():
    test = opened(symbols="5", clip="none")
    said = texts(test.warning)
    assert "symbols is not a knob" in said and "reverse_symbols" in said
    assert "clip" not in said and "?." not in said
    assert test.session_state.choice.spec.training.clip is None


@pytest.mark.parametrize("key, given", [("seed", "3"), ("residual", "false"), ("task", "copy")])
def test_the_last_of_two_values_is_not_taken_silently(key, given):
    """UI-02"""
    test = opened(**{key: [given, given]})
    assert f"{key} is given 2 times" in texts(test.warning)
    assert test.session_state.choice == usual()
    fine(test.number_input(key="seed").set_value(7).run())
    assert test.session_state.choice.spec.training.seed == 7


def test_widths_given_twice_fall_back_before_the_heads_are_looked_at():
    """UI-02"""
    test = opened(d_model=["32", "24"], n_heads="16")
    assert "d_model is given 2 times" in texts(test.warning)
    model = test.session_state.choice.spec.model
    assert (model.d_model, model.n_heads) == (64, 16)


@pytest.mark.parametrize(
    "query, said, used",
    [
        ({"d_model": "24", "n_heads": "5"}, "n_heads=5", {"n_heads": 4}),
        ({"d_model": "24", "n_heads": "8", "position": "rotary"}, "n_heads=8", {"n_heads": 6}),
    ],
)
def test_values_of_a_link_that_do_not_fit_together_are_named_and_the_nearest_used(
    query, said, used
):
    """XAT-03"""
    test = opened(**query)
    assert said in texts(test.warning) and "d_model/n_heads" in texts(test.warning)
    assert used.items() <= test.session_state.choice.spec.model.to_dict().items()


def test_a_warmup_as_long_as_the_run_is_named_and_replaced():
    """TRN-02"""
    test = opened(steps="50", warmup="100")
    assert "warmup=100: it must be below the steps" in texts(test.warning)
    assert test.session_state.choice.spec.training.warmup == 30


def test_fewer_steps_shorten_the_warmup_and_say_so():
    """TRN-02"""
    test = opened(warmup="100")
    fine(test.select_slider(key="steps").set_value(50).run())
    assert test.session_state.choice.spec.training.warmup == 30
    assert "Warmup steps 100 → 30" in texts(test.toast)


def test_the_note_about_a_link_goes_when_a_knob_is_turned():
    test = opened(d_model="abc")
    assert test.warning
    fine(test.select_slider(key="d_model").set_value(32).run())
    assert not test.warning


def test_the_smallest_width_leaves_few_heads_and_raises_nothing():
    """XUI-02"""
    test = opened(d_model="8", position="rotary")
    assert test.button_group(key="n_heads").options == ["1", "2", "4"]
    fine(test.select_slider(key="d_model").set_value(16).run())
    fine(test.button_group(key="n_heads").set_value(8).run())
    fine(test.select_slider(key="d_model").set_value(8).run())
    assert test.session_state.choice.spec.model.n_heads == 4
    assert "n_heads 8 → 4" in texts(test.toast)


def test_a_knob_with_one_choice_left_shows_it_and_raises_nothing():
    """XUI-02"""

    def page():
        import streamlit as st

        from playground.ui import controls as ui

        for key in ("n_heads", "warmup", "precision"):
            st.session_state.got = ui.EVERY[key].draw([ui.EVERY[key].default])

    test = fine(AppTest.from_function(page).run())
    assert "the only choice here" in texts(test.caption)
    assert test.session_state.got == "fp32"


def test_back_to_the_defaults_turns_every_knob_back():
    test = opened(d_model="32", scale="none", reverse_length="5", lr="0.01", probe="01234")
    fine(test.button(key="defaults").click().run())
    assert test.session_state.choice == usual()
    assert test.text_input(key="probe").value == ""


def test_a_ready_made_configuration_turns_its_switches_and_nothing_else():
    test = opened(d_model="32", scale="none", reverse_length="5", seed="7")
    fine(test.menu_button(key="ready_made").click("llama").run())
    spec = test.session_state.choice.spec
    ready = dict(READY_MADE["llama"].changes)
    assert {name: spec.value(name) for name in ready} == ready
    assert (spec.model.d_model, spec.model.scale, spec.training.seed) == (32, "none", 7)
    assert spec.task.length == 5


def test_a_ready_made_configuration_that_does_not_fit_the_other_knobs_is_corrected_in_words():
    test = opened(**SMALL | {"steps": "20", "d_model": "9", "n_heads": "3"})
    fine(test.menu_button(key="ready_made").click("llama").run())
    spec = test.session_state.choice.spec
    assert spec.training.warmup < 20 and spec.model.position != "rotary"
    assert "rotary positions turn pairs of columns" in texts(test.toast)
    assert "it must be below the steps" in texts(test.toast)


def test_ready_made_offers_what_the_task_has_a_form_for():
    names = opened(task="text").menu_button(key="ready_made").options
    assert names == [r.title for r in READY_MADE.values() if r.fits(TASKS["text"])]
    assert len(names) < len(READY_MADE)


def test_good_settings_are_offered_where_the_defaults_are_not_them():
    assert "good_settings" not in {button.key for button in opened(**SMALL).button}
    test = opened(task="text", text_length="8", d_model="16")
    fine(test.button(key="good_settings").click().run())
    spec = test.session_state.choice.spec
    assert all(spec.value(name) == value for name, value in GOOD_SETTINGS["text"][0])
    assert spec.model.d_model == 16
    assert "good_settings" not in {button.key for button in test.button}


# --- state ----------------------------------------------------------------------------------


def test_a_knob_keeps_its_value_when_its_page_is_left():
    """UI-01"""
    test = opened(**SMALL)
    fine(test.select_slider(key="n_layers").set_value(3).run())
    fine(test.switch_page("app_pages/source_code.py").run())
    fine(test.switch_page("app_pages/train.py").run())
    assert test.select_slider(key="n_layers").value == 3
    fine(test.button(key="step").click().run())
    assert test.session_state.controller.run.started.model.n_layers == 3


def test_a_head_and_a_layer_that_are_no_longer_there_are_forgotten():
    test = opened(d_model="16", n_heads="8", n_layers="2")
    fine(test.selectbox(key="head").select("head 8").run())
    fine(test.selectbox(key="layer").select("block 2").run())
    fine(test.button_group(key="n_heads").set_value(2).run())
    fine(test.select_slider(key="n_layers").set_value(1).run())
    assert test.selectbox(key="head").value in test.selectbox(key="head").options
    assert test.selectbox(key="layer").value == "block 1"


def test_play_pause_reset_and_the_verdict():
    test = opened(**SMALL | {"steps": "50000"})
    assert 'data-verdict="info"' in texts(test.html)
    fine(test.button(key="play").click().run())
    until(test, lambda test: steps(test) > 5)
    assert test.button(key="step").disabled
    fine(test.button(key="pause").click().run())
    until(test, lambda test: not test.session_state.controller.view.live)
    rested = steps(fine(test.run()))
    time.sleep(0.3)
    assert steps(fine(test.run())) == rested
    for _ in range(2):
        fine(test.button(key="reset").click().run())
        assert steps(test) == 0


def test_a_cold_change_after_a_run_keeps_its_curve_for_comparison():
    test = opened(**SMALL)
    fine(test.button(key="play").click().run())
    until(test, lambda test: steps(test) == 50 and not test.session_state.controller.view.live)
    fine(test.button_group(key="norm").set_value("pre").run())
    assert "norm post → pre" in texts(test.html) and "Press Play" in texts(test.html)
    (ghost,) = test.session_state.controller.ghosts
    assert len(ghost.view.loss) == 50 and steps(test) == 0


def test_an_example_of_ones_own_reaches_the_run_and_a_bad_one_is_explained():
    test = opened(**SMALL)
    fine(test.text_input(key="probe").set_value("0123456789").run())
    assert test.session_state.controller.spec.probe == "0123456789"
    assert not test.error
    fine(test.text_input(key="probe").set_value("hello").run())
    assert "Your example:" in texts(test.error) and "'h'" in texts(test.error)
    assert test.session_state.controller.spec.probe is None


def test_an_example_that_stands_in_the_link_is_shown_at_once():
    test = opened(probe="9876543210", **SMALL)
    frame = test.session_state.controller.frames(None)[-1]
    tokens = next(iter(frame.attention.values())).key_tokens
    assert "".join(tokens).startswith("9876543210")


def test_an_unknown_character_in_a_text_prompt_is_named_and_the_page_stays():
    """DAT-01"""
    test = opened(task="text", text_source="grammar", **SMALL)
    fine(test.text_input(key="probe").set_value("the 🙂").run())
    assert "🙂" in texts(test.error)
    fine(test.button(key="step").click().run())
    until(test, lambda test: steps(test) == 1)


def test_too_much_for_this_server_is_said_in_numbers_and_the_run_goes_on():
    test = opened(**SMALL | {"steps": "50000"}, task="copy", copy_length="32")
    fine(test.button(key="play").click().run())
    until(test, lambda test: steps(test) > 5)
    run = test.session_state.controller.run
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("playground.runs.limits.MAX_TOKENS", 1000)
        fine(test.select_slider(key="batch_size").set_value(256).run())
        assert "limit here is 1,000" in texts(test.error)
        fine(test.run())
        assert "limit here is 1,000" in texts(test.error), "it is said as long as it is so"
    assert test.session_state.controller.run is run
    fine(test.button(key="reset").click().run())


def test_two_visitors_have_a_controller_each():
    one, other = opened(**SMALL), opened(**SMALL)
    assert one.session_state.controller.owner != other.session_state.controller.owner


def test_a_width_that_the_default_heads_do_not_divide_opens_with_heads_that_do():
    page = opened(d_model="20", position="rotary")
    assert page.session_state["n_heads"] in (1, 2, 5, 10)


def test_at_its_end_a_run_is_not_begun_anew_by_one_step_too_many():
    test = opened(**SMALL)
    fine(test.button(key="play").click().run())
    until(test, lambda test: steps(test) == 50 and not test.session_state.controller.view.live)
    fine(test.run())
    assert test.button(key="play").label == "Play again"
    assert test.button(key="step").disabled
    # More steps are asked for: it can go on.
    fine(test.select_slider(key="steps").set_value(100).run())
    assert test.button(key="play").label == "Play"
    assert not test.button(key="step").disabled


def test_a_new_run_is_watched_as_it_goes_wherever_the_last_one_was_scrubbed_to():
    test = opened(**SMALL)
    fine(test.button(key="play").click().run())

    def slider() -> Slider:
        return test.session_state.channel.parts["scrubber"].part

    until(test, lambda test: slider().words[-1] == "step 50")
    kept = [frame.step for frame in test.session_state.controller.view.frames]
    assert slider().words == tuple(f"step {step}" for step in kept), (
        "it offers what there is to see"
    )
    test.session_state.shown_step = kept[3]
    fine(fine(test.run()).run())
    assert slider().value == kept[3], "it stays where it was put"
    assert numbers(test)["Step"] == f"{kept[3]} / 50"
    assert f'data-step="{kept[3]}"' in texts(test.html)
    fine(test.button(key="reset").click().run())
    assert slider().value == NEWEST


def test_the_head_that_is_shown_keeps_its_name_when_another_page_is_visited():
    test = opened(**SMALL)
    fine(test.selectbox(key="head").set_value("head 2").run())
    fine(test.switch_page("app_pages/history.py").run())
    fine(test.switch_page("app_pages/train.py").run())
    assert test.selectbox(key="head").value == "head 2"
    assert not test.warning
    assert "DeltaGenerator" not in str(dict(test.query_params))


def test_a_link_that_asks_for_too_much_is_refused_before_anything_is_built(monkeypatch):
    def build(*arguments):
        raise AssertionError("a model was built")

    monkeypatch.setattr("playground.runs.controller.Trainer", build)
    knobs = {"d_model": "256", "n_layers": "8", "batch_size": "128", "text_length": "512"}
    page = opened(task="text", **knobs)
    (error,) = page.error
    assert "the limit here is" in error.value and "batch_size=128" in error.value
