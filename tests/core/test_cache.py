"""The key-value cache: read in pieces, a text gives the logits that it gives as a whole."""

from itertools import pairwise

import pytest
import torch

from core.cache import Cache
from core.config import POSITIONS, ModelConfig
from core.generate import generate, sampler
from core.model import build_model
from core.trace import Recorder

CASES = [
    (architecture, mask)
    for architecture in ("decoder", "encoder", "encoder-decoder")
    for mask in ("causal", "window")
]
ROWS = torch.tensor([[3, 1, 4, 1, 5, 8, 2, 6], [2, 7, 0, 8, 2, 8, 0, 4]])  # one has gaps
SOURCE = torch.tensor([[5, 3, 8], [6, 2, 0]])


def built(randomise, **switches):
    sizes = {"vocab_size": 9, "max_len": 8, "d_model": 8, "n_heads": 2, "n_layers": 2, "window": 3}
    return randomise(build_model(ModelConfig(**(sizes | switches)))).double()


def source_of(model) -> list[torch.Tensor]:
    return [SOURCE] if hasattr(model, "encoder") else []


def in_pieces(model, tokens: torch.Tensor, ends: list[int], looking: bool = False) -> torch.Tensor:
    """The logits of all positions; each call reads up to the next of `ends`."""
    cache, logits = Cache(), []
    for start, end in pairwise([0, *ends]):
        more = [Recorder()] if looking else []
        logits.append(model(*source_of(model), tokens[:, start:end], *more, cache=cache))
        assert cache.length == end
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(("architecture", "mask"), CASES)
def test_reading_in_pieces_equals_reading_the_whole(architecture, mask, position, randomise):
    model = built(randomise, architecture=architecture, mask=mask, position=position)
    whole = model(*source_of(model), ROWS)
    for ends in ([*range(1, 9)], [5, 6, 7, 8], [2, 8], [8]):
        for looking in (False, True):
            read = in_pieces(model, ROWS, ends, looking)
            # Rotary turns by float32 angles, the same ones for a position wherever a call begins.
            assert (read - whole).abs().max() < 1e-12, (ends, looking)


@pytest.mark.parametrize("switches", [{"norm": "pre"}, {"norm": "none"}, {"pad_mask": False}])
def test_no_other_switch_minds(switches, randomise):
    model = built(randomise, position="rotary", **switches)
    assert (in_pieces(model, ROWS, [3, 4, 8]) - model(ROWS)).abs().max() < 1e-12


@pytest.mark.parametrize("position", ["none", "sinusoidal", "rotary", "alibi"])
def test_a_text_longer_than_the_model_was_built_for_is_read_in_pieces_too(position, randomise):
    model, text = built(randomise, position=position), torch.cat((ROWS, ROWS), 1)
    assert (in_pieces(model, text, [*range(3, 17)]) - model(text)).abs().max() < 1e-12


def test_learned_positions_end_where_they_end(randomise):
    model, cache = built(randomise, position="learned"), Cache()
    model(ROWS, cache=cache)
    with pytest.raises(ValueError, match="length 9 is longer than max_len=8"):
        model(ROWS[:, :1], cache=cache)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_where_a_position_sees_ahead_a_cache_is_refused(architecture, randomise):
    model = built(randomise, architecture=architecture, mask="none")
    with pytest.raises(ValueError, match="no key-value cache under this mask"):
        model(*source_of(model), ROWS, cache=Cache())


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_a_row_that_begins_with_padding_is_refused_in_whichever_piece_that_shows(
    position, randomise
):
    model, cache = built(randomise, position=position), Cache()
    model(torch.tensor([[3, 1], [0, 0]]), cache=cache)
    with pytest.raises(ValueError, match="row 1 begins with padding"):
        model(torch.tensor([[0, 4], [0, 5]]), cache=cache)


def test_only_what_is_new_is_computed_and_the_encoder_reads_once(randomise):
    model = built(randomise, architecture="encoder-decoder")
    rows = []
    model.encoder.register_forward_hook(lambda *_: rows.append("encoder"))
    model.blocks[0].cross.kv.register_forward_hook(lambda *_: rows.append("source keys"))
    model.blocks[1].ffn.register_forward_hook(lambda _, given, out: rows.append(out.shape[1]))
    in_pieces(model, ROWS, [5, 6, 7])
    assert rows == ["encoder", "source keys", 5, 1, 1]


def test_the_new_token_is_seen_looking_at_all_before_it(randomise):
    model, cache, trace = built(randomise), Cache(), Recorder()
    model(ROWS[:, :7], cache=cache)
    model(ROWS[:, 7:], trace, cache)
    whole = Recorder()
    model(ROWS, whole)
    name = "blocks.1.attention.weights"
    assert trace.seen[name].shape == (2, 2, 1, 8)
    assert torch.allclose(trace.seen[name], whole.seen[name][:, :, -1:], rtol=0, atol=1e-12)


# --- generation ---------------------------------------------------------------------------


PROMPT = ROWS[:, 3:6].clamp(min=1)


def without_cache(model, tokens, n_new, choose):
    """The same tokens the slow way: the whole text is read for each."""
    for _ in range(n_new):
        logits = model(*source_of(model), tokens[:, -model.max_len :])[:, -1].clone()
        logits[:, 0] = -torch.inf
        tokens = torch.cat([tokens, choose(logits)[:, None]], dim=1)
    return tokens[:, -n_new:]


@pytest.mark.parametrize("mask", ["causal", "window", "none"])
@pytest.mark.parametrize("architecture", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize("position", POSITIONS)
def test_generation_gives_the_same_tokens_as_without(architecture, mask, position, randomise):
    """Also past `max_len`, where the window moves, and under a mask that allows no cache."""
    model = built(randomise, architecture=architecture, mask=mask, position=position)

    def drawn() -> object:
        return sampler(generator=torch.Generator().manual_seed(1))

    expected = without_cache(model, PROMPT, 9, drawn())
    inputs = (*source_of(model), PROMPT)
    assert torch.equal(generate(model, inputs, 9, drawn()), expected)


def test_generation_reads_each_token_once_until_the_text_is_too_long(randomise):
    model, read = built(randomise), []
    model.blocks[0].ffn.register_forward_hook(lambda _, given, out: read.append(out.shape[1]))
    generate(model, (PROMPT,), 8)
    assert read == [3, 1, 1, 1, 1, 1, 8, 8]
