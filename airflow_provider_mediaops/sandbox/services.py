"""The names of the services that the sandbox stands in for, and which address belongs to which."""

from __future__ import annotations

from typing import Literal

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
