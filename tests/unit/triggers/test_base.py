"""The waiting in the triggerer: what ends it, and what it never does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidArgumentError,
    MediaOpsError,
    ServiceUnavailableError,
    TemporaryError,
)
from airflow_provider_mediaops.triggers.base import WatchTrigger
from airflow_provider_mediaops.triggers.deferral import value_of
from airflow_provider_mediaops.watch import Done, Waiting, Watch
from tests.unit.log_lines import log_lines
from tests.unit.sensor_forms import a_day, first_event
from tests.unit.until import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.http.exchange import Ask, CallFlow
    from airflow_provider_mediaops.watch import Verdict

DOWN = ServiceUnavailableError("It is down.", status=503)


@dataclass
class ScriptedWatch(Watch):
    """Sees what it is told to see, look after look."""

    sights: Iterator[Verdict | MediaOpsError]

    def look(self, ask: Ask) -> CallFlow[Any]:
        sight = next(self.sights)
        if isinstance(sight, MediaOpsError):
            raise sight
        return sight
        yield


@dataclass(eq=False)
class HookWithoutService:
    """Carries out call flows that ask nothing."""

    opened: bool = False
    closed: bool = False
    fields: None = None
    client: Any = field(default_factory=lambda: HookWithoutService)
    ask: Any = None

    async def aservice(self) -> HookWithoutService:
        self.opened = True
        return self

    async def arun(self, flow: CallFlow[Verdict]) -> Verdict:
        try:
            next(flow)
        except StopIteration as stop:
            verdict: Verdict = stop.value
            return verdict
        raise AssertionError("it asks")

    def close(self) -> None:
        self.closed = True


class ScriptedTrigger(WatchTrigger):
    """Waits for what a script says."""

    hook: HookWithoutService
    script: Iterator[Verdict | MediaOpsError]

    def _make_hook(self) -> Any:
        return self.hook

    def _make_watch(self) -> ScriptedWatch:
        return ScriptedWatch(self.script)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have the pauses that are asked for, without waiting."""
    asked: list[float] = []

    async def asleep(seconds: float) -> None:
        asked.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", asleep)
    return asked


def scripted(*sights: Verdict | MediaOpsError, **arguments: Any) -> ScriptedTrigger:
    trigger = ScriptedTrigger(**{"conn_id": "service", "watch": {}, **a_day(), **arguments})
    trigger.script = iter(sights)
    trigger.hook = HookWithoutService()
    return trigger


class TestEnd:
    async def test_result_is_handed_to_the_task(self, pauses: list[float]) -> None:
        trigger = scripted(Waiting("no"), Done({"id": 7}))
        assert value_of(await first_event(trigger)) == {"id": 7}
        assert pauses == [60]
        assert trigger.hook.closed

    async def test_a_permanent_error_reaches_the_task_with_its_type(self) -> None:
        error = AuthenticationError("No.", status=401)
        trigger = scripted(error)
        with pytest.raises(AuthenticationError) as caught:
            value_of(await first_event(trigger))
        assert caught.value.to_dict() == error.to_dict()
        assert trigger.hook.closed

    async def test_a_watch_that_cannot_be_made_is_one_of_another_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trigger = scripted()

        def refuse() -> ScriptedWatch:
            raise InvalidArgumentError("threshold is a percentage")

        monkeypatch.setattr(trigger, "_make_watch", refuse)
        with pytest.raises(TemporaryError, match=r"Another version .*threshold is a percentage"):
            value_of(await first_event(trigger))

    @pytest.mark.parametrize("fault", [ValueError("s3cr3t"), KeyError("s3cr3t")])
    async def test_a_fault_of_this_program_is_retried_with_its_traceback_in_the_log(
        self, monkeypatch: pytest.MonkeyPatch, fault: Exception
    ) -> None:
        trigger = scripted()
        lines = log_lines(monkeypatch, type(trigger))

        async def fail(*_: object) -> None:
            raise fault

        monkeypatch.setattr(trigger, "_wait", fail)
        with pytest.raises(TemporaryError, match=rf"unexpected {type(fault).__name__}\.") as caught:
            value_of(await first_event(trigger))
        assert "s3cr3t" not in str(caught.value)
        assert lines == ["ERROR: The trigger ended with an unexpected error. (with a traceback)"]

    async def test_being_cancelled_closes_the_hook(self) -> None:
        trigger = scripted(Waiting("no"))
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: trigger.hook.opened)
        assert not trigger.hook.closed
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert trigger.hook.closed
