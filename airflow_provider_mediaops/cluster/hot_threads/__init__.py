"""Read hot threads reports: text to report, and back byte for byte."""

from __future__ import annotations

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.hot_threads.report import HotThreadsReport

__all__ = ["HotThreadsReport", "parse"]
