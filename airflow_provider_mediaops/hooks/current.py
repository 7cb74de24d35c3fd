"""The hook of a long wait, which is made anew once its connection was edited."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
from airflow_provider_mediaops.hooks.threads import to_its_end
from airflow_provider_mediaops.http import runner
from airflow_provider_mediaops.http.exchange import Blocking, Returned, Wait, advance, relay
from airflow_provider_mediaops.waiting import LATE_SECONDS, LONGEST_WITHOUT_NEWS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from airflow_provider_mediaops.hooks.base import Service, ServiceHook
    from airflow_provider_mediaops.http.exchange import Ask, Call, CallFlow, Request, Response

T = TypeVar("T")


class CurrentHook:
    """
    The hook of a long wait, with the connection as it is now.

    The connection is read again before a reading, if that was five minutes ago or :meth:`read_connection_first` was
    called, and after a reading that failed: if it was edited meanwhile, another reading follows at once. A connection
    that cannot be read again, because Airflow or a secrets backend does not answer, stays as it was.

    :param make: makes the hook; nothing is fetched yet.
    :param monotonic: returns seconds that never run backwards.
    """

    def __init__(self, make: Callable[[], ServiceHook], monotonic: Callable[[], float]) -> None:
        self._make = make
        self.monotonic = monotonic
        self._hook = make()
        self._read_at = monotonic()

    def read_connection_first(self) -> None:
        """Let the next reading read the connection again before it begins."""
        self._read_at = float("-inf")

    def reading(
        self,
        look: Callable[[Ask], CallFlow[T]],
        deadline: float = float("inf"),
        gave_up: Callable[[Wait], None] | None = None,
    ) -> CallFlow[T | None]:
        """
        Make a reading, in a worker or on an event loop; None if it would have had to wait beyond the deadline.

        ``gave_up`` is called with a wait that would have ended later.

        :raises MediaOpsError: if the service fails.
        """
        if self.monotonic() - self._read_at >= LONGEST_WITHOUT_NEWS_SECONDS:
            yield from self._read_again(self._hook)
        hook = self._hook

        def limited(service: Service) -> CallFlow[T | None]:
            return _until(deadline, look(service.ask), self.monotonic, gave_up)

        try:
            return (yield from self._step(hook, limited))
        except MediaOpsError:
            if not (yield from self._read_again(hook)):
                raise
        return (yield from self._step(self._hook, limited))

    def run(self, flow: CallFlow[T]) -> T:
        """Carry out a wait in a worker; requests of its own go over the session as it is then."""
        return runner.run(flow, self._send, self._sleep)

    def ask(self, call: Call[T]) -> CallFlow[T]:
        """Return a call flow of one call beside the readings, for :meth:`run`."""
        return (yield from self._hook.service.client.ask(call))

    async def aask(self, call: Call[T]) -> T:
        """
        Make one call beside the readings on an event loop.

        :raises MediaOpsError: the last error met, typed.
        """
        return await self._arun(self._hook, lambda service: service.client.ask(call))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the session."""
        self._hook.close()

    def _send(self, request: Request) -> Response:
        return self._hook.send(request)

    def _sleep(self, wait: Wait) -> None:
        self._hook.sleep(wait)

    def _step(self, hook: ServiceHook, flow: Callable[[Service], CallFlow[T]]) -> CallFlow[T]:
        result: T = yield Blocking(lambda: hook.run(flow(hook.service)), lambda: self._arun(hook, flow))
        return result

    async def _arun(self, hook: ServiceHook, flow: Callable[[Service], CallFlow[T]]) -> T:
        return await hook.arun(flow(await hook.aservice()))

    def _read_again(self, hook: ServiceHook) -> CallFlow[bool]:
        """Return whether the connection was edited since a hook read it; then use it from now on."""
        self._read_at = self.monotonic()
        if hook.fields is None:
            # It has not been read yet, or cannot be used: the next reading reads it.
            return False
        fetch = partial(hook.get_connection, hook.conn_id)
        try:
            connection = yield Blocking(fetch, lambda: to_its_end(fetch))
        except Exception:  # noqa: BLE001 a connection that is not found may be in a secrets backend that is away
            return False
        if hook is self._hook and _fields_of(connection, hook.conn_type) != hook.fields:
            # Credentials that are leased differ at each fetch: each failing reading replaces the hook.
            self._hook = self._make()
            # A request of another call that is under way goes on: its connection is closed after its reply.
            hook.close()
        return hook is not self._hook


async def carried_out(flow: CallFlow[T]) -> T:
    """Carry out a wait in the triggerer: it sends nothing itself, since its readings are steps of their own."""
    return await runner.arun(flow, _send_nothing, in_thread=to_its_end)


async def _send_nothing(request: Request) -> NoReturn:
    raise RuntimeError(f"{request.method} {request.path} is no step of a wait.")


def _fields_of(connection: Any, conn_type: str) -> ConnectionFields | None:
    try:
        return ConnectionFields.of(connection, conn_type)
    except InvalidConnectionError:
        # The next reading says why.
        return None


@dataclass(frozen=True, slots=True)
class OwnReadings(Generic[T]):
    """
    The readings of a wait that shares them with no other.

    :param hook: the hook.
    :param look: returns the call flow of a reading.
    :param longest_wait: the longest time for which a reading may wait, for example for its turn in the key's rate.
    :param gave_up: called with a wait that would have been longer.
    """

    hook: CurrentHook
    look: Callable[[Ask], CallFlow[T]]
    longest_wait: float = float("inf")
    gave_up: Callable[[Wait], None] | None = None

    def next(self, pause: float, deadline: float) -> CallFlow[T | None]:
        """Wait, then make a reading; see :class:`airflow_provider_mediaops.waiting.Readings`."""
        if pause:
            # No reason: a line in the log for each pause of a long wait would hide the changes.
            yield Wait(pause)
        limit = min(deadline + LATE_SECONDS, self.hook.monotonic() + self.longest_wait)
        return (yield from self.hook.reading(self.look, limit, self.gave_up))


def _until(
    deadline: float,
    flow: CallFlow[T],
    monotonic: Callable[[], float],
    gave_up: Callable[[Wait], None] | None = None,
) -> CallFlow[T | None]:
    """
    Keep a reading from waiting past the time limit of a wait, and from logging each retry.

    It ends with None before the first wait that would end after the deadline; ``gave_up`` is called with that wait.
    """
    try:
        step = advance(flow)
        while not isinstance(step, Returned):
            if isinstance(step, Wait):
                if step.seconds > deadline - monotonic():
                    if gave_up:
                        gave_up(step)
                    return None
                if step.is_retry:
                    # The wait itself logs once that readings fail.
                    step = Wait(step.seconds)
            step = yield from relay(flow, step)
        return step.value
    finally:
        flow.close()
