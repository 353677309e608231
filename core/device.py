"""Where the numbers are computed, in which number types, and why.

A CUDA GPU comes first, then Apple's GPU, then the CPU. The environment variable
`PLAYGROUND_DEVICE` (for example `cpu`) overrides the choice.
"""

import math
import os
from dataclasses import dataclass

import torch
from torch import Tensor

OVERRIDE = "PLAYGROUND_DEVICE"

DTYPES: dict[str, torch.dtype | None] = {
    "fp32": None,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


@dataclass(frozen=True)
class Device:
    """A device, the reason for it, and what stands against each precision (None: nothing)."""

    name: str
    words: str
    refusals: tuple[tuple[str, str | None], ...]

    @property
    def kind(self) -> str:
        return torch.device(self.name).type

    @property
    def precisions(self) -> list[str]:
        """The precisions that run here."""
        return [precision for precision, refusal in self.refusals if refusal is None]

    def check(self, precision: str) -> None:
        """Refuse a precision that this device does not offer.

        Raises:
            ValueError: names the precision, the device and the reason.
        """
        if refusal := dict(self.refusals)[precision]:
            raise ValueError(f"precision={precision} is not available: {refusal}")


def choose_device(name: str | None = None) -> Device:
    """The device to compute on.

    Args:
        name: "cpu", "cuda", "cuda:1" or "mps"; None takes `PLAYGROUND_DEVICE`, or the best one.

    Raises:
        ValueError: a device that this machine does not have.
    """
    requested = name or os.environ.get(OVERRIDE) or None
    if requested is None:
        found = [kind for kind in ("cuda", "mps") if _present(kind)]
        return _describe(found[0] if found else "cpu", "the best device this machine has")
    said = f"{OVERRIDE if name is None else 'device'}={requested!r}"
    try:
        kind = torch.device(requested).type
    except RuntimeError as error:
        raise ValueError(f"{said}: choose cpu, cuda or mps") from error
    if not _present(kind):
        raise ValueError(f"{said}: this machine has none; choose cpu")
    return _describe(requested, f"chosen by {OVERRIDE}" if name is None else "chosen by the caller")


def _present(kind: str) -> bool:
    if kind == "cuda":
        return torch.cuda.is_available()
    if kind == "mps":
        return torch.backends.mps.is_available()
    return kind == "cpu"


def _describe(name: str, why: str) -> Device:
    kind = torch.device(name).type
    count = torch.get_num_threads()
    title = f"CPU, {count} thread{'s' * (count != 1)}"
    bf16 = None
    if kind == "mps":
        title = "Apple GPU"
    if kind == "cuda":
        title = f"GPU {torch.cuda.get_device_name(name)}"
        if not torch.cuda.is_bf16_supported():
            bf16 = "this GPU has no bfloat16 arithmetic"
    return Device(name, f"{title}: {why}", (("fp32", None), ("bf16", bf16), ("fp16", None)))


def memory() -> int | float:
    """Bytes of memory in this machine; endless where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return math.inf


def flush_denormals() -> None:
    """Let numbers below 1e-38 count as 0, in this thread and those that it starts.

    Deep down a network without residuals most gradients are that small, and a processor takes
    about ten times as long for each of them.
    """
    torch.set_flush_denormal(True)


def compute_dtype(weight: Tensor) -> torch.dtype:
    """The type of what a matrix product with `weight` gives: autocast's, where that is on.

    Attention's scores are such products, and what is added to them must be of their type.
    """
    device = weight.device.type
    known = torch.amp.is_autocast_available(device)  # "meta" is not
    on = known and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if on else weight.dtype
