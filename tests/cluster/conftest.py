"""
A real cluster of each kind of server, one after the other, and work for it.

It needs Maven and a JDK. `MEDIAOPS_TEST_CLUSTER=http://...` names a cluster without users to use instead. A test, class
or module that is not for every kind is marked `@pytest.mark.kinds("secured")`, with the name of an attribute of
:class:`~tests.cluster.kinds.Kind`: it runs on the kinds that have it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.kinds import KINDS
from tests.cluster.known_load import known_load
from tests.cluster.nodes import existing_cluster, running_cluster
from tests.java_artifacts import UnavailableError

if TYPE_CHECKING:
    from tests.cluster.known_load import KnownLoad
    from tests.cluster.nodes import Cluster, Node

EXISTING = os.environ.get("MEDIAOPS_TEST_CLUSTER")
"""Base address of a cluster to use instead of starting one."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kinds(attribute): run only on the kinds of servers that have it")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" not in metafunc.fixturenames:
        return
    marks = list(metafunc.definition.iter_markers("kinds"))
    kinds = [kind for kind in KINDS if all(getattr(kind, *mark.args) for mark in marks)]
    metafunc.parametrize(
        "cluster", [None] if EXISTING and not marks else kinds, indirect=True, ids=str, scope="session"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Start each server once, and kill its nodes after all other tests; keep that in one worker of pytest-xdist."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("cluster"))
    yield
    places = [number for number, item in enumerate(items) if item.path.is_relative_to(Path(__file__).parent)]
    for number, item in zip(places, sorted((items[number] for number in places), key=_turn), strict=True):
        items[number] = item


def _turn(item: pytest.Item) -> tuple[int, bool]:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    kind = parameters.get("cluster")
    return KINDS.index(kind) if kind in KINDS else -1, "victim" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Run a cluster of two nodes of a kind of server."""
    if request.param is None:
        yield existing_cluster(str(EXISTING))
        return
    try:
        with running_cluster(request.param) as running:
            yield running
    except UnavailableError as error:
        pytest.skip(f"{error} A cluster can be given instead: MEDIAOPS_TEST_CLUSTER=http://...")
    assert all(node.process.poll() is not None for node in running.nodes)


@pytest.fixture
def victim(cluster: Cluster) -> Node:
    """Return the node that a test may kill; no other test of the cluster runs afterwards."""
    if not cluster.nodes:
        pytest.skip("The nodes of a cluster that was started elsewhere are not killed.")
    return cluster.nodes[-1]


@pytest.fixture
def connection(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the connection of the operator, and return its id."""
    monkeypatch.setenv("AIRFLOW_CONN_TEST_CLUSTER", cluster.connection())
    return "test_cluster"


@pytest.fixture(scope="session")
def known(cluster: Cluster) -> Iterator[KnownLoad]:
    """Make the indices of a known load once a cluster."""
    with known_load(cluster) as load:
        yield load
