"""
Each status that can answer a post: whether the bulletin may be there, and that it is never posted a second time.

The hook is asked for each status; the operator, which stands on its error, for one of each verdict.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError, UncertainDeliveryError
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.unit.permanent import permanent
from tests.unit.task_state import KeptState
from tests.unit.video_platform import connection, error, page

if TYPE_CHECKING:
    import requests_mock
    from airflow.sdk import Context

    from tests.unit.conftest import Supervisor

BASE = "https://video.example"
ACTIVITIES = f"{BASE}/v3/activities"
NOT_CARRIED_OUT, UNCERTAIN = "not carried out", "uncertain"
STATUSES = range(300, 600)
#: A proxy that wants credentials passes no request on, whatever it writes.
OF_A_PROXY = 407
ALL_UNCERTAIN = {**dict.fromkeys(STATUSES, UNCERTAIN), OF_A_PROXY: NOT_CARRIED_OUT}
#: What each status says of the post, if its body says nothing.
VERDICTS = {
    **ALL_UNCERTAIN,
    **dict.fromkeys((400, 401, 403, 404, 405), NOT_CARRIED_OUT),
    **dict.fromkeys((411, 412, 413, 414, 415, 416, 417), NOT_CARRIED_OUT),
    **dict.fromkeys((422, 429), NOT_CARRIED_OUT),
}
#: What it says with a reason of the service's document: a refusal is the service's own.
NAMED_VERDICTS = {**ALL_UNCERTAIN, **dict.fromkeys(range(400, 500), NOT_CARRIED_OUT)}


@pytest.fixture(autouse=True)
def _connection(supervisor: Supervisor) -> None:
    supervisor.connect("mediaops_video_default", connection(BASE))


def reply_of(status: int, reason: str | None = None) -> dict[str, Any]:
    """Give a reply that redirects, if its status does."""
    body = {"json": error(status, reason)} if reason else {"text": ""}
    return {"status_code": status, "headers": {"Location": f"{BASE}/elsewhere"}, **body}


def context_of(number: int = 1, *, max_tries: int = 3, state: Any = None) -> Context:
    ti = SimpleNamespace(
        dag_id="dag", run_id="run", task_id="post", map_index=-1, try_number=number, max_tries=max_tries
    )
    return cast("Context", {"task_state_store": state or KeptState(), "ti": ti})


@pytest.mark.parametrize(
    ("reason", "verdicts"),
    [
        (None, VERDICTS),
        ("unheardOf", VERDICTS),
        ("videoNotFound", NAMED_VERDICTS),
        ("quotaExceeded", NAMED_VERDICTS),
        pytest.param("backendError", ALL_UNCERTAIN, id="a fault of the service"),
    ],
)
def test_hook_raises_uncertain_delivery_unless_the_service_has_refused(
    requests_mock: requests_mock.Mocker, reason: str | None, verdicts: dict[int, str]
) -> None:
    found = {}
    with VideoPlatformHook() as hook:
        for status in STATUSES:
            requests_mock.post(ACTIVITIES, **reply_of(status, reason))
            with pytest.raises(MediaOpsError) as caught:
                hook.post_bulletin("Hi")
            is_uncertain = isinstance(caught.value, UncertainDeliveryError)
            found[status] = UNCERTAIN if is_uncertain else NOT_CARRIED_OUT
            assert caught.value.status == (None if status == OF_A_PROXY else status)

    assert found == verdicts


@pytest.mark.parametrize("kept", ["journal", pytest.param("state", marks=pytest.mark.airflow(">=3.3"))])
@pytest.mark.parametrize("status", [403, 503])
@pytest.mark.parametrize(
    ("options", "tries", "requests"),
    [
        pytest.param({}, [(1, 3), (2, 3), (3, 5)], {NOT_CARRIED_OUT: 3, UNCERTAIN: 1}, id="a retry and a clear"),
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
    status: int,
    options: dict[str, Any],
    tries: list[tuple[int, int]],
    requests: dict[str, int],
) -> None:
    """The tries are their numbers, each with the most that the task has then."""
    requests_mock.post(ACTIVITIES, **reply_of(status))
    state = KeptState()
    journal: dict[str, Any] = {"journal": tmp_path} if kept == "journal" else {}
    for number, most in tries:
        with suppress(Exception):
            operator = PostBulletinOperator(task_id="post", text="Hi", **journal, **options)
            operator.execute(context_of(number, max_tries=most, state=state))

    assert requests_mock.call_count == requests[VERDICTS[status]]


# Half of a surrogate pair: a text that was cut between the two halves of a character, such as the end of a log line.


@pytest.mark.parametrize("given_as", ["text", "video_id", "once_per"])
def test_half_of_a_surrogate_pair_of_a_template_ends_in_a_typed_error_before_sending(
    requests_mock: requests_mock.Mocker, tmp_path: Path, given_as: str
) -> None:
    templates: dict[str, Any] = {"journal": tmp_path / "journal", "text": "Hi", "once_per": "1", given_as: "{{ cut }}"}
    operator = PostBulletinOperator(task_id="post", **templates)
    operator.render_template_fields(cast("Context", {"cut": "It failed \ud83d"}))

    with pytest.raises(permanent(InvalidArgumentError), match=f"{given_as} is a text of whole characters"):
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
