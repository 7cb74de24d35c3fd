"""
The base class of the three hooks: it fetches the connection lazily, and sends over one pooled session.

A wait may be long, so its readings are with the connection as it is then: :meth:`ServiceHook.reading`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_provider_mediaops.arguments import read_identifier
from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError, TemporaryError
from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
from airflow_provider_mediaops.hooks.threads import import_in_thread, to_its_end
from airflow_provider_mediaops.http import runner
from airflow_provider_mediaops.http.exchange import Blocking, Wait, until
from airflow_provider_mediaops.http.reply import plain_text
from airflow_provider_mediaops.http.request_threads import LONG_JOBS, SHORT_REQUESTS
from airflow_provider_mediaops.http.stop import Stop
from airflow_provider_mediaops.version_compat import AirflowNotFoundException
from airflow_provider_mediaops.waiting import LATE_SECONDS, LONGEST_WITHOUT_NEWS_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from airflow_provider_mediaops.books.api import KeyUsage
    from airflow_provider_mediaops.hooks.connection.warnings import ConnectionWarning
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Ask, Call, CallFlow, Request, Response
    from airflow_provider_mediaops.http.request_threads import RequestThreads
    from airflow_provider_mediaops.http.settings import TransportSettings
    from airflow_provider_mediaops.http.transport import Transport

T = TypeVar("T")

# The modules that every call flow on an event loop imports.
_RUN_TIME_MODULES = (
    "airflow_provider_mediaops.hooks.metrics",
    "airflow_provider_mediaops.http.client",
    "airflow_provider_mediaops.http.transport",
    "asgiref.sync",
)
# The edits of a connection during one call. Credentials that are leased differ whenever they are read.
_MOST_EDITS = 5
# The maximum length of the message on the connection page, in characters.
_MAX_ANSWER_LENGTH = 1_000
_BRACKETS_TO_PARENTHESES = str.maketrans("[]", "()")
# If many tasks use one key, every request waits. Shorter waits are not logged, and one for the same reason as the last
# only after this time.
_SHORTEST_LOGGED_SECONDS = 2.0
_LOGGED_AGAIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """
    The service that a connection describes.

    :param client: its client.
    :param transport: the settings of the sessions.
    :param ask: makes call flows of single calls: the client's own, or one around it that checks refusals of the service
        or chooses what is measured. Only what does that by itself, such as a list of books, asks the client.
    """

    client: Client
    transport: TransportSettings
    ask: Ask


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """
    What the check of a connection found.

    :param message: sentences that say that it works, or name the fault and the correction; free of secrets.
    :param works: whether it works, and no field is misspelt.
    :param quota: the key's quota; None if the service has no call for it, or the connection does not work.
    :param version: the product and version of the service; None if it does not say.
    :param version_problem: why the version is not known, if the service was asked and did not say.
    """

    message: str
    works: bool = True
    quota: KeyUsage | None = None
    version: str | None = None
    version_problem: str | None = None


class ServiceHook(BaseHook):
    """
    A client of one service, made from an Airflow connection when it is first used.

    A hook is a context manager, and holds one pooled session until it is closed. Its methods block. On an event loop,
    :meth:`arun` and :meth:`astream` send over the same session from threads.

    :param conn_id: the connection's id.
    :raises InvalidArgumentError: if it is blank or no text.
    """

    #: The modules that the hook's methods import: on an event loop, a thread imports them before the first call.
    run_time_modules: ClassVar[tuple[str, ...]] = ()
    conn_type: ClassVar[str]
    conn_name_attr: ClassVar[str]
    default_conn_name: ClassVar[str]
    hook_name: ClassVar[str]

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = read_identifier(self.conn_name_attr, conn_id)
        self._connection: Any = None
        #: The fields of the connection that was read; None until then, and if it cannot be used.
        self.fields: ConnectionFields | None = None
        self._service: Service | None = None
        self._transport: Transport | None = None
        # When the connection was last read for a wait, by the clock of the wait.
        self._read_at = float("-inf")
        # Several threads may need the service, or send, for the first time.
        self._fetching = threading.Lock()
        self._opening = threading.Lock()
        # Secrets of the connection that Airflow does not mask by itself.
        self._new_secrets: list[str] = []
        self._warnings: tuple[ConnectionWarning, ...] = ()
        self._logged_reason, self._logged_at = "", 0.0
        self._stop = Stop()

    def stopped_by(self, stop: Stop) -> Self:
        """
        Let a task end what this hook does in its worker.

        :param stop: whether the task is to end; then nothing more is sent, and waits end.
        :returns: this hook, before its first call.
        """
        self._stop = stop
        return self

    @abstractmethod
    def _configure(self, fields: ConnectionFields) -> Service:
        """Make the service from the connection's fields; raise InvalidConnectionError for one that cannot be used."""

    @abstractmethod
    def _probe(self, client: Client) -> CallFlow[ConnectionCheck]:
        """
        Make the cheapest request that shows whether the connection works.

        The client asks even if the key's quota is recorded as exhausted. If the service answers, the quota is restored
        for all who use the key.

        :param client: the client, which asks each host once.
        :returns: a call flow whose result has one sentence for the connection page, and the key's quota.
        """

    def _version(self, client: Client) -> CallFlow[str | None]:
        """
        Ask a service that works for its version.

        :param client: the client, which asks each host once.
        :returns: a call flow whose result is the product and version; None if there is no call for it.
        """
        yield from ()
        return None

    @property
    def service(self) -> Service:
        """
        The service that the connection describes. The connection is fetched at first use.

        :raises InvalidConnectionError: if a field of the connection cannot be used.
        """
        if self._service is None:
            with self._fetching:
                # Another thread may have fetched it meanwhile.
                self._service = self._service or self._fetched()  # type: ignore[redundant-expr]
        return self._service

    def _fetched(self) -> Service:
        from airflow_provider_mediaops.hooks.metrics import use_airflow_metrics

        use_airflow_metrics()
        try:
            connection = self._connection or self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            raise InvalidConnectionError(
                f"There is no connection {self.conn_id!r}: create one of type {self.conn_type}."
            ) from None
        service = self._service_of(connection)
        while self._new_secrets:
            self._mask(self._new_secrets.pop())
        return service

    async def aservice(self) -> Service:
        """Return the service without blocking the event loop."""
        service = self._service
        if service is None:
            await import_in_thread(*_RUN_TIME_MODULES, *self.run_time_modules)
            # Airflow 3.1 takes an answer that nobody has read for the answer to the next question.
            service = await to_its_end(lambda: self.service)
        return service

    def get_conn(self) -> Self:
        """
        Return the hook itself: it is the client, and holds the session.

        A plain HTTP session would get round the limits, retries and rate of the connection.

        :raises InvalidConnectionError: if a field of the connection cannot be used.
        """
        _ = self.service
        return self

    def ask(self, call: Call[T]) -> T:
        """
        Make one call, with the time limits, retries and rate of the connection.

        :param call: the call.
        :returns: its result.
        :raises MediaOpsError: the last error met, typed.
        """
        return self.run(self.asking(call))

    def asking(self, call: Call[T]) -> CallFlow[T]:
        """Return :meth:`ask` as a call flow; if the connection is edited meanwhile, a call that may be repeated is."""
        edits = 0
        while True:
            service = yield from self.current_service()
            try:
                return (yield from service.ask(call))
            except TemporaryError:
                # A reading of another trigger has found the edit, and replaced the session.
                if edits == _MOST_EDITS or not (service.client.is_replaced and call.request.is_retried):
                    raise
            edits += 1

    def current_service(self) -> CallFlow[Service]:
        """Return the service, as a step of a call flow: the connection may have to be fetched."""
        service: Service = yield Blocking(lambda: self.service, self.aservice)
        return service

    def read_connection_first(self) -> None:
        """Let the next reading of a wait read the connection again before it begins."""
        self._read_at = float("-inf")

    def reading(
        self,
        look: Callable[[Ask], CallFlow[T]],
        monotonic: Callable[[], float],
        deadline: float = float("inf"),
    ) -> CallFlow[T]:
        """
        Make a reading of a long wait, with the connection as it is now.

        The connection is read again before a reading, if that was five minutes ago or :meth:`read_connection_first`
        was called, and after a reading that failed: if it was edited meanwhile, another reading follows at once. A
        connection that cannot be read again, because Airflow or a secrets backend does not answer, stays as it was.

        :param look: returns the call flow of a reading.
        :param monotonic: the clock of the wait.
        :param deadline: the end of the time in which the reading may wait, for example for its turn in the key's rate.
        :raises MediaOpsError: if the service fails, or the reading would have to wait for longer.
        """
        if monotonic() - self._read_at >= LONGEST_WITHOUT_NEWS_SECONDS:
            yield from self._was_edited(self._service, monotonic)
        service = yield from self.current_service()
        try:
            return (yield from until(deadline, look(service.ask), monotonic))
        except MediaOpsError:
            if not (yield from self._was_edited(service, monotonic)):
                raise
        service = yield from self.current_service()
        return (yield from until(deadline, look(service.ask), monotonic))

    def _was_edited(self, service: Service | None, monotonic: Callable[[], float]) -> CallFlow[bool]:
        """Return whether the connection was edited since a service was made of it; then it is used from now on."""
        self._read_at = monotonic()
        if service is None:
            # It has not been read yet, or cannot be used: the next reading reads it.
            return False
        try:
            connection = yield Blocking(partial(self.get_connection, self.conn_id))
        except Exception:  # noqa: BLE001 a connection that is not found may be in a secrets backend that is away
            return False
        if self._service is service and _fields_of(connection, self.conn_type) != self.fields:
            # Credentials that are leased differ at each fetch: each failing reading has a session of its own.
            service.client.is_replaced = True
            self._service = None
            # A request of another call that is under way goes on: its connection is closed after its reply.
            self.close()
        return self._service is not service

    def run(self, flow: CallFlow[T]) -> T:
        """Carry out a call flow over this hook's session."""
        # The session is made with the first request: the call flow meets an error of the connection then.
        return runner.run(flow, self.send, self.sleep)

    def send(self, request: Request) -> Response:
        """Send one request over this hook's session; see :func:`airflow_provider_mediaops.http.runner.run`."""
        return self._session().send(request)

    def sleep(self, wait: Wait) -> None:
        """Carry out a wait of a call flow, which ends if the task is stopped."""
        self._log_wait(wait)
        self._stop.sleep(wait.seconds)

    def stream(self, flow: CallFlow[Any]) -> Iterator[Any]:
        """Carry out a call flow over this hook's session; yield its items as they come."""
        yield from runner.stream(flow, self.send, self.sleep)

    async def arun(self, flow: CallFlow[T], threads: RequestThreads = SHORT_REQUESTS) -> T:
        """
        Carry out a call flow on the event loop; its blocking steps come to their end in threads, whatever is cancelled.

        :param flow: the call flow, which gets the service by :meth:`current_service` or :meth:`asking`.
        :param threads: the threads that send.
        :returns: its result.
        """
        send = partial(self._send_in, threads)
        return await runner.arun(flow, send, self._asleep, in_thread=to_its_end)

    async def astream(self, flow: CallFlow[Any]) -> AsyncGenerator[Any, None]:
        """Carry out a call flow on the event loop; yield its items as they come."""
        send = partial(self._send_in, LONG_JOBS)
        async with aclosing(runner.astream(flow, send, self._asleep, in_thread=to_its_end)) as items:
            async for item in items:
                yield item

    async def _send_in(self, threads: RequestThreads, request: Request) -> Response:
        return await threads.send(self._session(), self.conn_id, request)

    def test_connection(self) -> tuple[bool, str]:
        """
        Test the connection; the hosts are asked in turn until one answers.

        Airflow calls this for the button in the user interface and for ``airflow connections test``.

        :returns: whether it works and no field is misspelt, and sentences that say so or name the fault and the
            correction.
        """
        found = self._test()
        return found.works, found.message

    def check(self) -> ConnectionCheck:
        """
        Test the connection as :meth:`test_connection` does, and ask for the version of the service.

        :returns: what was found; a connection that does not work is not an error.
        """
        return self._test(asks_version=True)

    def with_connection(self, connection: Any) -> Self:
        """
        Use a connection that is at hand instead of fetching it.

        :param connection: the connection, an ``airflow.sdk.Connection`` or the core's.
        :returns: this hook, before its first call.
        """
        self._connection = connection
        return self

    def _test(self, *, asks_version: bool = False) -> ConnectionCheck:
        found, version, problem = None, None, None
        try:
            client = self.service.client.probing()
            found = self.run(self._probe(client))
            if asks_version:
                version = self.run(self._version(client))
        except MediaOpsError as error:
            problem = error.message
        finally:
            self.close()
        answers = [found.message if found else problem or "", *(warning.text for warning in self._warnings)]
        return ConnectionCheck(
            self._shown(" ".join(answers)),
            works=found is not None and not any(warning.is_mistake for warning in self._warnings),
            quota=found.quota if found else None,
            version=version and self._shown(version),
            version_problem=self._shown(problem) if found and problem else None,
        )

    def _shown(self, answer: str) -> str:
        # Even the answer of a success may quote the reply, for example the cluster's name.
        secrets = self._service.client.secrets if self._service else ()
        # Airflow's command line takes square brackets for markup, and fails on those in a cluster's path.
        return plain_text(answer, secrets, _MAX_ANSWER_LENGTH).translate(_BRACKETS_TO_PARENTHESES)

    def close(self) -> None:
        """Close the session; the next call opens another."""
        if self._transport:
            self._transport.close()
            self._transport = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _session(self) -> Transport:
        with self._opening:
            if self._transport is None:
                from airflow_provider_mediaops.http.transport import Transport

                self._transport = Transport(self.service.transport, self._stop)
            return self._transport

    def _service_of(self, connection: Any) -> Service:
        from urllib.request import getproxies

        from airflow_provider_mediaops.hooks.connection.settings import header_credentials, proxy_passwords
        from airflow_provider_mediaops.hooks.connection.warnings import connection_warnings

        if not connection.conn_type and "//" in (connection.schema or ""):
            # Airflow finds no scheme in such a URI, and takes the whole of it, with its password, for a schema.
            raise InvalidConnectionError(
                f"Connection {self.conn_id!r}: its URI begins with no scheme. A scheme has no underscore: write "
                f"{self.conn_type.replace('_', '-')}://…"
            )
        fields = ConnectionFields.of(connection, self.conn_type)
        # A misspelt field must not break a connection that has worked so far.
        self._warnings = connection_warnings(fields)
        for warning in self._warnings:
            self.log.warning("Connection %r: %s", self.conn_id, warning.text)
        service = self._configure(fields)
        self.fields = fields
        proxies = service.transport.proxies or getproxies()
        others = (*proxy_passwords(proxies.values()), *header_credentials(service.transport.headers))
        limiter = service.client.limiter
        self._new_secrets += (*others, *(limiter.backend.secrets if limiter else ()))
        # In place: what the service was configured with, such as the finder of books, holds the same client.
        service.client.other_secrets = others
        return service

    @staticmethod
    def _mask(secret: str) -> None:
        # This may send a message to the supervisor, and so block.
        mask_secret(secret)

    async def _asleep(self, wait: Wait) -> None:
        self._log_wait(wait)
        await asyncio.sleep(wait.seconds)

    def _log_wait(self, wait: Wait) -> None:
        now = time.monotonic()
        is_repeated = wait.reason == self._logged_reason and now - self._logged_at < _LOGGED_AGAIN_SECONDS
        if wait.reason and wait.seconds >= _SHORTEST_LOGGED_SECONDS and not is_repeated:
            self._logged_reason, self._logged_at = wait.reason, now
            self.log.info("Waiting %.1f s: %s", wait.seconds, wait.reason)


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

    :param hook: the hook, which carries out the wait, too.
    :param look: returns the call flow of a reading.
    :param monotonic: the clock of the wait.
    :param longest_wait: the longest time for which a reading may wait, for example for its turn in the key's rate.
    """

    hook: ServiceHook
    look: Callable[[Ask], CallFlow[T]]
    monotonic: Callable[[], float]
    longest_wait: float = float("inf")

    def next(self, pause: float, deadline: float) -> CallFlow[T]:
        """Wait, then make a reading; see :class:`airflow_provider_mediaops.waiting.Readings`."""
        if pause:
            # No reason: a line in the log for each pause of a long wait would hide the changes.
            yield Wait(pause)
        limit = min(deadline + LATE_SECONDS, self.monotonic() + self.longest_wait)
        return (yield from self.hook.reading(self.look, self.monotonic, limit))
