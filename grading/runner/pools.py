"""Things that are costly to open and to keep: a few at a time, shared by all who ask for the same."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Give back what it holds."""
        ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Closable)


class _Kept(Generic[V]):
    """A value that is open, or that its first user is opening."""

    def __init__(self) -> None:
        self.users_count = 0
        self.value: V | None = None
        self._opening = threading.Lock()

    def get(self, open_: Callable[[], V]) -> V:
        with self._opening:
            if self.value is None:
                self.value = open_()
            return self.value

    def close(self) -> None:
        with self._opening:
            if self.value is not None:
                self.value.close()


class Pool(Generic[K, V]):
    """Values by key, opened when first asked for. May be used from several threads; only who asks for one waits for it.

    open_: makes the value of a key. most: so many stay open while nobody uses them; the longest unused makes
    room. is_good: a value of which it is False is opened anew; whoever uses the old one does so to the end.
    """

    def __init__(
        self, open_: Callable[[K], V], *, most: int, is_good: Callable[[V], bool] = lambda _: True
    ) -> None:
        self._open = open_
        self._most = most
        self._is_good = is_good
        self._lock = threading.Lock()
        self._kept: dict[K, _Kept[V]] = {}  # the last one used comes last
        self._old: list[_Kept[V]] = []  # no good any more, and still used

    @contextlib.contextmanager
    def use(self, key: K) -> Iterator[V]:
        """The value of a key; it stays open for the block at least."""
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None and kept.value is not None and not self._is_good(kept.value):
                self._old.append(kept)
                self._close_old()
                kept = None
            if kept is None:
                idle = [other for other, one in self._kept.items() if not one.users_count]
                for other in idle[: max(0, len(self._kept) + 1 - self._most)]:
                    self._kept.pop(other).close()
                kept = _Kept()
            self._kept[key] = kept
            kept.users_count += 1
        try:
            yield kept.get(lambda: self._open(key))
        finally:
            with self._lock:
                kept.users_count -= 1
                self._close_old()

    def _close_old(self) -> None:
        for one in [one for one in self._old if not one.users_count]:
            self._old.remove(one)
            one.close()

    def close(self) -> None:
        """Close all values, used or not; the pool can be used again."""
        with self._lock:
            for one in (*self._old, *self._kept.values()):
                one.close()
            self._old.clear()
            self._kept.clear()
