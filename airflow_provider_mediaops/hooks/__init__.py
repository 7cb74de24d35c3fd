"""Hooks: an Airflow connection turned into a client of its service."""
