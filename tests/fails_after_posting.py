"""A task that posts a bulletin and fails afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.operators.video import PostBulletinOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class FailsAfterPosting(PostBulletinOperator):
    """Its first try fails when all is done, as one does whose return value cannot be stored."""

    def execute(self, context: Context) -> dict[str, Any]:
        activity = super().execute(context)
        if context["ti"].try_number == 1:
            raise OSError("The worker's disk is full.")
        return activity
