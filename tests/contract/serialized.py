"""What Airflow stores of a DAG."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.serialization import serialized_objects

if TYPE_CHECKING:
    from airflow.sdk import DAG

# Airflow 3.2 has split the writing and reading from what is read.
SERIALIZATION: Any = vars(serialized_objects).get("DagSerialization") or vars(serialized_objects)["SerializedDAG"]


def written(dag: DAG) -> dict[str, Any]:
    """Give what Airflow stores of a DAG, once it has been text."""
    data = SERIALIZATION.to_dict(dag)
    SERIALIZATION.validate_schema(data)
    content: dict[str, Any] = json.loads(json.dumps(data))
    return content
