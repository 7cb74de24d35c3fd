"""
Attempts of tasks in made-up time, each in a thread that a machine lets advance step by step.

A step is a call that changes something outside of the process: of the system, of an object store, or a request to a
service. Before each, an attempt pauses; there it can go on, fail, or die as by SIGKILL: nothing after it changes
anything.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import os
import tempfile
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import asgiref.sync

from airflow_provider_mediaops.hooks.base import Service, ServiceHook
from airflow_provider_mediaops.http.exchange import Clock
from airflow_provider_mediaops.http.request_threads import RequestThreads
from airflow_provider_mediaops.http.settings import TransportSettings
from airflow_provider_mediaops.storage import dataset as storage_dataset
from airflow_provider_mediaops.storage import local, log
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.object_store import StoreBackend
from airflow_provider_mediaops.triggers import dataset
from tests.unit.paced import Paced
from tests.unit.storage.dying import OPEN_FILES, PATHS, DeathError
from tests.unit.storage.places import START
from tests.unit.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    import pytest

    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Request, Response, Wait

_STEP_SECONDS = 0.1


class _Current(threading.local):
    """The clock and the attempt of this thread."""

    now: MadeUpClock | None = None
    attempt: Attempt | None = None


_current = _Current()


@dataclass
class MadeUpClock:
    """
    The time of one example, which steps and waits move on.

    :param now: seconds since 1970.
    :param on_rename: called with the new path of a file on the local disk that was renamed.
    :param on_note: called when an attempt has noted which file it is to replace.
    """

    now: float = START
    on_rename: Callable[[Path], None] = field(default=lambda _: None)
    on_note: Callable[[], None] = field(default=lambda: None)

    def sleep(self, wait: Wait) -> None:
        self.now += wait.seconds


class Attempt(Paced):
    """
    One attempt at a task.

    :param client: the client of the service that it uses.
    :param act: does the task's work, and returns its result.
    """

    def __init__(
        self,
        clock: MadeUpClock,
        task: str,
        client: Client,
        send: Callable[[Request], Response],
        act: Callable[[], Any],
    ) -> None:
        self.clock, self.task, self.client, self.send, self._act = clock, task, client, send, act
        self.result: Any = None
        #: Whether the death cuts a write in half.
        self.tears = False
        #: Whether it was told to end, and had the time to let go of what it holds.
        self.was_cancelled = False
        #: Whether it waits, and holds neither a destination nor a lease meanwhile.
        self.holds_nothing = False
        super().__init__()

    def work(self) -> None:
        _current.attempt, _current.now = self, self.clock
        self.result = self._act()

    def may_wait(self, _seconds: float) -> bool:
        """Return whether its event loop may wait so long now."""
        return True

    @property
    def succeeded(self) -> bool:
        """Whether it came to its end."""
        return self.ended and self.outcome is None and not self.is_dead


def take_turn() -> str:
    """
    Pause before a step, if this thread is an attempt. Each step takes some time.

    :returns: what goes wrong at the step: ``refused``, ``reply lost``, or nothing.
    """
    fault = _current.attempt.pause() if _current.attempt else ""
    if _current.now:
        _current.now.now += _STEP_SECONDS
    return fault


def current_attempt() -> Attempt:
    """Return the attempt that this thread is."""
    assert _current.attempt
    return _current.attempt


def store_turn() -> bool:
    """Pause before a request to a store; return whether its reply is lost."""
    fault = take_turn()
    if fault == "refused":
        raise ConnectionError("the network is gone")
    return fault == "reply lost"


def seconds() -> float:
    """Return the made-up time of this thread."""
    return _current.now.now if _current.now else START


def _now() -> datetime:
    return datetime.fromtimestamp(seconds(), timezone.utc)


#: The clock of clients and deliveries; chance lies in the middle.
CLOCK = Clock(monotonic=seconds, now=_now, uniform=lambda low, high: (low + high) / 2)


def make_up_time(patch: pytest.MonkeyPatch, scratch: Path) -> None:
    """Let datasets, clients and files be of the made-up time, and each call that changes a file be a step."""
    patch.setattr(tempfile, "tempdir", str(scratch))
    patch.setattr(Dataset.__init__, "__kwdefaults__", {**(Dataset.__init__.__kwdefaults__ or {}), "clock": seconds})
    # After five seconds a commit is synced as well, which is a step more.
    patch.setattr(local, "time", SimpleNamespace(monotonic=seconds, sleep=_wait_for_the_lock))
    patch.setattr(log, "time", SimpleNamespace(monotonic=seconds))
    # Of two claims with one number the later one is in force, so that an example comes out the same each time.
    numbers = itertools.count()
    patch.setattr(log, "secrets", SimpleNamespace(token_hex=lambda _: f"{next(numbers):08x}"))
    # Each commit is one that a death cannot take back; files have the time of the system.
    patch.setattr(StoreBackend, "hold_seconds", 0.0)
    patch.setattr(storage_dataset, "_STALE_SECONDS", math.inf)
    for kind in (LocalBackend, StoreBackend):
        patch.setattr(kind, "read", _noting(kind.read))
    patch.setattr(Clock.__init__, "__defaults__", (CLOCK.monotonic, CLOCK.now, CLOCK.uniform))
    for place, names in ((os, (*OPEN_FILES, "link")), (Path, PATHS)):
        for name in names:
            call = _stamped if name == "fsync" else getattr(place, name)
            patch.setattr(place, name, _step(call, is_write=name == "pwrite"))
    patch.setattr(os, "open", _creating(os.open))
    patch.setattr(Path, "replace", _noted(Path.replace))


def use_made_up_services(patch: pytest.MonkeyPatch) -> None:
    """Let the hooks of attempts ask the services of the model, and wait in the made-up time."""
    patch.setattr(ServiceHook, "service", property(lambda _: _service()))
    patch.setattr(ServiceHook, "_session", property(lambda _: SimpleNamespace(send=current_attempt().send)))
    patch.setattr(ServiceHook, "sleep", lambda _, wait: current_attempt().clock.sleep(wait))
    patch.setattr(ServiceHook, "aservice", _aservice)
    patch.setattr(RequestThreads, "send", lambda _threads, _transport, _user, request: _asend(request))
    patch.setattr(asgiref.sync, "sync_to_async", _at_once)
    # A trigger that finds its destination in use tries again. Each try takes steps, and shows nothing new.
    patch.setattr(dataset, "_RETRY_SECONDS", 60.0)


def _service() -> Service:
    client = current_attempt().client
    return Service(client, TransportSettings(), client.ask)


async def _aservice(hook: ServiceHook) -> Service:
    return hook.service


async def _asend(request: Request) -> Response:
    await asyncio.sleep(_STEP_SECONDS)
    return current_attempt().send(request)


def _at_once(action: Callable[[], Any], **_: Any) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Take the place of a function that runs actions in threads: attempts have one thread each."""

    async def act() -> Any:
        return action()

    return act


class AttemptLoop(VirtualTimeLoop):
    """An event loop in the time of the current attempt."""

    @property
    def now(self) -> float:
        return current_attempt().clock.now

    @now.setter
    def now(self, seconds: float) -> None:
        clock = current_attempt().clock
        if not current_attempt().may_wait(seconds - clock.now):
            return
        # So many seconds since 1970 are rounded, which must not keep the time from coming.
        clock.now = math.nextafter(max(seconds, clock.now), math.inf)


def _step(call: Callable[..., Any], *, is_write: bool) -> Callable[..., Any]:
    def step(*arguments: Any, **options: Any) -> Any:
        try:
            fault = take_turn()
        except DeathError:
            attempt = _current.attempt
            if is_write and attempt and attempt.tears:
                attempt.tears = False
                descriptor, data, offset = arguments
                call(descriptor, bytes(data)[: len(data) // 2], offset)
            raise
        if fault:
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*arguments, **options)

    return step


def _stamped(descriptor: int) -> None:
    """Set the time of a file to the made-up time, in place of a sync: no power fails here."""
    if _current.now:
        os.utime(descriptor, (seconds(), seconds()))


def _creating(call: Callable[..., int]) -> Callable[..., int]:
    create = _step(call, is_write=False)

    def opened(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if not (flags & os.O_CREAT and _current.now):
            return call(path, flags, *arguments, **options)
        descriptor: int = create(path, flags, *arguments, **options)
        _stamped(descriptor)
        return descriptor

    return opened


def _wait_for_the_lock(_seconds: float) -> None:
    take_turn()


def _noting(read: Callable[[Any, str], bytes | None]) -> Callable[[Any, str], bytes | None]:
    def noting(backend: Any, name: str) -> bytes | None:
        content = read(backend, name)
        # The last that an attempt reads before it begins.
        if name == "manifest.json" and _current.now:
            _current.now.on_note()
        return content

    return noting


def _noted(rename: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
    def replace(self: Path, target: Path) -> Path:
        renamed = rename(self, target)
        if _current.now:
            _current.now.on_rename(target)
        return renamed

    return replace
