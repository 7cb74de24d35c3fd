"""The provider as Airflow's command line shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.system.running import WatchedAirflow


def test_the_provider_is_listed(airflow: WatchedAirflow) -> None:
    listed = json.loads(airflow.cli("providers", "list", "--output", "json"))
    assert [row["package_name"] for row in listed if "mediaops" in row["package_name"]] == ["airflow-provider-mediaops"]


def test_its_connections_are_listed(airflow: WatchedAirflow) -> None:
    listed = json.loads(airflow.cli("providers", "hooks", "--output", "json"))
    assert {row["connection_type"]: row["class"] for row in listed if "mediaops" in row["connection_type"]} == {
        "mediaops_video": "airflow_provider_mediaops.hooks.video.VideoPlatformHook",
        "mediaops_cluster": "airflow_provider_mediaops.hooks.cluster.SearchClusterHook",
        "mediaops_books": "airflow_provider_mediaops.hooks.books.BookDatabaseHook",
    }
