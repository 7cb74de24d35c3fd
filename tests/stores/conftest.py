"""A real server that speaks S3, attached as Airflow attaches one; it needs Maven and a JDK."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

from tests.java_artifacts import UnavailableError
from tests.stores.s3_files import s3_files
from tests.stores.s3_server import BUCKET, S3Server
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
    pytest.importorskip("s3fs")
    found = s3_files(s3.address)
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
        lambda name, content: files.pipe_file(f"{top}/{name}", content),
    )
