"""The receipt of a dataset on an object store: whose it is, and what its publication leaves to be removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.lease import Lease, parse_lease
from airflow_provider_mediaops.storage.segments import epoch_and_token, is_of_publication
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
    from airflow_provider_mediaops.storage.object_store import ObjectStage

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


def remove_settled(objects: StoreObjects, lease: Lease) -> None:
    """
    Remove the objects staged by the attempt that published, and by earlier ones (step 15 of ``object_store``).

    :param objects: the objects of the destination.
    :param lease: the lease that holds the receipt.
    """
    found = ((name, epoch_and_token(name)) for name in objects.staged())
    objects.remove(
        name
        for name, staged_by in found
        if staged_by and (staged_by[0] < lease.epoch or staged_by == (lease.epoch, lease.token))
    )
