"""The files of a dataset that is staged on a local disk, and what an attempt that died has left of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.files import beside, parts_of, target_of
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

    def unpublished(self, receipt: Receipt | None) -> Path | None:
        """
        Return the file that an attempt was about to publish; None if it was published or removed.

        :param receipt: its receipt; None if the attempt had not come that far.
        """
        if receipt is None:
            return None
        files = (self.converted, self.records, *parts_of(self.target))
        return next((file for file in files if identity_of(file) == receipt.identity), None)

    def drop_staged(self) -> None:
        """Remove the staged files."""
        for file in (self.records, self.converted):
            remove_own(file)
        for file in parts_of(journal_of(self.target), self.target):
            file.unlink(missing_ok=True)

    def abandon(self, journal: LockedJournal, content: Journal) -> None:
        """
        Remove what an attempt has staged.

        :param journal: its journal.
        :param content: the content of the journal.
        :raises PermissionError: if a file is no regular file of this user.
        """
        if self.unpublished(content.receipt):
            # Without this file, the attempt would seem to have published. So the receipt goes first.
            journal.cut(content.start)
        self.drop_staged()

    def take_back_records(self, waiting: Path | None) -> None:
        """
        Give the records their name again, if an attempt has died right before their last renaming.

        Whoever opens them makes sure that they are this user's.

        :param waiting: the file that it was about to publish; None if there is none.
        """
        # What records were converted to waits beside them.
        if waiting and not os.path.lexists(self.records):
            waiting.replace(self.records)

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
