"""The files of a dataset on a local disk: the destination, and the hidden ones beside it while it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.files import beside, check_own, parts_of, target_of
from airflow_provider_mediaops.storage.journal import header_line, journal_of
from airflow_provider_mediaops.storage.staged_files import identity_of, remove_own

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.journal import Journal, LockedJournal
    from airflow_provider_mediaops.storage.ownership import Receipt


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """
    The destination, and the hidden files beside it while it is written.

    Whoever changes them holds the lock of the journal.

    :param target: the destination.
    :param records: the staged records.
    :param converted: the file that they are converted to.
    """

    target: Path
    records: Path
    converted: Path

    @classmethod
    def of(cls, path: ObjectStoragePath) -> LocalFiles:
        """
        Return the files of a destination, and create its folder.

        :param path: the destination.
        :raises OSError: if it is a folder, or its folder cannot be created.
        """
        target = target_of(path)
        return cls(target, *(target.with_name(beside(target.name, kind)) for kind in ("records", "converted")))

    def current(self, receipt: Receipt | None) -> Receipt | None:
        """
        Return a receipt if its file is still at the destination.

        :param receipt: the receipt.
        """
        return receipt if receipt and identity_of(self.target) == receipt.identity else None

    def unpublished(self, receipt: Receipt) -> Path | None:
        """
        Return the file that was about to be published; None if it was, or is gone.

        :param receipt: its receipt.
        """
        files = (self.converted, self.records, *parts_of(self.target))
        return next((file for file in files if identity_of(file) == receipt.identity), None)

    def drop_staged(self) -> None:
        """Remove the staged files."""
        for file in (self.records, self.converted):
            remove_own(file)
        for file in parts_of(journal_of(self.target), self.target):
            file.unlink(missing_ok=True)

    def take_back_records(self, receipt: Receipt | None) -> None:
        """
        Give the records their name again, if an attempt has died right before their last renaming.

        :param receipt: the receipt of what it was about to publish; None if it was not.
        :raises PermissionError: if the file is no regular file of this user.
        """
        for part in parts_of(self.target):
            if receipt and not self.records.exists() and identity_of(part) == receipt.identity:
                check_own(part)
                part.replace(self.records)

    def settle_companion(self, journal: Journal) -> None:
        """Put a staged companion in place if its dataset is at the destination; otherwise remove it."""
        if journal.companion is not None and self.current(journal.receipt):
            journal.companion.put_in_place()
        elif journal.companion is not None:
            journal.companion.remove()

    def settle(self, journal: LockedJournal, receipt: Receipt) -> None:
        """Keep only the published file and its receipt."""
        journal.rewrite(header_line(None, receipt))
        self.drop_staged()
