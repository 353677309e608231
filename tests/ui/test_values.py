"""A value as text: whatever one place writes, every place reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.__main__ import _parser
from core.knobs import as_text, from_text, kinds_of
from core.tasks import TASKS
from playground.experiments.scenarios import plain, read_changes
from playground.experiments.variants import parse
from playground.runs.spec import KNOBS, MODEL_KNOBS, TASK_KNOBS, TRAINING_KNOBS
from playground.ui.knob import Knob
from playground.ui.link import EVERY

TASK_OF = dict.fromkeys(MODEL_KNOBS | TRAINING_KNOBS, "reverse") | {
    name: task for task, knobs in TASK_KNOBS.items() for name in knobs
}


def spellings(name: str, value) -> list[str]:
    """Every way in which this value has ever been written."""
    if value is None:
        older = ["none", "off", "auto"]
    elif isinstance(value, bool):
        older = ["on", "true", "True"] if value else ["off", "false", "False"]
    else:
        older = [str(value), repr(value)] if isinstance(value, float) else [str(value)]
    return list(dict.fromkeys([as_text(KNOBS[name], value), *older]))


def in_a_scenario(name: str, value):
    """The base of a scenario with this value, or that it does not fit the other knobs."""
    knobs = {"task": TASK_OF.get(name, "reverse"), name: value}
    try:
        return plain().changed(read_changes(knobs))
    except ValueError:
        return "refused"


def ends(knob: Knob) -> list:
    """Every choice; of all whole numbers in a range the first, the last and the default."""
    choices = knob.choices
    return [choices[0], choices[-1], knob.default] if isinstance(choices, range) else list(choices)


@pytest.mark.parametrize(
    ("knob", "value"), [(knob, v) for knob in EVERY.values() for v in ends(knob)]
)
def test_every_spelling_of_every_value_is_read_everywhere(knob, value):
    task, _, name = knob.key.partition("_")
    name = name if task in TASKS else knob.key
    for text in spellings(name, value):
        assert knob.read(text) == value  # a link
        assert parse(f"{name}={text}") == ((name, value),)  # Compare
        if name != "seed":
            assert in_a_scenario(name, text) == in_a_scenario(name, value)
        if name in TASK_OF:
            flag = "--" + name.replace("_", "-")
            found = _parser(TASK_OF[name]).parse_args([flag, text])
            assert getattr(found, name) == value


@pytest.mark.parametrize("name", [name for name in KNOBS if float in kinds_of(KNOBS[name])])
@given(number=st.floats(0, 1e30))
def test_no_digit_of_a_number_is_lost(name, number):
    text = as_text(KNOBS[name], number)
    assert from_text(KNOBS[name], text) == number
    assert "+" not in text  # in a link that is a space


@pytest.mark.parametrize("item", KNOBS.values(), ids=KNOBS)
def test_two_values_never_share_a_word(item):
    words, choices = item.metadata["words"], item.metadata["choices"] or ()
    texts = [as_text(item, value) for value in {*words, *choices}]
    assert len(texts) == len(set(texts))
    assert all(words.get(text, text) == text for text in texts if text in choices)


@pytest.mark.parametrize("item", KNOBS.values(), ids=KNOBS)
def test_what_a_knob_cannot_hold_is_refused_with_what_it_can(item):
    for text in ("", "nonsense", "1_0"):
        with pytest.raises(ValueError, match=r"choose|expected a (whole )?number"):
            from_text(item, text)
