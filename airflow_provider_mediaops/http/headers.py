"""The headers of a request: check them before an HTTP library does, and merge them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.exchange import Failure, TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def is_header_name(text: str) -> bool:
    """Return whether a text can be the name of a header: a token of RFC 9110."""
    return bool(_NAME.fullmatch(text))


def is_header_text(text: str) -> bool:
    """Return whether a text can stand in a header as it is: printable ASCII, no blank at its ends, not empty."""
    return text.isascii() and text.isprintable() and text == text.strip() != ""


def merge_headers(headers: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Merge headers: ``own`` replaces those of the same name, which may differ in case."""
    replaced = {name.lower() for name in own}
    return {**{name: value for name, value in headers.items() if name.lower() not in replaced}, **own}


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise a TransportError if the value of a header cannot be sent, before any part of the request is."""
    for name, value in headers.items():
        if not is_header_text(value):
            raise TransportError(Failure.CONFIGURATION, f"the header {name} holds characters that cannot be sent")
