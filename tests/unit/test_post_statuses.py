"""
Each status that can answer a post: whether the bulletin may be there, and that it is never posted a second time.

The hook is asked for each status; who stands on its error, for one of each kind and those beside.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError, UncertainDeliveryError
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.notifications import PostBulletinNotifier
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering, http_reply
from tests.unit.permanent import permanent
from tests.unit.task_state import KeptState
from tests.unit.video_platform import connection, error, page

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock
    from airflow.sdk import Context

    from tests.unit.conftest import Supervisor

BASE = "https://video.example"
ACTIVITIES = f"{BASE}/v3/activities"
ACTIVITY = {"kind": "svc#activity", "id": "act-1"}
NOT_CARRIED_OUT, UNCERTAIN = "not carried out", "uncertain"
STATUSES = range(300, 600)
#: What each status says of the post, if its body says nothing.
VERDICTS = {
    **dict.fromkeys(STATUSES, UNCERTAIN),
    **dict.fromkeys((400, 401, 403, 404, 405), NOT_CARRIED_OUT),
    **dict.fromkeys((411, 412, 413, 414, 415, 416, 417), NOT_CARRIED_OUT),
    **dict.fromkeys((422, 429), NOT_CARRIED_OUT),
}
#: What it says with a reason of the service's document: a refusal is the service's own.
NAMED_VERDICTS = {status: NOT_CARRIED_OUT if status in range(400, 500) else UNCERTAIN for status in STATUSES}
#: Those of each kind that are used, and their neighbours.
SAMPLE = (
    *(300, 302, 308, 399, *range(400, 407), 409, 411),
    *(417, 418, 422, 423, 429, 430, 499, 500, 503, 599),
)
#: The requests of three notifications, or of three tries.
REQUESTS = {NOT_CARRIED_OUT: 3, UNCERTAIN: 1}


@pytest.fixture(autouse=True)
def _connection(supervisor: Supervisor) -> None:
    supervisor.connect("mediaops_video_default", connection(BASE))


def reply_of(status: int, reason: str | None = None) -> dict[str, Any]:
    """Give a reply that redirects, if its status does."""
    body = {"json": error(status, reason)} if reason else {"text": ""}
    return {"status_code": status, "headers": {"Location": f"{BASE}/elsewhere"}, **body}


def requests_by_status(mocker: requests_mock.Mocker, post: Any, reason: str | None = None) -> dict[int, int]:
    """Post bulletins that are answered by each status of the sample, and count the requests."""
    counts = {}
    for status in SAMPLE:
        mocker.post(ACTIVITIES, **reply_of(status, reason))
        before = mocker.call_count
        post(status)
        counts[status] = mocker.call_count - before
    return counts


def requests_of(verdicts: dict[int, str]) -> dict[int, int]:
    return {status: REQUESTS[verdicts[status]] for status in SAMPLE}


def context_of(number: int = 1, *, max_tries: int = 3, state: Any = None) -> Context:
    ti = SimpleNamespace(
        dag_id="dag", run_id="run", task_id="post", map_index=-1, try_number=number, max_tries=max_tries
    )
    return cast("Context", {"task_state_store": state or KeptState(), "ti": ti})


class TestHook:
    @pytest.mark.parametrize(
        ("reason", "verdicts"),
        [
            (None, VERDICTS),
            ("unheardOf", VERDICTS),
            ("videoNotFound", NAMED_VERDICTS),
            ("quotaExceeded", NAMED_VERDICTS),
        ],
    )
    def test_hook_raises_uncertain_delivery_unless_the_service_has_refused(
        self, requests_mock: requests_mock.Mocker, reason: str | None, verdicts: dict[int, str]
    ) -> None:
        found = {}
        with VideoPlatformHook() as hook:
            for status in STATUSES:
                requests_mock.post(ACTIVITIES, **reply_of(status, reason))
                with pytest.raises(MediaOpsError) as caught:
                    hook.post_bulletin("Hi")
                is_uncertain = isinstance(caught.value, UncertainDeliveryError)
                found[status] = UNCERTAIN if is_uncertain else NOT_CARRIED_OUT
                assert caught.value.status == status

        assert found == verdicts

    def test_hook_told_of_a_fault_of_the_service_by_a_refusal_is_uncertain(
        self, requests_mock: requests_mock.Mocker
    ) -> None:
        requests_mock.post(ACTIVITIES, **reply_of(403, "backendError"))
        with VideoPlatformHook() as hook, pytest.raises(UncertainDeliveryError):
            hook.post_bulletin("Hi")


class TestNotifier:
    @pytest.fixture(autouse=True)
    def lines(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Keep them out of the log."""
        return log_lines(monkeypatch, PostBulletinNotifier)

    @pytest.mark.parametrize(("reason", "verdicts"), [(None, VERDICTS), ("playlistNotFound", NAMED_VERDICTS)])
    def test_notifier_with_once_per_posts_no_second_time_after_an_uncertain_status(
        self, requests_mock: requests_mock.Mocker, tmp_path: Path, reason: str | None, verdicts: dict[int, str]
    ) -> None:
        def notify(status: int) -> None:
            notifier = PostBulletinNotifier(text="failed", journal=tmp_path / str(status), once_per=str(status))
            notifier(context_of())
            notifier(context_of())
            # No intent is young any more.
            an_hour_ago = time.time() - 3600
            for file in (tmp_path / str(status)).iterdir():
                os.utime(file, (an_hour_ago, an_hour_ago))
            notifier(context_of())

        assert requests_by_status(requests_mock, notify, reason) == requests_of(verdicts)

    @pytest.mark.parametrize("status", [302, 308, 400, 403, 409, 429, 460, 499, 503])
    async def test_deadline_alert_with_once_per_posts_no_second_time_after_an_uncertain_status(
        self, supervisor: Supervisor, tmp_path: Path, status: int
    ) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http_reply(status), seen=seen)) as server:
            supervisor.connect("mediaops_video_default", connection(server.base))
            for _ in range(3):
                # A failure in a deadline alert is Airflow's to tell.
                with suppress(MediaOpsError):
                    await PostBulletinNotifier(text="late", journal=tmp_path, once_per="1", context=cast("Any", {}))

        assert len(seen) == REQUESTS[VERDICTS[status]]


HALF = "It failed \ud83d"


@pytest.mark.parametrize(
    ("given_as", "arguments"),
    [("text", {}), ("video_id", {}), ("once_per", {"text": "Hi"})],
    ids=["text", "id", "once"],
)
class TestHalfOfASurrogatePair:
    """A text that was cut between the two halves of a character, such as the end of a log line."""

    def test_operator_given_it_by_a_template_ends_in_a_typed_error_before_sending(
        self, requests_mock: requests_mock.Mocker, tmp_path: Path, given_as: str, arguments: dict[str, Any]
    ) -> None:
        templates = {"journal": tmp_path / "journal", "once_per": "1", **arguments, given_as: "{{ cut }}"}
        operator = PostBulletinOperator(task_id="post", **templates)
        operator.render_template_fields(cast("Context", {"cut": HALF}))

        with pytest.raises(permanent(InvalidArgumentError), match="holds half of a surrogate pair, at character 11"):
            operator.execute(context_of())
        assert not requests_mock.called
        assert not (tmp_path / "journal").exists()


def test_hook_sends_back_a_page_token_of_the_service_that_is_half_of_a_surrogate_pair(
    requests_mock: requests_mock.Mocker,
) -> None:
    pages = [page(1, next_token="\ud83d"), page(2)]
    requests_mock.get(f"{BASE}/v3/subscriptions", [{"json": each} for each in pages])
    with VideoPlatformHook() as hook:
        assert [each.id for each in hook.iter_subscriptions(mine=True)] == ["sub-1", "sub-2"]


@pytest.mark.parametrize("kept", ["journal", pytest.param("state", marks=pytest.mark.airflow(">=3.3"))])
@pytest.mark.parametrize(
    ("options", "tries", "requests"),
    [
        pytest.param({}, [(1, 3), (2, 3), (3, 5)], REQUESTS, id="a retry and a clear"),
        pytest.param(
            {"post_again_on_clear": True},
            [(1, 1), (2, 1), (3, 2), (4, 2)],
            {NOT_CARRIED_OUT: 4, UNCERTAIN: 2},
            id="a clear that is to post again",
        ),
        pytest.param(
            {"on_uncertain": "retry"},
            [(1, 3), (2, 3)],
            {NOT_CARRIED_OUT: 2, UNCERTAIN: 2},
            id="a retry whatever it was",
        ),
    ],
)
def test_operator_posts_a_second_time_only_after_a_refusal_or_if_it_is_asked_to(
    requests_mock: requests_mock.Mocker,
    tmp_path: Path,
    *,
    kept: str,
    options: dict[str, Any],
    tries: list[tuple[int, int]],
    requests: dict[str, int],
) -> None:
    """The tries are their numbers, each with the most that the task has then."""

    def post(status: int) -> None:
        state = KeptState()
        journal: dict[str, Any] = {"journal": tmp_path / str(status)} if kept == "journal" else {}
        for number, most in tries:
            with suppress(Exception):
                operator = PostBulletinOperator(task_id="post", text="Hi", **journal, **options)
                operator.execute(context_of(number, max_tries=most, state=state))

    assert requests_by_status(requests_mock, post) == {status: requests[VERDICTS[status]] for status in SAMPLE}
