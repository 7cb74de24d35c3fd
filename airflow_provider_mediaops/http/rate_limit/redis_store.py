"""Schedules on a Redis server: for processes of many machines."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.schedule import Cooldown, Granted, QuotaExhausted, Slot
from airflow_provider_mediaops.http.rate_limit.stores import PerProcess, RateStore
from airflow_provider_mediaops.http.reply import plain_text

if TYPE_CHECKING:
    from redis import Redis

    from airflow_provider_mediaops.http.rate_limit.schedule import A, Operation

# A server that does not answer within this time holds up nobody for longer, unless the address says otherwise.
_TIMEOUT_SECONDS = 5.0
# Calling TIME in a script needs effects to be replicated, as they are from Redis 5 on.
_SERVER_TIME = "local time = redis.call('TIME') return time[1] + time[2] / 1000000"
# The number is that of the fields' meaning: another version of this package that gives them another has its own.
_KEY = "mediaops:rate:1:{name}"
_ANSWERS = {"slot": Slot, "go": Granted, "closed": QuotaExhausted}


class RedisStore(RateStore):
    """
    Keeps schedules on a Redis server (5 or newer, or Valkey); the server's clock counts.

    :param address: ``redis://`` or ``rediss://``, with user name, password, database and options as redis-py reads it.
    :param clock: the body of a Lua function that gives the time in seconds; the server's, but for tests.
    :raises ValueError: for an address that is none, or where redis-py is not installed; free of credentials.
    """

    def __init__(self, address: str, clock: str = _SERVER_TIME) -> None:
        super().__init__(_shown(address))
        parts = urlsplit(address)
        given = [parts.password, *parse_qs(parts.query).get("password", ())]
        self.secrets = tuple(form for password in given if password for form in (unquote(password), password))
        if not find_spec("redis"):
            raise ValueError(
                f"{self.where} needs the package redis: pip install 'airflow-provider-mediaops[redis]', on every "
                "worker and triggerer."
            )
        self._address = address
        self._clock = clock
        self._client = PerProcess(self._connect)

    def apply(self, name: str, operation: Operation[A], quiet: float) -> A:
        """Do something with a schedule, in one round trip."""
        from redis.exceptions import NoScriptError, RedisError

        script, key = self._script(name), _KEY.format(name=name)
        try:
            client = self._client.get()
            try:
                answer = client.evalsha(script.digest, 1, key, *_arguments(operation, quiet))
            except NoScriptError:
                # The server has not served this key since it started. It may have started from an older copy of its
                # data, so what it lost is waited out first; that loads the script too, for all who share the key.
                client.eval(script.text, 1, key, *_arguments(Cooldown(quiet), quiet))
                answer = client.evalsha(script.digest, 1, key, *_arguments(operation, quiet))
        except (RedisError, OSError) as error:
            raise RateStoreError(
                f"The rate store {self.where} cannot be used: {self._cause(error)}. Make sure that this Redis runs and "
                "accepts the credentials; or set rate_limit_store in Airflow's section [mediaops], or in the "
                "connection, to another."
            ) from None
        except (TypeError, ValueError) as error:
            # Options are read when a connection is made, and not all of them with an error of redis-py's own.
            raise ValueError(
                f"The address of the rate store {self.where} has an option that redis-py does not take: "
                f"{self._cause(error)}."
            ) from None
        result: A = _read(answer)
        return result

    def close(self) -> None:
        """Close this process's connections to the server."""
        if client := self._client.pop():
            client.close()

    def _connect(self) -> Redis:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        # Trying again is up to the limiter, which waits without blocking an event loop.
        return Redis.from_url(
            self._address,
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            # That of Redis 5; there is nothing to gain from a newer one.
            protocol=2,
            retry=Retry(NoBackoff(), 0),
        )

    def _script(self, name: str) -> _Script:
        return _script(name, self._clock)

    def _cause(self, error: Exception) -> str:
        return plain_text(str(error), self.secrets).rstrip(".")


class _Script:
    """
    The operations as the server is given them; the name in it makes it that of one key.

    :param name: the schedule's name.
    :param clock: the body of the function that gives the time.
    """

    def __init__(self, name: str, clock: str) -> None:
        self.text = f"-- {name}\nlocal function clock() {clock} end\n{_operations()}"
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def _operations() -> str:
    return files(__package__).joinpath("schedule.lua").read_text(encoding="utf-8")


@cache
def _script(name: str, clock: str) -> _Script:
    return _Script(name, clock)


def _arguments(operation: Operation[object], quiet: float) -> list[str]:
    figures = (quiet, *operation.figures())
    return [operation.name, *("" if figure is None else repr(float(figure)) for figure in figures)]


def _read(answer: Any) -> Any:
    if answer is None:
        return None
    kind, *figures = (part.decode() if isinstance(part, bytes) else part for part in answer)
    return _ANSWERS[kind](*map(float, figures))


def _shown(address: str) -> str:
    """Give the address without credentials and options; raise ValueError where it is none."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or 6379
    except ValueError:
        host = None
    if not host:
        raise ValueError(
            "it is no address of a Redis; write redis://host[:port][/database], or rediss:// for TLS, with "
            "user:password@ before the host where it needs them."
        )
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
