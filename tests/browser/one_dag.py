"""Airflow's own simple accounts, but one of them may read a single DAG only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

#: Who may read which DAG, and no other.
READER = "reader"
READABLE = "mediaops_enrich_isbns"


class OneDagAuthManager(SimpleAuthManager):
    """Has a reader of one DAG among its accounts, as a deployment with roles for each DAG has."""

    def is_authorized_dag(
        self, *, user: SimpleAuthManagerUser, details: DagDetails | None = None, **asked: Any
    ) -> bool:
        """Refuse the reader each DAG but one; where no DAG is named, others decide for each."""
        if user.username == READER and details and details.id not in (None, READABLE):
            return False
        return bool(super().is_authorized_dag(user=user, details=details, **asked))
