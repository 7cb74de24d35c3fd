"""The digest of many captures: a profile for each series and kind, and what could not be read. It can be merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.digest.profile import Frames, Profile

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums

#: The lengths of a span of time, in seconds: each is a multiple of the one before.
WIDTHS = (600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800, 2_419_200, 31_449_600, 314_496_000)
#: The maximum number of spans between the first capture and the last.
MOST_SPANS = 100
#: How many damaged files are named.
MOST_DAMAGED = 1_000

ProfileKey = tuple[str, str]
"""The series and the kind of a profile."""


class Digest:
    """The sums of many captures, in a bounded size."""

    def __init__(self) -> None:
        self.width = WIDTHS[0]
        self.profiles: dict[ProfileKey, Profile] = {}
        #: The frames of the period before.
        self.before: dict[ProfileKey, Frames] = {}
        #: The number of captures by the source of their time.
        self.time_sources: dict[str, int] = {}
        #: The number of captures of other times, which were not summed up.
        self.outside = 0
        #: The first damaged files with the reason, and how many there are.
        self.damaged: list[tuple[str, str]] = []
        self.damaged_count = 0

    @property
    def captures(self) -> int:
        """The number of captures that are summed up."""
        return sum(profile.frames.captures for profile in self.profiles.values())

    def add(self, sums: CaptureSums) -> None:
        """
        Add a capture of the period.

        :param sums: its sums.
        """
        key = (sums.series, sums.kind)
        if key not in self.profiles:
            self.profiles[key] = Profile(self.width)
        self.profiles[key].add(sums)
        self.time_sources[sums.time_source] = self.time_sources.get(sums.time_source, 0) + 1
        self._widen(self.width)

    def add_before(self, sums: CaptureSums) -> None:
        """
        Add a capture of the period before, of which the frames count.

        :param sums: its sums.
        """
        self.before.setdefault((sums.series, sums.kind), Frames()).add(sums)

    def add_damaged(self, file: str, reason: str) -> None:
        """
        Add a file that cannot be read.

        :param file: the file, for people.
        :param reason: what is wrong with it.
        """
        self.damaged_count += 1
        if len(self.damaged) < MOST_DAMAGED:
            self.damaged.append((file, reason))

    def merge(self, other: Digest) -> None:
        """
        Add other captures.

        :param other: their digest; it is not to be used any more.
        """
        self._widen(other.width)
        other._widen(self.width)
        for key, profile in other.profiles.items():
            if key in self.profiles:
                self.profiles[key].merge(profile)
            else:
                self.profiles[key] = profile
        for key, frames in other.before.items():
            self.before.setdefault(key, Frames()).merge(frames)
        for source, number in other.time_sources.items():
            self.time_sources[source] = self.time_sources.get(source, 0) + number
        self.outside += other.outside
        self.damaged = [*self.damaged, *other.damaged][:MOST_DAMAGED]
        self.damaged_count += other.damaged_count
        self._widen(self.width)

    def _widen(self, width: int) -> None:
        """Join spans of all profiles until they are this long, and there are not too many."""
        if self.profiles:
            length = max(each.last for each in self.profiles.values()) - min(
                each.first for each in self.profiles.values()
            )
            width = next((each for each in WIDTHS if each >= width and length / each < MOST_SPANS), WIDTHS[-1])
        if width != self.width:
            self.width = width
            for profile in self.profiles.values():
                profile.widen(width)

    def to_dict(self) -> dict[str, Any]:
        """Return the digest as plain values, to be merged by a later attempt."""
        return {
            "width": self.width,
            "profiles": [[*key, profile.to_dict()] for key, profile in self.profiles.items()],
            "before": [[*key, frames.to_dict()] for key, frames in self.before.items()],
            "time_sources": self.time_sources,
            "outside": self.outside,
            "damaged": self.damaged,
            "damaged_count": self.damaged_count,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Digest:
        """Return the digest of the values from :meth:`to_dict`."""
        digest = cls()
        digest.width = values["width"]
        digest.profiles = {(series, kind): Profile.from_dict(each) for series, kind, each in values["profiles"]}
        digest.before = {(series, kind): Frames.from_dict(each) for series, kind, each in values["before"]}
        digest.time_sources = values["time_sources"]
        digest.outside = values["outside"]
        digest.damaged = [(file, reason) for file, reason in values["damaged"]]
        digest.damaged_count = values["damaged_count"]
        return digest
