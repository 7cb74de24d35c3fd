"""The base of the three hooks: the connection fetched lazily, one pooled session, both drivers."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook
from airflow.sdk.log import mask_secret

from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.hooks.settings import ConnectionFields
from airflow_provider_mediaops.hooks.threads import in_thread
from airflow_provider_mediaops.http import exchange
from airflow_provider_mediaops.http.reply import plain_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from airflow_provider_mediaops.http.async_transport import AsyncTransport
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Call, Conversation, Wait
    from airflow_provider_mediaops.http.sync_transport import SyncTransport
    from airflow_provider_mediaops.http.transport_settings import TransportSettings

T = TypeVar("T")

# Shorter pauses, in seconds, are those of the rate, many a second: they would only fill the log.
_SHORTEST_LOGGED = 2.0
# A wait for the same reason as the last one is logged again after so many seconds.
_LOG_AGAIN_SECONDS = 30.0
# The most characters that the connection page shows.
_LONGEST_ANSWER = 1_000
_ROUND = str.maketrans("[]", "()")


@dataclass(frozen=True, slots=True)
class Service:
    """
    One service as a connection describes it.

    :param client: makes conversations of its calls.
    :param transport: the settings of the sessions that carry them out.
    """

    client: Client
    transport: TransportSettings


class ServiceHook(BaseHook):
    """
    A client of one service, made from an Airflow connection when it is first used.

    A hook is a context manager, synchronous in workers and asynchronous in triggerers, and holds one pooled session
    until it is closed. Methods with the prefix ``a`` are for the event loop.

    :param conn_id: the connection's id.
    """

    conn_type: ClassVar[str]
    conn_name_attr: ClassVar[str]
    default_conn_name: ClassVar[str]
    hook_name: ClassVar[str]

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = conn_id
        self._service: Service | None = None
        self._transport: SyncTransport | None = None
        self._atransport: AsyncTransport | None = None
        # Tasks that share a hook share its session and the state of its credentials.
        self._one_at_a_time = asyncio.Lock()
        # Secrets of the connection that Airflow does not mask by itself.
        self._new_secrets: list[str] = []
        self._last_logged: tuple[str, float] | None = None

    @abstractmethod
    def _configure(self, fields: ConnectionFields) -> Service:
        """Read the connection's fields; raise InvalidConnectionError for one that cannot be used."""

    @abstractmethod
    def _probe(self, client: Client) -> Conversation[str]:
        """
        Make the cheapest request that shows whether the connection works; return one sentence that says so.

        The client asks even if a quota is known to be used up; an answer that shows otherwise restores it for all.
        """

    @property
    def service(self) -> Service:
        """
        The service as the connection describes it, fetched at first use.

        :raises InvalidConnectionError: if a field of the connection cannot be used.
        """
        if self._service is None:
            with self._naming_the_connection():
                connection = self.get_connection(self.conn_id)
            self._service = self._configure(ConnectionFields.of(connection))
            self._mask_new_secrets()
        return self._service

    async def aservice(self) -> Service:
        """Return the service without blocking the event loop; the asynchronous twin of :attr:`service`."""
        from airflow.providers.common.compat.connection import get_async_connection

        async with self._one_at_a_time:
            if self._service is None:
                with self._naming_the_connection():
                    connection = await get_async_connection(self.conn_id)
                self._service = self._configure(ConnectionFields.of(connection))
                if self._new_secrets:
                    await in_thread(self._mask_new_secrets)
            return self._service

    def ask(self, call: Call[T]) -> T:
        """
        Make one call, with everything that the connection says of time limits, tries and rate.

        :param call: the call.
        :returns: its result.
        :raises MediaOpsError: the last error met, typed.
        """
        return self.run(self.service.client.ask(call))

    async def aask(self, call: Call[T]) -> T:
        """Make one call on the event loop; the asynchronous twin of :meth:`ask`."""
        service = await self.aservice()
        return await self.arun(service.client.ask(call))

    def run(self, conversation: Conversation[T]) -> T:
        """Carry out a conversation over this hook's session."""
        return exchange.run(conversation, self._session().send, self._sleep)

    def stream(self, conversation: Conversation[Any]) -> Iterator[Any]:
        """Carry out a conversation over this hook's session, and yield its items as they come."""
        yield from exchange.stream(conversation, self._session().send, self._sleep)

    async def arun(self, conversation: Conversation[T]) -> T:
        """Carry out a conversation on the event loop; the asynchronous twin of :meth:`run`."""
        send = (await self._asession()).send
        return await exchange.arun(conversation, send, self._asleep, in_thread=in_thread)

    async def astream(self, conversation: Conversation[Any]) -> AsyncGenerator[Any, None]:
        """Carry out a conversation on the event loop; the asynchronous twin of :meth:`stream`."""
        send = (await self._asession()).send
        async with aclosing(exchange.astream(conversation, send, self._asleep, in_thread=in_thread)) as items:
            async for item in items:
                yield item

    def test_connection(self) -> tuple[bool, str]:
        """
        Try the connection, once a host, for the button in the user interface and ``airflow connections test``.

        :returns: whether it works, and one sentence that says so, or what is wrong and what to change.
        """
        try:
            return True, self._shown(self.run(self._probe(self.service.client.probing())))
        except MediaOpsError as error:
            return False, self._shown(error.message)
        finally:
            self.close()

    def _shown(self, answer: str) -> str:
        # An answer of success may quote the reply, such as the cluster's name.
        secrets = self._service.client.auth.secrets if self._service else ()
        # Airflow's command line reads square brackets as markup of its own, and fails on those of a cluster's path.
        return plain_text(answer, secrets, _LONGEST_ANSWER).translate(_ROUND)

    def close(self) -> None:
        """Close the session; the next call opens another."""
        if self._transport:
            self._transport.close()
            self._transport = None

    async def aclose(self) -> None:
        """Close the asynchronous session; the twin of :meth:`close`."""
        if self._atransport:
            await self._atransport.aclose()
            self._atransport = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @contextmanager
    def _naming_the_connection(self) -> Iterator[None]:
        try:
            yield
        except AirflowNotFoundException:
            raise InvalidConnectionError(
                f"There is no connection {self.conn_id!r}: create one of type {self.conn_type}."
            ) from None

    def _session(self) -> SyncTransport:
        if self._transport is None:
            from airflow_provider_mediaops.http.sync_transport import SyncTransport

            self._transport = SyncTransport(self.service.transport)
        return self._transport

    async def _asession(self) -> AsyncTransport:
        from airflow_provider_mediaops.http.async_transport import AsyncTransport

        settings = (await self.aservice()).transport
        async with self._one_at_a_time:
            if self._atransport is None:
                # Loading the certificate authorities takes tens of milliseconds, too long for the event loop.
                self._atransport = await asyncio.to_thread(AsyncTransport, settings)
            return self._atransport

    def _mask_new_secrets(self) -> None:
        while self._new_secrets:
            self._mask(self._new_secrets.pop())

    @staticmethod
    def _mask(secret: str) -> None:
        # It may ask the supervisor, and so block.
        mask_secret(secret)

    def _sleep(self, wait: Wait) -> None:
        self._log_wait(wait)
        time.sleep(wait.seconds)

    async def _asleep(self, wait: Wait) -> None:
        self._log_wait(wait)
        await asyncio.sleep(wait.seconds)

    def _log_wait(self, wait: Wait) -> None:
        if not wait.reason or wait.seconds < _SHORTEST_LOGGED:
            return
        now = time.monotonic()
        # If many use one key, each request waits for its turn.
        if (
            self._last_logged
            and self._last_logged[0] == wait.reason
            and now - self._last_logged[1] < _LOG_AGAIN_SECONDS
        ):
            return
        self._last_logged = wait.reason, now
        self.log.info("Waiting %.1f s: %s", wait.seconds, wait.reason)
