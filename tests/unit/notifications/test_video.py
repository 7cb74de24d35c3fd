"""The notifier that posts a bulletin: what it posts, and when."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import AuthenticationError, PermissionDeniedError, UncertainDeliveryError
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.notifications import PostBulletinNotifier
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.callback_contexts import of_a_deadline
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering, http_reply
from tests.unit.video_platform import KEY, connection, error

if TYPE_CHECKING:
    import requests_mock

    from tests.unit.conftest import Supervisor

ACTIVITIES = "https://video.example/v3/activities"
ACTIVITY = {"kind": "svc#activity", "id": "act-1"}


@pytest.fixture(autouse=True)
def _connection(supervisor: Supervisor) -> None:
    supervisor.connect("mediaops_video_default", connection("https://video.example"))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines = log_lines(monkeypatch, PostBulletinNotifier)
    monkeypatch.setattr(VideoPlatformHook, "log", PostBulletinNotifier.log, raising=False)
    return lines


def posted(mocker: requests_mock.Mocker) -> list[str]:
    """Give the texts that were posted."""
    return [request.json()["snippet"]["description"] for request in mocker.request_history]


class TestAsCallback:
    def test_notifier_posts_the_rendered_text(self, requests_mock: requests_mock.Mocker, lines: list[str]) -> None:
        requests_mock.post(ACTIVITIES, json=ACTIVITY)
        PostBulletinNotifier(text="{{ run_id }} failed")({"run_id": "manual__1"})
        assert posted(requests_mock) == ["manual__1 failed"]
        assert lines == ["INFO: Posted bulletin act-1."]

    @pytest.mark.parametrize(
        ("reply", "raised"),
        [
            ({"status_code": 401, "json": error(401, "authError", f"{KEY} is wrong")}, AuthenticationError),
            ({"status_code": 503, "text": "down"}, UncertainDeliveryError),
        ],
    )
    def test_its_failure_is_raised_and_nothing_is_posted_again(
        self, requests_mock: requests_mock.Mocker, reply: dict[str, Any], raised: type[Exception]
    ) -> None:
        requests_mock.post(ACTIVITIES, **reply)
        with pytest.raises(raised) as caught:
            PostBulletinNotifier(text="failed")({})
        assert KEY not in str(caught.value)
        assert requests_mock.call_count == 1


class TestAsDeadlineAlert:
    async def test_notifier_on_an_event_loop_renders_the_context_that_it_was_made_with(
        self, supervisor: Supervisor, lines: list[str]
    ) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http_reply(body=json.dumps(ACTIVITY).encode()), seen=seen)) as server:
            supervisor.connect("mediaops_video_default", connection(server.base))
            context: Any = of_a_deadline(run_id="manual__1")
            await PostBulletinNotifier(text="{{ dag_run.run_id }} is late", context=context)
        (request,) = seen
        assert b"manual__1 is late" in request
        assert lines == ["INFO: Posted bulletin act-1."]

    async def test_failure_in_the_triggerer_and_in_an_executor_is_raised(
        self, requests_mock: requests_mock.Mocker
    ) -> None:
        requests_mock.post(ACTIVITIES, status_code=403, json=error(403, "forbidden"))
        context = of_a_deadline()
        with pytest.raises(PermissionDeniedError):
            PostBulletinNotifier(text="late", context=context)(context)
        with pytest.raises(PermissionDeniedError):
            await PostBulletinNotifier(text="late", context=context)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "bulletinTextRequired"),
        ({"text": "late", "journal": "/journal"}, "journal needs once_per"),
        ({"text": "late", "once_per": "1"}, "once_per needs journal"),
        ({"text": "news/late.j2"}, "names a template file, 'news/late.j2'"),
    ],
)
def test_notifier_of_a_bulletin_that_can_never_be_posted_raises_at_parse_time(
    arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        PostBulletinNotifier(**arguments)


class TestOnce:
    """With a journal, all calls of one value post once together."""

    def test_many_tasks_post_once(self, requests_mock: requests_mock.Mocker, lines: list[str], tmp_path: Path) -> None:
        requests_mock.post(ACTIVITIES, json=ACTIVITY)
        notifier = PostBulletinNotifier(text="{{ task_name }} failed", journal=tmp_path, once_per="{{ day }}")
        for name, day in (("extract", "1"), ("load", "1"), ("load", "2")):
            notifier(context_of(name, day))

        assert posted(requests_mock) == ["extract failed", "load failed"]
        first, second, third = lines
        assert first == third == "INFO: Posted bulletin act-1."
        assert second.startswith("INFO: Try 1 of dag/run/extract/-1 (notifier ")
        assert ") has posted bulletin act-1, with another text, " in second

    def test_notifier_whose_bulletin_an_operator_has_posted_posts_nothing(
        self, requests_mock: requests_mock.Mocker, lines: list[str], tmp_path: Path
    ) -> None:
        requests_mock.post(ACTIVITIES, json=ACTIVITY)
        PostBulletinOperator(task_id="post", text="Hi", journal=tmp_path, once_per="1").execute(context_of("post", "1"))
        PostBulletinNotifier(text="Hi", journal=tmp_path, once_per="1")(context_of("load", "1"))

        assert requests_mock.call_count == 1
        assert lines[1:] == ["INFO: Try 1 of dag/run/post/-1 has posted bulletin act-1; nothing is posted."]

    def test_while_another_is_posting_it_leaves_it_to_that_one(
        self, requests_mock: requests_mock.Mocker, lines: list[str], tmp_path: Path
    ) -> None:
        requests_mock.post(ACTIVITIES, status_code=503)
        notifier = PostBulletinNotifier(text="failed", journal=tmp_path, once_per="1")
        with pytest.raises(UncertainDeliveryError):
            notifier(context_of("extract", "1"))
        lines.clear()
        notifier(context_of("extract", "1"))

        assert requests_mock.call_count == 1
        (line,) = lines
        assert line.startswith("WARNING: Nothing was sent: dag/run/extract/-1 (notifier ")


def context_of(task: str, day: str) -> Any:
    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id=task, map_index=-1, try_number=1, max_tries=0)
    return {"ti": ti, "task_name": task, "day": day}
