"""The version of a cluster, from the reply at its base address."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.cluster.version import cluster_version
from airflow_provider_mediaops.exceptions import InvalidReplyError
from tests.unit.call_flows import ask_once, replay
from tests.unit.search_cluster import replied

ELASTICSEARCH = {"x-elastic-product": "Elasticsearch"}


def version_in(body: Any, **headers: str) -> str | None:
    return replay(ask_once(cluster_version()), [replied(body, 200, **headers)])


def test_opensearch_names_its_distribution() -> None:
    assert version_in({"version": {"distribution": "opensearch", "number": "2.19.1"}}) == "OpenSearch 2.19.1"


def test_elasticsearch_names_itself_in_a_header() -> None:
    assert version_in({"version": {"number": "9.1.0"}}, **ELASTICSEARCH) == "Elasticsearch 9.1.0"


def test_a_product_that_does_not_name_itself_has_its_number() -> None:
    assert version_in({"version": {"number": "7.10.2"}}) == "7.10.2"


def test_another_distribution_is_named_as_it_names_itself() -> None:
    assert version_in({"version": {"distribution": "other", "number": "1"}}) == "other 1"


@pytest.mark.parametrize("body", [{}, {"version": "9"}, {"version": {}}, {"version": {"number": 9}}])
def test_a_reply_without_a_version_is_no_error(body: dict[str, Any]) -> None:
    assert version_in(body) is None


def test_a_reply_that_is_no_json_is_an_error() -> None:
    with pytest.raises(InvalidReplyError):
        version_in("You know, for search")
