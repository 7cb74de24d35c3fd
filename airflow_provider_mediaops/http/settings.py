"""The settings of a client: retries, time limits, proxies, headers and certificates, and the checks of them."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops import __version__

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request

#: The default limit of a reply that may be large, such as a report of hot threads.
MAX_LARGE_REPLY_BYTES = 256 * 1024 * 1024
#: The number of connections that a transport keeps: a list of ISBNs has as many requests under way.
MAX_CONNECTIONS = 64

#: The environment variables that name certificates to trust.
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def is_header_name(text: str) -> bool:
    """Return whether a text can be the name of a header: a token of RFC 9110."""
    return bool(_HEADER_NAME.fullmatch(text))


def is_header_text(text: str) -> bool:
    """Return whether a text can stand in a header as it is: printable ASCII, no blank at its ends, not empty."""
    return text.isascii() and text.isprintable() and text == text.strip() != ""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The certificate that a client shows. Its files are read for each connection, so they may be renewed."""

    certificate: str  # path (PEM)
    key: str  # path (PEM); it may be that of the certificate
    password: str = field(default="", repr=False)  # of the key, if it is encrypted


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """
    The settings of a transport.

    A request takes at most ``connect_timeout`` plus the read time limit in all, however slowly the bytes arrive.
    """

    connect_timeout: float = 10.0  # seconds to make a connection to each address of the host
    read_timeout: float = 60.0  # seconds to wait for the next bytes of a reply, unless a request asks for more
    # By scheme (``http``, ``https``); empty follows the environment.
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Of every request.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool | str = True  # or the path of a file or folder with the certificates to trust
    client_certificate: ClientCertificate | None = None
    max_large_reply_bytes: int = MAX_LARGE_REPLY_BYTES  # after decompression

    def read_limit(self, request: Request) -> float:
        """Return the seconds to wait for the next bytes of the reply to a request."""
        return max(self.read_timeout, request.read_timeout)

    def total_limit(self, request: Request) -> float:
        """Return the seconds that a whole exchange may take, from the connection to the last byte of the reply."""
        limit = self.connect_timeout + self.read_limit(request)
        return limit if request.max_seconds is None else min(limit, request.max_seconds)

    def max_bytes(self, request: Request) -> int:
        """Return the limit of the size of the reply to a request."""
        return self.max_large_reply_bytes if request.max_bytes is None else request.max_bytes

    def default_headers(self) -> dict[str, str]:
        """Return the headers of every request. Some services compress only if the user agent says gzip."""
        agent = f"airflow-provider-mediaops/{__version__} (gzip)"
        return {"User-Agent": agent, "Accept-Encoding": "gzip", "Accept": "*/*", **self.headers}

    def trust(self) -> bool | str:
        """Return ``verify``, or the path that the environment names, as requests does."""
        if self.verify is not True:
            return self.verify
        paths = map(os.environ.get, CA_VARIABLES)
        return next((path for path in paths if path), True)


def trust_problem(trust: bool | str) -> str:  # noqa: FBT001
    """Return why the certificates to trust cannot be loaded; empty if they can. This takes tens of milliseconds."""
    if not isinstance(trust, str):
        return ""
    is_folder = Path(trust).is_dir()
    try:
        ssl.create_default_context(cafile=None if is_folder else trust, capath=trust if is_folder else None)
    except OSError as error:
        # OpenSSL's own words about the content of a file help nobody.
        return "it holds no certificates (PEM)" if isinstance(error, ssl.SSLError) else str(error.strerror)
    return ""
