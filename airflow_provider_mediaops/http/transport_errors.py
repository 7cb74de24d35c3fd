"""Reading the errors of HTTP libraries: the errors they wrap, and words that hold no address and no secret."""

from __future__ import annotations

import os
import re
import ssl
from typing import TYPE_CHECKING

# http.client has no type for it.
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
    for link in found:
        yield link
        beneath = (*link.args, getattr(link, "reason", None), link.__cause__)
        found += [part for part in beneath if isinstance(part, BaseException) and part not in found]


def detail_of(causes: list[BaseException]) -> str:
    """
    Describe an error in one line.

    The libraries' own texts hold the whole address with its query, so only types and the system's words are kept.

    :param causes: what :func:`causes_of` returned.
    :returns: the type, and the system's words if there are any.
    """
    told = next(filter(_system_words, causes), None)
    return f"{type(told).__name__}: {_system_words(told)}" if told else type(causes[-1]).__name__


def _system_words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", "") or error.reason or "TLS failed"
    if refusal := _REFUSED_BY_PROXY.match(str(error)):
        return f"the proxy refused the connection with {refusal[1]}"
    if not isinstance(error, OSError):
        return ""
    # asyncio puts words of its own, with the address, in place of the system's.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or ""
