"""Channels: what each browser tab shows of its runs, and what is new of it.

A page says with every rerun what it shows (`show`). While runs move, the stream asks for what has
changed (`refresh`): a message is made once for each state of the runs, whoever watches.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from playground.experiments.series import Series, any_live
from playground.live.picture import Html, Part, Shown, shown
from playground.runs.view import View

log = logging.getLogger(__name__)
Seen = TypeVar("Seen")
Parts = Mapping[str, Part]


def state_of(view: View | None) -> Hashable:
    """Two views of a run with equal states look the same."""
    if view is None:
        return None
    last = view.frames[-1] if view.frames else None
    return (
        view.status,
        view.queue_position,
        view.busy,
        view.spec,
        len(view.loss),
        len(view.val_loss),
        len(view.frames),
        id(last),
        len(view.changes),
    )


def is_live(view: View | None) -> bool:
    """Whether a run will change without the visitor."""
    return view is not None and view.live


def state_of_all(series: Iterable[Series]) -> Hashable:
    """The same for runs that are shown together."""
    return tuple((line.label, *map(state_of, line.views)) for line in series)


@dataclass(frozen=True)
class Scene(Generic[Seen]):
    """What a page shows. Its functions are called in other threads, which know no visitor.

    Attributes:
        picture: what is shown of the runs, by the keys of the page's elements. Equal pictures
            make equal parts of equal runs.
        look: sees the runs as they are now.
        state: two sights of the runs with equal states look the same.
        moving: whether they will change without the visitor.
        phase: what the rest of the page depends on; without it, whether they move.
    """

    picture: Callable[[Seen], Parts]
    look: Callable[[], Seen]
    state: Callable[[Seen], Hashable]
    moving: Callable[[Seen], bool]
    phase: Callable[[Seen], Hashable] | None = None


def scene_of_runs(
    picture: Callable[[tuple[Series, ...]], Parts],
    look: Callable[[], tuple[Series, ...]],
    phase: Callable[[tuple[Series, ...]], Hashable] | None = None,
) -> Scene[tuple[Series, ...]]:
    """A scene of runs that are shown together."""
    return Scene(picture, look, state_of_all, any_live, phase)


class Channel:
    """One tab's: what it shows now. Its token is a secret, and lasts as long as the session.

    Args:
        owner: whose tab it is, as the runs know it.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.token = secrets.token_urlsafe(32)
        self.parts: dict[str, Shown] = {}  # replaced, never changed
        self.moving = False
        self.turn = 0  # counts what the page has to be drawn again for
        self.open = True
        self._lock = threading.Lock()  # one thread at a time makes parts
        self._scene: Scene[Any] | None = None
        self._state: Hashable = None
        self._seen: Any = None  # keeps alive what the state names by its id
        self._phase: Hashable = False  # of the runs when the page was drawn
        self.number = 0  # of the newest part
        self._said: dict[str, Shown] = {}  # figures, by the page itself
        self._watchers: set[Callable[[], None]] = set()
        CHANNELS[self.token] = self

    # --- for the page ---------------------------------------------------------------------

    def show(self, scene: Scene[Seen], *drawn: Seen) -> dict[str, Shown]:
        """The page shows this from now on; its parts as the page itself has to draw them.

        Args:
            drawn: the runs as the page has seen them for its buttons. Once they are in another
                phase the page is asked to be drawn again. Without: the page is as it was.
        """
        with self._lock:
            self._scene = scene
            if drawn:
                self._phase = self._phase_of(*drawn)
            self._make(scene.look())
            parts = self.parts
        self._wake()
        return {key: self._on_page(part) for key, part in parts.items()}

    def hide(self) -> None:
        """The page shows nothing that moves, until it says what."""
        with self._lock:
            self._scene, self.moving = None, False

    def close(self) -> None:
        """The visitor is gone: nobody may watch until they come back."""
        self.open = False
        self._wake()

    # --- for the stream -------------------------------------------------------------------

    @property
    def watched(self) -> bool:
        """Whether a browser listens."""
        return bool(self._watchers)

    @contextmanager
    def watching(self, wake: Callable[[], None]) -> Iterator[None]:
        """Be called while inside, from any thread, when the page shows something else."""
        self._watchers.add(wake)
        try:
            yield
        finally:
            self._watchers.discard(wake)

    def refresh(self) -> bool:
        """Look at the runs again; whether anything has changed."""
        with self._lock:
            if self._scene is None:
                return False
            try:
                return self._make(self._scene.look())
            except Exception:
                log.exception("a picture could not be made")
                self._scene, self._state, self.moving = None, None, False
                return False

    def news(self, told: dict[str, int]) -> str | None:
        """What has changed since: a line of JSON, and one for each part. None: nothing.

        Args:
            told: the number of each part when it was last told, and the turn; is brought up to
                date.
        """
        shown = self.parts.values() if self._scene is not None else ()
        parts = [part for part in shown if told.get(part.key) != part.number]
        if not parts and told.get("", 0) == self.turn:
            return None
        told |= {part.key: part.number for part in parts} | {"": self.turn}
        return "\n".join([f'{{"turn":{self.turn}}}', *(p.message.decode() for p in parts)])

    def _make(self, seen: Any) -> bool:
        scene = self._scene
        self.moving = scene.moving(seen)
        phase = self._phase_of(seen)
        turned = self._phase != phase
        if turned:
            self.turn, self._phase = self.turn + 1, phase
        state = (scene.picture, scene.state(seen))
        if state == self._state:
            return turned
        parts = {}
        for key, part in scene.picture(seen).items():
            new, old = shown(key, part, self.number + 1), self.parts.get(key)
            parts[key] = old if old and old.body == new.body else new
        self.number += 1
        self.parts, self._state, self._seen = parts, state, seen
        return True

    def _phase_of(self, seen: Any) -> Hashable:
        return (self._scene.phase or self._scene.moving)(seen)

    def _on_page(self, part: Shown) -> Shown:
        """What the page itself says of a part: words, and all else only where it is not told."""
        if isinstance(part.part, Html):
            return part
        if not self.watched:
            self._said[part.key] = part
        return self._said.setdefault(part.key, part)

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()


CHANNELS: WeakValueDictionary[str, Channel] = WeakValueDictionary()


def close_all_of(owner: str) -> None:
    """The visitor's session has ended."""
    for channel in list(CHANNELS.values()):
        if channel.owner == owner:
            channel.close()
