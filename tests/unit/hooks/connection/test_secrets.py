"""Credentials in a connection's proxies and headers: which values are taken for one, and which are not."""

from __future__ import annotations

import base64

import pytest

from airflow_provider_mediaops.hooks.connection.settings import header_credentials, proxy_passwords

BASIC = base64.b64encode(b"me:s3cr3t/:pass").decode()


def test_passwords_of_proxies_are_decoded_and_listed_once() -> None:
    addresses = ["http://me:p%40ss%C3%A9@proxy:3128", "https://me:p%40ss%C3%A9@proxy:3128/", "http://:only@[::1]:3128"]
    assert proxy_passwords(addresses) == ("p@ssé", "only")


@pytest.mark.parametrize(
    "address", ["http://proxy:3128", "http://me@proxy", "http://me:@proxy", "proxy", "http://[::1", ""]
)
def test_a_proxy_without_a_password_has_none(address: str) -> None:
    assert proxy_passwords([address]) == ()


@pytest.mark.parametrize(
    "name",
    [
        *("X-Api-Key", "apikey", "api_key", "Ocp-Apim-Subscription-Key", "X-Goog-Api-Key"),
        *("PRIVATE-TOKEN", "X-Auth-Token", "X-Authtoken", "X-Amz-Security-Token", "X-JWT"),
        *("X-Client-Secret", "X-Password", "X-Auth", "X-Forwarded-Authorization", "X-Authentication", "X-Signature"),
    ],
)
def test_a_header_that_is_named_like_a_credential_holds_one(name: str) -> None:
    assert header_credentials({name: "s3cr3t"}) == ("s3cr3t",)


@pytest.mark.parametrize("name", ["X-Team", "X-Author", "X-Tokens-Left", "X-Opaque-Id", "User-Agent", "From", "Accept"])
def test_a_header_with_another_name_holds_none(name: str) -> None:
    assert header_credentials({name: "operations"}) == ()


@pytest.mark.parametrize(
    ("value", "secrets"),
    [
        ("Bearer s3cr3t", ("s3cr3t",)),
        ("apikey  s3cr3t", ("s3cr3t",)),
        ("Token s3cr3t", ("s3cr3t",)),
        (f"Basic {BASIC}", (BASIC, "s3cr3t/:pass")),
        ("Basic no-base64!", ("no-base64!",)),
        ("Basic /w==", ("/w==",)),
        ("Bearer", ()),
        ("Bearers of news", ()),
    ],
)
def test_a_value_with_a_scheme_of_authentication_is_a_credential_in_any_header(
    value: str, secrets: tuple[str, ...]
) -> None:
    assert header_credentials({"X-Upstream": value}) == secrets


def test_equal_values_are_listed_once() -> None:
    assert header_credentials({"X-Api-Key": "s3cr3t", "X-Token": "s3cr3t", "X-Team": "ops"}) == ("s3cr3t",)
