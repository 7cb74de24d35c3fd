"""Read the arguments of an enrichment: those that are known when the DAG file is parsed, and all once rendered."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
from airflow_provider_mediaops.task_failure import is_end_templated, is_templated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
        )

        options = _options(given)
        conn_id = read_identifier("books_conn_id", given["books_conn_id"])
        destination = _absolute("destination", given, warn)
        _check_format(destination, given["format"])
        column = read_columns(given["isbn_column"])
        delimiter, encoding = read_delimiter(given["delimiter"]), read_encoding(given["encoding"])
        isbns = source = None
        if given["source"] is None:
            isbns = read_isbns(given["isbns"], column)
        else:
            source = _absolute_source(given["source"], warn)
        reuse = _absolute_reuse(given, warn)
        _check_reuse(reuse, destination, given["format"])
        return cls(conn_id, destination, given["format"], column, delimiter, encoding, isbns, source, reuse, options)

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


def check_known(given: Mapping[str, Any]) -> None:
    """Check the arguments that are not templated."""
    from airflow_provider_mediaops.enrichment.list_arguments import (
        read_columns,
        read_delimiter,
        read_encoding,
        read_isbns,
        read_source,
    )

    source, destination = given["source"], given["destination"]
    if (given["isbns"] is None) == (source is None):
        raise InvalidArgumentError("Give either isbns or source.")
    if not is_templated(given["books_conn_id"]):
        read_identifier("books_conn_id", given["books_conn_id"])
    if not is_templated(destination):
        read_path("destination", destination)
    _check_known_options(given)
    for name, read in (("isbn_column", read_columns), ("delimiter", read_delimiter), ("encoding", read_encoding)):
        if not is_templated(given[name]):
            read(given[name])
    if source is not None:
        _check_known_source(given)
    elif not is_templated(given["isbns"], given["isbn_column"]):
        read_isbns(given["isbns"], read_columns(given["isbn_column"]))
    if not is_templated(given["format"]) and (given["format"] is not None or not is_end_templated(destination)):
        _check_format(destination, given["format"])
    if source is not None and not is_templated(source, destination):
        _check_destination(read_source(source), destination)
    _check_known_reuse(given)


def _options(given: Mapping[str, Any]) -> EnrichmentOptions:
    from airflow_provider_mediaops.enrichment.options import STAND_INS, EnrichmentOptions

    return EnrichmentOptions.read({name: given[name] for name in STAND_INS})


def _check_known_options(given: Mapping[str, Any]) -> None:
    from airflow_provider_mediaops.enrichment.options import STAND_INS

    known = {name: given[name] for name in STAND_INS if not is_templated(given[name])}
    _options({**STAND_INS, **known})


def _check_known_source(given: Mapping[str, Any]) -> None:
    from airflow_provider_mediaops.enrichment.list_arguments import read_source
    from airflow_provider_mediaops.storage.source_list import check_suffix

    source = given["source"]
    if isinstance(source, (list, tuple)) and not is_templated(*source):
        read_source(source)
    for path in source if isinstance(source, (list, tuple)) else [source]:
        if not is_templated(path):
            read_path("source", path)
        if not is_end_templated(path):
            check_suffix(str(path))


def _check_known_reuse(given: Mapping[str, Any]) -> None:
    destination, format = given["destination"], given["format"]
    if is_templated(given["reuse"]):
        return
    paths = read_reuse(given["reuse"])
    if not is_templated(destination, format):
        _check_reuse(paths, destination, format)


def _check_format(destination: object, format: str | None) -> None:
    from airflow_provider_mediaops.storage.formats import format_of

    format_of(destination, format)


def _check_destination(source: Sequence[str], destination: object) -> None:
    from airflow_provider_mediaops.storage.path_checks import is_same_file

    for path in source:
        if is_same_file(path, destination):
            raise InvalidArgumentError(
                f"source and destination are the same file, {str(destination)!r}: the dataset would replace the "
                "list. Choose another destination."
            )


def _absolute(name: str, given: Mapping[str, Any], warn: Callable[[str], None]) -> str:
    from airflow_provider_mediaops.storage.path_checks import absolute

    return absolute(read_path(name, given[name]), name, warn)


def read_reuse(value: object) -> tuple[str, ...]:
    """Read the argument ``reuse``: a path, a list of paths, or a text with commas."""
    if value is None:
        return ()
    paths = [value] if is_path(value) else ordered(value)
    entries = [path_text(each) for each in paths] if isinstance(paths, (list, tuple)) else paths
    return tuple(read_path("an entry of reuse", each) for each in read_texts("reuse", entries))


def _absolute_reuse(given: Mapping[str, Any], warn: Callable[[str], None]) -> tuple[str, ...]:
    from airflow_provider_mediaops.storage.path_checks import absolute

    return tuple(absolute(path, "reuse", warn) for path in dict.fromkeys(read_reuse(given["reuse"])))


def _check_reuse(paths: Sequence[str], destination: str, format: str | None) -> None:
    from airflow_provider_mediaops.enrichment.earlier_datasets import reuse_format

    for path in paths:
        reuse_format(path, destination, format)


def _absolute_source(value: object, warn: Callable[[str], None]) -> tuple[str, ...]:
    from airflow_provider_mediaops.enrichment.list_arguments import read_source
    from airflow_provider_mediaops.storage.path_checks import absolute

    return tuple(absolute(path, "source", warn) for path in read_source(value))
