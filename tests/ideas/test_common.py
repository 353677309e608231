"""The pages of the ideas without a browser: every control is turned, and nothing raises."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import playground
from helpers import find, fine, opened, texts, until
from playground.ideas.residuals import measure as residuals
from playground.ideas.scaling import measure as scaling
from playground.runs.view import LAST
from playground.ui.page_list import IDEAS

ROOT = Path(playground.__file__).parent
FILES = {"__init__.py", "page.py", "measure.py", "figures.py"}
PICKED = 3  # values of a control that are tried: the first, one in the middle, the last
CHOICES = ("button_group", "select_slider", "selectbox", "radio")


def controls_of(test: AppTest, name: str) -> dict[str, str]:
    """Key -> kind, of every control that is the page's own."""
    kinds = (*CHOICES, "toggle", "slider", "number_input", "text_input", "text_area", "button")
    return {
        element.key: kind
        for kind in kinds
        for element in test.get(kind)
        if element.key and element.key.startswith(f"{name}_")
    }


def values(element, kind: str) -> list:
    """Values to try, the present one last: so the next control starts from where it was."""
    if kind == "toggle":
        return [not element.value, element.value]
    if kind in CHOICES:
        count = len(element.options)
        picked = sorted({round(i * (count - 1) / max(PICKED - 1, 1)) for i in range(PICKED)})
        return [*picked, None]
    if kind in ("slider", "number_input"):
        return [element.min, element.max, element.value]
    return ["the cat saw the dog", "", "x" * 400, element.value]


@pytest.fixture
def short_sweeps(monkeypatch) -> None:
    """Curves over three sizes; their own tests measure them all."""
    every_width = scaling.widths
    monkeypatch.setattr(
        scaling, "widths", lambda n_heads: [d for d in every_width(n_heads) if d in (2, 64, 128)]
    )
    monkeypatch.setattr(residuals, "DEPTHS", (1, 2, 8))


@pytest.mark.parametrize("name", IDEAS)
def test_a_page_claims_measures_and_explains_and_every_control_can_be_turned(name, short_sweeps):
    test = opened(name)
    look_at(test, name)
    found = controls_of(test, name)
    assert len([kind for kind in found.values() if kind != "button"]) >= 2, "there is a choice"
    for key, kind in found.items():
        element = find(test, kind, key)
        if kind == "button":
            fine(element.click().run())
            continue
        assert element.help, key
        before = element.value
        for value in values(element, kind):
            if (element := find(test, kind, key)) is None:
                break  # another choice has taken it from the page
            if kind in CHOICES:
                choose(element, kind, value, before)
            else:
                element.set_value(value)
            fine(test.run())


def look_at(test: AppTest, name: str) -> None:
    """A claim, a measurement, the formula and the code that ran stand on the page."""
    assert any(IDEAS[name].title in element.value for element in test.header)
    assert "<p data-claim" in texts(test.html), "what is claimed"
    shown = [element.value for element in test.code]
    files = [path.read_text() for path in Path(ROOT.parent, "core").rglob("*.py")]
    assert shown
    for source in shown:
        first = source.strip().splitlines()[0]
        assert any(first in file for file in files), first
    assert test.latex, "the formula"


def choose(element, kind: str, index: int | None, before) -> None:
    """Choose by index; None is what was chosen before."""
    if index is None:
        element.set_value(before)
    else:
        element.set_value(element.options[index])


@pytest.mark.parametrize("name", IDEAS)
def test_an_idea_is_a_folder_of_three_files(name):
    page = ROOT / IDEAS[name].file
    assert {path.name for path in page.parent.glob("*.py")} == FILES
    assert (Path(__file__).parent / f"test_{page.parent.name}.py").exists()
    page = page.read_text()
    assert "import torch" not in page and "plotly" not in page


def test_a_link_sets_the_knobs_of_a_page_and_an_impossible_value_is_named():
    test = opened("scaling", scaling_by="√d_k", scaling_init="gpt2", scaling_width="256")
    assert not test.warning
    assert find(test, "button_group", "scaling_init").value == "gpt2"
    assert find(test, "button_group", "scaling_width").value == 256
    test = opened("scaling", scaling_init="zeros", scaling_width="3")
    said = texts(test.warning)
    assert "scaling_init=zeros" in said and "xavier, gpt2, torch" in said
    assert "scaling_width=3" in said
    assert find(test, "button_group", "scaling_init").value == "xavier"
    assert find(test, "button_group", "scaling_width").value == 128


def test_capitals_in_a_link_do_not_matter():
    test = opened("tricks", tricks_which="precision")
    assert find(test, "button_group", "tricks_which").value == "Precision"
    assert not test.warning


def test_a_knob_that_limits_another_takes_it_along():
    test = opened("scaling", scaling_width="256")
    find(test, "button_group", "scaling_heads").set_value(8)
    fine(test.run())
    assert find(test, "button_group", "scaling_width").value == 32


def test_the_training_of_a_page_runs_pauses_and_is_reset():
    test = opened("scaling")
    fine(test.button(key="play").click().run())
    runs = test.session_state.idea_runs["scaling"]
    until(test, lambda test: all(len(run.view().loss) > LAST for run in runs.all_runs()))
    said = texts(fine(test.run()).html)
    assert 'data-verdict="one seed"' in said, "the comparison says what it sees"
    assert {run.view().spec.model.scale for run in runs.all_runs()} == {"sqrt_d_head", "none"}
    fine(test.button(key="pause").click().run())
    until(test, lambda test: not runs.live)
    # Another initialisation is another question: the old curves are not its answer.
    find(test, "button_group", "scaling_init").set_value("gpt2")
    fine(test.run())
    assert "has changed" in texts(test.caption)
    fine(test.button(key="reset").click().run())
    assert not runs.all_runs()


@pytest.mark.parametrize("name", IDEAS)
def test_each_page_draws_what_its_runs_show_while_they_train_and_when_they_pause(name):
    test = opened(name)
    fine(test.button(key="play").click().run())
    (runs,) = test.session_state.idea_runs.values()
    until(
        test,
        lambda test: all(
            run.view().frames and run.view().val_steps.size for run in runs.all_runs()
        ),
    )
    fine(test.run())
    fine(test.button(key="pause").click().run())
    until(test, lambda test: not runs.live)
    fine(test.run())
    # What has not changed is not made again.
    pictures: list[int] = []
    until(
        test,
        lambda test: (
            pictures.append(test.session_state.channel.number) or pictures[-2:-1] == pictures[-1:]
        ),
    )


def test_what_is_chosen_on_the_page_makes_its_moving_picture_again():
    test = opened("heads", heads_layers="1", heads_d_model="16")
    maps = [test.session_state.channel.parts["heads_maps"].body]
    for head in (1, 2):
        find(test, "button_group", "heads_which").set_value(head)
        maps.append(fine(test.run()).session_state.channel.parts["heads_maps"].body)
    assert maps[0] == maps[2] != maps[1], "the chosen head is marked"


def test_a_training_can_be_taken_to_the_compare_page():
    test = opened("scaling", scaling_init="gpt2")
    fine(test.button(key="scaling_compare").click().run())
    assert test.session_state.variants == "scale=none"
    model = test.session_state.choice.spec.model
    assert (model.init, model.d_model, model.n_heads) == ("gpt2", 128, 1)


@pytest.mark.parametrize(
    "name, choice, what",
    [
        ("heads", {"heads_d_model": "16", "heads_layers": "1"}, "The loss on validation rows is"),
        ("depth", {"depth_layers": "2"}, "without one of its blocks"),
    ],
)
def test_what_was_learnt_is_measured_once_the_runs_are_paused(name, choice, what):
    test = opened(name, **choice)
    fine(test.button(key="play").click().run())
    runs = test.session_state.idea_runs[name]
    until(test, lambda test: all(len(run.view().loss) > 5 for run in runs.all_runs()))
    assert what not in texts([*test.markdown, *test.html])
    fine(test.button(key="pause").click().run())
    until(test, lambda test: what in texts([*test.markdown, *test.html]))
    # It is kept: another rerun does not measure again.
    kept = dict(test.session_state[f"{name} measured"])
    fine(test.run())
    assert test.session_state[f"{name} measured"] == kept and kept


def test_a_training_on_another_page_takes_the_room_of_the_last_one():
    test = opened("scaling")
    fine(test.button(key="play").click().run())
    first = test.session_state.idea_runs["scaling"]
    until(test, lambda test: all(len(run.view().loss) for run in first.all_runs()))
    fine(test.switch_page("ideas/residuals/page.py").run())
    assert first.all_runs(), "it goes on while another page is looked at"
    fine(test.button(key="play").click().run())
    assert not first.all_runs()
    assert len(test.session_state.idea_runs["depth"].all_runs()) == 2
