"""Schedules on a Redis server: for processes of many machines."""

from __future__ import annotations

import codecs
import hashlib
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit import schedule
from airflow_provider_mediaops.http.rate_limit.releases import Releases
from airflow_provider_mediaops.http.rate_limit.schedule import (
    CONSTANTS,
    FURTHEST_SECONDS,
    Granted,
    Overbooked,
    QuotaExhausted,
    Schedule,
    Slot,
)
from airflow_provider_mediaops.http.rate_limit.store_interface import PerProcess, RateStore, Reading
from airflow_provider_mediaops.http.reply import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis import Redis

    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation, Release

T = TypeVar("T")

# The time limit of the server, unless the address has another.
_TIMEOUT_SECONDS = 5.0
# Calling TIME in a script needs effects to be replicated, as they are from Redis 5 on.
_SERVER_TIME = "local time = redis.call('TIME') return time[1] + time[2] / 1000000"
# The number stands for the meaning of the fields: a version of this package that changes it uses another key.
_KEY = "mediaops:rate:2:{name}"
# The keys that one SCAN looks at, of all in the database.
_SCANNED_TOGETHER = 1000
_ANSWERS = {"slot": Slot, "granted": Granted, "exhausted": QuotaExhausted, "overbooked": Overbooked}
_OR_ANOTHER_STORE = "or set rate_limit_store in Airflow's section [mediaops], or in the connection, to another."
_SET_STORE_TO = "Set rate_limit_store in Airflow's section [mediaops], or in the connection, to "
# The advice, by the first word of the server's error reply.
_ADVICE = {
    "MOVED": _SET_STORE_TO + "a single server: Redis Cluster is not supported.",
    "READONLY": _SET_STORE_TO + "the primary: this server is a replica, perhaps since a failover.",
    "OOM": "Give this Redis more memory (maxmemory), " + _OR_ANOTHER_STORE,
    "LOADING": "It is reading its data after a start: wait until it has, " + _OR_ANOTHER_STORE,
    "NOREPLICAS": "It has fewer replicas than it must have to accept a write (min-replicas-to-write): bring them back, "
    + _OR_ANOTHER_STORE,
    "NOPERM": "Let its user run SELECT, EVAL, EVALSHA, TIME, INFO, HMGET, HSET and EXPIRE on mediaops:rate:*, and SCAN "
    "for the command line, " + _OR_ANOTHER_STORE,
    "WRONGTYPE": "Another program uses the keys mediaops:rate:* of this database: choose another database, "
    + _OR_ANOTHER_STORE,
}
_ADVICE["ASK"] = _ADVICE["CLUSTERDOWN"] = _ADVICE["CROSSSLOT"] = _ADVICE["MOVED"]
_ADVICE["MASTERDOWN"] = _ADVICE["READONLY"]
_DEFAULT_ADVICE = "Make sure that this Redis runs and accepts the credentials, " + _OR_ANOTHER_STORE
_NOT_A_REDIS = "it does not answer as a Redis does"
# Redis 7 says so, without the word, of a command that a script calls.
_SCRIPT_NOT_PERMITTED = "The user executing the script can't"
# redis-py removes the first word from some error replies, and raises an error of a class for it.
_WORDS_BY_CLASS = {
    "MovedError": "MOVED",
    "AskError": "ASK",
    "ClusterDownError": "CLUSTERDOWN",
    "ClusterCrossSlotError": "CROSSSLOT",
    "ReadOnlyError": "READONLY",
    "MasterDownError": "MASTERDOWN",
    "OutOfMemoryError": "OOM",
    "BusyLoadingError": "LOADING",
    "NoPermissionError": "NOPERM",
}


class RedisStore(RateStore):
    """
    Keeps schedules on a Redis server (5 or newer, or Valkey), by the server's clock.

    :param address: ``redis://`` or ``rediss://``, with user name, password, database and options as redis-py reads it.
    :param clock: the body of a Lua function that returns the time in seconds; for tests.
    :raises ValueError: for an invalid address, or if redis-py is not installed; free of credentials.
    """

    def __init__(self, address: str, clock: str = _SERVER_TIME) -> None:
        super().__init__(_shown(address))
        parts = urlsplit(address)
        options = parse_qs(parts.query)
        given = [parts.password, *options.get("password", ())]
        self.secrets = tuple(form for password in given if password for form in (unquote(password), password))
        if not find_spec("redis"):
            raise ValueError(
                f"{self.where} needs the package redis: install this provider's extra 'redis' on every worker and "
                "triggerer."
            )
        if unusable := _unusable_option(options):
            raise self._option_error(unusable)
        self._address = address
        self._clock = clock
        self._client = PerProcess(self._connect)
        self._releases = PerProcess(lambda: Releases(self))

    def apply(self, name: str, operation: Operation[A], cooldown: float) -> A:
        """Apply an operation, in one round trip."""
        result: A = self._parsed(_read, self._run(name, *_arguments(operation, cooldown)))
        return result

    def read(self, name: str) -> Reading | None:
        """Read a schedule, in one round trip."""
        answer = self._run(name, "read", "0")
        return None if answer is None else self._parsed(_read_schedule, answer)

    def names(self) -> list[str]:
        """Return the names of all schedules; its user must be allowed to run SCAN."""
        with self._translating_errors():
            keys = list(self._client.get().scan_iter(match=_KEY.format(name="*"), count=_SCANNED_TOGETHER))
        # The address may have an option by which redis-py decodes what it reads.
        texts = (key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key) for key in keys)
        return sorted(text.removeprefix(_KEY.format(name="")) for text in texts)

    def forget(self, name: str) -> None:
        """Remove a schedule."""
        self._run(name, "forget", "0")

    def _run(self, name: str, *arguments: str) -> Any:
        from redis.exceptions import NoScriptError

        text, digest = _script(self._clock)
        key = _KEY.format(name=name)
        with self._translating_errors():
            client = self._client.get()
            try:
                return client.evalsha(digest, 1, key, *arguments)
            except NoScriptError:
                return client.eval(text, 1, key, *arguments)

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        from redis.exceptions import RedisError

        try:
            yield
        except (RedisError, OSError) as error:
            raise self._error(self._cause(error), _advice(error)) from None
        except RecursionError:
            # redis-py reads a list in a list by calling itself.
            raise self._error(_NOT_A_REDIS, _DEFAULT_ADVICE) from None
        except (TypeError, ValueError) as error:
            # Options are read when a connection is made, and not all of them with an error of redis-py's own.
            raise self._option_error(self._cause(error)) from None

    def _parsed(self, parse: Callable[[Any], T], answer: Any) -> T:
        try:
            return parse(answer)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise self._error(_NOT_A_REDIS, _DEFAULT_ADVICE) from None

    def release(self, name: str, operation: Release, cooldown: float) -> None:
        """Return a slot from a thread of its own, so that the caller does not wait for the server."""
        self._releases.get().add(name, operation, cooldown)

    def close(self) -> None:
        """Close this process's connections to the server."""
        if client := self._client.pop():
            client.close()

    def _connect(self) -> Redis:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        # The limiter retries instead, because it waits without blocking an event loop.
        return Redis.from_url(
            self._address,
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            # The protocol of Redis 5; a newer one has no advantage here.
            protocol=2,
            retry=Retry(NoBackoff(), 0),
        )

    def _error(self, cause: str, advice: str) -> RateStoreError:
        return RateStoreError(f"The rate store {self.where} cannot be used: {cause}. {advice}")

    def _option_error(self, cause: str) -> ValueError:
        return ValueError(
            f"The address of the rate store {self.where} has an option that redis-py does not take: {cause}."
        )

    def _cause(self, error: Exception) -> str:
        return plain_text(str(error), self.secrets).rstrip(".")


@cache
def _script(clock: str) -> tuple[str, str]:
    """Return the text of the script, and its digest, by which the server knows it."""
    constants = "\n".join(f"local {name} = {getattr(schedule, name)!r}" for name in CONSTANTS)
    operations = files(__package__).joinpath("schedule.lua").read_text(encoding="utf-8")
    text = f"{constants}\nlocal function clock() {clock} end\n{operations}"
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _arguments(operation: Operation[object], cooldown: float) -> list[str]:
    figures = (cooldown, *operation.figures())
    return [operation.name, *("" if figure is None else repr(float(figure)) for figure in figures)]


def _read(answer: Any) -> Any:
    if answer is None:
        return None
    kind, *figures = (part.decode() if isinstance(part, bytes) else part for part in answer)
    result = _ANSWERS[kind](*(None if figure == "" else float(figure) for figure in figures))
    # A server that is not ours may say anything, and a caller would wait for that long.
    wait = 0.0 if isinstance(result, Granted) else result.wait if isinstance(result, Slot) else result.seconds
    if not 0.0 <= wait <= 2 * FURTHEST_SECONDS:
        raise ValueError("no schedule has such a wait")
    return result


def _read_schedule(answer: Any) -> Reading:
    _, now, vacant, sent, *figures = (part.decode() if isinstance(part, bytes) else part for part in answer)
    epoch, seen, shift, paused_until, next_free, rate_factor, recovered_at, blocked_until = map(float, figures)
    lists = (tuple(map(float, numbers.split())) for numbers in (vacant, sent))
    schedule = Schedule(epoch, seen, shift, paused_until, next_free, rate_factor, recovered_at, blocked_until, *lists)
    return Reading(schedule, float(now))


def _advice(error: Exception) -> str:
    names = [cls.__name__ for cls in type(error).__mro__]
    # A script's error ends with that of the command which it called.
    words = str(error).replace("-", " ").split()
    found = [_WORDS_BY_CLASS[name] for name in names if name in _WORDS_BY_CLASS] + [
        word for word in words[:4] if word in _ADVICE
    ]
    if "OOM" in words:
        found.append("OOM")
    if str(error).startswith(_SCRIPT_NOT_PERMITTED):
        found.append("NOPERM")
    return _ADVICE[found[0]] if found else _DEFAULT_ADVICE


def _unusable_option(options: dict[str, list[str]]) -> str | None:
    """Return the option that redis-py accepts and that then breaks every command, if there is one."""
    if "retry" in options:
        return "retry, because the rate limiter retries by itself"
    try:
        for encoding in options.get("encoding", ()):
            codecs.lookup(encoding)
    except (LookupError, ValueError):
        return "encoding, because Python does not know its name"
    return None


def _shown(address: str) -> str:
    """Return the address without credentials and options; raise ValueError if it is invalid."""
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
