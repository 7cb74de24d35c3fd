"""The digest of many captures: a profile for each series and kind, and what could not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        """Add a capture of the period."""
        key = (sums.series, sums.kind)
        if key not in self.profiles:
            self.profiles[key] = Profile(self.width)
        self.profiles[key].add(sums)
        self.time_sources[sums.time_source] = self.time_sources.get(sums.time_source, 0) + 1
        self._widen()

    def add_before(self, sums: CaptureSums) -> None:
        """Add a capture of the period before, of which the frames count."""
        self.before.setdefault((sums.series, sums.kind), Frames()).add(sums)

    def add_damaged(self, file: str, reason: str) -> None:
        """Add a file that cannot be read."""
        self.damaged_count += 1
        if len(self.damaged) < MOST_DAMAGED:
            self.damaged.append((file, reason))

    def _widen(self) -> None:
        """Join spans of all profiles until there are not too many."""
        length = max(each.last for each in self.profiles.values()) - min(each.first for each in self.profiles.values())
        width = next((each for each in WIDTHS if each >= self.width and length / each < MOST_SPANS), WIDTHS[-1])
        if width != self.width:
            self.width = width
            for profile in self.profiles.values():
                profile.widen(width)
