"""The state of one sandbox: its settings, clock, limits, faults and the requests it had."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.clock import Clock, SystemClock
from airflow_provider_mediaops.sandbox.cluster.dialects import DIALECTS, DialectName
from airflow_provider_mediaops.sandbox.cluster.nodes import Cluster
from airflow_provider_mediaops.sandbox.faults import FaultBoard
from airflow_provider_mediaops.sandbox.limits import DailyQuota, SlidingWindow
from airflow_provider_mediaops.sandbox.refusals import RefusedError, limit_refusal
from airflow_provider_mediaops.sandbox.services import Service
from airflow_provider_mediaops.sandbox.video.subscriptions import Subscriptions
from airflow_provider_mediaops.sandbox.video.tokens import TokenStore

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.cluster.dialect import Dialect

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
    token_lifetime: int = Field(
        default=3_599, ge=1, description="Seconds that an access token got by refresh is good for."
    )
    video_requests_per_second: int = Field(
        default=100, ge=1, description="Requests in a second that the video platform grants to one credential."
    )
    video_daily_units: int = Field(
        default=10_000, ge=0, description="Quota units a day: a page of subscriptions costs 1, a bulletin 50."
    )
    books_daily_requests: int = Field(
        default=50_000, ge=0, description="Requests a day that the book database grants to one key."
    )
    books_limit_reply: Literal["alternate", "404", "429"] = Field(
        default="alternate", description="Which of its two limit replies the book database gives."
    )
    cluster_dialect: DialectName = Field(
        default="document", description="How the search cluster answers: as its document says, or as a product does."
    )
    cpu_cycle: float = Field(default=40.0, gt=0, description="Seconds from one CPU spike of sandbox-2 to the next.")
    max_sampling: float = Field(
        default=5.0, ge=0, description="Seconds after which a hot-threads report is given, however long it should take."
    )


class RequestRecord(BaseModel):
    """A request to one of the services, without anything secret."""

    at: datetime = Field(description="When it came, UTC.")
    service: Service
    method: str
    path: str
    query: dict[str, str] = Field(description="Its parameters; the values of unknown ones and of keys are `***`.")
    status: int | None = Field(default=None, description="The reply's status; null if no reply was begun.")
    fault: str | None = Field(default=None, description="The kind of fault that befell it.")


class SandboxState:
    """
    The state of a running sandbox. Tests and programs may look at it and arm faults in it.

    :param settings: its settings.
    :param clock: the source of time; a test may bring its own.
    """

    def __init__(self, settings: Settings | None = None, *, clock: Clock | None = None) -> None:
        self.settings = settings or Settings()
        self.clock = clock or SystemClock()
        self.faults = FaultBoard()
        self.requests: deque[RequestRecord] = deque(maxlen=_REMEMBERED_REQUESTS)
        #: The bulletins that were posted, as the platform keeps them.
        self.bulletins: list[dict[str, Any]] = []
        self.tokens = TokenStore(self.clock, lifetime=self.settings.token_lifetime)
        self.subscriptions = Subscriptions(kind_prefix=self.settings.kind_prefix, many=self.settings.subscriptions)
        self.video_rate = SlidingWindow()
        self.video_quota = DailyQuota()
        self.books_rate = SlidingWindow()
        self.books_quota = DailyQuota()
        self.cluster = Cluster(self.clock, cycle=self.settings.cpu_cycle)
        self._limit_replies = 0

    @property
    def cluster_dialect(self) -> Dialect:
        """How the search cluster answers."""
        return DIALECTS[self.settings.cluster_dialect]

    def limit_refusal(self, service: Service) -> RefusedError:
        """
        Return a service's error for a limit that is reached.

        :param service: the service.
        :returns: the refusal; the book database's two replies take turns unless a setting picks one.
        """
        chosen = self.settings.books_limit_reply
        if chosen == "alternate" and service == "books":
            self._limit_replies += 1
            chosen = "404" if self._limit_replies % 2 else "429"
        return limit_refusal(service, books_reply="404" if chosen == "404" else "429")


def _state_of(request: Request) -> SandboxState:
    return cast("SandboxState", request.app.state.sandbox)


#: A route's parameter of this type receives the sandbox's state.
Sandbox = Annotated[SandboxState, Depends(_state_of)]
