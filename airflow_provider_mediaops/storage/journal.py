"""
The journal of a dataset that is being staged, line by line: whose it is, its commits, its receipt.

The first line names the owner and the receipt of what stands at the destination. A line a commit follows, and in the
end the receipt of what was published. A journal without an owner has no stage: it keeps a receipt.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.ownership import Owner, Receipt
from airflow_provider_mediaops.storage.records import Extent

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Commit:
    """
    One commit.

    :param extent: how much of the records counts.
    :param state: what the writer saved with it.
    :param end: where its line ends in the journal.
    """

    extent: Extent
    state: Any
    end: int


@dataclass(slots=True)
class Journal:
    """
    What a journal says.

    :param owner: whose the stage is; None where there is none.
    :param last: the receipt of what was published before.
    :param commits: in order.
    :param receipt: the receipt of what this stage has published, or was about to.
    :param start: where its first line ends.
    """

    owner: Owner | None = None
    last: Receipt | None = None
    commits: list[Commit] = field(default_factory=list)
    receipt: Receipt | None = None
    start: int = 0


def header_line(owner: Owner | None, last: Receipt | None) -> bytes:
    """Give the first line of a journal."""
    head = {"owner": asdict(owner) if owner else None, "last": last.to_dict() if last else None}
    return json_line({"version": _VERSION, **head}) + b"\n"


def commit_line(extent: Extent, state: Any) -> bytes:
    """Give the line of a commit."""
    return json_line({"extent": (extent.size, extent.rows, extent.crc), "state": state}) + b"\n"


def receipt_line(receipt: Receipt) -> bytes:
    """Give the line that ends a journal."""
    return json_line({"receipt": receipt.to_dict()}) + b"\n"


def read_journal(data: bytes) -> Journal:
    """
    Read a journal as far as it goes.

    :param data: its content; a process that died or a disk that was full may have cut its last line short, and a power
        cut may have left anything at its end.
    :returns: what it says; an empty journal where not even its first line can be read.
    """
    journal = Journal()
    end = 0
    for line in data.split(b"\n")[:-1]:
        end += len(line) + 1
        fields = _fields(line)
        try:
            if not journal.start:
                journal = _begun(fields, end)
            elif "receipt" in fields:
                journal.receipt = Receipt.from_dict(fields["receipt"])
            else:
                journal.commits.append(Commit(Extent(*fields["extent"]), fields["state"], end))
        except (KeyError, TypeError):
            break
    return journal


def _begun(fields: Mapping[str, Any], end: int) -> Journal:
    if fields["version"] != _VERSION:
        raise KeyError(fields["version"])
    owner = fields["owner"]
    return Journal(Owner(**owner) if owner else None, Receipt.from_dict(fields["last"]), start=end)


def _fields(line: bytes) -> Mapping[str, Any]:
    try:
        value = parse_json(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
