"""Proxies, and the tunnels that they open."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.settings import TransportSettings

if TYPE_CHECKING:
    from pathlib import Path


OK = b"HTTP/1.1 200 OK\r\n"


def through(proxy: str, *, verify: bool | str = True, limit: float = 240.0) -> TransportSettings:
    proxies = {"http": proxy, "https": proxy}
    return TransportSettings(connect_timeout=limit, read_timeout=limit, proxies=proxies, verify=verify)


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
