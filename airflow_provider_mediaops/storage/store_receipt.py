"""The receipt of a dataset on an object store: what a task instance has published."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.held_lease import remove_settled
from airflow_provider_mediaops.storage.lease import parse_lease
from airflow_provider_mediaops.storage.object_store import ObjectStage
from airflow_provider_mediaops.storage.segments import is_of_publication
from airflow_provider_mediaops.storage.store_objects import StoreObjects

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.ownership import Owner, Receipt


def published_in_store(
    path: ObjectStoragePath,
    owner: Owner,
    clock: Callable[[], float] = time.time,
    companion: ObjectStoragePath | None = None,
) -> dict[str, Any] | None:
    """
    Return the summary of the dataset that a task instance has published; finish publishing if it died before the end.

    :param path: the destination.
    :param owner: the task instance.
    :param clock: returns seconds since 1970.
    :param companion: the path of the companion that is published with the dataset; None for none.
    :returns: the summary; None if the object at the destination is not of this task instance.
    :raises DestinationInUseError: if the lease cannot be understood.
    :raises PermanentError: if another version of this package has written the lease; or if the companion of the
        publication to be finished is one that this task may not write.
    :raises OSError: if the store refuses or cannot be reached; the message names the destination.
    """
    objects = StoreObjects(path)
    lease = parse_lease(objects.read(objects.lease).content, objects.lease, objects.path)
    receipt = lease.last_receipt
    if receipt and receipt.owner == owner and objects.identity() == receipt.identity:
        if lease.owner is None:
            # The attempt may have died before it could remove them.
            remove_settled(objects, lease)
        return dict(receipt.summary)
    if lease.owner == owner and any(map(is_of_publication, objects.staged())):
        receipt = _finished(path, owner, clock, companion)
        return dict(receipt.summary) if receipt else None
    return None


def _finished(
    path: ObjectStoragePath, owner: Owner, clock: Callable[[], float], companion: ObjectStoragePath | None
) -> Receipt | None:
    """Return the receipt of this owner, if there is one once a publication that was begun is finished."""
    stage = ObjectStage(path, owner, clock, companion=companion)
    try:
        receipt = stage.last_receipt
        if receipt is None or receipt.owner != owner:
            return None
        # It is the receipt that stays, and nobody's lease.
        stage.discard()
        return receipt
    finally:
        stage.close()
