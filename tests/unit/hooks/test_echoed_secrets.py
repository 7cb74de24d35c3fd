"""Credentials in a connection's proxies and headers: no message shows them, and Airflow's log masks them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from requests_mock import ANY

from airflow_provider_mediaops.exceptions import AuthenticationError, BadRequestError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.unit.book_database import CRIME
from tests.unit.hooks.cluster_hook import STATS

if TYPE_CHECKING:
    import requests_mock

PROXY = {"https": "http://proxy-user:pr%2Fxy-s3cr3t@proxy.example:3128"}
HEADERS = {"X-Api-Key": "h3ader-s3cr3t", "X-Upstream": "Bearer b3arer-s3cr3t", "X-Team": "operations"}
SECRETS = ("pr/xy-s3cr3t", "pr%2Fxy-s3cr3t", "h3ader-s3cr3t", "b3arer-s3cr3t")


@pytest.fixture(autouse=True)
def _no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def echoed(requests_mock: requests_mock.Mocker) -> str:
    """Return all that is said of a refusal which echoes what the request held."""
    said = " ".join((*SECRETS, *HEADERS.values(), "proxy-user"))
    requests_mock.get(STATS, status_code=400, json={"error": {"type": "bad", "reason": said}}, reason=said)
    with SearchClusterHook() as hook, pytest.raises(BadRequestError) as caught:
        hook.cpu()
    return f"{caught.value} {json.dumps(caught.value.to_dict())}"


def test_a_refusal_that_echoes_them_does_not_make_them_public(
    connect_cluster: Any, requests_mock: requests_mock.Mocker
) -> None:
    connect_cluster(proxies=PROXY, headers=HEADERS)
    shown = echoed(requests_mock)
    assert not [secret for secret in SECRETS if secret in shown]
    # What the form shows in plain, and holds no credential, is not a secret.
    assert "operations" in shown
    assert "proxy-user" in shown


def test_the_password_of_a_proxy_of_the_environment_is_one(
    connect_cluster: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", PROXY["https"])
    connect_cluster()
    shown = echoed(requests_mock)
    assert "pr/xy" not in shown
    assert "h3ader-s3cr3t" in shown


@pytest.mark.parametrize(
    "given",
    [
        "an-id:k3y-s3cr3t",
        "YW4taWQ6azN5LXMzY3IzdA==",
        "ApiKey an-id:k3y-s3cr3t",
        '{"id": "an-id", "api_key": "k3y-s3cr3t"}',
    ],
)
def test_each_form_of_an_api_key_is_one(
    connect_cluster: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    connect_cluster(auth="api_key", password=given)
    masked: list[str] = []
    monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", masked.append)
    reason = f"unknown key {given}, that is k3y-s3cr3t or YW4taWQ6azN5LXMzY3IzdA=="
    requests_mock.get(STATS, status_code=401, json={"error": {"type": "security_exception", "reason": reason}})
    with SearchClusterHook() as hook, pytest.raises(AuthenticationError) as caught:
        hook.cpu()
    shown = f"{caught.value} {json.dumps(caught.value.to_dict())}"
    assert "unknown key" in shown
    assert "k3y-s3cr3t" not in shown
    assert "YW4taWQ6" not in shown
    assert "k3y-s3cr3t" in masked


@pytest.mark.parametrize("how", ["worker", "triggerer"])
async def test_airflows_log_masks_them(connect_cluster: Any, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    connect_cluster(proxies=PROXY, headers=HEADERS)
    masked: list[str] = []
    monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", masked.append)
    hook = SearchClusterHook()
    service = await hook.aservice() if how == "triggerer" else hook.service
    assert sorted(masked) == ["b3arer-s3cr3t", "h3ader-s3cr3t", "pr/xy-s3cr3t"]
    assert "s3cr3t" not in repr(service)


@pytest.mark.usefixtures("supervisor")
@pytest.mark.parametrize("method", ["book", "lookup"])
def test_a_look_up_of_one_book_shows_none(
    connect_books: Any, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("https_proxy", PROXY["https"])
    connect_books(headers=HEADERS)
    requests_mock.get(ANY, status_code=401, json={"message": " ".join(SECRETS)})
    with BookDatabaseHook() as hook, pytest.raises(AuthenticationError) as caught:
        getattr(hook, method)(CRIME)
    assert not [secret for secret in SECRETS if secret in f"{caught.value} {caught.value.to_dict()}"]
