"""Wait for high CPU, capture the hot threads at that moment, and mail the page to whoever is on call."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.smtp.hooks.smtp import SmtpHook
from airflow.sdk import DAG, ObjectStoragePath, task

from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator

with DAG(
    dag_id="capture_and_page",
    schedule="@daily",
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    params={
        "folder": "s3://aws_default@reports/on_call",
        "sustained_for": 60,  # seconds
        "wait_timeout": 23 * 3600,
        "to": "on-call@example.com",
    },
):
    capture = CaptureHotThreadsOperator(
        task_id="capture",
        destination="{{ params.folder }}/{{ run_id }}/hot_threads.txt",
        when_cpu_above=85,
        sustained_for="{{ params.sustained_for }}",
        poll_interval=10,
        wait_timeout="{{ params.wait_timeout }}",  # no spike: the run is skipped, and nobody is paged
        captures=2,
        deferrable=True,
    )

    @task
    def page_the_team(capture: dict[str, Any], params: dict[str, Any]) -> str:
        """Mail the page as an attachment: it is one file that needs no network."""
        node, percent = capture["cpu"][0]["node"], capture["cpu"][0]["percent"]
        subject = f"{node} is at {percent} % CPU"
        with TemporaryDirectory() as folder, SmtpHook("smtp_default") as smtp:
            page = Path(folder, "hot_threads.html")
            page.write_bytes(ObjectStoragePath(capture["paths"]["html"]).read_bytes())
            threads = "<br>".join(f"{thread['percent']} % {thread['thread']}" for thread in capture["hottest"])
            smtp.send_email_smtp(to=params["to"], subject=subject, html_content=threads, files=[str(page)])
        return subject

    page_the_team(capture.output)
