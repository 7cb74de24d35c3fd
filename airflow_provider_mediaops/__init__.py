"""Airflow provider for a video platform, a search cluster and a book database."""

from __future__ import annotations

__version__ = "0.1.0"
