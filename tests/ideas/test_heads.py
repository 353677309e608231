"""Heads: the split, divergence and jobs against loops, switching off against the weights."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from core.config import ModelConfig, TrainConfig
from core.tasks import TASKS
from core.train import Trainer
from playground.figures.style import WEIGHTS_SCALE, alt_text, run_colour
from playground.ideas.heads import measure
from playground.ideas.heads.figures import diversity_chart, head_table, split_picture
from playground.runs.snapshot import Level, take_frame

CAUSAL = np.tril(np.ones((6, 6), dtype=bool))
ALL = np.ones((6, 6), dtype=bool)


def config(task="reverse", **knobs) -> tuple[ModelConfig, object]:
    task = TASKS[task](length=4)
    return ModelConfig.for_task(task, **{"d_model": 16, "n_heads": 4, **knobs}), task


def looking_at(keys: list[int | None], n: int = 6) -> np.ndarray:
    """One head [query, key]: all weight on the key named; None is uniform, under a causal mask."""
    rows = np.zeros((n, n))
    for query, key in enumerate(keys):
        rows[query, slice(0, query + 1) if key is None else key] = (
            1 / (query + 1) if key is None else 1
        )
    return rows


def random_weights(n_heads: int, seen: np.ndarray, seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng(seed).random((n_heads, *seen.shape)) * seen
    return numbers / numbers.sum(-1, keepdims=True)


# --- the split --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", [1, 2, 8])
@pytest.mark.parametrize("init", ["xavier", "torch"])
def test_the_query_of_each_head_is_its_rows_of_the_one_matrix_times_x(n_heads, init):
    found = measure.split(*config(n_heads=n_heads, init=init))
    assert found.w_q.shape == (16, 16) and found.q.shape == (n_heads, 16 // n_heads)
    for head in range(n_heads):
        own = found.w_q[measure.rows_of(head, found.d_head)]
        expected = [
            sum(float(w) * float(x) for w, x in zip(row, found.x, strict=True)) for row in own
        ]
        assert found.q[head] == pytest.approx(expected, abs=1e-5)


def test_the_rows_of_all_heads_are_the_whole_matrix_once():
    rows = [i for head in range(4) for i in range(16)[measure.rows_of(head, 4)]]
    assert rows == list(range(16))


def test_the_matrix_and_what_it_reads_stay_the_same_however_they_are_split():
    one, many = (measure.split(*config(n_heads=h)) for h in (1, 8))
    assert np.array_equal(one.w_q, many.w_q) and np.array_equal(one.x, many.x)
    assert np.allclose(one.q.flatten(), many.q.flatten(), atol=1e-6)


# --- divergence -------------------------------------------------------------------------------


def jensen_shannon(p, q) -> float:
    """Half of the Kullback–Leibler divergences from the mean, in loops."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        mean = (a + b) / 2
        total += sum(x * math.log(x / mean) / 2 for x in (a, b) if x > 0)
    return total


@pytest.mark.parametrize("seen", [CAUSAL, ALL], ids=["causal", "all"])
def test_the_divergence_is_the_mean_over_pairs_and_rows_with_a_choice(seen):
    weights = random_weights(3, seen)
    rows = [i for i in range(6) if seen[i].sum() > 1]
    values = [
        jensen_shannon(weights[a, row], weights[b, row])
        for a, b in ((0, 1), (0, 2), (1, 2))
        for row in rows
    ]
    assert measure.divergence(weights, seen) == pytest.approx(sum(values) / len(values))


def test_equal_heads_do_not_diverge_and_heads_that_share_nothing_do_by_ln_2():
    head = random_weights(1, ALL)[0]
    assert measure.divergence(np.stack([head, head]), ALL) == pytest.approx(0, abs=1e-12)
    apart = np.stack([looking_at([0] * 6), looking_at([5] * 6), looking_at([2] * 6)])
    assert measure.divergence(apart, ALL) == pytest.approx(math.log(2))


def test_a_row_without_a_choice_says_nothing_and_one_head_has_no_other():
    two = np.stack([looking_at([0, 0, 0, 0, 0, 0]), looking_at([0, 1, 2, 3, 4, 5])])
    assert measure.divergence(two, CAUSAL) == pytest.approx(math.log(2))  # row 0 is left out
    assert math.isnan(measure.divergence(two[:1], CAUSAL))


def test_the_diversity_of_a_frame_has_one_share_for_each_layer():
    found = measure.diversity(measure.first_look(*config(n_layers=3)))
    assert len(found) == 3 and all(0 < share < 1 for share in found)


# --- jobs -------------------------------------------------------------------------------------

TOKENS = ["a", "b", "→", "b", "a", "b"]
ANSWERS = {2: "b", 3: "a", 4: "b", 5: "a"}
# A head that does one job wherever it can, by hand: the key of each query.
DONE = {
    "itself": [0, 1, 2, 3, 4, 5],
    "the token before": [None, 0, 1, 2, 3, 4],
    "the first token": [None, None, 0, 0, 0, 0],
    "the separator": [None, None, None, None, 2, 2],
    "the same symbol": [None, None, None, 1, 0, 1],
    "what followed the same symbol": [None, None, None, 2, 1, 2],
    "the symbol to answer": [None, None, 1, 0, 1, 0],
}


@pytest.mark.parametrize("job", DONE)
def test_a_head_that_does_one_job_gets_all_of_its_score_and_its_name(job):
    found = measure.jobs(looking_at(DONE[job])[None], CAUSAL, TOKENS, ANSWERS)
    assert found.names == tuple(DONE)
    assert found.measured[0, found.names.index(job)] == pytest.approx(1)
    best = found.best(0)
    assert (best.name, best.grade) == (job, "mostly") and best.weight == pytest.approx(1)


def test_an_even_look_scores_what_the_even_line_says_and_has_no_name():
    found = measure.jobs(looking_at([None] * 6)[None], CAUSAL, TOKENS, ANSWERS)
    assert found.measured[0] == pytest.approx(found.uniform)
    assert found.best(0).grade == "" and str(found.best(0)) == measure.NO_PATTERN
    by_hand = np.mean([1 / (query + 1) for query in range(1, 6)])  # query 0 has no choice
    assert found.uniform[found.names.index("itself")] == pytest.approx(by_hand)


@pytest.mark.parametrize("share, grade", [(0.15, ""), (0.25, "partly"), (0.5, "mostly")])
def test_a_head_with_a_part_of_its_weight_on_a_job_has_a_part_of_the_name(share, grade):
    whole = looking_at(DONE["the symbol to answer"])
    head = share * whole + (1 - share) * looking_at([None] * 6)
    best = measure.jobs(head[None], CAUSAL, TOKENS, ANSWERS).best(0)
    assert (best.name, best.grade) == ("the symbol to answer", grade)
    assert best.share == pytest.approx(share)


def test_four_maps_that_show_the_anti_diagonal_are_all_named_for_it():
    task = TASKS["reverse"](length=6)
    model = ModelConfig.for_task(task, d_model=32)
    trainer = Trainer(model, task, TrainConfig(steps=200, lr=3e-3, seed=2))
    for _ in trainer:
        pass
    frame = take_frame(trainer, task.probe("decoder"), level=Level.PROBE)
    # The six answers are asked for at the last six positions, the last symbol first.
    weights = [*frame.attention.values()][-1].stages["weights"]
    shown = np.mean([weights[:, 6 + i, 5 - i] for i in range(6)], axis=0)
    assert (shown > 0.5).all(), "not what this test is about: another training shows it"
    last = measure.jobs_of(frame)[-1]
    best = [last.best(head) for head in range(4)]
    assert {job.name for job in best} == {"the symbol to answer"}
    assert {job.grade for job in best} == {"mostly"}


def test_the_scores_are_means_over_the_queries_that_have_such_a_key():
    weights = random_weights(2, CAUSAL)
    found = measure.jobs(weights, CAUSAL, TOKENS, ANSWERS)
    for head in range(2):
        same = [
            sum(weights[head, q, k] for k in range(q) if TOKENS[k] == TOKENS[q])
            for q in range(6)
            if TOKENS[q] in TOKENS[:q]
        ]
        assert found.measured[head, found.names.index("the same symbol")] == pytest.approx(
            np.mean(same)
        )
        answer = [
            sum(weights[head, q, k] for k in range(q + 1) if TOKENS[k] == right)
            for q, right in ANSWERS.items()
        ]
        assert found.measured[head, found.names.index("the symbol to answer")] == pytest.approx(
            np.mean(answer)
        )


def test_a_job_that_no_head_can_do_here_and_one_that_looks_like_another_are_left_out():
    found = measure.jobs(random_weights(1, CAUSAL)[:, :, :], CAUSAL, list("abcdef"), {})
    assert found.names == ("itself", "the token before", "the first token")
    # recall: the value that followed the asked key is the answer.
    frame = measure.first_look(*config("recall", n_layers=1))
    (found,) = measure.jobs_of(frame)
    assert "what followed the same symbol" in found.names
    assert "the symbol to answer" not in found.names


# --- switching a head off -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    model, task = config("sort", d_model=16, n_heads=2)
    trainer = Trainer(model, task, TrainConfig(steps=15, batch_size=8, lr=1e-2))
    for _ in trainer:
        pass
    return trainer


def test_a_head_without_output_weights_is_a_head_that_is_off(trainer):
    """z = 0 does what zero columns of W_o do: the same loss, by another way."""
    found = measure.ablation(trainer)
    batch = trainer.task.validation("decoder", measure.ROWS)
    assert found.loss == pytest.approx(trainer.evaluate(batch).loss, rel=1e-5)
    assert found.rise.shape == (2, 2) and found.step == 15
    for layer in range(2):
        for head in range(2):
            weight = trainer.model.blocks[layer].attention.out.weight
            kept = weight.detach().clone()
            with torch.no_grad():
                weight[:, measure.rows_of(head, 8)] = 0
                without = trainer.evaluate(batch).loss
                weight.copy_(kept)
            assert found.rise[layer, head] == pytest.approx(without - found.loss, abs=1e-5)
    assert np.abs(found.rise).max() > 1e-3


def test_looking_without_a_head_leaves_the_model_as_it_was(trainer):
    batch = trainer.task.validation("decoder", 8)
    before = trainer.evaluate(batch)
    measure.ablation(trainer)
    assert trainer.evaluate(batch) == before


# --- figures ------------------------------------------------------------------------------------


def test_the_picture_marks_the_chosen_rows_and_splits_the_width_to_scale():
    w = np.arange(64.0).reshape(8, 8)
    figure = split_picture(w, np.ones(8), w.sum(1).reshape(4, 2), 2, {1: 10, 2: 10, 4: 10})
    others, mine, x, _, q, *bars = figure["data"]
    assert np.isfinite(mine["z"]).all(1).tolist() == [False] * 4 + [True] * 2 + [False] * 2
    assert np.array_equal(np.isfinite(mine["z"]), ~np.isfinite(others["z"]))
    assert others["opacity"] < 1 and "opacity" not in mine
    assert np.asarray(x["z"]).shape == (8, 1)
    assert np.asarray(q["z"])[4:6, 0].tolist() == [284, 348]
    assert [bar["x"] for bar in bars] == [[8], [4, 4], [2, 2, 2, 2]]
    assert [bar["base"] for bar in bars] == [[0], [0, 4], [0, 2, 4, 6]]
    assert [bar["marker"]["opacity"] for bar in bars] == [0.25, 0.25, 1]
    assert bars[2]["marker"]["color"][2] == run_colour(2)
    assert np.argmax(bars[2]["marker"]["line"]["width"]) == 2
    frames = [s for s in figure["layout"]["shapes"] if s["line"]["width"]]
    assert {(s["y0"], s["y1"]) for s in frames} == {(3.5, 5.5)}
    assert "rows 5 to 6" in alt_text(figure) and "10 with 4 heads" in alt_text(figure)
    go.Figure(figure)


def test_the_table_has_an_even_look_first_and_bars_beside_the_same_rows():
    figure = head_table(
        ["block 1, head 1", "block 1, head 2"],
        ["itself", "a<b"],
        [[0.9, 0.1], [0.2, 0.3]],
        [0.25, 0.25],
        ["itself", "no clear pattern"],
        [0.5, -0.2],
    )
    table, bars = figure["data"]
    assert np.asarray(table["z"]).tolist() == [[0.25, 0.25], [0.9, 0.1], [0.2, 0.3]]
    assert (table["colorscale"], table["zmin"], table["zmax"]) == (WEIGHTS_SCALE, 0, 1)
    assert list(bars["y"]) == [1, 2] and list(bars["x"]) == pytest.approx([0.5, -0.2])
    assert figure["layout"]["xaxis2"]["range"][0] < -0.2
    assert figure["layout"]["xaxis"]["labelalias"]["1"] == "a&lt;b"
    assert "Without block 1, head 1 the loss rises most, by 0.50" in alt_text(figure)
    go.Figure(figure)


def test_before_training_the_table_says_when_the_bars_will_come():
    figure = head_table(["block 1, head 1"], ["itself"], [[0.9]], [0.5], ["itself"])
    assert not np.isfinite(figure["data"][1]["x"]).any()
    assert "after training" in [a["text"] for a in figure["layout"]["annotations"]]
    go.Figure(figure)


def test_the_diversity_chart_draws_a_line_for_each_layer_and_nothing_for_one_head():
    both = {"block 1": [0.1, 0.2], "block 2": [0.3, 0.4]}
    figure = diversity_chart([0, 5], both, shown=5, total_steps=5)
    assert [list(np.round(t["y"], 3)) for t in figure["data"]] == [
        pytest.approx([0.1, 0.2]),
        pytest.approx([0.3, 0.4]),
    ]
    assert figure["layout"]["yaxis"]["range"] == [0, 1]
    assert figure["layout"]["shapes"][0]["x0"] == 5
    go.Figure(figure)
    one = {"block 1": [math.nan, math.nan]}
    empty = diversity_chart([0, 5], one, shown=5, total_steps=5)
    assert not empty["data"] and "one head" in alt_text(empty)
