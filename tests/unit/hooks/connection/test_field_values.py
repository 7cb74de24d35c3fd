"""The fields of a connection as typed values; one that cannot be used is named."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_mediaops.connection_fields import CLUSTER
from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
from tests.unit.hooks.field_values import extra, fields, wrong


def connection(**given: Any) -> SimpleNamespace:
    empty = dict.fromkeys(("host", "schema", "port", "login", "password", "extra"))
    return SimpleNamespace(conn_id="c1", **{**empty, **given})


def test_an_empty_connection_has_empty_fields() -> None:
    assert ConnectionFields.of(connection(), CLUSTER) == ConnectionFields("c1", conn_type=CLUSTER)


def test_every_field_of_a_connection_is_read() -> None:
    given = connection(
        host=" https://host ", schema=" HTTPS ", port=9200, login="me", password="p@ss", extra='{"a": {"b": [1]}}'
    )
    assert ConnectionFields.of(given, CLUSTER) == ConnectionFields(
        "c1", "https://host", "https", 9200, "me", "p@ss", {"a": {"b": [1]}}, CLUSTER
    )


@pytest.mark.parametrize(("port", "read"), [(None, None), (0, None), ("", None), ("8443", 8443), (65_535, 65_535)])
def test_a_port_may_be_a_text_or_absent(port: object, read: int | None) -> None:
    assert ConnectionFields.of(connection(port=port), CLUSTER).port == read


@pytest.mark.parametrize("port", ["abc", -1, 65_536, "1.5"])
def test_a_port_that_is_none_is_named(port: object) -> None:
    with wrong("port"):
        ConnectionFields.of(connection(port=port), CLUSTER)


def test_the_uri_form_nests_extra_as_text() -> None:
    nested = json.dumps({"__extra__": json.dumps({"headers": {"X-A": "1"}}), "auth": "none"})
    assert ConnectionFields.of(connection(extra=nested), CLUSTER).extra == {"headers": {"X-A": "1"}, "auth": "none"}


@pytest.mark.parametrize("text", ["[]", '"text"', "{cut", "null", '{"__extra__": "[1]"}', '{"__extra__": "{cut"}'])
def test_an_extra_that_is_no_object_is_named(text: str) -> None:
    with wrong("extra"):
        ConnectionFields.of(connection(extra=text), CLUSTER)


def test_secrets_are_not_shown() -> None:
    assert "s3cr3t" not in repr(fields(password="s3cr3t", extra={"refresh_token": "s3cr3t"}))


@pytest.mark.parametrize(
    ("value", "read"), [(None, "svc"), ("", "svc"), ("  ", "svc"), (" youtube ", "youtube"), (5, "5")]
)
def test_a_text(value: object, read: str) -> None:
    assert extra(kind_prefix=value).text("kind_prefix", "svc") == read


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        *(("cpu_measure", value, "auto") for value in (None, "", "auto")),
        ("cpu_measure", " OS ", "os"),
        *(("max_wait", value, 7.0) for value in (None, "")),
        ("max_wait", 0, 0.0),
        ("max_wait", "2.5", 2.5),
        ("max_attempts", " 3 ", 3.0),
        *(("verify", value, True) for value in (None, "", " TRUE ", 1)),
        *(("verify", value, False) for value in (False, "False", "no", 0)),
    ],
)
def test_field_is_read_as_its_form_describes_it(name: str, value: object, read: object) -> None:
    assert read_by_form(name, value) == read


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cpu_measure", ["c", True, ["os"]]),
        ("max_wait", ["many", -1, "nan", "inf", True, [], {}, 10**400]),
        ("max_attempts", [1.5, "2.5", 0, 101]),
        ("verify", ["maybe", 2, []]),
    ],
)
def test_field_that_is_not_as_its_form_describes_it_is_named(name: str, values: list[object]) -> None:
    for value in values:
        with wrong(name):
            read_by_form(name, value)


def read_by_form(name: str, value: object) -> object:
    given = extra(**{name: value})
    if name == "verify":
        return given.flag(name)
    return given.choice(name) if name == "cpu_measure" else given.number(name, 7.0)


@pytest.mark.parametrize("value", [None, "", "  ", "null", {}, "{}"])
def test_an_empty_mapping(value: object) -> None:
    assert extra(x=value).mapping("x") == {}


@pytest.mark.parametrize("value", [{"a": "1", "b": 2}, '{"a": "1", "b": 2}'])
def test_a_mapping_is_an_object_or_the_text_of_one(value: object) -> None:
    assert extra(x=value).mapping("x") == {"a": "1", "b": "2"}


@pytest.mark.parametrize("value", ["a=1", "[1]", [1], 5, {"a": None}, {"a": {"b": 1}}])
def test_a_mapping_that_is_none_is_named(value: object) -> None:
    with wrong("x"):
        extra(x=value).mapping("x")


def test_a_credential() -> None:
    assert fields(password="abc-._~+/=").credential("the key") == "abc-._~+/="


@pytest.mark.parametrize("password", ["", "s3cr3t\n", " s3cr3t", "s3cr3t\u2603"])
def test_a_credential_that_cannot_be_sent_is_named_but_not_shown(password: str) -> None:
    with wrong("password") as caught:
        fields(password=password).credential("the key")
    assert "it must be the key" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
