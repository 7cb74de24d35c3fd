"""Two tasks at one destination or journal: one is held at a request, as if dead, while the other comes between."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.version_compat import AirflowFailException
from tests.stores.guard import Answer, Guard
from tests.stores.one_task import context_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.stores.conftest import Place

TASK_SECONDS = 240


class Other(NamedTuple):
    """Who comes between."""

    number: int
    run: str


OTHERS = {"next try": Other(2, "run"), "another": Other(1, "later")}
others = pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)


@dataclass
class Held:
    """A task in a thread, which is held at one of its requests."""

    request: int
    requests: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    outcome: str = ""
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, _method: str, _path: str, _body: bytes) -> Answer | None:
        if next(self.requests) == self.request:
            self.reached.set()
            assert self.released.wait(TASK_SECONDS)
        return None

    def start(self, work: Callable[[], str]) -> threading.Thread:
        """Start it, and return when it is held or has ended."""

        def run() -> None:
            self.outcome = outcome_of(work)
            self.request = 0
            self.reached.set()

        thread = threading.Thread(target=run)
        thread.start()
        assert self.reached.wait(TASK_SECONDS)
        return thread

    def finish(self, thread: threading.Thread) -> None:
        self.released.set()
        thread.join(TASK_SECONDS)
        assert not thread.is_alive()


def outcome_of(work: Callable[[], str]) -> str:
    try:
        return work()
    except AirflowFailException as error:
        # Below Airflow 3.3, Airflow's own exception ends the task.
        return type(error.__cause__).__name__
    except Exception as error:  # noqa: BLE001 the test looks at it
        return type(error).__name__


def export(place: Place, number: int, run: str) -> str:
    task = ExportSubscriptionsOperator(task_id="task", destination=f"{place.folder}/d.jsonl", mine=True)
    return str(task.execute(context_of(number, run))["rows"])


def post(place: Place, number: int, run: str, text: str) -> str:
    task = PostBulletinOperator(task_id="task", text=text, journal=f"{place.folder}/journal", once_per="a day")
    return str(task.execute(context_of(number, run))["id"])


def published(place: Place) -> list[str]:
    """Return the names of all objects but those of logs, each of which stays for seven days."""
    return [name for name in place.names() if name.count("/") < 2]


@others
def test_an_export_between_the_requests_of_another_leaves_one_whole_file(
    new_place: Callable[..., Place],
    other: Other,
) -> None:
    undisturbed = new_place()
    export(undisturbed, 1, "run")
    requests = len(undisturbed.guard.methods)
    # Each of the parameters begins elsewhere. The unit tests have the steps of the log in every order.
    for request in range(1 + list(OTHERS.values()).index(other), requests, requests // 3):
        held = Held(request)
        first = new_place(held.answer)
        second = new_place(name=first.name)
        thread = held.start(partial(export, first, 1, "run"))
        outcome = outcome_of(partial(export, second, other.number, other.run))
        held.finish(thread)

        case = f"{request}: {held.outcome}, {outcome}"
        assert outcome == "120" or (outcome == "DestinationInUseError" and other == OTHERS["another"]), case
        assert "120" in (held.outcome, outcome), case
        # The one that was held may find its staged objects gone.
        assert held.outcome in {"120", "DestinationInUseError", "DestinationReplacedError", "FileNotFoundError"}, case
        content = first.read("d.jsonl").splitlines()
        assert len({json.loads(line)["id"] for line in content}) == len(content) == 120, case
        # A run after them finds nothing in its way, and leaves no more than one that was never disturbed.
        assert export(new_place(name=first.name), 1, "the last") == "120", case
        assert published(first) == published(undisturbed), case


@others
def test_a_bulletin_between_the_requests_of_another_is_posted_once(
    new_place: Callable[..., Place],
    sandbox: SandboxServer,
    monkeypatch: pytest.MonkeyPatch,
    other: Other,
) -> None:
    connections = sandbox.connections()
    # Each request on S3; the clients of the others take long to connect.
    for request in itertools.count(1, 1 if new_place().cloud.scheme == "s3" else 3):
        held = Held(request)
        first = new_place(held.answer)
        second = new_place(name=first.name)
        # The request to the platform is one of those at which it is held.
        platform = Guard(int(sandbox.url.rpartition(":")[2]), held.answer, is_named=True)
        first.cloud.guards.append(platform)
        through = connections["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"]
        through = through.replace(sandbox.url, f"http://127.0.0.1:{platform.server_port}")
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT", through)
        text = f"held at {request}"
        thread = held.start(partial(post, first, 1, "run", text))
        ended = held.outcome
        outcome = outcome_of(partial(post, second, other.number, other.run, text))
        held.finish(thread)

        case = f"{request}: {held.outcome}, {outcome}"
        ids = {each["id"] for each in sandbox.state.bulletins if each["snippet"]["description"] == text}
        assert len(ids) == 1, case
        assert {held.outcome, outcome} & ids, case
        assert {held.outcome, outcome} - ids <= {"DestinationInUseError", "UncertainDeliveryError"}, case
        # Whoever comes later finds it posted.
        assert post(new_place(name=first.name), 1, "the last", text) in ids, case
        if ended:
            assert outcome in ids, case
            break
    assert request > 3
