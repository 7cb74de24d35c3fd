"""The operator that exports subscriptions says what has changed: what cannot be compared with is refused in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from tests.unit.operators.changed_exports import (
    export,
    task,
)
from tests.unit.operators.changed_exports import lines as lines  # noqa: PLC0414 a fixture
from tests.unit.operators.changed_exports import listings as listings  # noqa: PLC0414 a fixture
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.video.listings import Listings


pytestmark = pytest.mark.usefixtures("supervisor")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("subs.jsonl", b'{"isbn": "1"}\n', "its records are others"),
        ("subs.jsonl", b'{"kind": "svc#playlist", "id": "1"}\n', "its records are others"),
        ("subs.jsonl", b"a list\n", "expected value|Expecting value"),
        ("subs.csv", b"id,title\n1,a\n", "there is no column 'record'"),
        ("subs.parquet", b"PAR1", "no whole Parquet file"),
    ],
)
def test_destination_that_holds_no_export_raises_before_the_first_request(
    tmp_path: Path, listings: Listings, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(permanent(InvalidArgumentError), match=f"holds a file that is no export .*({reason})"):
        export(tmp_path, name)

    assert listings.asked == []
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"changes": "/out/subs.jsonl"}, "changes and destination are one file"),
        ({"changes": "/out/.subs.jsonl"}, "changes is a hidden file"),
        ({"changes": "/out/subs.csv"}, "changes ends in .jsonl"),
        ({"changes": "/out/subs.jsonl.gz"}, "changes ends in .jsonl"),
        ({"changes": "s3://bucket/c.jsonl"}, "changes .* is on another storage"),
        ({"changes": " "}, "changes is"),
        ({"changes": None, "on_unchanged": "skip"}, "on_unchanged='skip' needs changes or if_changed=True"),
        ({"on_unchanged": "fail"}, "on_unchanged is success or skip; not 'fail'"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    tmp_path: Path, listings: Listings, arguments: dict[str, Any], message: str
) -> None:
    usual: dict[str, Any] = {"changes": f"{tmp_path}/c.jsonl"}
    rendered = {name: str(value).replace("/out", str(tmp_path)) for name, value in arguments.items() if value}
    with pytest.raises(ValueError, match=message):
        task("/out", **(usual | {"changes": "/out/c.jsonl"} | arguments))

    if arguments.get("changes", "") is None:
        usual = {"changes": None, "if_changed": "{{ 'no' }}"}
    made = task(tmp_path, **usual, **{name: f"{{{{ {name} }}}}" for name in rendered if name not in usual})
    for name, value in rendered.items():
        setattr(made, name, value)
    made.if_changed = "no"
    with pytest.raises(permanent(InvalidArgumentError), match=message):
        made.execute({})
    assert listings.asked == []
    assert list(tmp_path.iterdir()) == []


def test_path_of_changes_that_cannot_be_written_raises_before_the_first_request(
    tmp_path: Path, listings: Listings
) -> None:
    (tmp_path / "subs.changes.jsonl").mkdir()
    with pytest.raises(IsADirectoryError, match=r"subs\.changes\.jsonl cannot be written: it is a folder"):
        export(tmp_path)

    assert listings.asked == []
