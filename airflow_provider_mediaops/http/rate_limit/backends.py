"""
The back ends that keep the states of keys: in the memory of a process, or in a SQLite file for those of a machine.

That for processes of many machines is in ``redis_backend``.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.exchange import Clock

T = TypeVar("T")

#: From a state and the back end's time to the next state and an answer. None: there is no state. It is pure and quick,
#: and may be called again.
Change: TypeAlias = Callable[[str | None, float], tuple[str | None, T]]

#: How long to wait for others that use the same back end.
BUSY_SECONDS = 5.0
# The umask takes away more. Tasks that run as other users (run_as_user) share the file by its group. Others must not
# read it: whoever can read it can lock it, and so hold up every request.
_FILE_MODE = 0o660

# Excludes the other threads of this process. No update may be under way when a process forks, because its child would
# take the back end for locked for ever.
_process_lock = threading.Lock()
os.register_at_fork(
    before=_process_lock.acquire, after_in_parent=_process_lock.release, after_in_child=_process_lock.release
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
        return self.update(name, lambda text, now: (text, (text, now)))

    def forget(self, name: str) -> None:
        """Remove a state, with the errors of :meth:`update`: its key begins as if it had not been used before."""
        self.update(name, lambda _text, _now: (None, None))


class MemoryBackend(RateBackend):
    """Keeps the states of one process; other processes do not share them."""

    may_lose = False

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        super().__init__("memory://")
        self._clock, self._states = clock or (lambda: Clock().monotonic()), dict[str, str]()

    def update(self, name: str, change: Change[T]) -> T:
        """Change a state under a lock."""
        with _process_lock:
            text, answer = change(self._states.get(name), self._clock())
            if text is None:
                self._states.pop(name, None)
            else:
                self._states[name] = text
        return answer


class SqliteBackend(RateBackend):
    """
    Keeps states in a SQLite file on a disk of this machine, by the machine's date, so that they survive a boot.

    The file is opened for each update, which takes a tenth of a millisecond: a connection would survive neither a fork
    nor the removal of the file. Nothing waits for the disk: a file that a power cut has damaged is put aside.
    """

    def __init__(
        self, path: str | Path, clock: Callable[[], float] = time.time, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        super().__init__(f"sqlite:///{path}")
        self._path, self._clock, self._busy_seconds = Path(path), clock, busy_seconds

    def update(self, name: str, change: Change[T]) -> T:
        """Change a state in a transaction that excludes other processes from its first statement on."""
        try:
            if not self._path.exists():
                # The file is not made for one who only looks: it would belong to that user.
                text, answer = change(None, self._clock())
                if text is None:
                    return answer
            try:
                return self._update(name, change)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                # A file that is not a database at all may be somebody's, and is left where it is. The words of SQLite
                # about a malformed file quote it, and may be no text: then Python 3.10 gives none.
                if isinstance(error, sqlite3.Error) and str(error) and "malformed" not in str(error):
                    raise
                self._path.replace(f"{self._path}.damaged")
                return self._update(name, change)
        except (sqlite3.Error, OSError) as error:
            raise RateStoreError(
                f"The rate store {self.where} cannot be used: {error}. Make sure that workers and triggerer can write "
                "this file and its folder, and that it is on a disk of this machine that is not full; or set "
                "rate_limit_store in Airflow's section [mediaops], or in the connection, to another."
            ) from None

    def _update(self, name: str, change: Change[T]) -> T:
        with self._opened() as connection:
            row = connection.execute("SELECT state FROM rate WHERE name = ?", (name,)).fetchone()
            before = row and row[0]
            # The clock is read within the transaction, so that the times of updates are in their order.
            text, answer = change(before, self._clock())
            if text is None:
                connection.execute("DELETE FROM rate WHERE name = ?", (name,))
            elif text != before:
                connection.execute("INSERT OR REPLACE INTO rate VALUES (?, ?)", (name, text))
        return answer

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not _process_lock.acquire(timeout=2 * self._busy_seconds):
            raise TimeoutError("other threads of this process use it")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, _FILE_MODE))
            with (
                closing(sqlite3.connect(self._path, timeout=self._busy_seconds, isolation_level=None)) as connection,
                connection,
            ):
                connection.text_factory = lambda text: text.decode("utf-8", "replace")
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("CREATE TABLE IF NOT EXISTS rate (name TEXT PRIMARY KEY, state TEXT) WITHOUT ROWID")
                yield connection
        finally:
            _process_lock.release()


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
        # As in other addresses of SQLite: three slashes, then the path, which begins with a slash of its own.
        if not rest.startswith("//") or rest.endswith("/"):
            raise ValueError(
                "the path of a SQLite file must be absolute: sqlite:////folder/file.db, with four slashes."
            )
        return SqliteBackend(rest[1:])
    if scheme in ("redis", "rediss") and separator:
        from airflow_provider_mediaops.http.rate_limit.redis_backend import RedisBackend

        return RedisBackend(address)
    raise ValueError(
        "it must be memory://, sqlite:////folder/file.db, redis://host or rediss://host: of one server, because Redis "
        "Cluster and Sentinel are not supported."
    )
