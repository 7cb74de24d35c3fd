"""The operator that posts a bulletin: what it sends, what it returns, and how it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests

from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.unit.log_lines import log_lines
from tests.unit.operators.video_platform_tasks import ACTIVITIES, render
from tests.unit.operators.video_platform_tasks import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent
from tests.unit.video_platform import KEY, error

if TYPE_CHECKING:
    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


class TestPostBulletin:
    def post(self, **arguments: Any) -> dict[str, Any]:
        return PostBulletinOperator(task_id="post", **arguments).execute({})

    def test_the_activity_is_returned_as_it_came(self, platform: requests_mock.Mocker) -> None:
        activity = {"id": "act-1", "kind": "svc#activity", "snippet": {"description": "Hi", "new": [1]}, "more": None}
        platform.post(ACTIVITIES, json=activity)

        assert self.post(text="Hi", video_id="v-1") == activity
        request = platform.last_request
        assert request is not None
        assert request.json() == {
            "snippet": {"description": "Hi"},
            "contentDetails": {"bulletin": {"resourceId": {"kind": "svc#video", "videoId": "v-1"}}},
        }
        assert request.qs == {"part": ["snippet,contentdetails"]}
        assert request.headers["Authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "needs a text"),
            ({"text": "{{ x }}", "video_id": "https://video.example/watch?v=v"}, "video_id holds an address"),
            ({"text": "{{ x }}", "video_id": " "}, "video_id is empty"),
            ({"text": "{{ x }}", "video_id": "v", "playlist_id": "p"}, "not both"),
            ({"text": "Hi", "on_uncertain": "guess"}, "on_uncertain is fail or retry"),
            ({"text": "Hi", "post_again_on_clear": "perhaps"}, "post_again_on_clear is True or False"),
        ],
    )
    def test_bulletin_against_the_rules_raises_at_parse_time(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            self.post(**arguments)

    @pytest.mark.parametrize("name", ["video_id", "playlist_id"])
    @pytest.mark.parametrize("text", [None, ""])
    def test_template_of_a_video_or_playlist_needs_no_text(
        self, platform: requests_mock.Mocker, name: str, text: str | None
    ) -> None:
        platform.post(ACTIVITIES, json={"id": "act-1"})
        arguments: dict[str, Any] = {"text": text, name: "{{ x }}"}
        operator = PostBulletinOperator(task_id="post", **arguments)
        render(operator, x="of-today")

        operator.execute({})
        assert platform.last_request is not None
        assert "of-today" in platform.last_request.text

    @pytest.mark.parametrize(
        ("name", "rendered", "message"),
        [
            ("text", "", "needs a text"),
            ("video_id", " ", "video_id is empty"),
            ("on_uncertain", "guess", "on_uncertain is fail or retry"),
            ("post_again_on_clear", "None", "post_again_on_clear is True or False; not 'None'"),
        ],
    )
    def test_templated_bulletin_against_the_rules_raises_before_it_is_sent(
        self, platform: requests_mock.Mocker, name: str, rendered: str, message: str
    ) -> None:
        arguments: dict[str, Any] = {} if name == "text" else {"text": "Hi"}
        operator = PostBulletinOperator(task_id="post", **arguments | {name: "{{ x }}"})
        render(operator, x=rendered)

        with pytest.raises(permanent(ValueError), match=message):
            operator.execute({})

        assert not platform.called

    @pytest.mark.parametrize(
        "loss",
        [
            {"exc": requests.ConnectionError},
            {"exc": requests.ReadTimeout},
            {"text": "<html>"},
            # What is no activity proves no post.
            {"json": {}},
            {"json": {"error": {"code": 500}}},
            {"json": {"kind": "svc#subscription", "id": "s1"}},
        ],
    )
    def test_bulletin_whose_reply_is_lost_fails_for_good_and_is_sent_once(
        self, platform: requests_mock.Mocker, loss: dict[str, Any]
    ) -> None:
        platform.post(ACTIVITIES, **loss)

        with pytest.raises(permanent(UncertainDeliveryError), match="not known whether POST"):
            self.post(text="Hi")

        assert platform.call_count == 1

    @pytest.mark.parametrize("loss", [{"exc": requests.ReadTimeout}, {"json": {}}])
    def test_bulletin_whose_reply_is_lost_is_left_to_retries_if_asked_for(
        self, platform: requests_mock.Mocker, loss: dict[str, Any]
    ) -> None:
        platform.post(ACTIVITIES, **loss)

        with pytest.raises(TemporaryError, match="on_uncertain='retry'"):
            self.post(text="Hi", on_uncertain="retry")

        assert platform.call_count == 1

    def test_refused_bulletin_raises_a_typed_error(self, platform: requests_mock.Mocker) -> None:
        platform.post(ACTIVITIES, status_code=400, json=error(400, "bulletinTextRequired"))

        with pytest.raises(permanent(BadRequestError), match="Give the bulletin a text"):
            self.post(video_id="v")

    def test_the_log_names_the_activity_and_no_token(
        self, platform: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, PostBulletinOperator)
        platform.post(ACTIVITIES, json={"id": "act-1"})

        self.post(text="Hi")

        assert "INFO: Posted bulletin act-1." in lines
        assert KEY not in str(lines)
