"""The operator that exports subscriptions: what it asks for and writes, how it fails, and how it goes on."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidArgumentError,
    InvalidReplyError,
    PermanentError,
    QuotaExceededError,
)
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.video import export as video_export
from airflow_provider_mediaops.video.export import ExportAttempt
from tests.airflow_names import TaskDeferred
from tests.unit.log_lines import log_lines
from tests.unit.operators.forms import in_triggerer
from tests.unit.operators.video_platform_tasks import BASE, SUBSCRIPTIONS, render
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.video_platform import connection, error, page, subscription

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")
MADE_ANEW = datetime(2026, 3, 15, tzinfo=timezone.utc)
SPENT = {"status_code": 403, "json": error(403, "quotaExceeded")}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have pauses that take no time."""
    taken: list[float] = []
    monkeypatch.setattr("time.sleep", taken.append)
    return taken


def instance(run: str = "today", map_index: int = -1, max_tries: int = 2, **names: str) -> Any:
    """Give a task's context."""
    fields = {"dag_id": "dag", "run_id": run, "task_id": "export", "map_index": map_index, "max_tries": max_tries}
    return {"ti": SimpleNamespace(**{**fields, **names})}


def make(file: object, **arguments: Any) -> ExportSubscriptionsOperator:
    return ExportSubscriptionsOperator(task_id="export", destination=str(file), **({"mine": True} | arguments))


def export(file: object, context: Any = None, **arguments: Any) -> dict[str, Any]:
    return make(file, **arguments).execute(context or instance())


def deferred(file: object, **arguments: Any) -> dict[str, Any]:
    """Export in the triggerer."""
    return in_triggerer(make(file, deferrable=True, **arguments), instance())


def answers(platform: Mocker, *replies: dict[str, Any]) -> None:
    """Have the platform answer so, in order; a page is a reply."""
    platform.reset_mock()
    platform.get(SUBSCRIPTIONS, [reply if "status_code" in reply else {"json": reply} for reply in replies])


def tokens(platform: Mocker) -> list[str | None]:
    """Give the page token of each request."""
    return [request.qs.get("pagetoken", [None])[0] for request in platform.request_history]


def stop_at_the_quota(file: Path, platform: Mocker, **arguments: Any) -> None:
    """Export two pages of three, until the quota is spent."""
    answers(platform, page(1, 2, next_token="t2"), page(2, 3, next_token="t3"), SPENT)
    with pytest.raises(QuotaExceededError):
        export(file, **arguments)


def ids(file: Path) -> list[str]:
    return [json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines()]


class TestExport:
    @pytest.fixture(autouse=True)
    def pages(self, platform: Mocker) -> None:
        """Have three pages, of which the second repeats a record of the first."""
        replies = [page(1, 2, next_token="T2"), page(2, 3, next_token="T3"), page(4)]
        platform.get(SUBSCRIPTIONS, [{"json": reply} for reply in replies])

    def test_each_record_is_written_once_as_it_came(self, tmp_path: Path, platform: Mocker) -> None:
        summary = export(tmp_path / "day" / "subs.jsonl")

        file = tmp_path / "day" / "subs.jsonl"
        assert [json.loads(line) for line in file.read_text().splitlines()] == list(map(subscription, (1, 2, 3, 4)))
        figures = [summary[name] for name in ("path", "rows", "pages", "duplicates", "bytes")]
        assert figures == [str(file), 4, 3, 1, file.stat().st_size]
        assert (summary["complete"], summary["resumed"]) == (True, False)
        assert tokens(platform) == [None, "t2", "t3"]

    def test_the_path_in_the_result_is_one_that_open_takes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        for number, folder in enumerate((tmp_path.as_uri(), "~", ".", tmp_path)):
            assert export(f"{folder}/{number}.jsonl")["path"] == str(tmp_path / f"{number}.jsonl")

    def test_export_of_mine_without_a_user_fails_for_good_and_that_of_a_channel_works(
        self, tmp_path: Path, platform: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection(BASE, auth="api_key"))
        platform.get(f"{SUBSCRIPTIONS}?mine=true", status_code=401, json=error(401, "required"))

        with pytest.raises(permanent(AuthenticationError), match="mine=True need an authorised user"):
            export(tmp_path / "subs.jsonl")

        assert export(tmp_path / "subs.jsonl", mine=False, channel_id="UC1")["rows"] == 4

    def test_csv_has_the_documented_fields_and_the_whole_record(self, tmp_path: Path) -> None:
        export(tmp_path / "subs.csv")
        with (tmp_path / "subs.csv").open(encoding="utf-8", newline="") as file:
            first = next(csv.DictReader(file))
        assert json.loads(first.pop("record")) == subscription(1)
        names, values = zip(*first.items(), strict=True)
        assert names[:5] == ("id", "title", "channel_id", "description", "published_at")
        assert names[5:] == ("total_item_count", "new_item_count", "activity_type")
        assert values == ("sub-1", "Channel 1", "UC-1", "", "2024-03-14T20:00:00Z", "10", "1", "all")

    def test_parquet_leaves_empty_what_a_record_does_not_have(self, tmp_path: Path, platform: Mocker) -> None:
        items = [{"id": "bare"}, {"snippet": None, "contentDetails": {"totalItemCount": "7", "newItemCount": "many"}}]
        platform.get(SUBSCRIPTIONS, json={"items": items})

        export(tmp_path / "subs.parquet")

        rows = pq.read_table(tmp_path / "subs.parquet").to_pylist()
        assert [json.loads(row.pop("record")) for row in rows] == items
        assert [{name: value for name, value in row.items() if value is not None} for row in rows] == [
            {"id": "bare"},
            {"total_item_count": 7},
        ]

    @pytest.mark.parametrize(
        ("arguments", "query"),
        [
            ({}, {"mine": "true", "part": "id,snippet,contentDetails", "maxResults": "50", "order": "alphabetical"}),
            (
                {"mine": False, "channel_id": "UC-1", "order": None, "page_size": 5},
                {"channelId": "UC-1", "part": "id,snippet,contentDetails", "maxResults": "5"},
            ),
            (
                {"mine": False, "ids": ["a", "b"], "part": ["id"], "for_channel_ids": ["c"], "order": "unread"},
                {"id": "a,b", "part": "id", "forChannelId": "c", "maxResults": "50", "order": "unread"},
            ),
        ],
    )
    def test_the_arguments_reach_the_service(
        self, tmp_path: Path, platform: Mocker, arguments: dict[str, Any], query: dict[str, str]
    ) -> None:
        export(tmp_path / "subs.jsonl", **arguments)

        first = platform.request_history[0]
        assert first.qs == {name.lower(): [value.lower()] for name, value in query.items()}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"channel_id": "UC-1"}, "exactly one"),
            ({"mine": "{{ x }}", "channel_id": "https://video.example/channel/UC-1"}, "an address, .*; write 'UC-1'"),
            ({"page_size": 51}, "page_size is a whole number, 1 to 50"),
            ({"if_changed": "perhaps"}, "if_changed is True or False"),
            ({"mine": False, "channel_id": "{{ x }}", "ids": []}, "ids needs at least one entry"),
            ({"destination": "{{ run_id }}", "format": "xml"}, "format is one of"),
            ({"mine": False, "channel_id": "{{ channel }}", "order": "newest"}, "order is alphabetical"),
            ({"mine": False, "ids": ["{{ id }}"], "part": ["subscriberSnippet"]}, "part knows"),
            ({"csv_formulas": "drop"}, "csv_formulas is keep or escape; not 'drop'"),
        ],
    )
    def test_arguments_that_cannot_be_used_raise_at_parse_time(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ExportSubscriptionsOperator(task_id="export", **{"destination": "subs.csv", "mine": True, **arguments})

    @pytest.mark.parametrize(
        ("name", "rendered"),
        [("destination", "subs.xml"), ("channel_id", " "), ("require_complete", "None"), ("page_size", "0")],
    )
    def test_templated_arguments_that_cannot_be_used_raise_before_the_first_request(
        self, tmp_path: Path, platform: Mocker, name: str, rendered: str
    ) -> None:
        known = {"destination": str(tmp_path / "subs.csv"), **({} if name == "channel_id" else {"mine": True})}
        arguments: dict[str, Any] = {**known, name: "{{ x }}"}
        operator = ExportSubscriptionsOperator(task_id="export", **arguments)
        render(operator, x=rendered)

        with pytest.raises(permanent(InvalidArgumentError), match=f"{name} "):
            operator.execute({})

        assert not platform.called
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("filter_", "whose"),
    [
        ({"mine": False, "channel_id": "UC1"}, "the subscriptions of channel UC1"),
        ({"mine": False, "ids": "a,b"}, "2 subscriptions by their ids"),
        ({}, "the subscriptions of the authorised user"),
    ],
)
def test_log_says_what_is_exported_and_every_30_seconds_how_far_it_is(
    tmp_path: Path, platform: Mocker, monkeypatch: pytest.MonkeyPatch, filter_: dict[str, Any], whose: str
) -> None:
    lines = log_lines(monkeypatch, ExportSubscriptionsOperator)
    # Each page takes eight seconds.
    slow = partial(ExportAttempt, clock=lambda: 8.0 * platform.call_count)
    monkeypatch.setattr(video_export, "ExportAttempt", slow)
    answers(platform, *(page(number, next_token=f"t{number}") for number in range(9)), page(9))

    export(tmp_path / "subs.jsonl", page_size=7, **filter_)

    first, *between, _ = lines
    assert first == f"INFO: Exporting {whose} to {tmp_path}/subs.jsonl: pages of 7, no rate set, from the start."
    assert [line.partition(";")[0] for line in between] == [
        f"INFO: {number} subscriptions of {number} pages so far" for number in (4, 8)
    ]


class TestGoingOn:
    def test_the_next_attempt_begins_at_the_page_that_failed(self, tmp_path: Path, platform: Mocker) -> None:
        file = tmp_path / "subs.jsonl"
        stop_at_the_quota(file, platform)
        assert not file.exists()

        answers(platform, page(3, 4, next_token="t4"), page(5))
        summary = export(file)

        assert tokens(platform) == ["t3", "t4"]
        assert ids(file) == [f"sub-{number}" for number in (1, 2, 3, 4, 5)]
        figures = [summary[name] for name in ("rows", "pages", "duplicates", "restarts", "complete", "resumed")]
        assert figures == [5, 4, 2, 0, True, True]

    @pytest.mark.parametrize(
        ("context", "arguments"),
        [
            (instance(run="tomorrow"), {}),
            (instance(map_index=1), {}),
            (instance(dag_id="another"), {}),
            (instance(task_id="another"), {}),
            # Without a task instance, each call is its own.
            ({"ti": None}, {}),
            (instance(), {"order": "relevance"}),
            (instance(), {"page_size": 10}),
            (instance(), {"mine": False, "channel_id": "UC-1"}),
        ],
    )
    def test_another_run_or_other_arguments_begin_at_the_first_page(
        self, tmp_path: Path, platform: Mocker, context: dict[str, Any], arguments: dict[str, Any]
    ) -> None:
        file = tmp_path / "subs.jsonl"
        stop_at_the_quota(file, platform)
        answers(platform, page(7))

        summary = export(file, context, **arguments)

        assert tokens(platform) == [None]
        assert (summary["resumed"], ids(file)) == (False, ["sub-7"])

    @pytest.mark.parametrize(
        "later", [instance(max_tries=3), {**instance(), "dag_run": SimpleNamespace(start_date=MADE_ANEW)}]
    )
    def test_task_cleared_or_of_a_run_made_anew_after_it_has_published_does_the_work_again(
        self, tmp_path: Path, platform: Mocker, later: dict[str, Any]
    ) -> None:
        file = tmp_path / "subs.jsonl"
        answers(platform, page(1), page(2))
        export(file)

        assert export(file, later)["resumed"] is False
        assert ids(file) == ["sub-2"]

    @pytest.mark.parametrize("later", [instance(max_tries=3), instance(try_number="4")])
    def test_task_cleared_after_it_has_failed_and_its_next_try_resume(
        self, tmp_path: Path, platform: Mocker, later: dict[str, Any]
    ) -> None:
        file = tmp_path / "subs.jsonl"
        stop_at_the_quota(file, platform)
        answers(platform, page(4))

        assert export(file, later)["resumed"] is True
        assert tokens(platform) == ["t3"]

    def test_mapped_tasks_with_one_destination_are_refused(self, tmp_path: Path, platform: Mocker) -> None:
        file = tmp_path / "subs.jsonl"
        answers(platform, page(1))
        export(file, instance(map_index=0))

        with pytest.raises(
            permanent(PermanentError), match=r"another mapped instance of this task .* \{\{ ti\.map_index \}\}"
        ):
            export(file, instance(map_index=1), page_size=7)
        assert ids(file) == ["sub-1"]


class TestInTheTriggerer:
    PAGES = (page(1, 2, next_token="t2"), page(2, 3, next_token="t3"), page(4))

    @pytest.mark.parametrize("name", ["subs.jsonl", "subs.csv", "subs.parquet"])
    @pytest.mark.parametrize(
        "arguments", [{}, {"if_changed": "yes", "part": "id,snippet", "for_channel_ids": "a,b", "page_size": 7}]
    )
    def test_export_writes_the_same_bytes_and_returns_the_same_as_in_a_worker(
        self, tmp_path: Path, platform: Mocker, name: str, arguments: dict[str, Any]
    ) -> None:
        summaries, queries = [], []
        for form, run in (("worker", export), ("triggerer", deferred)):
            answers(platform, *self.PAGES)
            summaries.append({**run(tmp_path / form / name, **arguments), "path": ""})
            queries.append([request.qs for request in platform.request_history])

        assert summaries[0] == summaries[1]
        assert queries[0] == queries[1]
        assert (tmp_path / "worker" / name).read_bytes() == (tmp_path / "triggerer" / name).read_bytes()

    def test_retry_of_a_published_export_is_not_deferred(self, tmp_path: Path, platform: Mocker) -> None:
        answers(platform, page(1))
        first = export(tmp_path / "subs.csv")

        assert export(tmp_path / "subs.csv", deferrable=True) == first
        assert platform.call_count == 1

    def test_deferral_sends_nothing_and_leaves_the_destination_free(self, tmp_path: Path, platform: Mocker) -> None:
        answers(platform, page(1))
        with pytest.raises(TaskDeferred) as left:
            export(tmp_path / "subs.csv", deferrable=True)

        assert (left.value.method_name, left.value.timeout) == ("execute_complete", None)
        assert not platform.called
        assert export(tmp_path / "subs.csv", instance(run="another"))["rows"] == 1


class TestCutShort:
    """A listing that goes in a circle: the service does not say what is beyond."""

    CIRCLE = (page(1, next_token="t1"), page(2, next_token="t1"))

    def test_the_summary_says_so_and_the_log_warns_once(
        self, tmp_path: Path, platform: Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, ExportSubscriptionsOperator)
        answers(platform, *self.CIRCLE)

        summary = export(tmp_path / "subs.jsonl")

        assert (summary["complete"], summary["rows"]) == (False, 2)
        (warning,) = [line for line in lines if line.startswith("WARNING")]
        assert "cut the listing short: it ends after 2 pages" in warning
        assert export(tmp_path / "subs.jsonl") == summary

    def test_export_that_requires_a_whole_listing_fails_and_its_cleared_task_lists_anew(
        self, tmp_path: Path, platform: Mocker
    ) -> None:
        file = tmp_path / "subs.jsonl"
        answers(platform, *self.CIRCLE)

        with pytest.raises(permanent(InvalidReplyError), match="cut the listing short after 2 pages"):
            export(file, require_complete="true")

        assert not file.exists()
        answers(platform, page(2, next_token="n1"), page(3, next_token="n2"), page(1))
        summary = export(file, instance(max_tries=3), require_complete=True)
        assert tokens(platform) == [None, "n1", "n2"]
        assert ids(file) == ["sub-2", "sub-3", "sub-1"]
        assert (summary["complete"], summary["restarts"], summary["resumed"]) == (True, 0, False)


class TestIfChanged:
    def run(self, file: Path, platform: Mocker, run: str, *items: dict[str, Any], **more: Any) -> Any:
        answers(platform, {"items": list(items)})
        return export(file, instance(run), **{"if_changed": True, **more})

    def item(self, number: int, etag: str | None = "e", **more: Any) -> dict[str, Any]:
        return subscription(number, **({"etag": etag} if etag else {}), **more)

    def test_the_same_ids_and_etags_leave_the_file(self, tmp_path: Path, platform: Mocker) -> None:
        file = tmp_path / "subs.jsonl"
        first = self.run(file, platform, "one", self.item(1), self.item(2))
        before = file.stat()
        second = self.run(file, platform, "two", self.item(2), self.item(1, other="fields"))

        assert (first["changed"], second["changed"]) == (True, False)
        assert second == {**first, "changed": False}
        assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_other_arguments_make_another_file(self, tmp_path: Path, platform: Mocker) -> None:
        file = tmp_path / "subs.csv"
        self.run(file, platform, "one", self.item(1))

        assert self.run(file, platform, "two", self.item(1), part=["id"])["changed"] is True
