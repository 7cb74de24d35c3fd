"""Turn the paths of files and objects into URIs, without the ids of connections."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_WEB = ("http", "https")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
# What ends or encodes the path in a URI; the rest stays readable, as people write the URIs of assets.
_ESCAPES = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})


def _parts(path: str) -> tuple[str, str, str]:
    """Return the scheme of a path, its user information and the rest; the first two may be empty."""
    found = _SCHEME.fullmatch(path)
    if not found:
        return "", "", path
    authority, slash, key = found[2].partition("/")
    userinfo, _, bucket = authority.rpartition("@")
    return found[1], userinfo, f"{bucket}{slash}{key}"


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


def _absolute(path: str) -> str:
    file = Path(path)
    try:
        file = file.expanduser()
    except RuntimeError:
        # There is no such home folder; the task itself says so.
        return path
    return str(file.absolute())
