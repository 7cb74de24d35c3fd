from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.hooks.video_hook import SUBSCRIPTIONS, http
from tests.unit.loopback import Loopback, answering, closed_port
from tests.unit.video_platform import KEY, error, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from requests_mock import Mocker


pytestmark = pytest.mark.usefixtures("supervisor")


class TestTheButton:
    def outcome(self) -> str:
        good, sentence = VideoPlatformHook().test_connection()
        assert not good
        for secret in (KEY, "s3cr3t"):
            assert secret not in sentence
        return sentence

    @pytest.mark.parametrize(
        ("fields", "asked"),
        [({}, {"mine": ["true"]}), ({"auth": "api_key"}, {"id": ["connection-test"], "key": [KEY]})],
    )
    def test_a_good_connection(
        self,
        connect_video: Callable[..., None],
        requests_mock: Mocker,
        fields: dict[str, str],
        asked: dict[str, list[str]],
    ) -> None:
        connect_video(**fields)
        requests_mock.get(SUBSCRIPTIONS, json=page())
        good, sentence = VideoPlatformHook().test_connection()
        assert (good, sentence) == (True, "The video platform answers and accepts the credentials.")
        query = parse_qs(urlsplit(requests_mock.request_history[-1].url).query)
        assert query == {"part": ["id"], "maxResults": ["1"], **asked}

    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"host": ""}, "field 'host': it is empty; write the service's base address"),
            ({"host": "tcp://h"}, "field 'host': its scheme must be http or https."),
            ({"password": ""}, "field 'password': it is empty"),
        ],
    )
    def test_a_field_that_cannot_be_used(
        self, connect_video: Callable[..., None], fields: dict[str, str], sentence: str
    ) -> None:
        connect_video(**fields)
        assert sentence in self.outcome()

    def test_no_connection(self) -> None:
        assert "There is no connection 'mediaops_video_default'" in self.outcome()

    @pytest.mark.parametrize(
        ("reply", "sentence"),
        [
            ({"status_code": 401, "json": error(401, "authError")}, "token or API key is missing, wrong or expired"),
            ({"status_code": 403, "json": error(403, "insufficientPermissions")}, "lacks the scope"),
            ({"status_code": 404, "text": "<html>Nothing here</html>"}, "the base address in the connection"),
            (
                {"status_code": 302, "headers": {"Location": "https://login.example/?next=s3cr3t"}},
                "redirects to https://login.example/; redirects are not followed",
            ),
            ({"text": "<!DOCTYPE html><p>Sign in"}, "a web page where a JSON object was expected"),
            ({"json": {"hello": "world"}}, "no subscription list"),
        ],
    )
    def test_a_reply_that_tells_what_is_wrong(
        self, connect_video: Callable[..., None], requests_mock: Mocker, reply: dict[str, Any], sentence: str
    ) -> None:
        connect_video(max_attempts=5)
        requests_mock.get(SUBSCRIPTIONS, **reply)
        assert sentence in self.outcome()
        assert requests_mock.call_count == 1

    def test_the_address_of_a_search_cluster(self, connect_video: Callable[..., None], requests_mock: Mocker) -> None:
        connect_video()
        body = {"error": {"root_cause": [{"type": "index_not_found_exception", "reason": "no such index [v3]"}]}}
        requests_mock.get(SUBSCRIPTIONS, status_code=404, json=body)
        assert "A search cluster answers there: put the video platform's base address" in self.outcome()

    def test_a_wrong_api_key(self, connect_video: Callable[..., None], requests_mock: Mocker) -> None:
        connect_video(auth="api_key")
        body = error(400, "badRequest", f"API key {KEY} not valid.")
        body["error"]["details"] = [{"reason": "API_KEY_INVALID"}]
        requests_mock.get(SUBSCRIPTIONS, status_code=400, json=body)
        sentence = self.outcome()
        assert "API key *** not valid." in sentence
        assert "check the connection's password" in sentence

    def test_a_host_that_is_down_is_passed_over(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.time.sleep", lambda _: None)
        with Loopback(answering(http(page()))) as server:
            connect_video(f"http://127.0.0.1:{closed_port()}, {server.base}")
            assert VideoPlatformHook().test_connection()[0]
