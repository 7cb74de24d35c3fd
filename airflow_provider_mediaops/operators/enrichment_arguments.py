"""The arguments of an enrichment: one check serves at parse time, and once the templates are rendered."""

from __future__ import annotations

from dataclasses import asdict
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
from airflow_provider_mediaops.task_failure import is_end_templated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import Context

    from airflow_provider_mediaops.enrichment.attempt import Enrichment

# The options that may differ from attempt to attempt, because the dataset is the same.
_OF_AN_ATTEMPT = ("bulk", "on_invalid", "max_invalid", "max_failures", "max_requests")


def read_enrichment(
    given: Mapping[str, Any], context: Context, warn: Callable[[str], None]
) -> tuple[Enrichment, list[Any] | None]:
    """
    Read the rendered arguments, before anything is requested.

    What needs all of the list to be read is still missing in the enrichment. The list is returned if it is in no file.
    """
    from airflow_provider_mediaops.enrichment.arguments import read_isbns, read_options, read_source
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.ownership import digest_of, owner_of
    from airflow_provider_mediaops.storage.path_checks import absolute
    from airflow_provider_mediaops.storage.source_list import ListSource

    destination = absolute(read_path("destination", given["destination"]), "destination", warn)
    reuse = [absolute(path, "reuse", warn) for path in dict.fromkeys(read_reuse(given["reuse"]))]
    source = None
    if given["source"] is not None:
        source = [absolute(path, "source", warn) for path in read_source(given["source"])]
    # A list may be long: it is read once.
    paths = {"destination": destination, "source": source, "reuse": reuse or None, "isbns": None}
    check({**given, **paths}, lambda *_: False)
    options = read_options(given)
    isbns = version = None
    if source is None:
        isbns = read_isbns(given["isbns"], options["isbn_column"])
    else:
        listed = ListSource(source)
        listed.check_destination(destination)
        version = listed.version()
    # What determines the content.
    parameters = {
        **{name: value for name, value in options.items() if name not in _OF_AN_ATTEMPT},
        "destination": destination,
        "format": given["format"],
        "list": [source, version] if isbns is None else digest_of(isbns),
        "books_conn_id": read_identifier("books_conn_id", given["books_conn_id"]),
        "reuse": reuse,
    }
    enrichment = Enrichment(
        owner=asdict(owner_of(context, parameters)),
        destination=destination,
        source=source,
        version=version,
        reuse=reuse,
        format=given["format"],
        **options,
    )
    return enrichment, isbns


def check(given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
    """Check the arguments that are known."""
    from airflow_provider_mediaops.enrichment.arguments import OPTIONS, read_columns, read_isbns
    from airflow_provider_mediaops.enrichment.earlier_datasets import reuse_format
    from airflow_provider_mediaops.storage.formats import format_of

    readers: dict[str, Callable[[str, Any], object]] = {
        **OPTIONS,
        "books_conn_id": read_identifier,
        "destination": read_path,
        "reuse": lambda _, value: read_reuse(value),
    }
    for name, read in readers.items():
        if not is_unknown(given[name]):
            read(name, given[name])
    if given["isbns"] is not None and not is_unknown(given["isbns"], given["isbn_column"]):
        read_isbns(given["isbns"], read_columns("isbn_column", given["isbn_column"]))
    destination, format = given["destination"], given["format"]
    if not is_unknown(format) and (format is not None or not is_end_templated(destination)):
        format_of(destination, format)
    if given["source"] is not None:
        _check_source(given["source"], destination, is_unknown)
    if not is_unknown(given["reuse"], destination, format):
        for path in read_reuse(given["reuse"]):
            reuse_format(path, destination, format)


def _check_source(source: Any, destination: object, is_unknown: Callable[..., bool]) -> None:
    from airflow_provider_mediaops.enrichment.arguments import read_source
    from airflow_provider_mediaops.storage.path_checks import is_same_file

    paths = source if isinstance(source, (list, tuple)) else [source]
    if not is_unknown(*paths):
        read_source(source)
    for path in paths:
        if not is_unknown(path):
            read_path("source", path)
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
