"""Cloud ids of Elastic, and the addresses that they stand for."""

from __future__ import annotations

import base64

import pytest

from airflow_provider_mediaops.hooks.cluster_auth import with_cloud_address
from airflow_provider_mediaops.hooks.connection.settings import base_urls
from tests.unit.hooks.field_values import extra, fields, wrong


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
        "logs",
        "logs:",
        "logs:not base64",
        cloud_id("found.io$abc123$kib456")[:-3],
        cloud_id("found.io"),
        cloud_id("found.io$"),
        cloud_id("$abc"),
        cloud_id("found.io$me@abc"),
        cloud_id("found.io$abc/path"),
        cloud_id("found.io$abc#"),
        cloud_id("found.io$abc?x"),
        cloud_id("found.io$abc\\"),
        cloud_id("found.io:port$abc"),
        cloud_id("found.io:70000$abc"),
        cloud_id("größe.io$abc"),
    ],
)
def test_damaged_cloud_id_is_refused(damaged: str) -> None:
    with wrong("cloud_id"):
        with_cloud_address(extra(cloud_id=damaged))


def test_host_beside_a_cloud_id_is_refused() -> None:
    with wrong("cloud_id"):
        with_cloud_address(fields(host="https://host", extra={"cloud_id": cloud_id("found.io$abc")}))
