from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import pytest
import requests
from requests_mock import ANY

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    ConnectionFailedError,
    InvalidConnectionError,
    MediaOpsError,
    NotFoundError,
)
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.hooks.video_hook import REFRESH, SUBSCRIPTIONS, TOKEN_URL, carry_out, http
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering, closed_port
from tests.unit.video_platform import error, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from requests_mock import Mocker

    from tests.unit.loopback import Peer


pytestmark = pytest.mark.usefixtures("supervisor")


class TestConnections:
    def requested(self, requests_mock: Mocker) -> tuple[str, str | None]:
        requests_mock.get(ANY, json=page(1))
        with VideoPlatformHook("from_env") as hook:
            hook.list_subscriptions(channel_id="UC1")
        request = requests_mock.request_history[-1]
        return request.url.partition("?")[0], request.headers.get("Authorization")

    @pytest.mark.parametrize(
        ("value", "url", "header"),
        [
            (
                {"conn_type": "mediaops_video", "host": "https://h.example:8443/base/", "password": "t1"},
                "https://h.example:8443/base/v3/subscriptions",
                "Bearer t1",
            ),
            (
                {
                    "conn_type": "mediaops-video",
                    "host": "h.example",
                    "schema": "http",
                    "port": "8080",
                    "extra": {"auth": "none", "headers": {"X-A": "1"}},
                },
                "http://h.example:8080/v3/subscriptions",
                None,
            ),
            ("mediaops-video://:t%2F1@h.example:8443/https", "https://h.example:8443/v3/subscriptions", "Bearer t/1"),
            ("mediaops-video://:t1@[::1]:8080/http", "http://[::1]:8080/v3/subscriptions", "Bearer t1"),
            (
                f"mediaops-video://:t1@{quote('https://h.example:1/base', safe='')}/?max_attempts=3&timeout=1%2C2",
                "https://h.example:1/base/v3/subscriptions",
                "Bearer t1",
            ),
            (
                "mediaops-video://h.example/http?__extra__=" + quote_plus('{"auth": "none", "headers": {"X-A": "1"}}'),
                "http://h.example/v3/subscriptions",
                None,
            ),
        ],
    )
    def test_a_connection_comes_from_the_environment(
        self, requests_mock: Mocker, monkeypatch: pytest.MonkeyPatch, value: object, url: str, header: str | None
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_FROM_ENV", value if isinstance(value, str) else json.dumps(value))
        assert self.requested(requests_mock) == (url, header)

    @pytest.mark.parametrize("hook_class", [VideoPlatformHook, SearchClusterHook, BookDatabaseHook])
    def test_uri_with_an_underscore_in_its_scheme_is_told_the_scheme(
        self, monkeypatch: pytest.MonkeyPatch, hook_class: Any
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_FROM_ENV", f"{hook_class.conn_type}://me:s3cr3t@h.example:9200/?auth=none")
        scheme = hook_class.conn_type.replace("_", "-")
        with pytest.raises(InvalidConnectionError, match=f"A scheme has no underscore: write {scheme}://") as caught:
            _ = hook_class("from_env").service
        assert "s3cr3t" not in str(caught.value)

    @pytest.mark.parametrize("hook_class", [VideoPlatformHook, SearchClusterHook, BookDatabaseHook])
    def test_id_with_blanks_is_kept_without_them_under_both_names(self, hook_class: Any) -> None:
        hook = hook_class(" an_id ")
        assert (hook.conn_id, getattr(hook, hook_class.conn_name_attr)) == ("an_id", "an_id")

    def test_nothing_is_fetched_before_it_is_needed(self) -> None:
        hook = VideoPlatformHook("does_not_exist")
        with hook:
            assert hook.conn_id == hook.video_conn_id == "does_not_exist"
        assert VideoPlatformHook().conn_id == VideoPlatformHook.default_conn_name == "mediaops_video_default"

    def test_a_connection_that_does_not_exist_is_named(self) -> None:
        with pytest.raises(InvalidConnectionError, match="There is no connection 'mediaops_video_default': create one"):
            carry_out("list_subscriptions", channel_id="UC1")


class TestTokens:
    def test_revoked_refresh_token_ends_in_advice_about_the_token(
        self, connect_video: Callable[..., None], requests_mock: Mocker
    ) -> None:
        connect_video(**REFRESH)
        requests_mock.post(TOKEN_URL, status_code=400, json={"error": "invalid_grant"})
        with pytest.raises(AuthenticationError, match="grant access again") as caught:
            VideoPlatformHook().list_subscriptions(channel_id="UC1")
        assert "at accounts.example answered POST /token" in caught.value.message
        assert "7 days" in caught.value.message

    @pytest.mark.parametrize(
        "answer",
        [
            {"status_code": 404},
            {"text": "<html>Sign in</html>"},
            {"json": {"token": "t"}},
            {"exc": requests.ConnectTimeout("refused")},
        ],
        ids=["404", "web page", "no token", "no connection"],
    )
    def test_token_url_that_is_another_address_is_named_in_the_advice(
        self, connect_video: Callable[..., None], requests_mock: Mocker, answer: dict[str, Any]
    ) -> None:
        connect_video(**REFRESH)
        requests_mock.post(TOKEN_URL, **answer)
        with pytest.raises(MediaOpsError, match="Check token_url in the connection") as caught:
            VideoPlatformHook().list_subscriptions(channel_id="UC1")
        assert "base address" not in caught.value.message
        assert "host and port" not in caught.value.message

    def test_refusal_of_the_service_behind_a_refreshed_token_has_the_advice_of_the_service(
        self, connect_video: Callable[..., None], requests_mock: Mocker
    ) -> None:
        connect_video(**REFRESH)
        requests_mock.post(TOKEN_URL, json={"access_token": "at-s3cr3t"})
        requests_mock.get(SUBSCRIPTIONS, status_code=404)
        with pytest.raises(NotFoundError, match="base address in the connection: it ends before /v3"):
            VideoPlatformHook().list_subscriptions(channel_id="UC1")

    def test_every_secret_is_masked_before_it_is_sent(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        happened: list[str] = []
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", happened.append)

        def serve(peer: Peer) -> None:
            while request := peer.request():
                path = request.split()[1].decode().partition("?")[0]
                happened.append(path)
                peer.send(http({"access_token": "at-s3cr3t"} if path == "/token" else page(1)))

        with Loopback(serve) as server:
            connect_video(server.base, **{**REFRESH, "token_url": f"{server.base}/token"})
            carry_out("list_subscriptions", channel_id="UC1")
        assert happened == ["rt-s3cr3t", "/token", "at-s3cr3t", "/v3/subscriptions"]

    def test_a_refresh_token_that_was_replaced_is_worth_one_warning(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, VideoPlatformHook)
        seen: list[bytes] = []
        replies = [
            http({"access_token": "at-s3cr3t", "refresh_token": "rt-n3w-s3cr3t", "expires_in": 3599}),
            http(error(401, "authError"), 401),
            http({"access_token": "at-2-s3cr3t", "refresh_token": "rt-n3w3r-s3cr3t"}),
            http(page(1)),
        ]
        with Loopback(answering(*replies, seen=seen)) as server:
            connect_video(server.base, **{**REFRESH, "token_url": f"{server.base}/token"})
            carry_out("list_subscriptions", channel_id="UC1")
        (warning,) = [each for each in lines if "refresh token" in each]
        assert "connection 'mediaops_video_default'" in warning
        assert "put the new refresh token into the connection" in warning
        assert "s3cr3t" not in "".join(lines)
        # This task goes on with the new one.
        assert b"refresh_token=rt-n3w-s3cr3t" in seen[2]


class TestSecrets:
    @pytest.mark.parametrize(
        ("auth", "password"), [("api_key", "ak-s3cr3t"), ("bearer", "at-s3cr3t"), ("refresh_token", "cs-s3cr3t")]
    )
    def test_no_log_and_no_error_holds_one(
        self, connect_video: Callable[..., None], auth: str, password: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        fields = {**REFRESH, "auth": auth, "password": password, "max_attempts": 2, "max_wait": 3}
        told: list[str] = []
        replies = [http({"access_token": "at-s3cr3t"}), http(page(1)), http({"error": {"message": password}}, 400)]
        with Loopback(answering(*(replies if auth == "refresh_token" else replies[1:]))) as server:
            connect_video(server.base, **{**fields, "token_url": f"{server.base}/token"})
            hook = VideoPlatformHook()
            hook.list_subscriptions(channel_id="UC1")
            with pytest.raises(BadRequestError) as caught:
                carry_out("list_subscriptions", channel_id="UC1")
            told.append(repr(caught.value.to_dict()))
            told.append(repr(hook.__dict__))
            hook.close()
        # The port of the server that has stopped may belong to the next server by now.
        stopped = f"http://127.0.0.1:{closed_port()}"
        connect_video(stopped, **{**fields, "token_url": f"{stopped}/token"})
        with pytest.raises(ConnectionFailedError) as refused:
            carry_out("list_subscriptions", channel_id="UC1")
        told.append(str(refused.value))
        assert "s3cr3t" not in "\n".join([*told, *(record.getMessage() for record in caplog.records)])
