"""A journal of bulletins on a real server that speaks S3: each case of the guide, deaths, races, and any order."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.video.at_most_once import Posted
from airflow_provider_mediaops.video.bulletin_journal import file_name
from tests.contract.bulletin_deaths import check_deaths_and_races
from tests.contract.conftest import sandbox  # noqa: F401  the platform of the deaths
from tests.stores.paced_client import PacedClient
from tests.stores.s3_server import BUCKET
from tests.unit.conftest import new_rates, supervisor  # noqa: F401

# What holds in every journal is shown here again, with one of this server.
from tests.unit.operators.test_post_bulletin_journal import (  # noqa: F401
    TestManyTasks,
    TestOneTask,
    another,
    platform,
    posts,
    shelf,
)
from tests.unit.video.journal_pauses import REASONS, ROWS, let_another_post, paused, what_happened
from tests.unit.video.journal_turns import KEY, Channel, Poster
from tests.unit.video.test_bulletin_journal import (  # noqa: F401
    test_another_task_does_what_the_guide_says,
    test_the_next_try_does_what_the_guide_says,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.stores.s3_server import S3Server
    from tests.unit.storage.places import Place

TASK = "dag/run/post/-1"
_numbers = itertools.count()


@pytest.fixture
def journal(place: Place, request: pytest.FixtureRequest) -> Place:
    request.getfixturevalue("supervisor")
    return place


@dataclass
class ServerChannel(Channel):
    """A channel whose journal is on the server; of its clock, only the age of the record can be changed."""

    files: Any = field(default=None)
    server: Any = field(default=None)

    def client_of(self, name: str, turn: Callable[[], bool]) -> Any:
        return PacedClient(self, name, turn)

    def record(self) -> bytes | None:
        self.files.invalidate_cache()
        try:
            return bytes(self.files.cat_file(f"{self.journal}/{file_name(KEY)}"))
        except FileNotFoundError:
            return None

    def damage(self) -> None:
        self.files.pipe_file(f"{self.journal}/{file_name(KEY)}", b"{")

    def delete(self) -> None:
        self.files.rm_file(f"{self.journal}/{file_name(KEY)}")

    def pass_time(self, seconds: float) -> None:
        file = self.server.folder / "data" / self.journal / file_name(KEY)
        if file.exists():
            before = file.stat().st_mtime - seconds
            os.utime(file, (before, before))


@pytest.fixture
def new(files: Any, s3: S3Server) -> Callable[[], ServerChannel]:
    return lambda: ServerChannel(files=files, server=s3, journal=f"{BUCKET}/journal-{next(_numbers)}")


@pytest.fixture
def channel(new: Callable[[], ServerChannel]) -> ServerChannel:
    return new()


@pytest.mark.parametrize("why", REASONS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_follows_a_pause_is_what_the_guide_says_of_s3(
    new: Callable[[], ServerChannel], row: list[str], why: str
) -> None:
    scene = paused(new, REASONS[why], row[0])
    let_another_post(scene, REASONS[why])
    scene.older.finish()

    assert what_happened(scene) == row[2]


PAIRS: dict[str, tuple[dict[str, Any], bool]] = {
    "another task": ({}, False),
    "another task, when the first is stale": ({}, True),
    "the next try": ({"task": TASK, "number": 2}, False),
    "another task, which retries": ({"on_uncertain": "retry"}, True),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("between", [2, 5, 8, 11, 14])
def test_of_two_at_a_time_one_posts(new: Callable[[], ServerChannel], pair: str, between: int) -> None:
    rules, stale = PAIRS[pair]
    for before in itertools.count():
        channel = new()
        first, second = Poster(channel, "first", task=TASK), Poster(channel, "second", **rules)
        first.step(before)
        if stale:
            channel.pass_time(STALE_AFTER_SECONDS)
        done, too_late = first.ended, first.sending and b'"posted"' not in (channel.record() or b"")
        second.step(between)
        too_late = too_late or second.sending
        first.finish()
        second.finish()

        case = f"{before}: {channel.posts}, {first.failure}, {second.failure}"
        if rules.get("on_uncertain") == "retry" and too_late:
            assert 1 <= len(channel.posts) <= 2, case
        else:
            assert len(channel.posts) == 1, case
        assert {first.failure, second.failure} <= {"", "DestinationInUseError", "UncertainDeliveryError"}, case
        assert isinstance(channel.entry().record, Posted), case
        if done:
            assert before > 5, case
            return


def test_nothing_is_posted_twice_with_a_journal_on_s3(
    sandbox: SandboxServer,  # noqa: F811  pytest gives it
    s3: S3Server,
    files: Any,
    tmp_path: Path,
) -> None:
    assert files
    check_deaths_and_races(sandbox, f"s3://shelf@{BUCKET}/deaths", tmp_path / "own", s3.address)
