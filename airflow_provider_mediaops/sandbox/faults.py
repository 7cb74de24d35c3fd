"""The services, and the faults that the switchboard arms: what goes wrong, in which service, and how often."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

#: A service, as faults and the recorded requests name it; ``token`` is the video platform's token endpoint.
Service = Literal["video", "token", "cluster", "books"]

TOKEN_PATH = "/video/oauth2/token"  # noqa: S105 - an address, not a token

_ROOTS: dict[str, Service] = {TOKEN_PATH: "token", "/video": "video", "/cluster": "cluster", "/books": "books"}


def service_of(path: str) -> Service | None:
    """Return the service to which a path belongs; None for the switchboard and the manual."""
    for root, service in _ROOTS.items():
        if path == root or path.startswith(f"{root}/"):
            return service
    return None


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
    status: int = Field(ge=200, le=599, description="The HTTP status.")
    retry_after: int | None = Field(default=None, ge=0, description="Seconds for a `Retry-After` header.")
    body: Any = Field(
        default=None,
        description="The reply: a string is sent as HTML if it begins with `<`, else as plain text; anything else is "
        "sent as JSON. Without one, an error comes in the service's own shape.",
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


#: Any fault.
Fault: TypeAlias = StatusFault | DelayFault | DropFault | LimitFault


class FaultBoard:
    """The armed faults, in the order in which they were armed."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    @property
    def armed(self) -> list[Fault]:
        """The faults still to come; ``count`` and ``after`` are what is left of each."""
        return list(self._faults)

    def arm(self, fault: Fault) -> None:
        """Arm a fault."""
        self._faults.append(fault)

    def clear(self) -> None:
        """Disarm everything."""
        self._faults.clear()

    def take(self, service: Service, path: str) -> Fault | None:
        """Find the fault that befalls a request: the first that matches and has nothing more to let pass."""
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
