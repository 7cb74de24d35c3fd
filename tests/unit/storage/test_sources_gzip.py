"""Compressed lists."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from tests.unit.storage.source_files import GZIPPED, count_rows, texts

if TYPE_CHECKING:
    from pathlib import Path


class TestGzip:
    @pytest.mark.parametrize(
        "data",
        [
            gzip.compress(b"a\nb") + gzip.compress(b"") + gzip.compress(b"\nc\n"),
            gzip.compress(b"a\nb\nc\n") + b"\0" * 20_000,
            gzip.compress(b"a\nb") + b"\0" * 20_000 + gzip.compress(b"\nc\n"),
            b"".join(gzip.compress(bytes([byte])) for byte in b"a\nb\nc\n"),
        ],
        ids=["members", "padding", "padding between members", "small members"],
    )
    def test_members_and_padding_are_one_text(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "s.txt.gz").write_bytes(data)

        assert texts((tmp_path / "s.txt.gz").as_uri()) == ["a", "b", "c"]

    def test_an_empty_file_has_no_rows(self, tmp_path: Path) -> None:
        (tmp_path / "s.txt.gz").touch()

        assert texts((tmp_path / "s.txt.gz").as_uri()) == []

    @pytest.mark.parametrize("end", [b"x", b"\0x", GZIPPED[:5], GZIPPED[:-1], b"\0" * 9_000 + GZIPPED[:-8]])
    def test_anything_else_after_a_member_is_refused(self, tmp_path: Path, end: bytes) -> None:
        (tmp_path / "s.txt.gz").write_bytes(GZIPPED + end)

        with pytest.raises(InvalidSourceError, match="no whole gzip file"):
            count_rows((tmp_path / "s.txt.gz").as_uri(), "isbn")

    @pytest.mark.parametrize("size", [1, 8_191, 8_192, 8_193, 262_143, 262_144, 262_145, 1_000_000])
    @pytest.mark.parametrize("level", [0, 9])
    def test_blocks_of_any_size_are_whole(self, tmp_path: Path, size: int, level: int) -> None:
        (tmp_path / "s.txt.gz").write_bytes(gzip.compress(b"a" * size, level))

        assert [len(text) for text in texts((tmp_path / "s.txt.gz").as_uri())] == [size]
