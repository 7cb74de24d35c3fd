"""A bulletin posted at most once: several tries of one task, which Airflow's task state store outlives."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import requests

from airflow_provider_mediaops.exceptions import (
    PermanentError,
    QuotaExceededError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import ACTIVITIES
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.operators.video_platform_tasks import posts as posts  # noqa: PLC0414 a fixture
from tests.unit.task_state import KeptState
from tests.unit.video_platform import error

if TYPE_CHECKING:
    import requests_mock
    from airflow.sdk import Context

pytestmark = [pytest.mark.usefixtures("supervisor"), pytest.mark.airflow(">=3.3")]


@pytest.fixture
def state() -> KeptState:
    return KeptState()


def attempt(state: KeptState, number: int, *, max_tries: int = 3, text: str = "Hi", **arguments: Any) -> dict[str, Any]:
    ids = {"dag_id": "dag", "run_id": "run", "task_id": "post", "map_index": -1}
    ti = SimpleNamespace(**ids, try_number=number, max_tries=max_tries)
    context = cast("Context", {"task_state_store": state, "ti": ti})
    return PostBulletinOperator(task_id="post", text=text, **arguments).execute(context)


def test_retry_after_success_returns_the_same_activity(
    state: KeptState, posts: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log_lines(monkeypatch, PostBulletinOperator)
    first = attempt(state, 1)
    lines.clear()

    assert attempt(state, 2) == first == {"id": "act-1", "new": None}
    assert posts.call_count == 1
    assert lines == ["INFO: Try 1 has posted bulletin act-1; nothing is posted."]


@pytest.mark.parametrize("other", [{"text": "Ho"}, {"video_id": "v"}, {"video_conn_id": "another"}])
def test_retry_with_other_contents_returns_the_same_activity_and_warns(
    state: KeptState, posts: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    lines = log_lines(monkeypatch, PostBulletinOperator)
    first = attempt(state, 1)

    assert attempt(state, 2, **other) == first
    assert posts.call_count == 1
    assert lines[-1].startswith("WARNING: It was posted with another text, video, playlist or connection")


@pytest.mark.usefixtures("posts")
def test_the_record_is_kept_for_as_long_as_the_run(state: KeptState) -> None:
    attempt(state, 1)

    assert set(state.retentions) == {timedelta.max}


def test_retry_after_a_lost_reply_is_uncertain(state: KeptState, platform: requests_mock.Mocker) -> None:
    platform.post(ACTIVITIES, exc=requests.ReadTimeout)
    for number, told in ((1, "not known whether POST"), (2, "Try 1 of this task was about to post")):
        with pytest.raises(UncertainDeliveryError, match=told):
            attempt(state, number)

    assert platform.call_count == 1


def test_retry_after_a_lost_reply_posts_if_asked_for(
    state: KeptState, platform: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log_lines(monkeypatch, PostBulletinOperator)
    platform.post(ACTIVITIES, [{"exc": requests.ReadTimeout}, {"json": {"id": "act-2"}}])
    with pytest.raises(TemporaryError, match="on_uncertain='retry'"):
        attempt(state, 1, on_uncertain="retry")

    assert attempt(state, 2, on_uncertain="retry")["id"] == "act-2"
    assert [line for line in lines if line.startswith("WARNING: Try 1 ") and "second time" in line]


def test_retry_after_a_refusal_posts(state: KeptState, platform: requests_mock.Mocker) -> None:
    refusal = {"status_code": 403, "json": error(403, "quotaExceeded")}
    platform.post(ACTIVITIES, [refusal, {"json": {"id": "act-1"}}])
    with pytest.raises(QuotaExceededError):
        attempt(state, 1)
    assert state.values == {}

    assert attempt(state, 2)["id"] == "act-1"


@pytest.mark.parametrize(("no", "yes"), [(False, True), ("false", "true")])
def test_cleared_task_posts_again_only_if_asked_for(
    state: KeptState, posts: requests_mock.Mocker, no: object, yes: object
) -> None:
    first = attempt(state, 1, max_tries=0)

    assert attempt(state, 2, max_tries=1, post_again_on_clear=no) == first
    with pytest.raises(PermanentError, match="nothing was posted"):
        attempt(state, 2, max_tries=1, text="Ho")
    assert posts.call_count == 1
    assert attempt(state, 2, max_tries=1, text="Ho", post_again_on_clear=yes)["id"] == "act-2"
    # And the retry that follows this clear is a retry.
    assert attempt(state, 3, max_tries=1, text="Ho", post_again_on_clear=yes)["id"] == "act-2"


def test_state_store_that_fails_keeps_the_bulletin_from_being_sent(platform: requests_mock.Mocker) -> None:
    with pytest.raises(TemporaryError, match="was not sent"):
        attempt(KeptState(failing=("set",)), 1)

    assert not platform.called
