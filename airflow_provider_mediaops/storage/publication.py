"""What an attempt on an object store is about to publish together: a dataset and its companion."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.ownership import Owner, Receipt
from airflow_provider_mediaops.storage.segments import companion_of_publication

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.storage.store_objects import StoreObjects

# A larger object is none of ours: a summary has a few numbers and paths.
_MAX_BYTES = 1024 * 1024
# No name of a task and no path on a store is longer.
_LONGEST_TASK, _LONGEST_PATH = 1_000, 4_096


@dataclass(frozen=True, slots=True)
class Publication:
    """
    The content of the object that an attempt writes before it uploads a dataset with a companion.

    :param owner: the owner of the dataset.
    :param summary: the return value of the task, with the size of the dataset as ``bytes``.
    :param digest: the digest of its content, if one was given.
    :param replaces: the identity of the object at the destination before the upload; empty if there was none.
    :param companion: the path at which the companion is to be published.
    """

    owner: Owner
    summary: Mapping[str, Any]
    digest: str | None
    replaces: str
    companion: str

    def to_bytes(self) -> bytes:
        """Return the content of the object."""
        return json_line(asdict(self))

    @classmethod
    def from_bytes(cls, content: bytes | None) -> Publication | None:
        """
        Parse the content of the object.

        :param content: the content; None if the object is gone.
        :returns: the publication; None if it is incomplete, for then nothing was uploaded after it, or if no attempt
            can have written it.
        """
        try:
            fields = parse_json(content or b"")
            found = cls(**{**fields, "owner": Owner.from_dict(fields["owner"])})
            return found if found._is_sound() else None
        except (KeyError, TypeError, ValueError):
            return None

    def _is_sound(self) -> bool:
        is_text = all(isinstance(text, str) for text in (self.replaces, self.companion))
        return (
            is_text
            and len(self.owner.task) <= _LONGEST_TASK
            and len(self.companion) <= _LONGEST_PATH
            and type(self.summary["bytes"]) is int
        )

    def receipt_of(self, identity: str) -> Receipt | None:
        """
        Return the receipt of the dataset, if its upload has ended.

        :param identity: the identity of the object at the destination. Its size has to be that of the dataset.
        """
        if identity == self.replaces or not identity.startswith(f"{self.summary['bytes']}:"):
            return None
        return Receipt(self.owner, self.summary, self.digest, identity)

    def is_within_reach(self, destination: str, companion: str | None) -> bool:
        """
        Return whether another attempt may publish the companion.

        Whoever can write to the folder of the destination can plant this object. So the companion has to be where they
        can write anyway, or beside the one that the other attempt writes itself.

        :param destination: the path of the dataset within the store.
        :param companion: the path of the other attempt's own companion; None if it has none.
        :returns: whether it is below the folder of the dataset, or in the folder of the other companion.
        """
        folder, _, name = self.companion.rpartition("/")
        if not name or name.startswith(".") or ".." in folder.split("/") or self.companion == destination:
            return False
        is_below = f"{folder}/".startswith(f"{destination.rpartition('/')[0]}/")
        return is_below or (companion is not None and folder == companion.rpartition("/")[0])


class Unfinished(NamedTuple):
    """
    A publication whose dataset is there, and has no receipt.

    :param publication: what was to be published.
    :param receipt: the receipt of the dataset.
    :param name: the name of the object that says so, below the folder of segments.
    :param companion: the name of the staged companion there.
    """

    publication: Publication
    receipt: Receipt
    name: str
    companion: str


def find_unfinished(objects: StoreObjects, staged: Mapping[str, int]) -> Unfinished | None:
    """
    Find the publication of the object at the destination, which has no receipt.

    :param objects: the objects of the destination.
    :param staged: the sizes of the staged objects by their names.
    :returns: the newest one that describes the object; None if there is none.
    :raises OSError: if the store refuses or cannot be reached; the message names the destination.
    """
    pairs = [(name, found) for name in staged if (found := companion_of_publication(name)) and found in staged]
    identity = objects.identity() if pairs else ""
    for name, companion in sorted(pairs, reverse=True):
        publication = Publication.from_bytes(objects.read(f"{objects.folder}/{name}", _MAX_BYTES).content)
        receipt = publication.receipt_of(identity) if publication else None
        if publication and receipt:
            return Unfinished(publication, receipt, name, companion)
    return None
