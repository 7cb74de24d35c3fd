"""The fields of a connection as typed values, and as settings of client and transport; wrong ones are named."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_mediaops.connection_fields import BOOKS, CLUSTER, CONNECTION_TYPES, VIDEO
from airflow_provider_mediaops.hooks.cluster_auth import with_cloud_address
from airflow_provider_mediaops.hooks.connection import (
    ConnectionFields,
    base_urls,
    credentials_of,
    transport_settings,
    unknown_fields,
)
from airflow_provider_mediaops.http.settings import TransportSettings
from tests.unit.hooks.field_values import extra, fields, wrong
from tests.unit.loopback import make_certificate


def connection(**given: Any) -> SimpleNamespace:
    empty = dict.fromkeys(("host", "schema", "port", "login", "password", "extra"))
    return SimpleNamespace(conn_id="c1", **{**empty, **given})


def test_every_field_of_a_connection_is_read() -> None:
    given = connection(
        host=" https://host ", schema=" HTTPS ", port=9200, login="me", password="p@ss", extra='{"a": {"b": [1]}}'
    )
    assert ConnectionFields.of(given, CLUSTER) == ConnectionFields(
        "c1", "https://host", "https", 9200, "me", "p@ss", {"a": {"b": [1]}}, CLUSTER
    )
    assert ConnectionFields.of(connection(), CLUSTER) == ConnectionFields("c1", conn_type=CLUSTER)


@pytest.mark.parametrize(("port", "read"), [(None, None), (0, None), ("", None), ("8443", 8443), (65_535, 65_535)])
def test_a_port_may_be_a_text_or_absent(port: object, read: int | None) -> None:
    assert ConnectionFields.of(connection(port=port), CLUSTER).port == read


def test_the_uri_form_nests_extra_as_text() -> None:
    nested = json.dumps({"__extra__": json.dumps({"headers": {"X-A": "1"}}), "auth": "none"})
    assert ConnectionFields.of(connection(extra=nested), CLUSTER).extra == {"headers": {"X-A": "1"}, "auth": "none"}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("port", ["abc", -1, 65_536, "1.5"]),
        ("extra", ["[]", '"text"', "{cut", "null", '{"__extra__": "[1]"}', '{"__extra__": "{cut"}']),
    ],
)
def test_a_port_or_an_extra_that_is_none_is_named(name: str, values: list[object]) -> None:
    for value in values:
        with wrong(name):
            ConnectionFields.of(connection(**{name: value}), CLUSTER)


def test_secrets_are_not_shown() -> None:
    assert "s3cr3t" not in repr(fields(password="s3cr3t", extra={"refresh_token": "s3cr3t"}))


def read_by_form(name: str, value: object) -> object:
    given = extra(**{name: value})
    if name == "verify":
        return given.flag(name)
    if name == "headers":
        return given.mapping(name)
    return given.choice(name) if name == "cpu_measure" else given.number(name, 7.0)


@pytest.mark.parametrize(
    ("name", "values", "read"),
    [
        ("cpu_measure", [None, "", "auto"], "auto"),
        ("cpu_measure", [" OS "], "os"),
        ("max_wait", [None, ""], 7.0),
        ("max_wait", [0], 0.0),
        ("max_wait", ["2.5"], 2.5),
        ("max_attempts", [" 3 "], 3.0),
        ("verify", [None, "", " TRUE ", 1], True),
        ("verify", [False, "False", "no", 0], False),
        ("headers", [None, "", "  ", "null", {}, "{}"], {}),
        ("headers", [{"a": "1", "b": 2}, '{"a": "1", "b": 2}'], {"a": "1", "b": "2"}),
    ],
)
def test_field_is_read_as_its_form_describes_it(name: str, values: list[object], read: object) -> None:
    assert [read_by_form(name, value) for value in values] == [read] * len(values)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cpu_measure", ["c", True, ["os"]]),
        ("max_wait", ["many", -1, "nan", "inf", True, [], {}, 10**400]),
        ("max_attempts", [1.5, "2.5", 0, 101]),
        ("verify", ["maybe", 2, []]),
        ("headers", ["a=1", "[1]", [1], 5, {"a": None}, {"a": {"b": 1}}]),
    ],
)
def test_field_that_is_not_as_its_form_describes_it_is_named(name: str, values: list[object]) -> None:
    for value in values:
        with wrong(name):
            read_by_form(name, value)


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        ({"host": "https://host/"}, ["https://host"]),
        ({"host": "HTTP://Host:80/youtube/"}, ["http://host:80/youtube"]),
        ({"host": "host"}, ["https://host"]),
        ({"host": "host", "schema": "http", "port": 8080}, ["http://host:8080"]),
        ({"host": "host/base", "schema": "http", "port": 8080}, ["http://host:8080/base"]),
        ({"host": "host:9201", "schema": "http", "port": 8080}, ["http://host:9201"]),
        ({"host": "https://host", "schema": "http", "port": 8443}, ["https://host:8443"]),
        ({"host": "::1", "schema": "http", "port": 8080}, ["http://[::1]:8080"]),
        ({"host": "[::1]:9200", "schema": "http"}, ["http://[::1]:9200"]),
        ({"host": "https://[2001:db8::1]:9200/x"}, ["https://[2001:db8::1]:9200/x"]),
        ({"host": '["http://a:9200", "http://b:9201/x"]'}, ["http://a:9200", "http://b:9201/x"]),
        (
            {"host": "https://n1:9200, n2 ,http://n3/x,", "schema": "https", "port": 9201},
            ["https://n1:9200", "https://n2:9201", "http://n3:9201/x"],
        ),
    ],
)
def test_a_base_address_is_whole_or_split_over_the_fields(given: dict[str, Any], urls: list[str]) -> None:
    assert base_urls(fields(**given)) == tuple(urls)


@pytest.mark.parametrize(
    ("given", "name", "why"),
    [
        ({}, "host", "is empty"),
        ({"host": " , "}, "host", "is empty"),
        ({"host": "ftp://host"}, "host", "scheme must be http or https"),
        ({"host": "host", "schema": "tcp"}, "schema", "must be http or https"),
        ({"host": "https://"}, "host", "names no host"),
        ({"host": "https://ho st"}, "host", "names no host"),
        ({"host": "https://host:port"}, "host", "is not an address"),
        ({"host": "https://[::1"}, "host", "is not an address"),
        ({"host": "https://me:s3cr3t@host"}, "host", "credentials belong in login and password"),
        ({"host": "https://host?key=s3cr3t"}, "host", "more than an address"),
        ({"host": "https://host#part"}, "host", "more than an address"),
    ],
)
def test_a_base_address_that_is_none_is_named(given: dict[str, Any], name: str, why: str) -> None:
    with wrong(name) as caught:
        base_urls(fields(**given))
    assert why in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        ("5", (5.0, 5.0)),
        (2.5, (2.5, 2.5)),
        ("3, 30", (3.0, 30.0)),
        ([3, "30"], (3.0, 30.0)),
        ("[3, 30]", (3.0, 30.0)),
        ("", (10.0, 60.0)),
        (None, (10.0, 60.0)),
    ],
)
def test_time_limits(value: object, limits: tuple[float, float]) -> None:
    settings = transport_settings(extra(timeout=value))
    assert (settings.connect_timeout, settings.read_timeout) == limits


@pytest.mark.parametrize(
    ("value", "proxies"),
    [
        (" http://proxy:3128 ", {"http": "http://proxy:3128", "https": "http://proxy:3128"}),
        ({"https": "http://me:pass@proxy:3128"}, {"https": "http://me:pass@proxy:3128"}),
        ({"https": "http://me:p%C3%A9ss@proxy:3128"}, {"https": "http://me:p%C3%A9ss@proxy:3128"}),
        ({"https": "http://me:p%40ss:%2F@[::1]:3128/"}, {"https": "http://me:p%40ss:%2F@[::1]:3128/"}),
        ('{"http": "https://proxy"}', {"http": "https://proxy"}),
        ("", {}),
        (None, {}),
    ],
)
def test_proxies(value: object, proxies: dict[str, str]) -> None:
    assert transport_settings(extra(proxies=value)).proxies == proxies


REFUSED: dict[str, list[object]] = {
    "timeout": ["soon", "0", "-1, 5", "1, 2, 3", "1,", [], [None], "inf", "nan", True, {"a": 1}, 1e300],
    "proxies": [
        *("proxy:3128", "socks5://proxy:1080", {"all": "http://proxy"}, {"https": "proxy"}, ["http://proxy"], 5),
        *("http://me:s3cr3t@proxy:port", "http://me:s3cr3t@[::1", "http://me:s3cr3t@:3128"),
        *("http://me:s3cr3t/x@proxy:3128", "http://me:s3cr3t@x@proxy:3128", "http://me:s3cr3t@proxy:3128/path"),
        *("http://me:s3cr3t@pro xy:3128", "http://me:s3cr3t\n@proxy:3128"),
    ],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_time_limits_and_proxies_that_are_none_are_named_but_not_shown(name: str, value: object) -> None:
    with wrong(name) as caught:
        transport_settings(extra(**{name: value}))
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"authorization": "Bearer s3cr3t"}, "authorization holds credentials"),
        ({"PROXY-AUTHORIZATION": "s3cr3t"}, "PROXY-AUTHORIZATION holds credentials"),
        ({"Cookie": "s3cr3t"}, "Cookie holds credentials"),
        ({" Host ": "s3cr3t"}, "Host cannot be set"),
        ({"content-length": "s3cr3t"}, "content-length cannot be set"),
        ({"Accept-Encoding": "s3cr3t"}, "Accept-Encoding cannot be set"),
        ({"X-A": "s3cr3t\r\nX-B: 1"}, "plain ASCII"),
        ({"X-A": "s3cr3t\u2603"}, "plain ASCII"),
        ({"X A": "s3cr3t"}, "plain ASCII"),
        ({"X-A": ""}, "plain ASCII"),
        ("X-A: s3cr3t", "a JSON object"),
    ],
)
def test_headers_that_cannot_be_sent_are_named_but_not_shown(headers: object, problem: str) -> None:
    with wrong("headers") as caught:
        transport_settings(extra(headers=headers))
    assert problem in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_certificates_to_trust_are_looked_at_when_the_connection_is_read(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    assert transport_settings(fields(), verify=str(certificate)).verify == str(certificate)
    assert transport_settings(fields(), verify=str(tmp_path)).verify == str(tmp_path)
    assert transport_settings(fields(), verify=False).verify is False
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate\n")
    problems = {empty: "it holds no certificates", tmp_path / "missing.pem": "No such file or directory"}
    for path, problem in problems.items():
        with wrong("ca_cert") as caught:
            transport_settings(fields(), verify=str(path))
        assert f"{path} cannot be used on this machine: {problem}" in str(caught.value)


def cloud_id(text: str, name: str = "logs:") -> str:
    return f"{name}{base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (cloud_id("eu-west-1.aws.found.io$abc123$kib456"), "https://abc123.eu-west-1.aws.found.io:443"),
        (cloud_id("found.io$abc123"), "https://abc123.found.io:443"),
        (cloud_id("found.io:9243$abc$kib"), "https://abc.found.io:9243"),
        (cloud_id("found.io:9243$abc:9244$kib:9245"), "https://abc.found.io:9244"),
        (cloud_id("found.io$abc$", "my: name:"), "https://abc.found.io:443"),
        (cloud_id("found.io$abc", ""), "https://abc.found.io:443"),
    ],
)
def test_address_of_a_cloud_id_is_that_of_its_cluster(given: str, address: str) -> None:
    assert base_urls(with_cloud_address(extra(cloud_id=given))) == (address,)


@pytest.mark.parametrize(
    "damaged",
    [
        "logs:",
        "logs:not base64",
        cloud_id("found.io$abc123$kib456")[:-3],
        cloud_id("found.io"),
        cloud_id("$abc"),
        cloud_id("found.io$abc/path"),
        cloud_id("found.io:port$abc"),
        cloud_id("größe.io$abc"),
    ],
)
def test_damaged_cloud_id_is_refused(damaged: str) -> None:
    with wrong("cloud_id"):
        with_cloud_address(extra(cloud_id=damaged))


def test_host_beside_a_cloud_id_is_refused() -> None:
    with wrong("cloud_id"):
        with_cloud_address(fields(host="https://host", extra={"cloud_id": cloud_id("found.io$abc")}))


NO_PROXIES = {"http": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("proxies", "secrets"),
    [
        ({"http": "http://me:p%40ss%C3%A9@proxy:3128", "https": "https://me:p%40ss%C3%A9@proxy/"}, ("p@ssé",)),
        ({"http": "http://:only@[::1]:3128"}, ("only",)),
        ({"http": "http://me@proxy", "https": "http://me:@proxy", "no": "proxy", "ftp": "http://[::1"}, ()),
    ],
)
def test_passwords_of_proxies_are_credentials(proxies: dict[str, str], secrets: tuple[str, ...]) -> None:
    assert credentials_of(TransportSettings(proxies=proxies)) == secrets


@pytest.mark.parametrize(
    ("headers", "secrets"),
    [
        ({"X-Api-Key": "s3cr3t"}, ("s3cr3t",)),
        ({"apikey": "s3cr3t"}, ("s3cr3t",)),
        ({"PRIVATE-TOKEN": "s3cr3t"}, ("s3cr3t",)),
        ({"X-Client-Secret": "s3cr3t"}, ("s3cr3t",)),
        ({"X-Forwarded-Authorization": "s3cr3t"}, ("s3cr3t",)),
        ({"X-Password": "s3cr3t"}, ("s3cr3t",)),
        ({"X-Api-Key": "s3cr3t", "X-Token": "s3cr3t", "X-Team": "ops"}, ("s3cr3t",)),
        ({"X-Upstream": "Bearer s3cr3t"}, ("s3cr3t",)),
        ({"X-Upstream": "Basic bWU6czNjcjN0"}, ("bWU6czNjcjN0",)),
        ({"X-Author": "ops", "X-Keyspace": "ops"}, ()),
        ({"X-Upstream": "Bearers of news", "X-Opaque-Id": "ops", "User-Agent": "ops", "Accept": "ops"}, ()),
    ],
)
def test_headers_with_a_name_or_value_like_a_credential_hold_one(
    headers: dict[str, str], secrets: tuple[str, ...]
) -> None:
    assert credentials_of(TransportSettings(proxies=NO_PROXIES, headers=headers)) == secrets


@pytest.mark.parametrize("conn_type", CONNECTION_TYPES)
def test_known_fields_are_no_reason_to_warn(conn_type: str) -> None:
    known: dict[str, Any] = dict.fromkeys(CONNECTION_TYPES[conn_type]["conn-fields"], "1")
    assert unknown_fields(replace(extra(**known), conn_type=conn_type)) == ([], [])


@pytest.mark.parametrize(
    ("conn_type", "name", "meant"),
    [
        (CLUSTER, "timout", "timeout"),
        (BOOKS, "Plan", "plan"),
        (CLUSTER, "maxAttempts", "max_attempts"),
        (CLUSTER, "max-attempts", "max_attempts"),
        (CLUSTER, "verify_certs", "verify"),
        (CLUSTER, "ca_certs", "ca_cert"),
        (VIDEO, "refreshtoken", "refresh_token"),
    ],
)
def test_misspelt_field_is_named_with_the_nearest_known_one(conn_type: str, name: str, meant: str) -> None:
    said = f"Extra field {name!r} is unknown and has no effect: write {meant!r}."
    assert unknown_fields(replace(extra(**{name: "s3cr3t"}), conn_type=conn_type)) == ([said], [])


def test_fields_that_resemble_none_may_be_notes_and_a_few_of_many_are_named() -> None:
    mistakes, [said] = unknown_fields(extra(team="search", **{f"zz{number}" * 99: "s3cr3t" for number in range(5000)}))
    assert mistakes == []
    assert said.startswith("Extra without effect: 'team', 'zz0zz0")
    assert "and others. Known fields are auth, aws_conn_id," in said
    assert "s3cr3t" not in said
    assert len(said) < 1000
