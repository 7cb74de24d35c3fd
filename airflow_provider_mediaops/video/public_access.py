"""A client without a user, which refuses what only a user may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.http.client import Client

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Call, CallFlow, Request

T = TypeVar("T")


@dataclass(slots=True)
class PublicClient(Client):
    """
    Makes call flows of calls that need no authorised user.

    :param credentials: the connection and its ``auth``, for the message; for example ``connection 'x' has auth=none``.
    """

    credentials: str = ""

    def ask(self, call: Call[T]) -> CallFlow[T]:
        """
        Send a call as :meth:`Client.ask` does, unless it needs a user.

        :param call: the call.
        :returns: a call flow whose result is the call's.
        :raises InvalidConnectionError: for a post, and for ``mine``; nothing is sent.
        """
        if refusal := _refusal(call.request):
            raise InvalidConnectionError(
                f"{refusal} needs an authorised user, but {self.credentials}; nothing was sent. Use auth=bearer or "
                "auth=refresh_token.",
                service=self.rules.service,
                method=call.request.method,
                path=call.request.path,
            )
        # dataclass(slots=True) makes another class, for which super() does not work.
        return (yield from Client.ask(self, call))


def _refusal(request: Request) -> str:
    if not request.idempotent:
        return "Posting a bulletin"
    return "mine=True" if ("mine", "true") in request.params else ""
