"""Tasks: the obvious slow way of making each answer is the oracle."""

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import ModelConfig, TrainConfig
from core.tasks import IGNORED, PAD, TASKS, Task, task_from_dict
from core.tasks.gaps import Gaps
from core.tasks.grammar import START, grammar
from core.tasks.question import QuestionTask
from core.tasks.sequences import SequenceTask
from core.tasks.sources import MAX_TEXT_BYTES, MAX_VOCAB, Corpus, decode_upload, docs_text
from core.tasks.text import Text
from core.tasks.translation import Translation
from core.train import Trainer

OWN = "the quick brown fox jumps over the lazy dog.\n" * 8

SEQUENCES = [name for name, task in TASKS.items() if issubclass(task, SequenceTask)]
EXAMPLES = [
    *[TASKS[name](vary=vary) for name in SEQUENCES for vary in (False, True)],
    TASKS["recall"](),
    TASKS["recall"](symbols=3, length=5),
    TASKS["distance"](distance=5),
    TASKS["distance"](distance=9, mixed=True),
    TASKS["add"](),
    TASKS["add"](symbols=16, length=8),
    TASKS["dates"](),
    TASKS["numbers"](),
    Text(),
    Text(source="grammar", length=33),
    Text(source="own", text=OWN, length=16),
    Gaps(),
    Gaps(source="docs", length=20, share=0.5, hidden=0.5, swapped=0.5),
]
FORMS = [(task, architecture) for task in EXAMPLES for architecture in task.architectures]
QUESTIONS = [(task, architecture) for task, architecture in FORMS if isinstance(task, QuestionTask)]
OF_QUESTIONS = [task for task in EXAMPLES if isinstance(task, QuestionTask)]
COUNTABLE = [task for task in OF_QUESTIONS if not isinstance(task, Translation)]  # and quick
TINY = [
    *[
        TASKS[name](symbols=symbols, length=length, vary=vary)
        for name in SEQUENCES
        for symbols in (2, 3)
        for length in (2, 3)
        for vary in (False, True)
    ],
    *[TASKS["recall"](symbols=symbols, length=2) for symbols in (2, 3)],
    *[TASKS["distance"](symbols=3, distance=2, mixed=mixed) for mixed in (False, True)],
    *[TASKS["add"](symbols=symbols, length=1) for symbols in (2, 3)],
    TASKS["numbers"](length=3),
]
TINY_FORMS = [(task, architecture) for task in TINY for architecture in task.architectures]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def named(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def same(first, second) -> bool:
    return len(first.inputs) == len(second.inputs) and all(
        torch.equal(a, b)
        for a, b in zip(
            (*first.inputs, first.targets), (*second.inputs, second.targets), strict=True
        )
    )


def tokens(task: Task, ids: torch.Tensor) -> list[str]:
    """The raw tokens of one row."""
    return [task.vocabulary[i] for i in ids.tolist()]


def test_every_task_has_an_example():
    assert {task.name for task in EXAMPLES} | {"images"} == set(TASKS)  # see test_images


# --- the slow way: an answer from a question, both as strings ---------------------------------


def in_base(number: int, base: int, width: int) -> str:
    digits = "0123456789abcdef"
    return "".join(digits[number // base**place % base] for place in reversed(range(width)))


def spoken(number: int) -> str:
    """A number below a million, by the groups of three that English speaks it in."""
    small = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    small = [*small.split(), *(f"{stem}teen" for stem in ("fif", "six", "seven", "eigh", "nine"))]
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

    def group(n: int) -> list[str]:
        hundreds, rest = divmod(n, 100)
        said = [small[hundreds - 1], "hundred"] if hundreds else []
        if rest >= 20:
            said += [tens[rest // 10 - 2]]
            rest %= 10
        return said + [small[rest - 1]] * (rest > 0)

    thousands, rest = divmod(number, 1000)
    said = [*group(thousands), "thousand"] if thousands else []
    return " ".join(said + group(rest)) or "zero"


SPOKEN = [spoken(number) for number in range(100_000)]


def day_of(text: str) -> datetime:
    """A date in any of the forms, read by the standard library alone."""
    text = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", text).removeprefix("the ").replace(" of", "")
    for form in ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%d %B, %Y", "%d/%m/%Y", "%d.%m.%Y"):
        with suppress(ValueError):
            return datetime.strptime(text, form)
    for form in ("%d/%m/%y", "%d-%b-%y"):
        with suppress(ValueError):
            day = datetime.strptime(text, form)  # two digits from 69 on are 19yy there
            return day.replace(year=day.year - 100) if day.year >= 2050 else day
    raise ValueError(text)


def answer_of(task: Task, question: str) -> str:
    if task.name == "copy":
        return question
    if task.name == "reverse":
        return question[::-1]
    if task.name == "sort":
        return "".join(sorted(question))
    if task.name == "recall":
        pairs, asked = question.split("→")
        return dict(zip(pairs[::2], pairs[1::2], strict=True))[asked]
    if task.name == "distance":
        (value,) = (token for token in question if token.isdigit())
        return value
    if task.name == "dates":
        return f"{day_of(question):%Y-%m-%d}■"
    if task.name == "numbers":
        return f"{SPOKEN.index(question)}■"
    first, second = question.removesuffix("=").split("+")
    total = int(first, task.symbols) + int(second, task.symbols)
    return in_base(total, task.symbols, task.length + 1)


def sizes(task: Task) -> tuple[int, int]:
    """Tokens in the longest question and the longest answer, where rows are padded."""
    if task.name == "dates":
        return len("the 22nd of September, 2031"), len("2031-09-22■")
    if task.name == "numbers":
        return {3: 4, 5: 7}[task.length], task.length + 1
    if task.name == "distance":
        return task.distance + 2, 1
    return task.length, task.length


def expected_row(task: Task, architecture: str, question: str) -> tuple[list[list[str]], list]:
    """Inputs and labels (None where nothing is asked) of one row, written out by hand."""
    answer = answer_of(task, question)
    read = question.split(" ") if task.name == "numbers" else question
    sequence = task.name in SEQUENCES or task.name in ("dates", "numbers")
    wide, long = sizes(task)
    missing = [(wide - len(read)) * sequence, (long - len(answer)) * sequence]
    padded, labels = [*read, *["<pad>"] * missing[0]], [*answer, *[None] * missing[1]]
    answer_in = ["<pad>" if label is None else label for label in labels[:-1]]
    start = "=" if task.name == "add" else "→"
    if architecture == "encoder-decoder":
        return [padded, [start, *answer_in]], labels
    if architecture == "decoder":
        before = [*padded, start] if sequence else padded
        return [[*before, *answer_in]], [None] * (len(before) - 1) + labels
    if sequence:
        return [padded], labels
    slots = ["_"] * len(answer) if task.name == "add" else []
    unasked = len(padded) + len(slots) - len(answer)
    return [[*padded, *slots]], [None] * unasked + labels


def question_of(task: Task, inputs: tuple[torch.Tensor, ...]) -> str:
    """Read the question back from the first row."""
    row = [token for token in tokens(task, inputs[0][0]) if token not in ("<pad>", "_")]
    if task.name == "numbers":
        return " ".join(row[: row.index("→")] if "→" in row else row)
    text = "".join(row)
    if task.name == "add":
        return text[: text.index("=") + 1]
    if task.name in ("recall", "distance"):
        return text[: text.index("→") + (2 if task.name == "recall" else 1)]
    return text.split("→")[0]


# --- every task -------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "architecture"), FORMS, ids=named)
class TestEveryForm:
    def test_batches_are_cpu_ids_of_the_right_shape(self, task, architecture):
        for batch in (task.batch(architecture, 7, generator()), task.validation(architecture, 7)):
            assert len(batch.inputs) == (2 if architecture == "encoder-decoder" else 1)
            for tensor in (*batch.inputs, batch.targets):
                assert tensor.dtype == torch.int64 and tensor.device.type == "cpu"
                assert tensor.is_contiguous() and len(tensor) == 7
            assert batch.targets.shape == batch.inputs[-1].shape
            assert max(t.shape[1] for t in batch.inputs) == task.max_len(architecture)
            for ids in batch.inputs:
                assert ids.min() >= 0 and ids.max() < task.vocab_size
            scored = batch.targets[batch.targets != IGNORED]
            assert len(scored) > 0 and scored.min() > PAD and scored.max() < task.vocab_size
            # Every row asks something, so no batch has an empty mean.
            assert (batch.targets != IGNORED).any(1).all()

    def test_the_generator_alone_decides(self, task, architecture):
        """CON-04"""
        alone, first, second = generator(1), generator(1), generator(2)
        expected = [task.batch(architecture, 5, alone) for _ in range(3)]
        before = torch.get_rng_state()
        for wanted in expected:
            torch.rand(3)
            found = task.batch(architecture, 5, first)
            other = task.batch(architecture, 5, second)
            assert same(found, wanted) and not same(other, wanted)
        torch.set_rng_state(before)
        task.batch(architecture, 5, first)
        task.validation(architecture, 5)
        task.probe(architecture)
        assert torch.equal(torch.get_rng_state(), before)

    def test_validation_and_probe_never_change(self, task, architecture):
        assert same(task.validation(architecture), task.validation(architecture))
        again = task_from_dict(task.to_dict(), text=getattr(task, "text", "") or None)
        assert same(task.validation(architecture), again.validation(architecture))
        assert same(task.probe(architecture), again.probe(architecture))
        assert len(task.probe(architecture).targets) == 1

    def test_the_decoder_input_is_the_shifted_target(self, task, architecture):
        """TRN-06"""
        batch = task.batch(architecture, 16, generator())
        if architecture == "encoder":
            return
        read, asked = batch.inputs[-1], batch.targets
        known = asked[:, :-1] != IGNORED
        # What is asked at t is read at t + 1, so a causal model cannot have seen it.
        after = asked[:, 1:] != IGNORED
        assert torch.equal(read[:, 1:][known & after], asked[:, :-1][known & after])

    def test_a_prompt_is_what_stands_before_the_answer(self, task, architecture):
        prompt, probe = task.prompt(architecture), task.probe(architecture)
        for ids in prompt.inputs:
            assert ids.shape[0] == 1 and ids.dtype == torch.int64
            assert 1 <= ids.shape[1] <= task.max_len(architecture)
        if architecture == "encoder":
            assert prompt.n_new == 0 and torch.equal(prompt.inputs[0], probe.inputs[0])
        elif task.name != "text":
            asked = int((probe.targets != IGNORED).sum())
            ends = "■" in task.vocabulary  # then it is for the model to find out how long
            assert prompt.n_new == (sizes(task)[1] if ends else asked)
            assert prompt.end == (task.vocab_size - 1 if ends else PAD)
            for given_ids, whole in zip(prompt.inputs, probe.inputs, strict=True):
                assert torch.equal(given_ids, whole[:, : given_ids.shape[1]])
            room = prompt.inputs[-1].shape[1] + prompt.n_new - 1
            assert room <= task.max_len(architecture)

    def test_chance_is_ordered(self, task, architecture):
        chance = task.chance(architecture)
        assert chance.uniform == math.log(task.vocab_size)
        assert 0 < chance.blind < chance.uniform
        floor = task.floor(ModelConfig.for_task(task, architecture=architecture))
        assert floor is None or 0 <= floor < chance.blind


@pytest.mark.parametrize("task", EXAMPLES, ids=named)
def test_a_task_survives_a_trip_through_a_dict(task):
    again = task_from_dict(task.to_dict(), text=getattr(task, "text", "") or None)
    assert again == task and hash(again) == hash(task) and again.vocabulary == task.vocabulary
    assert all(isinstance(value, (str, int, float, bool)) for value in task.to_dict().values())


@pytest.mark.parametrize("task", EXAMPLES, ids=named)
def test_vocabulary_is_unique_and_starts_with_padding(task):
    assert task.vocabulary[PAD] == "<pad>"
    assert len(set(task.vocabulary)) == task.vocab_size
    assert task.decode([PAD, IGNORED]) == ["·", "·"]
    every = list(range(1, task.vocab_size))
    assert task.encode(task.join(every)) == every


def test_space_and_newline_are_drawn_visibly():
    task = Text()
    assert task.decode(task.encode("a \n")) == ["a", "␣", "⏎"]
    assert task.decode(torch.tensor([task.encode("a \n")])) == ["a", "␣", "⏎"]


def test_default_sizes_of_reverse():
    task = TASKS["reverse"]()
    assert task.max_len("decoder") == 20 and task.vocab_size == 12
    assert task.chance("decoder").blind == pytest.approx(math.log(10))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: TASKS["reverse"](symbols=1), ("symbols=1", "at least 2")),
        (lambda: TASKS["reverse"](length=65), ("length=65", "at most 64")),
        (lambda: TASKS["add"](symbols=17), ("symbols=17", "at most 16")),
        (lambda: Text(source="web"), ("source='web'", "docs, grammar, own")),
        (lambda: Text(source="own"), ("own", "needs a text")),
        (lambda: Text(source="docs", text="abc"), ("docs", "takes no text")),
        (lambda: task_from_dict({"task": "rhyme"}), ("rhyme", "reverse")),
        (lambda: task_from_dict({"task": "copy", "digits": 3}), ("digits", "symbols")),
        (lambda: TASKS["copy"].from_dict({"task": "sort"}), ("sort", "copy")),
        (lambda: Text().batch("encoder", 1, generator()), ("encoder", "text", "causal mask")),
        (lambda: TASKS["copy"]().probe("diffusion"), ("diffusion", "encoder-decoder")),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(build, words):
    with pytest.raises(ValueError) as error:
        build()
    assert all(word in str(error.value) for word in words), str(error.value)


# --- questions and answers --------------------------------------------------------------------


@pytest.mark.parametrize(("task", "architecture"), QUESTIONS, ids=named)
def test_answers_equal_the_naive_ones(task, architecture):
    for batch in (task.batch(architecture, 40, generator()), task.validation(architecture, 40)):
        for row in range(40):
            inputs = tuple(ids[row : row + 1] for ids in batch.inputs)
            question = question_of(task, inputs)
            wanted_inputs, wanted_labels = expected_row(task, architecture, question)
            assert [tokens(task, ids[0]) for ids in inputs] == wanted_inputs
            labels = [
                None if i == IGNORED else task.vocabulary[i] for i in batch.targets[row].tolist()
            ]
            assert labels == wanted_labels


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(SEQUENCES),
    symbols=st.integers(2, 36),
    length=st.integers(2, 64),
    vary=st.booleans(),
    architecture=st.sampled_from(["decoder", "encoder", "encoder-decoder"]),
)
def test_sequences_of_any_size_are_right(name, symbols, length, vary, architecture):
    task = TASKS[name](symbols=symbols, length=length, vary=vary)
    batch = task.batch(architecture, 3, generator(length))
    for row in range(3):
        inputs = tuple(ids[row : row + 1] for ids in batch.inputs)
        question = question_of(task, inputs)
        assert (length + 1) // 2 <= len(question) <= length and (vary or len(question) == length)
        wanted, _ = expected_row(task, architecture, question)
        assert [tokens(task, ids[0]) for ids in inputs] == wanted


@settings(max_examples=40, deadline=None)
@given(base=st.integers(2, 16), length=st.integers(1, 8), data=st.data())
def test_sums_of_any_size_are_right(base, length, data):
    task = TASKS["add"](symbols=base, length=length)
    numbers = st.integers(0, base**length - 1)
    first, second = (in_base(data.draw(numbers), base, length) for _ in range(2))
    probe = task.probe("encoder-decoder", f"{first} + {second} =")
    assert "".join(tokens(task, probe.targets[0])) == answer_of(task, f"{first}+{second}=")


@pytest.mark.parametrize("task", [*TINY, *OF_QUESTIONS], ids=named)
def test_training_never_draws_a_validation_question(task):
    def questions(batch):
        return {tuple(row) for row in batch.inputs[0].tolist()}

    training, drawn = set(), generator()
    for _ in range(5):
        training |= questions(task.batch("encoder-decoder", 200, drawn))
    validation = questions(task.validation("encoder-decoder"))
    assert training and validation and not training & validation


def test_a_date_is_held_out_in_all_its_forms():
    task = TASKS["dates"]()
    met, drawn = set(), generator()
    for _ in range(5):
        met |= {tuple(row) for row in task.batch("decoder", 500, drawn).targets.tolist()}
    asked = {tuple(row) for row in task.validation("decoder").targets.tolist()}
    assert len(met) > 2000 and len(asked) > 200 and not met & asked
    one_day = [f"the 2nd of May, {y}" for y in range(1950, 2050)]
    for text in one_day:
        day = day_of(text)
        forms = [text, f"2/5/{day:%y}", f"02/05/{day:%Y}", f"2-May-{day:%y}", f"{day:2 May %Y}"]
        held = task.is_held_out(torch.cat([task.parse(form) for form in forms]))
        assert held.all() or not held.any()


def test_numbers_below_a_hundred_are_always_taught():
    task = TASKS["numbers"]()
    held = task.is_held_out(torch.cat([task.parse(SPOKEN[n]) for n in range(1000)]))
    assert not held[:100].any() and 0.05 < float(held[100:].double().mean()) < 0.25


@pytest.mark.parametrize(("name", "draws"), [("reverse", 20_000), ("dates", 3_000)])
def test_about_an_eighth_is_held_out(name, draws):
    task = TASKS[name]()
    share = task.is_held_out(task.draw(draws, generator())).double().mean()
    assert share == pytest.approx(1 / 8, abs=0.02)


@pytest.mark.parametrize("task", TINY, ids=named)
def test_both_sides_of_a_tiny_space_hold_questions(task):
    held_out = task.is_held_out(task.draw(2_000, generator()).unique(dim=0))
    assert 0 < int(held_out.sum()) < len(held_out)


@pytest.mark.parametrize(("task", "architecture"), TINY_FORMS, ids=named)
def test_blind_chance_equals_brute_force(task, architecture):
    """Every question with its weight; the best fixed guess per place is its own frequency."""
    places, total = defaultdict(Counter), 0.0
    for question, weight in every_question(task):
        _, labels = expected_row(task, architecture, question)
        for place, label in enumerate(labels):
            if label is not None:
                places[place][label] += weight
                total += weight
    loss = 0.0
    for counts in places.values():
        loss -= sum(n * math.log(n / counts.total()) for n in counts.values())
    assert task.chance(architecture).blind == pytest.approx(loss / total, abs=1e-12)


def every_question(task: Task):
    if task.name == "add":
        numbers = [in_base(n, task.symbols, task.length) for n in range(task.symbols**task.length)]
        yield from ((f"{a}+{b}=", 1.0) for a in numbers for b in numbers)
    elif task.name == "numbers":  # each length is as probable, and within it each number
        yield from (
            (SPOKEN[n], 1 / (10 if n < 10 else 9 * 10 ** (len(str(n)) - 1))) for n in range(1000)
        )
    elif task.name == "recall":
        letters, values = "abc"[: task.n_keys], "012"[: task.symbols]
        for keys in itertools.permutations(letters, task.length):
            for row in itertools.product(values, repeat=task.length):
                pairs = "".join(k + v for k, v in zip(keys, row, strict=True))
                yield from ((f"{pairs}→{key}", 1.0) for key in keys)
    elif task.name == "distance":
        for letters in itertools.product("abcdefgh", repeat=task.distance):
            for place in range(task.distance + 1 if task.mixed else 1):
                before, after = "".join(letters[:place]), "".join(letters[place:])
                yield from ((f"{before}{v}{after}→", 1.0) for v in range(task.symbols))
    else:
        shortest = (task.length + 1) // 2 if task.vary else task.length
        for n in range(shortest, task.length + 1):
            for row in itertools.product("012"[: task.symbols], repeat=n):
                yield "".join(row), task.symbols**-n


# --- the floor ----------------------------------------------------------------------------------

WATCHED = [
    {"mask": "causal", "n_layers": 1},
    {"mask": "none", "n_layers": 1},
    *[
        {"mask": "window", "window": window, "n_layers": n_layers}
        for window in (1, 2, 3)
        for n_layers in (1, 2)
    ],
]
WIDER = [
    TASKS["reverse"](symbols=2, length=5),
    TASKS["sort"](symbols=3, length=4),
    TASKS["recall"](symbols=2, length=3),
    TASKS["add"](symbols=2, length=2),
]


@cache
def reached(model: ModelConfig, length: int, position: int) -> list[int]:
    """The positions that one can have read through all layers, by following every path."""

    def sees(query: int, key: int) -> bool:
        if model.mask_rule == "none":
            return True
        return query - (model.window if model.mask_rule == "window" else length) < key <= query

    found = {position}
    for _ in range(model.n_layers):
        found = {key for query in found for key in range(length) if sees(query, key)}
    return sorted(found)


def brute_floor(task: Task, model: ModelConfig) -> float:
    """Every question, sorted by what a position can have read of it: how sure can it be?"""

    def cases(question: str) -> Iterator[tuple[tuple, str]]:
        inputs, labels = expected_row(task, model.architecture, question)
        for place, label in enumerate(labels):
            if label is not None:
                read = reached(model, len(labels), place)
                source = tuple(inputs[0]) if len(inputs) == 2 else ()
                yield (place, source, tuple(inputs[-1][key] for key in read)), label

    answers, surprise = defaultdict(Counter), []
    for question, weight in every_question(task):
        for seen, label in cases(question):
            answers[seen][label] += weight
    rows = task.validation(model.architecture)
    for row in range(len(rows.targets)):
        question = question_of(task, tuple(ids[row : row + 1] for ids in rows.inputs))
        for seen, label in cases(question):
            surprise.append(-math.log(answers[seen][label] / answers[seen].total()))
    return sum(surprise) / len(surprise)


@pytest.mark.parametrize(
    ("task", "architecture"),
    [
        (task, architecture)
        for task in (*TINY, *WIDER)
        for architecture in task.architectures
        if not isinstance(task, Translation)
    ],
    ids=named,
)
def test_floor_equals_brute_force_or_is_unknown(task, architecture):
    for switches in WATCHED:
        model = ModelConfig.for_task(task, architecture=architecture, **switches)
        floor, brute = task.floor(model), brute_floor(task, model)
        if floor is not None:
            assert floor == pytest.approx(brute, abs=1e-12), switches
        else:  # only where part of the question is hidden
            assert (
                task.name == "add"
                or task.vary
                or (task.name, architecture)
                == (
                    "sort",
                    "decoder",
                )
            )
            assert switches["mask"] != "none"


@pytest.mark.parametrize("name", ["dates", "numbers"])
def test_a_translation_costs_nothing_to_whom_the_whole_question_reaches(name):
    task = TASKS[name]()

    def floor(**switches):
        return task.floor(ModelConfig.for_task(task, **switches))

    assert (
        floor() == floor(mask="none") == floor(mask="window", window=task.max_len("decoder")) == 0
    )
    assert floor(architecture="encoder-decoder", mask="window", window=1) == 0
    assert floor(mask="window", window=3, n_layers=1) is None


@pytest.mark.parametrize(
    ("name", "architecture", "switches", "share"),
    [
        ("reverse", "encoder", {}, 0),  # both ways by default
        ("reverse", "encoder", {"mask": "causal"}, 1 / 2),
        ("reverse", "decoder", {}, 0),
        ("reverse", "decoder", {"mask": "window", "window": 4}, 7 / 10),
        ("reverse", "decoder", {"mask": "window", "window": 11}, 0),
        ("copy", "encoder", {"mask": "causal"}, 0),
        ("copy", "decoder", {"mask": "window", "window": 4}, 1),
        ("copy", "encoder-decoder", {"mask": "window", "window": 1}, 0),
    ],
)
def test_floor_of_ten_symbols(name, architecture, switches, share):
    task = TASKS[name]()
    model = ModelConfig.for_task(task, architecture=architecture, **switches)
    assert task.floor(model) == pytest.approx(share * math.log(10), abs=1e-12)


@pytest.mark.parametrize("symbols", [4, 36])
def test_floor_of_sorting_what_is_partly_hidden_matches_sampling(symbols):
    """The exact posterior of the k-th smallest symbol, against many ways to go on."""
    task = TASKS["sort"](symbols=symbols, length=6)
    model = ModelConfig.for_task(task, architecture="encoder", mask="causal")
    rows = task.validation("encoder")
    surprise = []
    for question, answer in zip(rows.inputs[0], rows.targets, strict=True):
        for k in range(6):
            many = question.repeat(2000, 1)
            many[:, k + 1 :] = torch.randint(1, symbols + 1, (2000, 5 - k), generator=generator(k))
            share = (many.sort(1).values[:, k] == answer[k]).double().mean()
            surprise.append(-float(share.clamp(min=1 / 4000).log()))
    assert task.floor(model) == pytest.approx(sum(surprise) / len(surprise), rel=0.02)


def test_floor_of_the_grammar_knows_what_each_position_reads():
    task = Text(source="grammar", length=8)
    windows = task.validation("decoder").inputs[0]
    exact = grammar().surprise(torch.cat((windows, task.validation("decoder").targets[:, -1:]), 1))

    def floor(**switches):
        return task.floor(ModelConfig.for_task(task, **switches))

    assert floor() == floor(mask="causal") == pytest.approx(float(exact.mean()))
    assert floor(mask="window", window=8, n_layers=1) == floor()  # a window over all of it
    assert floor(mask="window", window=3, n_layers=1) is None
    # Without a mask only the last answer is not among the inputs.
    assert floor(mask="none") == pytest.approx(float(exact[:, -1].sum() / exact.numel()))


# Those whose floor is above 0: a loss is never below that.
LEARNERS = [
    ("reverse", "encoder", "causal"),
    ("reverse", "encoder", "window"),
    ("sort", "encoder", "causal"),
    ("sort", "encoder", "window"),
    ("reverse", "decoder", "window"),
    ("copy", "decoder", "window"),
    ("recall", "decoder", "window"),
    ("text", "decoder", "causal"),
    ("text", "decoder", "none"),
    ("text", "encoder-decoder", "causal"),
]


@pytest.mark.parametrize(("name", "architecture", "mask"), LEARNERS)
def test_a_trained_model_ends_above_the_floor_and_near_it(name, architecture, mask):
    knobs = {"source": "grammar", "length": 8} if name == "text" else {"symbols": 4, "length": 6}
    task = TASKS[name](**knobs)
    config = ModelConfig.for_task(
        task, architecture=architecture, mask=mask, window=2, d_model=32, n_layers=1
    )
    trainer = Trainer(config, task, TrainConfig(steps=150, lr=3e-3))
    for _ in trainer:
        pass
    floor, loss = task.floor(config), trainer.evaluate().loss
    # The mean of the validation set is a little above or below that of all questions.
    noise = 3 / math.sqrt(int((task.validation(architecture).targets != IGNORED).sum()))
    assert 0 < floor < loss + noise
    if name != "text":  # 150 steps are not enough for that
        assert loss < 1.25 * floor


@pytest.mark.parametrize("task", COUNTABLE, ids=named)
def test_blind_chance_matches_counting_at_full_size(task):
    answers = task.solve(task.draw(40_000, generator()))
    loss = asked = 0.0
    for column in answers.T:
        counts = torch.bincount(column[column != PAD]).double()
        counts = counts[counts > 0]
        loss -= float((counts * (counts / counts.sum()).log()).sum())
        asked += float(counts.sum())
    assert task.blind() == pytest.approx(loss / asked, abs=0.01)


def test_dates_are_all_days_of_a_century_in_ten_forms():
    first, last = date(1950, 1, 1), date(2049, 12, 31)
    days = [(first + timedelta(i)).isoformat() for i in range((last - first).days + 1)]
    columns = [Counter(day[place] for day in days) for place in range(10)]
    loss = -sum(n / len(days) * math.log(n / len(days)) for c in columns for n in c.values())
    task = TASKS["dates"]()
    assert task.blind() == pytest.approx(loss / 11, abs=1e-12)  # the end is the eleventh
    drawn = task.draw(2000, generator())
    texts = [task.join(row) for row in drawn.tolist()]
    shapes = Counter(re.sub(r"[A-Z][a-z]{3,}|May", "M", re.sub(r"\d+", "9", t)) for t in texts)
    years = Counter(day_of(text).year for text in texts)
    assert len(years) == 100 and min(years) == 1950 and max(years) == 2049
    assert {"9/9/9", "9.9.9", "9 M 9", "M 9, 9", "the 9th of M, 9"} <= set(shapes)


def test_every_number_is_spoken_and_read():
    task = TASKS["numbers"](length=6)
    for n in [*range(1200), *range(9_990, 100_000, 997), 100_000, 370_707, 999_999]:
        text = spoken(n)
        assert task.understand(text) == text and task.translate(text) == str(n)
    texts = [task.join(row) for row in task.draw(400, generator()).tolist()]
    assert all(spoken(int(task.translate(text))) == text for text in texts)
    digits = Counter(len(task.translate(text)) for text in texts)
    assert set(digits) == set(range(1, 7)) and min(digits.values()) > 30


def test_recall_asks_each_pair_and_uses_every_key():
    task = TASKS["recall"](symbols=3, length=4)
    rows = task.draw(2_000, generator())
    keys = rows[:, :-2:2]
    assert all(len(set(row)) == 4 for row in keys.tolist())
    places = Counter((keys == rows[:, -1:]).int().argmax(1).tolist())
    assert set(places) == {0, 1, 2, 3} and min(places.values()) > 400


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        (TASKS["reverse"](), "314159265", ("9 symbols", "exactly 10")),
        (TASKS["reverse"](), "31415926535", ("11 symbols", "exactly 10")),
        (TASKS["reverse"](vary=True), "3141", ("4 symbols", "5 to 10")),
        (TASKS["reverse"](), "31415926x!", ("'!'", "'x'", "0 1 2")),
        (TASKS["reverse"](), "3→41592653", ("without →",)),
        (TASKS["reverse"](), "9" * 3000, ("'" + "9" * 40 + "…'", "3000 symbols")),
        (TASKS["add"](), "9" * 3000, ("'" + "9" * 40 + "…'",)),
        (TASKS["recall"](), "a1" * 1500, ("'" + "a1" * 20 + "…'",)),
        (TASKS["recall"](), "a1b2c3d4→e", ("4 pairs", "as in")),
        (TASKS["recall"](), "a1a2c3d4→a", ("no letter twice",)),
        (TASKS["recall"](), "a1b2c3→a", ("4 pairs",)),
        (TASKS["recall"](), "1a2b3c4d→a", ("a letter and a value",)),
        (TASKS["recall"](), "→", ("4 pairs",)),
        (TASKS["distance"](distance=3), "a7bc", ("before 3 letters", "as in")),
        (TASKS["distance"](distance=3, mixed=True), "a7b2", ("one digit",)),
        (TASKS["distance"](distance=3), "7abcd", ("3 letters",)),
        (TASKS["distance"](distance=3), "7→bc", ("3 letters",)),
        (TASKS["add"](), "123+4", ("up to 2 digits",)),
        (TASKS["add"](), "12", ("with + between",)),
        (TASKS["add"](), "1+2+3", ("with + between",)),
        (TASKS["add"](), "1=+3", ("with + between",)),
        (TASKS["add"](), "+3", ("up to 2 digits",)),
        (TASKS["add"](), "1_+3", ("base 10",)),
        (TASKS["dates"](), "31/2/2001", ("'31/2/2001'", "February 2001 has 28 days")),
        (TASKS["dates"](), "29 February 1999", ("February 1999 has 28 days",)),
        (TASKS["dates"](), "31 April 2031", ("April 2031 has 30 days",)),
        (TASKS["dates"](), "0/7/99", ("July 1999 has 31 days",)),
        (TASKS["dates"](), "3/13/99", ("no month 13", "days come before months")),
        (TASKS["dates"](), "3/7/1949", ("from 1950 to 2049",)),
        (TASKS["dates"](), "3 July 99", ("one of these forms", "3 July 1999", "3-Jul-99")),
        (TASKS["dates"](), "the 2rd of May, 1987", ("one of these forms",)),
        (TASKS["dates"](), "3 Brumaire 1999", ("one of these forms",)),
        (TASKS["dates"](), "tomorrow", ("one of these forms",)),
        (TASKS["dates"](), "9" * 9000, ("'" + "9" * 40 + "…'", "one of these forms")),
        (TASKS["dates"](), "٣/٧/١٩٩٩", ("one of these forms",)),
        (TASKS["numbers"](), "nine twelve", ("'nine twelve'", "zero to 99,999", "as in")),
        (TASKS["numbers"](), "one hundred thousand", ("zero to 99,999",)),
        (TASKS["numbers"](length=3), "one thousand", ("zero to 999",)),
        (TASKS["numbers"](), "twenty zero", ("zero to 99,999",)),
        (TASKS["numbers"](), "7", ("zero to 99,999",)),
        (TASKS["numbers"](), "a dozen", ("unknown words 'a', 'dozen'", "twelve")),
    ],
)
def test_a_visitors_question_is_taken_or_refused_with_the_rule(task, text, words):
    for ask in (task.probe, task.prompt):
        with pytest.raises(ValueError) as error:
            ask("decoder", text)
        assert all(word in str(error.value) for word in words), str(error.value)


def test_a_visitors_own_questions():
    def answer(task, text):
        targets = task.probe("decoder", text).targets
        return "".join(tokens(task, targets[targets != IGNORED]))

    assert answer(TASKS["reverse"](), "3141592653") == "3562951413"
    assert answer(TASKS["reverse"](vary=True), "31415 9 →") == "951413"
    assert answer(TASKS["sort"](), "3141592653") == "1123345569"
    assert answer(TASKS["recall"](), "a1 b2 c3 d4 ? c") == "3"
    assert answer(TASKS["recall"](), "a1b2c3d4->d") == "4"
    assert answer(TASKS["distance"](distance=3), "7abc") == "7"
    assert answer(TASKS["distance"](distance=3, mixed=True), "a b 5 c ->") == "5"
    assert answer(TASKS["add"](), "7+95") == "102"
    assert answer(TASKS["add"](symbols=16), "f+1=") == "010"
    for text in ("the 2nd of May, 1987", "THE 2ND OF may,   1987", "2/5/87", "2-May-87 →"):
        assert answer(TASKS["dates"](), text) == "1987-05-02■"
    assert answer(TASKS["dates"](), "29/2/2000") == "2000-02-29■"
    assert answer(TASKS["numbers"](), "Seven Hundred and two") == "702■"
    assert answer(TASKS["numbers"](), "ninety-nine thousand and one →") == "99001■"
    assert answer(TASKS["numbers"](), "zero") == "0■"
    assert answer(TASKS["add"](), "62+76=13") == answer(TASKS["add"](), "62+76=138") == "138"
    assert same(TASKS["add"]().probe("decoder", "  "), TASKS["add"]().probe("decoder"))
    prompt = TASKS["reverse"](vary=True).prompt("decoder", "31415")
    assert prompt.n_new == 5 and prompt.inputs[0].shape == (1, 11)


@pytest.mark.parametrize(("task", "architecture"), QUESTIONS, ids=named)
def test_the_example_typed_in_gives_the_row_that_is_shown(task, architecture):
    typed = task.probe(architecture, task.example(architecture))
    assert same(typed, task.probe(architecture))


# --- text -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["docs", "grammar", "own"])
@pytest.mark.parametrize("architecture", Text.architectures)
def test_the_example_of_a_text_is_a_line_of_the_row_that_is_shown(source, architecture):
    task = Text(source=source, text=OWN if source == "own" else "")
    shown, typed = (
        tokens(task, torch.cat((*batch.inputs, batch.targets), dim=1)[0])
        for batch in (
            task.probe(architecture),
            task.probe(architecture, task.example(architecture)),
        )
    )
    assert "\n" not in typed and len(task.example(architecture)) > 2
    if "\n" not in shown:
        assert typed == shown


def test_of_the_characters_that_a_text_has_a_message_lists_a_dozen():
    task = Text()
    with pytest.raises(ValueError) as error:
        task.probe("decoder", "üü")
    listed = " ".join(task.decode(range(1, 13)))
    assert str(error.value) == (
        f"unknown characters 'ü': the text has {task.vocab_size - 1} different ones, {listed} …"
    )
    few = Text(source="own", text="abc" * 5, length=2)
    with pytest.raises(ValueError, match=r"3 different ones, a b c$"):
        few.probe("decoder", "ab!")


@pytest.mark.parametrize("source", ["docs", "grammar", "own"])
def test_a_window_is_a_piece_of_its_text(source):
    task = Text(source=source, length=16, text=OWN if source == "own" else "")
    for batch in (task.batch("decoder", 8, generator()), task.validation("decoder", 8)):
        (read,), asked = batch
        assert torch.equal(read[:, 1:], asked[:, :-1])
        if source != "grammar":
            whole = docs_text() if source == "docs" else OWN
            for row, last in zip(read, asked[:, -1:], strict=True):
                assert "".join([*tokens(task, row), *tokens(task, last)]) in whole
    (source_ids, target_in), asked = task.batch("encoder-decoder", 8, generator())
    assert source_ids.shape == target_in.shape == asked.shape == (8, 8)
    assert torch.equal(target_in[:, 0], source_ids[:, -1])
    assert torch.equal(target_in[:, 1:], asked[:, :-1])


def test_training_and_validation_windows_come_from_disjoint_parts():
    text = "".join(chr(0x4E00 + i) for i in range(300))  # each character once: it tells its place
    task = Text(source="own", text=text, length=15)
    training = {int(i) for row in task.batch("decoder", 4_000, generator()).targets for i in row}
    (read,), asked = task.validation("decoder")
    validation = set(read.flatten().tolist()) | set(asked.flatten().tolist())
    assert training == set(range(2, 271)) and validation == set(range(271, 301))


def test_a_text_needs_one_window_per_split():
    """DAT-02"""
    with pytest.raises(ValueError, match=r"100 characters, at least 129 needed per split"):
        Text(source="own", text="ab" * 50, length=128)
    for length, characters in ((8, 17), (8, 9), (8, 1)):
        with pytest.raises(ValueError, match=f"{characters} characters, at least 9 needed"):
            Text(source="own", text="x" * characters, length=length)
    task = Text(source="own", text="abcdefghi" + "ihgfedcba", length=8)
    first, second = (task.batch("decoder", 5, generator(seed)) for seed in (0, 1))
    assert same(first, second) and first.inputs[0].unique(dim=0).shape == (1, 8)
    assert "".join(tokens(task, first.inputs[0][0])) == "abcdefgh"
    validation = task.validation("decoder")
    assert ["".join(tokens(task, row)) for row in validation.inputs[0]] == ["ihgfedcb"]
    with pytest.raises(ValueError, match="empty"):
        decode_upload(b"")


def test_validation_spreads_evenly_over_its_part():
    task = Text(source="own", text="".join(chr(0x4E00 + i) for i in range(400)), length=3)
    starts = task.validation("decoder", size=10).inputs[0][:, 0].tolist()
    assert starts[0] == 361 and starts[-1] == 397 and len(set(starts)) == 10
    assert len(task.validation("decoder", size=1_000).targets) == 37


def test_unknown_characters_are_listed():
    """DAT-01"""
    task = Text(source="own", text="abc\n" * 10, length=4)
    for ask in (task.probe, task.prompt):
        with pytest.raises(ValueError) as error:
            ask("decoder", "Hello d? 😀")
        for unknown in ("'H'", "'e'", "'l'", "'o'", "'d'", "'?'", "'😀'", "' '"):
            assert unknown in str(error.value)
        assert "⏎ a b c" in str(error.value)
    assert tokens(task, task.prompt("decoder", "").inputs[0][0]) == ["\n"]
    assert tokens(task, task.prompt("decoder").inputs[0][0]) == ["\n"]
    no_newline = Text(source="own", text="cab" * 10, length=4)
    assert tokens(no_newline, no_newline.prompt("decoder", "").inputs[0][0]) == ["a"]


def test_a_long_prompt_keeps_its_last_characters():
    task = Text(source="own", text="abc\n" * 10, length=4)
    assert "".join(tokens(task, task.prompt("decoder", "abcabcab").inputs[0][0])) == "bcab"
    (source, start), n_new, _ = task.prompt("encoder-decoder", "abcabcab")
    assert tokens(task, source[0]) == ["a", "b"] and tokens(task, start[0]) == ["b"]
    assert n_new == 2
    probe = task.probe("decoder", "abcabcab")
    assert "".join(tokens(task, probe.inputs[0][0])) == "abca"
    assert "".join(tokens(task, probe.targets[0])) == "bcab"
    with pytest.raises(ValueError, match="at least 2"):
        task.probe("decoder", "a")
    (source, target_in), asked = task.probe("encoder-decoder", "ab")
    assert source.shape == target_in.shape == asked.shape == (1, 1)


def test_blind_chance_of_text_is_the_mix_of_training_scored_on_validation():
    text = "aab" * 30 + "ccc" + "ab" * 3 + "d"
    task = Text(source="own", text=text, length=4)
    training, held_out = text[:-10], text[-10:]
    counts = Counter(training)
    total = len(training) + len(set(text))
    windows = [held_out[i : i + 5] for i in range(6)]
    costs = [-math.log((counts[c] + 1) / total) for window in windows for c in window[1:]]
    assert task.chance("decoder").blind == pytest.approx(sum(costs) / len(costs))


def test_documentation_is_plain_ascii():
    assert set(docs_text()) <= {"\n", *map(chr, range(32, 127))}
    assert len(docs_text()) > 300_000 and Text().vocab_size < 100


def test_own_text_travels_by_its_hash():
    task = Text(source="own", text=OWN, length=16)
    values = task.to_dict()
    assert OWN not in str(values) and OWN not in repr(task)
    assert values["vocabulary"] == "".join(sorted(set(OWN)))
    with pytest.raises(ValueError, match="hand in the text"):
        task_from_dict(values)
    with pytest.raises(ValueError, match="not the one that was learnt"):
        task_from_dict(values, text=OWN + "!")
    assert task_from_dict(values, text=OWN.replace("\n", "\r\n")) == task


# --- uploads ----------------------------------------------------------------------------------


def test_an_upload_is_decoded_or_refused_with_byte_and_offset():
    """UPL-01"""
    text = "café — naïve\n"
    for data in (
        text.encode("utf-8"),
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        b"\xff\xfe" + text.encode("utf-16-le"),
        b"\xfe\xff" + text.encode("utf-16-be"),
        text.replace("\n", "\r\n").encode(),
        text.replace("\n", "\r").encode(),
    ):
        assert decode_upload(data) == text
    for data, words in (
        (text.encode("cp1252"), "0xE9 at offset 3"),
        (b"\xef\xbb\xbfab\xff", "0xFF at offset 5"),
        (b"\xff\xfea\x00b", "offset 4"),
        (b"ab\0c", "NUL at character 2"),
        ("ab".encode("utf-16-le"), "NUL at character 1"),
        (b"", "empty"),
        (b"\xef\xbb\xbf", "empty"),
    ):
        with pytest.raises(ValueError, match=words):
            decode_upload(data)


def test_upload_limits_are_said_in_numbers():
    with pytest.raises(ValueError, match="5,000,001 bytes, at most 5,000,000"):
        decode_upload(b"a" * (MAX_TEXT_BYTES + 1))
    many = "".join(chr(0x4E00 + i) for i in range(MAX_VOCAB + 1))
    with pytest.raises(ValueError, match="513 different characters, at most 512"):
        Text(source="own", text=many * 2, length=8)
    assert len(Corpus(many[1:] * 2).vocabulary) == MAX_VOCAB + 1


@pytest.mark.parametrize("mark", ["\ufeff", "\r"])
def test_pasted_text_is_cleaned_too(mark):
    task = Text(source="own", text=f"{mark}ab\r\ncd" * 10, length=8)
    assert mark not in task.vocabulary


# --- the grammar ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sentences() -> dict[str, float]:
    """Every sentence and its probability, by walking through the rules."""
    found: dict[str, float] = {}

    def walk(state: str, text: str, probability: float) -> None:
        for edge in grammar().rules[state]:
            p = probability * float(edge.probability)
            if edge.to == START:
                assert text + edge.text not in found  # one way only: the entropy relies on it
                found[text + edge.text] = p
            else:
                walk(edge.to, text + edge.text, p)

    walk(START, "", 1.0)
    return found


def test_sentences_sum_to_one_and_give_the_entropy(sentences):
    assert sum(sentences.values()) == pytest.approx(1)
    entropy = -sum(p * math.log(p) for p in sentences.values())
    length = sum(p * len(sentence) for sentence, p in sentences.items())
    assert grammar().entropy_per_character == pytest.approx(entropy / length, rel=1e-9)
    assert Text(source="grammar").entropy_per_character == grammar().entropy_per_character
    shares = grammar().frequencies(0)
    for letter in "e\n(":
        share = sum(p * sentence.count(letter) for sentence, p in sentences.items()) / length
        assert float(shares[grammar().vocabulary.index(letter)]) == pytest.approx(share)


def test_next_character_equals_brute_force(sentences):
    """Sum the probability of all sentences that go on from a prefix."""
    language = grammar()
    weight = defaultdict(float)
    for sentence, p in sentences.items():
        for end in range(len(sentence) + 1):
            weight[sentence[:end]] += p
    windows = language.validation_windows(6, 50)
    exact = language.next_character(windows)
    assert torch.allclose(exact.sum(-1), torch.ones((), dtype=torch.float64))
    for row, expected in zip(windows, exact, strict=True):
        text = "".join(language.vocabulary[i] for i in row.tolist())
        for end in range(1, len(text) + 1):
            prefix = text[:end].rsplit("\n", 1)[1]
            for i, letter in enumerate(language.vocabulary):
                wanted = weight.get(prefix + letter, 0.0) / weight[prefix]
                assert float(expected[end - 1, i]) == pytest.approx(wanted, abs=1e-9)


def test_floor_is_the_mean_surprise_of_the_validation_set(sentences):
    task = Text(source="grammar", length=40)
    language = grammar()
    for architecture in task.architectures:
        batch = task.validation(architecture)
        whole = torch.cat((batch.inputs[0], batch.targets), dim=1)
        if architecture == "decoder":
            whole = torch.cat((batch.inputs[0], batch.targets[:, -1:]), dim=1)
        surprise = language.surprise(whole)[:, -batch.targets.shape[1] :]
        model = ModelConfig.for_task(task, architecture=architecture)
        assert task.floor(model) == pytest.approx(float(surprise.mean()))
    assert Text().floor(ModelConfig.for_task(Text())) is None


def test_the_stream_has_the_entropy_of_the_grammar():
    windows = grammar().training_windows(400, 300, generator())
    mean = float(grammar().surprise(windows).mean())
    assert mean == pytest.approx(grammar().entropy_per_character, rel=0.02)


def test_samples_are_sentences_with_their_probabilities(sentences):
    language = grammar()
    windows = language.training_windows(2_000, 80, generator())
    firsts = Counter()
    for row in windows:
        text = "".join(language.vocabulary[i] for i in row.tolist())
        assert text[0] == "\n"
        whole = text[1:].split("\n")
        assert all(f"{sentence}\n" in sentences for sentence in whole[:-1])
        firsts[whole[0].split(" ")[1]] += 1
    assert len(firsts) == 12  # each noun starts one sentence in twelve
    assert all(count / 2_000 == pytest.approx(1 / 12, abs=0.03) for count in firsts.values())


@pytest.mark.parametrize("width", [2, 3, 20, 21, 22, 514])
def test_a_window_of_any_width_is_filled(width):
    windows = grammar().training_windows(5, width, generator())
    assert windows.shape == (5, width) and int(windows.min()) > PAD
    assert torch.isfinite(grammar().surprise(windows)).all()
