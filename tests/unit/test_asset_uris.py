"""The URIs of assets for what the services have: as Airflow checks, makes and translates them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.sdk import Asset

from airflow_provider_mediaops.asset_uris import (
    create_books_asset,
    create_cluster_asset,
    create_video_asset,
    openlineage_name,
    sanitize_uri,
    service_uri,
)

SECRET = "hunter2-the-secret"


@pytest.mark.parametrize(
    "uri",
    [
        "mediaops-video://videos/bulletins",
        "mediaops-video://videos/subscriptions",
        "mediaops-video://videos/subscriptions/mine",
        "mediaops-video://videos/subscriptions/channels/UC-1_a",
        "mediaops-cluster://search.prod/hot_threads",
        "mediaops-books://mediaops_books_default/books",
    ],
)
def test_airflow_takes_the_uri_of_what_a_service_has(uri: str) -> None:
    assert Asset(uri=uri).uri == uri
    assert Asset(uri=f"{uri}/#fragment").uri == uri


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("mediaops-cluster:///hot_threads", "has no connection: write mediaops-cluster://<conn_id>/hot_threads"),
        ("mediaops-cluster://search", "is /hot_threads; not '/'"),
        ("mediaops-cluster://search/_nodes", "is /hot_threads; not '/_nodes'"),
        ("mediaops-books://books/books/9780140449136", "the asset URI mediaops-books://books is /books"),
        ("mediaops-video://videos/subscriptions/channels", "/subscriptions/channels/<channel_id>; not"),
        ("mediaops-video://videos/hot_threads", "is /bulletins, /subscriptions"),
        (f"mediaops-books://books/books?api_key={SECRET}", "takes no query"),
    ],
)
def test_airflow_refuses_any_other_when_the_dag_file_is_read(uri: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")) as caught:
        Asset(uri=uri)
    assert SECRET not in str(caught.value)


def test_user_information_is_no_connection() -> None:
    with pytest.raises(ValueError, match="has no connection") as caught:
        sanitize_uri(urlsplit(f"mediaops-books://{SECRET}@/books"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("userinfo", [SECRET, f"user:{SECRET}", f"a@b:{SECRET}"])
def test_user_information_is_left_out(userinfo: str) -> None:
    sanitized = sanitize_uri(urlsplit(f"mediaops-cluster://{userinfo}@search/hot_threads"))
    assert sanitized.geturl() == "mediaops-cluster://search/hot_threads"


def test_the_factories_make_what_the_operators_read() -> None:
    assert create_video_asset().uri == "mediaops-video://mediaops_video_default/subscriptions/mine"
    assert create_video_asset(conn_id="videos", path="bulletins").uri == "mediaops-video://videos/bulletins"
    assert create_cluster_asset(conn_id="search", extra={"team": "search"}).extra == {"team": "search"}
    assert create_cluster_asset().uri == "mediaops-cluster://mediaops_cluster_default/hot_threads"
    assert create_books_asset(conn_id="isbn").uri == "mediaops-books://isbn/books"
    with pytest.raises(ValueError, match="The path of the asset URI"):
        create_video_asset(path="videos")


@pytest.mark.parametrize("conn_id", ["a/b", "a:b", "a#b", "a?b", "a b", "ä@b", "100%"])
def test_any_connection_can_be_named(conn_id: str) -> None:
    asset = create_cluster_asset(conn_id=conn_id)
    assert openlineage_name(asset.uri) == (f"mediaops-cluster://{conn_id}", "hot_threads")
    # Airflow checks it again whenever it makes the asset anew.
    assert Asset(uri=asset.uri).uri == asset.uri == service_uri("mediaops-cluster", conn_id, "hot_threads")


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///data/books.csv", ("file", "/data/books.csv")),
        ("file:///data/50%25%23.csv", ("file", "/data/50%#.csv")),
        ("s3://bucket/a/b.csv", ("s3://bucket", "a/b.csv")),
        ("s3a://bucket/a/b.csv", ("s3://bucket", "a/b.csv")),
        ("gcs://bucket/b.csv", ("gs://bucket", "b.csv")),
        ("abfs://container/b.csv", ("abfs://container", "b.csv")),
        (f"s3://{SECRET}@bucket/b.csv", ("s3://bucket", "b.csv")),
        ("mediaops-video://videos/subscriptions/mine", ("mediaops-video://videos", "subscriptions/mine")),
    ],
)
def test_datasets_have_the_names_of_openlineage(uri: str, name: Any) -> None:
    assert openlineage_name(uri) == name
