"""Fields of a connection that have no effect: named with the one that was meant, and no reason to stop working."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.connection_fields import BOOKS, CLUSTER, CONNECTION_TYPES, VIDEO
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.hooks.connection.warnings import connection_warnings
from tests.unit.hooks.field_values import extra, fields
from tests.unit.log_lines import log_lines
from tests.unit.search_cluster import report, stats

if TYPE_CHECKING:
    import requests_mock

    from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
    from tests.unit.conftest import Supervisor

CLUSTER_URL = "http://cluster.example:9200"


def texts(of: ConnectionFields) -> list[str]:
    return [warning.text for warning in connection_warnings(of)]


@pytest.mark.parametrize("conn_type", CONNECTION_TYPES)
def test_a_known_field_is_no_reason_to_warn(conn_type: str) -> None:
    known: dict[str, Any] = dict.fromkeys(CONNECTION_TYPES[conn_type]["conn-fields"], "1")
    assert texts(replace(fields(), host="https://host", extra=known, conn_type=conn_type)) == []


@pytest.mark.parametrize(
    ("conn_type", "name", "meant"),
    [
        (CLUSTER, "timout", "timeout"),
        (BOOKS, "Plan", "plan"),
        (CLUSTER, "maxAttempts", "max_attempts"),
        (CLUSTER, "max-attempts", "max_attempts"),
        (CLUSTER, "extra__mediaops_cluster__ca_cert", "ca_cert"),
        (CLUSTER, "verify_certs", "verify"),
        (CLUSTER, "ca_certs", "ca_cert"),
        (BOOKS, "canary_isbns", "canary_isbn"),
        (VIDEO, "refreshtoken", "refresh_token"),
    ],
)
def test_a_misspelt_field_is_named_with_the_nearest_known_one(conn_type: str, name: str, meant: str) -> None:
    (warning,) = connection_warnings(replace(extra(**{name: "s3cr3t"}), conn_type=conn_type))
    assert warning.is_mistake
    assert warning.text == f"Extra field {name!r} is unknown and has no effect: write {meant!r}."


def test_a_field_that_resembles_none_may_be_a_note() -> None:
    (warning,) = connection_warnings(extra(team="search", cost_centre="s3cr3t"))
    assert not warning.is_mistake
    assert warning.text.startswith("Extra without effect: 'team', 'cost_centre'. Known fields are auth, aws_conn_id,")
    assert "s3cr3t" not in warning.text


def test_thousands_of_unknown_fields_are_a_short_text() -> None:
    (text,) = texts(extra(**{f"zz{number}" * 99: 1 for number in range(5000)}))
    assert len(text) < 1000


@pytest.mark.parametrize(
    ("host", "port", "used"),
    [
        ("https://node:9200", 9201, "9200"),
        ("node:9200", 9201, "9200"),
        ("https://a:9200, https://b:9300", 443, "9200 and 9300"),
    ],
)
def test_a_port_that_contradicts_the_one_in_host(host: str, port: int, used: str) -> None:
    (warning,) = connection_warnings(replace(fields(), host=host, port=port))
    assert warning.is_mistake
    assert warning.text == f"Port {port} is not used: Host says {used}. Make both the same."


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("https://node:9200", None),
        ("https://node:9200", 9200),
        ("https://node", 9200),
        # Where one host has a port of its own, Port is for the others, or for the Test button.
        ("https://a:9300, https://b", 9200),
        ("https://a:9200, https://b:9300", 9200),
        ("", 9200),
        ("https://[", 9200),
    ],
)
def test_a_port_that_is_used_or_the_same(host: str, port: int | None) -> None:
    assert texts(replace(fields(), host=host, port=port)) == []


def test_a_scheme_that_contradicts_the_one_in_host() -> None:
    assert texts(replace(fields(), host="http://node", schema="https")) == [
        "Scheme https is not used: Host says http. Make both the same."
    ]
    assert texts(replace(fields(), host="http://a, b", schema="https")) == []


class TestInAHook:
    @pytest.fixture(autouse=True)
    def _services(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(f"{CLUSTER_URL}/_nodes/_local/stats/os,process", json=stats({"node-1": 95}))
        requests_mock.get(f"{CLUSTER_URL}/_nodes/_local/hot_threads", text=report("node-1"))
        requests_mock.get(f"{CLUSTER_URL}/_nodes/stats/os,process", json=stats({"node-1": 95}))

    @pytest.mark.parametrize(
        ("given", "works", "word"),
        [
            ({}, True, "answers"),
            ({"extra": {"timout": 5}}, False, "write 'timeout'"),
            ({"extra": {"team": "search"}}, True, "Extra without effect: 'team'"),
            ({"port": 9201}, False, "Port 9201 is not used"),
        ],
    )
    def test_the_connection_test_says_so(
        self, supervisor: Supervisor, given: dict[str, Any], *, works: bool, word: str
    ) -> None:
        described = {"conn_type": CLUSTER, "host": CLUSTER_URL, **given}
        supervisor.connect("mediaops_cluster_default", json.dumps(described))
        found, answer = SearchClusterHook().test_connection()
        assert found is works
        assert word in answer

    def test_a_task_goes_on_with_one_warning(self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = log_lines(monkeypatch, SearchClusterHook)
        described = {"conn_type": CLUSTER, "host": CLUSTER_URL, "extra": {"timout": 5}}
        supervisor.connect("mediaops_cluster_default", json.dumps(described))
        with SearchClusterHook() as hook:
            assert hook.cpu()
            assert hook.cpu()
        (warning,) = [line for line in lines if line.startswith("WARNING")]
        assert warning.startswith("WARNING: Connection 'mediaops_cluster_default': Extra field 'timout' is unknown")
