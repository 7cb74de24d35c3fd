"""
The base class of the three hooks: it fetches the connection lazily, and sends over one pooled session.

A wait may be long, so its readings are with the connection as it is then: :meth:`ServiceHook.reading`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.arguments import read_identifier
from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.hooks.connection import ConnectionFields, form_widget, unknown_fields
from airflow_provider_mediaops.hooks.threads import import_in_thread, to_its_end
from airflow_provider_mediaops.http import runner
from airflow_provider_mediaops.http.auth import credentials_of
from airflow_provider_mediaops.http.exchange import Blocking, Wait, until
from airflow_provider_mediaops.http.reply import plain_text
from airflow_provider_mediaops.http.request_threads import LONG_JOBS, SHORT_REQUESTS
from airflow_provider_mediaops.http.stop import Stop
from airflow_provider_mediaops.version_compat import AirflowNotFoundException
from airflow_provider_mediaops.waiting import LATE_SECONDS, LONGEST_WITHOUT_NEWS_SECONDS

if TYPE_CHECKING:
    from typing_extensions import Self

    from airflow_provider_mediaops.books.api import KeyUsage
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Ask, Call, CallFlow, Request, Response
    from airflow_provider_mediaops.http.request_threads import RequestThreads
    from airflow_provider_mediaops.http.settings import TransportSettings
    from airflow_provider_mediaops.http.transport import Transport

T = TypeVar("T")

# What sends; it takes long to import.
_TRANSPORT = "airflow_provider_mediaops.http.transport"
# The maximum length of the message on the connection page, in characters.
_MAX_ANSWER_LENGTH = 1_000
_BRACKETS_TO_PARENTHESES = str.maketrans("[]", "()")
# If many tasks use one key, every request waits. Shorter waits are not logged, and one for the same reason as the last
# only after this time.
_SHORTEST_LOGGED_SECONDS = 2.0
_LOGGED_AGAIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """The service that a connection describes."""

    client: Client
    transport: TransportSettings
    # The client's own, or one around it that checks refusals of the service or chooses what is measured. Only what does
    # that by itself, such as a list of books, asks the client.
    ask: Ask


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """What the check of a connection found."""

    message: str  # sentences that say that it works, or name the fault and the correction; free of secrets
    works: bool = True  # and no field is misspelt
    quota: KeyUsage | None = None  # of the key, if the service has a call for it


class ServiceHook(BaseHook):
    """
    A client of one service, made from an Airflow connection when it is first used.

    A hook is a context manager, and holds one pooled session until it is closed. Its methods block. On an event loop,
    :meth:`arun` and :meth:`astream` send over the same session from threads.

    :param conn_id: the connection's id.
    :raises InvalidArgumentError: if it is blank or no text.
    """

    #: The package of the service: on an event loop, a thread imports its modules before the first call.
    service_package: ClassVar[str]
    conn_type: ClassVar[str]
    conn_name_attr: ClassVar[str]
    default_conn_name: ClassVar[str]
    hook_name: ClassVar[str]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.hook_name = CONNECTION_TYPES[cls.conn_type]["hook-name"]
        # Airflow 3.1 looks for the form in the hook class itself; later versions read the provider's metadata.
        for name in ("get_connection_form_widgets", "get_ui_field_behaviour"):
            setattr(cls, name, ServiceHook.__dict__[name])

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the form's own fields, as Airflow 3.1 expects them."""
        fields = CONNECTION_TYPES[cls.conn_type]["conn-fields"]
        return {name: form_widget(field) for name, field in fields.items()}

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return labels, placeholders and hidden fields, as Airflow 3.1 expects them."""
        behaviour = CONNECTION_TYPES[cls.conn_type]["ui-field-behaviour"]
        return {key.replace("-", "_"): value for key, value in behaviour.items()}

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = read_identifier(self.conn_name_attr, conn_id)
        # When the connection was last read for a wait, by the clock of the wait.
        self._connection_read_at = float("-inf")
        self._connection: Any = None
        self._service: Service | None = None
        # The fields of which the service was made.
        self._fields: ConnectionFields | None = None
        # What is said of fields that have no effect: misspelt ones, and others.
        self._mistakes: list[str] = []
        self._notes: list[str] = []
        # The session of the last service: a call that is under way goes on when a connection is edited.
        self._transport: Transport | None = None
        # Several threads may need the service for the first time. The event loop must not wait for it: making one may
        # wait for an answer of Airflow's supervisor, which comes on the event loop.
        self._making = threading.RLock()
        self._logged_reason, self._logged_at = "", 0.0
        self._stop = Stop()

    def stopped_by(self, stop: Stop) -> Self:
        """Let a task that is stopped end what this hook does in its worker: nothing more is sent, and waits end."""
        self._stop = stop
        return self

    def with_connection(self, connection: Any) -> Self:
        """Use a connection that is at hand instead of fetching it: one of ``airflow.sdk`` or of the core."""
        self._connection = connection
        return self

    @abstractmethod
    def _configure(self, fields: ConnectionFields) -> Service:
        """Make the service from the connection's fields; raise InvalidConnectionError for one that cannot be used."""

    @abstractmethod
    def _test(self, client: Client) -> CallFlow[ConnectionCheck]:
        """
        Make the cheapest request that shows whether the connection works; the client asks each host once.

        It asks even if the key's quota is recorded as exhausted. If the service answers, the quota is restored for all
        who use the key.
        """

    @property
    def service(self) -> Service:
        """
        The service that the connection describes. The connection is fetched at first use.

        :raises InvalidConnectionError: if a field of the connection cannot be used.
        """
        service = self._service
        if service is None:
            with self._making:
                # Another thread may have made it meanwhile.
                service = self._service = self._service or self._made(self._connection or self._fetched())
        return service

    async def aservice(self) -> Service:
        """Return the service without blocking the event loop."""
        service = self._service
        if service is None:
            await import_in_thread(_TRANSPORT, self.service_package)
            # Airflow 3.1 takes an answer that nobody has read for the answer to the next question.
            service = await to_its_end(lambda: self.service)
        return service

    def get_conn(self) -> Self:
        """Return the hook itself: a plain session would get round the limits, retries and rate of the connection."""
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
        """Return :meth:`ask` as a call flow."""
        service = yield from self.current_service()
        return (yield from service.ask(call))

    def current_service(self) -> CallFlow[Service]:
        """Return the service, as a step of a call flow: the connection may have to be fetched."""
        service: Service = yield Blocking(lambda: self.service, self.aservice)
        return service

    def read_connection_first(self) -> None:
        """Let the next reading of a wait read the connection again before it begins."""
        self._connection_read_at = float("-inf")

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

        Until the deadline, the reading may wait, for example for its turn in the key's rate; a longer wait is an error.
        """
        if monotonic() - self._connection_read_at >= LONGEST_WITHOUT_NEWS_SECONDS:
            self._connection_read_at = monotonic()
            yield Blocking(self._replace_if_edited)
        service = yield from self.current_service()
        try:
            return (yield from until(deadline, look(service.ask), monotonic))
        except MediaOpsError:
            self._connection_read_at = monotonic()
            yield Blocking(self._replace_if_edited)
            if self._service is service:
                raise
        # Once: a secrets backend may make other credentials for each who asks.
        service = yield from self.current_service()
        return (yield from until(deadline, look(service.ask), monotonic))

    def next_reading(
        self,
        look: Callable[[Ask], CallFlow[T]],
        monotonic: Callable[[], float],
        pause: float,
        deadline: float,
        *,
        longest_wait: float = float("inf"),
    ) -> CallFlow[T]:
        """
        Wait, then make a reading, for a wait that shares its readings with no other.

        The reading itself may wait, such as for its turn in the key's rate, for ``longest_wait`` seconds at most.
        """
        if pause:
            # No reason: a line in the log for each pause of a long wait would hide the changes.
            yield Wait(pause)
        limit = min(deadline + LATE_SECONDS, monotonic() + longest_wait)
        return (yield from self.reading(look, monotonic, limit))

    def _fetched(self) -> Any:
        try:
            return self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            raise InvalidConnectionError(
                f"There is no connection {self.conn_id!r}: create one of type {self.conn_type}."
            ) from None

    def _replace_if_edited(self) -> None:
        """Make the service anew, if the connection is another one now."""
        if self._service is None:
            return
        try:
            connection = self.get_connection(self.conn_id)
        except Exception:  # noqa: BLE001 a connection that is not found may be in a secrets backend that is away
            return
        with self._making:
            if ConnectionFields.of(connection, self.conn_type) != self._fields:
                # One that cannot be used is read again by each reading, until it is right.
                self._service = None
                # A request of another call that is under way goes on: its connection is closed after its reply.
                self.close()
                self._service = self._made(connection)

    def run(self, flow: CallFlow[T]) -> T:
        """Carry out a call flow over this hook's session."""
        return runner.run(flow, self.send, self.sleep)

    def send(self, request: Request) -> Response:
        """Send one request over this hook's session; see :func:`airflow_provider_mediaops.http.runner.run`."""
        return self._session.send(request)

    def sleep(self, wait: Wait) -> None:
        """Carry out a wait of a call flow, which ends if the task is stopped."""
        self._log_wait(wait)
        self._stop.sleep(wait.seconds)

    def stream(self, flow: CallFlow[Any]) -> Iterator[Any]:
        """Carry out a call flow over this hook's session; yield its items as they come."""
        return runner.stream(flow, self.send, self.sleep)

    async def arun(self, flow: CallFlow[T], threads: RequestThreads = SHORT_REQUESTS) -> T:
        """
        Carry out a call flow on the event loop; its blocking steps come to their end in threads, whatever is cancelled.

        It gets the service by :meth:`current_service` or :meth:`asking`.
        """
        send = partial(self._send_in, threads)
        return await runner.arun(flow, send, self._asleep, in_thread=to_its_end)

    def astream(self, flow: CallFlow[Any]) -> AsyncGenerator[Any, None]:
        """Carry out a call flow on the event loop; yield its items as they come."""
        return runner.astream(flow, partial(self._send_in, LONG_JOBS), self._asleep, in_thread=to_its_end)

    async def _send_in(self, threads: RequestThreads, request: Request) -> Response:
        return await threads.send(self._session, self.conn_id, request)

    async def _asleep(self, wait: Wait) -> None:
        self._log_wait(wait)
        await asyncio.sleep(wait.seconds)

    def _log_wait(self, wait: Wait) -> None:
        now = time.monotonic()
        is_repeated = wait.reason == self._logged_reason and now - self._logged_at < _LOGGED_AGAIN_SECONDS
        if wait.reason and wait.seconds >= _SHORTEST_LOGGED_SECONDS and not is_repeated:
            self._logged_reason, self._logged_at = wait.reason, now
            self.log.info("Waiting %.1f s: %s", wait.seconds, wait.reason)

    def test_connection(self) -> tuple[bool, str]:
        """
        Test the connection; the hosts are asked in turn until one answers.

        Airflow calls this for the button in the user interface and for ``airflow connections test``.

        :returns: whether it works and no field is misspelt, and sentences that say so or name the fault and the
            correction.
        """
        found = self.check()
        return found.works, found.message

    def check(self) -> ConnectionCheck:
        """Test the connection, as :meth:`test_connection` does."""
        try:
            found = self.run(self._test(self.service.client.probing()))
        except MediaOpsError as error:
            found = ConnectionCheck(error.message, works=False)
        finally:
            self.close()
        message = self._shown(" ".join((found.message, *self._mistakes, *self._notes)))
        return replace(found, message=message, works=found.works and not self._mistakes)

    def version(self) -> str | None:
        """Return the product and version of a service that works, if it says."""
        return None

    def _shown(self, answer: str) -> str:
        # Even the answer of a success may quote the reply, for example the cluster's name.
        secrets = self._service.client.secrets if self._service else ()
        # Airflow's command line takes square brackets for markup, and fails on those in a cluster's path.
        return plain_text(answer, secrets, _MAX_ANSWER_LENGTH).translate(_BRACKETS_TO_PARENTHESES)

    def close(self) -> None:
        """Close the connections of the session; the next call opens others."""
        if self._transport:
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _session(self) -> Transport:
        # A call flow gets the service before it sends. While an edited connection is read, the session is the former.
        assert self._transport  # noqa: S101
        return self._transport

    def _made(self, connection: Any) -> Service:
        """Make the service of the connection, and the session that sends to it."""
        from airflow_provider_mediaops.http.transport import Transport

        metrics.use_airflow_metrics()
        fields = ConnectionFields.of(connection, self.conn_type)
        # A misspelt field must not break a connection that has worked so far.
        self._mistakes, self._notes = unknown_fields(fields)
        for text in (*self._mistakes, *self._notes):
            self.log.warning("Connection %r: %s", self.conn_id, text)
        service = self._configure(fields)
        limiter = service.client.limiter
        of_the_store = limiter.backend.secrets if limiter else ()
        # In place: what the service was configured with, such as the finder of books, holds the same client.
        service.client.other_secrets = (*credentials_of(service.transport), *of_the_store)
        for secret in service.client.secrets:
            # That one Airflow masks by itself.
            if secret != fields.password:
                self._mask(secret)
        self._fields = fields
        self._transport = Transport(service.transport, self._stop)
        return service

    @staticmethod
    def _mask(secret: str) -> None:
        # This may send a message to the supervisor, and so block.
        mask_secret(secret)
