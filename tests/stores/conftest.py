"""A real server that speaks S3, attached as Airflow attaches one; it needs Maven and a JDK."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

from tests.java_artifacts import UnavailableError
from tests.stores.s3_server import BUCKET, KEY, SECRET, S3Server
from tests.unit.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3proxy"))
    try:
        server.start()
    except UnavailableError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def files(s3: S3Server) -> Iterator[Any]:
    """Attach the server as `s3://shelf@bucket`, through the file system that Airflow's Amazon provider uses."""
    s3fs = pytest.importorskip("s3fs")
    # What newer clients add to each request, servers other than Amazon's do not know.
    checksums = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    found = s3fs.S3FileSystem(
        key=KEY,
        secret=SECRET,
        endpoint_url=s3.address,
        client_kwargs={"region_name": "us-east-1"},
        # S3Proxy answers a write whose condition does not hold before it has read the body, and then sometimes stops
        # answering on that connection. So each request has one of its own.
        config_kwargs={
            **checksums,
            "connector_args": {"force_close": True, "keepalive_timeout": None},
            # They bound a hang. Nothing is sent twice: a write whose reply is late would meet what it wrote itself.
            "connect_timeout": 240,
            "read_timeout": 240,
            "retries": {"total_max_attempts": 1},
        },
    )
    found.retries = 1
    attach("s3", "shelf", fs=found)
    yield found
    del _STORE_CACHE["s3-shelf"]


@pytest.fixture
def place(files: Any) -> Place:
    """Give a folder of its own below the bucket."""
    top = f"{BUCKET}/test-{next(_numbers)}"

    def names() -> list[str]:
        files.invalidate_cache()
        return sorted(name.removeprefix(f"{top}/") for name in files.find(top))

    return Place(
        f"s3://shelf@{top}",
        names,
        lambda name: bytes(files.cat_file(f"{top}/{name}")),
        lambda name: files.rm_file(f"{top}/{name}"),
    )
