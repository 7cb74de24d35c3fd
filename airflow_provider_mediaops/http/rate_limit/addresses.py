"""The back end that an address names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.rate_limit.backend import MemoryBackend

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.backend import RateBackend

_backends: dict[str, RateBackend] = {}


def backend_at(address: str) -> RateBackend:
    """Return the back end that this process shares for an address; nothing is opened before it is used."""
    if address not in _backends:
        _backends.setdefault(address, _made(address))
    return _backends[address]


def _made(address: str) -> RateBackend:
    scheme, separator, rest = address.partition("://")
    if scheme == "memory" and not rest and separator:
        return MemoryBackend()
    if scheme == "sqlite" and separator:
        from airflow_provider_mediaops.http.rate_limit.sqlite_backend import SqliteBackend

        # As in other addresses of SQLite: three slashes, then the path, which begins with a slash of its own.
        if not rest.startswith("//") or rest.endswith("/"):
            raise ValueError(
                "the path of a SQLite file must be absolute: sqlite:////folder/file.db, with four slashes."
            )
        return SqliteBackend(rest[1:])
    if scheme in ("redis", "rediss") and separator:
        from airflow_provider_mediaops.http.rate_limit.redis_backend import RedisBackend

        return RedisBackend(address)
    if scheme.endswith(("+sentinel", "+cluster")):
        raise ValueError(
            f"{scheme}:// is not supported. Write redis://host or rediss://host of one server: the address of the "
            "current primary, or of a proxy or DNS name in front of it that follows a failover."
        )
    raise ValueError("it must be memory://, sqlite:////folder/file.db, redis://host or rediss://host.")
