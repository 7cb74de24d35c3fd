"""Object stores of tests, as Airflow attaches those of connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

StoreT = TypeVar("StoreT", bound="AbstractFileSystem")


@contextmanager
def attached(store: StoreT, conn_id: str) -> Iterator[StoreT]:
    """Attach a store as ``memory://conn_id@…`` until the block ends."""
    attach("memory", conn_id, fs=store)
    try:
        yield store
    finally:
        _STORE_CACHE.pop(f"memory-{conn_id}", None)
