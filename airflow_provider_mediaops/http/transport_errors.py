"""Read the errors of HTTP libraries: the errors that they wrap, and a description without addresses and secrets."""

from __future__ import annotations

import os
import re
import ssl
from typing import TYPE_CHECKING

# http.client has no exception type for this.
_REFUSED_BY_PROXY = re.compile("Tunnel connection failed: ([0-9]{3})")

if TYPE_CHECKING:
    from collections.abc import Iterator


def causes_of(error: BaseException) -> list[BaseException]:
    """
    List an error and those that it wraps.

    :param error: the error, as the library raised it.
    :returns: the error first, the system's own last.
    """
    return list(_walk(error))


def _walk(error: BaseException) -> Iterator[BaseException]:
    found: list[BaseException] = [error]
    for each in found:
        yield each
        wrapped = (*each.args, getattr(each, "reason", None), each.__cause__)
        found += [part for part in wrapped if isinstance(part, BaseException) and part not in found]


def detail_of(causes: list[BaseException]) -> str:
    """
    Describe an error in one line.

    The libraries' own texts hold the whole address with its query, so only types and the system's messages are kept.

    :param causes: the result of :func:`causes_of`.
    :returns: the type, and the system's message if there is one.
    """
    clear = next(filter(_system_message, causes), None)
    return f"{type(clear).__name__}: {_system_message(clear)}" if clear else type(causes[-1]).__name__


def _system_message(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", "") or error.reason or "TLS failed"
    if refusal := _REFUSED_BY_PROXY.match(str(error)):
        return f"the proxy refused the connection with {refusal[1]}"
    if not isinstance(error, OSError):
        return ""
    # asyncio replaces the system's message by one with the address.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or ""
