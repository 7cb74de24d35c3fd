"""Exports that go on: after a failure, after a death, after a clear; and those that find that nothing has changed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    DestinationReplacedError,
    InvalidReplyError,
    PermanentError,
    QuotaExceededError,
)
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import BASE, SUBSCRIPTIONS
from tests.unit.permanent import permanent
from tests.unit.video_platform import connection, error, page, subscription

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from tests.unit.conftest import Supervisor

SPENT = {"status_code": 403, "json": error(403, "quotaExceeded")}


@pytest.fixture(autouse=True)
def platform(supervisor: Supervisor, requests_mock: requests_mock.Mocker) -> requests_mock.Mocker:
    """Have a platform that answers nothing yet."""
    supervisor.connect("mediaops_video_default", connection(BASE))
    return requests_mock


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have pauses that take no time."""
    taken: list[float] = []
    monkeypatch.setattr("time.sleep", taken.append)
    return taken


def instance(run: str = "today", map_index: int = -1, max_tries: int = 2) -> dict[str, Any]:
    """Give a task's context."""
    fields = {"dag_id": "dag", "run_id": run, "task_id": "export", "map_index": map_index, "max_tries": max_tries}
    return {"ti": SimpleNamespace(**fields)}


def export(file: Path, context: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
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

    def test_task_cleared_after_it_has_published_does_the_work_again(
        self, tmp_path: Path, platform: requests_mock.Mocker
    ) -> None:
        file = tmp_path / "subs.jsonl"
        answers(platform, page(1), page(2))
        export(file)

        assert export(file, instance(max_tries=3))["resumed"] is False
        assert ids(file) == ["sub-2"]

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
