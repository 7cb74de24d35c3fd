"""Addresses of clusters that Amazon and Elastic host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.connection.fields import ConnectionFields

#: A pattern of the end of each host name of Amazon's.
OF_AMAZON = r"\.(?:amazonaws\.com|on\.aws|amazonaws\.com\.cn|on\.amazonwebservices\.com\.cn)"
_SERVERLESS = re.compile(rf".*\.aoss(?:\.[a-z0-9-]+)?{OF_AMAZON}")


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
