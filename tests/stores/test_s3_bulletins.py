"""A journal of bulletins on a real server that speaks S3: each promise of the operator, deaths, and races."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.bulletin_deaths import check_deaths_and_races
from tests.contract.conftest import sandbox  # noqa: F401  the platform of the deaths
from tests.stores.s3_server import BUCKET
from tests.unit.conftest import new_rates, supervisor  # noqa: F401

# What holds in every journal is shown here again, with one of this server.
from tests.unit.operators.test_post_bulletin_journal import (  # noqa: F401
    TestManyTasks,
    TestOneTask,
    another,
    platform,
    posts,
)

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.stores.s3_server import S3Server
    from tests.unit.storage.places import Place


@pytest.fixture
def journal(place: Place, request: pytest.FixtureRequest) -> Place:
    request.getfixturevalue("supervisor")
    return place


def test_nothing_is_posted_twice_with_a_journal_on_s3(
    sandbox: SandboxServer,  # noqa: F811  pytest gives it
    s3: S3Server,
    files: Any,
    tmp_path: Path,
) -> None:
    assert files
    check_deaths_and_races(sandbox, f"s3://shelf@{BUCKET}/deaths", tmp_path / "own", s3.address)
