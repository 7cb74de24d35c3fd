"""Addresses of clusters that Elastic and Amazon host."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.connection.fields import ConnectionFields

#: A pattern of the end of each host name of Amazon's.
OF_AMAZON = r"\.(?:amazonaws\.com|on\.aws|amazonaws\.com\.cn|on\.amazonwebservices\.com\.cn)"
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})")
_PORTS = 65_536
_PORT = re.compile("[0-9]{1,5}")
_SERVERLESS = re.compile(rf".*\.aoss(?:\.[a-z0-9-]+)?{OF_AMAZON}")


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
