"""The service that fails, made-up time, and a guard that looks for secrets in everything that a cell leaves behind."""

from __future__ import annotations

import logging
import signal
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.hooks.base import ServiceHook
from airflow_provider_mediaops.notifications.base import ServiceNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sensors.base import ServiceSensor
from airflow_provider_mediaops.triggers.base import TaskTrigger
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from tests.certificates import make_certificate
from tests.faults import canaries
from tests.faults.actions import Desk, connection
from tests.faults.made_up_time import MadeUpTime, StillWaitingError
from tests.faults.outcomes import NOTHING, RECOVERED, WAITS
from tests.faults.services import Cell, Services, running
from tests.unit.conftest import new_rates as new_rates  # noqa: PLC0414 a fixture
from tests.unit.conftest import supervisor as supervisor  # noqa: PLC0414 a fixture
from tests.unit.loopback import Loopback, closed_port, deaf_port, http_reply

if TYPE_CHECKING:
    from tests.faults.actions import Action
    from tests.faults.behaviours import Fault
    from tests.unit.conftest import Supervisor
    from tests.unit.loopback import Peer

# It bounds a hang; no cell waits for it.
_LONGEST_SECONDS = 240
_CUT_SHORT = "The service cut the listing short"
# Their objects log by structlog, which Airflow sets up in its own processes only.
_WRITERS: tuple[type[Any], ...] = (
    *(ServiceHook, ServiceNotifier, ServiceSensor, TaskTrigger, HighCpuTrigger),
    *(EnrichIsbnsOperator, CaptureHotThreadsOperator, ExportSubscriptionsOperator, PostBulletinOperator),
    HotThreadsDigestOperator,
)


@dataclass
class Addresses:
    """
    Where connections lead.

    :param services: the services behind the server that answers.
    :param others: base addresses by the name of their fault.
    """

    services: Services
    service: str
    others: dict[str, str]

    def of(self, cell: Cell, fault_address: str = "") -> str:
        """Return the base address of a cell."""
        return self.others[fault_address] if fault_address else f"{self.service}{self.services.add(cell)}"


def _speak_no_tls(peer: Peer) -> None:
    peer.socket.recv(65536)
    peer.send(http_reply(400, b"This is HTTP."))


@pytest.fixture(scope="session")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Start the servers of the suite, once in each process of pytest."""
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = make_certificate("authority"), make_certificate("stranger")
    made = {
        "good": make_certificate("service", authority),
        "expired": make_certificate("service", authority, expired=True),
        "unknown": make_certificate("service", stranger),
    }
    files = {name: folder / f"{name}.pem" for name in made}
    for name, certificate in made.items():
        files[name].write_bytes(certificate.key_pem + certificate.pem)
    (folder / "authority.pem").write_bytes(authority.pem)
    services = Services()
    with ExitStack() as stack:
        plain = stack.enter_context(running(services))
        tls = {name: stack.enter_context(running(services, file)) for name, file in files.items()}
        no_tls = stack.enter_context(Loopback(_speak_no_tls))
        deaf = stack.enter_context(deaf_port())
        others = {
            "refused": f"http://127.0.0.1:{closed_port()}",
            "deaf": f"http://127.0.0.1:{deaf}",
            "no such name": "http://no-such-name.invalid",
            "not TLS": f"https://127.0.0.1:{no_tls.port}",
            "expired certificate": tls["expired"].base,
            "certificate of another name": tls["good"].base.replace("127.0.0.1", "localhost"),
            "unknown authority": tls["unknown"].base,
        }
        # One authority is loaded faster than those of the machine.
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("REQUESTS_CA_BUNDLE", str(folder / "authority.pem"))
        yield Addresses(services, plain.base, others)


@pytest.fixture(autouse=True)
def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a report of hot threads waited for no longer than the connection and the request say."""
    monkeypatch.setattr("airflow_provider_mediaops.cluster.query._MARGIN", 0.0)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> MadeUpTime:
    """Have pauses that are over at once."""
    time = MadeUpTime()
    time.install(monkeypatch)
    return time


@dataclass
class Guard:
    """Everything that a cell leaves behind."""

    witness: canaries.Witness
    folder: Path
    texts: list[str] = field(default_factory=list)

    def see(self, value: Any) -> None:
        """Look at a value that a user, Airflow's database or a page may show."""
        self.texts += canaries.texts_of(value)

    def see_error(self, error: BaseException) -> None:
        """Look at an error with its traceback, its causes and its fields."""
        self.texts += ("".join(traceback.format_exception(error)), str(error), repr(error))
        self.see(getattr(error, "__dict__", {}))

    def found(self, *printed: str) -> list[str]:
        """Return the leaks so far: what holds a secret, and in which form."""
        files = (f"{path}: {leak}" for path, text in canaries.files_below(self.folder) for leak in canaries.leaks(text))
        texts = (*self.witness.lines, *self.texts, *printed)
        return [*files, *(f"{text[:200]!r}: {leak}" for text in texts for leak in canaries.leaks(text))]

    def forget(self) -> None:
        """Forget everything, and remove the files."""
        self.witness.lines.clear()
        self.texts.clear()
        for path, _ in canaries.files_below(self.folder):
            path.unlink()


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Guard]:
    """Look for secrets in all that a cell logs, prints, writes, raises and returns."""
    witness = canaries.Witness()
    root = logging.getLogger()
    logger = logging.getLogger("mediaops.faults")
    for owner in _WRITERS:
        monkeypatch.setattr(owner, "log", logger, raising=False)
    levels = {name: logging.getLogger(name).level for name in ("", "mediaops.faults", "urllib3")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    # Airflow's own handler would print each line a second time.
    handlers, root.handlers = root.handlers, [witness]
    made = Guard(witness, tmp_path)
    try:
        yield made
    finally:
        root.handlers = handlers
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    assert not made.found(*capfd.readouterr())


@dataclass(frozen=True)
class Outcome:
    """
    How an action ended.

    :param error: the name of the error's class; empty if the action succeeded, and where no class is shown.
    :param message: what the error, the log or the page says.
    """

    error: str = ""
    message: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the action did what it is for."""
        return str(self) in (RECOVERED, NOTHING) or self.error == "Warning"

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error or RECOVERED

    def is_as(self, expected: str, *, shows_class: bool = True) -> None:
        """
        Compare with an outcome of the table.

        :param shows_class: whether the class of an error can be seen.
        """
        cls, _, advice = expected.partition(": ")
        assert advice in self.message, f"{expected!r} is due, not: {self}"
        if shows_class or not advice:
            assert (self.error or RECOVERED) == cls, f"{expected!r} is due, not: {self}"


@dataclass
class Bench:
    """What the test of a cell needs."""

    addresses: Addresses
    supervisor: Supervisor
    made_up: MadeUpTime
    guard: Guard
    desk: Desk

    def connect(self, action: Action, cell: Cell, fault: Fault | None = None, **fields: Any) -> None:
        """
        Let the connection of an action lead to its cell.

        :param fault: the fault, if it is one of the address or of time.
        """
        address = self.addresses.of(cell, fault.address if fault else "")
        cell.exceed_limits = self.made_up.exceed_limits
        made = connection(action.service, address, slow=fault.slow if fault else "", auth=action.auth, **fields)
        self.supervisor.connect(f"mediaops_{action.service}_default", made)

    def outcome_of(self, action: Action) -> Outcome:
        """Carry the action out, and return how it ended; the guard sees all of it."""
        logged = len(self.guard.witness.lines)
        try:
            value = action.run(self.desk)
        except StillWaitingError:
            return Outcome(WAITS)
        except Exception as error:  # noqa: BLE001 any error is the outcome
            self.guard.see_error(error)
            # Below Airflow 3.3, a permanent error is the cause of Airflow's own.
            cause = error.__cause__ if isinstance(error.__cause__, MediaOpsError) else error
            if isinstance(cause, MediaOpsError):
                self.guard.see(cause.to_dict())
            return Outcome(type(cause).__name__, str(cause))
        finally:
            self.guard.see(self.desk.rows)
        self.guard.see(value)
        if action.shown == "answered":
            works, said = value
            return Outcome() if works else Outcome(message=said)
        if warnings := [line for line in self.guard.witness.lines[logged:] if _CUT_SHORT in line]:
            return Outcome("Warning", warnings[0])
        return Outcome(NOTHING) if value is None and action.name == "key_usage" else Outcome()


@pytest.fixture
def bench(
    addresses: Addresses, supervisor: Supervisor, made_up: MadeUpTime, guard: Guard, desk: Desk
) -> Iterator[Bench]:
    """Have what the test of a cell needs, and end a cell that hangs."""

    def hang(*_: object) -> None:
        raise AssertionError(f"The cell has not ended after {_LONGEST_SECONDS} seconds.")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(_LONGEST_SECONDS)
    yield Bench(addresses, supervisor, made_up, guard, desk)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Have a folder for the files of a task."""
    folder = tmp_path / "out"
    folder.mkdir()
    return Desk(folder, [])
