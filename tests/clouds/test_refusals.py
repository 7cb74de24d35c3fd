"""A store that refuses says why, for which file, and what to do, and no text has a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clouds.emulators import ACCOUNT_KEY, WRONG_KEY, is_write
from tests.clouds.test_jobs import export

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clouds.conftest import Place
    from tests.clouds.emulators import Cloud
    from tests.clouds.guard import Answer

KEYS = ("the-secret-key", "AKIA-", ACCOUNT_KEY, WRONG_KEY, "PRIVATE KEY", "a-token")


def refusal_of(place: Place) -> str:
    """Return the words of a refused export."""
    with pytest.raises(OSError, match=r"d\.jsonl") as raised:
        export(place, "d.jsonl")
    text = str(raised.value)
    assert place.folder in text
    assert not any(key in text for key in KEYS)
    assert "<" not in text
    return text


def test_export_into_a_missing_container_says_so(new_place: Callable[..., Place]) -> None:
    assert "there is no such" in refusal_of(new_place(bucket="nowhere"))


def test_export_with_a_wrong_key_says_so(new_place: Callable[..., Place], cloud: Cloud) -> None:
    if cloud.scheme == "s3":
        pytest.skip("moto accepts every key")
    assert "key of the connection" in refusal_of(new_place(right=False))


def test_export_without_the_right_to_write_says_so(new_place: Callable[..., Place], cloud: Cloud) -> None:
    def refuse(method: str, path: str, _: bytes) -> Answer | None:
        return cloud.no_right if is_write(method, path) else None

    assert "no right" in refusal_of(new_place(refuse))


def test_export_whose_key_expires_resumes_with_a_new_one(new_place: Callable[..., Place], cloud: Cloud) -> None:
    writes = iter(range(1_000_000))
    has_expired = [True]

    def expire(method: str, path: str, _: bytes) -> Answer | None:
        late = is_write(method, path) and next(writes) >= 2
        return cloud.expired if late and has_expired[0] else None

    place = new_place(expire)
    assert "expired" in refusal_of(place)

    has_expired[0] = False
    assert export(place, "d.jsonl", number=2)["rows"] == 120
