"""Numbers -> one plain sentence, and nothing that was not measured."""

import math
from dataclasses import dataclass

import numpy as np

from core.tasks import Chance
from playground.runs.snapshot import Attention, Frame
from playground.runs.spec import Spec
from playground.runs.view import Status, View

AT_CHANCE = 0.05  # within this share of the best guess without reading the input
AT_FLOOR = 1.05  # times the floor
SOLVED = 0.99  # validation accuracy
SATURATED = 0.85  # mean largest weight
VANISHED = 1e-5  # first layer's gradient norm as a share of the largest layer's
LEAK = 1e-3  # how far the logits move when a later token changes


@dataclass(frozen=True)
class Diagnosis:
    """What the numbers say: `kind` picks the colour, `text` is the sentence."""

    kind: str  # "info", "good", "warn", "bad"
    text: str


def diagnose(
    spec: Spec, view: View | None, frame: Frame, chance: Chance, floor: float | None
) -> Diagnosis:
    """The one sentence that matters most now, most alarming first."""
    if view is not None and view.status is Status.FAILED:
        return Diagnosis("bad", view.message or "The run ended with an error.")
    if view is not None and view.diverged:
        what = view.message[:1].upper() + view.message[1:].rstrip(".")
        return Diagnosis("bad", f"{what}. The finite curve is kept; Reset gives a new run.")
    trained = view is not None and len(view.loss) > 0
    candidates = (
        _leak(frame, trained),
        _saturated(spec, view, frame, chance, trained),
        _vanishing(view) if trained else None,
        _progress(view, frame, chance, floor) if trained else _before(frame),
    )
    return next(found for found in candidates if found is not None)


def _leak(frame: Frame, trained: bool) -> Diagnosis | None:
    """A leak is measured: inputs move outputs before them, and free running fails."""
    if frame.future_influence is None or not frame.future_influence >= LEAK:  # nan: no claim
        return None
    seen = f"changing a later token moves earlier outputs by up to {frame.future_influence:.2g}"
    if not trained:
        return Diagnosis(
            "warn", f"The mask leaks: {seen}. The model can read what it is asked to predict."
        )
    if frame.free_running is not None and frame.free_running < frame.teacher_forced - 0.2:
        return Diagnosis(
            "bad",
            f"Suspiciously low loss: the mask leaks ({seen}). With teacher forcing it gets "
            f"{frame.teacher_forced:.0%} right; without teacher forcing, "
            f"{frame.free_running:.0%}.",
        )
    return Diagnosis("warn", f"The mask leaks: {seen}.")


def first_attention(frame: Frame) -> Attention:
    return next(iter(frame.attention.values()))


def _saturated(spec, view, frame: Frame, chance: Chance, trained: bool) -> Diagnosis | None:
    attention = first_attention(frame)
    largest = float(np.mean(attention.largest))
    choice = (~attention.hidden).sum(1).max() > 1  # a query that sees one key only has none
    if not choice or largest < SATURATED or attention.spread < 2:
        return None
    stuck = not trained or _recent(view, frame) > (1 - 2 * AT_CHANCE) * chance.blind
    if not stuck:
        return None
    return Diagnosis(
        "bad" if trained else "warn",
        "The softmax is saturated: the first layer's scaled scores have a spread of "
        f"{attention.spread:.1f}{_theory(attention)}, so the largest weight averages "
        f"{largest:.2f} and hardly any gradient passes.",
    )


def _theory(attention: Attention) -> str:
    """What the spread was to be expected to be before the first step, where there is a rule."""
    if attention.theory is None:
        return ""
    return f" (theory for this model before training: {attention.theory:.2f})"


def _vanishing(view: View) -> Diagnosis | None:
    last = {name: values[-1] for name, values in view.layer_norms.items() if len(values)}
    blocks = [name for name in last if "blocks." in name]
    most = max(last.values(), default=0)
    if not blocks or most == 0 or not np.isfinite(list(last.values())).all():
        return None
    share = last[blocks[0]] / most
    if share >= VANISHED:
        return None
    return Diagnosis(
        "bad",
        f"Vanishing gradients: {blocks[0]} receives {last[blocks[0]]:.1e}, "
        f"{1 / max(share, 1e-30):.0e} times less than the layer with the most.",
    )


def _recent(view: View, frame: Frame) -> float:
    """Mean of the last training losses; where a checkpoint has none, the validation loss."""
    loss = view.recent_loss()
    return frame.loss if math.isnan(loss) else loss


def _progress(view: View, frame: Frame, chance: Chance, floor: float | None) -> Diagnosis:
    loss, step = _recent(view, frame), len(view.loss)
    if floor is not None and floor > 0 and frame.loss < AT_FLOOR * floor:
        return Diagnosis(
            "good",
            f"At the floor: {frame.loss:.3f} nats on the validation set, and no model "
            f"that reads no more can go below {floor:.3f} there.",
        )
    if frame.accuracy >= SOLVED:
        return Diagnosis(
            "good",
            f"Solved: {frame.accuracy:.1%} of the validation answers are right at step "
            f"{frame.measured_at}.",
        )
    if loss > (1 - AT_CHANCE) * chance.blind:
        return Diagnosis(
            "info" if step < 100 else "warn",
            f"Near chance: loss {loss:.2f}, and guessing without reading the input costs "
            f"{chance.blind:.2f}.",
        )
    text = f"Learning: loss {loss:.2f}, down from {chance.blind:.2f} at chance"
    if 2 * frame.measured_at >= step:  # otherwise it is out of date
        text += f"; {frame.accuracy:.0%} of the validation answers were right"
        text += f" at step {frame.measured_at}"
    return Diagnosis("info", f"{text}.")


def _before(frame: Frame) -> Diagnosis:
    attention = first_attention(frame)
    return Diagnosis(
        "info",
        f"Untrained. The first layer's scaled scores have a spread of {attention.spread:.2f}"
        f"{_theory(attention)}; the largest weight averages "
        f"{np.mean(attention.largest):.2f}. Press Play.",
    )
