"""What only a connection to a search cluster has: hosted addresses, keys as people paste them, a client certificate."""

from __future__ import annotations

import base64
import json
import re
import ssl
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
    from airflow_provider_mediaops.http.settings import ClientCertificate

#: A pattern of the end of each host name of Amazon's.
OF_AMAZON = r"\.(?:amazonaws\.com|on\.aws|amazonaws\.com\.cn|on\.amazonwebservices\.com\.cn)"
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})")
_PORTS = 65_536
_PORT = re.compile("[0-9]{1,5}")
_SERVERLESS = re.compile(rf".*\.aoss(?:\.[a-z0-9-]+)?{OF_AMAZON}")
_API_KEY = "the API key, as encoded or as id:api_key, with auth=api_key"
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_KEY = b"PRIVATE KEY-----"


def with_cloud_address(fields: ConnectionFields) -> ConnectionFields:
    """
    Return the fields with the address that the cloud id stands for; unchanged if there is none.

    A cloud id is ``name:`` and, in base64, ``domain[:port]$cluster[:port]$kibana[:port]``.

    :raises InvalidConnectionError: if it is damaged, or there is a host, too.
    """
    cloud_id = fields.text("cloud_id")
    if not cloud_id:
        return fields
    if fields.host:
        raise fields.error("cloud_id", "host is filled in, too, and both name the cluster: leave one of them empty.")
    address = _address_in(cloud_id)
    if not address:
        raise fields.error(
            "cloud_id",
            "it is damaged: copy it whole from the deployment's page of Elastic Cloud, for example "
            "'my-deployment:ZXVyb3BlLXdlc3QxLmdjcC5jbG91ZC5lcy5pbyRhYmM…'.",
        )
    return replace(fields, host=address)


def _address_in(cloud_id: str) -> str:
    """Return the address of the cluster in a cloud id; empty if it is damaged."""
    try:
        text = base64.b64decode(cloud_id.rpartition(":")[2], validate=True).decode("ascii")
    except ValueError:
        return ""
    domain, _, rest = text.partition("$")
    domain, _, port = domain.partition(":")
    # That of the cluster itself wins.
    cluster, _, own_port = rest.partition("$")[0].partition(":")
    port = own_port or port or "443"
    is_whole = cluster and _HOST_NAME.fullmatch(f"{cluster}.{domain}") and _PORT.fullmatch(port) and domain
    return f"https://{cluster}.{domain}:{port}" if is_whole and 0 < int(port) < _PORTS else ""


def refuse_serverless(fields: ConnectionFields, urls: tuple[str, ...]) -> None:
    """
    Make sure that no address is one of Amazon OpenSearch Serverless, which has no routes for nodes.

    :raises InvalidConnectionError: if one is.
    """
    if any(_SERVERLESS.fullmatch(urlsplit(url).hostname or "") for url in urls):
        raise fields.error(
            "host",
            "it is that of Amazon OpenSearch Serverless, which has no nodes that could be asked: hot threads and "
            "statistics need a domain of Amazon OpenSearch Service.",
        )


def api_key(fields: ConnectionFields) -> str:
    """
    Return the encoded form of the API key in the password.

    It may be pasted encoded, as ``id:api_key``, as the JSON of the reply that made it, or with ``ApiKey`` before it.

    :raises InvalidConnectionError: if the password is none of these.
    """
    key = _without_scheme(fields.password, "ApiKey")
    if key.lstrip().startswith("{"):
        key = _key_in_json(fields, key)
    elif ":" in key:
        # Base64 has no colon.
        key = base64.b64encode(key.encode()).decode("ascii")
    return replace(fields, password=key).credential(_API_KEY)


def bearer_token(fields: ConnectionFields) -> str:
    """
    Return the token in the password, without ``Bearer`` before it.

    :raises InvalidConnectionError: if it cannot be sent.
    """
    token = _without_scheme(fields.password, "Bearer")
    return replace(fields, password=token).credential("the token, with auth=bearer")


def _without_scheme(text: str, scheme: str) -> str:
    first, blank, rest = text.partition(" ")
    return rest.strip() if blank and first.lower() == scheme.lower() else text


def _key_in_json(fields: ConnectionFields, text: str) -> str:
    try:
        reply = json.loads(text)
    except ValueError:
        reply = {}
    if isinstance(encoded := reply.get("encoded"), str):
        return encoded
    parts = reply.get("id"), reply.get("api_key")
    if not all(isinstance(part, str) and part for part in parts):
        raise fields.error(
            "password", f"it begins like JSON, but has neither encoded nor id and api_key: write {_API_KEY}."
        )
    return base64.b64encode(":".join(parts).encode()).decode("ascii")


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
