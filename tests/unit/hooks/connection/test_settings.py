"""The settings of client and transport that the fields of a connection make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.hooks.connection.settings import (
    base_urls,
    split_address,
    transport_settings,
)
from tests.unit.hooks.field_values import extra, fields, wrong
from tests.unit.loopback import make_certificate

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        ({"host": "https://host"}, ["https://host"]),
        ({"host": "https://host/"}, ["https://host"]),
        ({"host": "HTTP://Host:80/youtube/"}, ["http://host:80/youtube"]),
        ({"host": "host"}, ["https://host"]),
        ({"host": "host", "schema": "http"}, ["http://host"]),
        ({"host": "host", "schema": "http", "port": 8080}, ["http://host:8080"]),
        ({"host": "host/base", "schema": "http", "port": 8080}, ["http://host:8080/base"]),
        ({"host": "host:9201", "schema": "http", "port": 8080}, ["http://host:9201"]),
        ({"host": "https://host", "schema": "http", "port": 8443}, ["https://host:8443"]),
        ({"host": "::1", "schema": "http", "port": 8080}, ["http://[::1]:8080"]),
        ({"host": "2001:db8::1"}, ["https://[2001:db8::1]"]),
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
        ({"host": "://host"}, "host", "scheme must be http or https"),
        ({"host": "host", "schema": "tcp"}, "schema", "must be http or https"),
        ({"host": "https://"}, "host", "names no host"),
        ({"host": "https://:9200"}, "host", "names no host"),
        ({"host": "https://ho st"}, "host", "names no host"),
        ({"host": "https://host:port"}, "host", "is no address"),
        ({"host": "https://host:99999"}, "host", "is no address"),
        ({"host": "https://[::1"}, "host", "is no address"),
        ({"host": "https://me:s3cr3t@host"}, "host", "credentials belong in login and password"),
        ({"host": "https://host?key=s3cr3t"}, "host", "more than an address"),
        ({"host": "https://host#part"}, "host", "more than an address"),
        ({"host": "https://good,https://"}, "host", "names no host"),
    ],
)
def test_a_base_address_that_is_none_is_named(given: dict[str, Any], name: str, why: str) -> None:
    with wrong(name) as caught:
        base_urls(fields(**given))
    assert why in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_other_addresses_are_checked_under_their_own_name() -> None:
    assert split_address(fields(), "token_url", "https://host/token?p=1").query == "p=1"
    with wrong("token_url"):
        split_address(fields(), "token_url", "host/token")


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        ("5", (5.0, 5.0)),
        (5, (5.0, 5.0)),
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
    "value", ["soon", "0", "-1, 5", "1, 2, 3", "1,", [], [None], "inf", "nan", True, {"a": 1}, 1e300]
)
def test_time_limits_that_are_none_are_named(value: object) -> None:
    with wrong("timeout"):
        transport_settings(extra(timeout=value))


@pytest.mark.parametrize(
    ("value", "proxies"),
    [
        (" http://proxy:3128 ", {"http": "http://proxy:3128", "https": "http://proxy:3128"}),
        ({"https": "http://me:pass@proxy:3128"}, {"https": "http://me:pass@proxy:3128"}),
        ({"https": "http://me:p%C3%A9ss@proxy:3128"}, {"https": "http://me:p%C3%A9ss@proxy:3128"}),
        ({"https": "http://me:p%C3%BFss@proxy:3128"}, {"https": "http://me:p%C3%BFss@proxy:3128"}),
        ({"https": "http://me:p%40ss:%2F@[::1]:3128/"}, {"https": "http://me:p%40ss:%2F@[::1]:3128/"}),
        ('{"http": "https://proxy"}', {"http": "https://proxy"}),
        ("", {}),
        (None, {}),
    ],
)
def test_proxies(value: object, proxies: dict[str, str]) -> None:
    assert transport_settings(extra(proxies=value)).proxies == proxies


@pytest.mark.parametrize(
    "value",
    [
        "proxy:3128",
        "socks5://proxy:1080",
        {"all": "http://proxy"},
        {"https": "proxy"},
        ["http://proxy"],
        5,
        "http://me:s3cr3t@proxy:port",
        "http://me:s3cr3t@proxy:99999",
        "http://me:s3cr3t@[::1",
        "http://me:s3cr3t@",
        "http://me:s3cr3t@:3128",
        "http://me:s3cr3t/x@proxy:3128",
        "http://me:s3cr3t?x@proxy:3128",
        "http://me:s3cr3t#x@proxy:3128",
        "http://me:s3cr3t@x@proxy:3128",
        "http://me:s3cr3t%zz@proxy:3128",
        "http://me:s3cr3t%E2%82%AC@proxy:3128",
        "http://me:s3cr3t%C4%80@proxy:3128",
        "http://me:s3cr3t%ff@proxy:3128",
        "http://%E2%82%AC:s3cr3t@proxy:3128",
        "http://me:s3cr3t@pro xy:3128",
        "http://me:s3cr3t@proxy:3128/path",
        "http://me:s3cr3t\n@proxy:3128",
    ],
)
def test_proxies_that_are_none_are_named_but_not_shown(value: object) -> None:
    with wrong("proxies") as caught:
        transport_settings(extra(proxies=value))
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {"authorization": "Bearer s3cr3t"},
        {"X-A": "s3cr3t\r\nX-B: 1"},
        {"X-A": "s3cr3t\u2603"},
        {"X A": "s3cr3t"},
        {"X-\u00e4": "s3cr3t"},
        {"": "s3cr3t"},
        {"X-A": ""},
        "X-A: s3cr3t",
    ],
)
def test_headers_that_cannot_be_sent_are_named_but_not_shown(value: object) -> None:
    with wrong("headers") as caught:
        transport_settings(extra(headers=value))
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Content-Encoding",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "HTTP2-Settings",
        "Cookie2",
        "If-Range",
        "Cookie",
        "Authorization",
        "PROXY-AUTHORIZATION",
        "Accept-Encoding",
        "Range",
        " Host ",
    ],
)
def test_headers_of_the_transport_and_credentials_are_refused_by_name(name: str) -> None:
    with wrong("headers") as caught:
        transport_settings(extra(headers={name: "s3cr3t"}))
    assert name.strip() in str(caught.value)
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
