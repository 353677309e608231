"""What the measurements of several ideas share."""

from torch import Tensor

from core.trace import Recorder


def stream(trace: Recorder) -> list[Tensor]:
    """The residual stream of a decoder: as it enters the first block, and after each block."""
    after = [x for name, x in trace.seen.items() if name.endswith(".resid_post")]
    return [trace.seen["embed"], *after]
