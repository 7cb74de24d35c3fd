"""The errors of destinations: no secret of a path, and no bare error, leaves the package."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError, error_from_dict
from airflow_provider_mediaops.storage import errors
from airflow_provider_mediaops.storage.path_checks import check_changes_path

if TYPE_CHECKING:
    from collections.abc import Callable

MADE = [made for name, made in vars(errors).items() if name.endswith("_error") and inspect.isfunction(made)]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.__name__)
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("s3://me:hush-hush@bucket/d.csv", "s3://me:***@bucket/d.csv"),
        ("gs://bucket/d.csv?signature=hush-hush", "gs://bucket/d.csv "),
    ],
)
def test_error_of_a_destination_shows_neither_its_password_nor_its_query(
    made: Callable[..., Exception], path: str, shown: str
) -> None:
    first, *others = inspect.signature(made).parameters.values()
    needed: dict[str, Any] = {each.name: "1" for each in others if each.default is each.empty}
    assert first.name in ("destination", "path", "file", "record")

    error = made(path, **needed)

    assert shown in str(error)
    assert "hush-hush" not in repr(error)
    assert "hush-hush" not in str(error)


@pytest.mark.parametrize(
    ("path", "destination"),
    [
        ("/out/d.jsonl?sig=hush-hush", "/out/d.jsonl?sig=hush-hush"),
        ("/out/d.jsonl/c.jsonl?sig=hush-hush", "/out/d.jsonl"),
        ("/out/.c.jsonl?sig=hush-hush", "/out/d.jsonl"),
        ("s3://me:hush-hush@b/c.jsonl", "/out/d.jsonl"),
        ("/out/c.jsonl", "s3://me:hush-hush@b/d.jsonl"),
    ],
)
def test_refusal_of_a_path_of_changes_shows_no_secret(path: str, destination: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_changes_path("changes", path, destination)

    assert "hush-hush" not in str(caught.value)


def test_conflict_that_nobody_caught_is_a_temporary_error_with_advice() -> None:
    error = errors.conflict_error("s3://bucket/d.csv")

    assert isinstance(error, MediaOpsError)
    assert error.temporary
    assert "s3://bucket/d.csv was replaced by another task" in str(error)
    assert str(error_from_dict(error.to_dict())) == str(error)
