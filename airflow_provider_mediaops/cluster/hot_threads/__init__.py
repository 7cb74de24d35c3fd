"""Read hot-threads reports: text to report, and back byte for byte."""

from __future__ import annotations

from airflow_provider_mediaops.cluster.hot_threads.model import (
    HotNode,
    HotThread,
    HotThreadsReport,
    StackGroup,
    Unparsed,
)
from airflow_provider_mediaops.cluster.hot_threads.parser import parse

__all__ = ["HotNode", "HotThread", "HotThreadsReport", "StackGroup", "Unparsed", "parse"]
