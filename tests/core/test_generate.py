"""Generation: greedy and sampled, within what the model can read."""

import pytest
import torch

from core.config import POSITIONS, ModelConfig, TrainConfig
from core.generate import generate, greedy, sampler
from core.measure import free_running_accuracy
from core.model import build_model
from core.tasks import PAD, TASKS
from core.train import Trainer

LOGITS = torch.tensor([[0.0, 3.0, 1.0, 2.0, -1.0], [5.0, -2.0, 0.0, 1.0, 4.0]])


def model(randomise, device="cpu", **knobs):
    config = ModelConfig(
        **({"vocab_size": 9, "max_len": 8, "d_model": 8, "n_heads": 2, "n_layers": 1} | knobs)
    )
    return randomise(build_model(config)).to(device)


def draws(n: int = 4000, seed: int = 0, logits=LOGITS[:1], **knobs) -> torch.Tensor:
    """Share of each token among many draws."""
    choose = sampler(**knobs, generator=torch.Generator().manual_seed(seed))
    tokens = choose(logits.expand(n, -1))
    return torch.bincount(tokens, minlength=logits.shape[1]) / n


# --- choosing a token ---------------------------------------------------------------------


def test_temperature_zero_is_greedy():
    assert sampler(temperature=0.0) is greedy
    assert greedy(LOGITS).tolist() == [1, 0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_samples_follow_the_softmax_at_every_temperature(temperature):
    expected = (LOGITS[0] / temperature).softmax(-1)
    assert torch.allclose(draws(temperature=temperature), expected, atol=0.03)


def test_a_tiny_temperature_is_nearly_greedy_and_never_nan():
    for temperature in (1e-3, 1e-30, 1e-45):
        assert draws(10, temperature=temperature)[1] == 1.0


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_keeps_the_k_likeliest_in_their_proportions(k):
    kept = LOGITS[0].topk(k).indices
    expected = torch.zeros(5)
    expected[kept] = LOGITS[0][kept].softmax(-1)
    assert torch.allclose(draws(top_k=k), expected, atol=0.03)


@pytest.mark.parametrize("k", [5, 6, 10**9])
def test_top_k_above_the_vocabulary_means_all(k):
    assert torch.equal(draws(top_k=k), draws())


@pytest.mark.parametrize(
    ("top_p", "n_kept"), [(1e-9, 1), (0.6, 1), (0.7, 2), (0.9, 3), (0.97, 4), (1.0, 5)]
)
def test_top_p_keeps_the_fewest_tokens_that_reach_it(top_p, n_kept):
    """Probabilities of the example, in order: 0.639, 0.235, 0.086, 0.032, 0.012 (sum 1)."""
    logits = torch.log(torch.tensor([[0.012, 0.639, 0.086, 0.235, 0.028]]))
    shares = draws(logits=logits, top_p=top_p)
    assert (shares > 0).sum() == n_kept
    kept = logits[0].topk(n_kept).indices
    assert shares[kept].sum().item() == pytest.approx(1.0)
    assert torch.allclose(shares[kept], logits[0][kept].softmax(-1), atol=0.03)


def test_top_k_and_top_p_together():
    shares = draws(top_k=2, top_p=0.99)
    assert (shares > 0).tolist() == [False, True, False, True, False]


def test_rows_are_drawn_apart():
    choose = sampler(top_k=1)
    assert choose(LOGITS).tolist() == [1, 0]


def test_sampling_takes_its_randomness_from_the_generator_alone(global_random_state_untouched):
    assert torch.equal(draws(seed=3), draws(seed=3))
    assert not torch.equal(draws(seed=3), draws(seed=4))


@pytest.mark.parametrize(
    "knobs",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.01},
        {"top_p": float("nan")},
    ],
)
def test_values_out_of_range_are_refused_by_name(knobs):
    (name,) = knobs
    with pytest.raises(ValueError, match=rf"^{name}={knobs[name]}: must be "):
        sampler(**knobs)


# --- growing a sequence -------------------------------------------------------------------


def test_generation_equals_asking_for_one_token_after_the_other(randomise, device):
    m = model(randomise, device)
    tokens = torch.tensor([[3, 4], [5, 6]], device=device)
    answer = generate(m, (tokens,), 5)
    for _ in range(5):
        logits = m(tokens)[:, -1].clone()
        logits[:, PAD] = -torch.inf
        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(answer, tokens[:, 2:])


@pytest.mark.parametrize("position", POSITIONS)
def test_a_long_prompt_keeps_its_last_tokens(position, randomise):
    """PE-04: 12 tokens where 8 fit, and 50 new ones."""
    m = model(randomise, position=position)
    prompt = torch.arange(12)[None] % 8 + 1
    answer = generate(m, (prompt,), 50)
    assert answer.shape == (1, 50)
    assert torch.equal(answer, generate(m, (prompt[:, -8:],), 50))


def test_padding_is_never_generated(randomise):
    m = model(randomise)
    with torch.no_grad():
        m.unembed.weight[PAD] = 100 * m.unembed.weight[1:].mean(0)
    choose = sampler(temperature=5.0, generator=torch.Generator().manual_seed(0))
    for how in (greedy, choose):
        assert (generate(m, (torch.tensor([[1, 2], [3, 4], [5, 6]]),), 20, how) != PAD).all()


def test_no_new_tokens_is_an_empty_answer(randomise):
    assert generate(model(randomise), (torch.tensor([[1, 2]]),), 0).shape == (1, 0)


def test_generation_leaves_the_model_and_its_prompt_alone(randomise):
    m = model(randomise).train()
    prompt = torch.tensor([[1, 2]])
    before = {name: p.clone() for name, p in m.named_parameters()}
    generate(m, (prompt,), 3)
    assert m.training and prompt.tolist() == [[1, 2]]
    assert all(torch.equal(p, before[name]) for name, p in m.named_parameters())
    assert all(p.grad is None for p in m.parameters())


def test_an_encoder_decoder_grows_its_target_and_reads_its_source(randomise):
    m = model(randomise, architecture="encoder-decoder")
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1]])
    answer = generate(m, (source, target), 4)
    assert answer.shape == (1, 4)
    first = m(source, target)[0, -1]
    first[PAD] = -torch.inf
    assert answer[0, 0] == first.argmax()


def test_a_source_is_read_once_and_the_answer_is_that_of_reading_it_each_time(randomise):
    m = model(randomise, architecture="encoder-decoder", n_layers=2)
    reads = []
    m.encoder.register_forward_hook(lambda *_: reads.append(1))
    source, tokens = torch.tensor([[3, 4, 5], [6, 7, PAD]]), torch.tensor([[1], [1]])
    answer = generate(m, (source, tokens), 6)
    assert len(reads) == 1
    for _ in range(6):
        logits = m(source, tokens)[:, -1].clone()
        logits[:, PAD] = -torch.inf
        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(answer, tokens[:, 1:])


def test_a_row_is_over_after_its_end_and_all_are_when_the_last_is(randomise):
    m, asked = model(randomise), []
    turns = iter([[3, 5], [8, 5], [4, 8], [4, 4]])  # what is chosen for the two rows; 8 ends one

    def choose(logits):
        asked.append(1)
        return torch.tensor(next(turns))

    answer = generate(m, (torch.tensor([[1, 2], [3, 4]]),), 9, choose, end=8)
    assert answer.tolist() == [[3, 8, PAD], [5, 5, 8]] and len(asked) == 3


def test_every_task_can_be_continued_from_its_prompt():
    for name, task in ((name, kind()) for name, kind in TASKS.items()):
        for architecture in {"decoder", "encoder-decoder"} & set(task.architectures):
            config = ModelConfig.for_task(
                task, architecture=architecture, d_model=8, n_heads=2, n_layers=1
            )
            prompt = task.prompt(architecture)
            answer = generate(build_model(config), prompt.inputs, prompt.n_new)
            assert answer.shape == (1, prompt.n_new), name
            assert len(task.decode(answer)) == prompt.n_new


def test_an_encoder_decoder_learns_to_copy_without_a_teacher():
    """TRN-06: chance at first, and in the end greedy decoding agrees with the teacher.

    Under the init gpt2 the first logits are near 0, so that the first loss is chance itself.
    """
    task = TASKS["copy"](symbols=8, length=6)
    config = ModelConfig.for_task(
        task,
        architecture="encoder-decoder",
        d_model=32,
        n_heads=2,
        n_layers=1,
        init="gpt2",
        position="learned",
    )
    _, target_in = task.validation("encoder-decoder").inputs
    targets = task.validation("encoder-decoder").targets
    assert torch.equal(target_in[:, 1:], targets[:, :-1])  # the target, shifted by one

    trainer = Trainer(config, task, TrainConfig(steps=160, lr=3e-3))
    losses = [step.loss for step in trainer]
    assert losses[0] == pytest.approx(task.chance("encoder-decoder").uniform, abs=0.1)
    assert losses[5] > 1.0  # a loss near 0 within a few steps would be a leak
    validation = trainer.evaluate()
    free = free_running_accuracy(trainer.model, task.validation("encoder-decoder"))
    assert validation.accuracy > 0.97
    assert free > validation.accuracy - 0.03


@pytest.mark.parametrize(
    ("shares", "top_p", "kept"),
    [
        ((0.5, 0.3, 0.1, 0.1), 0.8, 2),  # .5 + .3 is 0.79999995 in float32
        ((0.4, 0.3, 0.2, 0.1), 0.9, 3),
        ((0.25, 0.25, 0.25, 0.25), 0.5, 2),
        ((0.5, 0.3, 0.1, 0.1), 0.81, 3),
    ],
)
def test_top_p_takes_the_tokens_that_just_reach_it(shares, top_p, kept):
    logits = torch.tensor([shares]).log().expand(2000, 4)
    choose = sampler(top_p=top_p, generator=torch.Generator().manual_seed(0))
    assert choose(logits).unique().tolist() == list(range(kept))
