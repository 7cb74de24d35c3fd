"""Read the certificate that a connection shows to its cluster, and tell what is wrong with its files."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.connection.fields import ConnectionFields
    from airflow_provider_mediaops.http.settings import ClientCertificate

_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_KEY = b"PRIVATE KEY-----"


def client_certificate(fields: ConnectionFields) -> ClientCertificate | None:
    """
    Return the certificate that the connection names, whose files have been tried.

    :raises InvalidConnectionError: for a file that cannot be used on this machine, and for a wrong password.
    """
    from airflow_provider_mediaops.http.settings import ClientCertificate

    certificate, key = fields.text("client_cert"), fields.text("client_key")
    password = str(fields.extra.get("client_key_password") or "")
    if not certificate:
        for name, value in (("client_key", key), ("client_key_password", password)):
            if value:
                raise fields.error(name, "without client_cert it has no use: fill both in, or leave both empty.")
        return None
    _check_file(fields, "client_cert", certificate, _CERTIFICATE, "certificate")
    _check_file(fields, "client_key" if key else "client_cert", key or certificate, _KEY, "private key")
    shown = ClientCertificate(certificate, key or certificate, password)
    _check_pair(fields, shown)
    return shown


def _check_file(fields: ConnectionFields, name: str, path: str, mark: bytes, content: str) -> None:
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise fields.error(name, f"{path} cannot be used on this machine: {error.strerror}.") from None
    if mark not in text:
        raise fields.error(name, f"{path} holds no {content} (PEM).")


def _check_pair(fields: ConnectionFields, shown: ClientCertificate) -> None:
    asked = False

    def password() -> str:
        nonlocal asked
        asked = True
        return shown.password

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(shown.certificate, shown.key, password)
    except (ssl.SSLError, ValueError) as error:
        mismatch = getattr(error, "reason", "") == "KEY_VALUES_MISMATCH"
    else:
        return
    if mismatch:
        raise fields.error("client_key", "it is the key of another certificate than that in client_cert.")
    if asked:
        problem = "it is not that of the key." if shown.password else "it is empty, but the key is encrypted."
        raise fields.error("client_key_password", problem)
    raise fields.error("client_cert", "certificate or key is damaged: no PEM that OpenSSL can read.")
