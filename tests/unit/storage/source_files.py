"""Files of lists, and the texts in them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_mediaops.storage.sources import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


GZIPPED = gzip.compress(b"a\n" * 99, mtime=0)


def file_of(tmp_path: Path, name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return (tmp_path / name).as_uri()


def table_of(tmp_path: Path, column: Iterable[Any], *, a_group: int = 1_000, **types: Any) -> str:
    file = tmp_path / "s.parquet"
    pq.write_table(pa.table({"id": list(range(len(list(column)))), "isbn": pa.array(column, **types)}), file, a_group)
    return file.as_uri()


def texts(source: str, skip: int = 0) -> list[str]:
    rows = list(read_rows(source, "isbn", skip=skip))
    assert [row.error for row in rows if row.error] == []
    return [row.text for row in rows]
