"""Faults that the switchboard arms: what goes wrong, in which service, and how often."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.services import Service

_HTML = "text/html; charset=utf-8"


class _Armed(BaseModel):
    """The fields that all faults have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    service: Service = Field(description="Whose requests it befalls; `token` is the video platform's token endpoint.")
    count: int = Field(default=1, ge=1, description="How many requests it befalls.")
    after: int = Field(default=0, ge=0, description="How many matching requests it lets pass first.")
    path: str | None = Field(default=None, description="Only requests whose path contains this text.")


class StatusFault(_Armed):
    """Answer with a status, without doing the work."""

    kind: Literal["status"] = "status"
    status: int = Field(ge=400, le=599, description="The HTTP status.")
    retry_after: int | None = Field(default=None, ge=0, description="Seconds for a `Retry-After` header.")
    retry_after_as: Literal["seconds", "date"] = Field(default="seconds", description="How that header is written.")
    body: Any = Field(
        default=None,
        description="The reply: a string is sent as plain text, anything else as JSON; "
        "without one, an error in the service's own shape.",
    )


class DelayFault(_Armed):
    """Delay the work, or the reply to it."""

    kind: Literal["delay"] = "delay"
    seconds: float = Field(gt=0, le=600, description="How long the request waits.")
    point: Literal["before_work", "before_reply"] = Field(
        default="before_work", description="Whether it waits before it is worked on, or for its reply."
    )


class DropFault(_Armed):
    """Close the connection."""

    kind: Literal["drop"] = "drop"
    point: Literal["before_work", "before_reply", "mid_body"] = Field(
        default="mid_body",
        description="`before_work`: nothing was done. `before_reply`: the work was done, no byte of the reply is sent. "
        "`mid_body`: the reply announces its whole length and ends half-way.",
    )


class LimitFault(_Armed):
    """Answer that the limit is reached, without doing the work."""

    kind: Literal["limit"] = "limit"


class ContentTypeFault(_Armed):
    """Answer with status 200 and another kind of content than the service has."""

    kind: Literal["content_type"] = "content_type"
    content_type: str = Field(default=_HTML, min_length=1, description="The `Content-Type` of the reply.")
    login_page: bool = Field(
        default=True,
        description="Whether an HTML login page comes instead of the reply; else the reply comes, wrongly labelled.",
    )


class TruncateFault(_Armed):
    """Do the work and cut the reply's body, with a length that fits the rest."""

    kind: Literal["truncate"] = "truncate"
    keep: float = Field(default=0.5, ge=0, lt=1, description="The part of the body that is kept.")


class ExpireTokenFault(_Armed):
    """Answer 401; an access token that came with the request stays expired if it was issued by refresh."""

    kind: Literal["expire_token"] = "expire_token"


#: Any fault.
Fault: TypeAlias = (
    StatusFault | DelayFault | DropFault | LimitFault | ContentTypeFault | TruncateFault | ExpireTokenFault
)


class FaultBoard:
    """The armed faults, in the order in which they were armed."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    @property
    def armed(self) -> list[Fault]:
        """The faults still to come; ``count`` and ``after`` are what is left of each."""
        return list(self._faults)

    def arm(self, fault: Fault) -> None:
        """
        Arm a fault.

        :param fault: what goes wrong, where and how often.
        """
        self._faults.append(fault)

    def clear(self) -> None:
        """Disarm everything."""
        self._faults.clear()

    def take(self, service: Service, path: str) -> Fault | None:
        """
        Find the fault that befalls a request: the first that matches and has nothing more to let pass.

        :param service: which service was asked.
        :param path: the request's path.
        :returns: the fault, or None.
        """
        for position, fault in enumerate(self._faults):
            if fault.service != service or (fault.path or "") not in path:
                continue
            if fault.after:
                self._faults[position] = fault.model_copy(update={"after": fault.after - 1})
                continue
            if fault.count > 1:
                self._faults[position] = fault.model_copy(update={"count": fault.count - 1})
            else:
                del self._faults[position]
            return fault
        return None
