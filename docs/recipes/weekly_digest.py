"""Post a weekly digest of the channels that were subscribed to in the seven days before."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, ObjectStoragePath, task

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator

with DAG(
    dag_id="weekly_digest",
    schedule="0 9 * * MON",
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
    params={"folder": "s3://aws_default@exports/digest", "days": 7},
):
    export = ExportSubscriptionsOperator(
        task_id="export",
        destination="{{ params.folder }}/{{ run_id }}.jsonl",
        mine=True,
        part="snippet",
        order="alphabetical",
    )

    @task.short_circuit
    def digest(result: dict[str, Any], params: dict[str, int]) -> str:
        """Name the newest channels; without any, the bulletin is skipped."""
        since = datetime.now(timezone.utc) - timedelta(days=params["days"])
        snippets = [json.loads(line)["snippet"] for line in ObjectStoragePath(result["path"]).read_text().splitlines()]
        titles = [
            snippet["title"]
            for snippet in sorted(snippets, key=lambda snippet: snippet["publishedAt"], reverse=True)
            # Python 3.10 does not read the Z of UTC.
            if datetime.fromisoformat(snippet["publishedAt"].replace("Z", "+00:00")) >= since
        ]
        more = f" and {len(titles) - 10} more" if len(titles) > 10 else ""
        return f"New this week: {', '.join(titles[:10])}{more}." if titles else ""

    # The text is that of the first attempt: a retry never posts twice (Airflow 3.3).
    PostBulletinOperator(task_id="post", text=digest(export.output))
