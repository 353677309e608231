"""What a run is called in the history, and beside others."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from core.train import Change
from playground.history.database import Entry
from playground.runs.spec import Spec, changes_text, hot_changes_text


def title(spec: Spec, changes: Iterable[Change] = ()) -> str:
    """What a run changed from the defaults of its task, and on the way: the name of an entry.

    `scale=none, lr=0.01; residual=off after step 120`
    """
    words = [changes_text(spec.unusual()) or "the defaults", hot_changes_text(changes)]
    return "; ".join(filter(None, words))


def specs_of(entries: Iterable[Entry], text: str | None = None) -> dict[int, Spec]:
    """What the runs began as, by id; without those of a text that is no longer here.

    Args:
        text: the visitor's own text.
    """
    specs = {}
    for entry in entries:
        with suppress(ValueError):
            specs[entry.id] = Spec.from_dict(entry.spec, text)
    return specs


def tell_apart(entries: Sequence[Entry], specs: Mapping[int, Spec]) -> tuple[dict[int, str], str]:
    """What tells each of these runs from the others, by its id; and what all of them share.

    A name that its visitor gave it stays.

    Args:
        specs: theirs, by id; where one is missing they keep their whole names.
    """
    if len(entries) < 2 or len(specs) < len(entries):
        return _numbered({entry.id: entry.label for entry in entries}), ""
    first, *others = specs.values()
    differing = dict.fromkeys(name for other in others for name in first.diff(other))
    names = {}
    for entry, spec in zip(entries, specs.values(), strict=True):
        own = ((name, spec.value(name)) for name in differing if spec.has(name))
        words = filter(None, [changes_text(own), hot_changes_text(entry.view.changes)])
        given = entry.label != title(spec, entry.view.changes)
        names[entry.id] = entry.label if given else "; ".join(words) or entry.label
    shared = [change for change in first.unusual() if change[0] not in differing]
    return _numbered(names), changes_text(shared)


def _numbered(names: dict[int, str]) -> dict[int, str]:
    """Where several have the same name, which of them each is."""
    same = {name: [id for id in names if names[id] == name] for name in names.values()}
    return {
        id: name if len(same[name]) == 1 else f"{name} ({same[name].index(id) + 1})"
        for id, name in names.items()
    }
