"""What every back end does, for threads, processes that fork or are killed, and texts that are not ours."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis

from airflow_provider_mediaops.http.rate_limit.backends import MemoryBackend, SqliteBackend, backend_at
from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter
from airflow_provider_mediaops.http.rate_limit.redis_backend import RedisBackend
from airflow_provider_mediaops.http.rate_limit.schedule import Schedule, from_text
from tests.unit.call_flows import replay

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.backends import RateBackend

ROOT = Path(__file__).parents[4]
# The stores that several processes use.
SHARED = ["sqlite", "redis"]


def increment(text: str | None, _now: float) -> tuple[str, int]:
    """Count the updates in the text."""
    count = int(text or 0) + 1
    return str(count), count


def increment_often(backend: RateBackend, times: int) -> None:
    """Update a back end as a process of its own."""
    for _ in range(times):
        backend.update("key", increment)


def write_raw(backend: RateBackend, text: str | bytes) -> None:
    """Write a text as a fault or another program may."""
    if isinstance(backend, SqliteBackend):
        path = backend.where.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE rate SET state = CAST(? AS TEXT)", (text,))
    elif isinstance(backend, RedisBackend):
        with Redis.from_url(backend.where) as client:
            client.set("mediaops:rate:key", text)
    else:
        assert isinstance(text, str)
        backend.update("key", lambda _text, _now: (text, None))


def schedule_at(backend: RateBackend) -> Schedule | None:
    text, now = backend.read("key")
    return from_text(text, now) if text else None


def test_an_update_keeps_the_text_until_it_is_forgotten_and_returns_the_answer(backend: RateBackend) -> None:
    assert [backend.update("key", increment) for _ in range(3)] == [1, 2, 3]
    assert backend.update("another", increment) == 1
    assert backend.read("key")[0] == "3"
    for _ in range(2):
        backend.forget("key")
        assert [backend.read(name)[0] for name in ("another", "key")] == ["1", None]


def test_the_time_is_in_seconds(backend: RateBackend) -> None:
    (_, before), (_, after) = backend.read("key"), backend.read("key")
    assert 0.0 <= after - before < 400.0


def test_an_unchanged_text_is_not_written(backend: RateBackend) -> None:
    backend.update("key", increment)
    writes = "DELETE", "INSERT", "SET", "MULTI"
    if isinstance(backend, SqliteBackend):
        path = Path(backend.where.removeprefix("sqlite:///"))
        before = path.read_bytes()
        backend.read("key")
        assert path.read_bytes() == before
    elif isinstance(backend, RedisBackend):
        with Redis.from_url(backend.where) as client:
            client.config_resetstat()
            backend.read("key")
            assert not {f"cmdstat_{write.lower()}" for write in writes} & set(client.info("commandstats"))
    assert backend.read("key")[0] == "1"


def test_an_exception_in_a_change_harms_nothing(backend: RateBackend) -> None:
    def fail(_text: str | None, _now: float) -> tuple[str, None]:
        raise ZeroDivisionError

    backend.update("key", increment)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            backend.update("key", fail)
    assert backend.update("key", increment) == 2


def test_threads_lose_no_update(backend: RateBackend) -> None:
    threads = [threading.Thread(target=increment_often, args=(backend, 25)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert backend.read("key")[0] == "200"


@pytest.mark.parametrize("backend", SHARED, indirect=True)
def test_processes_lose_no_update_from_the_first_use_on(backend: RateBackend) -> None:
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=increment_often, args=(backend, 25)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert process.exitcode == 0
    assert backend.read("key")[0] == "200"


_UPDATE_FOR_EVER = """
import sys
from airflow_provider_mediaops.http.rate_limit.backends import backend_at
backend = backend_at(sys.argv[1])
while True:
    print(backend.update("key", lambda text, now: (str(int(text or 0) + 1), int(text or 0) + 1)), flush=True)
"""


@pytest.mark.parametrize("backend", SHARED, indirect=True)
def test_a_process_that_is_killed_amid_its_updates_loses_none_that_it_knows_of(backend: RateBackend) -> None:
    known = 0
    for kill_after in (1, 7, 30):
        command = [sys.executable, "-c", _UPDATE_FOR_EVER, backend.where]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            for _ in range(kill_after):
                known = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            known = max([known, *(int(line) for line in process.stdout if line.endswith("\n"))])
        assert backend.update("key", increment) >= known + 1


@pytest.mark.parametrize(
    "text",
    ["", "text", "[" * 100_000, '{"at": 1e300}', b"\xff\xfe{}", "9" * 1_000_000],
    # The environment of a server that a test starts has the test's name in it.
    ids=["empty", "text", "brackets", "far time", "no UTF-8", "digits"],
)
def test_a_damaged_state_begins_anew_and_the_key_goes_on(backend: RateBackend, text: str | bytes) -> None:
    if isinstance(text, bytes) and isinstance(backend, MemoryBackend):
        return
    limiter = RateLimiter(backend, "key", 1_000.0)
    replay(limiter.restore_quota(), [])
    write_raw(backend, text)
    assert not schedule_at(backend)
    next(limiter.acquire()).action()  # type: ignore[union-attr]
    assert schedule_at(backend)


def test_a_state_that_was_taken_away_begins_a_window_ahead(backend: RateBackend) -> None:
    limiter = RateLimiter(backend, "key", 0.001)
    next(limiter.acquire()).action()  # type: ignore[union-attr]
    backend.forget("key")
    answer, _ = next(limiter.acquire()).action()  # type: ignore[union-attr]
    if isinstance(backend, MemoryBackend):
        # Nothing of it can have been lost.
        assert not hasattr(answer, "seconds")
    else:
        assert answer.seconds == pytest.approx(1_020.0, abs=400.0)


def test_an_address_has_one_back_end_in_a_process() -> None:
    for address, kind, where in (
        ("memory://", MemoryBackend, "memory://"),
        ("sqlite:////folder/rates.db", SqliteBackend, "sqlite:////folder/rates.db"),
        ("redis://:s3cr3t@host:7000/1", RedisBackend, "redis://host:7000/1"),
        ("rediss://host", RedisBackend, "rediss://host:6379"),
    ):
        backend = backend_at(address)
        assert (type(backend), backend.where) == (kind, where)
        assert backend_at(address) is backend
        assert "s3cr3t" not in repr(backend)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        *((address, "it must be memory") for address in ("", "memory", "memory://something", "redis")),
        *((address, "it must be memory") for address in ("mysql://:s3cr3t@host", "/folder/rates.db")),
        *((f"sqlite://{path}", "absolute: sqlite:////folder/file.db") for path in ("", "/", "/a.db", "//folder/")),
        *(
            (f"redis+{kind}://:s3cr3t@one:26379,two/name/0", "one server, .*Cluster")
            for kind in ("sentinel", "cluster")
        ),
    ],
)
def test_an_address_that_is_not_supported_is_refused_in_words(address: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        backend_at(address)
    assert "s3cr3t" not in str(caught.value)
