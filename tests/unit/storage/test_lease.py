"""What a lease says, and who may acquire it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.lease import Lease
from airflow_provider_mediaops.storage.object_info import modified_time
from airflow_provider_mediaops.storage.ownership import Receipt
from airflow_provider_mediaops.storage.segments import Position, Segment
from tests.unit.storage.places import START, owner

FULL = Lease(
    owner("a", "b", 3),
    START,
    released=True,
    token="0a",
    epoch=7,
    earlier=("0b", "0c"),
    last_receipt=Receipt(owner(), {"rows": 1}, "digest", "identity"),
)


def segment(token: str, epoch: int = 1) -> Segment:
    return Segment(epoch, token, 1, 1, Position(0, 0))


def with_since(number: bytes) -> bytes:
    return re.sub(rb'"since":[\d.e+]+', b'"since":' + number, FULL.to_bytes())


@pytest.mark.parametrize("lease", [FULL, Lease()])
def test_it_survives_its_object(lease: Lease) -> None:
    assert Lease.from_bytes(lease.to_bytes(), "lease") == lease


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{}", "a field is missing"),
        (b"[]", "a field is missing"),
        (FULL.to_bytes().replace(b'"epoch":7', b'"epoch":null'), "a field is missing or of another type"),
        (FULL.to_bytes().replace(b'"epoch":7', b'"epoch":1e999'), "a field is missing or of another type"),
        (FULL.to_bytes().replace(b'"epoch":7', b'"epoch":-1'), "its epoch is negative"),
        (with_since(b"NaN"), "its time is no date"),
        (with_since(b"Infinity"), "its time is no date"),
        (with_since(b"1e18"), "its time is no date"),
        (with_since(b"-1"), "its time is no date"),
        (FULL.to_bytes().replace(b'["0b","0c"]', b'"0b0c"'), "a field is missing or of another type"),
        *(
            (FULL.to_bytes().replace(b'"epoch":7', b'"epoch":' + each), "of another type")
            for each in (b'"7"', b"true", b"7.9")
        ),
        *((FULL.to_bytes().replace(b'"0a"', each), "a token is not hexadecimal") for each in (b'"../x"', rb'"\ud800"')),
        *(
            (FULL.to_bytes().replace(b'"released":true', b'"released":' + each), "of another type")
            for each in (b"1", b'"true"')
        ),
        (FULL.to_bytes().replace(b'"token":"0a"', b'"token":["0a"]'), "a field is missing or of another type"),
        (FULL.to_bytes().replace(b'["0b","0c"]', b'[["0b"]]'), "a field is missing or of another type"),
        (b"", ""),
        (FULL.to_bytes()[:40], ""),
        (b"\xff", ""),
    ],
)
def test_what_cannot_be_understood_is_never_taken_for_a_free_one(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why or None):
        Lease.from_bytes(content, "lease")


@pytest.mark.parametrize("version", ["2", "null", '"1"', "[1]"])
def test_one_of_an_unknown_version_is_a_permanent_error(version: str) -> None:
    content = FULL.to_bytes().replace(b'"version":1', f'"version":{version}'.encode())

    with pytest.raises(PermanentError, match=r"^lease has version .* does not know \(it knows 1\)\. Install"):
        Lease.from_bytes(content, "lease")


@pytest.mark.parametrize(
    ("lease", "free"),
    [
        (Lease(), True),
        (Lease(owner("x")), False),
        (Lease(owner("x"), released=True), True),
        (Lease(owner("mine", "others")), True),
    ],
)
def test_who_may_acquire_it_at_once(lease: Lease, *, free: bool) -> None:
    assert lease.is_free_for(owner("mine")) is free


class TestNext:
    def test_its_epoch_is_higher_than_any_before(self) -> None:
        assert Lease().acquired_by(owner(), "0a", START, [], None).epoch == 1
        assert FULL.acquired_by(owner(), "0a", START, [segment("0d", 4)], None).epoch == 8
        # The lease was removed by hand; its objects were not.
        assert Lease().acquired_by(owner(), "0a", START, [segment("0d", 4)], None).epoch == 5

    def test_another_owner_names_no_earlier_attempt(self) -> None:
        assert FULL.acquired_by(owner(), "0f", START, [segment("0a"), segment("0b")], None).tokens == ("0f",)

    def test_the_same_owner_names_those_that_have_staged_something_and_the_last_in_any_case(self) -> None:
        following = FULL.acquired_by(owner("a", "b"), "0f", START, [segment("0c"), segment("99")], None)

        assert following.tokens == ("0c", "0a", "0f")
        assert not following.released

    def test_it_keeps_the_receipt_that_was_found(self) -> None:
        found = Receipt(owner("other"), {}, None, "another")

        assert FULL.acquired_by(owner(), "0f", START, [], found).last_receipt == found

    def test_an_attempt_is_judged_by_the_receipt_that_it_found(self) -> None:
        lease = Lease(owner(), token="0a", last_receipt=Receipt(owner(), {}, None, "gone"))

        assert lease.acquired_by(owner(clears=1), "0f", START, [segment("0a")], None).tokens == ("0f",)

    def test_one_that_resumes_keeps_the_receipt_by_which_the_first_is_judged(self) -> None:
        first = Receipt(owner("other"), {}, None, "gone", earlier_owners=(owner(clears=1),))
        resumed = Lease(owner(), token="0a", last_receipt=first).acquired_by(owner(), "0b", START, [], None)

        assert (resumed.tokens, resumed.last_receipt) == (("0a", "0b"), first)
        assert resumed.acquired_by(owner(clears=2), "0c", START, [], None).tokens == ("0c",)

    def test_attempts_that_staged_nothing_are_forgotten(self) -> None:
        lease = Lease(owner(), token="0a")
        for number in range(50):
            lease = lease.acquired_by(owner(), f"{number:02d}", START, [segment("0a")], None)

        assert lease.tokens == ("0a", "48", "49")


UTC_NOON = datetime(2027, 1, 15, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("info", "time"),
    [
        ({}, None),
        ({"LastModified": ""}, None),
        ({"updated": "yesterday"}, None),
        ({"LastModified": UTC_NOON}, UTC_NOON.timestamp()),
        ({"mtime": UTC_NOON.replace(tzinfo=None)}, UTC_NOON.timestamp()),
        ({"last_modified": UTC_NOON.astimezone(timezone(timedelta(hours=5)))}, UTC_NOON.timestamp()),
        ({"mtime": 1_800_000_000}, START),
        ({"created": 1_800_000_000.5}, START + 0.5),
        ({"updated": "2027-01-15T12:00:00.000Z"}, UTC_NOON.timestamp()),
        ({"mtime": 0.0, "created": 1_800_000_000.5}, 0.0),
        ({"mtime": None, "created": 1_800_000_000.5}, START + 0.5),
    ],
)
def test_the_time_of_the_last_write_in_the_words_of_the_clients(info: dict[str, Any], time: float | None) -> None:
    assert modified_time(info) == time
