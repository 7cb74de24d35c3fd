"""The store that an address names."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.rate_limit.memory_store import MemoryStore

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore

_stores: dict[str, RateStore] = {}


def store_at(address: str) -> RateStore:
    """
    Return the store that this process shares for an address.

    :param address: ``memory://`` for this process alone; ``sqlite:////folder/file`` for the processes of one machine;
        ``redis://host`` or ``rediss://host`` for those of many.
    :returns: the same store for the same address; nothing is opened before it is used.
    :raises ValueError: for any other address; its text is free of credentials.
    """
    if address not in _stores:
        store = _stores.setdefault(address, _make_store(address))
        atexit.register(store.close)
    return _stores[address]


def _make_store(address: str) -> RateStore:
    scheme, separator, rest = address.partition("://")
    if scheme == "memory" and not rest and separator:
        return MemoryStore()
    if scheme == "sqlite" and separator:
        from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore

        # As in other addresses of SQLite: three slashes, then the path, which begins with a slash of its own.
        if not rest.startswith("//") or rest.endswith("/"):
            raise ValueError(
                "the path of a SQLite file must be absolute: sqlite:////folder/file.db, with four slashes."
            )
        return SqliteStore(rest[1:])
    if scheme in ("redis", "rediss") and separator:
        from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore

        return RedisStore(address)
    if scheme.endswith(("+sentinel", "+cluster")):
        raise ValueError(
            f"{scheme}:// is not supported. Write redis://host or rediss://host of one server: the address of the "
            "current primary, or of a proxy or DNS name in front of it that follows a failover."
        )
    raise ValueError("it must be memory://, sqlite:////folder/file.db, redis://host or rediss://host.")
