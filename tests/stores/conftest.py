"""Emulators of three clouds, reached by Airflow's own connection types."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.io import attach

from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from tests.stores.emulators import BUCKET, CLIENTS, Cloud, missing_of, started

if TYPE_CHECKING:
    from tests.stores.guard import Answer, Guard

# It asks a second service of Google's, which the emulator is not, and waits a minute for it.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
_numbers = itertools.count()


@pytest.fixture(scope="session", params=["s3", "gs", "abfs"])
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    scheme = request.param
    pytest.importorskip(CLIENTS[scheme])
    if missing := missing_of(scheme):
        pytest.skip(f"There is no {', no '.join(missing)}: `make stores REQUIRE=stores` installs it.")
    with started(scheme, tmp_path_factory.mktemp(scheme)) as cloud, pytest.MonkeyPatch.context() as patch:
        place = Place(cloud, f"made{next(_numbers)}", cloud.guard())
        place.connect(patch)
        place.fs.mkdir(BUCKET) if scheme == "gs" else place.fs.makedir(BUCKET)
        yield cloud


@dataclass
class Place:
    """A folder of its own on a cloud, and a connection of its own that leads there."""

    cloud: Cloud
    conn_id: str
    guard: Guard
    bucket: str = BUCKET
    right: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or self.conn_id

    @property
    def variable(self) -> str:
        return f"AIRFLOW_CONN_{self.conn_id.upper()}"

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        connection = self.cloud.connection(f"http://127.0.0.1:{self.guard.server_port}", self.right)
        patch.setenv(self.variable, json.dumps(connection))
        if self.cloud.scheme == "s3" and find_spec("airflow.providers.amazon") is None:
            # On the oldest Airflow, there is the client alone.
            from s3fs import S3FileSystem

            keys = {"key": connection["login"], "secret": connection["password"]}
            attach("s3", self.conn_id, fs=S3FileSystem(**keys, endpoint_url=connection["extra"]["endpoint_url"]))

    @property
    def folder(self) -> str:
        return f"{self.cloud.scheme}://{self.conn_id}@{self.bucket}/{self.name}"

    @property
    def fs(self) -> Any:
        from airflow.sdk import ObjectStoragePath

        return ObjectStoragePath(self.folder).fs

    def names(self) -> list[str]:
        self.fs.invalidate_cache()
        return sorted(name.partition(f"{self.name}/")[2] for name in self.fs.find(f"{self.bucket}/{self.name}"))

    def read(self, name: str) -> bytes:
        return bytes(self.fs.cat_file(f"{self.bucket}/{self.name}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        self.fs.pipe_file(f"{self.bucket}/{self.name}/{name}", content)


@pytest.fixture
def new_place(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    def make(answer: Callable[[str, str, bytes], Answer | None] | None = None, **given: Any) -> Place:
        place = Place(cloud, f"place{next(_numbers)}", cloud.guard(answer), **given)
        place.connect(monkeypatch)
        return place

    return make


@pytest.fixture
def place(new_place: Callable[..., Place]) -> Place:
    return new_place()


@pytest.fixture(autouse=True)
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxServer]:
    with SandboxServer(settings=Settings(subscriptions=120)) as server:
        for name, value in server.connections().items():
            monkeypatch.setenv(name, value)
        yield server
