"""Files of lists, and the texts in them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_mediaops.storage.source_list import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from airflow_provider_mediaops.storage.source_columns import Keep
    from airflow_provider_mediaops.storage.source_file import SourceRow


GZIPPED = gzip.compress(b"a\n" * 99, mtime=0)


def file_of(tmp_path: Path, name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return (tmp_path / name).as_uri()


def table_of(tmp_path: Path, column: Iterable[Any], *, a_group: int = 1_000, **types: Any) -> str:
    file = tmp_path / "s.parquet"
    pq.write_table(pa.table({"id": list(range(len(list(column)))), "isbn": pa.array(column, **types)}), file, a_group)
    return file.as_uri()


def read_rows(source: str, column: str | None = "isbn", *, keep: Keep = False) -> Iterator[SourceRow]:
    return iter(ListSource([source], column and [column]).read(keep))


def count_rows(source: str, column: str) -> int:
    return sum(1 for _ in read_rows(source, column))


def texts(source: str) -> list[str]:
    rows = list(read_rows(source))
    assert [row.error for row in rows if row.error] == []
    return [row.text for row in rows]
