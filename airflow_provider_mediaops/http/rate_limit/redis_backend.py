"""States of keys on a Redis server: for processes of many machines."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.backends import BUSY_SECONDS, RateBackend
from airflow_provider_mediaops.http.rate_limit.schedule import LONGEST_TEXT
from airflow_provider_mediaops.http.reply import plain_text

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.backends import Change

T = TypeVar("T")

_KEY = "mediaops:rate:"
# Redis forgets a state after this; no time in a state lies as far ahead.
_KEPT_SECONDS = 3 * 86_400
# The longest pause after a first conflict with another update, which doubles with each, and after a late one.
_FIRST_CONFLICT_SECONDS, _LATE_CONFLICT_SECONDS = 0.001, 0.032
# Beside it stand Redis' own words, such as NOPERM, READONLY, MOVED or OOM.
_ADVICE = (
    "Make sure that the address is that of a Redis, with options that redis-py takes; that this Redis runs, accepts "
    "the credentials, and has memory left and replicas enough for a write; that it is a single server, no replica and "
    "no Redis Cluster; that its user may run SELECT, WATCH, UNWATCH, "
    f"GETRANGE, TIME, MULTI, SET, DEL and EXEC on {_KEY}*; and that no other program uses these keys. Or set "
    "rate_limit_store in Airflow's section [mediaops], or in the connection, to another."
)


class RedisBackend(RateBackend):
    """
    Keeps states on a Redis server (5 or newer, or Valkey), by the server's clock; redis-py reads the address.

    An invalid address, and a missing redis-py, raise a ``ValueError`` free of credentials.
    """

    def __init__(self, address: str) -> None:
        where, parts = _shown(address), urlsplit(address)
        given = [parts.password, *parse_qs(parts.query).get("password", ())]
        super().__init__(where, tuple(form for password in given if password for form in (unquote(password), password)))
        if not find_spec("redis"):
            raise ValueError(
                f"{where} needs the package redis: install this provider's extra 'redis' on every worker and triggerer."
            )
        self._address = address
        # Connections that no thread uses at present, of this process.
        self._process, self._idle = os.getpid(), list[Any]()

    def update(self, name: str, change: Change[T]) -> T:
        """Change a state if no other update came between, else try again."""
        longest, deadline = _FIRST_CONFLICT_SECONDS, time.monotonic() + BUSY_SECONDS
        while not (answers := self._try(_KEY + name, change)):
            # It answers, so the limiter waits if others are always faster.
            self.has_worked = True
            if time.monotonic() > deadline:
                raise self._error("too many others change the same key at the same time")
            time.sleep(random.uniform(0, longest))  # noqa: S311 no secret is made of it
            longest = min(2 * longest, _LATE_CONFLICT_SECONDS)
        return answers[0]

    def _try(self, key: str, change: Change[T]) -> list[T]:
        """Return the answer; nothing if another update came between."""
        with self._connected() as connection:
            # UNWATCH ends the watch of an update that had nothing to write. GETRANGE bounds a text that is not ours.
            look = ("UNWATCH",), ("WATCH", key), ("GETRANGE", key, 0, LONGEST_TEXT), ("TIME",)
            replies = self._ask(connection, *look)
            with self._errors():
                before, (seconds, micros) = replies[2].decode("utf-8", "replace") or None, replies[3]
                now = int(seconds) + int(micros) / 1e6
            text, answer = change(before, now)
            if text == before:
                return [answer]
            write = ("DEL", key) if text is None else ("SET", key, text, "EX", _KEPT_SECONDS)
            return [answer] if self._ask(connection, ("MULTI",), write, ("EXEC",))[-1] else []

    def _ask(self, connection: Any, *commands: tuple[object, ...]) -> list[Any]:
        """Send commands together, in one round trip: redis-py's own transactions take four."""
        with self._errors():
            connection.send_packed_command(connection.pack_commands(commands))
            return [connection.read_response(disable_decoding=True) for _ in commands]

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if self._process != os.getpid():
            self._process, self._idle = os.getpid(), []
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._new_connection()
        try:
            yield connection
        except BaseException:
            # Replies may be left in it, also if the task was stopped.
            connection.disconnect()
            raise
        self._idle.append(connection)

    def _new_connection(self) -> Any:
        from redis import ConnectionPool
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        with self._errors():
            pool = ConnectionPool.from_url(
                self._address, socket_timeout=BUSY_SECONDS, socket_connect_timeout=BUSY_SECONDS, protocol=2
            )
            # The limiter retries instead, because it waits without blocking an event loop.
            connection = pool.connection_class(**{"retry": Retry(NoBackoff(), 0)} | pool.connection_kwargs)
            connection.connect()
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 redis-py raises any at an odd answer, or an option it does not take
            raise self._error(f"{type(error).__name__}: {plain_text(str(error), self.secrets).rstrip('.')}") from None

    def _error(self, cause: str) -> RateStoreError:
        return RateStoreError(f"The rate store {self.where} cannot be used: {cause}. {_ADVICE}")


def _shown(address: str) -> str:
    """Return the address without credentials and options; raise ValueError if it is invalid."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or 6379
    except ValueError:
        host = None
    if not host:
        raise ValueError(
            "it is not an address of a Redis; write redis://host[:port][/database], or rediss:// for TLS, with "
            "user:password@ before the host where it needs them."
        )
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
