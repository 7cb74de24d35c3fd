from airflow.sdk import DAG, task

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor

with DAG("search_is_slow", schedule="@daily", default_args={"retries": 3}, params={"sustained_for": 60}):
    wait = ClusterCpuSensor(
        task_id="wait",
        threshold=85,
        sustained_for="{{ params.sustained_for }}",  # seconds
        poke_interval=30,
        timeout=23 * 3600,
        soft_fail=True,  # no high CPU until then: all three tasks are skipped
        deferrable=True,
    )

    @task
    def names(nodes: list[dict[str, str]]) -> str:
        """Return the names of the hot nodes."""
        return ", ".join(node["name"] for node in nodes)

    hot = names(wait.output)
    post = PostBulletinOperator(task_id="post", text="Slow at the moment: {{ ti.xcom_pull(task_ids='names') }}.")
    hot >> post
