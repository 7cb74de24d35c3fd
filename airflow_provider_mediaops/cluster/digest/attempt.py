"""
Make a digest of captures: read them one by one, and write the files.

Nothing is kept until then: an attempt that dies is made anew, for ten thousand captures take about a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.capture.plan import capture_paths
from airflow_provider_mediaops.cluster.capture.reading import NoReportError
from airflow_provider_mediaops.cluster.digest.findings import document_of, folded_of, result_of
from airflow_provider_mediaops.cluster.digest.period import Period, check_sources
from airflow_provider_mediaops.cluster.digest.source import find_captures, is_digest, name_of, read_captures
from airflow_provider_mediaops.cluster.digest.sums import Digest
from airflow_provider_mediaops.cluster.text import listed
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from airflow_provider_mediaops.progress import ProgressLog, counted
from airflow_provider_mediaops.storage.files import check_writable, write_whole
from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.storage.paths import lasting, path_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.source import FoundCapture

#: The files of a digest.
FORMATS = ("json", "folded", "html")

_NO_CAPTURE = "holds no .txt or .json file of a capture"


@dataclass(frozen=True, slots=True)
class DigestPlan:
    """Which captures to sum up, and the files to write."""

    sources: tuple[str, ...]  # folders, patterns and files, with their stores; local paths are absolute
    destination: str  # the path of the page; the suffix is exchanged for that of each file
    period: Period

    def __post_init__(self) -> None:
        check_sources(self.sources)

    @property
    def paths(self) -> dict[str, str]:
        """The files by format, as other processes can open them."""
        paths = capture_paths(self.destination, FORMATS)
        return {name: lasting(path) for name, path in paths.items()}


def make_digest(
    plan: DigestPlan,
    *,
    log: Callable[[str], None],
    warn: Callable[[str], None],
    check_stop: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """
    Make a digest, and write its files; see :class:`~airflow_provider_mediaops.results.HotThreadsDigest`.

    ``check_stop`` is called before each capture; it raises if the task is to end.
    """
    digest, progress, files = Digest(plan.period), ProgressLog(log), _find(plan)
    for path in plan.paths.values():
        check_writable(path_of(path))
    for read, capture in enumerate(files, 1):
        check_stop()
        _add(digest, capture, warn)
        progress.log_if_due(partial("Read {:,} of {:,} captures.".format, read, len(files)))
    if not digest.captures:
        raise _nothing(plan, digest, len(files))
    result = _write(plan, digest)
    log(f"Wrote {plan.paths['html']}, and beside it .json and .folded.")
    return result


def _find(plan: DigestPlan) -> list[FoundCapture]:
    """Return the captures without an earlier digest at the destination; raise if something else is there."""
    found = find_captures(plan.sources)
    stem = name_of(plan.paths["json"]).removesuffix(".json")
    if any(each.stem == stem and not is_digest(each) for each in found):
        raise InvalidArgumentError(
            f"destination {plan.destination!r} is the source, too, which the digest would replace: choose another file."
        )
    return [each for each in found if each.stem != stem]


def _add(digest: Digest, capture: FoundCapture, warn: Callable[[str], None]) -> None:
    try:
        found = read_captures(capture, digest.period, warn)
    except NoReportError as error:
        digest.damaged.append((capture.name, str(error)))
        warn(f"Left out {capture.name}: {error}.")
    else:
        for each in found:
            digest.add(each)


def _write(plan: DigestPlan, digest: Digest) -> dict[str, Any]:
    from airflow_provider_mediaops.cluster.page.digest_document import digest_page

    paths = plan.paths
    document = document_of(digest, plan.sources)
    contents = {
        "folded": folded_of(digest).encode(),
        "html": digest_page(digest, document, paths["html"]).encode(),
        "json": json_line(document) + b"\n",
    }
    for name, content in contents.items():
        write_whole(path_of(paths[name]), content)
    return result_of(document, paths)


def _nothing(plan: DigestPlan, digest: Digest, number: int) -> PermanentError:
    """Return the error of a digest of no capture, of so many files."""
    reasons = []
    if digest.outside:
        reasons.append(f"{digest.outside:,} are of another time: see since and until")
    if before := sum(profile.captures for profile in digest.before.values()):
        reasons.append(f"{before:,} are of the period before")
    if digest.damaged:
        reasons.append("{:,} are damaged; the first, {}: {}".format(len(digest.damaged), *digest.damaged[0]))
    why = (
        f"holds {counted(number, 'file')}, but no capture that counts ({'; '.join(reasons)})"
        if reasons
        else _NO_CAPTURE
    )
    named = listed(tuple(map(repr, plan.sources)))
    return PermanentError(f"There is nothing to digest: source {named} {why}. No file was written.")
