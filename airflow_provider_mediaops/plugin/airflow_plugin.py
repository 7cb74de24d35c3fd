"""
Register the pages with Airflow: a tab of each task instance, a list in the navigation, and the app that serves both.

Every process of Airflow imports this module, so it imports next to nothing; the app is built at its first request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow import __version__ as airflow_version
from airflow.configuration import conf

from airflow_provider_mediaops.report_urls import LIST_PATH, LIST_ROUTE, REPORT_PATH, TAB_ROUTE, URL_PREFIX

# Not through version_compat, whose imports take longer than this module. Airflow has the first one loaded in every
# process; Airflow 3.1 has the second one only.
try:
    from airflow.sdk.plugins_manager import AirflowPlugin
except ImportError:
    from airflow.plugins_manager import AirflowPlugin  # type: ignore[assignment]

if TYPE_CHECKING:
    Message = MutableMapping[str, Any]

_log = logging.getLogger(__name__)

#: Whether the API server knows a reader by the cookie that the browser sends with each request. That of Airflow 3.1.0
#: knows requests of its own scripts only, which send a header. This can go with 3.1.0.
HAS_SESSION_COOKIES = not airflow_version.startswith("3.1.0")

# With a fallback: Airflow 3.1 imports a plugin before it knows the defaults of a provider's options. An option without
# a value is as one that is not there.
_HAS_PAGES = HAS_SESSION_COOKIES and (
    not conf.get("mediaops", "pages", fallback="").strip() or conf.getboolean("mediaops", "pages")
)


class PagesApp:
    """The app of the pages, for ASGI servers. It is built at its first request."""

    _app: Any = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        if self._app is None:
            # The imports take a moment, in which the server answers others. Of two first requests, each builds one.
            self._app = await asyncio.to_thread(_built_app)
        await self._app(scope, receive, send)


def _built_app() -> Any:
    from airflow_provider_mediaops.metrics import use_airflow_metrics
    from airflow_provider_mediaops.plugin.app import build_app

    use_airflow_metrics()
    return build_app()


def _external_views() -> list[dict[str, Any]]:
    base = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return [
        {
            "name": "Hot threads",
            # Airflow puts the names in. The run comes last: its id may contain a slash.
            "href": f"{base}{URL_PREFIX}{REPORT_PATH}/{{DAG_ID}}/{{TASK_ID}}/{{MAP_INDEX}}/{{RUN_ID}}",
            "destination": "task_instance",
            "url_route": TAB_ROUTE,
        },
        {
            "name": "Hot threads",
            "href": f"{base}{URL_PREFIX}{LIST_PATH}",
            "destination": "nav",
            "category": "browse",
            "url_route": LIST_ROUTE,
        },
    ]


class MediaOpsPlugin(AirflowPlugin):
    """The pages of this provider in Airflow."""

    name = "mediaops"
    fastapi_apps = [{"app": PagesApp(), "url_prefix": URL_PREFIX, "name": "Hot threads"}] if _HAS_PAGES else []
    external_views = _external_views() if _HAS_PAGES else []

    @classmethod
    def on_load(cls, *_: Any, **__: Any) -> None:
        """Log if this version of Airflow cannot have the pages."""
        if not HAS_SESSION_COOKIES:
            _log.info(
                "The pages about hot threads need Airflow 3.1.1 or newer: before, a page within Airflow's own does not "
                "learn who reads it. Everything else of airflow-provider-mediaops works."
            )
