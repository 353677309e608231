"""A class on its page: what a teacher can do there, what a student can, and what neither can."""

import pytest
from streamlit.testing.v1 import AppTest

from helpers import find, fine, opened, spec_for, texts, until
from playground.classroom.database import CLASSES, NoSuchClass, Stage
from playground.runs.view import Record, Status

ANSWERS = ("It helps.", "It does not.")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PLAYGROUND_DATA", str(tmp_path / "data"))


@pytest.fixture
def taught() -> tuple[str, str]:
    return CLASSES.open()


def browser(name: str) -> dict[str, str]:
    """The session of a browser that keeps this id."""
    return {"visitor_id": name}


def student(code: str, name: str) -> AppTest:
    """A student who has joined."""
    page = opened("class", browser(name), **{"class": code})
    if find(page, "text_input", "nickname"):
        find(page, "text_input", "nickname").set_value(name.title())
        button(page, "Join").click()
        fine(page.run())
    return page


def teacher(code: str, secret: str, part: str = "Vote") -> AppTest:
    return opened("class", {"class_part": part}, **{"class": code, "teacher": secret})


def button(page: AppTest, label: str):
    """The button of this label; None where there is none."""
    return next((b for b in page.button if b.label == label), None)


def code_in(page: AppTest) -> str:
    """The code in the address."""
    found = page.query_params["class"]
    return found if isinstance(found, str) else found[0]


def press(page: AppTest, key: str) -> AppTest:
    find(page, "button", key).click()
    return fine(page.run())


def everything(page: AppTest) -> str:
    """All that a browser is sent of a page."""
    return str(page.main) + str(page.sidebar) + texts(page.html)


def test_a_class_is_opened_joined_and_asked_and_the_votes_count():
    page = press(opened("class", browser("teacher")), "open_class")
    code = code_in(page)
    secret = page.session_state["class_secrets"][code]
    ada, bob = student(code, "ada"), student(code, "bob")
    find(page, "button_group", "class_part").set_value("Vote")
    fine(page.run())
    find(page, "text_area", "class_claim").set_value("Width helps.")
    find(page, "text_area", "class_answers").set_value("\n".join(ANSWERS))
    fine(page.run())
    press(page, "ask_claim")
    for voter, key in ((ada, "answer_0"), (bob, "answer_0"), (bob, "answer_1")):
        press(fine(voter.run()), key)
    assert CLASSES.for_teacher(code, secret).poll.counts == (1, 1)
    assert texts(fine(page.run()).html).count("<b>1</b>") == 2
    press(page, "close_vote")
    assert find(fine(ada.run()), "button", "answer_0") is None
    press(page, "happened_1")
    assert [b.happened for b in (CLASSES.for_student(code, n).poll for n in ("ada", "bob"))] == [
        1
    ] * 2
    assert 'data-answer="1" data-happened' in texts(fine(bob.run()).html)
    find(page, "button_group", "class_part").set_value("Join")
    press(fine(page.run()), "end_class")
    with pytest.raises(NoSuchClass):
        CLASSES.check(code)
    assert find(fine(page.run()), "button", "open_class")
    assert find(fine(ada.run()), "text_input", "typed_code")


def test_the_secret_leaves_the_address_and_no_student_s_page_holds_it(taught):
    code, secret = taught
    page = teacher(code, secret, "Join")
    assert "teacher" not in page.query_params
    assert find(page, "button", "end_class")
    CLASSES.put(code, secret, "Width helps.", ANSWERS)
    seen = student(code, "ada")
    assert secret not in everything(seen)


@pytest.mark.parametrize("forged", ["", "x", "0" * 32, "CODE"])
def test_a_forged_secret_makes_no_teacher(taught, forged):
    """In the address, and in a session that says that it is one."""
    code, secret = taught
    poll = CLASSES.put(code, secret, "Width helps.", ANSWERS)
    forged = forged.replace("CODE", code)
    by_link = teacher(code, forged)
    by_session = opened("class", {"class_secrets": {code: forged}}, **{"class": code})
    joined = student(code, "ada")
    joined.session_state["class_secrets"] = {code: forged}
    fine(joined.run())
    for page in (by_link, by_session, joined):
        keys = {b.key for b in page.button}
        assert not keys & {"close_vote", "end_class", "put_away", "ask_claim", "ask_scenario"}
        assert not page.get("download_button") and not page.get("multiselect")
    assert CLASSES.for_teacher(code, secret).poll.id == poll
    assert CLASSES.for_teacher(code, secret).poll.stage is Stage.OPEN


def test_a_nickname_is_shown_as_it_was_typed(taught):
    code, secret = taught
    name = "<img src=x> **b**"
    CLASSES.join(code, "ada", name)
    page = teacher(code, secret, "Students")
    assert r"\<img" in texts(page.markdown) and r"\*\*b" in texts(page.markdown)


@pytest.mark.parametrize("code", ["ZZZZZ", "<b>", "A" * 500])
def test_a_link_to_no_class_is_said_and_leads_on(code):
    page = opened("class", **{"class": code})
    assert "There is no class" in texts(page.info)
    assert find(page, "button", "open_class") and "class" not in page.query_params


def test_a_code_that_is_typed_leads_to_its_class(taught):
    page = opened("class", browser("ada"))
    find(page, "text_input", "typed_code").set_value(f" {taught[0].lower()} ")
    button(page, "Go to the class").click()
    fine(page.run())
    assert find(page, "text_input", "nickname")


def test_who_comes_back_is_still_in(taught):
    code, _ = taught
    student(code, "ada")
    again = opened("class", browser("ada"))
    assert code_in(again) == code and not find(again, "text_input", "nickname")


def test_a_scenario_trains_before_the_class_and_its_outcome_stands_beside_the_votes(
    taught, monkeypatch
):
    """A quick one: the outcome is what the scenario itself reads off the runs."""
    from playground.experiments import scenarios

    quick = scenarios.read(QUICK)
    monkeypatch.setattr(scenarios, "load", lambda *path: quick)
    code, secret = taught
    page = teacher(code, secret)
    press(page, "ask_scenario")
    voter = press(student(code, "ada"), "answer_1")
    press(page, "close_vote")
    press(page, "play")
    assert CLASSES.for_student(code, "ada").poll.stage is Stage.RUNNING
    until(page, lambda page: CLASSES.for_student(code, "ada").poll.stage is Stage.OVER)
    seen = CLASSES.for_student(code, "ada").poll
    assert (seen.happened, seen.counts) == (0, (0, 1))
    assert "of 1" in texts(fine(voter.run()).markdown) or "wrong" in texts(voter.markdown)
    press(page, "put_away")
    assert CLASSES.for_student(code, "ada").poll is None


QUICK = """
[quick]
title = "Quick"
question = "Does one step take one step?"
change = "Nothing that matters."
watch = "Nothing."
why = "It ended at {loss of one}."
name = "one"
base = { task = "copy", length = 3, d_model = 16, n_layers = 1, batch_size = 4, steps = 3 }
variants."two" = { scale = "none" }
seeds = 1
expected = "yes"
[quick.outcomes.yes]
say = "Yes."
when = [{ what = "lasted", of = "one", above = 2.5, below = 3.5 }]
[quick.outcomes.no]
say = "No."
"""


# --- the board --------------------------------------------------------------------------------


def tried(code: str, name: str, losses: dict[float, float]) -> None:
    """Finished runs of a member: learning rate -> loss."""
    CLASSES.join(code, name, name)
    for lr, loss in losses.items():
        spec = spec_for(lr=lr)
        record = Record()
        record._steps.append(loss, lr, 1.0)
        view = record.view(
            status=Status.DONE, spec=spec, message="", queue_position=None, busy=False
        )
        assert CLASSES.add_point(name, f"{name}{lr}", spec, view)


def test_an_entry_of_the_board_says_how_it_differs_and_opens_in_the_playground(taught):
    code, secret = taught
    tried(code, "ada", {0.001: 2.0, 0.01: 1.0, 0.1: 3.0})
    CLASSES.set_up(code, secret, spec_for())
    page = teacher(code, secret, "Board")
    press(page, "board_best_0")
    assert "lr 0.001 → 0.01" in texts(page.markdown) and "ada" in texts(page.markdown)
    press(page, "board_open")
    fine(page.run())
    assert page.session_state["lr"] == 0.01 and page.session_state["task"] == "copy"


def test_a_student_sees_the_board_when_it_is_shown_and_only_what_it_shows(taught):
    code, secret = taught
    tried(code, "bob", {0.01: 1.0})
    page = student(code, "ada")
    assert not find(page, "button", "board_best_0")
    CLASSES.show_board(code, secret, True)
    CLASSES.hide(code, secret, [m.id for m in CLASSES.for_teacher(code, secret).members])
    fine(page.run())
    assert find(page, "button", "board_best_0") and "bob" not in everything(page)
    assert not page.get("download_button") and find(page, "toggle", "board_shown") is None


def test_a_student_s_playground_says_that_the_class_sees_its_runs(taught):
    code, _ = taught
    CLASSES.join(code, "ada")
    assert any(code in link.proto.label for link in opened("", browser("ada")).get("page_link"))
    assert not any(code in link.proto.label for link in opened("", browser("b")).get("page_link"))
