"""Connections of the three services: where they come from, fields that cannot be used, and the button that tests one.

What the button says of each refusal of a service, the tests of ``wrong_connections`` and of the wrong worlds of books
have; the tests of fields have the values that no field of a kind may hold.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.hooks.cluster_hook import PROBE, PROBED_THREADS, STATS
from tests.unit.hooks.video_hook import REFRESH, SUBSCRIPTIONS, http
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering, closed_port
from tests.unit.search_cluster import report, stats
from tests.unit.video_platform import KEY, page

if TYPE_CHECKING:
    from requests_mock import Mocker

pytestmark = pytest.mark.usefixtures("supervisor")

HOOKS: dict[str, Any] = {"video": VideoPlatformHook, "cluster": SearchClusterHook, "books": BookDatabaseHook}
RATE_IN_REDIS = {"requests_per_second": 5, "rate_limit_store": "redis://:s3cr3t@h"}


@pytest.mark.parametrize(
    ("service", "fields", "name", "why"),
    [
        ("video", {"host": ""}, "host", "is empty"),
        ("video", {"auth": "oauth"}, "auth", r"it is bearer, refresh_token, api_key or none\.$"),
        ("video", {"password": "s3cr3t\n"}, "password", "the access token, with auth=bearer"),
        ("video", {"auth": "api_key", "password": ""}, "password", "the API key, with auth=api_key"),
        ("video", {**REFRESH, "password": ""}, "password", "the client secret"),
        ("video", {**REFRESH, "login": ""}, "login", "the client id"),
        ("video", {**REFRESH, "refresh_token": " "}, "refresh_token", "the user's refresh token"),
        ("video", {**REFRESH, "token_url": ""}, "token_url", "the address that exchanges tokens"),
        ("video", {**REFRESH, "token_url": "accounts.example/token"}, "token_url", "http or https"),
        ("video", {"requests_per_second": 0}, "requests_per_second", "a number, 0.001 to 100000"),
        ("video", RATE_IN_REDIS, "rate_limit_store", "a password"),
        ("cluster", {"password": "s3cr3t"}, "auth", "write api_key or bearer"),
        ("cluster", {"auth": "kerberos"}, "auth", "basic, api_key, bearer, aws or none"),
        ("cluster", {"login": "elastic"}, "password", "it must be the password, with auth=basic"),
        ("cluster", {"auth": "basic", "password": "s3cr3t"}, "login", "it must be the user name, with auth=basic"),
        ("cluster", {"auth": "api_key"}, "password", "the API key, as encoded or as id:api_key"),
        ("cluster", {"auth": "api_key", "password": '{"id": "s3cr3t"}'}, "password", "neither encoded nor id"),
        ("cluster", {"auth": "bearer", "login": "x"}, "password", "the token, with auth=bearer"),
        ("cluster", {"ca_cert": "/nowhere/ca.pem"}, "ca_cert", "cannot be used on this machine"),
        ("cluster", {"max_report_mb": 4097}, "max_report_mb", "a whole number, 1 to 4096"),
        ("books", {"password": ""}, "password", "the REST key"),
        ("books", {"plan": "gold"}, "plan", "default, premium or pro"),
        ("books", {"canary_isbn": "9780140449137"}, "canary_isbn", "check digit"),
        ("books", {"host": ""}, "host", "is empty"),
    ],
)
def test_field_that_cannot_be_used_is_named(
    request: pytest.FixtureRequest, service: str, fields: dict[str, Any], name: str, why: str
) -> None:
    request.getfixturevalue(f"connect_{service}")(**fields)
    with pytest.raises(InvalidConnectionError, match=f"field '{name}': .*{why}") as caught:
        _ = HOOKS[service]().service
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("hook_class", HOOKS.values())
def test_uri_with_an_underscore_in_its_scheme_is_told_the_scheme(
    monkeypatch: pytest.MonkeyPatch, hook_class: Any
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_FROM_ENV", f"{hook_class.conn_type}://me:s3cr3t@h.example:9200/?auth=none")
    scheme = hook_class.conn_type.replace("_", "-")
    with pytest.raises(InvalidConnectionError, match=f"A scheme has no underscore: write {scheme}://") as caught:
        _ = hook_class("from_env").service
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("hook_class", HOOKS.values())
@pytest.mark.parametrize("other", ["http", "aws", "mediaops_others"])
def test_connection_of_another_type_is_refused_and_its_secret_sent_to_nobody(
    monkeypatch: pytest.MonkeyPatch, requests_mock: Mocker, hook_class: Any, other: str
) -> None:
    fields = {"conn_type": other, "host": "https://h.example", "login": "me", "password": "s3cr3t"}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(fields))
    works, said = hook_class("other").test_connection()
    assert not works
    assert said.startswith(f"Connection 'other' is of type '{other}'; it must be of type {hook_class.conn_type}.")
    assert "s3cr3t" not in said
    assert not requests_mock.called


@pytest.mark.parametrize("hook_class", HOOKS.values())
@pytest.mark.parametrize(
    "own",
    # Airflow 3.1 makes no connection without a type.
    [pytest.param("", marks=pytest.mark.airflow(">=3.2")), "with hyphens"],
)
def test_connection_without_a_type_or_with_its_type_in_hyphens_is_used(
    monkeypatch: pytest.MonkeyPatch, hook_class: Any, own: str
) -> None:
    conn_type = own and hook_class.conn_type.replace("_", "-")
    fields = {"conn_type": conn_type, "host": "https://h.example", "login": "me", "password": "s3cr3t"}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(fields))
    assert hook_class("other").service.client.base_urls == ("https://h.example",)


@pytest.mark.parametrize("hook_class", HOOKS.values())
def test_id_with_blanks_is_kept_without_them_under_both_names(hook_class: Any) -> None:
    hook = hook_class(" an_id ")
    assert (hook.conn_id, getattr(hook, hook_class.conn_name_attr)) == ("an_id", "an_id")


class TestButtonOfVideoPlatform:
    @pytest.mark.parametrize(
        ("fields", "asked"),
        [({}, {"mine": ["true"]}), ({"auth": "api_key"}, {"id": ["connection-test"], "key": [KEY]})],
    )
    def test_good_connection_costs_one_unit(
        self, connect_video: Any, requests_mock: Mocker, fields: dict[str, str], asked: dict[str, list[str]]
    ) -> None:
        connect_video(**fields)
        requests_mock.get(SUBSCRIPTIONS, json=page())
        assert VideoPlatformHook().test_connection()[0]
        query = parse_qs(urlsplit(requests_mock.request_history[-1].url).query)
        assert query == {"part": ["id"], "maxResults": ["1"], **asked}

    def test_host_that_is_down_is_passed_over(self, connect_video: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.time.sleep", lambda _: None)
        with Loopback(answering(http(page()))) as server:
            connect_video(f"http://127.0.0.1:{closed_port()}, {server.base}")
            assert VideoPlatformHook().test_connection()[0]


class TestButtonOfSearchCluster:
    def test_measure_of_the_cpu_that_gives_no_figure_is_said(self, connect_cluster: Any, requests_mock: Mocker) -> None:
        connect_cluster(cpu_measure="cgroup")
        requests_mock.get(PROBE, json=stats({"a": 1}))
        requests_mock.get(PROBED_THREADS, text=report("a"))
        works, said = SearchClusterHook().test_connection()
        assert works
        assert "does not give its CPU by cpu_measure=cgroup: a wait for high CPU would not see it." in said

    def test_name_of_a_cluster_of_any_length_makes_a_short_sentence(
        self, connect_cluster: Any, requests_mock: Mocker
    ) -> None:
        connect_cluster(login="elastic", password="s3cr3t/k3y")
        body = {**stats({"a": 1}), "cluster_name": f"s3cr3t&#47;k3y <b>{'x' * 5_000_000}"}
        requests_mock.get(PROBE, json=body)
        requests_mock.get(PROBED_THREADS, text=report("a"))
        works, said = SearchClusterHook().test_connection()
        assert works
        assert said.startswith("The search cluster '*** <b>xxx")
        assert len(said) <= 1_000


@pytest.mark.parametrize(
    ("field", "works", "word"),
    [
        ({}, True, "answers"),
        ({"timout": 5}, False, "write 'timeout'"),
        ({"team": "search"}, True, "Extra without effect: 'team'"),
    ],
)
def test_field_without_effect_is_named_by_the_button_and_once_in_the_log_of_a_task(
    connect_cluster: Any,
    requests_mock: Mocker,
    monkeypatch: pytest.MonkeyPatch,
    field: dict[str, Any],
    *,
    works: bool,
    word: str,
) -> None:
    connect_cluster(**field)
    lines = log_lines(monkeypatch, SearchClusterHook)
    requests_mock.get(PROBE, json=stats({"node-1": 95}))
    requests_mock.get(PROBED_THREADS, text=report("node-1"))
    requests_mock.get(STATS, json=stats({"node-1": 95}))
    with SearchClusterHook() as hook:
        assert hook.cpu()
        assert hook.cpu()
        found, said = hook.test_connection()
    assert (found, word in said) == (works, True)
    warned = [line for line in lines if line.startswith("WARNING: Connection 'mediaops_cluster_default': Extra")]
    assert warned == lines
    assert len(lines) == len(field)


def test_connection_that_does_not_exist_is_named() -> None:
    works, said = SearchClusterHook("mediaops_cluster_nowhere").test_connection()
    assert not works
    assert "There is no connection 'mediaops_cluster_nowhere'" in said
