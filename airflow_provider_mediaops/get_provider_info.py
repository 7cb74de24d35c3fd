"""What Airflow asks of a provider at start: its name, connection types and modules."""

from __future__ import annotations

from typing import Any

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES, DEFAULT_RATE_STORE

_SERVICES = {name.removeprefix("mediaops_"): described["hook-name"] for name, described in CONNECTION_TYPES.items()}

_CONFIG: dict[str, Any] = {
    "mediaops": {
        "description": "What the MediaOps provider shares between tasks.",
        "options": {
            "rate_limit_store": {
                "description": (
                    "Where the rate of a key is kept for all tasks, workers and triggerers that use the key: "
                    "memory:// for each process on its own; sqlite:////folder/file.db, on a local disk, for the "
                    "processes of one machine; redis://user:password@host:port/database (rediss:// for TLS), which "
                    "needs the extra redis, for those of many machines."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "redis://redis.example.com:6379/0",
                "default": DEFAULT_RATE_STORE,
                # It may hold a password.
                "sensitive": True,
            },
            "pages": {
                "description": (
                    "Whether Airflow has the pages about hot threads: a tab of each task instance, and a list. The API "
                    "server reads it when it starts."
                ),
                "version_added": "0.1.0",
                "type": "boolean",
                "example": "False",
                "default": "True",
            },
        },
    },
}


def _modules(kind: str, **beside: list[str]) -> list[dict[str, Any]]:
    """Describe the modules of a kind: of each service the one of its name, and those that are beside it."""
    return [
        {
            "integration-name": name,
            "python-modules": [
                f"airflow_provider_mediaops.{kind}.{module}" for module in (service, *beside.get(service, ()))
            ],
        }
        for service, name in _SERVICES.items()
    ]


def get_provider_info() -> dict[str, Any]:
    """Describe this provider to Airflow (entry point ``apache_airflow_provider``)."""
    return {
        "package-name": "airflow-provider-mediaops",
        "name": "MediaOps",
        "description": "Post bulletins, export subscriptions, capture hot threads and enrich lists of ISBNs.",
        "integrations": [{"integration-name": name, "tags": ["service"]} for name in _SERVICES.values()],
        "connection-types": list(CONNECTION_TYPES.values()),
        "config": _CONFIG,
        "hooks": _modules("hooks"),
        "operators": _modules("operators", cluster=["cluster_digest"]),
        "sensors": _modules("sensors"),
        "triggers": _modules("triggers"),
        "extra-links": [
            "airflow_provider_mediaops.operators.links.HotThreadsReportLink",
            "airflow_provider_mediaops.operators.links.DatasetLink",
        ],
        "asset-uris": [
            {
                "schemes": [f"mediaops-{service}"],
                "handler": "airflow_provider_mediaops.asset_uris.sanitize_uri",
                "factory": f"airflow_provider_mediaops.asset_uris.create_{service}_asset",
                "to_openlineage_converter": "airflow_provider_mediaops.asset_uris.convert_asset_to_openlineage",
            }
            for service in _SERVICES
        ],
        "notifications": [
            "airflow_provider_mediaops.notifications.PostBulletinNotifier",
            "airflow_provider_mediaops.notifications.CaptureHotThreadsNotifier",
        ],
        # Read since Airflow 3.2.
        "cli": ["airflow_provider_mediaops.cli.commands.airflow_commands"],
    }
