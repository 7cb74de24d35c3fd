"""Emulators of three clouds, reached by Airflow's own connection types."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from tests.clouds.emulators import BUCKET, CACHE, Cloud, command_of, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.clouds.guard import Answer, Guard

# It asks a second service of Google's, which the emulator is not, and waits a minute for it.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
_numbers = itertools.count()


@pytest.fixture(scope="session", params=["s3", "gs", "abfs"])
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    scheme = request.param
    pytest.importorskip({"s3": "moto", "gs": "gcsfs", "abfs": "adlfs"}[scheme])
    if not os.access(command_of(scheme, 0, CACHE)[0], os.X_OK):
        pytest.skip("No emulator: REQUIRE=clouds scripts/install-system-packages installs them.")
    with started(scheme, tmp_path_factory.mktemp(scheme)) as cloud:
        place = Place(cloud, f"made{next(_numbers)}", cloud.guard())
        os.environ[place.variable] = place.connection()
        place.fs.makedir(BUCKET) if scheme != "gs" else place.fs.mkdir(BUCKET)
        yield cloud
        del os.environ[place.variable]


@dataclass
class Place:
    """A folder of its own on a cloud, and a connection of its own that leads there."""

    cloud: Cloud
    conn_id: str
    guard: Guard
    bucket: str = BUCKET
    right: bool = True

    @property
    def variable(self) -> str:
        return f"AIRFLOW_CONN_{self.conn_id.upper()}"

    def connection(self) -> str:
        return json.dumps(self.cloud.connection(f"http://127.0.0.1:{self.guard.server_port}", self.right))

    @property
    def folder(self) -> str:
        return f"{self.cloud.scheme}://{self.conn_id}@{self.bucket}/{self.conn_id}"

    @property
    def fs(self) -> Any:
        from airflow.sdk import ObjectStoragePath

        return ObjectStoragePath(self.folder).fs

    def names(self) -> list[str]:
        self.fs.invalidate_cache()
        return sorted(name.partition(f"{self.conn_id}/")[2] for name in self.fs.find(f"{self.bucket}/{self.conn_id}"))

    def read(self, name: str) -> bytes:
        return bytes(self.fs.cat_file(f"{self.bucket}/{self.conn_id}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        self.fs.pipe_file(f"{self.bucket}/{self.conn_id}/{name}", content)


@pytest.fixture
def new_place(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    def make(answer: Callable[[str, str, bytes], Answer | None] | None = None, **given: Any) -> Place:
        place = Place(cloud, f"place{next(_numbers)}", cloud.guard(answer), **given)
        monkeypatch.setenv(place.variable, place.connection())
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
