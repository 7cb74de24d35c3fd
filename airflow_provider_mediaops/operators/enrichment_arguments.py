"""The arguments of an enrichment: one check serves at parse time, and once the templates are rendered."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import (
    is_path,
    ordered,
    path_text,
    read_identifier,
    read_path,
    read_texts,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.operators.dataset_owner import digest_of, owner_of
from airflow_provider_mediaops.task_failure import is_end_templated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import Context

    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.enrichment.options import EnrichmentOptions
    from airflow_provider_mediaops.storage.ownership import Owner


@dataclass(frozen=True, slots=True)
class EnrichmentArguments:
    """The arguments of an enrichment, rendered and read; those of the operator of the same names describe them."""

    books_conn_id: str
    destination: str
    format: str | None
    isbn_column: tuple[str, ...] | None
    delimiter: str | None
    encoding: str | None
    isbns: list[Any] | None
    source: tuple[str, ...] | None
    reuse: tuple[str, ...]
    options: EnrichmentOptions

    @classmethod
    def read(cls, given: Mapping[str, Any], warn: Callable[[str], None]) -> EnrichmentArguments:
        """Read the rendered arguments, before anything is requested."""
        from airflow_provider_mediaops.enrichment.list_arguments import (
            read_columns,
            read_delimiter,
            read_encoding,
            read_isbns,
            read_source,
        )
        from airflow_provider_mediaops.enrichment.options import EnrichmentOptions
        from airflow_provider_mediaops.storage.path_checks import absolute

        destination = absolute(read_path("destination", given["destination"]), "destination", warn)
        reuse = tuple(absolute(path, "reuse", warn) for path in dict.fromkeys(read_reuse(given["reuse"])))
        source = None
        if given["source"] is not None:
            source = tuple(absolute(path, "source", warn) for path in read_source(given["source"]))
        paths = {"destination": destination, "source": source, "reuse": list(reuse) or None}
        # A list may be long: it is read once.
        check({**given, **paths, "isbns": None}, lambda *_: False)
        column = read_columns(given["isbn_column"])
        return cls(
            books_conn_id=read_identifier("books_conn_id", given["books_conn_id"]),
            destination=destination,
            format=given["format"],
            isbn_column=column,
            delimiter=read_delimiter(given["delimiter"]),
            encoding=read_encoding(given["encoding"]),
            isbns=read_isbns(given["isbns"], column) if source is None else None,
            source=source,
            reuse=reuse,
            options=EnrichmentOptions.read(given),
        )

    def owner(self, context: Context, version: str | None) -> Owner:
        """Return the owner of the dataset: the task instance, and a digest of what determines the content."""
        options = self.options
        parameters = {
            "destination": self.destination,
            "format": self.format,
            "list": [self.source, version] if self.isbns is None else digest_of(self.isbns),
            "read": [self.isbn_column, self.delimiter, self.encoding, options.several, options.repair_zeros],
            "books_conn_id": self.books_conn_id,
            "csv_formulas": options.csv_formulas,
            "keep_columns": options.keep_columns,
            "reuse": [self.reuse, options.reuse_seconds, options.reuse_not_found_seconds],
        }
        return owner_of(context, parameters)

    def enrichment(self, owner: Owner, version: str | None) -> Enrichment:
        """Return the enrichment; what needs all of the source to be read is still missing."""
        from airflow_provider_mediaops.enrichment.attempt import Enrichment

        options = self.options
        return Enrichment(
            owner=asdict(owner),
            destination=self.destination,
            total=0,
            source=None if self.source is None else list(self.source),
            version=version,
            column=None if self.isbn_column is None else list(self.isbn_column),
            delimiter=self.delimiter,
            encoding=self.encoding,
            several=options.several,
            repair_zeros=options.repair_zeros,
            keep=self.source is not None and options.keep_columns,
            format=self.format,
            csv_formulas=options.csv_formulas,
            bulk=options.bulk,
            reuse=list(self.reuse),
            reuse_seconds=options.reuse_seconds,
            reuse_not_found_seconds=options.reuse_not_found_seconds,
            max_requests=options.max_requests,
        )


def check(given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
    """Check the arguments that are known: all but the templated ones at parse time, and all once they are rendered."""
    from airflow_provider_mediaops.enrichment.earlier_datasets import reuse_format
    from airflow_provider_mediaops.enrichment.list_arguments import (
        read_columns,
        read_delimiter,
        read_encoding,
        read_isbns,
    )
    from airflow_provider_mediaops.enrichment.options import STAND_INS, EnrichmentOptions
    from airflow_provider_mediaops.storage.formats import format_of

    readers: dict[str, Callable[[Any], object]] = {
        "books_conn_id": partial(read_identifier, "books_conn_id"),
        "destination": partial(read_path, "destination"),
        "isbn_column": read_columns,
        "delimiter": read_delimiter,
        "encoding": read_encoding,
        "reuse": read_reuse,
    }
    for name, read in readers.items():
        if not is_unknown(given[name]):
            read(given[name])
    known = {name: given[name] for name in STAND_INS if not is_unknown(given[name])}
    EnrichmentOptions.read({**STAND_INS, **known})
    if given["isbns"] is not None and not is_unknown(given["isbns"], given["isbn_column"]):
        read_isbns(given["isbns"], read_columns(given["isbn_column"]))
    destination, format = given["destination"], given["format"]
    if not is_unknown(format) and (format is not None or not is_end_templated(destination)):
        format_of(destination, format)
    if given["source"] is not None:
        _check_source(given["source"], destination, is_unknown)
    if not is_unknown(given["reuse"], destination, format):
        for path in read_reuse(given["reuse"]):
            reuse_format(path, destination, format)


def _check_source(source: Any, destination: object, is_unknown: Callable[..., bool]) -> None:
    from airflow_provider_mediaops.enrichment.list_arguments import read_source
    from airflow_provider_mediaops.storage.path_checks import is_same_file
    from airflow_provider_mediaops.storage.source_list import check_suffix

    paths = source if isinstance(source, (list, tuple)) else [source]
    if not is_unknown(*paths):
        read_source(source)
    for path in paths:
        if not is_unknown(path):
            read_path("source", path)
        if not is_end_templated(path):
            check_suffix(str(path))
    if is_unknown(source, destination):
        return
    for path in read_source(source):
        if is_same_file(path, destination):
            raise InvalidArgumentError(
                f"source and destination are the same file, {str(destination)!r}: the dataset would replace the "
                "list. Choose another destination."
            )


def read_reuse(value: object) -> tuple[str, ...]:
    """Read the argument ``reuse``: a path, a list of paths, or a text with commas."""
    if value is None:
        return ()
    paths = [value] if is_path(value) else ordered(value)
    entries = [path_text(each) for each in paths] if isinstance(paths, (list, tuple)) else paths
    return tuple(read_path("an entry of reuse", each) for each in read_texts("reuse", entries))
