"""Find fields of a connection that have no effect, or not the one that was meant. They break no working connection."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_mediaops.arguments import shown
from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.exceptions import InvalidConnectionError
from airflow_provider_mediaops.hooks.connection.settings import base_urls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields

# The share of common characters from which on an unknown field is taken for a misspelt one.
_SIMILARITY = 0.75
# What the clusters' own clients call a field.
_OTHER_NAMES = {"verify_certs": "verify", "cafile": "ca_cert"}
# The unknown fields that are named one by one.
_MAX_NAMED = 5
# Forms and scripts for older versions of Airflow write an extra field so.
_PREFIX = re.compile(r"extra__[^_]+(?:_[^_]+)*__")


@dataclass(frozen=True, slots=True)
class ConnectionWarning:
    """
    A field that has no effect.

    :param text: a sentence with the field and the correction; free of secrets.
    :param is_mistake: whether something else was surely meant. The connection test then fails. An unknown field that
        resembles none may be somebody's note.
    """

    text: str
    is_mistake: bool = True


def connection_warnings(fields: ConnectionFields) -> tuple[ConnectionWarning, ...]:
    """Return the warnings about a connection."""
    return (*_unknown_fields(fields), *_unused_parts(fields))


def _unknown_fields(fields: ConnectionFields) -> Iterator[ConnectionWarning]:
    known = list(CONNECTION_TYPES[fields.conn_type]["conn-fields"])
    others = []
    for name in fields.extra:
        if name in known:
            continue
        if nearest := _nearest(name, known):
            yield ConnectionWarning(f"Extra field {shown(name)} is unknown and has no effect: write {nearest!r}.")
        else:
            others.append(name)
    if others:
        names = ", ".join(map(shown, others[:_MAX_NAMED])) + (" and others" if len(others) > _MAX_NAMED else "")
        yield ConnectionWarning(
            f"Extra without effect: {names}. Known fields are {', '.join(known)}.", is_mistake=False
        )


def _nearest(name: str, known: list[str]) -> str | None:
    from difflib import get_close_matches

    plain = _PREFIX.sub("", name.strip().lower()).replace("-", "_").replace(" ", "_")
    plain = _OTHER_NAMES.get(plain, plain)
    return next(iter(get_close_matches(plain, known, n=1, cutoff=_SIMILARITY)), None)


def _unused_parts(fields: ConnectionFields) -> Iterator[ConnectionWarning]:
    try:
        urls = [urlsplit(url) for url in base_urls(fields)]
        without_port = base_urls(replace(fields, port=None))
    except InvalidConnectionError:
        # The connection is refused for that.
        return
    ports = {url.port for url in urls}
    if fields.port and fields.port not in ports and base_urls(fields) == without_port:
        used = " and ".join(str(port) for port in sorted(port for port in ports if port))
        yield ConnectionWarning(f"Port {fields.port} is not used: Host says {used}. Make both the same.")
    schemes = {url.scheme for url in urls}
    if fields.schema and fields.schema not in schemes:
        used = " and ".join(sorted(schemes))
        yield ConnectionWarning(f"Scheme {fields.schema} is not used: Host says {used}. Make both the same.")
