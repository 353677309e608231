"""What a forward pass lets you see.

Looking belongs to the call, not to the model: whoever calls the model hands it a trace, and
every interesting tensor passes through it as `trace(name, tensor) -> tensor`. A recorder keeps
the tensor, or hands back another one: switching off a head, skipping a block or editing a mask
is an edit on the way, never a flag in the model. So a model that several people look at holds
nothing of what any of them sees. Names follow the module path: `blocks.1.attention.weights`.

    def without_head_2(z):  # [batch, heads, length, d_head]
        z = z.clone()
        z[:, 2] = 0
        return z

    recorder = Recorder({"blocks.1.attention.z": without_head_2})
    logits = model(tokens, recorder)  # as if block 1 had no head 2
    recorder.seen["blocks.1.attention.weights"]  # what its heads looked at
"""

from collections.abc import Callable, Mapping

from torch import Tensor

Edit = Callable[[Tensor], Tensor]


class Trace:
    """Nobody is looking: every tensor passes, and attention may take its fused path."""

    watching = False

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        return tensor

    def scope(self, name: str) -> "Trace":
        """The same trace, seen from inside the sub-module `name`."""
        return self


NO_TRACE = Trace()


class Recorder(Trace):
    """Keeps every tensor that passes, after the edits asked for.

    Args:
        edits: name -> function of the tensor, giving a tensor of the same shape.

    `seen` maps each name to its tensor, in the order of the computation.
    """

    watching = True

    def __init__(self, edits: Mapping[str, Edit] | None = None) -> None:
        self.seen: dict[str, Tensor] = {}
        self._edits = edits or {}
        self._prefix = ""

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        path = self._prefix + name
        edit = self._edits.get(path)
        self.seen[path] = tensor if edit is None else edit(tensor)
        return self.seen[path]

    def scope(self, name: str) -> "Recorder":
        inner = Recorder(self._edits)
        inner.seen = self.seen
        inner._prefix = f"{self._prefix}{name}."
        return inner
