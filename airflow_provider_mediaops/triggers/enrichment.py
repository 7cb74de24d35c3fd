"""The former place of ``EnrichmentTrigger``, which rows in Airflow's database name."""

from airflow_provider_mediaops.triggers.books import EnrichmentTrigger

__all__ = ["EnrichmentTrigger"]
