"""Threads from which Airflow can be asked."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import async_to_sync

from airflow_provider_mediaops.hooks.threads import import_in_thread, in_thread, to_its_end
from tests.unit.until import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def test_the_event_loop_goes_on() -> None:
    done = threading.Event()

    def wait() -> str:
        return f"done: {done.wait(240)}"

    waiting = asyncio.ensure_future(in_thread(wait))
    await asyncio.sleep(0)
    done.set()
    assert await waiting == "done: True"


async def test_action_in_a_thread_asks_airflow_on_the_event_loop_that_began_it() -> None:
    """As a triggerer's channel does on Airflow 3.1."""

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def ask() -> asyncio.AbstractEventLoop:
        return async_to_sync(loop)()

    assert await in_thread(ask) is asyncio.get_running_loop()


async def test_error_of_an_action_in_a_thread_is_raised() -> None:
    def fail() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        await in_thread(fail)


def _cancel_once(running: asyncio.Task[str]) -> None:
    running.cancel("by a user")


def _cancel_all(running: asyncio.Task[str]) -> None:
    """Cancel as an event loop does that shuts down: also what waits for the thread in the name of the task."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel("by a user" if task is running else None)


class TestCancelled:
    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize("cancel", [_cancel_once, _cancel_all])
    async def test_an_action_ends_before_the_task_that_waits_for_it(
        self, cancel: Callable[[asyncio.Task[str]], None], times: int
    ) -> None:
        begun, may_end, done = threading.Event(), threading.Event(), []

        def write() -> str:
            begun.set()
            assert may_end.wait(240)
            done.append("written")
            return "result"

        async def wait() -> str:
            try:
                return await to_its_end(write)
            except asyncio.CancelledError as error:
                # Airflow reads it in the task itself; on Python 3.10 another task would not see it.
                done.append(str(error))
                raise

        running = asyncio.ensure_future(wait())
        await until(begun.is_set)
        for _ in range(times):
            cancel(running)
            await asyncio.sleep(0.01)
        assert not running.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert done == ["written", "by a user"]

    @pytest.mark.parametrize("cancel", [_cancel_once, _cancel_all])
    async def test_an_action_that_no_thread_has_begun_is_done_once(
        self, cancel: Callable[[asyncio.Task[str]], None]
    ) -> None:
        may_begin, done = threading.Event(), []

        def write() -> str:
            done.append("written")
            return "result"

        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        others = [asyncio.ensure_future(in_thread(lambda: may_begin.wait(240)))]
        await asyncio.sleep(0.01)
        running = asyncio.ensure_future(to_its_end(write))
        await asyncio.sleep(0.01)
        for _ in range(3):
            cancel(running)
            await asyncio.sleep(0.01)
        assert not running.done()
        may_begin.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait(others)
        assert done == ["written"]

    async def test_an_error_of_the_action_is_not_heard_of(self, caplog: pytest.LogCaptureFixture) -> None:
        begun, may_end = threading.Event(), threading.Event()

        def fail() -> str:
            begun.set()
            assert may_end.wait(240)
            raise OSError("no room")

        running = asyncio.ensure_future(to_its_end(fail))
        await until(begun.is_set)
        running.cancel()
        await asyncio.sleep(0.01)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        del running
        gc.collect()
        assert not caplog.records


async def test_an_error_is_gone_once_it_is_handled() -> None:
    """Its traceback holds what the callers hold: a triggerer would keep that until its garbage is collected."""

    class NoRoomError(OSError):
        """One that can be referred to weakly."""

    seen: list[weakref.ref[NoRoomError]] = []

    def fail() -> None:
        error = NoRoomError()
        seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    gc.disable()
    try:
        with suppress(NoRoomError):
            await to_its_end(fail)
        # The thread goes on for a moment.
        await until(lambda: seen[0]() is None)
    finally:
        gc.enable()


class TestImporting:
    async def test_a_module_is_imported_in_another_thread_and_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "imported_in_thread.py").write_text("import threading\nthread = threading.current_thread()\n")
        await import_in_thread("imported_in_thread")
        first = sys.modules.pop("imported_in_thread")
        assert first.thread is not threading.current_thread()
        await import_in_thread("imported_in_thread")
        assert "imported_in_thread" not in sys.modules

    async def test_module_that_another_thread_is_still_importing_is_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It stands in sys.modules by then: an import of it on the event loop would block the loop."""
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "imported_slowly.py").write_text(
            "import sys\nsys.began.set()\nsys.may_end.wait(240)\nready = True\n"
        )
        began, may_end = threading.Event(), threading.Event()
        monkeypatch.setattr(sys, "began", began, raising=False)
        monkeypatch.setattr(sys, "may_end", may_end, raising=False)
        first = asyncio.ensure_future(import_in_thread("imported_slowly"))
        assert await asyncio.to_thread(began.wait, 240)
        assert "imported_slowly" in sys.modules
        second = asyncio.ensure_future(import_in_thread("imported_slowly"))
        await asyncio.sleep(0.01)
        assert not second.done()
        may_end.set()
        await asyncio.gather(first, second)
        assert sys.modules["imported_slowly"].ready

    async def test_import_that_fails_is_tried_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="imported_never"):
                await import_in_thread("imported_never")
