"""The parameters of the search cluster's endpoints, for the manual."""

from __future__ import annotations

from pydantic import BaseModel, Field


class HotThreadsParameters(BaseModel):
    """The seven parameters of hot threads, for the manual."""

    ignore_idle_threads: bool = Field(default=True, description="Leave idle threads out.")
    interval: str = Field(default="500ms", description="Time between the samplings.")
    snapshots: int = Field(default=10, description="Samples of each thread's stack.")
    threads: int = Field(default=3, description="Threads to report; 9999 reports all.")
    master_timeout: str = Field(
        default="30s", description="How long to wait for the manager node, which is always there."
    )
    timeout: str = Field(default="30s", description="How long to wait for the nodes; a longer sampling fails.")
    type: str = Field(default="cpu", description="What is sampled: `block`, `cpu` or `wait`.")


class StatsParameters(BaseModel):
    """The one parameter of node statistics, for the manual."""

    timeout: str = Field(default="30s", description="How long to wait for the nodes, which answer at once.")


class TasksParameters(BaseModel):
    """The parameters of a list of tasks, for the manual."""

    detailed: bool = Field(default=False, description="Describe each task.")
    nodes: str = Field(default="", description="The nodes; all if it is empty.")
    actions: str = Field(default="", description="The actions, with `*` for any characters; all if it is empty.")
