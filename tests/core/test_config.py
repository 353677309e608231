"""Configs: legal values only, refused by name, and the same after a trip through a dict."""

import dataclasses
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import ModelConfig, TrainConfig
from core.knobs import difference
from core.tasks import TASKS

CONFIGS = [ModelConfig, TrainConfig]


def numeric_knobs():
    for config in CONFIGS:
        for item in dataclasses.fields(config):
            if item.metadata["low"] is not None:
                yield config, item


def test_defaults_are_those_of_the_first_lesson():
    model, training = ModelConfig(), TrainConfig()
    assert (model.d_model, model.n_heads, model.n_layers, model.d_hidden) == (64, 4, 2, 256)
    assert (model.d_head, model.norm, model.init, model.tie_embeddings) == (
        16,
        "post",
        "xavier",
        False,
    )
    assert (training.lr, training.warmup, training.clip, training.batch_size) == (1e-3, 0, 1.0, 32)
    assert (training.steps, training.precision, training.seed) == (300, "fp32", 0)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_says_what_it_means(config):
    for item in dataclasses.fields(config):
        assert item.metadata["help"].endswith("."), item.name
        if item.type is str:
            assert item.default == item.metadata["choices"][0] or item.name == "architecture"


@pytest.mark.parametrize("config", CONFIGS)
def test_configs_are_frozen_keyword_only_and_compare_by_value(config):
    one = config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.seed = 3
    with pytest.raises(TypeError):
        config(3)
    assert one == config() and hash(one) == hash(config())


@pytest.mark.parametrize("config", CONFIGS)
def test_names_only_a_config_survives_json(config):
    one = config()
    assert config.from_dict(json.loads(json.dumps(one.to_dict()))) == one


@settings(deadline=None, max_examples=30)
@given(
    lr=st.floats(0, 1e6),
    seed=st.integers(0, 2**31 - 1),
    clip=st.none() | st.floats(1e-9, 1e9),
    warmup=st.integers(0, 99),
)
def test_any_legal_training_config_survives_json(lr, seed, clip, warmup):
    one = TrainConfig(lr=lr, seed=seed, clip=clip, warmup=warmup, steps=100)
    assert TrainConfig.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_unknown_fields_are_named_with_the_legal_ones():
    with pytest.raises(ValueError, match=r"unknown field heads: ModelConfig has \[.*n_heads"):
        ModelConfig.from_dict({"heads": 4})


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (config, item.name)
        for config in CONFIGS
        for item in dataclasses.fields(config)
        if item.metadata["choices"]
    ],
)
def test_unknown_choices_are_refused_with_the_legal_values(config, name):
    """UI-02"""
    choices = config.__dataclass_fields__[name].metadata["choices"]
    with pytest.raises(ValueError) as error:
        config(**{name: "magic"})
    assert str(error.value) == f"{name}='magic': choose one of {', '.join(choices)}"


@pytest.mark.parametrize(
    ("config", "item"), [*numeric_knobs()], ids=lambda x: getattr(x, "name", "")
)
def test_numbers_out_of_range_name_the_field_the_value_and_the_rule(config, item):
    """UI-02"""
    below = item.metadata["low"] - 1
    with pytest.raises(ValueError, match=f"^{item.name}={below}: must be at least "):
        config(**{item.name: below})
    if item.metadata["high"] is not None:
        above = 2 * item.metadata["high"] + 1
        with pytest.raises(
            ValueError, match=f"^{item.name}={re.escape(str(above))}: must be at most "
        ):
            config(**{item.name: above})


@pytest.mark.parametrize("value", ["abc", None, [4], True, 4.0])
def test_values_of_another_kind_are_refused_by_name(value):
    """UI-02"""
    with pytest.raises(ValueError, match=r"^n_heads=.*: expected int"):
        ModelConfig(n_heads=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused_by_name(value):
    with pytest.raises(ValueError, match=r"^lr=(nan|inf): must be a finite number"):
        TrainConfig(lr=value)


@pytest.mark.parametrize("value", [1, 0, "yes", None])
def test_a_switch_is_true_or_false(value):
    with pytest.raises(ValueError, match=r"^residual=.*: expected bool"):
        ModelConfig(residual=value)


def test_heads_that_do_not_divide_the_width_are_refused_with_both_numbers():
    """XAT-03"""
    with pytest.raises(ValueError) as error:
        ModelConfig(d_model=10, n_heads=4)
    message = str(error.value)
    assert "n_heads=4 does not divide d_model=10" in message
    assert "each head gets d_model/n_heads columns" in message


def test_warmup_as_long_as_the_run_is_refused_with_both_numbers():
    """TRN-02"""
    for steps in (1, 50, 100):
        with pytest.raises(ValueError, match=rf"warmup=100 must be below steps={steps}"):
            TrainConfig(warmup=100, steps=steps)
    assert TrainConfig(warmup=99, steps=100).warmup == 99
    assert TrainConfig(warmup=0, steps=1).steps == 1


def test_clipping_to_nothing_is_refused():
    with pytest.raises(ValueError, match=r"^clip=0"):
        TrainConfig(clip=0.0)
    assert TrainConfig(clip=None).clip is None


def test_hot_fields():
    assert set(ModelConfig.hot()) == {
        "scale",
        "mask",
        "window",
        "pad_mask",
        "residual",
        "activation",
    }
    cold = {item.name for item in dataclasses.fields(TrainConfig)} - set(TrainConfig.hot())
    assert cold == {"optimizer", "precision", "seed"}


def test_difference_tells_what_changed():
    old = ModelConfig()
    new = replace(old, scale="none", n_heads=2)
    assert difference(old, new) == {"n_heads": (4, 2), "scale": ("sqrt_d_head", "none")}
    assert difference(old, old) == {}


def test_a_config_takes_its_vocabulary_and_length_from_the_task():
    class Task:
        def usual_architecture(self):
            return "decoder"

        def check_architecture(self, architecture):
            pass

        def sizes(self, architecture):
            max_len = {"decoder": 20, "encoder-decoder": 10}[architecture]
            return {"vocab_size": 17, "max_len": max_len}

    config = ModelConfig.for_task(Task(), d_model=32)
    assert (config.vocab_size, config.max_len, config.d_model) == (17, 20, 32)
    assert ModelConfig.for_task(Task(), architecture="encoder-decoder").max_len == 10
    assert ModelConfig.for_task(TASKS["gaps"]()).architecture == "encoder", "the one that it has"
