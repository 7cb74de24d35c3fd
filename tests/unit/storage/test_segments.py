"""Names and contents of segments, and which of them count."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.storage.records import Extent
from airflow_provider_mediaops.storage.segments import (
    Position,
    Segment,
    StagedRecords,
    alive_name,
    content_of,
    epoch_and_token,
    read_content,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BEFORE = Extent().grown(b'{"n":1}\n', 1)
START = Position.at_end_of(BEFORE)
DATA = b'{"n":2}\n{"n":3}\n'
AFTER = BEFORE.grown(DATA, 2)


class TestNames:
    @pytest.mark.parametrize(
        ("segment", "name"),
        [
            (Segment(1, "00ff", 2, 3, Position(0, 0)), "00000001-00ff-000002-00000003-after-0-00000000"),
            (
                Segment(123_456_789, "a", 1_000_000, 123_456_789, Position(5, 0xABC)),
                "123456789-a-1000000-123456789-after-5-00000abc",
            ),
        ],
    )
    def test_a_segment_survives_its_name(self, segment: Segment, name: str) -> None:
        assert segment.name == name
        assert Segment.of(name) == segment
        assert epoch_and_token(name) == (segment.epoch, segment.token)

    @pytest.mark.parametrize(
        "name", ["", "note.txt", "1-a-1-1-after-0-0", "00000001-a-000001-00000001-after-0-00000000.tmp", "00000001-a"]
    )
    def test_other_names_are_of_none(self, name: str) -> None:
        assert Segment.of(name) is None
        assert epoch_and_token(name) is None

    def test_a_sign_of_life_says_who_wrote_it(self) -> None:
        assert epoch_and_token(alive_name(12, "0a")) == (12, "0a")


class TestContent:
    @pytest.mark.parametrize(
        "state", [None, {"token": "T", "deep": [1, None]}, "line\nbreak", {"half": "\ud800"}, {"n": math.inf}, 2**70]
    )
    def test_it_survives(self, state: Any) -> None:
        assert read_content(content_of(START, AFTER, state, DATA), START) == (AFTER, state, DATA)

    def test_a_state_needs_no_records(self) -> None:
        assert read_content(content_of(START, BEFORE, 7, b""), START) == (BEFORE, 7, b"")

    def test_one_that_is_damaged_is_none(self) -> None:
        content = content_of(START, AFTER, {"a": 1}, DATA)

        assert [read_content(content[:length], START) for length in range(len(content))] == [None] * len(content)
        assert read_content(content + b"\n", START) is None
        assert read_content(content.replace(b'"n":3', b'"n":4'), START) is None

    @pytest.mark.parametrize(
        "content", [b"\n", b"[]\n", b"{}\n", b'{"extent":{"size":1}}\n', b'{"extent":{"x":1}}\n', b"\xff\n"]
    )
    def test_other_content_is_none(self, content: bytes) -> None:
        assert read_content(content, Position(0, 0)) is None

    @pytest.mark.parametrize("rows", [True, 3.0, -1, "3", None, [3], 99])
    def test_an_extent_that_cannot_be_is_damage(self, rows: Any) -> None:
        assert read_content(content_of(START, replace(AFTER, rows=rows), None, DATA), START) is None

    @pytest.mark.parametrize("start", [Position(0, 0), Position(8, 0), Position.at_end_of(AFTER)])
    def test_one_that_follows_other_records_is_none(self, start: Position) -> None:
        assert read_content(content_of(START, AFTER, None, DATA), start) is None


class Staged:
    """Segments in memory."""

    def __init__(self) -> None:
        self.contents: dict[Segment, bytes] = {}
        self.spool = bytearray()
        self.fetched = 0

    def attempt(self, token: str, after: str, *segments: str) -> None:
        """Stage an attempt that resumed after some letters; of each segment, its letters are the commits."""
        extent = Extent().grown(self.lines(after), len(after))
        begin = Position.at_end_of(extent)
        serial = sum(segment.token == token for segment in self.contents)
        for number, letters in enumerate(segments, 1):
            start = Position.at_end_of(extent)
            grown = extent
            for length, letter in enumerate(letters, 1):
                grown = grown.grown(self.lines(letter), 1)
                serial += 1
                data = self.lines(letters[:length])
                self.contents[Segment(1, token, number, serial, begin)] = content_of(start, grown, letter, data)
            extent = grown

    @staticmethod
    def lines(letters: str) -> bytes:
        return "".join(f'"{letter}"\n' for letter in letters).encode()

    def fetch(self, segments: Sequence[Segment]) -> Iterator[bytes | None]:
        for segment in segments:
            self.fetched += 1
            yield self.contents.get(segment)

    def write(self, data: bytes, position: int) -> None:
        self.spool[position:] = data

    def read(self, *tokens: str, without: Sequence[Segment] = ()) -> tuple[str, Any]:
        """Return the letters that count, and the state."""
        there = [segment for segment in self.contents if segment not in without]
        extent, state = StagedRecords(tokens, self.fetch, self.write).read(there)
        del self.spool[extent.size :]
        assert Extent().grown(bytes(self.spool), self.spool.count(b"\n")) == extent
        return self.spool.decode().replace('"', "").replace("\n", ""), state

    def of(self, token: str, number: int) -> list[Segment]:
        """Return the copies of a segment, the newest last."""
        return sorted(
            (each for each in self.contents if (each.token, each.number) == (token, number)),
            key=lambda each: each.serial,
        )


@pytest.fixture
def staged() -> Staged:
    return Staged()


class TestWhichCount:
    def test_nothing(self, staged: Staged) -> None:
        assert staged.read("a") == ("", None)

    def test_only_those_of_the_attempts_that_are_named(self, staged: Staged) -> None:
        staged.attempt("a", "", "kl", "m")
        staged.attempt("z", "", "xyz")

        assert staged.read("a") == ("klm", "m")
        assert staged.read("b") == ("", None)

    def test_of_each_segment_the_newest_copy_is_read(self, staged: Staged) -> None:
        staged.attempt("a", "", "kl", "mno")

        assert staged.read("a") == ("klmno", "o")
        assert staged.fetched == 2

    @pytest.mark.parametrize(("number", "left"), [(1, "k"), (2, "klmn")])
    def test_for_a_damaged_copy_the_one_before_it_counts(self, staged: Staged, number: int, left: str) -> None:
        staged.attempt("a", "", "kl", "mno")
        newest = staged.of("a", number)[-1]
        staged.contents[newest] = staged.contents[newest][:-1]

        assert staged.read("a")[0] == left

    def test_up_to_a_segment_that_is_missing(self, staged: Staged) -> None:
        staged.attempt("a", "", "kl", "mn", "op")

        assert staged.read("a", without=staged.of("a", 2)) == ("kl", "l")
        # It goes between the list and the reading.
        for each in staged.of("a", 2):
            del staged.contents[each]
        assert staged.read("a") == ("kl", "l")

    def test_an_attempt_counts_up_to_where_the_next_resumed(self, staged: Staged) -> None:
        staged.attempt("a", "", "kl", "mnXY", "Z")
        staged.attempt("b", "klmn", "op", "q")

        assert staged.read("a", "b") == ("klmnopq", "q")
        assert staged.read("a") == ("klmnXYZ", "Z")

    def test_three_attempts_that_each_wrote_on(self, staged: Staged) -> None:
        staged.attempt("a", "", "klZZZZ")
        staged.attempt("b", "kl", "mYYYYY")
        staged.attempt("c", "klm", "n")

        assert staged.read("a", "b", "c") == ("klmn", "n")

    def test_one_that_resumed_before_the_records_of_another_replaces_it(self, staged: Staged) -> None:
        staged.attempt("a", "", "k")
        staged.attempt("b", "k", "YY")
        staged.attempt("c", "k", "l")

        assert staged.read("a", "b", "c") == ("kl", "l")

    def test_one_whose_records_before_are_lost_does_not_count(self, staged: Staged) -> None:
        staged.attempt("a", "", "kl", "mn")
        staged.attempt("b", "klmn", "op")

        assert staged.read("a", "b", without=staged.of("a", 2)) == ("kl", "l")
        assert staged.read("a", "b", without=staged.of("a", 1)) == ("", None)

    def test_a_commit_that_is_there_twice_counts_as_the_next_attempt_knows_it(self, staged: Staged) -> None:
        """The reply of `m` was lost: the first attempt made another commit of it, after the second had resumed."""
        staged.attempt("a", "", "klm")
        staged.attempt("b", "klm", "no")
        staged.attempt("a", "", "klMN", "O")

        assert staged.read("a", "b") == ("klmno", "o")
        assert staged.read("a") == ("klMNO", "O")

    def test_commits_without_records(self, staged: Staged) -> None:
        begin = Position(0, 0)
        staged.contents[Segment(1, "a", 1, 1, begin)] = content_of(begin, Extent(), 1, b"")
        staged.contents[Segment(2, "b", 1, 1, begin)] = content_of(begin, Extent(), 2, b"")

        assert staged.read("a", "b") == ("", 2)
        assert staged.read("a") == ("", 1)

    def test_reading_a_long_attempt_that_leads_nowhere_takes_each_segment_twice_at_most(self, staged: Staged) -> None:
        staged.attempt("a", "", *("k" * 2000))
        staged.attempt("b", "k" * 2001, "l")

        assert staged.read("a", "b")[0] == "k" * 2000
        assert staged.fetched <= 4001
