"""The trigger of the search cluster's sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.triggers.service import WatchTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.watch import CpuWatch
    from airflow_provider_mediaops.hooks.cluster import SearchClusterHook


class HighCpuTrigger(WatchTrigger):
    """
    Waits in the triggerer until nodes run hot; its ``watch`` holds the fields of ``CpuWatch``.

    Where the triggerer restarts, a streak of high readings begins anew.
    """

    def _make_hook(self) -> SearchClusterHook:
        from airflow_provider_mediaops.hooks.cluster import SearchClusterHook

        return SearchClusterHook(self.conn_id)

    def _make_watch(self) -> CpuWatch:
        from airflow_provider_mediaops.cluster.watch import CpuWatch

        return CpuWatch(**self.watch)
