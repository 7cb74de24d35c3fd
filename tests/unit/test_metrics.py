"""The counts that are handed to Airflow: their names and numbers, from what the hooks, operators and pages do."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args

import pytest

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.books.api import BOOK_RULES, get_book, get_books, get_key_usage
from airflow_provider_mediaops.books.models import Status
from airflow_provider_mediaops.cluster.api import cluster_version, node_stats
from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
from airflow_provider_mediaops.exceptions import (
    MediaOpsError,
    QuotaExceededError,
    RateLimitedError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Response
from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.plugin.reading import find_file
from airflow_provider_mediaops.plugin.rendered_fields import NoAnswerError
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from scripts import metric_table
from tests.unit.book_database import CALENDAR, CRIME, LIMIT_404, NO_SUCH_BOOK, book
from tests.unit.book_database import connection as books_connection
from tests.unit.call_flows import FakeClock, replay
from tests.unit.http.rate_limit.keys import keep, memory_backend
from tests.unit.operators.capture_task import COOL, DOWN, FORMS, HOT, REPORT, Task
from tests.unit.search_cluster import replied, stats
from tests.unit.task_state import KeptState
from tests.unit.video.delivering import begun
from tests.unit.video_platform import connection as video_connection
from tests.unit.video_platform import error, page

if TYPE_CHECKING:
    import requests_mock

    from airflow_provider_mediaops.http.errors import ErrorRules
    from airflow_provider_mediaops.http.exchange import Call
    from tests.unit.conftest import Supervisor

BOOKS, VIDEO = "https://books.example", "https://video.example"


def in_table(kind: str, name: str) -> bool:
    """Return whether the table has a metric; a word in braces is one of some."""

    def words(mark: re.Match[str]) -> str:
        return "|".join(metric_table.WORDS[mark[1]]).join("()")

    patterns = [
        re.sub(r"\{(\w+)\}", words, metric.name.replace(".", r"\."))
        for metric in metric_table.METRICS
        if metric.kind == kind
    ]
    return any(re.fullmatch(pattern, name) for pattern in patterns)


class Stats:
    """Notes what is handed to Airflow's Stats, all of which the table has to have."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.values: dict[str, float] = {}
        self.strange: list[str] = []

    def incr(self, name: str, number: int) -> None:
        self.counts[self._known("counter", name)] += number

    def timing(self, name: str, value: timedelta) -> None:
        self.values[self._known("timer", name)] = value.total_seconds()

    def gauge(self, name: str, value: float) -> None:
        self.values[self._known("gauge", name)] = value

    def _known(self, kind: str, name: str) -> str:
        name = name.removeprefix("mediaops.")
        if not in_table(kind, name):
            self.strange.append(name)
        return name

    def of(self, start: str) -> dict[str, int]:
        return {name: number for name, number in self.counts.items() if name.startswith(start)}


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stats]:
    """Take what is counted, in place of Airflow."""
    stats = Stats()
    monkeypatch.setattr(metrics, "_stats", stats)
    yield stats
    assert not stats.strange, "these are not in the table"


@pytest.fixture
def video(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the default connection of the video platform."""
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", video_connection(VIDEO))


CALLS: list[tuple[ErrorRules, Call[Any], str, Response]] = [
    (VIDEO_RULES, SubscriptionQuery(mine=True).page(), "video.requests.subscriptions", replied(page(1))),
    (CLUSTER_RULES, node_stats(), "cluster.requests.cpu", replied(stats({"node-1": 10}))),
    (BOOK_RULES, get_book(CRIME), "books.requests.book", replied(book(CRIME))),
    (BOOK_RULES, get_books([CRIME]), "books.requests.bulk", replied({"data": [book(CRIME)["book"]]})),
    (BOOK_RULES, get_key_usage(), "books.requests.key", replied({"plan_limit": {"total": 9, "left": 4}})),
]


@pytest.mark.parametrize(("rules", "call", "name", "reply"), CALLS, ids=[name for _, _, name, _ in CALLS])
def test_each_try_counts_by_its_outcome_and_the_pause_before_it(
    counted: Stats, rules: ErrorRules, call: Call[Any], name: str, reply: Response
) -> None:
    clock = FakeClock()
    client = Client(("https://a.example",), rules, clock=clock.clock)

    replay(client.ask(call), [Response(503), Response(429), reply], clock=clock)

    service = name.partition(".")[0]
    assert counted.counts == {
        f"{name}.service_unavailable": 1,
        f"{name}.rate_limited": 1,
        f"{name}.ok": 1,
        f"{service}.waits.retry": 2,
        f"{service}.wait_milliseconds.retry": round(clock.seconds * 1000),
    }


def test_call_that_is_not_retried_counts_its_refusal_alone(counted: Stats) -> None:
    client = Client(("https://a.example",), CLUSTER_RULES)
    with pytest.raises(MediaOpsError):
        replay(client.ask(cluster_version()), [Response(403)])
    assert counted.counts == {"cluster.requests.version.permission_denied": 1}


@pytest.mark.parametrize("body", ["<html>Not here</html>", json.dumps(NO_SUCH_BOOK), json.dumps(LIMIT_404)])
def test_each_404_of_a_book_counts_as_not_found(counted: Stats, body: str) -> None:
    client = Client(("https://a.example",), BOOK_RULES, retry=RetryPolicy(max_attempts=1))
    with pytest.raises(MediaOpsError):
        replay(client.ask(get_book(CRIME)), [Response(404, {}, body.encode())])
    assert counted.counts == {"books.requests.book.not_found": 1}


def test_table_has_every_status_of_a_row() -> None:
    assert metric_table.WORDS["status"] == get_args(Status)


def test_wait_for_the_rate_counts_with_its_length(counted: Stats) -> None:
    clock = FakeClock()
    limiter = RateLimiter(memory_backend(clock), "key", 1.0, clock.clock, "video platform")

    replay(limiter.acquire(), [], clock=clock)
    replay(limiter.acquire(), [], clock=clock)

    assert counted.counts["video.waits.rate"] > 0
    assert counted.counts["video.wait_milliseconds.rate"] == pytest.approx(clock.seconds * 1000, abs=2)


@pytest.mark.parametrize(
    ("state", "raised", "expected"),
    [
        ({"exhausted": 3600.0}, QuotaExceededError, {"books.not_sent.quota": 1}),
        ({"reserved": 3_601.0}, RateLimitedError, {"books.not_sent.rate": 1}),
    ],
)
def test_request_that_the_key_does_not_allow_counts_as_not_sent(
    counted: Stats, state: dict[str, float], raised: type[Exception], expected: dict[str, int]
) -> None:
    clock = FakeClock()
    limiter = RateLimiter(memory_backend(clock), "key", 1.0, clock.clock, "book database")
    keep(limiter.backend, limiter.name, **state)
    client = Client(("https://a.example",), BOOK_RULES, retry=RetryPolicy(max_attempts=1), limiter=limiter)
    with pytest.raises(raised):
        replay(client.ask(get_book(CRIME)), [], clock=clock)
    assert counted.counts == expected


@pytest.mark.usefixtures("supervisor")
class TestTasks:
    def test_list_counts_its_saved_rows_by_status_and_shows_the_quota(
        self, counted: Stats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", books_connection(BOOKS))
        requests_mock.get(f"{BOOKS}/book/{CRIME}", json=book(CRIME))
        requests_mock.get(f"{BOOKS}/book/{CALENDAR}", status_code=404, json=NO_SUCH_BOOK)
        requests_mock.get(f"{BOOKS}/key", json={"plan_limit": {"total": 1000, "left": 321}})
        isbns = [CRIME, CALENDAR, "x", None] * 25

        def enrich() -> Any:
            operator = EnrichIsbnsOperator(task_id="e", isbns=isbns, destination=str(tmp_path / "books.jsonl"))
            return operator.execute({})

        enrich()
        assert counted.of("books.rows.") == {
            f"books.rows.{status}": 25 for status in ("found", "not_found", "missing", "invalid")
        }
        assert counted.values == {"books.quota.left": 321}

    @pytest.mark.parametrize(
        ("reply", "expected"),
        [
            ({"json": {"id": "act-1"}}, {"video.posts.posted": 1}),
            ({"status_code": 500, "json": error(500, "backendError")}, {"video.posts.uncertain": 1}),
            ({"status_code": 403, "json": error(403, "forbidden")}, {}),
        ],
    )
    @pytest.mark.usefixtures("video")
    def test_bulletin_counts_as_posted_or_uncertain(
        self, counted: Stats, requests_mock: requests_mock.Mocker, reply: dict[str, Any], expected: dict[str, int]
    ) -> None:
        requests_mock.post(f"{VIDEO}/v3/activities", **reply)
        # The kind of the error depends on the version of Airflow.
        with suppress(Exception) if "status_code" in reply else nullcontext():
            PostBulletinOperator(task_id="p", text="Hi").execute({})
        assert counted.of("video.posts.") == expected

    def test_bulletin_that_an_earlier_try_left_uncertain_counts_so(self, counted: Stats) -> None:
        store = KeptState()
        begun(store).intend()
        with pytest.raises(UncertainDeliveryError):
            begun(store)
        assert counted.counts == {"video.posts.uncertain": 1}

    @pytest.mark.parametrize("form", FORMS)
    def test_capture_counts_its_spike_the_failed_ones_and_the_time_since_the_reading(
        self, counted: Stats, tmp_path: Path, supervisor: Supervisor, form: str
    ) -> None:
        Task(tmp_path, supervisor, form).run([COOL, HOT, HOT], [DOWN, REPORT])
        assert counted.of("cluster.spikes") == {"cluster.spikes": 2}
        assert counted.of("cluster.captures") == {"cluster.captures.failed": 1, "cluster.captures.kept": 1}
        assert counted.values["cluster.capture_delay"] >= 0


class TestPages:
    @pytest.mark.parametrize(
        ("name", "word"), [("none.txt", "missing"), pytest.param("n" * 300, "unreadable", id="the system refuses")]
    )
    def test_read_that_fails_counts(self, counted: Stats, tmp_path: Path, name: str, word: str) -> None:
        with suppress(Exception):
            find_file(str(tmp_path / name))
        assert counted.counts == {f"pages.reads.{word}": 1}

    def test_store_that_gives_no_answer_counts(self, counted: Stats) -> None:
        NoAnswerError("s3")
        assert counted.counts == {"pages.reads.no_answer": 1}


@pytest.mark.usefixtures("supervisor", "video")
class TestHostileBackend:
    def test_backend_that_raises_fails_no_task(
        self, monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError(111, "no backend")

        monkeypatch.setattr(metrics, "_stats", SimpleNamespace(incr=refuse))
        requests_mock.post(f"{VIDEO}/v3/activities", json={"id": "act-1"})
        assert PostBulletinOperator(task_id="p", text="Hi").execute({})["id"] == "act-1"

    def test_airflow_without_metrics_fails_no_hook(
        self, monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker
    ) -> None:
        def missing() -> None:
            raise ImportError("no Stats")

        monkeypatch.setattr(metrics, "_stats", None)
        monkeypatch.setattr("airflow_provider_mediaops.version_compat.airflow_stats", missing)
        requests_mock.get(f"{VIDEO}/v3/subscriptions", json=page(1))
        with VideoPlatformHook() as hook:
            assert hook.list_subscriptions(mine=True).items
