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
    transport_settings,
    unknown_fields,
)
from tests.unit.hooks.field_values import extra, fields, wrong
from tests.unit.loopback import make_certificate


def connection(**given: Any) -> SimpleNamespace:
    empty = dict.fromkeys(("conn_type", "host", "schema", "port", "login", "password", "extra"))
    return SimpleNamespace(conn_id="c1", **{**empty, **given})


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, {}),
        (
            {"host": " https://host ", "schema": " HTTPS ", "login": "me", "password": "p@ss"},
            {"host": "https://host", "schema": "https", "login": "me", "password": "p@ss"},
        ),
        *(({"port": port}, {}) for port in (0, "")),
        *(({"port": port}, {"port": int(port)}) for port in (9200, "8443", 65_535)),
        ({"extra": '{"a": {"b": [1]}}'}, {"extra": {"a": {"b": [1]}}}),
        ({"extra": '{"__extra__": null, "a": "b"}'}, {"extra": {"a": "b"}}),
        # The URI form nests extra as text.
        ({"extra": json.dumps({"__extra__": '{"a": {"b": "1"}}', "c": "d"})}, {"extra": {"a": {"b": "1"}, "c": "d"}}),
    ],
)
def test_every_field_of_a_connection_is_read(given: dict[str, Any], read: dict[str, Any]) -> None:
    assert ConnectionFields.of(connection(**given), CLUSTER) == fields(**read)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("port", ["abc", -1, 65_536, "1.5"]),
        (
            "extra",
            [
                "[]",
                '"text"',
                "{cut",
                "null",
                '{"__extra__": "[1]"}',
                '{"__extra__": "[[\\"auth\\", \\"none\\"]]"}',
                '{"__extra__": "{cut"}',
                '{"a":' * 100_000,
            ],
        ),
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
    return given.mapping(name) if name == "headers" else given.value(name, 7.0)


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
        *(({"host": host}, "host", "doubled or broken") for host in ("https://https://h", "https//h", "https:/h")),
        *(({"host": host}, "host", "quotation mark") for host in ('https://h"', "'h.example'")),
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
    ("name", "value", "read"),
    [
        *(("timeout", value, (5.0, 5.0)) for value in ("5", 5, "[5]")),
        *(("timeout", value, (3.0, 30.0)) for value in ("3, 30", [3, "30"], "[3, 30]")),
        *(("timeout", value, (10.0, 60.0)) for value in ("", None)),
        ("proxies", " http://proxy:3128 ", {"http": "http://proxy:3128", "https": "http://proxy:3128"}),
        ("proxies", {"https": "http://me:pass@proxy:3128"}, {"https": "http://me:pass@proxy:3128"}),
        ("proxies", {"https": "http://me:p%40ss:%2F@[::1]:3128/"}, {"https": "http://me:p%40ss:%2F@[::1]:3128/"}),
        ("proxies", '{"http": "https://proxy"}', {"http": "https://proxy"}),
        *(("proxies", value, {}) for value in ("", None)),
    ],
)
def test_time_limits_and_proxies(name: str, value: object, read: object) -> None:
    settings = transport_settings(extra(**{name: value}))
    found = (settings.connect_timeout, settings.read_timeout) if name == "timeout" else settings.proxies
    assert found == read


@pytest.mark.parametrize(
    ("name", "problem", "values"),
    [
        ("timeout", "'connect, read'", ["soon", "0", "-1, 5", "1, 2, 3", "1,", [], [None], "inf", "nan", True, 1e300]),
        ("proxies", "one proxy address", ["socks5://proxy:1080", {"all": "http://proxy"}, {"https": "proxy"}]),
        ("proxies", "one proxy address", ["http://me:s3cr3t@proxy:port", "http://me:s3cr3t@[::1", "http://:s3cr3t@:1"]),
        ("proxies", "one proxy address", ["http://me:s3cr3t/x@proxy:3128", "http://me:s3cr3t@x@proxy:3128"]),
        ("proxies", "one proxy address", ["http://me:s3cr3t@proxy:3128/path", "http://me:s3cr3t\n@proxy:3128"]),
        ("proxies", "a JSON object", ["proxy:3128", ["http://proxy"], 5]),
        ("headers", "holds credentials", [{"authorization": "s3cr3t"}, {"PROXY-AUTHORIZATION": "s3cr3t"}]),
        ("headers", "cannot be set", [{" Host ": "s3cr3t"}, {"content-length": "s3"}, {"Accept-Encoding": "s3cr3t"}]),
        ("headers", "cannot be set", [{"Transfer-Encoding": "chunked"}]),
        ("headers", "Cookie holds credentials", [{"Cookie": "s3cr3t"}]),
        ("headers", "plain ASCII", [{"X-A": "s3cr3t\r\nX-B: 1"}, {"X-A": "s3cr3t\u2603"}, {"X A": "s"}, {"X-A": ""}]),
        ("headers", "a JSON object", ["X-A: s3cr3t"]),
    ],
)
def test_setting_of_the_transport_that_cannot_be_used_is_named_but_not_shown(
    name: str, problem: str, values: list[object]
) -> None:
    for value in values:
        with wrong(name) as caught:
            transport_settings(extra(**{name: value}))
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
    assert said.startswith("Extra without effect: 'team, zz0zz0")
    assert "…. Known fields are auth, aws_conn_id," in said
    assert "s3cr3t" not in said
    assert len(said) < 1000
