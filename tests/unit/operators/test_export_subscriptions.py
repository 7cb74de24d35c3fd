"""The operator that exports subscriptions: what it asks for and writes, how it fails, and how it goes on."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    DestinationReplacedError,
    InvalidArgumentError,
    InvalidReplyError,
    PermanentError,
    PermissionDeniedError,
    QuotaExceededError,
)
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import BASE, SUBSCRIPTIONS, render
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.video_platform import KEY, connection, error, page, subscription

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")
MADE_ANEW = datetime(2026, 3, 15, tzinfo=timezone.utc)
SPENT = {"status_code": 403, "json": error(403, "quotaExceeded")}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have pauses that take no time."""
    taken: list[float] = []
    monkeypatch.setattr("time.sleep", taken.append)
    return taken


def instance(run: str = "today", map_index: int = -1, max_tries: int = 2, **names: str) -> dict[str, Any]:
    """Give a task's context."""
    fields = {"dag_id": "dag", "run_id": run, "task_id": "export", "map_index": map_index, "max_tries": max_tries}
    return {"ti": SimpleNamespace(**{**fields, **names})}


def export(file: object, context: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    operator = ExportSubscriptionsOperator(task_id="export", destination=str(file), **({"mine": True} | arguments))
    return operator.execute(context or instance())  # type: ignore[arg-type]


def answers(platform: requests_mock.Mocker, *replies: dict[str, Any]) -> None:
    """Have the platform answer so, in order; a page is a reply."""
    platform.reset_mock()
    platform.get(SUBSCRIPTIONS, [reply if "status_code" in reply else {"json": reply} for reply in replies])


def tokens(platform: requests_mock.Mocker) -> list[str | None]:
    """Give the page token of each request."""
    return [request.qs.get("pagetoken", [None])[0] for request in platform.request_history]


def stop_at_the_quota(file: Path, platform: requests_mock.Mocker, **arguments: Any) -> None:
    """Export two pages of three, until the quota is spent."""
    answers(platform, page(1, 2, next_token="t2"), page(2, 3, next_token="t3"), SPENT)
    with pytest.raises(QuotaExceededError):
        export(file, **arguments)


def ids(file: Path) -> list[str]:
    return [json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines()]


class TestExport:
    @pytest.fixture(autouse=True)
    def pages(self, platform: requests_mock.Mocker) -> None:
        """Have three pages, of which the second repeats a record of the first."""
        replies = [page(1, 2, next_token="T2"), page(2, 3, next_token="T3"), page(4)]
        platform.get(SUBSCRIPTIONS, [{"json": reply} for reply in replies])

    def test_each_record_is_written_once_as_it_came(self, tmp_path: Path, platform: requests_mock.Mocker) -> None:
        summary = export(tmp_path / "day" / "subs.jsonl")

        file = tmp_path / "day" / "subs.jsonl"
        assert [json.loads(line) for line in file.read_text().splitlines()] == list(map(subscription, (1, 2, 3, 4)))
        assert summary == {
            "path": str(file),
            "rows": 4,
            "pages": 3,
            "duplicates": 1,
            "restarts": 0,
            "complete": True,
            "resumed": False,
            "bytes": file.stat().st_size,
        }
        tokens = [request.qs.get("pagetoken") for request in platform.request_history]
        assert tokens == [None, ["t2"], ["t3"]]

    @pytest.mark.usefixtures("platform")
    def test_the_path_in_the_result_is_one_that_open_takes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        for number, folder in enumerate((tmp_path.as_uri(), "~", ".", tmp_path)):
            assert export(f"{folder}/{number}.jsonl")["path"] == str(tmp_path / f"{number}.jsonl")

    @pytest.mark.parametrize("auth", ["api_key", "none"])
    def test_export_of_mine_without_a_user_fails_for_good_and_that_of_a_channel_works(
        self, tmp_path: Path, platform: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, auth: str
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", connection(BASE, auth=auth))
        platform.get(f"{SUBSCRIPTIONS}?mine=true", status_code=401, json=error(401, "required"))

        with pytest.raises(permanent(AuthenticationError), match="mine=True need an authorised user"):
            export(tmp_path / "subs.jsonl")

        assert export(tmp_path / "subs.jsonl", mine=False, channel_id="UC1")["rows"] == 4

    def test_unknown_fields_are_kept(self, tmp_path: Path, platform: requests_mock.Mocker) -> None:
        item = subscription(1, subscriberSnippet={"title": "✓", "deep": [None]}, etag="x")
        platform.get(SUBSCRIPTIONS, json={"items": [item]})

        export(tmp_path / "subs.jsonl")

        assert json.loads((tmp_path / "subs.jsonl").read_text(encoding="utf-8")) == item

    def test_csv_has_the_documented_fields_and_the_whole_record(self, tmp_path: Path) -> None:
        export(tmp_path / "subs.csv")
        with (tmp_path / "subs.csv").open(encoding="utf-8", newline="") as file:
            first = next(csv.DictReader(file))
        record = first.pop("record")
        assert first == {
            "id": "sub-1",
            "title": "Channel 1",
            "channel_id": "UC-1",
            "description": "",
            "published_at": "2024-03-14T20:00:00Z",
            "total_item_count": "10",
            "new_item_count": "1",
            "activity_type": "all",
        }
        assert json.loads(record) == subscription(1)

    def test_parquet_leaves_empty_what_a_record_does_not_have(
        self, tmp_path: Path, platform: requests_mock.Mocker
    ) -> None:
        items = [{"id": "bare"}, {"snippet": None, "contentDetails": {"totalItemCount": "7", "newItemCount": "many"}}]
        platform.get(SUBSCRIPTIONS, json={"items": items})

        export(tmp_path / "subs.parquet")

        rows = pq.read_table(tmp_path / "subs.parquet").to_pylist()
        assert [json.loads(row.pop("record")) for row in rows] == items
        assert [{name: value for name, value in row.items() if value is not None} for row in rows] == [
            {"id": "bare"},
            {"total_item_count": 7},
        ]

    @pytest.mark.parametrize("name", ["subs.jsonl", "subs.csv", "subs.parquet"])
    def test_no_subscriptions_make_a_valid_empty_file(
        self, tmp_path: Path, platform: requests_mock.Mocker, name: str
    ) -> None:
        platform.get(SUBSCRIPTIONS, json={"items": []})

        summary = export(tmp_path / name)

        assert (summary["rows"], summary["pages"]) == (0, 1)
        if name.endswith("parquet"):
            assert pq.read_table(tmp_path / name).num_rows == 0
        else:
            assert len((tmp_path / name).read_text().splitlines()) == (1 if name.endswith("csv") else 0)

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
        self, tmp_path: Path, platform: requests_mock.Mocker, arguments: dict[str, Any], query: dict[str, str]
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
            ({"page_size": 0}, "page_size is a whole number, 1 to 50"),
            ({"mine": "perhaps"}, "mine is True or False"),
            ({"if_changed": "perhaps"}, "if_changed is True or False"),
            ({"mine": "{{ x }}", "ids": "a,"}, "ids needs at least one entry"),
            ({"mine": False, "channel_id": "{{ x }}", "ids": []}, "ids needs at least one entry"),
            ({"destination": "subs.xml"}, "ends in none of"),
            ({"destination": "{{ run_id }}/subs.xml"}, "ends in none of"),
            ({"destination": "{{ run_id }}", "format": "xml"}, "format is one of"),
            ({"mine": False, "channel_id": "{{ channel }}", "order": "newest"}, "order is alphabetical"),
            ({"mine": False, "ids": ["{{ id }}"], "part": ["subscriberSnippet"]}, "part knows"),
            ({"format": "xml"}, "format is one of"),
            ({"csv_formulas": "drop"}, "csv_formulas is keep or escape; not 'drop'"),
        ],
    )
    def test_arguments_that_cannot_be_used_raise_at_parse_time(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ExportSubscriptionsOperator(task_id="export", **{"destination": "subs.csv", "mine": True, **arguments})

    @pytest.mark.parametrize(
        ("name", "rendered"),
        [
            ("destination", "subs.xml"),
            ("channel_id", " "),
            ("mine", "perhaps"),
            ("if_changed", ""),
            ("require_complete", "None"),
            ("page_size", "0"),
            ("part", "['id']"),
            ("csv_formulas", "no"),
        ],
    )
    def test_templated_arguments_that_cannot_be_used_raise_before_the_first_request(
        self, tmp_path: Path, platform: requests_mock.Mocker, name: str, rendered: str
    ) -> None:
        known = {"destination": str(tmp_path / "subs.csv"), **({} if name == "channel_id" else {"mine": True})}
        arguments: dict[str, Any] = {**known, name: "{{ x }}"}
        operator = ExportSubscriptionsOperator(task_id="export", **arguments)
        render(operator, x=rendered)

        with pytest.raises(permanent(InvalidArgumentError), match=f"{name} "):
            operator.execute({})

        assert not platform.called
        assert list(tmp_path.iterdir()) == []

    def test_refused_export_raises_a_typed_error_without_the_token(
        self, tmp_path: Path, platform: requests_mock.Mocker
    ) -> None:
        platform.get(SUBSCRIPTIONS, status_code=403, json=error(403, "subscriptionForbidden", f"No for {KEY}."))

        with pytest.raises(permanent(PermissionDeniedError), match="mine=True as its owner") as caught:
            export(tmp_path / "subs.jsonl")

        assert KEY not in str(caught.value)

    def test_the_recorded_page_is_exported(self, tmp_path: Path, platform: requests_mock.Mocker, data: Path) -> None:
        recorded = json.loads((data / "video" / "subscription_page.json").read_text(encoding="utf-8"))
        platform.get(SUBSCRIPTIONS, [{"json": recorded}, {"json": {"items": []}}])

        export(tmp_path / "subs.parquet")

        rows = pq.read_table(tmp_path / "subs.parquet").to_pylist()
        assert [(row["title"], row["channel_id"], row["total_item_count"]) for row in rows] == [
            ("Lighthouse keepers", "UClamp", 218),
            ("Ærø by bike ✓", "UCbike", 47),
        ]


class TestGoingOn:
    def test_the_next_attempt_begins_at_the_page_that_failed(
        self, tmp_path: Path, platform: requests_mock.Mocker
    ) -> None:
        file = tmp_path / "subs.jsonl"
        stop_at_the_quota(file, platform)
        assert not file.exists()

        answers(platform, page(3, 4, next_token="t4"), page(5))
        summary = export(file)

        assert tokens(platform) == ["t3", "t4"]
        assert ids(file) == [f"sub-{number}" for number in (1, 2, 3, 4, 5)]
        assert summary == {
            "path": str(file),
            "rows": 5,
            "pages": 4,
            "duplicates": 2,
            "restarts": 0,
            "complete": True,
            "resumed": True,
            "bytes": file.stat().st_size,
        }

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
        self, tmp_path: Path, platform: requests_mock.Mocker, context: dict[str, Any], arguments: dict[str, Any]
    ) -> None:
        file = tmp_path / "subs.jsonl"
        stop_at_the_quota(file, platform)
        answers(platform, page(7))

        summary = export(file, context, **arguments)

        assert tokens(platform) == [None]
        assert (summary["resumed"], ids(file)) == (False, ["sub-7"])

    @pytest.mark.parametrize(
        "later",
        [instance(max_tries=3), {**instance(), "dag_run": SimpleNamespace(start_date=MADE_ANEW)}],
    )
    def test_task_cleared_or_of_a_run_made_anew_after_it_has_published_does_the_work_again(
        self, tmp_path: Path, platform: requests_mock.Mocker, later: dict[str, Any]
    ) -> None:
        file = tmp_path / "subs.jsonl"
        answers(platform, page(1), page(2))
        export(file)

        assert export(file, later)["resumed"] is False
        assert ids(file) == ["sub-2"]

    @pytest.mark.parametrize("later", [instance(max_tries=3), instance(try_number="4")])
    def test_task_cleared_after_it_has_failed_and_its_next_try_resume(
        self, tmp_path: Path, platform: requests_mock.Mocker, later: dict[str, Any]
    ) -> None:
        file = tmp_path / "subs.jsonl"
        stop_at_the_quota(file, platform)
        answers(platform, page(4))

        assert export(file, later)["resumed"] is True
        assert tokens(platform) == ["t3"]

    def test_two_runs_with_one_destination_do_not_mix(self, tmp_path: Path, platform: requests_mock.Mocker) -> None:
        file = tmp_path / "subs.jsonl"
        others = [page(2), page(1)]

        def answer(*_: Any) -> str:
            if len(others) == 2:
                found = others.pop()
                export(file, instance("tomorrow"))
                return json.dumps(found)
            return json.dumps(others[0])

        platform.get(SUBSCRIPTIONS, text=answer)
        with pytest.raises(DestinationReplacedError, match="was published by another run"):
            export(file)
        assert ids(file) == ["sub-2"]

        assert export(file)["resumed"]
        assert platform.call_count == 2
        assert ids(file) == ["sub-1"]

    def test_mapped_tasks_with_one_destination_are_refused(
        self, tmp_path: Path, platform: requests_mock.Mocker
    ) -> None:
        file = tmp_path / "subs.jsonl"
        answers(platform, page(1))
        export(file, instance(map_index=0))

        with pytest.raises(permanent(PermanentError), match=r"mapped beside this task .* \{\{ ti\.map_index \}\}"):
            export(file, instance(map_index=1), page_size=7)
        assert ids(file) == ["sub-1"]


class TestCutShort:
    """A listing that goes in a circle: the service does not say what is beyond."""

    CIRCLE = (page(1, next_token="t1"), page(2, next_token="t1"))

    def test_the_summary_says_so_and_the_log_warns_once(
        self, tmp_path: Path, platform: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, ExportSubscriptionsOperator)
        answers(platform, *self.CIRCLE)

        summary = export(tmp_path / "subs.jsonl")

        assert (summary["complete"], summary["rows"]) == (False, 2)
        (warning,) = [line for line in lines if line.startswith("WARNING")]
        assert "cut the listing short: it ends after 2 pages" in warning
        assert export(tmp_path / "subs.jsonl") == summary

    @pytest.mark.parametrize("required", [True, "true"])
    def test_export_that_requires_a_whole_listing_fails_and_its_cleared_task_lists_anew(
        self, tmp_path: Path, platform: requests_mock.Mocker, required: object
    ) -> None:
        file = tmp_path / "subs.jsonl"
        answers(platform, *self.CIRCLE)

        with pytest.raises(permanent(InvalidReplyError), match="cut the listing short after 2 pages"):
            export(file, require_complete=required)

        assert not file.exists()
        answers(platform, page(2, next_token="n1"), page(3, next_token="n2"), page(1))
        summary = export(file, instance(max_tries=3), require_complete=required)
        assert tokens(platform) == [None, "n1", "n2"]
        assert ids(file) == ["sub-2", "sub-3", "sub-1"]
        assert (summary["complete"], summary["restarts"], summary["resumed"]) == (True, 0, False)


class TestIfChanged:
    def run(self, file: Path, platform: requests_mock.Mocker, run: str, *items: dict[str, Any], **more: Any) -> Any:
        answers(platform, {"items": list(items)})
        return export(file, instance(run), **{"if_changed": True, **more})

    def item(self, number: int, etag: str | None = "e", **more: Any) -> dict[str, Any]:
        return subscription(number, **({"etag": etag} if etag else {}), **more)

    def test_the_same_ids_and_etags_leave_the_file(self, tmp_path: Path, platform: requests_mock.Mocker) -> None:
        file = tmp_path / "subs.jsonl"
        first = self.run(file, platform, "one", self.item(1), self.item(2))
        before = file.stat()
        second = self.run(file, platform, "two", self.item(2), self.item(1, other="fields"))

        assert (first["changed"], second["changed"]) == (True, False)
        assert second == {**first, "changed": False}
        assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    @pytest.mark.parametrize("name", ["subs.jsonl", "subs.csv", "subs.parquet"])
    @pytest.mark.parametrize(
        "now",
        [[(1, "e")], [(1, "e"), (2, "f")], [(1, "e"), (3, "e")], [(1, "e"), (2, "e"), (3, "e")], [(1, "f"), (2, "f")]],
    )
    def test_any_other_is_published(
        self, tmp_path: Path, platform: requests_mock.Mocker, name: str, now: list[tuple[int, str]]
    ) -> None:
        file = tmp_path / name
        self.run(file, platform, "one", self.item(1), self.item(2))
        before = file.read_bytes()
        second = self.run(file, platform, "two", *(self.item(*each) for each in now))

        assert second["changed"] is True
        assert file.read_bytes() != before

    def test_other_arguments_make_another_file(self, tmp_path: Path, platform: requests_mock.Mocker) -> None:
        file = tmp_path / "subs.csv"
        self.run(file, platform, "one", self.item(1))

        assert self.run(file, platform, "two", self.item(1), part=["id"])["changed"] is True


def test_the_log_tells_what_is_kept_and_gone_on_with(
    tmp_path: Path, platform: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log_lines(monkeypatch, ExportSubscriptionsOperator)
    file = tmp_path / "subs.jsonl"
    stop_at_the_quota(file, platform)
    answers(platform, page(4))
    export(file)
    export(file)

    start = f"INFO: Exporting the subscriptions of the authorised user to {file}: pages of 50, no rate set,"
    assert lines == [
        f"{start} from the start.",
        "INFO: Kept 3 subscriptions of 2 pages for the next attempt.",
        f"{start} resumed after 3 subscriptions of 2 pages.",
        f"INFO: Wrote 4 subscriptions of 3 pages to {file}.",
        f"INFO: An earlier attempt of this task has written {file} already.",
    ]
