"""The changes of an export: against which version they are, what the service is asked once more, what is published."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.http.exchange import Ask, Blocking, CallFlow
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.path_checks import check_writable
from airflow_provider_mediaops.storage.scratch import naming_folder
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError
from airflow_provider_mediaops.video.changes import VersionComparison, id_of
from airflow_provider_mediaops.video.second_look import Looked, second_look

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from airflow_provider_mediaops.storage.dataset import Staging
    from airflow_provider_mediaops.storage.ownership import Owner
    from airflow_provider_mediaops.video.paging import Listing

#: The key of the state that is saved with the pages.
STATE = "second_look"
_KIND = "#subscription"


@dataclass(slots=True)
class LookState:
    """
    How far the second look has come.

    :param last: the id up to which all are decided; None before the first.
    :param against: the version with which the listing was compared.
    :param recovered: the number of records that the listing lacked, and the service still had.
    :param kept: the number of older records that were kept, because it is not known that they are gone.
    """

    last: str | None = None
    against: str = ""
    recovered: int = 0
    kept: int = 0


class ExportChanges:
    """
    The changes of an export against the version that it replaces.

    They are against that version if an export with the same arguments has published it. Otherwise they are against
    nothing, so that every record is added: a record that another query has listed is not gone because this one lacks
    it, and to ask for its id does not tell whether this query should have listed it.

    Only :meth:`look` is free of blocking work.

    :param path: the path at which the changes are published.
    :param destination: the path of the dataset, for messages.
    :param staging: the place where the dataset is committed.
    :param owner: the task instance that writes it, and its parameters.
    :param warn: logs a warning.
    :raises InvalidArgumentError: if the file at the destination is no export of subscriptions.
    :raises DestinationReplacedError: if somebody else has published since this attempt began.
    :raises OSError: if the older version cannot be read, there is no room for a copy of it, or the file of changes
        cannot be written.
    """

    def __init__(
        self, path: str, destination: str, staging: Staging, owner: Owner, warn: Callable[[str], None]
    ) -> None:
        self._path, self._destination = path, destination
        self._staging = staging
        self._warn = warn
        self._state = LookState(**(staging.state or {}).get(STATE, {}))
        if self._state.against != staging.replaced_version:
            # Somebody else has published since: another version may lack other records.
            self._state = replace(self._state, last=None, against=staging.replaced_version)
        replaced = staging.replaced
        #: Whether there is an older version to compare with.
        self.compared = replaced is not None and replaced.owner.parameters == owner.parameters
        if not self.compared and staging.replaced_version:
            self._check_replaced()
        check_writable(path_of(path))
        self._comparison = VersionComparison(staging.line)
        if self.compared:
            self._comparison.add_old(staging.replaced_records())

    def _check_replaced(self) -> None:
        """Raise unless the file at the destination is an export; warn that it is not compared with."""
        try:
            first = next(self._staging.unverified_records(), None)
            reason = "" if first is None or _is_subscription(parse_json(first.encode())) else "its records are others"
        except (InvalidSourceError, ValueError) as error:
            reason = str(error)
        if reason:
            raise InvalidArgumentError(
                f"changes cannot be listed: destination {self._destination!r} holds a file that is no export of "
                f"subscriptions ({reason}). Move that file away, or give another destination."
            )
        self._warn(
            f"{self._destination} was exported with other arguments, or changed since, so there is no version to "
            "compare with: all subscriptions count as added."
        )

    def look(self, ask: Ask, listing: Listing) -> CallFlow[None]:
        """
        Look once more for the subscriptions that the listing lacks.

        :param ask: makes a call flow of a call.
        :param listing: the listing, which has ended.
        :returns: a call flow that emits a ``Looked`` for each batch. It has to be saved before the next.
        :raises MediaOpsError: if the service refuses.
        """
        if self.compared:
            yield Blocking(self._add_new)
            yield from second_look(
                ask,
                listing.query,
                self._comparison,
                self._state.last,
                complete=listing.complete,
                warn=self._warn,
            )

    def _add_new(self) -> None:
        self._comparison.add_new(self._staging.lines(self._comparison.end))

    def save(self, looked: Looked, listing_state: Mapping[str, Any]) -> None:
        """
        Save the records of a batch, and how far the second look has come.

        :param looked: the batch that the call flow has just emitted.
        :param listing_state: the state of the listing.
        :raises OSError: if they cannot be saved.
        """
        state = self._state
        self._state = LookState(
            looked.last, state.against, state.recovered + len(looked.recovered), state.kept + len(looked.kept)
        )
        self._staging.commit([*looked.recovered, *looked.kept], {**listing_state, STATE: asdict(self._state)})

    def finish(self) -> dict[str, Any]:
        """
        Have the changes published with the dataset.

        :returns: what the summary says about them, but for their path.
        """
        self._add_new()
        counts, state = self._comparison.counts(), self._state
        if state.recovered:
            self._warn(
                f"The service's pages left out {state.recovered:,} subscriptions that it still has: they are exported."
            )
        if state.kept:
            self._warn(
                f"{state.kept:,} subscriptions of the older version were not listed, and are not known to be gone: "
                "they stay in the dataset as they were."
            )
        if self._comparison.unidentified:
            self._warn(f"{self._comparison.unidentified:,} records have no id, so the changes do not name them.")
        self._staging.changes = self._write
        return {
            "compared": self.compared,
            "added": counts.added,
            "removed": counts.removed,
            "changed_records": counts.changed,
            "recovered": state.recovered,
            "kept": state.kept,
        }

    def _write(self, file: Path) -> None:
        with naming_folder(), file.open("wb") as opened:
            opened.writelines(change.line() for change in self._comparison.changes())
        self._comparison.close()

    def abort(self) -> None:
        """Remove the temporary files, because the attempt ends with an error."""
        self._comparison.close()


def is_unchanged(summary: Mapping[str, Any]) -> bool:
    """
    Return whether an export has found nothing new, by what its summary says.

    :param summary: the return value of the task.
    :returns: False as well if there was no version to compare with.
    """
    if "compared" not in summary:
        return summary.get("changed") is False
    return bool(summary["compared"]) and not any(summary[name] for name in ("added", "removed", "changed_records"))


def _is_subscription(record: Any) -> bool:
    kind = record.get("kind") if isinstance(record, dict) else None
    return kind.endswith(_KIND) if isinstance(kind, str) else id_of(record) is not None
