"""
The lease that an attempt holds on a destination of an object store, from its acquisition to the receipt.

The steps are those of the protocol in :mod:`airflow_provider_mediaops.storage.object_store`.
"""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import DestinationInUseError, MediaOpsError
from airflow_provider_mediaops.storage.errors import in_use_error, lease_removed_error, newer_replaced_error
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS, Lease, parse_lease, seconds_since_1970
from airflow_provider_mediaops.storage.object_info import modified_time
from airflow_provider_mediaops.storage.segments import Segment, alive_name, epoch_and_token, is_of_publication
from airflow_provider_mediaops.storage.store_objects import ConflictError, Found, StoreObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from airflow_provider_mediaops.storage.ownership import Owner, Receipt

_log = logging.getLogger(__name__)
_VERIFY_SECONDS = 30.0


class HeldLease:
    """
    The lease of one attempt.

    :param objects: the objects of the destination.
    :param owner: the task that acquires it.
    :param clock: returns seconds since 1970. The age of another's lease is read off the store's clock if it has one.
    :param hint: returns a sentence for the reader of an error: where the next attempt resumes.
    """

    def __init__(
        self, objects: StoreObjects, owner: Owner, clock: Callable[[], float], hint: Callable[[], str]
    ) -> None:
        self._objects = objects
        self._owner = owner
        self._clock = clock
        self._hint = hint
        self._verified = self._renewed = clock()
        self._lease = Lease()
        # What the lease object has to be when it is written: at first, not there.
        self._version: str | None = ""
        #: The receipt of the file at the destination; None if its origin is unknown.
        self.current_receipt: Receipt | None = None

    @property
    def epoch_and_token(self) -> tuple[int, str]:
        """The epoch and the token in the names of the objects that this attempt stages."""
        return self._lease.epoch, self._lease.token

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of all attempts whose objects count, oldest first."""
        return self._lease.tokens

    def acquire(self) -> dict[str, int]:
        """
        Acquire the lease (steps 1-5).

        :returns: the names of the segments that may count, with their sizes.
        :raises DestinationInUseError: if another task holds it, or it cannot be understood.
        :raises PermanentError: if another version of this package has written it.
        :raises OSError: if the store refuses or cannot be reached; the message names the destination.
        """
        token = secrets.token_hex(4)
        found = self._objects.read(self._objects.lease)
        lease = self._parse(found)
        staged = self._objects.staged()
        if not lease.is_free_for(self._owner):
            self._check_stale(lease, found, staged, token)
        segments = [segment for name in staged if (segment := Segment.of(name))]
        receipt = lease.last_receipt
        identity = self._objects.identity() if receipt else ""
        self.current_receipt = receipt if receipt and identity == receipt.identity else None
        # An attempt may have replaced the file and died before it wrote its receipt. So the earlier receipt is kept
        # while there is a file.
        self._lease = lease.acquired_by(self._owner, token, self._clock(), segments, receipt if identity else None)
        try:
            self._objects.write(self._objects.lease, self._lease.to_bytes(), found.condition)
        except ConflictError:
            # A store's client may have written it, lost the reply, and tried again.
            self.verify()
        staged = self._objects.staged()
        self.verify()
        self._objects.remove(name for name in staged if self._is_abandoned(name))
        return {name: info.get("size") or 0 for name, info in staged.items()}

    def _check_stale(self, lease: Lease, found: Found, staged: Mapping[str, Mapping[str, Any]], token: str) -> None:
        """Raise unless the lease of another task is stale."""
        seen, now = self._last_seen(lease, found, staged, token)
        if now - seen < STALE_AFTER_SECONDS:
            raise self._in_use(lease, seen)

    def _last_seen(
        self, lease: Lease, found: Found, staged: Mapping[str, Mapping[str, Any]], token: str
    ) -> tuple[float, float]:
        """
        Return when the owner of a lease has written last, and the time now, both by the same clock.

        That is the store's own clock, if it has one; otherwise those of the lease's owner and of this machine.
        """
        holder = [info for name, info in staged.items() if (owner := epoch_and_token(name)) and owner[1] == lease.token]
        times = [found.modified, *(modified_time(info) for info in holder)]
        now = self._store_time(token) if None not in times else None
        if now is None:
            now, times = self._clock(), [lease.since, self._last_renewed(lease)]
        return max(time for time in times if time is not None), now

    def _store_time(self, token: str) -> float | None:
        """Return the store's own time, by writing an object."""
        probe = alive_name(0, token)
        self._objects.write_staged(probe, b"", "")
        written = modified_time(self._objects.info(f"{self._objects.folder}/{probe}"))
        self._objects.remove([probe])
        return written

    def _last_renewed(self, lease: Lease) -> float:
        """Return the time when a lease was last renewed, by its owner's clock."""
        content = self._objects.read(f"{self._objects.folder}/{alive_name(lease.epoch, lease.token)}").content
        try:
            return seconds_since_1970(content or b"0")
        except ValueError:
            return 0.0

    def _is_abandoned(self, name: str) -> bool:
        """Return whether an object is of an attempt that began before this one, and does not count."""
        if is_of_publication(name):
            return False
        staged_by = epoch_and_token(name)
        return staged_by is not None and staged_by[0] < self._lease.epoch and staged_by[1] not in self._lease.tokens

    def check(self, *, fresh: bool) -> None:
        """
        Verify and renew the lease, each at most every 30 seconds.

        :param fresh: whether to verify it in any case.
        :raises DestinationInUseError: if the lease is no longer ours.
        """
        now = self._clock()
        if fresh or now - self._verified >= _VERIFY_SECONDS:
            self.verify()
        if now - self._renewed >= _VERIFY_SECONDS:
            self._objects.write_staged(alive_name(*self.epoch_and_token), json_line(now), self._hint())
            self._renewed = now

    def verify(self) -> None:
        """
        Verify the lease.

        :raises DestinationInUseError: if it is no longer ours.
        """
        found = self._objects.read(self._objects.lease)
        lease = self._parse(found)
        if lease.token != self._lease.token:
            raise self._in_use(lease, lease.since if found.modified is None else found.modified)
        self._version = found.condition
        self._verified = self._clock()

    def distrust(self) -> None:
        """Make the next check verify the lease, even if that was done a moment ago."""
        self._verified = float("-inf")

    def verify_after_upload(self) -> None:
        """
        Verify the lease once the file is at the destination (step 13).

        :raises DestinationInUseError: if it is no longer ours; it says so if another's file was replaced.
        """
        try:
            self.verify()
        except DestinationInUseError as error:
            newer = self._parse(self._objects.read(self._objects.lease)).last_receipt
            # A later lease may have inherited the receipt that ours holds. That one describes no newer file.
            if newer and newer != self._lease.last_receipt and not self.still_published(newer):
                raise newer_replaced_error(self._objects.path, newer.owner.task) from error
            raise

    def still_published(self, receipt: Receipt | None) -> Receipt | None:
        """
        Return a receipt if the file at the destination is the one that it describes, else None.

        :param receipt: the receipt.
        """
        return receipt if receipt and self._objects.identity() == receipt.identity else None

    def settle(self, receipt: Receipt | None) -> None:
        """
        Write a receipt in place of the lease, and remove what is staged (step 15).

        :param receipt: the receipt of the file at the destination; None if there is none.
        :raises DestinationInUseError: if the lease is no longer ours.
        """
        receipt = receipt.after(self._lease.last_receipt) if receipt else None
        settled = Lease(token=self._lease.token, epoch=self._lease.epoch, last_receipt=receipt)
        try:
            self._objects.write(self._objects.lease, settled.to_bytes(), self._version, self._hint())
        except ConflictError:
            lease = self._parse(self._objects.read(self._objects.lease))
            if lease != settled:
                raise self._in_use(lease, lease.since) from None
        self._lease = settled
        remove_settled(self._objects, settled)

    def release(self) -> None:
        """Release the lease, unless it has become a receipt (step 17). Ignore errors: then it goes stale by itself."""
        if self._lease.owner:
            with suppress(OSError, MediaOpsError, ConflictError):
                self.verify()
                self._objects.write(self._objects.lease, replace(self._lease, released=True).to_bytes(), self._version)

    def _parse(self, found: Found) -> Lease:
        return parse_lease(found.content, self._objects.lease, self._objects.path)

    def _in_use(self, lease: Lease, seen: float) -> DestinationInUseError:
        if not lease.owner:
            return lease_removed_error(self._objects.path, self._objects.lease)
        return in_use_error(self._objects.path, lease.owner.task, seen, seen + STALE_AFTER_SECONDS)


def remove_settled(objects: StoreObjects, lease: Lease) -> None:
    """
    Remove the objects staged by the attempt that published, and by earlier ones (step 15).

    :param objects: the objects of the destination.
    :param lease: the lease that holds the receipt.
    """
    found = ((name, epoch_and_token(name)) for name in objects.staged())
    settled = [
        name
        for name, staged_by in found
        if staged_by and (staged_by[0] < lease.epoch or staged_by == (lease.epoch, lease.token))
    ]
    objects.remove(settled)
    if settled:
        # A bulk deletion says nothing of single objects that the store has refused to delete.
        with suppress(OSError):
            _warn_of_left(objects, objects.staged().keys() & set(settled))


def _warn_of_left(objects: StoreObjects, left: Collection[str]) -> None:
    if left:
        _log.warning(
            "%s is written, but %d staged object(s) below %s/ could not be removed: give the key of the connection the "
            "right to delete. The next task that writes this destination removes them; you may remove them, too.",
            objects.path,
            len(left),
            objects.folder,
        )
