"""Paths as others may see them."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import Asset

from airflow_provider_mediaops.lineage.locations import conn_id_in, console_url, uri_of, without_userinfo


@pytest.mark.parametrize(
    ("path", "conn_id", "shown"),
    [
        ("s3://conn@bucket/a.csv", "conn", "s3://bucket/a.csv"),
        ("s3://key:secret@bucket/a.csv", "key:secret", "s3://bucket/a.csv"),
        ("s3://key:se@cret@bucket/a.csv", "key:se@cret", "s3://bucket/a.csv"),
        ("s3://bucket/a@b.csv", None, "s3://bucket/a@b.csv"),
        ("s3://@bucket/a.csv", None, "s3://bucket/a.csv"),
        ("memory://a.csv", None, "memory://a.csv"),
        ("file:///home/a@b/c.csv", None, "file:///home/a@b/c.csv"),
        ("/home/a@b/c.csv", None, "/home/a@b/c.csv"),
        ("/data/s3://key@bucket.csv", None, "/data/s3://key@bucket.csv"),
    ],
)
def test_user_information_is_what_stands_before_the_bucket(path: str, conn_id: str | None, shown: str) -> None:
    assert conn_id_in(path) == conn_id
    assert without_userinfo(path) == shown


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/data/a.csv", "file:///data/a.csv"),
        ("file:///data/a.csv", "file:///data/a.csv"),
        ("file:/data/a.csv", "file:///data/a.csv"),
        ("local:///data/a.csv", "file:///data/a.csv"),
        ("/data/100% of #1?.csv", "file:///data/100%25 of %231%3F.csv"),
        ("S3://conn@Bucket/a.csv", "s3://Bucket/a.csv"),
        ("s3://bucket/a#1.csv", "s3://bucket/a%231.csv"),
        ("memory://contract/a.csv", "memory://contract/a.csv"),
        ("https://user:pw@host/a%20b.csv?X-Amz-Signature=secret#part", "https://host/a%20b.csv"),
    ],
)
def test_a_path_has_the_uri_that_people_write_for_its_asset(path: str, uri: str) -> None:
    assert uri_of(path) == uri
    # Airflow changes nothing in it.
    assert Asset(uri=uri).uri == uri


def test_the_uri_of_a_local_file_is_absolute() -> None:
    assert uri_of("a.csv") == f"file://{Path.cwd()}/a.csv"
    assert uri_of("~/a.csv") == f"file://{Path.home()}/a.csv"
    assert uri_of("~nobody-of-that-name/a.csv") == "file://~nobody-of-that-name/a.csv"


@pytest.mark.parametrize(
    ("uri", "page"),
    [
        ("s3://bucket/a b/c%231.csv", "https://s3.console.aws.amazon.com/s3/object/bucket?prefix=a%20b/c%231.csv"),
        ("s3a://bucket/a.csv", "https://s3.console.aws.amazon.com/s3/object/bucket?prefix=a.csv"),
        ("gs://bucket/a/b.csv", "https://console.cloud.google.com/storage/browser/_details/bucket/a/b.csv"),
        ("s3://bucket", None),
        ("file:///data/a.csv", None),
        ("memory://a/b.csv", None),
        ("abfs://container/a.csv", None),
    ],
)
def test_an_object_has_a_page_in_the_console_of_its_cloud(uri: str, page: str | None) -> None:
    assert console_url(uri) == page
