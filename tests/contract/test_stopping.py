"""
SIGTERM in each phase of each operator and sensor, as a worker gets it when its task is marked, cleared or moved.

After it nothing is sent, the process ends long before Airflow would kill it, and the next try resumes at once. The unit
tests of hooks, of storage and of the digest stop the same code in its other phases.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_mediaops.sandbox.faults import DelayFault, Fault, StatusFault
from airflow_provider_mediaops.sandbox.server import SandboxServer
from airflow_provider_mediaops.sandbox.state import Settings
from airflow_provider_mediaops.version_compat import HAS_RETRY_POLICY
from airflow_provider_mediaops.video.at_most_once import RECORD_KEY
from tests.contract.stopped_tasks import ISBNS, make
from tests.contract.task_forks import Ended, TaskFork, log_file
from tests.unit.loopback import deaf_port
from tests.unit.no_limit import NoLimit

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import RequestRecord

pytestmark = pytest.mark.long

LONG_SECONDS = 60
SLOW = 0.005
SERVICES = {"bulletin": "video", "bulletin with a journal": "video", "export": "video", "enrichment": "books"}
SERVICES |= {"capture": "cluster", "CPU sensor": "cluster"}
FAILS_AT_ONCE = "AirflowFailException"


@dataclass(frozen=True)
class Case:
    """
    A task, and the phase in which it is stopped.

    :param extra: of its connection, for the first try.
    :param requests: how many requests it has sent when it is stopped; the fewest, if ``several`` may be under way.
    :param resumed: how many requests the next try needs; None if the task is not tried again here.
    :param several: whether it may send more requests before it reads the first reply; how many, depends on the time.
    """

    name: str
    requests: int
    resumed: int | None
    faults: tuple[Fault, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    several: bool = False

    @property
    def operator(self) -> str:
        return self.name.partition(": ")[0]

    @property
    def phase(self) -> str:
        return self.name.partition(": ")[2]

    @property
    def service(self) -> Any:
        return SERVICES[self.operator]


def refused(service: Any, after: int = 0) -> tuple[Fault, ...]:
    return (StatusFault(service=service, status=429, retry_after=LONG_SECONDS, after=after),)


def slow(service: Any, after: int = 0, path: str | None = None, count: int = 1) -> tuple[Fault, ...]:
    return (
        DelayFault(service=service, seconds=LONG_SECONDS, point="before_reply", after=after, path=path, count=count),
    )


PAGES = 3
PATIENT = {"max_wait": 2 * LONG_SECONDS}
# A list takes half a minute at this rate: how many of its requests are sent before a reply is read depends on the time.
AT_LEISURE = {"requests_per_second": 0.4}
CASES = [
    Case("bulletin: connecting", 0, 1),
    Case("bulletin: request under way", 1, 0, slow("video")),
    Case("bulletin with a journal: connecting", 0, 1),
    Case("bulletin with a journal: request under way", 1, 0, slow("video")),
    Case("export: waiting out a 429", 2, PAGES - 1, refused("video", 1), PATIENT),
    Case("export: request under way", 2, PAGES - 1, slow("video", 1)),
    Case("export: publishing", PAGES, 0),
    Case("capture: waiting for a spike", 1, None),
    Case("capture: request under way", 2, 4, slow("cluster", 0, "hot_threads")),
    Case("capture: between captures", 4, None),
    Case("enrichment: waiting for the rate", 0, len(ISBNS), extra={"requests_per_second": SLOW}),
    Case("enrichment: request under way", 1, len(ISBNS), slow("books", count=len(ISBNS)), AT_LEISURE, several=True),
    Case("CPU sensor: between two looks", 1, None),
]


@dataclass
class World:
    """A case's service, and what its task does with it."""

    case: Case
    server: SandboxServer
    folder: Path

    @property
    def requests(self) -> list[RequestRecord]:
        return list(self.server.state.requests)

    def sent(self) -> int:
        """Count the requests that the service gets of a task that has ended, those included that it is yet to read."""
        for _ in range(2):
            # A busy server reads them later. It takes connections up in order, so it has read them before it answers.
            httpx.get(f"{self.server.url}/docs", timeout=240, trust_env=False).raise_for_status()
        return len(self.requests)

    def start(self, *, number: int = 1, host: str | None = None, **extra: Any) -> TaskFork:
        variable = f"AIRFLOW_CONN_MEDIAOPS_{self.case.service.upper()}_DEFAULT"
        connection = json.loads(self.server.connections()[variable])
        has_rate = self.case.service == "books" or "requests_per_second" in extra
        rates = {"rate_limit_store": f"sqlite:///{self.folder}/rates_{number}.db"} if has_rate else {}
        connection["extra"] = {**connection["extra"], **rates, **extra}
        connection["host"] = host or connection["host"]
        env = {variable: json.dumps(connection)}
        return TaskFork(partial(make, self.case.name, self.folder), self.folder, env, number=number)

    def has_begun(self) -> bool:
        """Return whether the task has come to its phase."""
        case = self.case
        if case.phase == "waiting for the rate":
            return has_reserved(self.folder / "rates_1.db")
        if case.phase == "connecting":
            return self.record() is not None
        if case.phase == "publishing":
            return (self.folder / case.phase).exists()
        if case.phase == "waiting out a 429":
            # The service has a record of its reply before the task has read it.
            return "Waiting 60" in self.log()
        requests = self.requests
        # The last one has its reply, unless that is what is waited for.
        answered = case.phase == "request under way" or all(each.status for each in requests)
        return len(requests) >= case.requests and answered

    def log(self) -> str:
        """Return what its tasks have logged."""
        return log_file(self.folder).read_text(errors="replace")

    def record(self) -> Any:
        """Return what the journal, or the task's state store, says of its bulletin."""
        if versions := sorted((self.folder / "journal").glob("*/[!.]*")):
            return json.loads(versions[-1].read_text())
        file = self.folder / "state.json"
        return json.loads(file.read_text() or "{}").get(RECORD_KEY) if file.exists() else None


def has_reserved(database: Path) -> bool:
    if not database.exists():
        return False
    try:
        with closing(sqlite3.connect(database, timeout=30)) as rates:
            return bool(rates.execute("SELECT count(*) FROM rate").fetchone()[0])
    except sqlite3.OperationalError:
        return False


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    case: Case = request.param
    with SandboxServer(settings=Settings(subscriptions=PAGES * 50)) as server:
        server.state.books_rate = NoLimit()
        for fault in case.faults:
            server.state.faults.arm(fault)
        yield World(case, server, tmp_path)


def each() -> pytest.MarkDecorator:
    # Their outcome is that of the task's state store.
    recorded = {"bulletin: connecting", "bulletin: request under way"}
    cases = [
        pytest.param(case, id=case.name, marks=[pytest.mark.airflow(">=3.3")] if case.name in recorded else [])
        for case in CASES
    ]
    return pytest.mark.parametrize("world", cases, indirect=True)


def stopped(world: World) -> Ended:
    """Stop the first try in its phase; return its end."""
    with ExitStack() as stack:
        host = None
        if world.case.phase == "connecting":
            host = f"http://127.0.0.1:{stack.enter_context(deaf_port())}"
        task = world.start(host=host, timeout=LONG_SECONDS, **world.case.extra)
        deadline = time.monotonic() + LONG_SECONDS
        while not world.has_begun():
            in_time = time.monotonic() < deadline and not task.has_ended
            assert in_time or world.has_begun(), world.log()[-3000:]
            time.sleep(0.01)
        task.stop()
        if world.case.phase == "publishing":
            (world.folder / "go on").touch()
        return task.ended()


@each()
def test_a_stopped_task_sends_nothing_more_and_the_next_try_resumes_at_once(world: World) -> None:
    case = world.case
    end = stopped(world)
    sent = world.sent()

    assert case.requests <= sent < (len(ISBNS) if case.several else case.requests + 1), world.requests
    if case.phase == "publishing":
        # What is under way on the disk is brought to its end.
        assert end.state == "success"
    else:
        assert end.error == "TaskStoppedError", world.log()[-3000:]
    if "journal" in case.operator:
        # Of what was not sent, nothing is left; of the other, the intent.
        assert (world.record() or {}).get("state") == (None if case.phase == "connecting" else "intended")
    if case.resumed is None:
        return
    world.server.state.faults.armed.clear()
    again = world.start(number=2).ended()
    assert world.sent() - sent == case.resumed
    if case.operator.startswith("bulletin") and case.phase == "request under way":
        # Below Airflow 3.3, Airflow's own exception ends the task.
        assert (again.state, again.error) == ("failed", "UncertainDeliveryError" if HAS_RETRY_POLICY else FAILS_AT_ONCE)
    else:
        assert again.state == "success", world.log()[-3000:]
