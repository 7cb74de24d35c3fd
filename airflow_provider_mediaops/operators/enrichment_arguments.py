"""Read the arguments of an enrichment: those that are known when the DAG file is parsed, and all once rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import (
    is_path,
    ordered,
    path_text,
    read_identifier,
    read_path,
    read_text,
    read_texts,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.operators.dataset_owner import digest_of, owner_of
from airflow_provider_mediaops.task_failure import is_end_templated, is_templated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import Context

    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.enrichment.options import EnrichmentOptions
    from airflow_provider_mediaops.storage.ownership import Owner


@dataclass(frozen=True, slots=True)
class EnrichmentArguments:
    """
    The arguments of an enrichment, rendered and read; those of the operator of the same names describe them.

    :param isbns: the list; None if it is in a file.
    :param source: the absolute path of that file, or None.
    :param reuse: the absolute paths of earlier datasets.
    :param options: the arguments that say how the list is looked up, and how its dataset is written.
    """

    books_conn_id: str
    destination: str
    format: str | None
    isbn_column: str
    isbns: list[Any] | None
    source: str | None
    reuse: tuple[str, ...]
    options: EnrichmentOptions

    @classmethod
    def read(cls, given: Mapping[str, Any], warn: Callable[[str], None]) -> EnrichmentArguments:
        """
        Read the rendered arguments, before anything is requested.

        :param given: every argument by its name.
        :param warn: logs a warning about a relative path.
        :raises ValueError: for a value that cannot be used, and for arguments that contradict each other.
        """
        options = _options(given)
        conn_id = read_identifier("books_conn_id", given["books_conn_id"])
        destination = _absolute("destination", given, warn)
        _check_format(destination, given["format"])
        # A template with native objects makes a number of a text of digits.
        column = _read_column(given["isbn_column"])
        isbns = source = None
        if given["source"] is None:
            isbns = _read_isbns(given["isbns"])
        else:
            _check_source(read_path("source", given["source"]), options.keep_columns)
            source = _absolute("source", given, warn)
            _check_destination(source, destination)
        reuse = _absolute_reuse(given, warn)
        _check_reuse(reuse, destination, given["format"])
        return cls(conn_id, destination, given["format"], column, isbns, source, reuse, options)

    def owner(self, context: Context, version: str | None) -> Owner:
        """
        Return the owner of the dataset: the task instance, and a digest of what determines the content.

        :param context: the task's.
        :param version: the version of the source; None if the list is in no file.
        """
        options = self.options
        parameters = {
            "destination": self.destination,
            "format": self.format,
            "list": [self.source, version] if self.isbns is None else digest_of(self.isbns),
            "isbn_column": self.isbn_column,
            "books_conn_id": self.books_conn_id,
            "csv_formulas": options.csv_formulas,
            "keep_columns": options.keep_columns,
            "reuse": [self.reuse, options.reuse_seconds, options.reuse_not_found_seconds],
        }
        return owner_of(context, parameters)

    def enrichment(self, owner: Owner, version: str | None) -> Enrichment:
        """
        Return the enrichment; what needs all of the source to be read is still missing.

        :param owner: the owner of the dataset.
        :param version: the version of the source; None if the list is in no file.
        """
        from airflow_provider_mediaops.enrichment.attempt import Enrichment
        from airflow_provider_mediaops.storage.sources import has_columns

        options = self.options
        return Enrichment(
            owner=asdict(owner),
            destination=self.destination,
            total=0,
            source=self.source,
            version=version,
            column=self.isbn_column,
            keep=self.source is not None and has_columns(self.source) and options.keep_columns,
            format=self.format,
            csv_formulas=options.csv_formulas,
            bulk=options.bulk,
            bulk_verify=options.bulk_verify,
            reuse=list(self.reuse),
            reuse_seconds=options.reuse_seconds,
            reuse_not_found_seconds=options.reuse_not_found_seconds,
            max_requests=options.max_requests,
        )


def check_known(given: Mapping[str, Any]) -> None:
    """
    Check the arguments that are not templated.

    :param given: every argument by its name, as it was given.
    :raises ValueError: for a value that cannot be used, and for arguments that contradict each other.
    """
    source, destination = given["source"], given["destination"]
    if (given["isbns"] is None) == (source is None):
        raise InvalidArgumentError("Give either isbns or source.")
    if not is_templated(given["books_conn_id"]):
        read_identifier("books_conn_id", given["books_conn_id"])
    if not is_templated(destination):
        read_path("destination", destination)
    _check_known_options(given)
    if not is_templated(given["isbn_column"]):
        _read_column(given["isbn_column"])
    if source is not None:
        _check_known_source(given)
    elif not is_templated(given["isbns"]):
        _read_isbns(given["isbns"])
    if not is_templated(given["format"]) and (given["format"] is not None or not is_end_templated(destination)):
        _check_format(destination, given["format"])
    if not is_templated(source, destination):
        _check_destination(source, destination)
    _check_known_reuse(given)


def _options(given: Mapping[str, Any]) -> EnrichmentOptions:
    from airflow_provider_mediaops.enrichment.options import STAND_INS, EnrichmentOptions

    return EnrichmentOptions.read({name: given[name] for name in STAND_INS})


def _check_known_options(given: Mapping[str, Any]) -> None:
    from airflow_provider_mediaops.enrichment.options import STAND_INS

    known = {name: given[name] for name in STAND_INS if not is_templated(given[name])}
    _options({**STAND_INS, **known})


def _check_known_source(given: Mapping[str, Any]) -> None:
    source, keep = given["source"], given["keep_columns"]
    if not is_templated(source):
        source = read_path("source", source)
    if not is_end_templated(source.removesuffix(".gz") if isinstance(source, str) else source):
        _check_source(source, None if is_templated(keep) else keep)


def _check_known_reuse(given: Mapping[str, Any]) -> None:
    destination, format = given["destination"], given["format"]
    if is_templated(given["reuse"]):
        return
    paths = read_reuse(given["reuse"])
    if not is_templated(destination, format):
        _check_reuse(paths, destination, format)


def _check_source(source: object, keep: object) -> None:
    from airflow_provider_mediaops.storage.sources import has_columns

    if not has_columns(str(source)) and keep not in (None, True, False):
        raise InvalidArgumentError(f"keep_columns is {keep!r}, but {str(source)!r} has one text a line.")


def _check_format(destination: object, format: str | None) -> None:
    from airflow_provider_mediaops.storage.formats import format_of

    format_of(destination, format)


def _check_destination(source: object, destination: object) -> None:
    from airflow_provider_mediaops.storage.path_checks import is_same_file

    if source is not None and is_same_file(source, destination):
        raise InvalidArgumentError(
            f"source and destination are the same file, {str(destination)!r}: the dataset would replace the "
            "list. Choose another destination."
        )


def _absolute(name: str, given: Mapping[str, Any], warn: Callable[[str], None]) -> str:
    from airflow_provider_mediaops.storage.path_checks import absolute

    return absolute(read_path(name, given[name]), name, warn)


def read_reuse(value: object) -> tuple[str, ...]:
    """
    Read the argument ``reuse``.

    :param value: a path, a list of paths, or a text with commas; None for none.
    :raises InvalidArgumentError: for anything else.
    """
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


def _read_column(value: object) -> str:
    column = read_text("isbn_column", value)
    if not column:
        raise InvalidArgumentError("isbn_column is empty: give the name of the column or field, or leave it out.")
    return column


def _read_isbns(value: object) -> list[Any]:
    if isinstance(value, str):
        return list(read_texts("isbns", value))
    value = ordered(value)
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        raise InvalidArgumentError(f"isbns is a list of texts, or one text with commas, not a {type(value).__name__}.")
    return list(value)
