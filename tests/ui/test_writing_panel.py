"""The panel in which a model writes, on the Playground: the run's model, at the step asked for."""

import pytest

from core.tasks import TASKS
from helpers import SMALL, find, fine, opened, spec_for, texts, until
from playground.runs.writing import write
from playground.ui.run_panels import tabs_of
from playground.ui.writing_panel import writes

TEXT = SMALL | {"task": "text", "text_source": "grammar", "text_length": "12"}


def panel(**query):
    return opened("playground", {"details": "Write"}, **TEXT | query)


def said(test) -> str:
    return texts([*test.markdown, *test.error, *test.info])


def stepped(test, times: int = 1):
    for _ in range(times):
        done = test.session_state.controller.view
        n = 0 if done is None else len(done.loss)
        fine(test.button(key="step").click().run())
        controller = test.session_state.controller
        until(test, lambda _, c=controller, n=n: len(c.view.loss) == n + 1 and not c.view.live)
    return fine(test.run())


def written(test):
    return test.session_state["write written"][1]


@pytest.mark.parametrize("task", TASKS)
def test_a_decoder_that_learns_a_text_has_a_tab_to_write_in_and_no_other_model_has(task):
    for architecture in TASKS[task].architectures:
        spec = spec_for(TASKS[task](), architecture=architecture)
        assert writes(spec) == ("Write" in tabs_of(spec))
        assert writes(spec) == (task == "text" and architecture == "decoder")


def test_the_tab_gives_way_where_there_is_nothing_to_write():
    test = panel()
    assert "untrained model writes on" in said(test)
    find(test, "selectbox", "task").set_value("copy")
    fine(test.run())
    assert test.session_state.details == "Predictions"


def test_the_model_of_the_run_writes_with_the_rules_that_the_link_says():
    test = stepped(panel(write_prompt="the cat", write_temperature="0.3", write_seed="7"), 2)
    assert "The model of step 2 of 50 writes on" in said(test) and not test.warning
    controller = test.session_state.controller
    asked = test.session_state["write written"][0]
    prompt = controller.spec.task.prompt("decoder", "the cat")._replace(n_new=64)
    model = test.session_state["write model"].model
    assert written(test).ids == write(model, controller.spec.task, prompt, asked[5]).ids
    assert (asked[5].temperature, asked[5].seed) == (0.3, 7)


def test_whoever_opens_the_tab_before_the_first_step_can_ask_for_the_model_as_it_is_now():
    test = panel(steps="50000")
    fine(test.button(key="play").click().run())
    until(test, lambda test: any(button.key == "write_newer" for button in test.button))
    controller = test.session_state.controller
    until(test, lambda _: len(controller.view.loss) > 2)
    fine(test.button(key="write_newer").click().run())
    assert test.session_state["write model"].run is controller.run
    fine(test.button(key="pause").click().run())


def test_another_character_is_put_there_and_the_model_goes_on_from_it():
    test = stepped(panel(write_at="5"))
    before = written(test)
    find(test, "selectbox", "put_instead").set_value(3)
    fine(test.run())
    fine(test.button(key="write_go").click().run())
    after = written(test)
    assert after.ids[:4] == before.ids[:4] and after.ids[4] == before.alternatives[4][3]
    fine(test.button(key="write_restart").click().run())
    assert written(test).ids == before.ids


def test_a_paused_model_that_is_changed_writes_as_it_is_now_and_a_leak_has_no_surprise():
    test = stepped(panel(write_text="the cat"))
    assert "On average" in said(test)
    find(test, "button_group", "mask").set_value("none")
    fine(test.run())
    controller = test.session_state.controller
    until(test, lambda _: controller.view.changes and not controller.view.live)
    fine(test.run())
    assert test.session_state["write model"].turned == 1
    assert "no surprise to measure" in said(test) and "On average" not in said(test)


def test_a_model_without_finite_numbers_writes_nothing_and_says_so():
    test = stepped(panel())
    controller = test.session_state.controller
    controller.run.ask(lambda trainer: trainer.model.unembed.weight.data.fill_(float("nan")))
    test.session_state["write model"] = None
    fine(test.run())
    assert "no finite answer" in said(test)
    assert find(test, "text_input", "write_prompt") is not None


def test_a_prompt_that_the_model_cannot_read_is_named_and_nothing_is_lost():
    test = panel(write_prompt="Zebra", write_temperature="hot")
    assert "Prompt" in said(test) and "'Z'" in said(test)
    assert "write_temperature=hot" in texts(test.warning)
    assert find(test, "text_input", "write_prompt").value == "Zebra"


def test_a_redraw_of_the_page_writes_no_new_text():
    test = stepped(panel())
    kept = written(test)
    fine(test.run())
    assert written(test) is kept
