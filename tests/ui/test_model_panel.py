"""The drawing of a model says what the model is: held against the model that is built."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from core.config import ModelConfig, TrainConfig
from core.forms import RECURRENT
from core.knobs import turned
from core.model import build_model
from core.trace import Recorder
from playground.figures.model_drawing import (
    LIVE,
    RESTART,
    Box,
    Model,
    Stack,
    Switch,
    in_words,
    model_svg,
)
from playground.ui.controls import OF_ATTENTION
from playground.ui.link import MODEL
from playground.ui.model_panel import describe

SVG = "{http://www.w3.org/2000/svg}"
ARCHITECTURES = [name for name in MODEL["architecture"].choices if name not in RECURRENT]
GRID = [
    {
        "architecture": architecture,
        "norm": norm,
        "position": position,
        "residual": residual,
        "ffn": ffn,
        "tie_embeddings": tied,
        "norm_type": "rms" if i % 3 else "layer",  # these two ride along
        "gated": i % 5 < 2,
    }
    for i, (architecture, norm, position, residual, ffn, tied) in enumerate(
        product(
            ARCHITECTURES,
            *(MODEL[name].choices for name in ("norm", "position")),
            *[(True, False)] * 3,
        )
    )
]
# Where a knob decides about anything only beside another one.
BESIDE = {"window": {"mask": "window"}, "max_len": {"position": "learned"}}
IDLE = {"vit": {"pad_mask", "tie_embeddings"}}  # knobs that an architecture has no use for
NUMBERS = {"vocab_size": (2, 12, 95), "max_len": (8, 20, 512), "n_heads": (1, 2, 4, 8)}


def small(**knobs) -> ModelConfig:
    return ModelConfig(**{"d_model": 8, "n_heads": 2, "d_ff": 8, "max_len": 8} | knobs)


def boxes(stack: Stack) -> Iterator[tuple[Box, int]]:
    """The boxes of a stack in the order of the stream, and how often each is there."""
    yield stack.embedding, 1
    if stack.position is not None:
        yield stack.position, 1
    for sublayer in stack.sublayers:
        around = [sublayer.box] + [sublayer.norm] * (sublayer.norm is not None)
        for box in reversed(around) if sublayer.norm_first else around:
            yield box, stack.n_blocks
    for box in stack.above:
        yield box, 1


def n_parameters(model: Model) -> int:
    """What all boxes learn, as often as each is there."""
    return sum(box.parameters * times for stack in model.stacks for box, times in boxes(stack))


def switches(model: Model) -> list[Switch]:
    """All of them, each as often as it is drawn."""
    found = list(model.switches)
    for stack in model.stacks:
        found.append(stack.blocks)
        found += [switch for sublayer in stack.sublayers for switch in sublayer.joint]
        for box, _ in boxes(stack):
            found += [*box.switches] + [box.heading] * (box.heading is not None)
    return found


def texts(svg: str) -> list[str]:
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


# --- each knob is there ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        (name, architecture)
        for architecture in ARCHITECTURES
        for name in [*MODEL, "vocab_size", "max_len"]
        if name not in IDLE.get(architecture, ())
    ],
)
def test_every_value_of_every_knob_draws_another_picture(name, architecture):
    offered = NUMBERS.get(name) or MODEL[name].choices
    base = {"architecture": architecture} | BESIDE.get(name, {})
    configs = [ModelConfig(**base | {name: value}) for value in offered]
    different = {config.mask_rule for config in configs} if name == "mask" else set(offered)
    for pictures in (
        {model_svg(describe(config)) for config in configs},
        {in_words(describe(config)) for config in configs},
    ):
        assert len(pictures) == len(different)


@pytest.mark.parametrize(
    "base, name",
    [
        ({"ffn": False}, "activation"),
        ({"ffn": False}, "d_ff"),
        ({"ffn": False}, "gated"),
        ({"norm": "none"}, "norm_type"),
        ({"mask": "causal"}, "window"),
        ({"architecture": "vit"}, "pad_mask"),
        ({"architecture": "vit"}, "tie_embeddings"),
    ],
)
def test_a_knob_without_effect_is_not_in_the_picture(base, name):
    pictures = {
        model_svg(describe(ModelConfig(**base | {name: value}))) for value in MODEL[name].choices
    }
    assert len(pictures) == 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_sign_at_each_switch_tells_whether_it_changes_the_running_model(architecture):
    config = ModelConfig(architecture=architecture, mask="window")
    titles = {knob.title.partition(":")[0]: name for name, knob in MODEL.items()}
    drawn = {titles[switch.name]: switch for switch in switches(describe(config))}
    assert drawn.keys() == MODEL.keys() - IDLE.get(architecture, set())
    for name, switch in drawn.items():
        try:
            turned((config, TrainConfig()), {name: getattr(config, name)})
        except ValueError:
            assert switch.text.startswith(RESTART)
        else:
            assert switch.text.startswith(LIVE)


def test_what_differs_from_the_default_stands_out_and_nothing_else():
    config = ModelConfig(scale="none", norm="pre")
    model = describe(config, {"scale": "sqrt_d_head", "norm": "post"})
    changed = [switch for switch in switches(model) if switch.usual is not None]
    # LayerNorm stands twice in a block, and once after the blocks.
    assert Counter(switch.name for switch in changed) == {"scale": 1, "norm": 3}
    bold = [
        element.text
        for element in ElementTree.fromstring(model_svg(model)).iter(f"{SVG}text")
        if element.get("font-weight") == "bold" and element.text[0] in LIVE + RESTART
    ]
    assert Counter(bold) == Counter(switch.text for switch in changed)
    assert in_words(model).count("(the default is") == len(changed)
    assert "(the default is" not in in_words(describe(ModelConfig()))


# --- the picture and the model that is built -----------------------------------------------------


@pytest.mark.parametrize("knobs", GRID, ids=str)
def test_the_parts_drawn_are_those_of_the_model(knobs):
    config = small(**knobs)
    drawing, model = describe(config), build_model(config)
    assert n_parameters(drawing) == sum(p.numel() for p in model.parameters())
    parts = Counter()
    for stack in drawing.stacks:
        for box, times in boxes(stack):
            parts[box.kind] += times * (not box.absent)
    modules = [type(module).__name__ for module in model.modules()]
    norms = nn.LayerNorm | nn.RMSNorm
    assert parts["norm"] == sum(isinstance(module, norms) for module in model.modules())
    assert parts["attention"] == modules.count("SelfAttention") + modules.count("CrossAttention")
    feed_forward = "GatedFeedForward" if config.gated else "FeedForward"
    assert parts["feed-forward"] == modules.count(feed_forward)


@pytest.mark.parametrize("architecture", RECURRENT)
def test_a_recurrent_net_is_drawn_without_attention_and_without_its_knobs(architecture):
    config = small(architecture=architecture, position="learned", n_layers=3)
    drawing = describe(config)
    assert n_parameters(drawing) == sum(p.numel() for p in build_model(config).parameters())
    drawn = {switch.name for switch in switches(drawing)}
    titles = {MODEL[name].title.partition(":")[0]: name for name in MODEL}
    assert {titles[name] for name in drawn} == set(MODEL) - set(OF_ATTENTION) - {"window"}
    (stack,) = drawing.stacks
    assert [(box.kind, times) for box, times in boxes(stack)] == [
        ("embedding", 1),
        ("feed-forward", 3),
        ("unembedding", 1),
    ]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("knobs", GRID[::7], ids=str)
def test_the_svg_is_well_formed_and_its_alternative_names_all_that_is_written(knobs, wide):
    drawing = describe(small(**knobs))
    svg = model_svg(drawing, wide)
    said = ElementTree.fromstring(svg).get("aria-label")
    assert said == in_words(drawing)
    for stack in drawing.stacks:
        for box, _ in boxes(stack):
            for text in (box.title, *box.facts):
                assert text in said
    for switch in switches(drawing):
        assert switch.words in said and switch.text in texts(svg)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("mask", MODEL["mask"].choices)
def test_the_small_map_is_where_the_model_looks(architecture, mask):
    config = small(architecture=architecture, mask=mask, window=3, n_layers=1)
    tokens, recorder = torch.ones(1, 8, dtype=torch.int64), Recorder()
    inputs = {"encoder-decoder": (tokens, tokens), "vit": (tokens[:, 1:, None].expand(1, 7, 16),)}
    inputs = inputs.get(architecture, (tokens,))
    build_model(config)(*inputs, recorder)
    looked = [
        tensor[0, 0] > 0 for name, tensor in recorder.seen.items() if name.endswith("weights")
    ]
    drawn = [
        torch.tensor(box.sees)
        for stack in describe(config).stacks
        for box, _ in boxes(stack)
        if box.sees
    ]
    assert len(drawn) == len(looked)
    assert all(torch.equal(a, b) for a, b in zip(drawn, looked, strict=True))


def test_a_residual_connection_that_is_off_is_not_drawn():
    def ways_around(residual: bool) -> int:
        svg = ElementTree.fromstring(model_svg(describe(ModelConfig(residual=residual))))
        return len(list(svg.iter(f"{SVG}circle")))  # the additions

    assert ways_around(True) - ways_around(False) == 2


def test_positions_enter_where_the_scheme_lets_them_in():
    def places(scheme: str) -> tuple[bool, bool]:
        (stack,) = describe(ModelConfig(position=scheme)).stacks
        in_attention = any(s.name == "Position" for s in stack.sublayers[0].box.switches)
        added = stack.position is not None and not stack.position.absent
        return added, in_attention

    found = {scheme: places(scheme) for scheme in MODEL["position"].choices}
    assert found == {
        "sinusoidal": (True, False),
        "learned": (True, False),
        "none": (False, False),
        "rotary": (False, True),
        "alibi": (False, True),
    }
