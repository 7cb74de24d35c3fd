"""How nodes are started and stopped, shown on a cluster of its own."""

from __future__ import annotations

import pytest
import requests

from tests.cluster.artifacts import LOWEST_JAVA
from tests.cluster.nodes import running_cluster
from tests.cluster.waiting import wait_for
from tests.java_artifacts import UnavailableError


@pytest.mark.xdist_group("cluster")
def test_a_node_can_be_stopped_and_none_outlives_its_cluster() -> None:
    try:
        with running_cluster(next(iter(LOWEST_JAVA))) as cluster:
            first, second = cluster.nodes
            second.stop()
            assert second.process.poll() == 0
            text = wait_for(
                "a report of the first node alone",
                lambda: requests.get(f"{cluster.url}/_nodes/hot_threads?interval=10ms", timeout=60).text,
                lambda text: "{Node 2}" not in text,
                within=60,
            )
            assert text.startswith("::: {Node 1}")
            assert first.process.poll() is None
    except UnavailableError as error:
        pytest.skip(str(error))
    assert first.process.poll() == 0
