"""The notifier that posts a bulletin: what it posts, when, and that its failure stays its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.notifications import PostBulletinNotifier
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering, http_reply

if TYPE_CHECKING:
    import requests_mock

    from tests.unit.conftest import Supervisor

ACTIVITIES = "https://video.example/v3/activities"
ACTIVITY = {"kind": "svc#activity", "id": "act-1"}


def connection(host: str) -> str:
    return json.dumps(
        {"conn_type": "mediaops_video", "host": host, "password": "token-1", "extra": {"max_attempts": 1}}
    )


@pytest.fixture(autouse=True)
def _connection(supervisor: Supervisor) -> None:
    supervisor.connect("mediaops_video_default", connection("https://video.example"))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return log_lines(monkeypatch, PostBulletinNotifier)


def posted(mocker: requests_mock.Mocker) -> list[str]:
    """Give the texts that were posted."""
    return [request.json()["snippet"]["description"] for request in mocker.request_history]


class TestAsCallback:
    def test_it_posts_the_rendered_text(self, requests_mock: requests_mock.Mocker, lines: list[str]) -> None:
        requests_mock.post(ACTIVITIES, json=ACTIVITY)
        PostBulletinNotifier(text="{{ run_id }} failed")({"run_id": "manual__1"})
        assert posted(requests_mock) == ["manual__1 failed"]
        assert lines == ["INFO: Posted bulletin act-1."]

    def test_one_notifier_serves_many_tasks(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.post(ACTIVITIES, json=ACTIVITY)
        notifier = PostBulletinNotifier(text="{{ task_name }} failed")
        notifier({"task_name": "extract"})
        notifier({"task_name": "load"})
        assert posted(requests_mock) == ["extract failed", "load failed"]

    def test_a_video_goes_with_it(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.post(ACTIVITIES, json=ACTIVITY)
        PostBulletinNotifier(text="New", video_id="v-1")({})
        request = requests_mock.last_request
        assert request is not None
        assert request.json()["contentDetails"]["bulletin"]["resourceId"]["videoId"] == "v-1"

    @pytest.mark.parametrize(
        ("reply", "word"),
        [
            ({"status_code": 401, "json": {"error": {"errors": [{"reason": "authError"}]}}}, "AuthenticationError"),
            ({"status_code": 503, "text": "down"}, "UncertainDeliveryError"),
            ({"text": "<html>login</html>"}, "UncertainDeliveryError"),
        ],
    )
    def test_its_failure_is_one_line_in_the_log_and_no_more(
        self, requests_mock: requests_mock.Mocker, lines: list[str], reply: dict[str, Any], word: str
    ) -> None:
        requests_mock.post(ACTIVITIES, **reply)
        PostBulletinNotifier(text="failed")({})
        (line,) = lines
        assert line.startswith(f"ERROR: PostBulletinNotifier failed, and the run goes on: {word}: ")
        assert "token-1" not in line
        assert requests_mock.call_count == 1

    @pytest.mark.parametrize("text", ["{{ ti.no_such.thing }}", "{{ 1 / 0 }}", "{{ unclosed"])
    def test_a_template_that_cannot_be_rendered_is_its_own_failure(
        self, requests_mock: requests_mock.Mocker, lines: list[str], text: str
    ) -> None:
        PostBulletinNotifier(text=text)({})
        (line,) = lines
        assert line.startswith("ERROR: PostBulletinNotifier failed, and the run goes on: ")
        assert not requests_mock.called

    # Before, Airflow leaves a field as it is whose template gives nothing.
    @pytest.mark.airflow(">=3.2")
    def test_a_text_that_is_rendered_to_nothing_is_told(self, lines: list[str]) -> None:
        PostBulletinNotifier(text="{{ '' }}")({})
        assert "bulletinTextRequired" in lines[0]

    def test_a_missing_connection_is_told(self, lines: list[str]) -> None:
        PostBulletinNotifier(text="failed", video_conn_id="nowhere")({})
        assert "no connection 'nowhere'" in lines[0]


class TestAsDeadlineAlert:
    async def test_it_posts_with_the_context_that_it_was_made_with(
        self, supervisor: Supervisor, lines: list[str]
    ) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http_reply(body=json.dumps(ACTIVITY).encode()), seen=seen)) as server:
            supervisor.connect("mediaops_video_default", connection(server.base))
            context: Any = {"dag_run": {"run_id": "manual__1"}, "deadline": {"id": "d-1"}}
            await PostBulletinNotifier(text="{{ dag_run.run_id }} is late", context=context)
        (request,) = seen
        assert b"manual__1 is late" in request
        assert lines == ["INFO: Posted bulletin act-1."]

    async def test_its_failure_stays_its_own(self, supervisor: Supervisor, lines: list[str]) -> None:
        with Loopback(answering(http_reply(403, b'{"error": {"errors": [{"reason": "forbidden"}]}}'))) as server:
            supervisor.connect("mediaops_video_default", connection(server.base))
            await PostBulletinNotifier(text="late")
        (line,) = lines
        assert "PermissionDeniedError" in line

    async def test_a_template_that_cannot_be_rendered_is_its_own_failure(self, lines: list[str]) -> None:
        await PostBulletinNotifier(text="{{ ti.no_such.thing }}")
        (line,) = lines
        assert line.startswith("ERROR: PostBulletinNotifier failed, and the run goes on: ")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "bulletinTextRequired"),
        ({"video_id": "v-1", "playlist_id": "p-1"}, "not both"),
        ({"text": "{{ run_id }}", "video_id": " "}, "video_id is empty"),
        ({"text": 1.5}, "text is a text; not 1.5"),
    ],
)
def test_a_bulletin_that_can_never_be_posted_is_refused_when_the_dag_is_parsed(
    arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        PostBulletinNotifier(**arguments)


def test_an_integer_is_the_text_of_its_digits(requests_mock: requests_mock.Mocker) -> None:
    requests_mock.post(ACTIVITIES, json=ACTIVITY)
    five: Any = 5
    PostBulletinNotifier(text=five)({})
    assert posted(requests_mock) == ["5"]


def test_a_failure_that_nobody_foresaw_comes_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    def break_down(*_: Any) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(PostBulletinNotifier, "send", break_down)
    PostBulletinNotifier(text="failed")({})
    assert lines == ["ERROR: PostBulletinNotifier failed, and the run goes on: RuntimeError: odd (with a traceback)"]
