"""Events of triggers, as the tasks that resume with them read them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidReplyError, MediaOpsError, RateLimitedError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.triggers.deferral import done_event, error_event, summary_of, value_of

_UNREADABLE: list[object] = [
    None,
    {},
    [],
    "done",
    3,
    {"status": "later"},
    {"status": "error"},
    {"status": "error", "error": "x"},
]


@pytest.mark.parametrize("event", _UNREADABLE)
@pytest.mark.parametrize("read", [value_of, summary_of])
def test_an_event_of_another_version_is_reported(read: Any, event: Any) -> None:
    with pytest.raises(InvalidReplyError, match="this version of the provider cannot read"):
        read(event)


@pytest.mark.parametrize("value", [None, [], "rows", 3])
def test_a_value_that_is_no_summary_is_reported(value: Any) -> None:
    assert value_of(done_event(value)) == value
    with pytest.raises(InvalidReplyError, match=r"cannot read \(version=1\)"):
        summary_of(done_event(value))


def test_a_summary_and_an_error_are_what_was_sent() -> None:
    assert summary_of(done_event({"rows": 2})) == {"rows": 2}
    with pytest.raises(RateLimitedError, match="too often"):
        summary_of(error_event(RateLimitedError("too often")))


@pytest.mark.parametrize("event", ["done", {"status": "done", "value": None}])
@pytest.mark.parametrize("kind", [ExportSubscriptionsOperator, EnrichIsbnsOperator, CaptureHotThreadsOperator])
def test_a_task_that_resumes_with_one_fails_with_an_error_of_the_provider(
    kind: type[Any], event: Any, tmp_path: Any
) -> None:
    own: dict[str, Any] = {"mine": True} if kind is ExportSubscriptionsOperator else {}
    own |= {"isbns": ["9780140328721"]} if kind is EnrichIsbnsOperator else {}
    suffix = "txt" if kind is CaptureHotThreadsOperator else "jsonl"
    task = kind(task_id="task", destination=f"{tmp_path}/result.{suffix}", deferrable=True, **own)
    with pytest.raises(Exception, match="cannot read") as caught:
        task.execute_complete({}, event)
    assert isinstance(caught.value.__cause__ or caught.value, MediaOpsError)
