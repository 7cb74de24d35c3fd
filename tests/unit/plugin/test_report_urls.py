"""The addresses of the pages in Airflow."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest

from airflow_provider_mediaops.report_urls import report_url, tab_url

RUN = "manual__2026-11-22T18:00:00+00:00"


def test_a_report_is_named_by_its_task_instance() -> None:
    url = report_url("hot", RUN, "group.capture", 3)
    assert unquote(url) == f"/mediaops/hot-threads/report/hot/group.capture/3/{RUN}"


def test_names_cannot_leave_their_place() -> None:
    url = urlsplit(report_url("a/b?c#d", "r?x=1/2", "t+ü"))
    assert [unquote(part) for part in url.path.split("/")] == [
        *("", "mediaops", "hot-threads", "report"),
        *("a/b?c#d", "t+ü", "-1", "r?x=1/2"),
    ]
    assert not url.query
    assert not url.fragment


@pytest.mark.parametrize("base_url", ["https://airflow.example.com/prefix", "https://airflow.example.com/prefix/"])
def test_airflow_may_have_a_path_of_its_own(base_url: str) -> None:
    assert report_url("d", "r", "t", base_url=base_url) == (
        "https://airflow.example.com/prefix/mediaops/hot-threads/report/d/t/-1/r"
    )
    assert tab_url("d", "r", "t", base_url=base_url) == (
        "https://airflow.example.com/prefix/dags/d/runs/r/tasks/t/plugin/mediaops-hot-threads"
    )


def test_the_tab_of_a_mapped_task_names_its_index() -> None:
    assert tab_url("d", "r/1", "t", 0) == "/dags/d/runs/r%2F1/tasks/t/mapped/0/plugin/mediaops-hot-threads"
