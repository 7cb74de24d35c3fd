"""Turn the paths of files and objects into URIs and pages of consoles, without the ids of connections."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_WEB = ("http", "https")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
# What ends or encodes the path in a URI; the rest stays readable, as people write the URIs of assets.
_ESCAPES = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})
_AMAZON, _GOOGLE = ("s3", "s3a", "s3n"), ("gs", "gcs")


def _parts(path: str) -> tuple[str, str, str]:
    """Return the scheme of a path, its user information and the rest; the first two may be empty."""
    found = _SCHEME.fullmatch(path)
    if not found:
        return "", "", path
    authority, slash, key = found[2].partition("/")
    userinfo, _, bucket = authority.rpartition("@")
    return found[1], userinfo, f"{bucket}{slash}{key}"


def conn_id_in(path: str) -> str | None:
    """Return the id of the connection in a path, its user information; None if there is none."""
    return _parts(path)[1] or None


def without_userinfo(path: str) -> str:
    """Return a path without the user information between scheme and bucket."""
    scheme, _, rest = _parts(path)
    return f"{scheme}://{rest}" if scheme else path


def uri_of(path: str) -> str:
    """Return the URI of the asset that a path names, without user information and without a query: it may be signed."""
    scheme, _, rest = _parts(path)
    if not scheme:
        return f"file://{_absolute(rest.removeprefix('file:')).translate(_ESCAPES)}"
    scheme = scheme.lower()
    if scheme in _WEB:
        return f"{scheme}://{_QUERY.sub('', rest)}"
    if scheme in _LOCAL:
        return f"file://{_absolute(rest).translate(_ESCAPES)}"
    return f"{scheme}://{rest.translate(_ESCAPES)}"


def console_url(uri: str) -> str | None:
    """Return the page of an object in its cloud's console; None for a store that has no console for everybody."""
    parts = urlsplit(uri)
    key = unquote(parts.path).lstrip("/")
    if not key:
        return None
    if parts.scheme in _AMAZON:
        return f"https://s3.console.aws.amazon.com/s3/object/{parts.netloc}?prefix={quote(key)}"
    if parts.scheme in _GOOGLE:
        return f"https://console.cloud.google.com/storage/browser/_details/{parts.netloc}/{quote(key)}"
    return None


def _absolute(path: str) -> str:
    file = Path(path)
    try:
        file = file.expanduser()
    except RuntimeError:
        # There is no such home folder; the task itself says so.
        return path
    return str(file.absolute())
