"""Numbers -> one plain sentence, and nothing that was not measured."""

import math
from dataclasses import dataclass

import numpy as np

from core.measure import SHUT
from core.tasks import Chance
from playground.runs.snapshot import Attention, Frame, layer_title, layer_word
from playground.runs.spec import counted
from playground.runs.standing import Standing
from playground.runs.view import LAST, Status, View

AT_CHANCE = 0.05  # within this share of the best guess without reading the input
AT_FLOOR = 1.05  # times the floor
SOLVED = 0.99  # validation accuracy
SATURATED = 0.3  # share of the rows that hardly pass a gradient
POOR, POOR_LATER, LATER = 0.1, 0.35, 300  # share of the way from chance to floor, by so many steps
VANISHED = 1e-5  # first layer's gradient norm as a share of the largest layer's
LEAK = 1e-3  # how far the logits move when a later token changes
NO_ATTENTION = (
    "A recurrent net has no attention: what it knows of earlier tokens is in its state, which each "
    "token rewrites."
)


@dataclass(frozen=True)
class Diagnosis:
    """What the numbers say: `kind` picks the colour, `text` is the sentence."""

    kind: str  # "info", "good", "warn", "bad"
    text: str


def diagnose(view: View | None, frame: Frame, chance: Chance, floor: float | None) -> Diagnosis:
    """The one sentence that matters most now, most alarming first."""
    if view is not None and view.status is Status.FAILED:
        return Diagnosis("bad", view.message or "The run ended with an error.")
    if view is not None and view.diverged:
        what = view.message[:1].upper() + view.message[1:].rstrip(".")
        return Diagnosis("bad", f"{what}. The finite curve is kept; Reset gives a new run.")
    if view is None or not len(view.loss):
        found = _leak(frame) or _untrained(frame, chance)
    else:
        now = Standing(view, frame, chance, floor)
        found = (
            _leak(frame, now)
            or _just_changed(now)
            or _memorising(now)
            or _saturated(now)
            or _vanishing(view)
            or _progress(now)
        )
    return found


def _leak(frame: Frame, now: Standing | None = None) -> Diagnosis | None:
    """A leak is measured: inputs move outputs before them, and free running fails.

    Args:
        now: where the loss stands; None before the first step.
    """
    if frame.future_influence is None or not frame.future_influence >= LEAK:  # nan: no claim
        return None
    seen = f"changing a later token moves earlier outputs by up to {frame.future_influence:.2g}"
    if now is None:
        return Diagnosis(
            "warn", f"The mask leaks: {seen}. The model can read what it is asked to predict."
        )
    forced, free = frame.teacher_forced, frame.free_running
    useless = free is not None and free < forced - 0.2
    text = (
        f"The mask leaks: {seen}, so the model can read what it is asked to predict. The "
        f"{now.name} is {now.loss:.2f}, and {'worth' if useless else 'proves'} nothing."
    )
    if free is not None:
        text += (
            f" At step {frame.written_at} {forced:.0%} of the answers are right with teacher "
            f"forcing; without teacher forcing, {free:.0%}."
        )
    return Diagnosis("bad" if useless else "warn", text)


def _just_changed(now: Standing) -> Diagnosis | None:
    """A knob was turned a few steps ago: what there is, and no mean across the change."""
    view, frame = now.view, now.frame
    if not view.marks or (done := now.step - view.marks[-1]) >= LAST:
        return None
    mark, before = view.marks[-1], now.earlier
    text = f"Changed at step {mark}: {now.turned}."
    if done:
        text += f" The training loss of the {counted(done, 'step')} since is {now.training:.2f}"
        text += "." if math.isnan(before) else f"; before, it was {before:.2f}."
    elif not math.isnan(before):
        text += f" The training loss before it is {before:.2f}; no step has been trained since."
    else:
        text += " No step has been trained since."
    text += f" The validation loss is {frame.loss:.2f} at step {frame.measured_at}"
    if np.count_nonzero(view.val_steps == mark) > 1 and frame.measured_at == mark:
        text += f"; just before the change it was {view.val_loss[view.val_steps == mark][0]:.2f}"
    return Diagnosis("info", f"{text}.{_saturation(frame)}")


def first_attention(frame: Frame) -> Attention | None:
    """None in a recurrent net, which has none."""
    return next(iter(frame.attention.values()), None)


def _saturation(frame: Frame) -> str:
    """In how many rows the softmax of the first attention is saturated; else nothing."""
    attention = first_attention(frame)
    if attention is None or attention.spread < 2:
        return ""
    if not attention.shut >= SATURATED:  # nan: a row has one key only
        return ""
    return (
        f" The softmax of {layer_title(attention.name)} is saturated: {attention.shut:.0%} of its "
        f"rows pass hardly any gradient (less than {SHUT:g}). The scaled scores have a spread of "
        f"{attention.spread:.1f}{_theory(attention)}, and the largest weight averages "
        f"{np.mean(attention.largest):.2f}."
    )


def _theory(attention: Attention) -> str:
    """What the spread was to be expected to be before the first step, where there is a rule."""
    if attention.theory is None:
        return ""
    return f" (theory for these knobs, before training: {attention.theory:.1f})"


def _memorising(now: Standing) -> Diagnosis | None:
    """The validation loss rises while training goes on falling."""
    if (found := now.memorised) is None or now.frame.accuracy >= SOLVED:
        return None
    return Diagnosis(
        "warn",
        f"Memorising: since step {found.best_at} the training loss has fallen from "
        f"{found.training_then:.2f} to {found.training:.2f}, and the validation loss has risen "
        f"from {found.best:.2f}, its lowest, to {found.validation:.2f}. What is learnt now does "
        f"not help with new examples.",
    )


def _saturated(now: Standing) -> Diagnosis | None:
    """The cause is said with the effect: a saturated softmax, and little that was learnt."""
    enough = POOR + (POOR_LATER - POOR) * min(1, now.step / LATER)
    why = _saturation(now.frame)
    if not why or now.way >= enough:
        return None
    guess = now.chance.blind
    if falling := now.falling:
        how = "Learning, slowly"
        if falling.after > (1 - AT_CHANCE) * guess:
            better = "hardly" if falling.after < guess else "no"
            how = f"Falling, and so far {better} better than guessing"
        text = f"{how}: loss {falling.in_words()}; guessing costs {guess:.2f}."
        return Diagnosis("warn", text + why)
    return Diagnosis(
        "bad", f"Hardly learning: the {now.name} is {now.loss:.2f}, {now.way_in_words}.{why}"
    )


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
        f"Vanishing gradients: {layer_word(blocks[0])} receives {last[blocks[0]]:.1e}, "
        f"{1 / max(share, 1e-30):.0e} times less than the layer with the most.",
    )


def _progress(now: Standing) -> Diagnosis:
    frame, chance, floor = now.frame, now.chance, now.floor
    # Far below it is what was measured before a change that has moved the floor.
    at_floor = bool(floor) and floor / AT_FLOOR < frame.loss < AT_FLOOR * floor
    if at_floor and floor > (1 - AT_CHANCE) * chance.blind:
        return Diagnosis(
            "warn",
            f"Nothing to learn: the validation loss is {frame.loss:.2f} at step "
            f"{frame.measured_at}, guessing costs {chance.blind:.2f}, and no model can go below "
            f"{floor:.2f}: what the answers depend on does not reach them through the mask.",
        )
    if at_floor:
        return Diagnosis(
            "good",
            f"At the floor: {frame.loss:.3f} nats on the validation set, and no model with these "
            f"knobs can go below {floor:.3f} there.",
        )
    if frame.accuracy >= SOLVED:
        return Diagnosis(
            "good",
            f"Solved: {frame.accuracy:.1%} of the validation answers are right at step "
            f"{frame.measured_at}.",
        )
    early = now.step < 100
    if now.loss > (1 + AT_CHANCE) * chance.uniform:
        return Diagnosis(
            "info" if early else "warn",
            f"Worse than guessing: the {now.name} is {now.loss:.2f}, and a uniform guess costs "
            f"{chance.uniform:.2f}. The model is sure of wrong answers{now.right}."
            f"{now.before}",
        )
    if now.loss > (1 + AT_CHANCE) * chance.blind:
        return Diagnosis(
            "info" if early else "warn",
            f"Worse than guessing: the {now.name} is {now.loss:.2f}, and the best guess without "
            f"reading the input costs {chance.blind:.2f}{now.right}.{now.before}",
        )
    if now.loss > (1 - AT_CHANCE) * chance.blind:
        return Diagnosis(
            "info" if early else "warn",
            f"Near chance: the {now.name} is {now.loss:.2f}, and guessing without reading the "
            f"input costs {chance.blind:.2f}.{now.before}",
        )
    if rising := now.rising:
        return Diagnosis("warn", f"The loss is rising: {rising.in_words()}.{now.before}")
    if plateau := now.plateau:
        text = f"On a plateau: loss {plateau.in_words()}{now.right}.{now.before}"
        return Diagnosis("warn", text)
    losses = [] if math.isnan(now.training) else [f"loss {now.training:.2f}"]
    if now.training > chance.blind:  # its mean lags
        losses = []
    if now.fresh or not losses:
        losses.append(
            f"validation loss {frame.loss:.2f} and {frame.accuracy:.0%} of the validation answers "
            f"right at step {frame.measured_at}"
        )
    how = "Partly learnt" if now.view.status.over else "Learning"
    text = f"{how}: {', '.join(losses)}; guessing costs {chance.blind:.2f}.{now.before}"
    return Diagnosis("info", text)


def _untrained(frame: Frame, chance: Chance) -> Diagnosis:
    """Random preferences cost more than having none."""
    text = f"Untrained: the validation loss is {frame.loss:.2f}"
    if frame.loss > (1 + AT_CHANCE) * chance.uniform:
        text += (
            f", above the {chance.uniform:.2f} of a uniform guess: the model already prefers some "
            "tokens to others, for no reason"
        )
    elif frame.loss > (1 - AT_CHANCE) * chance.uniform:
        text += f", about the {chance.uniform:.2f} of a uniform guess"
    if why := _saturation(frame):
        return Diagnosis("warn", f"{text}.{why} Press Play.")
    attention = first_attention(frame)
    if attention is None:
        return Diagnosis("info", f"{text}. {NO_ATTENTION} Press Play.")
    return Diagnosis(
        "info",
        f"{text}. The scaled scores of {layer_title(attention.name)} have a spread of "
        f"{attention.spread:.2f}{_theory(attention)}; the largest weight averages "
        f"{np.mean(attention.largest):.2f}. Press Play.",
    )
