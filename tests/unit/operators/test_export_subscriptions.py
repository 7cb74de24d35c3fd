"""The operator that exports subscriptions: what it asks for, what it writes, and how it fails."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidArgumentError,
    PermissionDeniedError,
)
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.unit.operators.video_platform_tasks import BASE, SUBSCRIPTIONS, render
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.video_platform import KEY, connection, error, page, subscription

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


def export(destination: object, **arguments: Any) -> dict[str, Any]:
    target = destination if isinstance(destination, ObjectStoragePath) else str(destination)
    operator = ExportSubscriptionsOperator(task_id="export", destination=target, **({"mine": True} | arguments))
    return operator.execute({})


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
