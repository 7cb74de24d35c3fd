"""The back ends that keep the states of keys: what they have in common, and the one in the memory of a process."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from airflow_provider_mediaops.http.exchange import Clock

T = TypeVar("T")

#: From a state, the back end's time, and the age of that time in seconds (at most), to the next state and an answer.
#: None: there is no state. It is pure and quick, and may be called again.
Change: TypeAlias = Callable[[str | None, float, float], tuple[str | None, T]]

#: How long to wait for others that use the same back end.
BUSY_SECONDS = 5.0

#: Excludes the other threads of this process. No update may be under way when a process forks, because its child would
#: take the back end for locked for ever.
process_lock = threading.Lock()
os.register_at_fork(
    before=process_lock.acquire, after_in_parent=process_lock.release, after_in_child=process_lock.release
)


class RateBackend(ABC):
    """Keeps the states of keys, each a text under a name; ``where`` is its address, free of credentials."""

    #: Whether a state may be lost while others still use the key, so that a new one begins with care.
    may_lose = True

    def __init__(self, where: str, secrets: tuple[str, ...] = ()) -> None:
        self.where, self.secrets = where, secrets
        #: Whether this process has used it before, so that an error may pass.
        self.has_worked = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r})"

    @abstractmethod
    def update(self, name: str, change: Change[T]) -> T:
        """
        Change a state in one step that no other update comes between. It may block.

        An update whose outcome is unknown may be repeated: that costs a slot, and never exceeds the rate.

        If ``change`` returns the same text, nothing is written; if it returns None, the state is removed. A back end
        that cannot be used raises a ``RateStoreError``.
        """

    def read(self, name: str) -> tuple[str | None, float]:
        """Return a state and the back end's time, with the errors of :meth:`update`."""
        return self.update(name, lambda text, now, _age: (text, (text, now)))

    def forget(self, name: str) -> None:
        """Remove a state, with the errors of :meth:`update`: its key begins as if it had not been used before."""
        self.update(name, lambda _text, _now, _age: (None, None))


class MemoryBackend(RateBackend):
    """Keeps the states of one process; other processes do not share them."""

    may_lose = False

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        super().__init__("memory://")
        self._clock, self._states = clock or (lambda: Clock().monotonic()), dict[str, str]()

    def update(self, name: str, change: Change[T]) -> T:
        """Change a state under a lock."""
        with process_lock:
            text, answer = change(self._states.get(name), self._clock(), 0.0)
            if text is None:
                self._states.pop(name, None)
            else:
                self._states[name] = text
        return answer


_backends: dict[str, RateBackend] = {}


def backend_at(address: str) -> RateBackend:
    """Return the back end that this process shares for an address; nothing is opened before it is used."""
    if address not in _backends:
        _backends.setdefault(address, _made(address))
    return _backends[address]


def _made(address: str) -> RateBackend:
    scheme, separator, rest = address.partition("://")
    if scheme == "memory" and not rest and separator:
        return MemoryBackend()
    if scheme == "sqlite" and separator:
        from airflow_provider_mediaops.http.rate_limit.sqlite_backend import SqliteBackend

        # As in other addresses of SQLite: three slashes, then the path, which begins with a slash of its own.
        if not rest.startswith("//") or rest.endswith("/"):
            raise ValueError(
                "the path of a SQLite file must be absolute: sqlite:////folder/file.db, with four slashes."
            )
        return SqliteBackend(rest[1:])
    if scheme in ("redis", "rediss") and separator:
        from airflow_provider_mediaops.http.rate_limit.redis_backend import RedisBackend

        return RedisBackend(address)
    if scheme.endswith(("+sentinel", "+cluster")):
        raise ValueError(
            f"{scheme}:// is not supported. Write redis://host or rediss://host of one server: the address of the "
            "current primary, or of a proxy or DNS name in front of it that follows a failover."
        )
    raise ValueError("it must be memory://, sqlite:////folder/file.db, redis://host or rediss://host.")
