"""Read hot threads reports: text to report, and back byte for byte."""

from __future__ import annotations

from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport
from airflow_provider_mediaops.cluster.hot_threads.parser import parse

__all__ = ["HotThreadsReport", "parse"]
