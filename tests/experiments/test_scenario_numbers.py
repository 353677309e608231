"""Every number in the texts of the scenarios: computed here, or filled in from the runs."""

import math
import re
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn.functional import layer_norm

from core.model import build_model
from core.optimize import learning_rate
from playground.experiments.scenarios import PLACE, Scenario, load
from playground.ideas.scaling import measure as scaling

ALL = load()
NUMERAL = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
COUNTS = {
    word: n
    for n, word in enumerate(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], start=1
    )
}
# What is cited, and names with digits in them: no number of ours.
NOT_OURS = re.compile(
    r"footnote \d+|section [\d.]+|table \d+, row \w|\b(?:19|20)\d\d\b|GPT-2|gpt2|block 1|step 0"
)

Claim = tuple[str, float]  # a number as it is written, and what it is


def texts(scenario: Scenario) -> str:
    """All that a scenario says, without what is filled in from its runs."""
    said = (scenario.question, scenario.change, scenario.watch, scenario.why)
    said += tuple(outcome.say for outcome in scenario.outcomes)
    plain = " ".join(" ".join(said).split()).replace("N(0, 0.02²)", "0.02")
    return NOT_OURS.sub("", PLACE.sub("", plain))


# --- what each number is ----------------------------------------------------------------------


def embedding(scenario: Scenario) -> float:
    """Standard deviation of the token embeddings at the start, of the first that is gpt2."""
    spec = next(spec for spec in scenario.setup.specs if spec.model.init == "gpt2")
    return float(build_model(spec.model).embed.tokens.weight.detach().std())


def apart(scenario: Scenario, position: str) -> float:
    """How far two symbols in one place differ per column, once each has variance 1."""
    (spec,) = (s for s in scenario.setup.specs if s.model.position == position)
    symbols = torch.arange(1, spec.task.symbols + 1)[:, None].expand(-1, spec.model.max_len)
    with torch.no_grad():
        x = build_model(spec.model).embed(symbols)
    x = layer_norm(x, x.shape[-1:])
    pairs = [(a, b) for a in range(len(x)) for b in range(a)]
    return sum(float((x[a] - x[b]).square().mean(-1).sqrt().mean()) for a, b in pairs) / len(pairs)


def saves(scenario: Scenario) -> Iterator[Claim]:
    yield "128", scenario.base.model.d_head
    yield "11.3", scaling.scores(128, 1, "none", "xavier", 20).theory
    yield "1", 1.0  # the variance that the argument supposes


def idle(scenario: Scenario) -> Iterator[Claim]:
    yield "0.02", embedding(scenario)
    yield "128", scenario.base.model.d_head
    yield "11.3", math.sqrt(scenario.base.model.d_head)
    yield "1", 1.0  # the variance that the argument supposes


def drowned(scenario: Scenario) -> Iterator[Claim]:
    yield "0.02", embedding(scenario)
    table = build_model(scenario.base.model).embed.position.table
    yield "1", float(table.abs().max())
    small, large = apart(scenario, "sinusoidal"), apart(scenario, "learned")
    yield "0.053", small
    yield "1.01", large
    yield "19", large / small


def learned(scenario: Scenario) -> Iterator[Claim]:
    model = build_model(scenario.base.model)
    yield "1", float(model.embed.tokens.weight.detach().std()) * scenario.base.model.d_model**0.5
    yield "0.02", embedding(scenario)


def no_norm(scenario: Scenario) -> Iterator[Claim]:
    yield "16", 2 * scenario.base.model.n_layers
    yield "200", scenario.base.training.steps
    yield "1", float(layer_norm(torch.randn(4, 48), (48,)).var(correction=0))


def warmup(scenario: Scenario) -> Iterator[Claim]:
    peak, rises = scenario.base.training, scenario.setup.specs[1].training
    yield "0.01", peak.lr
    yield "50", rises.warmup
    assert learning_rate(rises.warmup, rises) == peak.lr > learning_rate(rises.warmup - 1, rises)
    yield "0.003", 0.003  # tried by hand: three seeds of post-norm end below 0.5


def clipping(scenario: Scenario) -> Iterator[Claim]:
    yield "1", scenario.setup.specs[1].training.clip
    yield "200", scenario.base.training.steps


def heads(scenario: Scenario) -> Iterator[Claim]:
    yield "64", scenario.base.model.d_model
    for spec in scenario.setup.specs:
        yield str(spec.model.d_head), spec.model.d_head


def window(scenario: Scenario) -> Iterator[Claim]:
    yield "10", scenario.base.task.length
    yield "2.30", scenario.references["chance"]["loss"][0]
    yield "1", 1  # itself
    for spec in scenario.setup.specs:
        one = spec.model.window - 1
        yield str(spec.model.window), spec.model.window
        yield str(one), one
        yield str(spec.model.n_layers * one), spec.model.n_layers * one


def floor(scenario: Scenario) -> Iterator[Claim]:
    yield "0", 0  # the loss of who knows everything
    found = next(o for o in scenario.outcomes if o.name == scenario.expected)
    yield "15", 100 * (found.when[0].below - 1)


def rate(scenario: Scenario) -> Iterator[Claim]:
    for spec in scenario.setup.specs:
        yield f"{spec.training.lr:g}", spec.training.lr


def order(scenario: Scenario) -> Iterator[Claim]:
    for digits in ("1", "2", "3", "12", "21"):  # an example: the digits of two days
        yield digits, float(digits)


def far_away(scenario: Scenario) -> Iterator[Claim]:
    yield "32", scenario.base.task.distance


def look_up(scenario: Scenario) -> Iterator[Claim]:
    yield "78", scenario.setup.specs[1].model.d_model


def both_ways(scenario: Scenario) -> Iterator[Claim]:
    yield from zip(("0.014", "0.312"), (s.floor for s in scenario.setup.specs), strict=True)


CLAIMS: dict[str, Callable[[Scenario], Iterator[Claim]]] = {
    "scaling-saves": saves,
    "scaling-idle": idle,
    "drowned": drowned,
    "learned-or-sinusoidal": learned,
    "no-norm": no_norm,
    "no-warmup": warmup,
    "clipping": clipping,
    "one-head": heads,
    "window": window,
    "floor": floor,
    "text-rate": rate,
    "translation-order": order,
    "far-away": far_away,
    "look-it-up": look_up,
    "gaps-both-ways": both_ways,
}


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_every_number_of_a_text_is_computed(scenario):
    claims = dict(CLAIMS[scenario.id](scenario)) if scenario.id in CLAIMS else {}
    written = set(NUMERAL.findall(texts(scenario)))
    assert written <= set(claims), f"not computed: {written - set(claims)}"
    for numeral in written:
        digits = len(numeral.partition(".")[2])
        tolerance = 0.51 * 10.0**-digits
        assert claims[numeral] == pytest.approx(float(numeral), abs=tolerance), numeral


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_what_is_counted_in_words_is_so_in_its_runs(scenario):
    """`Eight blocks`, `eight sub-layers`, `ten symbols`, `four heads`."""
    model, task = scenario.base.model, scenario.base.task
    counted = {
        "blocks": {spec.model.n_layers for spec in scenario.setup.specs},
        "sub-layers": {2 * model.n_layers},
        "symbols": {getattr(task, "length", None)},
        "positions back": {getattr(task, "length", None)},
        "heads": {spec.model.n_heads for spec in scenario.setup.specs},
    }
    rest = texts(scenario)
    if scenario.id == "no-residuals":  # which speaks of the next one
        rest = rest.replace("scenario has eight blocks", "")
    for word, thing in re.findall(r"(\w+) (blocks|sub-layers|symbols|positions back|heads)", rest):
        if (n := COUNTS.get(word.lower())) is not None:
            assert n in counted[thing], f"{word} {thing}"


def test_an_explanation_is_filled_in_from_the_runs():
    scenario = ALL["scaling-saves"]
    results = {
        scenario.names[0]: {"loss": (0.25, 0.26), "spread": (0.93, 1.04)},
        scenario.names[1]: {"loss": (2.22, 2.23), "spread": (10.5, 11.8)},
    } | scenario.references
    said = " ".join(scenario.explained(results).split())
    assert "division ends at 2.220 to 2.230" in said and "costs 2.303" in said
    assert "10.5 to 11.8, and 0.93 to 1.04 when divided" in said
