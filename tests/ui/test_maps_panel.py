"""The attention maps of the Playground: which of them is shown first."""

import numpy as np
import pytest

from core.config import ModelConfig, TrainConfig
from core.device import choose_device
from core.tasks import TASKS
from playground.runs.controller import untrained
from playground.runs.snapshot import layer_title
from playground.runs.spec import Spec
from playground.ui.choices import Choices
from playground.ui.maps_panel import chosen_layer, layers_offered


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_the_first_map_is_one_that_the_mask_acts_on(architecture):
    task = TASKS["copy"]()
    sizes = {"d_model": 8, "n_heads": 1, "mask": "window", "window": 2}
    model = ModelConfig.for_task(task, architecture=architecture, **sizes)
    frame = untrained(Spec(model, task, TrainConfig()), choose_device())
    first = frame.attention[chosen_layer(frame, Choices())]
    assert np.triu(first.hidden, 1).any() or np.tril(first.hidden, -1).any(), "it hides something"
    assert layer_title(first.name) == layers_offered(frame)[0], "what the switch says by default"
    assert set(layers_offered(frame)) == set(map(layer_title, frame.attention))
