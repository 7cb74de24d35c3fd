"""The fields of a connection as typed values; one that cannot be used is named."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_mediaops.hooks.connection.fields import ConnectionFields
from tests.unit.hooks.field_values import extra, fields, wrong


def connection(**given: Any) -> SimpleNamespace:
    empty = dict.fromkeys(("host", "schema", "port", "login", "password", "extra"))
    return SimpleNamespace(conn_id="c1", **{**empty, **given})


def test_an_empty_connection_has_empty_fields() -> None:
    assert ConnectionFields.of(connection()) == ConnectionFields("c1")


def test_every_field_of_a_connection_is_read() -> None:
    given = connection(
        host=" https://host ", schema=" HTTPS ", port=9200, login="me", password="p@ss", extra='{"a": {"b": [1]}}'
    )
    assert ConnectionFields.of(given) == ConnectionFields(
        "c1", "https://host", "https", 9200, "me", "p@ss", {"a": {"b": [1]}}
    )


@pytest.mark.parametrize(("port", "read"), [(None, None), (0, None), ("", None), ("8443", 8443), (65_535, 65_535)])
def test_a_port_may_be_a_text_or_absent(port: object, read: int | None) -> None:
    assert ConnectionFields.of(connection(port=port)).port == read


@pytest.mark.parametrize("port", ["abc", -1, 65_536, "1.5"])
def test_a_port_that_is_none_is_named(port: object) -> None:
    with wrong("port"):
        ConnectionFields.of(connection(port=port))


def test_the_uri_form_nests_extra_as_text() -> None:
    nested = json.dumps({"__extra__": json.dumps({"headers": {"X-A": "1"}}), "auth": "none"})
    assert ConnectionFields.of(connection(extra=nested)).extra == {"headers": {"X-A": "1"}, "auth": "none"}


@pytest.mark.parametrize("text", ["[]", '"text"', "{cut", "null", '{"__extra__": "[1]"}', '{"__extra__": "{cut"}'])
def test_an_extra_that_is_no_object_is_named(text: str) -> None:
    with wrong("extra"):
        ConnectionFields.of(connection(extra=text))


def test_secrets_are_not_shown() -> None:
    assert "s3cr3t" not in repr(fields(password="s3cr3t", extra={"refresh_token": "s3cr3t"}))


@pytest.mark.parametrize(
    ("value", "read"), [(None, "svc"), ("", "svc"), ("  ", "svc"), (" youtube ", "youtube"), (5, "5")]
)
def test_a_text(value: object, read: str) -> None:
    assert extra(kind_prefix=value).text("kind_prefix", "svc") == read


@pytest.mark.parametrize(("value", "read"), [(None, "a"), ("", "a"), (" B ", "b")])
def test_a_choice(value: object, read: str) -> None:
    assert extra(x=value).choice("x", ("a", "b"), "a") == read


@pytest.mark.parametrize("value", ["c", True, ["a"]])
def test_a_choice_that_is_none_is_named(value: object) -> None:
    with wrong("x"):
        extra(x=value).choice("x", ("a", "b"), "a")


@pytest.mark.parametrize(("value", "read"), [(None, 7.0), ("", 7.0), (0, 0.0), ("2.5", 2.5), (" 3 ", 3.0)])
def test_a_number(value: object, read: float) -> None:
    assert extra(x=value).number("x", 7.0, minimum=0) == read


@pytest.mark.parametrize("value", ["many", -1, "nan", "inf", True, [], {}, 10**400])
def test_a_number_that_is_none_is_named(value: object) -> None:
    with wrong("x"):
        extra(x=value).number("x", 7.0, minimum=0)


@pytest.mark.parametrize("value", [1.5, "2.5", 0])
def test_a_whole_number_that_is_none_is_named(value: object) -> None:
    with wrong("x"):
        extra(x=value).number("x", 5, minimum=1, whole=True)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (None, True),
        ("", True),
        (False, False),
        ("False", False),
        ("no", False),
        (0, False),
        (" TRUE ", True),
        (1, True),
    ],
)
def test_a_flag(value: object, *, read: bool) -> None:
    assert extra(x=value).flag("x", default=True) is read


@pytest.mark.parametrize("value", ["maybe", 2, []])
def test_a_flag_that_is_none_is_named(value: object) -> None:
    with wrong("x"):
        extra(x=value).flag("x", default=True)


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
