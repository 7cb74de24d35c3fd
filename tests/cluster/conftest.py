"""A real OpenSearch cluster of each release that this machine can start, one after the other, and load on it.

It needs Maven and a JDK. `MEDIAOPS_TEST_CLUSTER=http://...` names a cluster to use instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.artifacts import LOWEST_JAVA, startable_releases
from tests.cluster.load import running_load
from tests.cluster.nodes import existing_cluster, running_cluster
from tests.java_artifacts import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.load import Load
    from tests.cluster.nodes import Cluster

EXISTING = os.environ.get("MEDIAOPS_TEST_CLUSTER")
"""Base address of a cluster to use instead of starting one."""

CLUSTERS = ["existing"] if EXISTING else startable_releases() or list(LOWEST_JAVA)[:1]


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that use the cluster in one worker of pytest-xdist (``--dist loadgroup``)."""
    for item in items:
        if "opensearch" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session", params=CLUSTERS)
def opensearch(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give a cluster of two nodes, of each release that this machine can start."""
    if EXISTING:
        yield existing_cluster(EXISTING)
        return
    try:
        with running_cluster(request.param) as cluster:
            yield cluster
    except UnavailableError as error:
        pytest.skip(f"{error} A cluster can be given instead: MEDIAOPS_TEST_CLUSTER=http://...")


@pytest.fixture(scope="class")
def load(opensearch: Cluster) -> Iterator[Load]:
    """Keep the cluster busy for one test, or for all tests of a class that ask for it."""
    with running_load(opensearch.url) as running:
        yield running
