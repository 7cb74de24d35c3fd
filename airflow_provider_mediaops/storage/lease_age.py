"""The age of another task's lease on an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.object_info import modified_time
from airflow_provider_mediaops.storage.segments import alive_name, epoch_and_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_mediaops.storage.lease import Lease
    from airflow_provider_mediaops.storage.store_objects import Found, StoreObjects


def last_seen(
    objects: StoreObjects,
    lease: Lease,
    found: Found,
    staged: Mapping[str, Mapping[str, Any]],
    *,
    probe: str,
    clock: Callable[[], float],
) -> tuple[float, float]:
    """
    Return when the owner of a lease has written last, and the time now, both by the same clock.

    That is the store's own clock, if it has one; otherwise those of the lease's owner and of this machine.

    :param objects: the objects of the destination.
    :param lease: the lease.
    :param found: the object that holds it.
    :param staged: the objects in the folder of segments, with their properties.
    :param probe: the name there of an object that is written to read the store's clock, and removed.
    :param clock: returns seconds since 1970.
    """
    holder = [info for name, info in staged.items() if (owner := epoch_and_token(name)) and owner[1] == lease.token]
    times = [found.modified, *(modified_time(info) for info in holder)]
    now = _store_time(objects, probe) if None not in times else None
    if now is None:
        now, times = clock(), [lease.since, _last_renewed(objects, lease)]
    return max(time for time in times if time is not None), now


def _store_time(objects: StoreObjects, probe: str) -> float | None:
    """Return the store's own time, by writing an object."""
    objects.write_staged(probe, b"", "")
    written = modified_time(objects.info(f"{objects.folder}/{probe}"))
    objects.remove([probe])
    return written


def _last_renewed(objects: StoreObjects, lease: Lease) -> float:
    """Return the time when a lease was last renewed, by its owner's clock."""
    content = objects.read(f"{objects.folder}/{alive_name(lease.epoch, lease.token)}").content
    try:
        return float(content or b"0")
    except ValueError:
        return 0.0
