"""The state of one sandbox: its settings, clock, limits, faults and the requests it had."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.clock import Clock, DailyQuota, SlidingWindow
from airflow_provider_mediaops.sandbox.cluster_nodes import Cluster
from airflow_provider_mediaops.sandbox.faults import FaultBoard, RequestRecord, Service
from airflow_provider_mediaops.sandbox.refusals import RefusedError, limit_refusal
from airflow_provider_mediaops.sandbox.subscriptions import Subscriptions

_REMEMBERED_REQUESTS = 10_000


class Settings(BaseModel):
    """Settings of a sandbox. Each is an option of the command line as well."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind_prefix: str = Field(
        default="svc", min_length=1, description="What stands before # in the video platform's kinds."
    )
    subscriptions: int = Field(
        default=1_234,
        ge=0,
        le=100_000,
        description="How many subscriptions the user's own channel, UCsandbox-mine, has.",
    )
    video_daily_units: int = Field(
        default=10_000, ge=0, description="Quota units a day: a page of subscriptions costs 1, a bulletin 50."
    )
    books_daily_requests: int = Field(
        default=50_000, ge=0, description="Requests a day that the book database grants to one key."
    )
    cpu_cycle: float = Field(default=40.0, gt=0, description="Seconds from one CPU spike of sandbox-2 to the next.")


class SandboxState:
    """
    The state of a running sandbox. Tests and programs may look at it and arm faults in it.

    :param settings: its settings.
    :param clock: the source of time; a test may bring its own.
    """

    def __init__(self, settings: Settings | None = None, *, clock: Clock | None = None) -> None:
        self.settings = settings or Settings()
        self.clock = clock or Clock()
        self.faults = FaultBoard()
        self.requests: deque[RequestRecord] = deque(maxlen=_REMEMBERED_REQUESTS)
        #: The bulletins that were posted, as the platform keeps them.
        self.bulletins: list[dict[str, Any]] = []
        #: The access tokens that were issued, each with its end and its scopes.
        self.tokens: dict[str, tuple[float, frozenset[str]]] = {}
        self.video_quota = DailyQuota()
        self.books_rate = SlidingWindow()
        self.books_quota = DailyQuota()
        self.cluster = Cluster(self.clock, cycle=self.settings.cpu_cycle)
        self._limit_replies = 0

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions of all channels."""
        return Subscriptions(kind_prefix=self.settings.kind_prefix, many=self.settings.subscriptions)

    def limit_refusal(self, service: Service) -> RefusedError:
        """Return a service's error for a limit that is reached; the book database's two replies take turns."""
        self._limit_replies += service == "books"
        return limit_refusal(service, books_status=404 if self._limit_replies % 2 else 429)


def _state_of(request: Request) -> SandboxState:
    return cast("SandboxState", request.app.state.sandbox)


#: A route's parameter of this type receives the sandbox's state.
Sandbox = Annotated[SandboxState, Depends(_state_of)]
