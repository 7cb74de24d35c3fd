"""
Make a digest of captures: read them one by one, keep what is done, and publish the files.

What is summed up is staged beside the destination after every 200 captures, as that of a dataset is. An attempt that
dies is resumed after its last commit. The parts of a digest are always cut at the same
captures, and merged in the same order, so that the files do not depend on how often an attempt died.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.capture.destination import capture_paths
from airflow_provider_mediaops.cluster.digest.findings import document_of, folded_of, result_of
from airflow_provider_mediaops.cluster.digest.model import Digest
from airflow_provider_mediaops.cluster.digest.period import Period, same_path_error
from airflow_provider_mediaops.cluster.digest.reading import (
    Damaged,
    NoCapture,
    Outside,
    belongs_to_capture,
    read_captures,
)
from airflow_provider_mediaops.cluster.digest.source import find_captures, name_of, without_pages_of_series
from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.progress import ProgressLog
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.files import is_local, lasting, path_of, write_whole
from airflow_provider_mediaops.storage.formats import FlatView, json_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from airflow_provider_mediaops.cluster.digest.source import FoundCapture
    from airflow_provider_mediaops.storage.dataset import Staging
    from airflow_provider_mediaops.storage.ownership import Owner

#: The files of a digest.
FORMATS = ("json", "folded", "html")

#: How many captures are summed up between two commits.
CAPTURES_PER_COMMIT = 200

_NAMED_SOURCES = 3
_NO_CAPTURE = "holds no .txt or .json file of a capture"
_NO_TABLE = FlatView({}, lambda _: {})


@dataclass(frozen=True, slots=True)
class DigestPlan:
    """
    Which captures to sum up, and the files to write.

    :param sources: folders, patterns and files, with their stores; local paths are absolute.
    :param destination: the path of the page; the suffix is exchanged for that of each file.
    :param period: the time that counts.
    :raises InvalidArgumentError: if the destination names no file, or is one of the sources.
    """

    sources: tuple[str, ...]
    destination: str
    period: Period

    def __post_init__(self) -> None:
        own = {name_of(path) for path in self.paths.values()}
        for source in self.sources:
            if name_of(source) in own | {name_of(self.destination)}:
                raise same_path_error(self.destination)

    @property
    def paths(self) -> dict[str, str]:
        """The files by format, as other processes can open them."""
        paths = capture_paths(self.destination, FORMATS)
        return {name: lasting(path_of(path)) if is_local(path_of(path)) else path for name, path in paths.items()}


class DigestAttempt:
    """
    One attempt at a digest.

    :param plan: which captures, and where to.
    :param owner: the task instance with its arguments.
    :param log: logs a line.
    :param warn: logs a warning.
    :param check_stop: called before each capture; raises if the task is to end.
    """

    def __init__(
        self,
        plan: DigestPlan,
        owner: Owner,
        *,
        log: Callable[[str], None],
        warn: Callable[[str], None],
        check_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan = plan
        self._owner = owner
        self._log = log
        self._warn = warn
        self._check_stop = check_stop
        self._dataset = Dataset(plan.paths["json"], view=_NO_TABLE, format="jsonl")

    def run(self) -> dict[str, Any]:
        """
        Make the digest, or resume it, and write its files.

        :returns: a few plain values; see :class:`~airflow_provider_mediaops.results.digest.HotThreadsDigest`.
        :raises PermanentError: if there is no capture of that time.
        :raises InvalidArgumentError: if the files would replace those of a capture.
        :raises OSError: if a file cannot be read or written; the message names it.
        :raises DestinationInUseError: if a newer attempt of the task has begun.
        :raises DestinationReplacedError: if another task has written the same digest meanwhile.
        """
        published = self._dataset.published(self._owner)
        if published is not None:
            self._log(f"An earlier attempt of this task has written {self._plan.paths['html']} already.")
            done: dict[str, Any] = published["digest"]
            return done
        files = self._find()
        if not files:
            raise _nothing(self._plan.sources, _NO_CAPTURE)
        with self._dataset.staging(self._owner) as staging:
            period = self._resume(staging, files)
            digest = self._read(staging, files, period)
            if not digest.captures:
                # A cleared task is to look again.
                staging.discard()
                raise _nothing(self._plan.sources, _why_nothing(digest, len(files)))
            return self._publish(staging, digest, period)

    def _find(self) -> list[FoundCapture]:
        """Return the captures without an earlier digest at the destination; raise if a capture is there."""
        found = find_captures(self._plan.sources)
        stem = name_of(self._plan.paths["json"]).removesuffix(".json")
        if any(each.stem == stem and belongs_to_capture(each) for each in found):
            raise same_path_error(self._plan.destination)
        return without_pages_of_series(each for each in found if each.stem != stem)

    def _resume(self, staging: Staging, files: Sequence[FoundCapture]) -> Period:
        """Return the period, which an earlier attempt may have begun with; discard what it did of other files."""
        state = staging.state
        if state is None:
            return self._plan.period
        if state["listing"] != _listing(files[: state["done"]]).hexdigest():
            self._warn("The files in the source have changed since the last attempt: the digest begins anew.")
            staging.discard()
            return self._plan.period
        self._log(f"Resuming after {state['done']:,} of {len(files):,} captures.")
        return Period(*state["period"])

    def _read(self, staging: Staging, files: Sequence[FoundCapture], period: Period) -> Digest:
        """Sum up all captures, those of earlier attempts included."""
        digest = Digest()
        for record in staging.records():
            digest.merge(Digest.from_dict(record))
        done = staging.state["done"] if staging.state else 0
        listing = _listing(files[:done])
        progress = ProgressLog(self._log)
        rest = iter(files[done:])
        while batch := list(islice(rest, CAPTURES_PER_COMMIT)):
            part = Digest()
            for capture in batch:
                self._check_stop()
                _add(part, capture, period, self._warn)
                done += 1
                progress.count()
                progress.log_if_due(lambda done=done: f"Read {done:,} of {len(files):,} captures.")  # type: ignore[misc]
            record = part.to_dict()
            _add_to(listing, batch)
            state = {"done": done, "listing": listing.hexdigest(), "period": [period.since, period.until]}
            staging.commit([record], state)
            # As a later attempt would read it, so that both sum up the same figures in the same order.
            digest.merge(Digest.from_dict(record))
        return digest

    def _publish(self, staging: Staging, digest: Digest, period: Period) -> dict[str, Any]:
        from airflow_provider_mediaops.cluster.page.digest_document import digest_page

        paths = self._plan.paths
        document = document_of(digest, period, self._plan.sources)
        # The JSON file is the last: an attempt that dies before is repeated from here.
        write_whole(path_of(paths["folded"]), folded_of(digest).encode())
        write_whole(path_of(paths["html"]), digest_page(digest, document, paths["html"]).encode())
        content = json_line(document) + b"\n"
        staging.convert = lambda file: _write(file, content)
        result = {**result_of(document, paths), "resumed": staging.resumed}
        staging.summary = {"digest": result}
        self._log(result["headline"])
        self._log(f"Wrote {paths['html']}, and beside it .json and .folded.")
        return result


def _add(part: Digest, capture: FoundCapture, period: Period, warn: Callable[[str], None]) -> None:
    found = read_captures(capture, period, warn)
    if isinstance(found, Damaged):
        part.add_damaged(capture.name, found.reason)
        warn(f"Left out {capture.name}: {found.reason}.")
    elif not isinstance(found, NoCapture):
        for sums in found:
            if isinstance(sums, Outside):
                part.outside += 1
            elif period.place_of(sums.time) == "before":
                part.add_before(sums)
            else:
                part.add(sums)


def _write(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)


def _listing(files: Sequence[FoundCapture]) -> hashlib._Hash:
    """Return a digest of the names of captures."""
    listing = hashlib.sha256()
    _add_to(listing, files)
    return listing


def _add_to(listing: hashlib._Hash, files: Sequence[FoundCapture]) -> None:
    for capture in files:
        kinds = f"{capture.text is not None}{capture.json is not None}"
        listing.update(f"{capture.stem}\0{kinds}\n".encode("utf-8", "replace"))


def _nothing(sources: Sequence[str], why: str) -> PermanentError:
    more = f" and {len(sources) - _NAMED_SOURCES} more" if len(sources) > _NAMED_SOURCES else ""
    named = f"{', '.join(map(repr, sources[:_NAMED_SOURCES]))}{more}"
    return PermanentError(f"There is nothing to digest: source {named} {why}. No file was written.")


def _why_nothing(digest: Digest, number: int) -> str:
    reasons = []
    if digest.outside:
        reasons.append(f"{digest.outside:,} are of another time: see since and until")
    if before := sum(frames.captures for frames in digest.before.values()):
        reasons.append(f"{before:,} are of the period before")
    if digest.damaged_count:
        reasons.append(
            f"{digest.damaged_count:,} are damaged; the first, {digest.damaged[0][0]}: {digest.damaged[0][1]}"
        )
    return f"holds {number:,} files, but no capture that counts ({'; '.join(reasons)})" if reasons else _NO_CAPTURE
