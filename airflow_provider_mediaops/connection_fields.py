"""
The three connection types: their form fields, defined once.

``get_provider_info`` hands them to Airflow 3.2 and later as metadata; for 3.1 the hooks build the same form from them
in Python. Nothing here imports Airflow, because Airflow reads it while it is itself half imported.
"""

from __future__ import annotations

from typing import Any

VIDEO = "mediaops_video"
CLUSTER = "mediaops_cluster"
BOOKS = "mediaops_books"

#: Where the rates of keys are kept unless something else is configured: a file for all processes of one machine.
DEFAULT_RATE_STORE = "sqlite:///{AIRFLOW_HOME}/mediaops_rate_limits.db"


def _field(label: str, description: str, kind: str = "string", **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **schema}}


def _secret(label: str, description: str) -> dict[str, Any]:
    return _field(label, description, format="password")


def _rate(description: str) -> dict[str, Any]:
    return _field("Requests per second", description, "number", minimum=0.001, maximum=100_000)


def _rate_store(description: str) -> dict[str, Any]:
    return _field(
        "Rate store",
        f"{description}: memory://, sqlite:////folder/file.db or redis://host. Default: rate_limit_store of Airflow's "
        "section [mediaops], where an address with a password belongs: this is shown.",
    )


def _port(port: int) -> str:
    # Airflow answers the Test of a stored connection with "Bad Request" if its port is empty.
    return f"{port}; the Test button of a saved connection needs it"


_SHARED: dict[str, Any] = {
    "timeout": _field(
        "Time limits",
        "Seconds to connect and to wait for a reply, as 'connect, read'; one figure serves for both. Default: 10, 60.",
    ),
    "max_attempts": _field(
        "Tries", "How often one call is tried in all. Default: 5.", "integer", minimum=1, maximum=100
    ),
    "max_wait": _field(
        "Time for one call", "Seconds after which no further try of a call begins. Default: 120.", "number", minimum=0
    ),
    "proxies": _field(
        "Proxies",
        'One proxy address for all requests, or a JSON object such as {"https": "http://proxy:3128"}.',
    ),
    "headers": _field(
        "Headers",
        "A JSON object of headers to send with every request. Not for credentials: they are shown here.",
    ),
}

_VIDEO_FIELDS: dict[str, Any] = {
    "auth": _field(
        "Authentication",
        "bearer: access token in Password. refresh_token: client id in Login, client secret in Password. "
        "api_key: key in Password, public data only. none: no credentials. Default: bearer.",
        enum=["bearer", "refresh_token", "api_key", "none"],
        default="bearer",
    ),
    "refresh_token": _secret("Refresh token", "The long-lived token of the user who gave access."),
    "token_url": _field("Token address", "Where refresh tokens are exchanged for access tokens.", format="url"),
    "scopes": _field("Scopes", "Scopes to ask for at refresh, separated by blanks; empty keeps those granted."),
    "kind_prefix": _field("Kind prefix", "What stands before # in kinds: svc#video. Default: svc."),
    "requests_per_second": _rate(
        "The rate that all who use the credential share, and with it a spent quota. Default: each asks for itself."
    ),
    "rate_limit_store": _rate_store("With requests per second: where all who use the credential share them"),
    **_SHARED,
}

_CLUSTER_FIELDS: dict[str, Any] = {
    "auth": _field(
        "Authentication",
        "basic: Login and Password. api_key or bearer: the key or token in Password. aws: requests signed for Amazon "
        "OpenSearch Service. none: no credentials. Empty: basic if Login is given, none if Login and Password are "
        "empty.",
        enum=["basic", "api_key", "bearer", "aws", "none"],
    ),
    "aws_conn_id": _field(
        "AWS connection",
        "With aws: the connection of type aws whose credentials sign. Empty: those of the machine.",
    ),
    "region": _field(
        "AWS region",
        "With aws: the region of the domain. Empty: that in the base address, or that of the AWS connection.",
    ),
    "cloud_id": _field("Cloud id", "The id of a deployment of Elastic Cloud, instead of Base addresses."),
    "client_cert": _field(
        "Client certificate", "Path of a file (PEM) with the certificate to show, on every worker and triggerer."
    ),
    "client_key": _field("Client key", "Path of the certificate's private key (PEM), if it is in a file of its own."),
    "client_key_password": _secret("Client key password", "The password of the private key, if it is encrypted."),
    "ca_cert": _field(
        "CA certificate", "Path of a file with the certificates to trust, on every worker and triggerer."
    ),
    "verify": _field("Verify TLS", "Whether the cluster's certificate is checked.", "boolean", default=True),
    "cpu_measure": _field(
        "CPU measure",
        "os: the machine. process: the node's own process. cgroup: the container against its limit. auto: the highest "
        "of these that is known. Default: auto.",
        enum=["auto", "os", "process", "cgroup"],
        default="auto",
    ),
    "max_report_mb": _field(
        "Largest report (MB)",
        "The largest report of hot threads that is read, in MB. A capture may take five times of it in memory. "
        "Default: 256.",
        "integer",
        minimum=1,
        maximum=4096,
    ),
    **_SHARED,
}

_BOOKS_FIELDS: dict[str, Any] = {
    "plan": _field(
        "Plan",
        "The key's plan, which sets the rate: default 1, premium 3, pro 5 requests a second. Default: default.",
        enum=["default", "premium", "pro"],
        default="default",
    ),
    "requests_per_second": _rate("The key's rate, if it is not that of its plan."),
    "canary_isbn": _field(
        "Canary ISBN",
        "An ISBN known to be in the database: asked again to distinguish 'no such book' from 'limit reached'.",
    ),
    "rate_limit_store": _rate_store("Where all who use the key share its rate"),
    **_SHARED,
}

#: Everything Airflow asks of a connection type, in the shape of the provider-info key ``connection-types``.
CONNECTION_TYPES: dict[str, dict[str, Any]] = {
    VIDEO: {
        "connection-type": VIDEO,
        "hook-class-name": "airflow_provider_mediaops.hooks.video.VideoPlatformHook",
        "hook-name": "MediaOps video platform",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {
                "host": "Base address",
                "schema": "Scheme",
                "login": "Client ID",
                "password": "Access token, client secret or API key",
            },
            "placeholders": {
                "host": "https://video.example.com (what stands before /v3)",
                "schema": "https",
                "port": _port(443),
                "login": "for refresh_token",
            },
        },
        "conn-fields": _VIDEO_FIELDS,
    },
    CLUSTER: {
        "connection-type": CLUSTER,
        "hook-class-name": "airflow_provider_mediaops.hooks.cluster.SearchClusterHook",
        "hook-name": "MediaOps search cluster",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {
                "host": "Base addresses",
                "schema": "Scheme",
                "password": "Password, API key or token",
            },
            "placeholders": {
                "host": "https://node1:9200, https://node2:9200",
                "schema": "https",
                "port": _port(9200),
            },
        },
        "conn-fields": _CLUSTER_FIELDS,
    },
    BOOKS: {
        "connection-type": BOOKS,
        "hook-class-name": "airflow_provider_mediaops.hooks.books.BookDatabaseHook",
        "hook-name": "MediaOps book database",
        "ui-field-behaviour": {
            "hidden-fields": ["login"],
            "relabeling": {"host": "Base address of the plan", "schema": "Scheme", "password": "REST key"},
            "placeholders": {"host": "https://books.example.com", "schema": "https", "port": _port(443)},
        },
        "conn-fields": _BOOKS_FIELDS,
    },
}
